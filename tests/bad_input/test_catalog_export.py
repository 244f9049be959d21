"""The catalog of a running server instead of a backup: exported while transactions change it, then joined with WAL."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from bad_input.clusters import linked_copy
from bad_input.command import COMMAND, TIMEOUT_SECONDS, CommandHere
from bad_input.damage import segments
from bad_input.servers import SLOT, copy_wal, make_slot, peek, run, small_server, value
from headwater.catalog.copy.taken_at import CatalogOrigin
from headwater.cli.catalog import ExportFlags, export_command
from headwater.cli.shared_flags import SourceFlags
from headwater.cli.slot import CreateFlags, create_command
from headwater.errors import CatalogError, UsageError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from headwater.slots.kept_state import KeptState
from headwater.slots.value_file import load_value

pytestmark = [pytest.mark.server]

ROLE = "exporter"
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"


def dsn(server: EmbeddedPostgres, database: str = "postgres", role: str = ROLE) -> str:
    """Write connection words as a user gives them."""
    return " ".join(f"{name}={word}" for name, word in {**server.connection_info(database), "user": role}.items())


def export(server: EmbeddedPostgres, file: Path, database: str = "postgres") -> CatalogOrigin:
    """Write the catalog to a file; what it says of itself."""
    export_command.run(ExportFlags(dsn(server, database), file, checkpoint=False))
    return load_value(file, KeptState).state.catalog.origin


def wait_for(server: EmbeddedPostgres, waiting: int) -> None:
    """Wait until so many sessions wait for a transaction to end."""
    with server.connect() as connection:
        while connection.execute(WAITING).fetchone() != (waiting,):
            connection.execute("SELECT pg_sleep(0.01)")


@contextmanager
def in_threads(*calls: Callable[[], Any]) -> Iterator[None]:
    """Run calls in threads while the block runs, and wait for their end."""
    failures: list[BaseException] = []

    def running(call: Callable[[], Any]) -> None:
        try:
            call()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=running, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


# -- transactions that run across it


SET_UP = """
CREATE ROLE exporter LOGIN REPLICATION;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN price AS numeric(10,2);
CREATE TABLE t (id int PRIMARY KEY, a text);
CREATE TABLE old (id int PRIMARY KEY, a text);
CREATE TABLE cut (id int PRIMARY KEY, a text, b int);
INSERT INTO old VALUES (1, 'short');
ALTER TABLE old ADD n int DEFAULT -7, ADD q text DEFAULT 'it''s \\ here', ADD j jsonb DEFAULT '{"a": [1, "b"]}',
    ADD l int[] DEFAULT '{1,NULL,3}', ADD p price DEFAULT 1.5, ADD m mood DEFAULT 'ok', ADD c char(3) DEFAULT 'z',
    ADD u uuid DEFAULT '00000000-0000-0000-0000-0000000000ff', ADD f float8 DEFAULT 0.1, ADD y "char" DEFAULT 'y',
    ADD b bit(5) DEFAULT '10101', ADD w timestamptz DEFAULT '2026-01-02 03:04:05+00', ADD s text[] DEFAULT '{"x y",z}';
CREATE PUBLICATION pub FOR TABLE t, old, cut;
CREATE TABLE r (id int, a text);
ALTER TABLE r REPLICA IDENTITY FULL;
INSERT INTO r VALUES (1, 'full')
"""


def _slow(*param: object) -> Any:
    return pytest.param(param, marks=pytest.mark.slow)


@dataclass(frozen=True)
class Exported:
    """A catalog that was exported while transactions changed it.

    Attributes:
        file: the export.
        wal: ``pg_wal`` at the end.
        slot: position of a slot that was made at the same time.
        text: what it says with test_decoding.
        origin: what the export says of itself.
    """

    file: Path
    wal: Path
    slot: str
    text: bytes
    origin: CatalogOrigin


@pytest.fixture(
    scope="module",
    params=[_slow(14, False), (16, False), _slow(15, True), _slow(17, False), _slow(18, False), (18, True)],
    ids=lambda p: f"pg{p[0]}{'-checkpoint' if p[1] else ''}",
)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    major, checkpoint = request.param
    directory = tmp_path_factory.mktemp("exported")
    with small_server(major) as server:
        run(server, *(statement for statement in SET_UP.split(";\n") if statement.strip()))
        _leave_garbage(server)
        if checkpoint:
            run(server, "CHECKPOINT")
        origin = _export_across(server, directory / "catalog")
        _work_on(server)
        slot = value(server, "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 's'")
        text = peek(server, "s")
        server.stop()
        return Exported(directory / "catalog", copy_wal(server, directory / "wal"), slot, text, origin)


def _leave_garbage(server: EmbeddedPostgres) -> None:
    """Leave rows of catalogs that nobody sees any more, and that no hint bit calls dead."""
    for end in ("ROLLBACK", "COMMIT"):
        run(server, "BEGIN", *(f"CREATE TABLE gone{i} (a int, b text)" for i in range(20)), end)
    for i in range(20):
        run(server, f"ALTER TABLE gone{i} RENAME b TO c", f"ALTER TABLE gone{i} DROP a")
    run(server, *(f"DROP TABLE gone{i}" for i in range(10)))
    run(server, "BEGIN", "ALTER TABLE t RENAME a TO rolled_back", "ROLLBACK")
    run(server, "VACUUM FULL pg_attribute", "VACUUM FULL pg_index", "ALTER TABLE cut RENAME b TO c")


def _export_across(server: EmbeddedPostgres, file: Path) -> CatalogOrigin:
    """Export while one transaction after the other ends; the third is open when the snapshot is taken."""
    origins: list[CatalogOrigin] = []

    def make_slot_beside() -> None:
        with server.connect() as connection:
            connection.execute(SLOT, ["s"])

    with server.connect() as first, server.connect() as second, server.connect() as third:
        first.execute("BEGIN")
        first.execute("ALTER TABLE t ADD first int; INSERT INTO t VALUES (1, 'first', 1)")
        with in_threads(lambda: origins.append(export(server, file)), make_slot_beside):
            wait_for(server, 2)
            second.execute("BEGIN; INSERT INTO cut VALUES (0, 'second', 0)")
            first.execute("COMMIT")
            wait_for(server, 2)
            # Not before: the server's own slot loses what a transaction does to the catalog until the first has ended.
            second.execute("ALTER TABLE cut DROP c; CREATE TABLE made (id int PRIMARY KEY, m mood)")
            third.execute("BEGIN")
            third.execute("INSERT INTO old VALUES (2, 'before'); ALTER TABLE old RENAME a TO third")
            third.execute("CREATE TABLE late (id int PRIMARY KEY, a text DEFAULT 'late')")
            third.execute("SAVEPOINT s; ALTER TABLE old ADD undone int; ROLLBACK TO s")
            third.execute("INSERT INTO late VALUES (1); UPDATE old SET n = 8 WHERE id = 1")
            second.execute("COMMIT")
        third.execute("ALTER TABLE late ADD b int; INSERT INTO late VALUES (2, 'more', 2); ALTER TABLE r RENAME a TO z")
        run(server, "INSERT INTO cut VALUES (1, 'meanwhile')", "INSERT INTO made VALUES (1, 'sad')")
        third.execute("INSERT INTO r VALUES (2, 'third'); INSERT INTO made VALUES (2, 'ok'); COMMIT")
    return origins[0]


def _work_on(server: EmbeddedPostgres) -> None:
    """Change all that the export has seen, and pages of catalogs that nothing has changed since the checkpoint."""
    run(
        server,
        "UPDATE old SET third = 'touched'",
        "INSERT INTO t VALUES (3, 'three', 3)",
        "ALTER TYPE mood ADD VALUE 'fine'",
        "INSERT INTO made VALUES (3, 'fine')",
        "VACUUM pg_class, pg_attribute, pg_type",
        *(f"ALTER TABLE gone{i} RENAME c TO d" for i in range(10, 15)),
        *(f"INSERT INTO gone{i} VALUES ('{i}')" for i in range(10, 20)),
        "VACUUM FULL pg_class",
        "ALTER TABLE t RENAME TO renamed",
        "INSERT INTO renamed VALUES (4, 'four', 4)",
        "VACUUM FULL pg_attribute",
        "CHECKPOINT",
        "ALTER TABLE cut ADD back text",
        "INSERT INTO cut VALUES (2, 'two', 'back')",
        "DELETE FROM r",
    )


@pytest.mark.parametrize("flag", ["--catalog", "--from-state"])
def test_joins_the_wal(headwater: CommandHere, exported: Exported, flag: str) -> None:
    lines = headwater("--wal", exported.wal, flag, exported.file, "--with-lsn").check_passed()
    assert lines == exported.text


def test_in_small_windows(headwater: CommandHere, exported: Exported, tmp_path: Path) -> None:
    """The state that is kept after the first window goes on without the export."""
    states = tmp_path / "states"
    states.mkdir()
    window = ["--wal", exported.wal, "--with-lsn", "--window-bytes", str(1 << 20)]
    lines = headwater(*window, "--catalog", exported.file, "--keep-states", states).check_passed()
    assert lines == exported.text
    later = headwater(*window, "--from-state", sorted(states.iterdir())[0]).check_passed()
    assert exported.text.endswith(later)


def test_a_slot_begins_with_it(headwater: CommandHere, exported: Exported, tmp_path: Path) -> None:
    slot = tmp_path / "slot"
    source = SourceFlags(wal=[str(exported.wal)], catalog=str(exported.file))
    create_command.run(CreateFlags(path=slot, source=source))
    assert headwater("--slot", slot, "--with-lsn").check_passed() == exported.text
    assert headwater("--slot", slot, "--with-lsn").check_passed() == b""


def test_bounds(headwater: CommandHere, exported: Exported) -> None:
    """Nothing of before the consistent point is available, and no window that ends before it."""
    window = ["--wal", exported.wal, "--catalog", exported.file]
    first = str(Lsn(exported.origin.consistent_lsn))
    early = str(Lsn(exported.origin.consistent_lsn - 8))
    for flag in ("--start", "--end"):
        run = headwater(*window, flag, early)
        run.check_failed("lies before the state", f"expected {first} or later", f"in {exported.file}", status=2)
    run = headwater(*window, "--database", "other")
    run.check_failed('the state is of database "postgres", not of "other"', status=2)


def test_wal_that_ends_before_it(headwater: CommandHere, exported: Exported, tmp_path: Path) -> None:
    wal = linked_copy(exported.wal, tmp_path / "wal")
    for path in segments(wal):
        if int(path.name[16:], 16) >= exported.origin.consistent_lsn >> 20:
            path.unlink()
    run = headwater("--wal", wal, "--catalog", exported.file)
    run.check_failed("the WAL ends ", "expected ", begun=None)


@pytest.mark.slow
def test_what_the_server_itself_forgets(headwater: CommandHere, tmp_path: Path) -> None:
    """Catalog changes from before the slot's first wait has ended, by a transaction that its second wait is for."""
    with small_server(16) as server, server.connect() as first, server.connect() as second, server.connect() as third:
        run(
            server,
            "CREATE ROLE exporter LOGIN REPLICATION",
            "CREATE TABLE t ()",
            "CREATE TABLE cut (id int, a text, b int)",
        )
        first.execute("BEGIN; INSERT INTO t DEFAULT VALUES")
        with in_threads(lambda: export(server, tmp_path / "catalog"), lambda: make_slot(server, "s")):
            wait_for(server, 2)
            second.execute("BEGIN; ALTER TABLE cut DROP b")
            first.execute("COMMIT")
            wait_for(server, 2)
            third.execute("BEGIN; INSERT INTO t DEFAULT VALUES")
            second.execute("COMMIT")
        third.execute("COMMIT")
        run(server, "INSERT INTO cut VALUES (2, 'x')")
        expected = peek(server, "s")
        server.stop()
        outcome = headwater("--wal", server.wal_directory, "--catalog", tmp_path / "catalog", "--with-lsn")
    assert b" a[text]:'x' b[integer]:null" in expected
    assert outcome.check_passed() == expected.replace(b" b[integer]:null", b"")


# -- servers and roles


def test_a_server_instead_of_a_file(headwater: CommandHere, tmp_path: Path) -> None:
    """Names that are not ASCII, in a database of another encoding, in a tablespace; as the role's settings have it."""
    with small_server(16) as server:
        with server.connect() as connection:
            connection.execute("SET allow_in_place_tablespaces = on")
            connection.execute("CREATE TABLESPACE far LOCATION ''")
            connection.execute(
                "CREATE DATABASE wide TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TABLESPACE far"
            )
        run(server, "CREATE ROLE exporter LOGIN REPLICATION", "ALTER ROLE exporter SET bytea_output = 'escape'")
        run(server, "CREATE TABLE größe (id int, größe bytea)", database="wide")
        run(server, "INSERT INTO größe VALUES (1)", "ALTER TABLE größe ADD ä text DEFAULT 'Ö'", database="wide")
        address = "postgresql:///wide?" + "&".join(
            f"{name}={quote(word)}" for name, word in server.connection_info().items() if name in ("host", "port")
        )
        file = tmp_path / "catalog"
        export_command.run(ExportFlags(f"{address}&user={ROLE}", file, checkpoint=False))
        slot = make_slot(server, "s", "wide")
        run(server, "UPDATE größe SET größe = '\\001x'", database="wide")
        expected = peek(server, "s", "wide").replace(b"'\\x0178'", b"'\\001x'")
        wal = tmp_path / "wal"
        copy_wal(server, wal)
        lines = headwater("--wal", wal, "--catalog", file, "--start", slot, "--with-lsn").check_passed()
        assert lines.decode() == expected.decode()
        failed = headwater("--wal", wal, "--catalog", f"{address}&user={ROLE}", "--plugin", "test_decoding")
        failed.check_failed("the WAL ends", begun=None)


def test_roles_and_servers_that_cannot_be_exported(tmp_path: Path) -> None:
    with small_server(18) as server:
        run(server, "CREATE ROLE exporter LOGIN")
        with pytest.raises(CatalogError, match=r"could not export .*REPLICATION attribute"):
            export(server, tmp_path / "catalog")
        with pytest.raises(CatalogError, match='role "nobody" does not exist'):
            export_command.run(ExportFlags(dsn(server, role="nobody"), tmp_path / "catalog", checkpoint=False))
        with pytest.raises(CatalogError, match="permission denied to execute CHECKPOINT"):
            export_command.run(ExportFlags(dsn(server), tmp_path / "catalog", checkpoint=True))
        run(server, "ALTER SYSTEM SET full_page_writes = off", "SELECT pg_reload_conf()", "CHECKPOINT")
        with pytest.raises(CatalogError, match="full_page_writes = off"):
            export(server, tmp_path / "catalog")
    refused = pytest.raises(CatalogError, match="wal_level = replica, expected logical")
    with small_server(18, wal_level="replica") as server, refused:
        export_command.run(ExportFlags(dsn(server, role="postgres"), tmp_path / "catalog", checkpoint=False))
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_told_before_the_server_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        export_command.run(ExportFlags("host=/nowhere", tmp_path / "nowhere" / "catalog", checkpoint=False))


def _heeding_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_nothing_waits_on_the_server_for_a_command_that_was_told_to_end(tmp_path: Path) -> None:
    """Else its slot would hold WAL back until the transactions have ended that it waits for."""
    with small_server(18) as server, server.connect() as open_one:
        run(server, "CREATE ROLE exporter LOGIN REPLICATION")
        open_one.execute("BEGIN")
        open_one.execute("SELECT pg_current_xact_id()")
        words = [str(COMMAND), "catalog", "export", dsn(server), str(tmp_path / "catalog")]
        # A shell's background job ignores SIGINT, and so would what it starts.
        process = subprocess.Popen(words, stderr=subprocess.PIPE, preexec_fn=_heeding_interrupts)
        wait_for(server, 1)
        process.send_signal(signal.SIGINT)
        output: tuple[bytes | None, bytes] = process.communicate(timeout=TIMEOUT_SECONDS)
        assert output == (None, b"headwater: interrupted\n")
        wait_for(server, 0)
        assert value(server, "SELECT count(*) FROM pg_replication_slots") == "0"
    assert not list(tmp_path.iterdir())


def test_a_server_is_named_where_it_is_read_once(tmp_path: Path) -> None:
    source = SourceFlags(wal=[str(tmp_path)], catalog="postgresql://host/db")
    with pytest.raises(UsageError, match="headwater catalog export"):
        create_command.run(CreateFlags(path=tmp_path / "slot", source=source))
