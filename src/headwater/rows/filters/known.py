"""All functions that are computed here; what each module has registered."""

from __future__ import annotations

from headwater.rows.filters import (
    arrays,
    comparisons,
    datetimes,
    hashes,
    jsons,
    networks,
    numbers,
    numerics,
    patterns,
    ranges,
    regexes,
    texts,
    zones,
)
from headwater.rows.filters.functions import implementation

__all__ = [
    "arrays",
    "comparisons",
    "datetimes",
    "hashes",
    "implementation",
    "jsons",
    "networks",
    "numbers",
    "numerics",
    "patterns",
    "ranges",
    "regexes",
    "texts",
    "zones",
]
