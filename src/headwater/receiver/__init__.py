"""What comes from a running server: its catalog."""

from __future__ import annotations
