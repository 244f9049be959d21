"""All functions that are computed here, as each module has registered them."""

from __future__ import annotations

from headwater.filters import (
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
from headwater.filters.functions import implementation

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
