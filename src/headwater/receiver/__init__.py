"""The readers of a running server: its catalog, and its WAL as it is written."""

from __future__ import annotations
