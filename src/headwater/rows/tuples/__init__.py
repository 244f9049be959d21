"""Heap tuples, taken apart, and their values, printed as cells."""

from __future__ import annotations
