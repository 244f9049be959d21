"""Types whose send functions are tested."""

from __future__ import annotations

from dataclasses import replace

from headwater.catalog.relation import TypeInfo
from unit.rows.value_samples import SAMPLES


def with_send(type: TypeInfo) -> TypeInfo:
    """Give a type its send function: types of the samples come without such names, but with those of output."""
    if not type.output or type.element is not None:
        return type
    return replace(type, send=type.output.replace("_out", "_send"))


UNSENT = ("query_int", "seg", "ean13", "isbn", "issn", "aclitem")
"""Types that have no send function."""

TYPES = [(with_send(type), payload) for type, payload in SAMPLES if type.name not in UNSENT]
