"""The table of types' forms against the catalog of a server of each major version: no type is forgotten."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.rows import _send_codes as sent
from headwater.rows import _text_codes as codes
from headwater.rows.type_forms import BUILT_IN, form_code, has_send_function, send_code
from values.generated_values import WITHOUT_VALUES
from values.stored_tables import type_info

pytestmark = pytest.mark.server

WITHOUT_FORM = frozenset[str](
    {
        *("any", "anyarray", "anycompatible", "anycompatiblearray", "anycompatiblemultirange"),
        *("anycompatiblenonarray", "anycompatiblerange", "anyelement", "anyenum", "anymultirange", "anynonarray"),
        *("anyrange", "cstring", "event_trigger", "fdw_handler", "index_am_handler", "internal", "language_handler"),
        *("pg_ddl_command", "record", "table_am_handler", "trigger", "tsm_handler", "unknown", "void"),
    }
)
"""Pseudo-types, of which no column can be (typtype p); arrays of them stand for nothing in a table either."""


TYPES = """
    select t.oid::int8, t.typname, t.typtype::text, o.prosrc, coalesce(s.prosrc, '')
    from pg_type t join pg_proc o on o.oid = t.typoutput left join pg_proc s on s.oid = t.typsend
    where t.oid < 16384 and t.typsubscript::text <> 'array_subscript_handler' and typrelid = 0
"""
OWN_ARRAYS = ("int2vector", "oidvector")


@pytest.fixture(scope="module")
def connection(server: EmbeddedPostgres) -> Any:
    """Hold a session of the server."""
    with server.connect() as opened:
        opened.execute("set client_encoding = 'utf8'")
        yield opened


def test_every_type_of_the_server_is_in_the_table(connection: psycopg.Connection[Any]) -> None:
    rows = connection.execute(TYPES).fetchall()
    assert len(rows) > 70
    assert {name for _, name, kind, *_ in rows if kind == "p"} <= WITHOUT_FORM
    base = [row for row in rows if row[2] == "b"]
    lacking = {name for oid, name, *_ in base if oid not in BUILT_IN or BUILT_IN[oid].text == codes.CODE_NONE}
    assert lacking <= WITHOUT_VALUES
    for oid, name, _, output, send in base:
        assert (BUILT_IN[oid].output, BUILT_IN[oid].send) == (output, send), name
        assert (BUILT_IN[oid].binary == sent.SEND_NONE) == (not send), name
        assert not send or BUILT_IN[oid].binary >= sent.SENT, name


def test_every_type_that_a_column_can_have_has_forms(connection: psycopg.Connection[Any]) -> None:
    """Arrays, ranges, the catalogs' own composites and domains among them."""
    query = "select oid::int8, typname, typsend <> 0 from pg_type where typtype <> 'p' and oid < 16384"
    for oid, name, has_one in connection.execute(query).fetchall():
        type = type_info(connection, oid)
        base = type.base or type
        assert form_code(base) != codes.CODE_NONE or name.removeprefix("_") in WITHOUT_VALUES, name
        assert has_send_function(base) == has_one, name
        assert not has_one or send_code(base) >= sent.SENT, name


def test_the_table_has_no_type_that_no_server_has(connection: psycopg.Connection[Any]) -> None:
    there = {oid for (oid,) in connection.execute("select oid::int8 from pg_type where oid < 16384").fetchall()}
    assert BUILT_IN.keys() - there <= LATER
    arrays = connection.execute("select oid::int8 from pg_type where typname = any(%s)", (list(OWN_ARRAYS),)).fetchall()
    assert all(oid in BUILT_IN for (oid,) in arrays)


LATER = frozenset({6437, 6490})
"""Types that are newer than the oldest server compared with: oid8, regdatabase."""
