"""A server's run of a few transactions of several MB each, among many small ones, and what its plugins say of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import ServerPrograms
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.open_request import OpenRequest, open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.windows.index_job import index_in_threads
from headwater.pipeline.windows.windows import PlanWindows
from headwater.reorder.plan import Slice
from headwater.reorder.slices.cutting import cut_slices

Row = tuple[int, int, bytes]
"""LSN, xid and data of one message."""

OPTIONS = {
    "test_decoding": (("include-xids", "1"),),
    "pgoutput": (("proto_version", "1"), ("publication_names", "picked"), ("messages", "true")),
}

SCHEMA = """
CREATE TABLE small (id int PRIMARY KEY, a text);
CREATE TABLE big (id int PRIMARY KEY, a int, v text);
ALTER TABLE big ALTER v SET STORAGE EXTERNAL;
CREATE TABLE full_row (id int, v text);
ALTER TABLE full_row ALTER v SET STORAGE EXTERNAL, REPLICA IDENTITY FULL;
CREATE TABLE unpublished (id int PRIMARY KEY, v text);
CREATE TABLE side (id int, a text);
CREATE PUBLICATION picked FOR TABLE small, big, full_row, side;
"""


@dataclass(frozen=True)
class ServerRun:
    """The remains of the run: files, where the slots began, and their messages by plugin."""

    wal: Path
    backup: Path
    start: int
    messages: dict[str, list[Row]]

    def request(self, plugin: str) -> DecodeRequest:
        return DecodeRequest(
            str(self.wal), str(self.backup), "postgres", plugin=plugin, options=OPTIONS[plugin], start=self.start
        )


def run_server(
    programs: ServerPrograms, directory: Path, schema: str, workload: Callable[[EmbeddedPostgres], None]
) -> ServerRun:
    """Run a workload on a new server; the schema makes a publication ``picked``."""
    with EmbeddedPostgres(programs, autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            connection.execute(schema)
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        with server.connect() as connection:
            start = max(_make_slot(connection, plugin) for plugin in OPTIONS)
            workload(server)
            messages = {plugin: list(_peek(connection, plugin)) for plugin in OPTIONS}
        server.stop()
        wal = Path(shutil.copytree(server.wal_directory, directory / "wal"))
    return ServerRun(wal, backup, start, messages)


def _make_slot(connection: Any, plugin: str) -> int:
    sql = "SELECT lsn FROM pg_create_logical_replication_slot(%s, %s)"
    return int(Lsn.parse(connection.execute(sql, [plugin, plugin]).fetchone()[0]))


def _peek(connection: Any, plugin: str) -> Iterator[Row]:
    options = [word for option in OPTIONS[plugin] for word in option]
    function = "pg_logical_slot_peek_binary_changes"
    sql = f"SELECT lsn::text, xid::text::int8, data FROM {function}(%s, NULL, NULL, VARIADIC %s)"
    for lsn, xid, data in connection.execute(sql, [plugin, options]):
        yield int(Lsn.parse(lsn)), xid, bytes(data)


@dataclass
class _Session:
    """A connection whose rows are its own: their ids leave ``number`` when divided by three."""

    connection: Any
    rng: Random
    number: int
    last: int = 0

    def run(self, sql: str, *parameters: object) -> None:
        self.connection.execute(sql, parameters)

    def next_id(self) -> int:
        self.last += 1
        return self.last * 3 + self.number

    def text(self, *sizes: int) -> str:
        return self.rng.randbytes(self.rng.choice(sizes) // 2).hex()

    def some(self, part: int) -> str:
        """Return a condition for one of so many parts of the session's rows."""
        return f"mod(id, 3) = {self.number} AND mod(id / 3, {part}) = {self.rng.randrange(part)}"


def huge_workload(server: EmbeddedPostgres) -> None:
    """Run two sessions with transactions of many MB, and one of many small transactions."""
    rng = Random(1)
    with server.connect() as for_first, server.connect() as for_second, server.connect() as for_small:
        first, second, small = (_Session(c, rng, i) for i, c in enumerate((for_first, for_second, for_small)))
        for session in (first, second, small):
            session.run("SET statement_timeout = '20s'")
        first.run("BEGIN")
        second.run("BEGIN")
        for step in range(120):
            _big_step(first)
            if step % 2:
                _big_step(second)
            for _ in range(4):
                _small_step(small)
            if step in (40, 80):
                small.run(f"ALTER TABLE side ADD COLUMN c{step} int DEFAULT {step}")
            if step == 60:
                second.run("COMMIT")
                second.run("BEGIN")
                small.run("ALTER PUBLICATION picked DROP TABLE full_row")
            if step == 90:
                small.run("ALTER PUBLICATION picked SET (publish = 'insert, delete')")
        first.run("COMMIT")
        second.run("COMMIT")


def _big_step(session: _Session) -> None:
    """Do a step of a transaction of many MB, now and then inside a savepoint that may be rolled back."""
    outcome = session.rng.choice((None, "RELEASE s", "ROLLBACK TO s"))
    if outcome:
        session.run("SAVEPOINT s")
    session.rng.choice((_copy, _copy, _inserts, _upserts, _updates, _deletes, _unseen))(session)
    if session.rng.random() < 0.2:
        session.run("SELECT pg_logical_emit_message(true, 'p', %s)", session.text(40))
    if outcome:
        session.run(outcome)


def _copy(session: _Session) -> None:
    """Copy rows that are toasted before the first record of their MULTI_INSERTs."""
    with session.connection.cursor().copy("COPY big FROM STDIN") as copy:
        for _ in range(session.rng.choice((3, 30, 60))):
            copy.write_row((session.next_id(), 0, session.text(10, 10, 2200, 9000)))


def _unseen(session: _Session) -> None:
    for _ in range(40):
        session.run("INSERT INTO unpublished VALUES (%s, 'x')", session.next_id())


def _inserts(session: _Session) -> None:
    for table in ("full_row (id, v)", "small (id, a)", "unpublished (id, v)"):
        session.run(f"INSERT INTO {table} VALUES (%s, %s)", session.next_id(), session.text(5000))


def _upserts(session: _Session) -> None:
    sql = "INSERT INTO big VALUES (%s, 1, %s) ON CONFLICT (id) DO UPDATE SET a = big.a + 1"
    for _ in range(5):
        new = session.next_id()
        session.run(sql, new, session.text(20, 6000))
        session.run(sql, new, session.text(20, 6000))
        session.run("INSERT INTO unpublished VALUES (%s, %s) ON CONFLICT DO NOTHING", new, session.text(20, 6000))


def _updates(session: _Session) -> None:
    for table, change in (("big", "a = a + 1"), ("big", "v = v || 'more'"), ("full_row", "id = id + 3")):
        session.run(f"UPDATE {table} SET {change} WHERE {session.some(30)}")


def _deletes(session: _Session) -> None:
    for table in ("big", "full_row"):
        session.run(f"DELETE FROM {table} WHERE {session.some(60)}")


def _small_step(session: _Session) -> None:
    """Run a transaction of one statement."""
    table = session.rng.choice(("side (id, a)", "full_row (id, v)", "unpublished (id, v)"))
    session.run(f"INSERT INTO {table} VALUES (%s, %s)", session.next_id(), session.text(8, 3000))
    if session.rng.random() < 0.1:
        session.run("SELECT pg_logical_emit_message(false, 'bare', 'content')")
    if session.rng.random() < 0.2:
        session.run(f"UPDATE full_row SET id = id WHERE {session.some(40)}")


def slices_of(opened: OpenRequest, grid: int, targets: Sequence[int], start: int) -> Iterator[list[Slice]]:
    """Cut the plan of a run in several ways."""
    scope = Scope(opened.directory.segment_size, start)
    (window,) = PlanWindows(opened, scope, lambda tasks: index_in_threads(tasks, 1), 3, grid=grid)
    for target in targets:
        yield cut_slices(window.assembly.plan, target)


def decoded(run: ServerRun, plugin: str, grid: int, targets: Sequence[int]) -> Iterator[tuple[list[Slice], list[Row]]]:
    """Give slices and our messages, for one grid and several targets."""
    opened = open_request(run.request(plugin))
    decoder = SliceDecoder(opened.directory, opened.plugin, opened.session)
    for slices in slices_of(opened, grid, targets, run.start):
        rows: list[Row] = []
        for slice_ in slices:
            made = decoder.messages(slice_)
            ends = made.offsets.tolist()
            data = made.data.tobytes()
            rows += [
                (lsn, xid, data[ends[i] : ends[i + 1]])
                for i, (lsn, xid) in enumerate(zip(made.lsn.tolist(), made.xid.tolist(), strict=True))
            ]
        yield slices, rows
