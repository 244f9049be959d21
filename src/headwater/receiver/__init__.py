"""The readers of a running server: its catalog."""

from __future__ import annotations
