"""Cells and stored values as columns of Arrow."""

from __future__ import annotations
