"""Commands of replication, and what is refused: the service answers as the server does, field by field."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg import pq

from bad_input.servers import run, small_server
from headwater.local_servers.server_programs import program_version
from serving.answers import answer_of, connected, places
from serving.service import Serving, backup_of

pytestmark = pytest.mark.server

COMMANDS = (
    "IDENTIFY_SYSTEM",
    "identify_system",
    "SHOW data_directory_mode",
    "SHOW wal_segment_size",
    "SHOW nothing_of_the_kind",
    "SHOW application_name",
    "SELECT pg_catalog.set_config('search_path', '', false);",
    "SHOW search_path",
    "CREATE_REPLICATION_SLOT",
    'CREATE_REPLICATION_SLOT "Bad" LOGICAL test_decoding',
    f'CREATE_REPLICATION_SLOT "{"x" * 63}" LOGICAL nothing_of_the_kind',
    'CREATE_REPLICATION_SLOT "" LOGICAL test_decoding',
    "CREATE_REPLICATION_SLOT s LOGICAL test_decoding",
    "CREATE_REPLICATION_SLOT s LOGICAL test_decoding",
    "CREATE_REPLICATION_SLOT t TEMPORARY LOGICAL test_decoding",
    "START_REPLICATION SLOT nothing LOGICAL 0/0",
    "START_REPLICATION SLOT t LOGICAL 0/0",
    "START_REPLICATION SLOT s LOGICAL 0/0 (\"include-xids\" 'maybe')",
    "START_REPLICATION SLOT s LOGICAL 0/0 (nothing 'x')",
    "DROP_REPLICATION_SLOT nothing",
    "BEGIN",
    "START_REPLICATION SLOT s LOGICAL 0/0",
    "SHOW work_mem_is_none",
    "ROLLBACK",
    "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ",
    "BEGIN",
    "COMMIT",
    "COMMIT",
    "SET wal_sender_timeout = 'soon'",
    "SET nothing.of.the.kind TO 1",
    "SET datestyle TO 'German'",
    "SHOW datestyle",
    "",
    "DROP_REPLICATION_SLOT s",
    "DROP_REPLICATION_SLOT s WAIT",
)
OF_15 = (
    "CREATE_REPLICATION_SLOT s LOGICAL test_decoding (SNAPSHOT 'some')",
    "CREATE_REPLICATION_SLOT s LOGICAL test_decoding (SNAPSHOT 'nothing', SNAPSHOT 'nothing')",
    "CREATE_REPLICATION_SLOT s LOGICAL test_decoding (RESERVE_WAL)",
    "CREATE_REPLICATION_SLOT s LOGICAL test_decoding (TWO_PHASE 'perhaps')",
    "CREATE_REPLICATION_SLOT s LOGICAL test_decoding (SNAPSHOT 'use')",
    "CREATE_REPLICATION_SLOT s LOGICAL test_decoding (SOMETHING)",
    "READ_REPLICATION_SLOT nothing",
    "BEGIN",
    "CREATE_REPLICATION_SLOT s LOGICAL test_decoding (SNAPSHOT 'use')",
    "ROLLBACK",
    "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ",
    "CREATE_REPLICATION_SLOT u LOGICAL test_decoding (SNAPSHOT 'use', TWO_PHASE)",
    "COMMIT",
    "READ_REPLICATION_SLOT u",
    "DROP_REPLICATION_SLOT u",
)
OF_17 = ("ALTER_REPLICATION_SLOT nothing (FAILOVER)", "ALTER_REPLICATION_SLOT nothing (SOMETHING)")


@pytest.mark.parametrize("major", [14, 16, 18, pytest.param(19, marks=pytest.mark.slow)])
def test_answers(tmp_path: Path, major: int) -> None:
    commands = [*COMMANDS, *(OF_15 if major >= 15 else ()), *(OF_17 if major >= 17 else ())]
    with small_server(major) as server:
        run(server, "CREATE TABLE t (a int)")
        catalog = backup_of(server, tmp_path / "base")
        release = program_version(server.programs.program("postgres"))
        different: list[object] = []
        with Serving(server.wal_directory, catalog, tmp_path / "slots", "--server-version", release) as serving:
            for words in ({"replication": "database"}, {"replication": "true"}):
                theirs, ours = places(server, serving, **words)
                with connected(**theirs) as server_side, connected(**ours) as our_side:
                    for command in commands:
                        answers = [answer_of(side, command) for side in (server_side, our_side)]
                        if answers[0] != answers[1]:
                            different.append((words, command, *answers))
            assert different == [], "\n".join(map(str, different))


@pytest.mark.parametrize(
    "major", [16, 18, *(pytest.param(major, marks=pytest.mark.slow) for major in (14, 15, 17, 19))]
)
def test_connections_that_are_refused(tmp_path: Path, major: int) -> None:
    refused = (
        {"dbname": "nothing", "replication": "database"},
        {"replication": "perhaps"},
        {"replication": "database", "options": "-c nothing_of_the_kind=1"},
        {"replication": "database", "options": "-c datestyle=sometimes"},
        {"replication": "database", "options": "nonsense"},
        {"replication": "database", "options": "-c Nothing_Of_The_Kind=1"},
        {"options": "-c shared_buffers=1"},
        {"options": "-c fsync=off"},
        {"options": "-c wal_level=minimal"},
        {"options": "-c enable_seqscan=perhaps"},
        {"options": "-c client_min_messages=x"},
        {"options": "-c work_mem=x"},
        {"replication": "database", "client_encoding": "KLINGON"},
    )
    with small_server(major) as server:
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            for words in refused:
                messages = []
                for place in places(server, serving, **words):
                    with connected(**place) as connection:
                        assert connection.status == pq.ConnStatus.BAD
                        messages.append(connection.error_message.decode().partition("FATAL: ")[2])
                assert messages[0], words
                assert messages[1] == messages[0], words
