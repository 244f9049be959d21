"""Stub until branch catalog is merged."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CatalogImage:
    """Stub."""
