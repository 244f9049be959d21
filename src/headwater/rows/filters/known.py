"""All functions that are computed here; what each module has registered."""

from __future__ import annotations

from headwater.rows.filters import (
    arrays,
    comparisons,
    datetimes,
    jsons,
    networks,
    numbers,
    numerics,
    patterns,
    ranges,
    regexes,
    texts,
)
from headwater.rows.filters.functions import implementation

__all__ = [
    "arrays",
    "comparisons",
    "datetimes",
    "implementation",
    "jsons",
    "networks",
    "numbers",
    "numerics",
    "patterns",
    "ranges",
    "regexes",
    "texts",
]
