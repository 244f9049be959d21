"""The real wal2json on options, chosen tables and origins; needs Debian's server (``make wal2json``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import ServerPrograms
from headwater.plugins.api import WANT_INSERT, PluginContext
from headwater.plugins.wal2json.plugin import Wal2Json
from packaged_servers import letting_name
from plugins.server_answers import Option, changes, create_slot, our_error, server_error
from plugins.sql_catalog import SqlCatalog

MAJOR = 15
pytestmark = pytest.mark.server

Connection = psycopg.Connection[Any]

BOOLEANS = ("", "o", "of", "oN", "TRU", "truex", "0", "01", " 1", "no")
SWITCHES = (
    *("include-transaction", "include-xids", "include-timestamp", "include-pk", "include-origin", "include-schemas"),
    *("include-types", "include-type-oids", "include-typmod", "include-domain-data-type", "include-column-positions"),
    *("include-not-null", "pretty-print", "write-in-chunks", "include-lsn"),
)
INTEGERS = (
    *("", "1", "2", " 2", "2 ", "+2", "-1", "0", "3", "x", "1x", "0x2", "0X1", "02", "08", "1.4", "1.5", "2.5", "1e0"),
    *(
        ".5",
        "1.",
        "0x1.8",
        "0x1p0",
        "0x.8p1",
        "08.5",
        "010.5",
        "010",
        "e1",
        "inf",
        "nan",
        "1 2",
        "2147483648",
        "99999999999999999999",
        "1e400",
    ),
)
LISTS = (
    "",
    " ",
    ",",
    "a",
    "a,",
    ",a",
    "a b",
    " a , b ",
    "a,,b",
    r"a\,b",
    r"a\ b",
    "a.b",
    "*.*",
    "a.b.c",
    ".",
    "a.b c.d",
)
OPTIONS: list[tuple[Option, ...]] = [
    (),
    *((("include-xids", text),) for text in BOOLEANS),
    *(((name, "x"),) for name in SWITCHES),
    *(((name, "1"), (name, "0")) for name in SWITCHES),
    *((("format-version", text),) for text in INTEGERS),
    *(((name, text),) for name in ("add-tables", "filter-tables", "filter-origins") for text in LISTS),
    *(((name, text),) for name in ("add-msg-prefixes", "filter-msg-prefixes") for text in LISTS),
    *((("actions", text),) for text in ("insert", "insert, foo", "INSERT", "insert,insert , truncate", "insert,", "")),
    (("include-unchanged-toast", "1"),),
    (("numeric-data-types-as-string", "1"),),
    (("foo", "bar"),),
    (("include-xids", "x"), ("foo", "bar")),
]

TABLES = (
    "t",
    "u",
    '"T"',
    '"a b"',
    '"a,b"',
    '"*"',
    '"back\\slash"',
    "s.t",
    '"*".t',
    '"*"."*"',
    '"s.1".t',
    '"s.1"."t.1"',
)
PATTERNS = (
    *("*.*", "*.t", "public.*", "s.t", r"\*.t", r"\*.\*", r"public.\*", r"*.\*", r"s\.1.t", r"s\.1.t\.1", "s.1.t"),
    *(
        r"public.a\ b",
        r"public.a\,b",
        r"public.back\\slash",
        "public.t,public.u",
        " s.t ,\tpublic.T",
        "*.t*",
        "t*.*",
        "",
    ),
    *(r"s\.1.*", "nosuch.*", r"p\ublic.t", "*x.t"),
)


@pytest.fixture(scope="module")
def server(with_wal2json: ServerPrograms) -> Iterator[EmbeddedPostgres]:
    settings = letting_name(with_wal2json, "wal2json")
    with EmbeddedPostgres(with_wal2json, settings, autovacuum=False) as running:
        yield running


@pytest.fixture(scope="module")
def connection(server: EmbeddedPostgres) -> Iterator[Connection]:
    with server.connect() as opened:
        yield opened


def test_options_are_refused_in_the_plugins_words(connection: Connection) -> None:
    slot = create_slot(connection, "wal2json")
    for options in OPTIONS:
        assert our_error(connection, "wal2json", options) == server_error(connection, slot, options), options


def test_tables_are_chosen_as_by_the_plugin(connection: Connection) -> None:
    connection.execute('create schema s; create schema "*"; create schema "s.1"')
    for table in TABLES:
        connection.execute(f"create table {table} (name text)".encode())
    slot = create_slot(connection, "wal2json")
    for table in TABLES:
        connection.execute(f"insert into {table} values (%s)".encode(), (table,))
    catalog = SqlCatalog(connection, MAJOR)
    for name in ("add-tables", "filter-tables"):
        for pattern in PATTERNS:
            options = ((name, pattern),)
            shown = b"".join(changes(connection, slot, (("format-version", "1"), *options), keep=True))
            expected = [table for table in TABLES if _as_value(table) in shown]
            plugin = Wal2Json(options, PluginContext(MAJOR))
            actual = [table for table in TABLES if plugin.wants(catalog.table(table), catalog) & WANT_INSERT]
            assert expected == actual, (name, pattern)


def _as_value(table: str) -> bytes:
    return b'"columnvalues":["' + table.replace("\\", "\\\\").replace('"', '\\"').encode() + b'"]'
