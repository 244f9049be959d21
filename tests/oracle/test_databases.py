"""One pass over the WAL for all databases of a cluster, against a slot in each of them.

Databases are created in the window with each strategy and of each kind of template, renamed, moved and dropped. A slot
in a new database sees what commits behind it; what came before is compared with the contents of its tables.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from arrow_types import values_of
from headwater import DatabaseChoice, DecodeRequest, Output, decode, decode_outputs
from headwater.demo.stream_comparison import first_difference, joined, messages_table
from headwater.errors import CatalogError
from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.decode import RunSettings
from headwater.pipeline.windows.databases import ChosenDatabases
from headwater.pipeline.windows.index_job import index_in_threads
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.pipeline.windows.windows import WalPass
from oracle.streams import parse_lsn

pytestmark = [pytest.mark.server]

ALL = DatabaseChoice(None)
OPTIONS = {"test_decoding": (), "pgoutput": (("proto_version", "1"), ("publication_names", "everything"))}
TABLE = "CREATE TABLE t (id int PRIMARY KEY, note text)"
PUBLICATION = "CREATE PUBLICATION everything FOR ALL TABLES"


@dataclass
class ManyDatabases:
    """A stopped server's files, what its slots said in each database, and what its tables hold.

    Attributes:
        messages: those of slots by (database, plugin), in order.
        contents: rows of the table t of a database that was created in the window: at first, and at last.
        start: where the slots of a database begin.
        quiet: LSN before which no catalog moves to another file.
    """

    major: int
    backup: Path
    wal: Path
    messages: dict[tuple[str, str], list[tuple[int, int, bytes]]] = field(default_factory=dict)
    contents: dict[str, list[dict[int, str]]] = field(default_factory=dict)
    start: dict[tuple[str, str], int] = field(default_factory=dict)
    quiet: int = 0

    def request(self, plugin: str = "test_decoding", **more: Any) -> DecodeRequest:
        """Make the request of each database."""
        return DecodeRequest(str(self.wal), str(self.backup), plugin=plugin, options=OPTIONS[plugin], **more)


class _Server:
    """A server that runs, and its slots."""

    def __init__(self, server: EmbeddedPostgres, many: ManyDatabases) -> None:
        self.server, self.many = server, many

    def run(self, database: str, *statements: str) -> None:
        with self.server.connect(database) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def make_slots(self, database: str, name: str | None = None) -> None:
        with self.server.connect(database) as connection:
            for plugin in OPTIONS:
                made = "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s)"
                row = connection.execute(made, [f"{name or database}_{plugin}", plugin]).fetchone()
                assert row is not None
                self.many.start[name or database, plugin] = parse_lsn(row[0])

    def take(self, database: str, name: str | None = None) -> None:
        """Let the slots say what they have not said yet."""
        with self.server.connect(database) as connection:
            for plugin, options in OPTIONS.items():
                words = "".join(f", '{part}'" for option in options for part in option)
                slot = f"{name or database}_{plugin}"
                call = f"SELECT lsn::text, xid::text, data FROM pg_logical_slot_get_binary_changes('{slot}', NULL, NULL"
                rows = connection.execute(f"{call}{words})".encode(), binary=True).fetchall()
                messages = self.many.messages.setdefault((name or database, plugin), [])
                messages += [(parse_lsn(lsn), int(xid), data) for lsn, xid, data in rows]

    def look(self, database: str) -> None:
        """Note what the table t holds."""
        with self.server.connect(database) as connection:
            rows = connection.execute("SELECT id, note FROM t").fetchall()
        self.many.contents.setdefault(database, []).append(dict(rows))

    def work_in_new(self, database: str) -> None:
        """Work in a database that was created just now; slots are made amid it."""
        self.look(database)
        self.run(database, "DELETE FROM t WHERE id >= 10")
        self.run(database, "INSERT INTO t SELECT n, 'note ' || n FROM generate_series(10, 15) n")
        self.run(database, "VACUUM FULL pg_class", "ALTER TABLE t ADD COLUMN IF NOT EXISTS more int DEFAULT 5")
        self.run(database, "UPDATE t SET note = 'changed' WHERE id < 12", "DELETE FROM t WHERE id = 14")
        self.make_slots(database)
        self.run(database, "INSERT INTO t VALUES (20, 'behind the slot')", "VACUUM FULL pg_attribute")
        self.run(
            database,
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS last text DEFAULT 'x'",
            "UPDATE t SET note = 'last' WHERE id = 20",
        )
        self.take(database)
        self.look(database)


def _prepare(at: _Server) -> None:
    at.run("postgres", "CREATE DATABASE shop", "CREATE DATABASE crm", "CREATE DATABASE gone", "CREATE DATABASE own")
    at.run("postgres", "CREATE TABLESPACE place LOCATION ''")
    for database in ("postgres", "shop", "crm", "gone", "own"):
        at.run(database, TABLE, PUBLICATION)
    at.run("own", "INSERT INTO t VALUES (1, 'in the template')")


def _work(at: _Server) -> None:
    for database in ("postgres", "shop", "crm", "gone"):
        at.make_slots(database)
    with ExitStack() as stack:
        shop, crm = (stack.enter_context(at.server.connect(database)) for database in ("shop", "crm"))
        shop.autocommit = crm.autocommit = False
        for number in range(4):
            shop.execute("INSERT INTO t VALUES (%s, 'shop')", [number])
            crm.execute("INSERT INTO t VALUES (%s, 'crm')", [number])
            at.run("postgres", f"INSERT INTO t VALUES ({number}, 'postgres')", f"CREATE ROLE role{number}")
            crm.execute(f"ALTER TABLE t ADD COLUMN c{number} int DEFAULT 3".encode())
            shop.execute("SAVEPOINT a")
            shop.execute("UPDATE t SET note = NULL WHERE id = %s", [number])
            (shop if number % 2 else crm).commit()
        shop.execute("SELECT pg_logical_emit_message(true, 'shop', 'message')")
        crm.rollback()
        shop.commit()
    with at.server.connect() as connection:
        row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert row is not None
        at.many.quiet = parse_lsn(row[0])
    at.run("crm", "VACUUM FULL pg_class", "TRUNCATE t", "GRANT role1 TO role2", "DROP ROLE role3")
    at.run("gone", "INSERT INTO t VALUES (1, 'will be dropped')", "ALTER TABLE t DROP COLUMN note")
    at.run("gone", "INSERT INTO t VALUES (2)")
    at.take("gone")
    at.run("gone", "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = 'gone'")
    at.run("postgres", "DROP DATABASE gone")
    _move(at)
    _create(at)
    at.run("postgres", "ALTER DATABASE shop RENAME TO boutique")
    at.run("boutique", "ALTER TABLE t ADD COLUMN renamed int DEFAULT 1", "INSERT INTO t VALUES (77, 'boutique')")
    at.run("postgres", "INSERT INTO t VALUES (99, 'the end')")
    at.take("boutique", "shop")
    at.take("postgres")


def _move(at: _Server) -> None:
    """Move there and back; the server itself cannot decode after a move what came before it."""
    for tablespace, number in (("place", 50), ("pg_default", 60)):
        at.take("crm")
        at.run("postgres", f"ALTER DATABASE crm SET TABLESPACE {tablespace}")
        at.run("crm", f"INSERT INTO t VALUES ({number}, 'moved')", f"ALTER TABLE t ADD COLUMN m{number} int DEFAULT 4")
        at.run(
            "crm", "VACUUM FULL pg_class", f"CREATE TABLE made{number} (a int)", f"INSERT INTO made{number} VALUES (1)"
        )
        at.run("crm", f"UPDATE t SET note = 'there' WHERE id = {number}")
    at.take("crm")


def _create(at: _Server) -> None:
    copies = at.many.major >= 15
    at.run("own", "ALTER TABLE t ADD COLUMN added int DEFAULT 9", "INSERT INTO t VALUES (2, 'added')")
    at.run("postgres", "CREATE DATABASE logged TEMPLATE own", "CREATE DATABASE fresh TABLESPACE place")
    at.run("postgres", f"CREATE DATABASE copied TEMPLATE own {'STRATEGY file_copy' if copies else ''} TABLESPACE place")
    at.run("own", "ALTER TABLE t ADD COLUMN not_in_copies int", "INSERT INTO t VALUES (3, 'not in copies')")
    at.run("fresh", TABLE, PUBLICATION)
    for database in ("fresh", "logged", "copied"):
        at.work_in_new(database)
    at.run("postgres", f"CREATE DATABASE grandchild TEMPLATE copied {'STRATEGY file_copy' if copies else ''}")
    at.work_in_new("grandchild")
    at.run("postgres", f"CREATE DATABASE empty TEMPLATE template0 {'STRATEGY file_copy' if copies else ''}")
    at.run("empty", TABLE, PUBLICATION)
    at.work_in_new("empty")


MAJORS = [pytest.param(major, marks=[] if major == 18 else pytest.mark.slow) for major in (14, 15, 16, 17, 18)]
"""Every day the newest one; the command is tested on 16."""


@pytest.fixture(scope="module", params=MAJORS, ids=lambda major: f"pg{major}-databases")
def many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyDatabases]:
    directory = tmp_path_factory.mktemp("databases")
    made = ManyDatabases(request.param, directory / "backup", directory / "pg_wal")
    programs = find_programs(request.param, plugin="test_decoding")
    settings = {"allow_in_place_tablespaces": "on", "max_replication_slots": "30"}
    with EmbeddedPostgres(programs, settings, autovacuum=False, wal_segment_megabytes=1) as server:
        at = _Server(server, made)
        _prepare(at)
        server.stop()
        server.copy_data_directory(made.backup)
        server.start()
        _work(at)
        server.stop()
        shutil.copytree(server.wal_directory, made.wal)
    yield made
    shutil.rmtree(directory)


FIRST = ("postgres", "shop", "crm", "gone")
NEW = ("fresh", "logged", "copied", "grandchild", "empty")


@pytest.mark.parametrize(
    ("plugin", "window_bytes"),
    [
        ("test_decoding", 1 << 30),
        ("pgoutput", 8 << 20),
        pytest.param("pgoutput", 1 << 30, marks=pytest.mark.slow),
        pytest.param("test_decoding", 8 << 20, marks=pytest.mark.slow),
    ],
)
def test_each_database_says_what_its_slot_says(
    engine: Engine, many: ManyDatabases, plugin: str, window_bytes: int
) -> None:
    with decode_outputs(
        engine, [Output(many.request(plugin))], ALL, settings=RunSettings(bounds=WindowBounds(window_bytes))
    ) as result:
        ours = {name: joined(output.tables()) for name, (output,) in result.databases.items()}
    assert sorted(ours) == sorted([*FIRST, *NEW, "own"])
    for name in (*FIRST, *NEW):
        expected = many.messages[name, plugin]
        assert len(expected) > 5
        actual = _behind(ours[name], expected)
        if plugin == "pgoutput" and name in (*NEW, "crm"):
            # Announced in our session before the server's, which begin with the slot, and for crm three times.
            expected, actual = _but_relations(expected), messages_table(_but_relations(_rows(actual)))
        difference = first_difference(messages_table(expected), actual)
        assert difference is None, f"{name}: {difference}"
    if plugin == "test_decoding":
        for name in NEW:
            _check_contents(ours[name], *many.contents[name])


def _behind(messages: pa.Table, expected: list[tuple[int, int, bytes]]) -> pa.Table:
    """Return the messages from the first one on that a slot said."""
    xids = messages.column("xid").to_pylist()
    return messages.slice(xids.index(expected[0][1]))


def _rows(table: pa.Table) -> list[tuple[int, int, bytes]]:
    return [(row["lsn"], row["xid"], row["data"]) for row in table.to_pylist()]


def _but_relations(messages: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    return [message for message in messages if message[2][:1] != b"R"]


CHANGE = re.compile(rb"table public\.t: (INSERT|UPDATE|DELETE): id\[integer\]:(\d+)(?: note\[text\]:'(.*?)')?")


def _check_contents(messages: pa.Table, first: dict[int, str], last: dict[int, str]) -> None:
    """Check that changes, applied to what a database had from its template, make what its table holds."""
    rows = dict(first)
    for change in filter(None, map(CHANGE.match, values_of(messages.column("data")))):
        if change[1] == b"DELETE":
            del rows[int(change[2])]
        else:
            rows[int(change[2])] = change[3].decode()
    assert rows == last


def test_one_pass_indexes_the_wal_once(many: ManyDatabases) -> None:
    """Of four databases as much as of one. Of one that is created, what follows its record is indexed again."""
    alone, lo, hi = _indexed(many, "postgres", end=many.quiet)
    four, *_ = _indexed(many, *FIRST, end=many.quiet)
    assert alone == four == dict.fromkeys(alone, 1)
    assert sum(high - low for low, high in alone) == hi - lo
    fresh, *_ = _indexed(many, "postgres", "fresh", end=many.start["fresh", "pgoutput"])
    again = [run for run, times in fresh.items() if times > 1]
    # The database was created after the quiet part.
    assert again
    assert min(high for _, high in again) > many.quiet
    assert max(fresh.values()) <= 3


def _indexed(many: ManyDatabases, *names: str, end: int) -> tuple[Counter[tuple[int, int]], int, int]:
    """Count how often each run is indexed; return that, and where the pass begins and ends."""
    indexed: Counter[tuple[int, int]] = Counter()

    def index(tasks: Any) -> Any:
        indexed.update((task.lo, task.hi) for task in tasks)
        return index_in_threads(tasks, 1)

    chosen = ChosenDatabases.open([many.request(end=end)], DatabaseChoice(names))
    (window,) = WalPass(chosen.first, index, 1, new_plans=chosen.new_plans)
    assert len(window) == len(names)
    return indexed, chosen.first[0].opened.store.start_lsn, end


@pytest.mark.parametrize("plugin", ["test_decoding", "pgoutput"])
def test_a_database_that_is_created_in_the_window_is_asked_for_by_name(
    engine: Engine, many: ManyDatabases, plugin: str
) -> None:
    """From where its slot was made on, so that relations are announced in the same session."""
    request = many.request(plugin, start=many.start["copied", plugin])
    with decode_outputs(engine, [Output(request)], DatabaseChoice(("copied",))) as result:
        ((output,),) = result.databases.values()
        assert first_difference(messages_table(many.messages["copied", plugin]), joined(output.tables())) is None


def test_names_that_no_database_has(engine: Engine, many: ManyDatabases) -> None:
    with pytest.raises(CatalogError, match='database "nobody" does not exist, and the WAL creates none of that name'):
        decode_outputs(engine, [Output(many.request())], DatabaseChoice(("postgres", "nobody")))
    with pytest.raises(CatalogError, match='it is what the database "shop" was renamed to: ask for "shop"'):
        decode_outputs(engine, [Output(many.request())], DatabaseChoice(("boutique",)))


def test_one_database_alone_says_the_same(engine: Engine, many: ManyDatabases) -> None:
    for name in ("crm", "gone"):
        with decode(engine, many.request(database=name)) as result:
            actual = joined(result.tables())
        expected = many.messages[name, "test_decoding"]
        assert first_difference(messages_table(expected), _behind(actual, expected)) is None
