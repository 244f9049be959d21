# ruff: noqa: SIM300 - asserts read "expected == actual"
"""Tuples through the kernels against the plain deformer: any layout, any nulls, any header form, broken bytes."""

from __future__ import annotations

import dataclasses
import struct
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.errors import DecodingError, RecordError, UnsupportedTypeError
from headwater.rows.items import ABSENT, NULL, TEXT, UNCHANGED, Cells
from headwater.rows.session import SessionSettings
from headwater.rows.tuples.layout import compile_layouts
from headwater.rows.tuples.render import render
from unit.rows.drawn_tuples import SESSION, datums, draw_tuple, relations, run
from unit.rows.plain_text import ArrayValue, array, array_type, built_in, domain, varlena
from unit.rows.plain_tuples import (
    BYTEA,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    TEXT_TYPE,
    XML_SCHEMA,
    Slice,
    cells_at,
    compressed,
    deform_tuple,
    form_tuple,
    make_column,
    make_schema,
    plain,
    short,
    toast_pointer,
)


def int4(value: int) -> bytes:
    return struct.pack("<i", value)


@settings(max_examples=300)
@given(relations=st.lists(relations(), min_size=1, max_size=3), data=st.data())
def test_tuples_become_the_twins_cells(
    relations: list[tuple[RelationSchema, list[TypeInfo]]], data: st.DataObject
) -> None:
    made, expected = Slice(), []
    for _ in range(data.draw(st.integers(0, 5))):
        layout = data.draw(st.integers(0, len(relations) - 1))
        schema, types = relations[layout]
        new, old = draw_tuple(data, schema, types), draw_tuple(data, schema, types)
        kind = data.draw(st.integers(0, 4))
        if kind == 0:
            made.insert(new, layout=layout)
        elif kind == 1:
            made.update(new, old, layout=layout)
        elif kind == 2:
            made.update(new, layout=layout)
        elif kind == 3:
            made.delete(old, layout=layout)
        else:
            made.literal()
        expected.append(
            (
                deform_tuple(schema.columns, old) if kind in (1, 3) else None,
                deform_tuple(schema.columns, new, {}) if kind in (0, 1, 2) else None,
                len(types),
            )
        )
    cells = run(made, *(schema for schema, _ in relations), room=data.draw(st.sampled_from([None, 0, 1, 30])))
    end = 0
    for item, (old_cells, new_cells, natts) in enumerate(expected):
        for first, wanted in ((cells.old_first[item], old_cells), (cells.new_first[item], new_cells)):
            if wanted is None:
                assert first == -1
            else:
                assert end == first
                assert wanted == cells_at(cells, first, natts)
                end += natts
    assert len(cells.kind) == end
    assert cells.start.tolist() == (np.cumsum(cells.length) - cells.length).tolist()
    assert len(cells.text) == cells.length.sum()


@settings(max_examples=500)
@given(relation=relations(), data=st.data())
def test_mutated_tuples_give_cells_or_a_typed_error(
    relation: tuple[RelationSchema, list[TypeInfo]], data: st.DataObject
) -> None:
    schema, types = relation
    logged = bytearray(draw_tuple(data, schema, types))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(logged) - 1))
        logged[at] = data.draw(st.integers(0, 255))
    cut = bytes(logged[: data.draw(st.integers(0, len(logged)))]) if data.draw(st.booleans()) else bytes(logged)
    made = Slice()
    lsn = made.insert(cut)
    try:
        cells = run(made, schema)
    except (RecordError, DecodingError) as error:
        error_lsn = error.lsn
    else:
        error_lsn = lsn
        for kind, text in cells_at(cells, 0, len(types)):
            assert kind in (NULL, TEXT, ABSENT, 2)
            assert len(text) <= 4 * 256 * len(cut) + 1000
    assert lsn == error_lsn


@pytest.mark.parametrize("cut", range(1, 24))
def test_a_tuple_cut_short_anywhere_is_an_error(cut: int) -> None:
    schema = make_schema(INT4, TEXT_TYPE, INT8, TEXT_TYPE)
    logged = form_tuple(schema.columns, [int4(7), short(b"abc"), struct.pack("<q", 1), plain(b"defg")])
    made = Slice()
    lsn = made.insert(logged[:-cut])
    with pytest.raises(RecordError, match="malformed tuple") as caught:
        run(made, schema)
    assert lsn == caught.value.lsn


def test_bytes_after_the_last_attribute_are_an_error() -> None:
    schema = make_schema(INT4, TEXT_TYPE)
    made = Slice()
    made.insert(form_tuple(schema.columns, [int4(7), short(b"abc")]) + b"\0")
    with pytest.raises(RecordError, match="bytes left after its last attribute"):
        run(made, schema)


def test_an_error_names_column_table_and_lsn() -> None:
    schema = make_schema(INT4, make_column(2, TEXT_TYPE, name="note"), name="orders")
    made = Slice()
    made.insert(form_tuple(schema.columns, [int4(1), short(b"ok")]))
    lsn = made.insert(form_tuple(schema.columns, [int4(1), short(b"broken")])[:-3])
    with pytest.raises(RecordError) as caught:
        run(made, schema)
    assert lsn == caught.value.lsn
    assert 'malformed tuple: column "note" of table "public.orders" runs past its end' == caught.value.message


def test_arrays_inside_arrays_leave_other_relations_columns_alone() -> None:
    inner = array_type(built_in("text"))
    nested = array_type(domain(inner))
    words = ArrayValue((1,), (1,), (varlena(b"x y"),), ("x y",))
    stored = array(ArrayValue((2,), (1,), (varlena(array(words, built_in("text"))), None), ("", None)), domain(inner))
    before = make_schema(make_column(1, nested), INT4, name="before")
    after = make_schema(TEXT_TYPE, make_column(2, nested, missing=plain(stored), name="lists"), name="after")
    made = Slice()
    made.insert(form_tuple(before.columns, [plain(stored), int4(7)]))
    made.insert(form_tuple(after.columns, [short(b"z")]), layout=1)
    text = (TEXT, rb'{"{\"x y\"}",NULL}')
    cells = run(made, before, after, room=1)
    assert [text, (TEXT, b"7"), (TEXT, b"z"), text] == cells_at(cells, 0, 4)
    made.insert(form_tuple(after.columns, [short(b"z"), plain(stored.replace(varlena(b"x y"), b"\xff" * 7))]), layout=1)
    with pytest.raises(RecordError, match=r'malformed value of column "lists" of table "public\.after"'):
        run(made, before, after)


def test_a_tuple_with_more_attributes_than_its_relation_is_read_as_far_as_it_goes() -> None:
    wide, narrow = make_schema(INT4, TEXT_TYPE, INT4), make_schema(INT4)
    made = Slice()
    made.insert(form_tuple(wide.columns, [int4(5), short(b"x"), int4(6)]))
    assert [(TEXT, b"5")] == cells_at(run(made, narrow), 0, 1)


def test_missing_values_fill_short_tuples_old_ones_too() -> None:
    schema = make_schema(
        INT4,
        make_column(2, INT4, missing=int4(42)),
        make_column(3, TEXT_TYPE, missing=short(b"dflt")),
        make_column(4, TEXT_TYPE, missing=compressed(b"z" * 500)),
        make_column(5, INT2, dropped=True),
        make_column(6, INT8),
    )
    filled = [(TEXT, b"42"), (TEXT, b"dflt"), (TEXT, b"z" * 500), (ABSENT, b""), (NULL, b"")]
    made = Slice()
    made.update(form_tuple(schema.columns, [int4(2)]), form_tuple(schema.columns, [int4(1)]))
    cells = run(made, schema)
    assert [(TEXT, b"1"), *filled] == cells_at(cells, 0, 6)
    assert [(TEXT, b"2"), *filled] == cells_at(cells, 6, 6)


def test_a_read_only_slice_and_no_items_at_all() -> None:
    schema = make_schema(INT4)
    made = Slice()
    layouts = compile_layouts([schema], SESSION)
    data = np.frombuffer(bytes(made.data), dtype=np.uint8)
    assert 0 == len(render(data, made.items(), layouts).kind)
    made.insert(form_tuple(schema.columns, [int4(-1)]))
    data = np.frombuffer(bytes(made.data), dtype=np.uint8)
    assert [(TEXT, b"-1")] == cells_at(render(data, made.items(), layouts), 0, 1)


def test_items_that_refer_nowhere_are_an_error() -> None:
    schema = make_schema(INT4)
    for layout, kind in ((1, 1), (-1, 1), (0, 7), (0, 0)):
        made = Slice()
        lsn = made.add(kind, form_tuple(schema.columns, [int4(1)]), layout=layout)
        with pytest.raises(DecodingError) as caught:
            run(made, schema)
        assert lsn == caught.value.lsn


def test_offsets_outside_the_slice_are_an_error() -> None:
    schema = make_schema(INT4)
    for at, length in ((-2, 30), (10_000, 9), (3, 10_000), (3, 4), (3, -1)):
        made = Slice()
        made.insert(form_tuple(schema.columns, [int4(1)]))
        items = made.items()
        items.new_at[0], items.new_len[0] = at, length
        with pytest.raises(RecordError, match="malformed tuple"):
            render(made.array(), items, compile_layouts([schema], SESSION))


def test_a_malformed_value_is_an_error_at_its_item() -> None:
    schema = make_schema(INT4, make_column(2, NUMERIC, name="total"), name="orders")
    made = Slice()
    for _ in range(3):
        made.update(form_tuple(schema.columns, [int4(1), None]), form_tuple(schema.columns, [int4(1), None]))
        made.literal()
        made.delete(None)
    lsn = made.update(form_tuple(schema.columns, [int4(1), None]), form_tuple(schema.columns, [int4(1), short(b"odd")]))
    made.literal()
    made.insert(form_tuple(schema.columns, [int4(1), None]))
    with pytest.raises(RecordError, match=r'malformed value of column "total" of table "public\.orders"') as caught:
        run(made, schema)
    assert lsn == caught.value.lsn


def test_an_enum_value_without_a_label_is_an_error() -> None:
    mood = dataclasses.replace(INT4, oid=16500, name="mood", typtype="e", labels=((16501, "sad"), (16502, "ok")))
    schema = make_schema(make_column(1, mood, name="feels"))
    made = Slice()
    made.insert(form_tuple(schema.columns, [int4(16502)]))
    assert [(TEXT, b"ok")] == cells_at(run(made, schema), 0, 1)
    lsn = made.insert(form_tuple(schema.columns, [int4(16503)]))
    with pytest.raises(DecodingError, match=r'value of column "feels" of table "public\.t" is no label') as caught:
        run(made, schema)
    assert lsn == caught.value.lsn


@pytest.mark.parametrize("hoff", [0, 16, 22, 23, 25, 32, 255])
def test_a_wrong_t_hoff_is_an_error(hoff: int) -> None:
    schema = make_schema(INT4)
    logged = bytearray(form_tuple(schema.columns, [int4(1)]))
    logged[4] = hoff
    made = Slice()
    made.insert(bytes(logged))
    with pytest.raises(RecordError, match="malformed tuple"):
        run(made, schema)


# -- types without a text form

STRANGE = (XML_SCHEMA, dataclasses.replace(XML_SCHEMA, oid=4712, display_name="shop.fixed", typlen=6))


def render_as(way: str, made: Slice, *schemas: RelationSchema, room: int | None = None) -> Cells:
    layouts = compile_layouts(schemas, SessionSettings(unknown_types=way))
    return render(made.array(), made.items(), layouts, room=room)


def as_bytea(column: Column) -> Column:
    return dataclasses.replace(column, type=BYTEA) if column.type in STRANGE else column


@settings(max_examples=100)
@given(data=st.data(), way=st.sampled_from(["hex", "null"]), room=st.sampled_from([None, 0, 7]))
def test_values_of_unknown_types_against_the_twin(data: st.DataObject, way: str, room: int | None) -> None:
    """The twin takes them for bytea, or leaves them out."""
    types = data.draw(st.lists(st.sampled_from([INT4, TEXT_TYPE, *STRANGE]), min_size=1, max_size=6))
    columns = [make_column(n, type, missing=data.draw(st.none() | datums(type))) for n, type in enumerate(types, 1)]
    schema = make_schema(*columns)
    made, expected, lost = Slice(), [], set()
    for _ in range(data.draw(st.integers(0, 3))):
        logged = draw_tuple(data, schema, types)
        made.insert(logged)
        cells = deform_tuple([as_bytea(column) for column in columns], logged, {})
        for column, cell in zip(columns, cells, strict=True):
            is_lost = way == "null" and column.type in STRANGE and cell[0] == TEXT
            lost |= {column.name} if is_lost else set()
            expected.append((NULL, b"") if is_lost else cell)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert expected == cells_at(render_as(way, made, schema, room=room), 0, len(expected))
    assert lost == {str(warning.message).split('column "')[1].split('"')[0] for warning in warned}
    assert len(lost) == len(warned)


def test_a_value_of_an_unknown_type_is_refused_and_what_is_none_is_not() -> None:
    schema = make_schema(INT4, make_column(2, XML_SCHEMA, name="shape"), name="parcels")
    made = Slice()
    pointer = toast_pointer(7, 100, 100)
    made.update(form_tuple(schema.columns, [int4(1), pointer]), form_tuple(schema.columns, [int4(1), pointer]))
    made.insert(form_tuple(schema.columns, [int4(1), None]))
    unchanged = [(TEXT, b"1"), (UNCHANGED, b"")]
    assert [*unchanged, *unchanged, (TEXT, b"1"), (NULL, b"")] == cells_at(render_as("error", made, schema), 0, 6)
    lsn = made.delete(form_tuple(schema.columns, [int4(1), short(b"a")]))
    made.insert(form_tuple(schema.columns, [int4(1), short(b"b")]))
    with pytest.raises(UnsupportedTypeError) as caught:
        render_as("error", made, schema)
    wanted = 'values of type no_such_type cannot be printed, needed for column "shape" of table "public.parcels"'
    assert (lsn, wanted) == (caught.value.lsn, caught.value.message)


def test_an_unknown_types_fast_default_is_a_value() -> None:
    schema = make_schema(INT4, make_column(2, XML_SCHEMA, missing=short(b"abc")))
    made = Slice()
    made.insert(form_tuple(schema.columns, [int4(1)]))
    assert [(TEXT, b"1"), (TEXT, b"\\x616263")] == cells_at(render_as("hex", made, schema), 0, 2)
    with pytest.raises(UnsupportedTypeError):
        render_as("error", made, schema)
