"""How far the target is, as the target itself keeps it."""

from __future__ import annotations
