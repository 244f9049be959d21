"""The kernels of both plugins against plain Python, on generated slices and from buffers of any size."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.catalog.relation import RelationSchema
from headwater.plugins.api import PluginContext, SliceTables
from headwater.plugins.pgoutput.plugin import PgOutput
from headwater.plugins.pgoutput.protocol import announce
from headwater.plugins.stamps import commit_stamps
from headwater.plugins.test_decoding.plugin import TestDecoding
from headwater.rows import items as it
from headwater.rows.session import SessionSettings
from unit.plugins.plugin_slices import (
    INT4,
    MOOD,
    TEXT,
    TYPES,
    Change,
    Sent,
    Slice,
    Txn,
    make_column,
    make_table,
    plain_pgoutput,
    plain_test_decoding,
    rows,
)

PGOUTPUT = (("proto_version", "1"), ("publication_names", "p"))

lsns = st.integers(0, 2**62)
xids = st.integers(3, 2**32 - 1)
texts = st.one_of(st.binary(max_size=40), st.text("'x\\t", max_size=80).map(str.encode))


@st.composite
def tables(draw: st.DrawFn) -> RelationSchema:
    count = draw(st.integers(0, 5))
    types = draw(st.lists(st.sampled_from((*TYPES, None)), min_size=count, max_size=count))
    columns = [make_column(number, f"c{number}", kind) for number, kind in enumerate(types, 1)]
    oid, identity = draw(st.integers(16384, 2**32 - 1)), draw(st.sampled_from("dfin"))
    return make_table(oid, draw(st.sampled_from(("t", "orders", "a" * 63))), columns, replica_identity=identity)


def tuples(schema: RelationSchema) -> st.SearchStrategy[tuple[bytes | int, ...]]:
    value = st.one_of(texts, st.sampled_from((it.NULL, it.UNCHANGED)))
    return st.tuples(*(st.just(it.ABSENT) if column.is_dropped else value for column in schema.columns))


@st.composite
def changes(draw: st.DrawFn, schemas: tuple[RelationSchema, ...], literals: int) -> Change:
    kind = draw(st.sampled_from((it.INSERT, it.INSERT, it.UPDATE, it.DELETE, it.LITERAL, it.TOAST)))
    if kind == it.LITERAL:
        return Change(kind, draw(lsns), draw(st.integers(0, literals - 1)))
    layout = draw(st.integers(0, len(schemas) - 1))
    tuple_or_none = st.none() | tuples(schemas[layout])
    old = draw(tuple_or_none) if kind != it.INSERT else None
    new = draw(tuple_or_none) if kind != it.DELETE else None
    return Change(kind, draw(lsns), layout, new, old, draw(st.sampled_from((0, it.CLEAR_TOAST, it.SEND_SCHEMA))))


@st.composite
def transactions(draw: st.DrawFn, schemas: tuple[RelationSchema, ...], literals: int) -> Txn:
    return Txn(
        xid=draw(xids),
        changes=tuple(draw(st.lists(changes(schemas, literals), max_size=5))),
        first_lsn=draw(lsns),
        commit_lsn=draw(lsns),
        end_lsn=draw(lsns),
        commit_time=draw(st.integers(-(2**61), 2**61)),
        flags=draw(st.integers(0, 15)),
        origin=draw(st.integers(0, literals)),
        begin=draw(st.integers(0, literals)),
        end=draw(st.integers(0, literals)),
    )


@st.composite
def slices(draw: st.DrawFn, with_origins: bool) -> Slice:
    schemas = tuple(draw(st.lists(tables(), min_size=1, max_size=3)))
    words = st.sampled_from((b"message: x", b"table public.t: TRUNCATE: (no-flags)", b"table", b"O" * 30))
    literals = tuple(tuple(batch) for batch in draw(st.lists(st.lists(words, max_size=3), min_size=1, max_size=3)))
    parts = draw(st.lists(transactions(schemas, len(literals)), max_size=4))
    if not with_origins:
        parts = [Txn(**{**vars(part), "origin": 0}) for part in parts]
    sent = [[column for column in schema.columns if not column.is_dropped] for schema in schemas]
    announced = tuple(tuple(announce(schema, columns)) for schema, columns in zip(schemas, sent, strict=True))
    return Slice(tuple(parts), literals, schemas, announced)


@given(slices(with_origins=False), st.booleans(), st.booleans(), st.sampled_from((16, 17)), st.integers(0, 3000))
def test_lines_equal_plain_ones(part: Slice, xids: bool, skip: bool, major: int, size: int) -> None:
    options = (("include-xids", str(int(xids))), ("skip-empty-xacts", str(int(skip))))
    plugin = TestDecoding(options, PluginContext(major))
    rendering = plugin.rendering(SliceTables(*part.tables(), part.schemas, [()] * len(part.schemas)))
    expected = plain_test_decoding(part, xids, skip, major >= 17)
    assert expected == rows(rendering.messages())
    assert expected == rows(rendering.messages(size))


@given(slices(with_origins=True), st.integers(0, 3000))
def test_wire_messages_equal_plain_ones(part: Slice, size: int) -> None:
    plugin = PgOutput(PGOUTPUT, PluginContext(17))
    rendering = plugin.rendering(SliceTables(*part.tables(), part.schemas, part.schema_messages))
    sent = [[column.number - 1 for column in schema.columns if not column.is_dropped] for schema in part.schemas]
    expected = plain_pgoutput(part, sent)
    assert expected == rows(rendering.messages())
    assert expected == rows(rendering.messages(size))


def test_only_announced_columns_are_sent() -> None:
    schema = make_table(16400, "t", [make_column(1, "a", INT4), make_column(2, "b", TEXT), make_column(3, "c", TEXT)])
    announced = tuple(announce(schema, (schema.columns[0], schema.columns[2])))
    txn = Txn(700, (Change(it.INSERT, 5, 0, (b"1", b"hidden", b"x")),))
    part = Slice((txn,), (), (schema,), (announced,))
    messages = PgOutput(PGOUTPUT, PluginContext(17)).render(
        SliceTables(*part.tables(), part.schemas, part.schema_messages)
    )
    assert plain_pgoutput(part, [[0, 2]]) == rows(messages)


def test_values_in_binary_form_are_marked() -> None:
    schema = make_table(16400, "t", [make_column(1, "a", INT4), make_column(2, "b", MOOD), make_column(3, "c", TEXT)])
    announced = tuple(announce(schema, schema.columns))
    new, old = (Sent(b"\0\0\0\7"), b"text", it.NULL), (Sent(b""), it.NULL, Sent(b"\xff" * 300))
    part = Slice((Txn(700, (Change(it.UPDATE, 5, 0, new, old),)),), (), (schema,), (announced,))
    plugin = PgOutput((*PGOUTPUT, ("binary", "true")), PluginContext(17))
    messages = plugin.render(SliceTables(*part.tables(), part.schemas, part.schema_messages))
    key = b"K\0\3b\0\0\0\0nb\0\0\1\x2c" + b"\xff" * 300
    assert b"U\0\0\x40\x10" + key + b"N\0\3b\0\0\0\4\0\0\0\7t\0\0\0\4textn" == rows(messages)[1][2]


def test_a_partition_is_sent_as_its_ancestor() -> None:
    columns = [make_column(1, "b", TEXT), make_column(2, "gone", None), make_column(3, "a", INT4)]
    leaf = make_table(16500, "leaf", columns, is_partition=True, ancestors=(16400,))
    root = make_table(
        16400, "root", [make_column(1, "a", INT4), make_column(2, "b", TEXT)], kind="p", replica_identity="f"
    )
    sent = [column for column in leaf.columns if not column.is_dropped]
    announced = (*announce(root, root.columns), *announce(leaf, sent))
    change = Change(it.UPDATE, 5, 0, (b"x", it.ABSENT, b"1"), (b"y", it.ABSENT, it.NULL), it.SEND_SCHEMA)
    part = Slice((Txn(700, (change,)),), (), (leaf,), (announced,))
    messages = PgOutput(PGOUTPUT, PluginContext(17)).render(
        SliceTables(*part.tables(), part.schemas, part.schema_messages)
    )
    data = [row[2] for row in rows(messages)]
    expected = b"U\0\0\x40\x10O\0\2nt\0\0\0\1yN\0\2t\0\0\0\x011t\0\0\0\1x"
    kinds = "".join(chr(message[0]) for message in data)
    assert kinds == "BRRUC"
    assert expected == data[3]


def test_a_rewritten_table_keeps_its_name() -> None:
    heap = make_table(16500, "pg_temp_16400", [make_column(1, "a", INT4)], rewrite_of=16400)
    part = Slice((Txn(700, (Change(it.INSERT, 5, 0, (b"1",)),)),), (), (heap,))
    plugin = TestDecoding((("include-rewrites", "on"),), PluginContext(17))
    messages = plugin.render(SliceTables(*part.tables(), part.schemas, [[b'public."Order"']]))
    expected = b'table public."Order": INSERT: a[integer]:1'
    assert expected == rows(messages)[1][2]


@pytest.mark.parametrize(
    ("time", "zone", "expected"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 678900, UTC), "UTC", b" (at 2026-01-02 03:04:05.6789+00)"),
        (datetime(2026, 7, 2, 3, 4, 5, 0, UTC), "Europe/Berlin", b" (at 2026-07-02 05:04:05+02)"),
        (datetime(1999, 12, 31, 23, 59, 59, 999999, UTC), "Asia/Kolkata", b" (at 2000-01-01 05:29:59.999999+05:30)"),
    ],
)
def test_commits_show_their_time_in_the_zone_of_the_session(time: datetime, zone: str, expected: bytes) -> None:
    micros = (time - datetime(2000, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    part = Slice((Txn(700, (), commit_time=micros), Txn(701, (), commit_time=micros)))
    context = PluginContext(17, SessionSettings(timezone=zone))
    messages = TestDecoding((("include-timestamp", "on"),), context).render(SliceTables(*part.tables(), (), ()))
    assert [b"BEGIN 700", b"COMMIT 700" + expected, b"BEGIN 701", b"COMMIT 701" + expected] == [
        row[2] for row in rows(messages)
    ]


def test_commit_times_that_are_no_dates() -> None:
    times = np.array([(1 << 63) - 1, -(1 << 63), -(1 << 62)])
    stamps = commit_stamps(times, SessionSettings(timezone="Europe/Berlin"), b" (at ", b")")
    assert stamps.text.tobytes() == b" (at infinity) (at -infinity) (at (timestamp out of range))"
    assert stamps.start.tolist() == [0, 14, 29, 59]


def test_arrays_that_cannot_be_written_are_rendered_too() -> None:
    schema = make_table(16400, "t", [make_column(1, "a", INT4)])
    items, cells, txns, literals = Slice((Txn(700, (Change(it.INSERT, 5, 0, (b"1",)),)),), (), (schema,)).tables()
    for array in (items.kind, cells.text, txns.xid):
        array.flags.writeable = False
    messages = TestDecoding((), PluginContext(17)).render(SliceTables(items, cells, txns, literals, (schema,), [()]))
    expected = [b"BEGIN 700", b"table public.t: INSERT: a[integer]:1", b"COMMIT 700"]
    assert expected == [row[2] for row in rows(messages)]
    assert np.array_equal([0, 9, 45, 55], messages.offsets)
