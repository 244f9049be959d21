"""Commands of the replication protocol are read as a walsender reads them: what is SQL, what is malformed, and how."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import psycopg
import pytest
from psycopg import pq

from bad_input.servers import conninfo_of, small_server
from headwater.errors import SessionError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.version import VERSIONS
from headwater.protocol.replication_commands import (
    BaseBackup,
    Command,
    CreateReplicationSlot,
    DropReplicationSlot,
    IdentifySystem,
    Show,
    StartLogical,
    StartPhysical,
    TimelineHistory,
    parse_command,
)
from oracle.streamed_runs import since

pytestmark = pytest.mark.server

TEXTS = r"""
IDENTIFY_SYSTEM
IDENTIFY_SYSTEM;;
IDENTIFY_SYSTEM 1
identify_system
SELECT 1
SHOW wal_segment_size
SHOW ALL
SHOW a.b.c
SHOW TRANSACTION ISOLATION LEVEL
SHOW
SHOW "wal_segment_size"
show wal_level
TIMELINE_HISTORY 0
TIMELINE_HISTORY x
TIMELINE_HISTORY 99
READ_REPLICATION_SLOT none
READ_REPLICATION_SLOT "none"
READ_REPLICATION_SLOT
DROP_REPLICATION_SLOT n
DROP_REPLICATION_SLOT n WAIT
DROP_REPLICATION_SLOT n wait
DROP_REPLICATION_SLOT "N"
UPLOAD_MANIFEST 1
DROP_REPLICATION_SLOT 'n'
DROP_REPLICATION_SLOT SLOT
DROP_REPLICATION_SLOT "open
ALTER_REPLICATION_SLOT
ALTER_REPLICATION_SLOT n ()
ALTER_REPLICATION_SLOT n (FAILOVER)
ALTER_REPLICATION_SLOT n (FAILOVER 'x',)
START_REPLICATION SLOT n LOGICAL 0/0
START_REPLICATION SLOT n LOGICAL 0/0 ()
START_REPLICATION 0/0 LOGICAL
START_REPLICATION SLOT n LOGICAL 0/0 (a 'b', c)
START_REPLICATION SLOT n LOGICAL 0/0 (a 1)
START_REPLICATION SLOT n LOGICAL 0/0 (SLOT)
START_REPLICATION LOGICAL 0/0
START_REPLICATION SLOT n 0
START_REPLICATION SLOT n PHYSICAL 0/0 TIMELINE 7
START_REPLICATION SLOT n PHYSICAL 0/0 TIMELINE 0
CREATE_REPLICATION_SLOT n
CREATE_REPLICATION_SLOT n LOGICAL
CREATE_REPLICATION_SLOT n PHYSICAL LOGICAL
CREATE_REPLICATION_SLOT N-1 PHYSICAL
CREATE_REPLICATION_SLOT 'n' PHYSICAL
BASE_BACKUP (
BASE_BACKUP ()
CREATE_REPLICATION_SLOT "N" LOGICAL none TWO_PHASE
CREATE_REPLICATION_SLOT "N" LOGICAL none (SNAPSHOT 'x')
CREATE_REPLICATION_SLOT "N" TEMPORARY LOGICAL none NOEXPORT_SNAPSHOT USE_SNAPSHOT
BASE_BACKUP LABEL
CREATE_REPLICATION_SLOT "N" PHYSICAL (RESERVE_WAL, "x" 1, TIMELINE none)
BASE_BACKUP (LABEL 'it''s', NONE 1)
BASE_BACKUP LABEL 'open
BASE_BACKUP MAX_RATE 1 PROGRESS
BASE_BACKUP (TARGET 'none')
BASE_BACKUP WAL 1
"""
"""One a line."""

WORDS = [
    r"IDENTIFY_SYSTEM",
    r"SHOW",
    r"START_REPLICATION",
    r"CREATE_REPLICATION_SLOT",
    r"DROP_REPLICATION_SLOT",
    r"SLOT",
    r"ALL",
    r"ALTER_REPLICATION_SLOT",
    r"READ_REPLICATION_SLOT",
    r"TIMELINE_HISTORY",
    r"LOGICAL",
    r"PHYSICAL",
    r"TEMPORARY",
    r"WAIT",
    r"RESERVE_WAL",
    r"TWO_PHASE",
    r"USE_SNAPSHOT",
    r"TIMELINE",
    r"FAILOVER",
    r"'x'",
    r"7",
    r"0",
    r"F0/1",
    r"(",
    r")",
    r",",
    r";",
    r'"N"',
    r"none",
    r"n.m",
    r".",
    r'"',
    r"'",
    r"@",
    r"Äb",
    r"LABEL",
    r"FAST",
    r"UPLOAD_MANIFEST",
]


MALFORMED = ("syntax error", "unterminated quoted string", "invalid timeline 0")
"""What a walsender says of commands that its parser refuses; the same SQLSTATE is of options, too."""


def random_texts(count: int) -> Iterator[str]:
    """Give random commands, most of them malformed."""
    rng = Random(7)
    for _ in range(count):
        yield rng.choice((" ", "", "\n")).join(rng.choice(WORDS) for _ in range(rng.randrange(1, 7)))


def answer(server: EmbeddedPostgres, text: str) -> tuple[str, str]:
    """Return the SQLSTATE and the message that a walsender gives; of what goes well nothing."""
    connection = pq.PGconn.connect(f"{conninfo_of(server)} replication=database client_encoding=UTF8".encode())
    try:
        result = connection.exec_(text.encode())
        field = pq.DiagnosticField
        state, message = (result.error_field(name) or b"" for name in (field.SQLSTATE, field.MESSAGE_PRIMARY))
        return state.decode(), message.decode()
    finally:
        connection.finish()


def parsed(text: str, major: int) -> Command | SessionError | None:
    """Parse a command; an error is a value, too."""
    try:
        return parse_command(text, VERSIONS[major])
    except SessionError as error:
        return error


@pytest.mark.parametrize("major", since(14))
def test_commands_are_read_as_by_the_server(major: int) -> None:
    with small_server(major, max_replication_slots="0") as server:
        for text in ("", " \n IDENTIFY_SYSTEM ; ", *TEXTS.splitlines()[1:], *random_texts(300)):
            state, message = answer(server, text)
            command = parsed(text, major)
            if isinstance(command, SessionError):
                assert (command.sqlstate, command.message) == (state, message), text
            elif command is None:
                assert state != "42601" or " at " in message, (text, message)
            else:
                assert message not in MALFORMED, (text, message)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("IDENTIFY_SYSTEM", IdentifySystem()),
        ("SHOW a.B", Show("a.b")),
        ("TIMELINE_HISTORY 4294967298", TimelineHistory(2)),
        ("DROP_REPLICATION_SLOT S WAIT;", DropReplicationSlot("s", True)),
        (
            'CREATE_REPLICATION_SLOT "S""" TEMPORARY LOGICAL pgoutput (SNAPSHOT \'nothing\', TWO_PHASE, "x" 1)',
            CreateReplicationSlot('S"', "pgoutput", True, (("snapshot", "nothing"), ("two_phase", None), ("x", 1))),
        ),
        (
            "CREATE_REPLICATION_SLOT s PHYSICAL RESERVE_WAL",
            CreateReplicationSlot("s", None, False, (("reserve_wal", True),)),
        ),
        ("START_REPLICATION 1/F TIMELINE 3", StartPhysical(None, 0x10000000F, 3)),
        (
            'START_REPLICATION SLOT "s" LOGICAL 0/0 ("proto_version" \'4\', messages)',
            StartLogical("s", 0, (("proto_version", "4"), ("messages", None))),
        ),
        ("BASE_BACKUP (LABEL 'it''s', PROGRESS)", BaseBackup((("label", "it's"), ("progress", None)))),
        ("SELECT 'open", None),
    ],
)
def test_commands_become_values(text: str, command: object) -> None:
    assert parse_command(text, VERSIONS[18]) == command


def test_a_long_name_is_cut_as_by_the_server() -> None:
    with small_server(18) as server, psycopg.connect(conninfo_of(server)) as connection:
        name = "\u00e4" * 40
        row = connection.execute(f"SELECT $1::name, '{name}'::name".replace("$1", f"'{name}'").encode()).fetchone()
        assert row is not None
        assert parse_command(f"SHOW {name}", VERSIONS[18]) == Show(row[0])
