"""Catalogs that were copied while a server wrote, on another timeline, or not as a whole."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from bad_input.clusters import Cluster, linked_copy, own_file
from bad_input.command import CommandHere
from bad_input.damage import segments
from bad_input.servers import copy_running, copy_wal, make_slot, now, peek, run, small_server, value
from bad_input.standbys import base_backup, catch_up, standby_of
from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.store.bootstrap import open_catalog
from headwater.cli.shared_flags import SourceFlags
from headwater.cli.slot import CreateFlags, create_command
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_client
from headwater.pg.catalogs import CATALOG_NAMES
from headwater.slots.slot_directory import read_slot
from headwater.wal.checksum import crc32c

pytestmark = [pytest.mark.server]


# -- an online backup


@dataclass(frozen=True)
class Online:
    """A base backup during which definitions changed; paths are directories.

    Attributes:
        backup: the copy, with its ``backup_label``.
        wal: ``pg_wal`` at the end.
        slot: position of a slot made while the backup ran, before the changes.
        renamed: LSN right before a change that the copy has already.
        complete: what ``pg_backup_stop`` said.
        expected: what the slot says.
    """

    backup: Path
    wal: Path
    slot: str
    renamed: str
    complete: str
    expected: bytes


BACKUP = ("SELECT pg_backup_start('test', fast => true)", "pg_backup_stop()")
BACKUP_OF_14 = ("SELECT pg_start_backup('test', true, false)", "pg_stop_backup(false)")
"""How a copy of a running server is begun and ended."""


@pytest.fixture(
    scope="module", params=[pytest.param(14, marks=pytest.mark.slow), 16, 18], ids=lambda major: f"pg{major}"
)
def online(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Online:
    directory = tmp_path_factory.mktemp("online")
    with small_server(request.param) as server, server.connect() as keeper:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)", "INSERT INTO t VALUES (1, 'before')")
        begin, end = BACKUP_OF_14 if request.param == 14 else BACKUP
        keeper.execute(begin)
        slot = make_slot(server, "s")
        run(server, "INSERT INTO t VALUES (2, 'a is called a')")
        renamed = now(server)
        run(server, "SELECT pg_switch_wal()", "ALTER TABLE t RENAME a TO b", "ALTER TABLE t ADD COLUMN c int")
        run(server, "CHECKPOINT")
        backup = copy_running(server, directory / "backup")
        run(server, "INSERT INTO t VALUES (3, 'now b', 3)", "ALTER TABLE t RENAME c TO d")
        stop = keeper.execute(f"SELECT lsn::text, labelfile FROM {end}").fetchone()
        assert stop is not None
        (backup / "backup_label").write_text(stop[1])
        run(server, "INSERT INTO t VALUES (4, 'after', 4)")
        expected = peek(server, "s")
        keeper.close()
        server.stop()
        return Online(backup, copy_wal(server, directory / "wal"), slot, renamed, stop[0], expected)


def test_window_that_ends_before_the_backup(headwater: CommandHere, online: Online) -> None:
    """The copy has definitions from behind such an end."""
    window = ["--wal", online.wal, "--catalog", online.backup, "--database", "postgres", "--start", online.slot]
    run = headwater(*window, "--end", online.renamed, "--with-lsn")
    run.check_failed(
        "the window ends at", f"expected {online.complete} at least", f"--end {online.complete}", begun=True
    )


def test_a_slot_stands_between_two_records(headwater: CommandHere, online: Online, tmp_path: Path) -> None:
    source = SourceFlags(wal=[str(online.wal)], catalog=str(online.backup), database="postgres")
    create_command.run(CreateFlags(path=tmp_path / "slot", source=source))
    slot = read_slot(tmp_path / "slot")
    assert slot.state is None
    assert slot.confirmed_lsn % 8 == 0
    assert headwater("--slot", tmp_path / "slot", "--with-lsn").check_passed().endswith(online.expected)


def test_window_that_ends_with_the_backup(headwater: CommandHere, online: Online) -> None:
    window = ["--wal", online.wal, "--catalog", online.backup, "--database", "postgres", "--start", online.slot]
    lines = headwater(*window, "--end", online.complete, "--with-lsn").check_passed()
    assert online.expected.startswith(lines)
    assert b"b[text]:'now b'" in lines
    assert b"a[text]:'a is called a'" in lines
    assert headwater(*window, "--with-lsn").check_passed() == online.expected


def test_wal_that_ends_before_the_backup(headwater: CommandHere, online: Online, tmp_path: Path) -> None:
    wal = linked_copy(online.wal, tmp_path / "wal")
    high, low = (int(part, 16) for part in online.renamed.split("/"))
    for path in segments(wal):
        if int(path.name[8:16], 16) == high and int(path.name[16:], 16) > low >> 20:
            path.unlink()
    run = headwater("--wal", wal, "--catalog", online.backup, "--database", "postgres")
    run.check_failed("the WAL ends at", "before the copy of the catalog was complete", "more WAL", begun=True)


def comes_with_visibility(server: EmbeddedPostgres, relation: str, start: str) -> bool:
    """Tell whether a record that says that all see a page has an image of one of the relation's pages."""
    program = find_client("pg_waldump", server.programs.major)
    assert program is not None
    node = value(server, f"SELECT pg_relation_filenode('{relation}')")
    command: list[str | Path] = [program, "-p", server.wal_directory, "-r", "Heap2", "-s", start, "-e", now(server)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return any("VISIBLE" in line and re.search(rf"/{node} blk \d+ FPW", line) for line in lines)


def test_visibility_is_what_a_page_s_first_image_comes_with(headwater: CommandHere, tmp_path: Path) -> None:
    """With wal_log_hints, VACUUM may be the first to change a catalog's page behind the backup's checkpoint."""
    with small_server(16, wal_log_hints="on") as server, server.connect() as keeper:
        run(server, "CREATE TABLE t (id int)", "VACUUM pg_attribute", "CREATE TABLE u (id int)")
        run(server, "SELECT count(*) FROM pg_attribute")
        keeper.execute(BACKUP[0])
        slot = make_slot(server, "s")
        run(server, "VACUUM (INDEX_CLEANUP off) pg_attribute", "ALTER TABLE t ADD COLUMN a text", "CHECKPOINT")
        assert comes_with_visibility(server, "pg_attribute", slot)
        backup = copy_running(server, tmp_path / "backup")
        run(server, "INSERT INTO t VALUES (1, 'one')", "ALTER TABLE t RENAME a TO b", "INSERT INTO t VALUES (2, 'two')")
        stop = keeper.execute(f"SELECT labelfile FROM {BACKUP[1]}").fetchone()
        assert stop is not None
        (backup / "backup_label").write_text(stop[0])
        expected = peek(server, "s")
        keeper.close()
        server.stop()
        window = ["--wal", server.wal_directory, "--catalog", backup, "--database", "postgres", "--start", slot]
        assert headwater(*window, "--with-lsn").check_passed() == expected


# -- a standby, and timelines


@dataclass(frozen=True)
class Timelines:
    """A primary, its standby, and what came of them after the standby was promoted; paths are directories.

    Attributes:
        backup: base backup of the primary, by ``pg_basebackup``.
        early: LSN that the copies of the standby have gone beyond.
        standby: backup of the standby, by ``pg_basebackup``.
        stopped: copy of the standby when it was stopped.
        lost: copy of the primary, which went on for a while after the standby was promoted.
        wal: ``pg_wal`` of the promoted one; old_wal: of the primary.
        slot: position of a slot of the primary, made after the backup.
        expected: what that slot said, and after it one of the promoted server.
    """

    backup: Path
    early: str
    standby: Path
    stopped: Path
    lost: Path
    wal: Path
    old_wal: Path
    slot: str
    expected: bytes


@pytest.fixture(scope="module")
def timelines(tmp_path_factory: pytest.TempPathFactory) -> Timelines:
    directory = tmp_path_factory.mktemp("timelines")
    with small_server(16) as primary:
        run(primary, "CREATE TABLE t (id int PRIMARY KEY, a text)", "INSERT INTO t VALUES (1, 'before')")
        backup = base_backup(primary, directory / "backup")
        slot = make_slot(primary, "s")
        with standby_of(primary, backup) as standby:
            run(primary, "INSERT INTO t VALUES (2, 'a is called a')")
            early = now(primary)
            run(primary, "ALTER TABLE t RENAME a TO b", "INSERT INTO t VALUES (3, 'now b')")
            catch_up(standby, now(primary))
            of_standby = base_backup(standby, directory / "standby")
            standby.stop()
            stopped = standby.copy_data_directory(directory / "stopped")
            standby.start()
            expected = peek(primary, "s")
            run(standby, "SELECT pg_promote()")
            make_slot(standby, "s")
            run(standby, "INSERT INTO t VALUES (4, 'on the new timeline')")
            expected += peek(standby, "s")
            standby.stop()
            wal = copy_wal(standby, directory / "wal")
        run(primary, "INSERT INTO t VALUES (4, 'on the old timeline')", "ALTER TABLE t RENAME b TO lost")
        primary.stop()
        lost = primary.copy_data_directory(directory / "lost")
        old_wal = copy_wal(primary, directory / "old_wal")
    return Timelines(backup, early, of_standby, stopped, lost, wal, old_wal, slot, expected)


@pytest.mark.parametrize("copy", ["backup", "standby", "stopped"])
def test_catalog_from_before_the_promotion(headwater: CommandHere, timelines: Timelines, copy: str) -> None:
    window = ["--wal", timelines.wal, "--catalog", getattr(timelines, copy), "--database", "postgres"]
    lines = headwater(*window, "--start", timelines.slot, "--with-lsn").check_passed()
    assert lines == timelines.expected


@pytest.mark.parametrize("copy", ["standby", "stopped"])
def test_window_that_ends_before_the_copy_of_a_standby(headwater: CommandHere, timelines: Timelines, copy: str) -> None:
    """A standby says in its control file how far it had replayed when it was copied, however it was stopped."""
    window = ["--wal", timelines.wal, "--catalog", getattr(timelines, copy), "--database", "postgres"]
    failed = headwater(*window, "--start", timelines.slot, "--end", timelines.early)
    failed.check_failed("the window ends at", "before the copy of the catalog was complete", "--end ", begun=True)
    reach = failed.stderr.split("--end ")[1].split()[0]
    lines = headwater(*window, "--start", timelines.slot, "--end", reach, "--with-lsn").check_passed()
    assert timelines.expected.startswith(lines)
    assert b"b[text]:'now b'" in lines


def test_catalog_of_an_abandoned_timeline(headwater: CommandHere, timelines: Timelines) -> None:
    run = headwater("--wal", timelines.wal, "--catalog", timelines.lost, "--database", "postgres")
    run.check_failed("the catalog is of timeline 1 from behind", "of timeline 2", f"in {timelines.lost}")


def test_catalog_of_a_newer_timeline(headwater: CommandHere, timelines: Timelines, tmp_path: Path) -> None:
    """The WAL's history ends before the promotion."""
    newer = linked_copy(timelines.backup, tmp_path / "newer")
    label = own_file(newer / "backup_label")
    label.write_text(label.read_text().replace("START TIMELINE: 1", "START TIMELINE: 2"))
    run = headwater("--wal", timelines.old_wal, "--catalog", newer, "--database", "postgres")
    run.check_failed("the catalog is of timeline 2, which is not in the history of the WAL's timeline 1")


def test_history_file_missing(headwater: CommandHere, timelines: Timelines, tmp_path: Path) -> None:
    wal = linked_copy(timelines.wal, tmp_path / "wal")
    (wal / "00000002.history").unlink()
    run = headwater("--wal", wal, "--catalog", timelines.backup, "--database", "postgres")
    run.check_failed("timeline 1, which is not in the history of the WAL's timeline 2", "00000002.history")


# -- a server that runs, or ran


@dataclass(frozen=True)
class Crashed:
    """A server that crashed; paths are directories.

    Attributes:
        directory: its data directory as the crash left it.
        snapshot: a copy of it while it ran, without WAL.
        early: LSN before what the snapshot has already.
        slot: position of a slot made since the last checkpoint; expected: what it says.
    """

    directory: Path
    snapshot: Path
    early: str
    slot: str
    expected: bytes


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    """Crash a server with few buffers, which so writes pages of catalogs before it crashes."""
    directory = tmp_path_factory.mktemp("crashed")
    with small_server(16, shared_buffers="128kB") as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)", "INSERT INTO t VALUES (1, 'before')", "CHECKPOINT")
        slot = make_slot(server, "s")
        run(server, "INSERT INTO t VALUES (2, 'a is called a')")
        early = now(server)
        run(server, "ALTER TABLE t RENAME a TO b", "VACUUM FULL pg_attribute", "VACUUM FULL pg_class")
        run(server, "INSERT INTO t VALUES (3, 'now b')", "CREATE TABLE big AS SELECT generate_series(1, 30000) AS g")
        snapshot = copy_running(server, directory / "snapshot")
        expected = peek(server, "s")
        server.crash()
        directory_copy = server.copy_data_directory(directory / "crashed")
    return Crashed(directory_copy, snapshot, early, slot, expected)


@pytest.mark.parametrize("copy", ["directory", "snapshot"])
def test_copy_of_a_crashed_server(headwater: CommandHere, crashed: Crashed, copy: str) -> None:
    window = ["--wal", crashed.directory / "pg_wal", "--catalog", getattr(crashed, copy), "--database", "postgres"]
    lines = headwater(*window, "--start", crashed.slot, "--with-lsn").check_passed()
    assert lines.startswith(crashed.expected)


@pytest.mark.parametrize("copy", ["directory", "snapshot"])
def test_window_that_ends_before_the_crash(headwater: CommandHere, crashed: Crashed, copy: str) -> None:
    window = ["--wal", crashed.directory / "pg_wal", "--catalog", getattr(crashed, copy), "--database", "postgres"]
    run = headwater(*window, "--start", crashed.slot, "--end", crashed.early)
    run.check_failed("the window ends at", "before the copy of the catalog was complete", "--end ", begun=True)


def test_running_server(headwater: CommandHere) -> None:
    with small_server(16) as server:
        window = ["--wal", server.wal_directory, "--catalog", server.data_directory, "--database", "postgres"]
        failed = headwater(*window)
        failed.check_failed("a server runs in this directory (process", "pg_basebackup", "or stop the server")
        lock_file = server.data_directory / "postmaster.pid"
        text = lock_file.read_text()
        server.crash()
        lock_file.write_text(text)
        headwater(*window).check_passed()


# -- copies that are not whole


@pytest.mark.parametrize("name", ["pg_attribute", "pg_class", "pg_type", "pg_database"])
def test_missing_catalog_of_a_crashed_server(
    headwater: CommandHere, crashed: Crashed, tmp_path: Path, name: str
) -> None:
    """A catalog that the window has rewritten need not be in the copy, the rest must be."""
    copy = linked_copy(crashed.directory, tmp_path / "copy")
    file = _files(copy)[name]
    file.unlink()
    window = ["--wal", crashed.directory / "pg_wal", "--catalog", copy, "--database", "postgres"]
    run = headwater(*window, "--start", crashed.slot, "--with-lsn")
    if name in ("pg_attribute", "pg_class"):
        assert run.check_passed().startswith(crashed.expected)
    else:
        run.check_failed(f"{name} has no file", f"in {file}", begun=None)


def test_missing_segment_of_a_catalog(headwater: CommandHere, cluster: Cluster, catalog: Path) -> None:
    """Files of four pages each, as if a server had been built so."""
    files = _files(catalog)
    control = own_file(catalog / "global/pg_control")
    data = bytearray(control.read_bytes())
    data[220:224] = (4).to_bytes(4, "little")
    data[288:292] = crc32c(bytes(data[:288])).to_bytes(4, "little")
    control.write_bytes(data)
    for file in files.values():
        _split(file, 4 * 8192)
    window = ["--wal", cluster.wal, "--catalog", catalog, "--database", "postgres"]
    headwater(*window).check_passed()
    path = files["pg_attribute"]
    path.with_name(f"{path.name}.1").unlink()
    headwater(*window).check_failed("pg_attribute has 4 pages, expected", f"in {path}")


def _files(catalog: Path) -> dict[str, Path]:
    """Return the files of catalogs of database ``postgres``, by name."""
    directory, store = DataDirectory(catalog), open_catalog(catalog, "postgres")
    files = {}
    for locator in store.files.locators():
        oid = store.mapped_oid(locator[2], is_shared=locator[1] == 0)
        rows = [row for name in CATALOG_NAMES for row in store.view(store.start_lsn + 1).class_rows(name)]
        oid = oid or next((row.oid for row in rows if row.filenode == locator[2]), 0)
        if oid in CATALOG_NAMES:
            files[CATALOG_NAMES[oid]] = Path(directory.relation_place(locator))
    return files


def _split(path: Path, size: int) -> None:
    data = path.read_bytes()
    path.unlink()
    for number, at in enumerate(range(0, max(len(data), 1), size)):
        path.with_name(f"{path.name}.{number}" if number else path.name).write_bytes(data[at : at + size])
