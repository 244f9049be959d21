"""Effects of a window on tables: those that come, change, move and go, and the rows of each."""

from __future__ import annotations
