"""Publications that are dropped, renamed or made in the window: 18 passes over them, older servers stop at a change.

The server's error tells the LSN of the change at which it stopped: ours must be of the same change, and with the end
that it advises, both say the same.
"""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from psycopg.types.string import ByteaBinaryLoader

from headwater import DecodeRequest, decode
from headwater.demo.stream_comparison import first_difference, joined, messages_table
from headwater.errors import HeadwaterWarning, PluginError
from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from oracle.script import ScriptRun
from oracle.streams import format_lsn, parse_lsn

pytestmark = [pytest.mark.server]

SETUP = (
    "CREATE TABLE t (id int PRIMARY KEY)",
    "CREATE TABLE u (id int PRIMARY KEY)",
    "CREATE PUBLICATION dropped FOR ALL TABLES",
    "CREATE PUBLICATION renamed FOR TABLE t, u WITH (publish = 'insert')",
    "CREATE PUBLICATION stays FOR TABLE u",
)
SCRIPT = """
a| INSERT INTO t VALUES (1)
a| BEGIN
a| INSERT INTO t VALUES (2)
b| DROP PUBLICATION dropped
c| BEGIN
c| INSERT INTO t VALUES (3)
d| INSERT INTO u VALUES (1)
c| INSERT INTO u VALUES (2)
c| COMMIT
a| INSERT INTO t VALUES (4)
a| COMMIT
b| ALTER PUBLICATION renamed RENAME TO other
c| INSERT INTO t VALUES (5)
a| BEGIN
a| INSERT INTO t VALUES (8)
b| CREATE PUBLICATION dropped FOR TABLE t
c| INSERT INTO t VALUES (6)
a| INSERT INTO t VALUES (9)
a| COMMIT
b| ALTER PUBLICATION other RENAME TO renamed
c| INSERT INTO t VALUES (7)
b| BEGIN
b| INSERT INTO u VALUES (3)
b| CREATE PUBLICATION brief FOR TABLE u
b| INSERT INTO u VALUES (4)
b| DROP PUBLICATION brief
b| COMMIT
c| DROP PUBLICATION renamed
d| INSERT INTO u VALUES (5)
"""


@dataclass(frozen=True)
class Server:
    """A server on which the script ran, running, and its files as they were when it was stopped."""

    server: EmbeddedPostgres
    major: int
    start: int
    backup: Path
    wal: Path

    def says(self, names: str, end: int | None = None) -> pa.Table:
        """Return the server's messages."""
        limit = None if end is None else format_lsn(end)
        call = "pg_logical_slot_peek_binary_changes('s', %s, NULL, 'proto_version', '1', 'publication_names', %s)"
        with self.server.connect() as connection:
            connection.adapters.register_loader("text", ByteaBinaryLoader)
            query = f"SELECT lsn::text, xid::text, data FROM {call}".encode()
            rows = connection.execute(query, [limit, names], binary=True).fetchall()
        return messages_table((parse_lsn(lsn.decode()), int(xid), data) for lsn, xid, data in rows)

    def decoded(self, engine: Engine, names: str, end: int | None = None) -> pa.Table:
        """Decode our messages."""
        options = (("proto_version", "1"), ("publication_names", names))
        request = DecodeRequest(str(self.wal), str(self.backup), "postgres", "pgoutput", options, self.start, end, ())
        with decode(engine, request) as result:
            return joined(result.tables())


@pytest.fixture(scope="module")
def publishing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    major, directory = request.param, tmp_path_factory.mktemp("missing")
    with EmbeddedPostgres(find_programs(major, plugin="test_decoding"), autovacuum=False) as made:
        with made.connect() as connection:
            for statement in SETUP:
                connection.execute(statement.encode())
        made.stop()
        backup = made.copy_data_directory(directory / "backup")
        made.start()
        with made.connect() as connection:
            slot = "pg_create_logical_replication_slot('s', 'pgoutput')"
            row = connection.execute(f"SELECT lsn::text FROM {slot}".encode()).fetchone()
        assert row is not None
        script = ScriptRun(made, "public")
        script.run(SCRIPT)
        script.close()
        made.stop()
        wal = Path(shutil.copytree(made.wal_directory, directory / "pg_wal"))
        made.start()
        yield Server(made, major, parse_lsn(row[0]), backup, wal)


@pytest.mark.parametrize("names", ["dropped", "renamed", "dropped,renamed", "renamed,stays", "nobody,stays"])
def test_a_publication_that_is_missing_at_some_time(engine: Engine, publishing: Server, names: str) -> None:
    if publishing.major >= 18:
        check_passed_over(engine, publishing, names)
    else:
        check_stopped(engine, publishing, names)


def test_a_publication_that_only_its_own_transaction_saw(engine: Engine, publishing: Server) -> None:
    if publishing.major >= 18:
        check_passed_over(engine, publishing, "brief")
    else:
        with pytest.raises(PluginError, match=r'publication "brief" does not exist \(at') as error:
            publishing.decoded(engine, "brief")
        assert error.value.lsn == place_of_error(publishing, "brief")


def check_passed_over(engine: Engine, publishing: Server, names: str) -> None:
    """Check that messages are the same, with a warning for each publication that is missing at some time."""
    with pytest.warns(HeadwaterWarning) as caught:
        actual = publishing.decoded(engine, names)
    warned = re.findall(r'skipped loading publication "(\w+)"', " ".join(str(warning.message) for warning in caught))
    assert sorted(warned) == [name for name in names.split(",") if name != "stays"]
    expected = publishing.says(names)
    assert first_difference(expected, actual) is None
    assert len(expected) > 2


def check_stopped(engine: Engine, publishing: Server, names: str) -> None:
    """Check for an error at the change at which the server stops; up to the end it advises, messages are the same."""
    with pytest.raises(PluginError, match="does not exist") as error:
        publishing.decoded(engine, names)
    assert error.value.lsn == place_of_error(publishing, names)
    match = re.search(r"end the window at ([0-9A-F/]+)", error.value.hint or "")
    assert match is not None
    end = parse_lsn(match[1])
    assert first_difference(publishing.says(names, end), publishing.decoded(engine, names, end)) is None
    with pytest.raises(PluginError, match="does not exist"):
        publishing.decoded(engine, names, end + 1)


def place_of_error(publishing: Server, names: str) -> int:
    """Return the LSN of the change at which the server finds that a publication does not exist."""
    with pytest.raises(psycopg.errors.UndefinedObject, match="does not exist") as error:
        publishing.says(names)
    place = re.search(r"in the change callback, associated LSN ([0-9A-F/]+)", error.value.diag.context or "")
    assert place is not None
    return parse_lsn(place[1])


def test_nothing_is_missing(engine: Engine, publishing: Server) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", HeadwaterWarning)
        assert first_difference(publishing.says("stays"), publishing.decoded(engine, "stays")) is None


def test_publications_of_which_none_has_ever_existed_are_an_error(engine: Engine, publishing: Server) -> None:
    with pytest.raises(PluginError, match='publication "nobody" does not exist; name a publication that exists'):
        publishing.decoded(engine, "nobody,nothing")
