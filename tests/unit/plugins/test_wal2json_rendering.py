"""The kernel of wal2json against plain Python, on generated slices and from buffers of any size."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.catalog.relation import RelationSchema, TypeInfo
from headwater.catalog.type_names import type_name_of
from headwater.errors import CatalogError, HeadwaterWarning, PluginError
from headwater.plugins.api import (
    WANT_ALL,
    WANT_DELETE,
    WANT_INSERT,
    WANT_TRUNCATE,
    WANT_UPDATE,
    PluginContext,
    SliceTables,
)
from headwater.plugins.wal2json.plugin import Wal2Json
from headwater.plugins.wal2json.templates import json_string
from headwater.reorder import unit_flags
from headwater.rows import items as it
from headwater.rows.session import SessionSettings
from unit.plugins.plain_wal2json import Plain, escaped
from unit.plugins.plugin_slices import (
    BOOL,
    INT4,
    MOOD,
    TEXT,
    Change,
    Slice,
    Txn,
    make_column,
    make_table,
    make_type,
    rows,
)

NUMERIC, BYTEA = make_type(1700, "numeric"), make_type(17, "bytea")
TYPES = (INT4, TEXT, BOOL, MOOD, NUMERIC, BYTEA)
WHOLE = unit_flags.BEGINS_HERE | unit_flags.ENDS_HERE
SWITCHES = (
    *("include-transaction", "include-xids", "include-origin", "include-lsn", "include-schemas", "include-types"),
    *("include-type-oids", "include-not-null", "include-column-positions", "include-pk", "pretty-print"),
    "write-in-chunks",
)

lsns = st.integers(0, 2**62)
texts = st.one_of(st.binary(max_size=40), st.text('"\\\n\x01\x1fxé', max_size=80).map(str.encode))
values = {
    INT4.oid: st.integers(-(2**31), 2**31 - 1).map(lambda number: b"%d" % number),
    NUMERIC.oid: st.sampled_from((b"0", b"-1.50", b"NaN", b"Infinity", b"-Infinity", b"1e+40")),
    BOOL.oid: st.sampled_from((b"t", b"f")),
    BYTEA.oid: st.binary(max_size=20).map(lambda data: b"\\x" + data.hex().encode()),
}


def value_of(info: TypeInfo | None) -> st.SearchStrategy[bytes | int]:
    if info is None:
        return st.just(it.ABSENT)
    return st.one_of(values.get(info.oid, texts), st.sampled_from((it.NULL, it.UNCHANGED)))


@st.composite
def tables(draw: st.DrawFn) -> RelationSchema:
    types = draw(st.lists(st.sampled_from((*TYPES, None)), max_size=5))
    columns = [
        replace(make_column(number, draw(st.sampled_from(("c", 'a "b"', "é"))), kind), not_null=draw(st.booleans()))
        for number, kind in enumerate(types, 1)
    ]
    live = [column.number for column in columns if not column.is_dropped]
    keys = tuple(draw(st.lists(st.sampled_from(live), unique=True))) if live else ()
    identity = draw(st.sampled_from("dfi"))
    own = tuple(draw(st.lists(st.sampled_from(live), unique=True))) if live else ()
    identities = {"d": keys, "f": (), "i": own}[identity]
    name = draw(st.sampled_from(("t", 'odd"', "a" * 63)))
    table = make_table(16400, name, columns, replica_identity=identity, identity_columns=identities)
    return replace(table, primary_key_columns=keys)


@st.composite
def changes(draw: st.DrawFn, schemas: tuple[RelationSchema, ...]) -> Change:
    layout = draw(st.integers(0, len(schemas) - 1))
    row = st.tuples(*(value_of(column.type) for column in schemas[layout].columns))
    kind = draw(st.sampled_from((it.INSERT, it.UPDATE, it.DELETE, it.TOAST)))
    old = draw(st.none() | row) if kind in (it.UPDATE, it.DELETE) else None
    new = draw(st.none() | row) if kind != it.DELETE else None
    return Change(kind, draw(lsns), layout, new, old)


@st.composite
def slices(draw: st.DrawFn) -> Slice:
    """Draw a slice; the last literal is an origin, the one before gives no message."""
    schemas = tuple(draw(st.lists(tables(), min_size=1, max_size=3)))
    literals: tuple[tuple[bytes, ...], ...] = ((b"M,first}",), (b'T,"second"}',), (), (b"77",))
    parts = []
    for _ in range(draw(st.integers(0, 5))):
        is_bare = draw(st.booleans())
        messages = st.builds(Change, st.just(it.LITERAL), lsns, st.integers(0, 2))
        held = st.lists(messages, min_size=1, max_size=1) if is_bare else st.lists(changes(schemas) | messages)
        parts.append(
            Txn(
                xid=draw(st.integers(3, 2**32 - 1)),
                changes=tuple(draw(held)),
                first_lsn=draw(lsns),
                commit_lsn=draw(lsns),
                end_lsn=draw(lsns),
                flags=WHOLE | unit_flags.BARE * is_bare,
                origin=0 if is_bare else draw(st.sampled_from((0, 4))),
            )
        )
    return Slice(tuple(parts), literals, schemas)


def plugin_of(*options: tuple[str, str], **context: object) -> Wal2Json:
    return Wal2Json(options, PluginContext(15, **context))  # type: ignore[arg-type]


@given(slices(), st.sampled_from("12"), st.sets(st.sampled_from(SWITCHES)), st.booleans(), st.integers(0, 3000))
def test_messages_equal_plain_ones(part: Slice, version: str, on: set[str], many_before: bool, size: int) -> None:
    if many_before:
        led = list(takewhile(lambda txn: txn.flags & unit_flags.BARE, part.txns))
        marked = (replace(txn, flags=txn.flags | unit_flags.WROTE_BEFORE) for txn in led)
        part = replace(part, txns=(*marked, *part.txns[len(led) :]))
    plugin = plugin_of(("format-version", version), *((name, str(int(name in on))) for name in SWITCHES))
    none = [()] * len(part.schemas)
    expected = Plain(part, plugin.options, many_before).rows()
    assert expected == rows(plugin.render(SliceTables(*part.tables(), part.schemas, none)))
    pieces = plugin.rendering(SliceTables(*part.tables(), part.schemas, none))
    assert pieces.messages(size).data.tobytes() == b"".join(data for _, _, data in expected)


@given(texts)
def test_strings_are_escaped_alike(text: bytes) -> None:
    assert json_string(text) == escaped(text)


def _slice(schema: RelationSchema, *changes: Change, **more: int) -> Slice:
    return Slice((Txn(700, changes, 16, 32, 48, **more),), (), (schema,), ((),))


def _data(plugin: Wal2Json, part: Slice) -> list[bytes]:
    return [
        data for _, _, data in rows(plugin.render(SliceTables(*part.tables(), part.schemas, [()] * len(part.schemas))))
    ]


ONE = make_table(16400, "t", [make_column(1, "a", INT4)], primary_key_columns=(1,))


def test_a_transaction_is_one_message_of_format_1() -> None:
    part = _slice(ONE, Change(it.INSERT, 20, 0, (b"1",)), Change(it.INSERT, 24, 0, (b"2",)))
    change = b'{"kind":"insert","schema":"public","table":"t","columnnames":["a"],"columntypes":["integer"],'
    expected = b'{"change":[' + change + b'"columnvalues":[1]},' + change + b'"columnvalues":[2]}]}'
    messages = plugin_of().render(SliceTables(*part.tables(), part.schemas, [()]))
    assert rows(messages) == [(48, 700, expected)]


def test_a_message_that_no_server_could_hold_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    part = _slice(ONE, Change(it.INSERT, 20, 0, (b"1",)))
    size = len(_data(plugin_of(), part)[0])
    monkeypatch.setattr("headwater.plugins.wal2json.plugin.LONGEST_MESSAGE", size)
    assert len(_data(plugin_of(), part)) == 1
    monkeypatch.setattr("headwater.plugins.wal2json.plugin.LONGEST_MESSAGE", size - 1)
    with pytest.raises(PluginError, match=f"a message has {size} bytes") as raised:
        _data(plugin_of(), part)
    assert raised.value.lsn == 48


def test_a_transaction_that_goes_on_from_another_slice_puts_a_comma_first() -> None:
    part = _slice(ONE, Change(it.DELETE, 20, 0, None, (b"1",)), flags=unit_flags.ENDS_HERE | unit_flags.WROTE_BEFORE)
    assert [data[:16] for data in _data(plugin_of(("write-in-chunks", "1")), part)] == [b',{"kind":"delete', b"]}"]


def test_large_values_are_escaped_where_there_is_hardly_room() -> None:
    schema = make_table(16400, "t", [make_column(1, "a", TEXT)])
    value = b"\x01" * 10_000
    (_, message, _) = _data(plugin_of(("format-version", "2")), _slice(schema, Change(it.INSERT, 20, 0, (value,))))
    assert message.count(b"\\u0001") == 10_000


def test_times_are_those_of_the_sessions_zone() -> None:
    part = _slice(ONE, commit_time=int((datetime(2026, 7, 1, tzinfo=UTC) - _EPOCH) / timedelta(microseconds=1)))
    plugin = plugin_of(("include-timestamp", "1"), session=SessionSettings(timezone="Europe/Berlin"))
    assert _data(plugin, part) == [b'{"timestamp":"2026-07-01 02:00:00+02","change":[]}']


_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("text", "shown"), [(b"\\x", b'""'), (b"abc", b'"c"'), (b"ab", b'""')])
def test_two_bytes_of_bytea_are_passed_over(text: bytes, shown: bytes) -> None:
    schema = make_table(16400, "t", [make_column(1, "a", BYTEA)])
    (message,) = _data(plugin_of(), _slice(schema, Change(it.INSERT, 20, 0, (text,))))
    assert b'"columnvalues":[' + shown + b"]" in message


@pytest.mark.parametrize("text", [b"", b"a"])
def test_what_stands_behind_a_short_bytea_cannot_be_told(text: bytes) -> None:
    schema = make_table(16400, "t", [make_column(1, "a", BYTEA)])
    with pytest.raises(PluginError, match="less than two characters") as refused:
        _data(plugin_of(), _slice(schema, Change(it.INSERT, 20, 0, (text,))))
    assert refused.value.lsn == 20


def test_content_of_messages_ends_at_a_zero_byte() -> None:
    (literal,) = plugin_of(("format-version", "2")).message(1, True, b"p", b"a\0b")
    assert literal == b'M,"transactional":true,"prefix":"p","content":"a"}'


def test_messages_are_chosen_by_prefix() -> None:
    plugin = plugin_of(("filter-msg-prefixes", "a, b"), ("add-msg-prefixes", "b, c"))
    assert [bool(plugin.message(1, True, prefix, b"")) for prefix in (b"a", b"b", b"c", b"d")] == [0, 0, 1, 0]


class TestWants:
    def wants(self, schema: RelationSchema, *options: tuple[str, str]) -> int:
        return plugin_of(*options).wants(schema, None)  # type: ignore[arg-type]

    def test_format_1_shows_no_truncate(self) -> None:
        assert self.wants(ONE) == WANT_INSERT | WANT_UPDATE | WANT_DELETE
        assert self.wants(ONE, ("format-version", "2")) == self.wants(ONE) | WANT_TRUNCATE
        assert self.wants(ONE, ("format-version", "2")) & ~WANT_ALL == 0

    def test_actions(self) -> None:
        assert self.wants(ONE, ("actions", "delete")) == WANT_DELETE

    def test_tables(self) -> None:
        assert self.wants(ONE, ("filter-tables", "public.*")) == 0

    def test_heaps_of_rewrites_are_not_shown(self) -> None:
        assert self.wants(replace(ONE, rewrite_of=16500)) == 0

    @pytest.mark.parametrize("identity", ["d", "n", "i"])
    def test_rows_need_an_identity(self, identity: str) -> None:
        bare = replace(ONE, replica_identity=identity, identity_columns=())
        assert self.wants(bare, ("format-version", "2")) == WANT_INSERT | WANT_TRUNCATE
        with pytest.warns(HeadwaterWarning, match='no tuple identifier for UPDATE in table "public"."t"'):
            plugin_of(("format-version", "2")).passes_over(bare, True, False)
        with pytest.warns(HeadwaterWarning, match='table "t" without primary key or replica identity is nothing'):
            plugin_of().passes_over(bare, False, True)


def _typed(oid: int, display: str, unspelled: str = "", **more: object) -> TypeInfo:
    return replace(make_type(oid, "x", display), unspelled=unspelled, **more)  # type: ignore[arg-type]


BPCHAR = _typed(1042, "character", "bpchar")
GEOMETRY = _typed(16701, "geometry", typmod_output="postgis-3:postgis_typmod_out")


@pytest.mark.parametrize(
    ("info", "typmod", "name"),
    [
        (BPCHAR, -1, "bpchar"),
        (BPCHAR, 5, "character(1)"),
        (_typed(1014, "character[]", "bpchar[]", element=BPCHAR), -1, "bpchar[]"),
        (_typed(1014, "character[]", "bpchar[]", element=BPCHAR), 9, "character(5)[]"),
        (_typed(1560, "bit", '"bit"'), 3, "bit(3)"),
        (_typed(1043, "character varying"), 24, "character varying(20)"),
        (_typed(1700, "numeric"), (7 << 16 | 2) + 4, "numeric(7,2)"),
        (_typed(1700, "numeric"), (3 << 16 | 2046) + 4, "numeric(3,-2)"),
        (_typed(1114, "timestamp without time zone"), 3, "timestamp(3) without time zone"),
        (_typed(1266, "time with time zone"), 0, "time(0) with time zone"),
        (_typed(1186, "interval"), 0x7FFF << 16 | 2, "interval(2)"),
        (_typed(1186, "interval"), (1 << 3 | 1 << 10 | 1 << 11 | 1 << 12) << 16 | 3, "interval day to second(3)"),
        (_typed(1186, "interval"), (1 << 2 | 1 << 1) << 16 | 0xFFFF, "interval year to month"),
        (_typed(16700, "vector"), 3, "vector(3)"),
        (GEOMETRY, 4326 << 8 | 1 << 2, "geometry(Point,4326)"),
        (GEOMETRY, 3, "geometry(GeometryZM)"),
        (GEOMETRY, 0, "geometry"),
    ],
)  # fmt: skip
def test_types_are_called_with_their_modifiers(info: TypeInfo, typmod: int, name: str) -> None:
    assert type_name_of(info, typmod) == name


def test_modifiers_of_an_unknown_library_are_an_error() -> None:
    with pytest.raises(CatalogError, match="other:typmod_out"):
        type_name_of(_typed(16701, "odd", typmod_output="other:typmod_out"), 1)
