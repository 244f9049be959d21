"""Slots that several sessions want: who waits, what ends the waiting, whose a temporary slot is; as of a server."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg import pq
from psycopg.pq.abc import PGconn

from bad_input.servers import run, small_server
from headwater.pg.lsn import Lsn
from headwater.protocol.replication_messages import status_update
from headwater.walsender.slot_progress import WRITE_SECONDS
from serving.service import Serving, backup_of, wait_until

pytestmark = pytest.mark.server

CREATE = "CREATE_REPLICATION_SLOT {} LOGICAL test_decoding"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DROP%' AND state = 'active'"

Environment = Mapping[str, str]


def connected(environment: Environment, replication: str = "database") -> PGconn:
    """Connect as a walsender's client."""
    place = f"host={environment['PGHOST']} port={environment['PGPORT']} user={environment['PGUSER']}"
    connection = pq.PGconn.connect(f"{place} dbname=postgres replication={replication}".encode())
    assert connection.status == pq.ConnStatus.OK, connection.error_message
    return connection


def done(connection: PGconn, command: str) -> tuple[str, str]:
    """Run a command; return SQLSTATE and message of its error, or its tag."""
    connection.send_query(command.encode())
    return answered(connection)


def answered(connection: PGconn) -> tuple[str, str]:
    """Return what a command is answered."""
    last = ("", "")
    while (result := connection.get_result()) is not None:
        fields = (pq.DiagnosticField.SQLSTATE, pq.DiagnosticField.MESSAGE_PRIMARY)
        state, message = ((result.error_field(field) or b"").decode() for field in fields)
        last = (state, message) if state else ("", (result.command_status or b"").decode())
    return last


def is_answered(connection: PGconn) -> bool:
    """Tell whether the answer has come."""
    connection.consume_input()
    return not connection.is_busy()


@contextmanager
def streaming(environment: Environment, slot: str) -> Iterator[PGconn]:
    """Stream from a slot, as long as the block lasts or the connection is there."""
    connection = connected(environment)
    result = connection.exec_(f"START_REPLICATION SLOT {slot} LOGICAL 0/0".encode())
    assert result.status == pq.ExecStatus.COPY_BOTH, result.error_message
    yield connection
    connection.finish()


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Environment]]:
    """Places of a server and of a service over its WAL."""
    directory = tmp_path_factory.mktemp("slots")
    with small_server(16) as server:
        run(server, "CREATE TABLE t (a int)")
        catalog = backup_of(server, directory / "base")
        with Serving(server.wal_directory, catalog, directory / "slots") as serving:
            yield [server.client_environment(), serving.environment()]
            assert serving.stop() == 0


def test_who_waits_for_a_slot_can_be_canceled(environments: list[Environment]) -> None:
    answers = []
    for environment in environments:
        waiting = connected(environment)
        assert done(waiting, CREATE.format("used"))[0] == ""
        with streaming(environment, "used"):
            waiting.send_query(b"DROP_REPLICATION_SLOT used WAIT")

            def is_canceled(waiting: PGconn = waiting) -> bool:
                waiting.get_cancel().cancel()
                return is_answered(waiting)

            wait_until(is_canceled)
            answers.append(answered(waiting))
        answers.append(done(waiting, "DROP_REPLICATION_SLOT used WAIT"))
        waiting.finish()
    assert answers[:2] == answers[2:]
    assert answers[0] == ("57014", "canceling statement due to user request")


def test_a_slot_that_was_dropped_while_it_was_waited_for_is_not_there(environments: list[Environment]) -> None:
    answers = []
    for environment in environments:
        waiting = [connected(environment) for _ in range(2)]
        assert done(waiting[0], CREATE.format("wanted"))[0] == ""
        watching = connected(environment, "false")
        with streaming(environment, "wanted"):
            for connection in waiting:
                connection.send_query(b"DROP_REPLICATION_SLOT wanted WAIT")
            wait_until(lambda watching=watching: watching.exec_(WAITING.encode()).get_value(0, 0) == b"2")  # type: ignore[misc]
        answers.append(sorted(map(answered, waiting)))
        for connection in (*waiting, watching):
            connection.finish()
    assert answers[0] == answers[1]
    assert answers[0][1] == ("42704", 'replication slot "wanted" does not exist')


def test_a_name_that_was_a_temporary_slots_belongs_to_who_takes_it(environments: list[Environment]) -> None:
    answers = []
    for environment in environments:
        first, second = (connected(environment) for _ in range(2))
        done(first, "CREATE_REPLICATION_SLOT name TEMPORARY LOGICAL test_decoding")
        refused = done(second, CREATE.format("name")), done(second, "DROP_REPLICATION_SLOT name")[0]
        done(first, "DROP_REPLICATION_SLOT name")
        done(second, CREATE.format("name"))
        failed = done(first, "CREATE_REPLICATION_SLOT name LOGICAL nothing_like_that")[0]
        first.finish()
        answers.append((refused, failed, done(second, "DROP_REPLICATION_SLOT name")))
        second.finish()
    assert answers[0] == answers[1]
    assert answers[0][2][0] == ""


def test_what_is_confirmed_is_shown_at_once(environments: list[Environment]) -> None:
    """The service writes it into the slot's file later."""
    for environment in environments:
        watching = connected(environment, "false")
        create = "SELECT pg_create_logical_replication_slot('confirmed', 'test_decoding')"
        assert watching.exec_(create.encode()).status == pq.ExecStatus.TUPLES_OK
        emitted = watching.exec_(b"SELECT pg_current_wal_lsn()").get_value(0, 0)
        assert emitted is not None
        with streaming(environment, "confirmed") as connection:
            begin, lsn = time.monotonic(), Lsn(Lsn.parse(emitted.decode()) + 16)
            connection.put_copy_data(status_update(lsn, lsn, lsn))
            connection.flush()
            shown = f"SELECT confirmed_flush_lsn = '{lsn}' FROM pg_replication_slots WHERE slot_name = 'confirmed'"
            wait_until(lambda: watching.exec_(shown.encode()).get_value(0, 0) == b"t")  # noqa: B023
            assert time.monotonic() - begin < WRITE_SECONDS
        watching.finish()


def test_a_second_service_on_the_same_slots_is_refused(tmp_path: Path) -> None:
    with small_server(18) as server:
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            connection = connected(serving.environment())
            assert done(connection, "CREATE_REPLICATION_SLOT mine TEMPORARY LOGICAL test_decoding")[0] == ""
            with pytest.raises(AssertionError, match=f"the process {serving.pid} serves the slots"):
                Serving(server.wal_directory, catalog, tmp_path / "slots").start()
            assert done(connection, "DROP_REPLICATION_SLOT mine")[0] == ""
            connection.finish()
            serving.stop(signal.SIGKILL)
            serving.start()
