"""The ``pg_wal`` of a running server, what ``pg_receivewal`` receives of it, and segments of other sizes."""

from __future__ import annotations

import gzip
import os
import subprocess
import threading
from pathlib import Path

import pytest

from bad_input.servers import copy_wal, make_slot, now, peek, run, small_server, value
from headwater.errors import SegmentGoneError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_client, find_programs
from headwater.pg.lsn import Lsn
from headwater.wal.records.frames import read_frames
from headwater.wal.records.growing_directory import GrowingDirectory, end_of_log
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.place import WalSource
from slots.conftest import Command, done, lsns
from sources.archives import ARCHIVES

pytestmark = pytest.mark.server

FILL = "SELECT pg_logical_emit_message(false, 'x', repeat('a', 700000)) FROM generate_series(1, 4)"


def archived(server: EmbeddedPostgres, name: str) -> None:
    """Wait until a segment is in the archive."""
    with server.connect() as connection:
        query = "SELECT last_archived_wal >= %s FROM pg_stat_archiver"
        while connection.execute(query, [name]).fetchone() != (True,):
            connection.execute("SELECT pg_sleep(0.01)")


def test_segments_that_a_server_recycles_are_read_from_the_archive() -> None:
    """Listed in ``pg_wal``, and gone from there when they are opened."""
    settings = {"archive_mode": "on", "archive_command": "true", "wal_keep_size": "0", "max_wal_size": "4MB"}
    with small_server(16, **settings, min_wal_size="2MB") as server:
        archive = server.home.path / "archive"
        archive.mkdir()
        os.chown(archive, server.data_directory.stat().st_uid, -1)
        run(server, f"ALTER SYSTEM SET archive_command = 'gzip < %p > {archive}/%f.gz'", "SELECT pg_reload_conf()")
        run(server, FILL, "SELECT pg_switch_wal()")
        listed = WalDirectory.scan(WalSource.of(server.wal_directory, archive))
        own = WalDirectory.scan(server.wal_directory)
        before = read_frames(listed, listed.start_lsn)
        for _ in range(3):
            run(server, FILL)
            archived(server, value(server, "SELECT pg_walfile_name(pg_switch_wal())"))
            run(server, "CHECKPOINT")
        gone = [segment for segment in own.segments if not Path(segment.path).exists()]
        assert len(gone) >= 2
        after = read_frames(listed, listed.start_lsn, int(before.lsns[-1]) + 1)
        assert after.lsns.tolist() == before.lsns.tolist()
        with pytest.raises(SegmentGoneError, match="No such file") as caught:
            read_frames(own, gone[0].start_lsn)
        assert "or name the archive as well" in str(caught.value.hint)
        looked = WalDirectory.scan(server.wal_directory)
        assert looked.start_lsn > own.start_lsn


def test_a_directory_is_listed_while_segments_are_renamed(tmp_path: Path) -> None:
    """As a server recycles them: the oldest gets a name that is to come."""
    with small_server(16) as server:
        run(server, FILL)
        run(server, FILL)
        server.stop()
        copy_wal(server, tmp_path / "wal")
    for path in (tmp_path / "wal").iterdir():
        if path.is_dir():
            path.rmdir()
    may_rename, is_over = threading.Semaphore(0), threading.Event()

    def rename() -> None:
        at = 0
        while may_rename.acquire() and not is_over.is_set():
            oldest = min((tmp_path / "wal").iterdir())
            oldest.rename(tmp_path / "wal" / f"{1:08X}{1:08X}{at:08X}")
            at += 1

    thread = threading.Thread(target=rename)
    thread.start()
    count = len(list((tmp_path / "wal").iterdir()))
    try:
        for _ in range(count - 2):
            may_rename.release()
            assert len(WalDirectory.scan(tmp_path / "wal").segments) >= 1
    finally:
        is_over.set()
        may_rename.release()
        thread.join()


@pytest.mark.parametrize("method", ["none", "gzip"])
def test_what_pg_receivewal_receives(tmp_path: Path, method: str) -> None:
    """The segment it is at is partial, with ``--compress`` a compressed file that may be cut off."""
    program = find_client("pg_receivewal", 16)
    assert program is not None
    received = tmp_path / "received"
    received.mkdir()
    with small_server(16) as server:
        run(server, "CREATE TABLE t (a int)", "SELECT pg_switch_wal()")
        begin = value(server, "SELECT pg_current_wal_lsn()")
        receiver = [program, "-D", received, "--no-loop", "--no-sync", f"--compress={method}", "-S", "r"]
        for words in (["--create-slot"], ["--endpos", _filled(server)]):
            command = [*map(str, receiver), *words]
            done = subprocess.run(command, env=server.client_environment(), capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        expected = read_frames(WalDirectory.scan(server.wal_directory), _segment_start(begin)).lsns.tolist()
    partial = [path for path in received.iterdir() if path.name.endswith(".partial")]
    assert len(partial) == 1
    looked = GrowingDirectory(str(received)).look(None)
    lsns = read_frames(looked, looked.start_lsn).lsns.tolist()
    assert len(lsns) > 100
    assert lsns == [lsn for lsn in expected if looked.start_lsn <= lsn <= lsns[-1]]
    assert end_of_log(looked) > lsns[-1]
    if method != "none":
        whole = partial[0].read_bytes()
        partial[0].write_bytes(whole[: len(whole) * 2 // 3])
        cut = read_frames(WalDirectory.scan(received), looked.start_lsn).lsns.tolist()
        assert cut == lsns[: len(cut)]


def _filled(server: EmbeddedPostgres) -> str:
    """Fill some segments; an LSN after which there is more, as ``pg_receivewal`` waits for that."""
    insert = "INSERT INTO t SELECT generate_series(1, 9000)"
    run(server, insert, insert)
    lsn = now(server)
    run(server, insert)
    return lsn


def _segment_start(lsn: str) -> int:
    return int(Lsn.parse(lsn)) // (1 << 20) * (1 << 20)


@pytest.mark.parametrize(
    ("major", "megabytes"),
    [(16, 1), (16, 64), (18, 1024)],
)
@pytest.mark.slow
@pytest.mark.spark
def test_segments_of_other_sizes(command: Command, tmp_path: Path, major: int, megabytes: int) -> None:
    programs = find_programs(major, plugin="test_decoding")
    with EmbeddedPostgres(programs, autovacuum=False, wal_segment_megabytes=megabytes) as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        make_slot(server, "s")
        for number in range(3):
            run(server, f"INSERT INTO t SELECT g, md5(g::text) FROM generate_series({number}000, {number}999) g")
            run(server, "SELECT pg_switch_wal()") if number < 2 else None
        lines = peek(server, "s")
        server.stop()
        wal = copy_wal(server, tmp_path / "wal")
    begin = str(Lsn(lsns(lines)[0]))
    for path in (wal, ARCHIVES["pgBackRest.zst"](wal, tmp_path / "repo")):
        words = ["decode", "--wal", path, "--catalog", backup, "--database", "postgres", "--start", begin]
        assert done(command, *words, "--with-lsn", "-q") == lines
    assert WalDirectory.scan(wal).segment_size == megabytes << 20


def test_a_gzip_file_that_grows_under_a_follower(tmp_path: Path) -> None:
    """An archive that is written to by ``gzip`` itself: no look at it sees more or other than what is whole."""
    with small_server(16) as server:
        run(server, "CREATE TABLE t (a int)", FILL, "INSERT INTO t SELECT generate_series(1, 9000)")
        server.stop()
        wal = copy_wal(server, tmp_path / "wal")
    whole = WalDirectory.scan(wal)
    archive = tmp_path / "archive"
    archive.mkdir()
    growing, seen = GrowingDirectory(str(archive)), 0
    for segment in whole.segments:
        data = gzip.compress(Path(segment.path).read_bytes(), 1)
        path = archive / f"{Path(segment.path).name}.gz"
        for size in (len(data) // 3, len(data) - 8, len(data)):
            path.write_bytes(data[:size])
            if seen == 0 and size < len(data):
                continue
            looked = growing.look(None)
            assert seen <= len(looked.segments) == seen + (size == len(data))
        seen += 1
    last_look = growing.look(None)
    assert (
        read_frames(last_look, last_look.start_lsn).lsns.tolist() == read_frames(whole, whole.start_lsn).lsns.tolist()
    )
