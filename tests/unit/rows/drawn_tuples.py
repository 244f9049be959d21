"""Relations and tuples that Hypothesis draws."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from headwater.catalog.relation import RelationSchema, TypeInfo
from headwater.rows.items import Cells
from headwater.rows.session import SessionSettings
from headwater.rows.tuples.layout import compile_layouts
from headwater.rows.tuples.render import render
from unit.rows.plain_tuples import (
    BOOL,
    SIMPLE_TYPES,
    Slice,
    compressed,
    form_tuple,
    make_column,
    make_schema,
    packed,
    plain,
)

SESSION = SessionSettings()


def run(made: Slice, *schemas: RelationSchema, room: int | None = None) -> Cells:
    return render(made.array(), made.items(), compile_layouts(schemas, SESSION), room=room)


@st.composite
def datums(draw: st.DrawFn, type: TypeInfo) -> bytes:
    """Draw a datum of a type, in any of the forms it may have inside a tuple."""
    if type.typlen > 0:
        raw = draw(st.binary(min_size=type.typlen, max_size=type.typlen))
        return bytes([raw[0] & 1]) if type is BOOL else raw
    payload = draw(st.one_of(st.binary(max_size=20), st.binary(min_size=120, max_size=140), st.just(b"ab" * 200)))
    form = draw(st.sampled_from([packed, plain, compressed, lambda body: compressed(body, 1)]))
    return form(payload) if payload or form in (packed, plain) else plain(payload)


@st.composite
def relations(draw: st.DrawFn) -> tuple[RelationSchema, list[TypeInfo]]:
    types = draw(st.lists(st.sampled_from(SIMPLE_TYPES), max_size=12))
    made = []
    for number, type in enumerate(types, start=1):
        dropped = draw(st.integers(0, 5)) == 0
        missing = None if dropped else draw(st.none() | datums(type))
        made.append(make_column(number, type, dropped=dropped, missing=missing))
    return make_schema(*made), types


def draw_tuple(data: st.DataObject, schema: RelationSchema, types: Sequence[TypeInfo]) -> bytes:
    stored = data.draw(st.integers(0, len(types)))
    values = [data.draw(st.none() | datums(type)) for type in types[:stored]]
    return form_tuple(schema.columns, values)
