"""Options, names, relations and invalidations of pgoutput and test_decoding, compared with real servers."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
import pytest

from headwater.errors import PluginError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.catcache_hashes import hash_any
from headwater.pg.identifiers import quote_identifier
from headwater.pg.lsn import Lsn
from headwater.plugins.api import (
    WANT_DELETE,
    WANT_INSERT,
    WANT_TRUNCATE,
    WANT_UPDATE,
)
from headwater.rmgr import standby, xact
from headwater.rmgr.registry import STANDBY, XACT
from headwater.wal.records.frames import read_frames
from headwater.wal.records.record import parse_record
from headwater.wal.segments.directory import WalDirectory
from plugins.server_answers import (
    Connection,
    Option,
    changes,
    create_slot,
    major_of,
    make_plugin,
    our_error,
    server_error,
)
from plugins.sql_catalog import SqlCatalog

pytestmark = pytest.mark.server


NAMES = ["", "a", "_a1", "1a", "A", "a b", 'a"b', "ä", "a$", "a.b", "x" * 63, "select"]


@pytest.fixture
def session(server: EmbeddedPostgres) -> Iterator[Connection]:
    """Hold a session in a database of its own."""
    name = f"t{uuid.uuid4().hex}"
    with server.connect() as outside:
        outside.execute(f"create database {name}")
    with server.connect(name) as opened:
        yield opened
        opened.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database()"
        )


def test_names_are_hashed_as_by_the_server(session: Connection) -> None:
    for name in [*NAMES, *("x" * length for length in range(64)), "ä" * 31]:
        row = session.execute("select hashname(%s::name) & 4294967295::bigint", (name,)).fetchone()
        assert row == (hash_any(name.encode()),), name


def test_identifiers_are_quoted_as_by_the_server(session: Connection) -> None:
    words = session.execute("select word from pg_get_keywords()").fetchall()
    names = [word for (word,) in words] + NAMES
    expected = session.execute("select array(select quote_ident(n) from unnest(%s::text[]) n)", (names,)).fetchone()
    assert expected is not None
    assert expected[0] == [quote_identifier(name, major_of(session)) for name in names]


NAMES_P = ("publication_names", "p")
V1, V1P = (("proto_version", "1"),), (("proto_version", "1"), NAMES_P)
PGOUTPUT_OPTIONS: list[tuple[Option, ...]] = [
    (),
    V1,
    (NAMES_P,),
    *(
        (("proto_version", text), NAMES_P)
        for text in ("x", "", " ", "0", "-0", "+1", " 1", "1 ", "-1", "5", "4294967295")
    ),
    *((("proto_version", text), NAMES_P) for text in ("4294967296", "18446744073709551615", "18446744073709551616")),
    *((("proto_version", text), NAMES_P) for text in ("-18446744073709551615", "0x1", "1e0", "٣")),
    *((*V1, ("publication_names", text)) for text in ("", " ", "a,", '"a', 'P, "q""r"', "a b", "p\v,q")),
    *((*V1P, ("binary", text)) for text in ("1", "off", "yes", "")),
    *((*V1P, ("messages", text)) for text in ("1", "oN", "t")),
    *((*V1P, ("streaming", text)) for text in ("1", "off", "on", "parallel", "x")),
    (("proto_version", "3"), NAMES_P, ("streaming", "Parallel")),
    (*V1P, ("two_phase", "on")),
    (*V1P, ("two_phase", "off"), ("two_phase", "off")),
    *((*V1P, ("origin", text)) for text in ("NONE", "any", "x", "")),
    (("proto_version", "2"), NAMES_P, ("streaming", "parallel")),
    *((("proto_version", "2"), NAMES_P, ("two_phase", text)) for text in ("on", "x", "")),
    *((*V1P, (name, "off"), (name, "on")) for name in ("binary", "messages", "streaming")),
    (*V1P, ("origin", "any"), ("origin", "x")),
    (*V1P, NAMES_P),
    (*V1P, ("foo", "bar")),
    (*V1P, ("proto_version", "x")),
]
TEST_DECODING_OPTIONS: list[tuple[Option, ...]] = [
    *((("include-xids", text),) for text in ("", "o", "of", "oN", "TRU", "truex", "ye", "yess", "0", "01", " 1", "no")),
    (("include-xids", "x"), ("foo", "bar")),
    *(
        ((name, "2"),)
        for name in ("force-binary", "only-local", "include-rewrites", "stream-changes", "skip-empty-xacts")
    ),
    (("foo", "bar"),),
    (("include-sequences", "1"),),
]


@pytest.mark.parametrize(
    ("plugin", "cases"), [("pgoutput", PGOUTPUT_OPTIONS), ("test_decoding", TEST_DECODING_OPTIONS)]
)
def test_options_are_refused_in_the_servers_words(session: Connection, plugin: str, cases: list[Any]) -> None:
    slot = create_slot(session, plugin)
    for options in cases:
        assert our_error(session, plugin, options) == server_error(session, slot, options), options


TABLES = """
    create schema s1; create schema "S 2";
    create type s1.mood as enum ('sad', 'happy');
    create domain "S 2".moods as s1.mood;
    create domain deeper as "S 2".moods;
    create type pair as (a int, b text);
    create table plain (a int primary key, b text);
    create table typed (a int primary key, m s1.mood, d "S 2".moods, e deeper, l s1.mood[], p pair,
        i information_schema.sql_identifier, n numeric(10, 2), v varchar(20), ts timestamptz(3)[]);
    create table wide (x int, a int, y int, b text, c text, primary key (b, a));
    alter table wide drop column x, drop column y;
    create table full_identity (a int, b text);
    alter table full_identity replica identity full;
    create table by_index (a int, b text not null, c int not null);
    create unique index by_index_cb on by_index (c, b);
    alter table by_index replica identity using index by_index_cb;
    create table no_identity (a int, b text);
    alter table no_identity replica identity nothing;
    create table keyless (a int, b text);
    create unlogged table unlogged (a int primary key);
    create table "S 2"."select" (a int primary key, "B b" text);
    create table generated (a int primary key, g int generated always as (a * 2) stored, b text);
    create table s1.other (a int primary key, b text);
    create table root (a int, b text, c int, primary key (a)) partition by range (a);
    create table middle (c int, b text, a int not null, junk int) partition by range (a);
    alter table middle drop column junk;
    create table s1.leaf (junk int, b text, c int, a int not null);
    alter table s1.leaf drop column junk;
    alter table middle attach partition s1.leaf for values from (0) to (100);
    alter table root attach partition middle for values from (0) to (100);
    create table leaf2 partition of root for values from (100) to (200);
"""
WRITES = {
    "plain": "(1, 'x')",
    "typed": "(1, 'sad')",
    "wide": "(1, 'x')",
    "full_identity": "(1, 'x')",
    "by_index": "(1, 'x', 3)",
    "no_identity": "(1, 'x')",
    "keyless": "(1, 'x')",
    "unlogged": "(1)",
    '"S 2"."select"': "(1)",
    "generated": "(1)",
    "s1.other": "(1)",
    "s1.leaf": "('x', 1, 1)",
    "leaf2": "(101)",
}
PUBLICATIONS = {
    "everything": "for all tables",
    "via_root": "for all tables with (publish_via_partition_root)",
    "no_truncate": "for all tables with (publish = 'insert, update')",
    "only_truncate": "for all tables with (publish = 'truncate')",
    "few": "for table plain, wide, by_index, generated",
    "the_root": "for table root",
    "the_root_via": "for table root with (publish_via_partition_root)",
    "middle_via": "for table middle with (publish_via_partition_root)",
    "leaf_whole": "for table s1.leaf with (publish = 'insert, update')",
}
PUBLICATIONS_15 = {
    "schema1": "for tables in schema s1",
    "schema1_root": "for tables in schema s1, public with (publish_via_partition_root)",
    "leaf_only": "for table s1.leaf (a, b) with (publish = 'insert, update, delete')",
    "lists": 'for table plain (a), wide (b, a), typed (a, e, p), full_identity (b), "S 2"."select" ("B b", a)',
    "full_lists": "for table plain (a, b), wide (a, b, c)",
    "root_list": "for table root (a, c) with (publish_via_partition_root)",
    "filtered": "for table plain where (a > 0)",
}
PUBLICATIONS_18 = {
    "with_generated": "for all tables with (publish_generated_columns = stored)",
    "listed_generated": "for table generated (a, g)",
}
COMBINATIONS = [
    *((name,) for name in PUBLICATIONS),
    *((name,) for name in PUBLICATIONS_15 if name != "filtered"),
    ("few", "only_truncate"),
    ("lists", "schema1"),
    ("full_lists", "everything"),
    ("full_lists", "few"),
    ("lists", "everything"),
    ("leaf_only", "the_root_via"),
    ("leaf_whole", "the_root_via"),
    ("leaf_whole", "middle_via", "the_root"),
    ("root_list", "via_root"),
    ("middle_via", "the_root_via"),
    ("the_root_via", "middle_via", "leaf_only"),
    ("filtered", "everything"),
    ("everything", "absent"),
    ("absent",),
]
"""Of these, each server is asked for those whose publications it can have; one is nowhere."""

COMBINATIONS_18 = [("with_generated",), ("listed_generated",), ("with_generated", "few"), ("listed_generated", "few")]
COMBINATIONS_18 += [("listed_generated", "with_generated")]

BITS = {"I": WANT_INSERT, "U": WANT_UPDATE, "D": WANT_DELETE, "T": WANT_TRUNCATE}


def write_rows(session: Connection, table: str, values: str) -> int:
    """Make every kind of change of a table, each in its own transaction.

    Returns the bits of those that the server let pass.
    """
    refusals = (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.InvalidColumnReference)
    statements = {
        WANT_INSERT: f"insert into {table} values {values}",
        WANT_UPDATE: f"update {table} set a = a + 1",
        WANT_DELETE: f"delete from {table}",
        WANT_TRUNCATE: f"truncate {table}",
    }
    done = 0
    for bit, statement in statements.items():
        try:
            session.execute(statement)
            done |= bit
        except refusals:
            pass
    return done


@dataclass(frozen=True)
class Told:
    """The knowledge of a table under some publications: an error's message and SQLSTATE, or changes and messages."""

    error: tuple[str | None, str | None] | None
    bits: int = 0
    announced: tuple[bytes, ...] = ()


def by_server(session: Connection, slot: str, options: Sequence[Option]) -> Told:
    error = server_error(session, slot, options)
    if error is not None:
        return Told(error)
    messages = changes(session, slot, options, keep=True)
    kinds = [message[:1].decode() for message in messages]
    first = next((number for number, kind in enumerate(kinds) if kind in BITS), 0)
    announced = tuple(message for message in messages[:first] if message[:1] in b"RY")
    return Told(None, sum({BITS.get(kind, 0) for kind in kinds}), announced)


def by_us(session: Connection, table: str, options: Sequence[Option], done: int) -> Told:
    plugin, catalog = make_plugin(session, "pgoutput", options), SqlCatalog(session, major_of(session))
    schema = catalog.table(table)
    try:
        bits = plugin.wants(schema, catalog) & done
        return Told(None, bits, tuple(plugin.schema_messages(schema, catalog)) if bits else ())
    except PluginError as error:
        return Told((error.message, error.sqlstate))


def under(names: Sequence[str]) -> tuple[Option, ...]:
    return (*V1, ("publication_names", ",".join(names)))


def make_tables(session: Connection) -> list[tuple[str, ...]]:
    """Make tables and publications; returns the combinations of publications to look at."""
    major = major_of(session)
    since = {14: PUBLICATIONS, 15: PUBLICATIONS_15, 18: PUBLICATIONS_18}
    made = {name: words for first, some in since.items() if first <= major for name, words in some.items()}
    session.execute(TABLES)
    for name, words in made.items():
        session.execute(f"create publication {name} {words}")
    return [names for names in COMBINATIONS + COMBINATIONS_18 if {*names} <= {*made, "absent"}]


def test_relations_are_published_as_by_the_server(session: Connection) -> None:
    """They give the same changes, messages Y and R, and errors, for each table under each set of publications."""
    combinations = make_tables(session)
    for table, values in WRITES.items():
        slot = create_slot(session, "pgoutput")
        done = write_rows(session, table, values)
        for names in combinations:
            expected = by_server(session, slot, under(names))
            actual = by_us(session, table, under(names), done)
            assert expected == actual, (table, names)
        session.execute("select pg_drop_replication_slot(%s)", (slot,))


def test_truncates_of_partitioned_tables_are_those_of_the_server(session: Connection) -> None:
    combinations = make_tables(session)
    slot = create_slot(session, "pgoutput")
    session.execute("truncate root restart identity cascade")
    catalog = SqlCatalog(session, major_of(session))
    schemas = [catalog.table(name) for name in ("root", "middle", "leaf2", "s1.leaf")]
    for names in combinations:
        if server_error(session, slot, under(names)) is not None:
            continue
        expected = changes(session, slot, under(names), keep=True)[1:-1]
        plugin = make_plugin(session, "pgoutput", under(names))
        wanted = [schema for schema in schemas if plugin.wants(schema, catalog) & WANT_TRUNCATE]
        actual = [message for schema in wanted for message in plugin.schema_messages(schema, catalog)]
        assert expected == actual + plugin.truncate(wanted, True, True), names


@dataclass(frozen=True)
class Sinval:
    """An invalidation message as pg_walinspect describes it, or as we read it where there is none."""

    id: int
    value: int


_SINVAL = re.compile(r" (catcache|catalog|relcache|relsync) (\d+)")
_SINVAL_IDS = {"catalog": -1, "relcache": -2, "relsync": -6}


def invalidations(server: EmbeddedPostgres, session: Connection, start: str, end: str) -> list[Sinval]:
    """List messages logged between two LSNs, by transactions or (VACUUM) outside of any."""
    if not has_walinspect(server):
        return _invalidations_read(server, Lsn.parse(start), Lsn.parse(end))
    rows = session.execute(
        "select description from pg_get_wal_records_info(%s, %s) where resource_manager in ('Transaction', 'Standby')",
        (start, end),
    ).fetchall()
    pairs = [pair for (text,) in rows for pair in _SINVAL.findall(text.partition("inval msgs:")[2].join((" ", "")))]
    return [
        Sinval(int(number), 0) if kind == "catcache" else Sinval(_SINVAL_IDS[kind], int(number))
        for kind, number in pairs
    ]


def has_walinspect(server: EmbeddedPostgres) -> bool:
    """Tell whether pg_walinspect is there: from 15 on."""
    return server.programs.major >= 15


def _invalidations_read(server: EmbeddedPostgres, start: int, end: int) -> list[Sinval]:
    """List the same by our own reader."""
    wal, major = WalDirectory.scan(server.wal_directory), server.programs.major
    frames = read_frames(wal, wal.start_lsn, end)
    logged: list[Sinval] = []
    for number in np.flatnonzero(frames.lsns >= start).tolist():
        record = parse_record(frames.record(number), int(frames.lsns[number]), int(frames.end_lsns[number]), major)
        operation = record.info & xact.OPMASK
        if record.rmid == XACT and operation == xact.INVALIDATIONS:
            messages = xact.parse_invalidation_record(record.main_data, record.lsn, major)
        elif record.rmid == XACT and operation == xact.COMMIT:
            messages = xact.parse_end(record, major).invalidations
        elif record.rmid == STANDBY and record.kind == standby.INVALIDATIONS:
            messages = standby.parse_standby_invalidations(record.main_data, record.lsn, major).messages
        else:
            continue
        logged += [Sinval(message.id, message.value if message.id < 0 else 0) for message in messages]
    return logged


STATEMENTS = [
    "select pg_logical_emit_message(true, 'x', 'y')",
    "create schema other",
    "alter schema other rename to another",
    "alter schema another rename to other",
    "create table other.u (a int primary key)",
    "alter table t add column c int",
    "alter table t alter b set statistics 50",
    "create index t_b on t (b)",
    "drop index t_b",
    "grant select on t to public",
    "comment on table t is 'x'",
    "analyze t",
    "vacuum t",
    "truncate t",
    "alter table other.u rename to v",
    "create publication q for table other.v",
    "alter publication q set (publish = 'insert')",
    "alter publication q add table t",
    "alter publication q rename to r",
    "alter publication r drop table t",
    "alter publication r set tables in schema other",
    "drop publication r",
    "create publication q for all tables",
    "alter publication q rename to r",
    "alter publication r set (publish = 'insert')",
    "drop publication r",
    "create type mood as enum ('sad')",
    "alter type mood add value 'happy'",
    "vacuum full pg_publication",
    "vacuum full pg_publication_rel",
    "vacuum full pg_publication_namespace",
    "vacuum full pg_namespace",
    "vacuum full pg_class",
    "vacuum full t",
    "drop schema other cascade",
]


SINCE_15 = {"alter publication r set tables in schema other", "vacuum full pg_publication_namespace"}


def test_relations_are_announced_again_as_by_the_server(server: EmbeddedPostgres, session: Connection) -> None:
    if has_walinspect(server):
        session.execute("create extension pg_walinspect")
    session.execute("create table t (a serial primary key, b text)")
    session.execute("create publication p for all tables")
    slot = create_slot(session, "pgoutput")
    plugin, oid = make_plugin(session, "pgoutput", V1P), SqlCatalog(session, major_of(session)).oid("t")
    for statement in STATEMENTS if major_of(session) >= 15 else [s for s in STATEMENTS if s not in SINCE_15]:
        session.execute("insert into t default values")
        start = session.execute("select pg_current_wal_lsn()::text").fetchone()
        session.execute(statement)
        session.execute("insert into t default values")
        end = session.execute("select pg_current_wal_flush_lsn()::text").fetchone()
        assert start is not None
        assert end is not None
        subjects = [s for message in invalidations(server, session, start[0], end[0]) for s in plugin.forgets(message)]
        forgotten = {relation for memory, relation in subjects if memory == plugin.traits.announcements}
        messages = changes(session, slot, V1P)
        last_begin = max(i for i, message in enumerate(messages) if message[:1] == b"B")
        resent = any(message[:1] == b"R" for message in messages[last_begin:])
        assert resent == bool(forgotten & {0, oid}), statement
