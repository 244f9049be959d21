"""Rows of a window merged into tables that mirror the source, or keep its history."""

from __future__ import annotations
