"""WAL that is being written, that a crash cut off, and that changes its timeline."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.wal.records.frames import read_frames
from headwater.wal.records.record import parse_record
from headwater.wal.segments.directory import WalDirectory
from packaged_servers import client_of
from records.server_records import run_waldump

pytestmark = pytest.mark.server

MAJOR = 16


@pytest.fixture
def server() -> EmbeddedPostgres:
    return EmbeddedPostgres(find_programs(MAJOR), wal_segment_megabytes=1, settings={"synchronous_commit": "off"})


def read_on(wal_path: Path, at: int, prev: int | None) -> tuple[list[int], int, int | None]:
    """Poll once as a follower: the records from `at` on, where it stands then, and the last record's start."""
    wal = WalDirectory.scan(wal_path)
    frames = read_frames(wal, at, expect_prev=prev)
    assert frames.end is not None
    lsns = frames.lsns.tolist()
    return lsns, int(frames.end_lsns[-1]) if lsns else at, lsns[-1] if lsns else prev


def test_following_a_busy_server_never_sees_damage(server: EmbeddedPostgres) -> None:
    """A follower that polls while three sessions write ends up with every record, once."""
    program = client_of("pgbench", MAJOR)
    with server:
        environment = server.client_environment()
        subprocess.run([str(program), "-q", "-i"], env=environment, check=True, capture_output=True)
        wal = WalDirectory.scan(server.wal_directory)
        start, at, prev, lsns_read, polls = wal.start_lsn, wal.start_lsn, None, [], 0
        bench = subprocess.Popen(
            [str(program), "-n", "-c", "3", "-T", "4"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while bench.poll() is None:
            lsns, at, prev = read_on(server.wal_directory, at, prev)
            lsns_read += lsns
            polls += 1
        server.stop()
        lsns_read += read_on(server.wal_directory, at, prev)[0]
        whole = read_frames(WalDirectory.scan(server.wal_directory), start)
    assert bench.returncode == 0
    assert polls > 20
    assert whole.lsns.tolist() == lsns_read


def test_a_record_cut_off_by_a_crash(server: EmbeddedPostgres) -> None:
    """The segments after the one where a record begins are lost; the restarted server writes over its rest."""
    with server:
        with server.connect() as connection:
            connection.execute("create table t (a int)")
            connection.execute("checkpoint")
            connection.execute(
                "select pg_logical_emit_message(false, 'x', repeat('a', 700000)) from generate_series(1, 4)"
            )
            connection.execute("insert into t values (1)")
        server.crash()
        wal = WalDirectory.scan(server.wal_directory)
        whole = read_frames(wal, wal.start_lsn)
        crossing = [i for i in range(len(whole.lsns)) if whole.lsns[i] >> 20 < (whole.end_lsns[i] - 1) >> 20]
        cut = int(whole.lsns[crossing[-1]])
        for segment in wal.segments:
            if segment.start_lsn > cut:
                Path(segment.path).unlink()
        torn = read_frames(WalDirectory.scan(server.wal_directory), wal.start_lsn)
        assert torn.end is not None
        assert cut == torn.end.lsn
        server.start()
        with server.connect() as connection:
            connection.execute("insert into t values (2)")
        server.stop()
        wal = WalDirectory.scan(server.wal_directory)
        after = read_frames(wal, wal.start_lsn)
        program = client_of("pg_waldump", MAJOR)
        dumped = run_waldump(program, server.wal_directory, 1, Path(wal.segments[0].path).name)
        assert [row.lsn for row in dumped] == after.lsns.tolist()
    assert cut not in after.lsns
    assert torn.lsns.tolist() == after.lsns.tolist()[: len(torn.lsns)]
    next_record = parse_record(after.record(len(torn.lsns)), int(after.lsns[len(torn.lsns)]), 0, MAJOR)
    assert (next_record.rmid, next_record.info) == (0, 0xD0)
    assert cut == int.from_bytes(next_record.main_data[:8], "little")


@pytest.mark.parametrize("keep_child", [True, False])
def test_a_promoted_server_goes_on_on_another_timeline(
    server: EmbeddedPostgres, tmp_path: Path, keep_child: bool
) -> None:
    with server:
        with server.connect() as connection:
            connection.execute("create table t as select generate_series(1, 10000) a")
        server.stop()
        before = read_all(server.wal_directory)
        data = server.copy_data_directory(tmp_path / "old")
        _continue_on_a_new_timeline(server)
        wal = WalDirectory.scan(server.wal_directory)
        assert wal.segments[-1].timeline == 2
        after = read_all(server.wal_directory)
        assert before == after[: len(before)]
        assert len(after) > len(before) + 100
        assert before == read_all(data / "pg_wal")
        if keep_child:
            return
        # The old server went on by itself; its records from the switch point on are not of this history.
        for segment in wal.segments:
            if segment.timeline == 2:
                Path(segment.path).unlink()
        fork = WalDirectory.scan(server.wal_directory)
        assert fork.end_lsn is not None
        assert before == read_all(server.wal_directory)
        assert [lsn for lsn in before if lsn < fork.end_lsn] == before


def read_all(wal_path: Path) -> list[int]:
    wal = WalDirectory.scan(wal_path)
    lsns: list[int] = read_frames(wal, wal.start_lsn).lsns.tolist()
    return lsns


def _continue_on_a_new_timeline(server: EmbeddedPostgres) -> None:
    """Restart as after an archive recovery to the end of the WAL."""
    (server.data_directory / "recovery.signal").touch()
    with (server.data_directory / "postgresql.conf").open("a") as conf:
        conf.write("restore_command = 'false'\n")
    server.start()
    with server.connect() as connection:
        deadline = time.monotonic() + 60
        while connection.execute("select pg_is_in_recovery()").fetchone() == (True,):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        connection.execute("insert into t select generate_series(1, 10000)")
    server.stop()
