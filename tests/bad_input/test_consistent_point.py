"""Windows whose first transactions cannot be decoded: what had begun before the catalog was taken, a low wal_level."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from bad_input.clusters import SEGMENT, Cluster, linked_copy
from bad_input.command import CommandHere
from bad_input.damage import segments
from bad_input.servers import copy_running, copy_wal, make_slot, now, peek, run, since, small_server
from control_files import read_control_file
from headwater.pg.lsn import Lsn

pytestmark = [pytest.mark.server]


@dataclass(frozen=True)
class Prepared:
    """A cluster in which transactions were prepared before the base backup; paths are directories.

    Attributes:
        backup: taken while the server was stopped.
        wal: ``pg_wal`` at the end, which goes back to before they began.
        open_until: LSN before they ended.
        early: what a slot says that was made before they began, from the backup on.
        late: what a slot says that was made when the last of database postgres had ended.
    """

    backup: Path
    wal: Path
    open_until: str
    early: bytes
    late: bytes


@pytest.fixture(
    scope="module", params=[pytest.param(14, marks=pytest.mark.slow), 16, 18], ids=lambda major: f"pg{major}"
)
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    directory = tmp_path_factory.mktemp("prepared")
    with small_server(request.param) as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)", "ALTER TABLE t REPLICA IDENTITY FULL")
        for name in ("none", "changed", "changing"):
            run(server, f"CREATE DATABASE {name}")
            run(server, "CREATE TABLE t (id int PRIMARY KEY)", database=name)
        make_slot(server, "early")
        run(server, *PREPARED, "BEGIN", "INSERT INTO t VALUES (2, 'gone')", "PREPARE TRANSACTION 'to roll back'")
        run(server, "BEGIN", "INSERT INTO t VALUES (1)", "PREPARE TRANSACTION 'c'", database="changed")
        run(server, "CREATE TABLE u (id int)", database="changed")
        run(server, "BEGIN", "CREATE TABLE u (id int)", "PREPARE TRANSACTION 'd'", database="changing")
        run(server, "SELECT pg_switch_wal()")
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        run(server, "INSERT INTO t VALUES (3, 'meanwhile')", "CHECKPOINT")
        open_until = now(server)
        run(server, "INSERT INTO t VALUES (6, 'meanwhile')")
        run(server, "ROLLBACK PREPARED 'to roll back'", "COMMIT PREPARED 'to commit'")
        run(server, "INSERT INTO t VALUES (4, 'as soon as that')")
        run(server, "COMMIT PREPARED 'c'", "INSERT INTO t VALUES (9)", database="changed")
        run(server, "COMMIT PREPARED 'd'", "INSERT INTO t VALUES (9)", database="changing")
        make_slot(server, "late")
        run(server, "INSERT INTO t VALUES (5, 'after the slot')")
        early, late = peek(server, "early"), peek(server, "late")
        server.stop()
        wal = copy_wal(server, directory / "wal")
    return Prepared(backup, wal, open_until, since(early, b"'meanwhile'"), late)


PREPARED = (
    "BEGIN",
    "INSERT INTO t VALUES (1, 'kept'), (7, repeat(md5('x'), 200))",
    "SAVEPOINT a",
    "INSERT INTO t VALUES (8, 'kept')",
    "SELECT pg_logical_emit_message(true, 'kept', 'too')",
    "SAVEPOINT b",
    "INSERT INTO t VALUES (9, 'rolled back')",
    "SELECT pg_logical_emit_message(true, 'rolled', 'back')",
    "ROLLBACK TO b",
    "UPDATE t SET a = a || ', changed'",
    "DELETE FROM t WHERE id = 8",
    "PREPARE TRANSACTION 'to commit'",
)


def _without_older(prepared: Prepared, target: Path) -> Path:
    """Copy the WAL from the backup on."""
    wal = linked_copy(prepared.wal, target)
    first = read_control_file(prepared.backup).redo_lsn // SEGMENT
    for path in segments(wal):
        if int(path.name[16:], 16) < first:
            path.unlink()
    return wal


def test_prepared_before_the_backup(headwater: CommandHere, prepared: Prepared) -> None:
    """All is decoded if the WAL goes back far enough, as by a slot that was made before."""
    window = ["--wal", prepared.wal, "--catalog", prepared.backup, "--database", "postgres", "--with-lsn"]
    assert headwater(*window).check_passed() == prepared.early
    assert b"'kept" in prepared.early
    lines = headwater(*window, "--end", prepared.open_until).check_passed()
    assert prepared.early.startswith(lines)
    assert b"'meanwhile'" in lines


def test_prepared_before_the_wal(headwater: CommandHere, prepared: Prepared, tmp_path: Path) -> None:
    """Decoding begins when they have ended, as a slot made then would: that one even has to wait a little longer."""
    wal = _without_older(prepared, tmp_path / "wal")
    run = headwater("--wal", wal, "--catalog", prepared.backup, "--database", "postgres", "--with-lsn")
    lines = run.check_warned(
        "4 transactions that committed from", "are left out", 'prepared transaction "to commit" (xid', "and ended at"
    )
    assert prepared.early.endswith(lines)
    assert lines.endswith(prepared.late)
    assert b"'as soon as that'" in lines
    assert not any(word in lines for word in (b"'kept", b"'gone'", b"'meanwhile'"))


def test_prepared_before_the_wal_and_still_open(headwater: CommandHere, prepared: Prepared, tmp_path: Path) -> None:
    wal = _without_older(prepared, tmp_path / "wal")
    window = ["--wal", wal, "--catalog", prepared.backup, "--database", "postgres"]
    run = headwater(*window, "--end", prepared.open_until)
    run.check_failed("no consistent point", '"to commit" (xid', '"to roll back" (xid', "give more WAL", begun=True)


def test_prepared_in_another_database(headwater: CommandHere, prepared: Prepared, tmp_path: Path) -> None:
    wal = _without_older(prepared, tmp_path / "wal")
    window = ["--wal", wal, "--catalog", prepared.backup, "--database", "none"]
    headwater(*window, "-o", "skip-empty-xacts=1").check_passed()


@pytest.mark.parametrize("database", ["changed", "changing"])
def test_prepared_with_another_catalog(headwater: CommandHere, prepared: Prepared, database: str) -> None:
    """The catalog of a transaction's beginning is not known if anybody has changed it since, be it the transaction."""
    run = headwater("--wal", prepared.wal, "--catalog", prepared.backup, "--database", database)
    lines = run.check_warned("1 transaction that committed at", "is left out", 'prepared transaction "')
    assert b"id[integer]:9" in lines
    assert b"id[integer]:1" not in lines


def test_broken_state_of_a_prepared_transaction(headwater: CommandHere, prepared: Prepared) -> None:
    file = next((prepared.backup / "pg_twophase").iterdir())
    before = file.read_bytes()
    try:
        file.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        run = headwater("--wal", prepared.wal, "--catalog", prepared.backup, "--database", "postgres")
        run.check_failed("incorrect checksum in state of a prepared transaction", f"in {file}")
    finally:
        file.write_bytes(before)


@dataclass(frozen=True)
class Raised:
    """A server that got ``wal_level = logical`` after the backup.

    Attributes:
        backup: taken before.
        wal: ``pg_wal`` at the end.
        expected: what a slot says that was made right then.
        slot: its position.
    """

    backup: Path
    wal: Path
    expected: bytes
    slot: str


def _raised(directory: Path, level: str) -> Raised:
    with small_server(16, wal_level=level, max_wal_senders="0") as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)", "INSERT INTO t VALUES (1, 'too early')")
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        run(server, "INSERT INTO t VALUES (2, 'not yet')", "UPDATE t SET a = 'still not' WHERE id = 1")
        server.stop()
        with (server.data_directory / "postgresql.conf").open("a") as configuration:
            configuration.write("wal_level = logical\n")
        server.start()
        run(server, "INSERT INTO t VALUES (3, 'with all that decoding needs')")
        slot = make_slot(server, "s")
        run(server, "ALTER TABLE t ADD COLUMN b int", "INSERT INTO t VALUES (4, 'after the slot', 4)")
        expected = peek(server, "s")
        server.stop()
        return Raised(backup, copy_wal(server, directory / "wal"), expected, slot)


def test_wal_level_raised_halfway(headwater: CommandHere, tmp_path: Path) -> None:
    """Nothing runs across the restart that raised it: decoding begins there, a slot can be made a little later only."""
    raised = _raised(tmp_path, "replica")
    window = ["--wal", raised.wal, "--catalog", raised.backup, "--database", "postgres", "--with-lsn"]
    lines = headwater(*window).check_warned("2 transactions", "are left out", "wal_level was below logical until")
    assert lines.endswith(raised.expected)
    assert b"'with all that decoding needs'" in lines
    assert not any(word in lines for word in (b"not yet", b"still not"))
    assert headwater(*window, "--start", raised.slot).check_passed() == raised.expected


def test_wal_level_minimal_in_the_window(headwater: CommandHere, tmp_path: Path) -> None:
    raised = _raised(tmp_path, "minimal")
    run = headwater("--wal", raised.wal, "--catalog", raised.backup, "--database", "postgres")
    run.check_failed("WAL was generated with wal_level = minimal", "take a new base backup", begun=True)


@pytest.mark.parametrize("is_prepared", [False, True], ids=["running", "prepared"])
def test_transactions_that_ran_when_the_catalog_was_taken(
    headwater: CommandHere, tmp_path: Path, is_prepared: bool
) -> None:
    """A commit before these end is left out, as by a slot made then; what had not begun is not missed."""
    with small_server(16) as server, server.connect() as older:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)")
        older.execute("BEGIN")
        older.execute("INSERT INTO t VALUES (1, 'began before')")
        if is_prepared:
            older.execute("PREPARE TRANSACTION 'old'")
        run(server, "CHECKPOINT")
        backup = copy_running(server, tmp_path / "backup")
        run(server, "INSERT INTO t VALUES (2, 'too early')")
        older.execute("COMMIT PREPARED 'old'" if is_prepared else "COMMIT")
        slot = make_slot(server, "s")
        run(server, "INSERT INTO t VALUES (3, 'in time')")
        expected = peek(server, "s")
        older.close()
        server.stop()
        wal = copy_wal(server, tmp_path / "wal")
    window = ["--wal", wal, "--catalog", backup, "--database", "postgres", "--with-lsn"]
    why = "transactions that ran when the catalog was taken had to end first"
    if is_prepared:
        why = 'prepared transaction "old" (xid '
    assert headwater(*window).check_warned("2 transactions that committed from", why) == expected
    assert headwater(*window, "--start", slot).check_passed() == expected


# -- starts and ends that cannot be meant


def test_start_behind_the_end(headwater: CommandHere, cluster: Cluster) -> None:
    window = ["--wal", cluster.wal, "--catalog", cluster.backup, "--database", "postgres"]
    run = headwater(*window, "--start", "1/0", "--end", "0/FFFFFFFF")
    run.check_failed("the start 1/0 lies behind the end 0/FFFFFFFF", status=2)


@pytest.mark.parametrize("name", ["start", "end"])
def test_bound_before_the_backup(headwater: CommandHere, cluster: Cluster, name: str) -> None:
    lsn = read_control_file(cluster.backup).redo_lsn
    window = ["--wal", cluster.wal, "--catalog", cluster.backup, "--database", "postgres"]
    run = headwater(*window, f"--{name}", str(Lsn(lsn - 8)))
    run.check_failed(f"the {name} {Lsn(lsn - 8)} lies before the backup, expected {Lsn(lsn)} or later", status=2)


def test_bounds_behind_the_wal(headwater: CommandHere, cluster: Cluster) -> None:
    """Whoever decodes window by window would lose what an archive that lags behind gets later."""
    window = ["--wal", cluster.wal, "--catalog", cluster.backup, "--database", "postgres"]
    whole = headwater(*window).check_passed()
    lines = headwater(*window, "--end", "FF/0").check_warned(
        "the WAL ends at 0/", "before the end FF/0", "go on from 0/"
    )
    assert lines == whole
    assert headwater(*window, "--start", "FF/0").check_warned("before the start FF/0: nothing was decoded") == b""


def test_start_and_end_at_the_backup(headwater: CommandHere, cluster: Cluster) -> None:
    """An empty window is one."""
    lsn = str(Lsn(read_control_file(cluster.backup).redo_lsn))
    window = ["--wal", cluster.wal, "--catalog", cluster.backup, "--database", "postgres"]
    assert headwater(*window, "--start", lsn, "--end", lsn).check_passed() == b""
