"""The helpers that ask a slot piece by piece: where records end, where windows are cut, what each call says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headwater.demo.stream_comparison import first_difference
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from oracle.calls import cut, get_piecewise, peek_between, record_ends
from oracle.streams import PluginStop, call_slot, format_lsn, parse_lsn

pytestmark = pytest.mark.server

SCRIPT = """
CREATE TABLE t (id int PRIMARY KEY, a text);
INSERT INTO t SELECT g, repeat('a', g) FROM generate_series(1, 300) g;
UPDATE t SET a = repeat('b', 5000) WHERE id < 9;
SELECT pg_switch_wal();
ALTER TABLE t ADD COLUMN b int DEFAULT 7;
DELETE FROM t WHERE id > 200;
SELECT pg_logical_emit_message(false, 'a', repeat('message', 4000))
"""


@pytest.fixture(scope="module", params=[16, 18])
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    programs = find_programs(request.param, plugin="test_decoding")
    with EmbeddedPostgres(programs, autovacuum=False, wal_segment_megabytes=1) as made:
        with made.connect() as connection:
            connection.execute("CREATE EXTENSION pg_walinspect")
            for slot in ("one", "other"):
                connection.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", [slot])
            for statement in SCRIPT.split(";\n"):
                connection.execute(statement.encode())
        yield made


@pytest.fixture
def connection(server: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    with server.connect() as made:
        yield made


def window(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    """Return the window from the first slot's position to the end of the log."""
    query = "SELECT confirmed_flush_lsn::text, pg_current_wal_flush_lsn()::text FROM pg_replication_slots"
    row = connection.execute(f"{query} WHERE slot_name = 'one'".encode()).fetchone()
    assert row is not None
    return parse_lsn(row[0]), parse_lsn(row[1])


def test_records_end_where_the_server_says(server: EmbeddedPostgres, connection: psycopg.Connection[Any]) -> None:
    lo, hi = window(connection)
    query = f"SELECT end_lsn::text FROM pg_get_wal_records_info('{format_lsn(lo)}', '{format_lsn(hi)}')"
    expected = [parse_lsn(end) for (end,) in connection.execute(query.encode()).fetchall()]
    ends = record_ends(server.wal_directory, lo, hi).tolist()
    assert len(ends) > 500
    assert ends == expected


def test_windows_are_cut_at_ends_of_records(server: EmbeddedPostgres, connection: psycopg.Connection[Any]) -> None:
    lo, hi = window(connection)
    ends = record_ends(server.wal_directory, lo, hi)
    pieces = cut(ends, lo, hi, 6, seed=1)
    assert pieces == cut(ends, lo, hi, 6, seed=1) != cut(ends, lo, hi, 6, seed=2)
    assert len(set(pieces)) == 6
    assert list(pieces) == sorted(pieces)
    assert pieces[-1] == hi
    assert set(pieces[:-1]) <= set(ends.tolist())
    assert cut(ends, lo, hi, 1, seed=1) == (hi,)
    assert len(cut(ends[:3], lo, hi, 9, seed=1)) == 4


def test_calls_together_say_what_one_says(server: EmbeddedPostgres, connection: psycopg.Connection[Any]) -> None:
    lo, hi = window(connection)
    pieces = cut(record_ends(server.wal_directory, lo, hi), lo, hi, 5, seed=3)
    whole, _ = call_slot(connection, "pg_logical_slot_peek_binary_changes", "other", hi, ())
    calls = get_piecewise(connection, "other", (), pieces)
    assert first_difference(whole, pa.concat_tables(call.messages for call in calls)) is None
    assert [call.end for call in calls] == list(pieces)
    assert [call.confirmed for call in calls[:-1]] == [call.start for call in calls[1:]]
    for call in calls:
        middle = peek_between(connection, "one", (), call.start, call.end)
        assert middle.start == call.start
        assert first_difference(call.messages, middle.messages) is None
    assert window(connection)[0] == lo


def test_an_error_is_an_answer(connection: psycopg.Connection[Any]) -> None:
    lo, hi = window(connection)
    call = peek_between(connection, "one", (("no-such-option", "1"),), lo, hi)
    assert call.error == PluginStop('option "no-such-option" = "1" is unknown', None)
    assert len(call.messages) == 0
