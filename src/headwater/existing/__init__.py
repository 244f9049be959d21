"""Rows of a base backup as of an LSN: its heap files, and what the WAL did to their pages since.

In: a copy and the WAL after it. Out: rows that are visible at the LSN.
"""

from __future__ import annotations
