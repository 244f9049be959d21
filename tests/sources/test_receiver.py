"""``headwater receive`` beside ``pg_receivewal``: the same files, whatever ends, is killed or promoted meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bad_input.servers import conninfo_of, now, run, small_server, value
from bad_input.standbys import base_backup, catch_up, standby_of
from headwater.errors import ConnectionLostError, HeadwaterError, SegmentError, ServerError, UsageError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_client
from headwater.pg.lsn import Lsn
from headwater.receiver.base_backup import BackupRequest, take_backup
from headwater.receiver.received_files import SegmentWriter
from headwater.receiver.wal_receiver import Reached, ReceiveRequest, WalReceiver
from headwater.slots.slot_directory import read_slot
from headwater.wal.records.frames import read_frames
from headwater.wal.records.growing_directory import end_of_log
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.place import WalSource
from headwater.wal.segments.segment_files import segment_name
from packaged_servers import is_packaged
from serving.service import wait_until
from slots.conftest import Command, done
from sources.archives import ARCHIVES

pytestmark = pytest.mark.server

MIB = 1 << 20
OTHERS = [pytest.param(major, marks=pytest.mark.slow) for major in (15, 17, 19) if is_packaged(major)]
FILL = "SELECT pg_logical_emit_message(false, 'x', repeat('a', 700000)) FROM generate_series(1, 4)"


def lsn_of(server: EmbeddedPostgres, query: str = "pg_current_wal_lsn()") -> int:
    return int(Lsn.parse(value(server, f"SELECT {query}")))


class Receiving:
    """A receiver in a thread of this process."""

    def __init__(self, server: EmbeddedPostgres, directory: Path, **options: object) -> None:
        request = ReceiveRequest(conninfo=conninfo_of(server), directory=directory, **options)  # type: ignore[arg-type]
        self._changed = threading.Condition()
        self._flushed, self._timeline = -1, 0
        self.lost: list[str] = []
        self._error: HeadwaterError | None = None
        self._receiver = WalReceiver(request, self._note, self._note_loss)
        self._thread = threading.Thread(target=self._run)
        self._makes_slot = request.creates_slot

    def __enter__(self) -> Receiving:
        """Begin; WAL that is written from here on is kept for the slot, if one is made."""
        self._thread.start()
        assert not self._makes_slot or self._receiver.has_slot.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._receiver.stop()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def wait_for(self, lsn: int, timeline: int = 1) -> None:
        """Wait until all is synced up to an LSN."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: self._error is not None or (self._flushed >= lsn and self._timeline >= timeline), 60
            )

    def wait_for_loss(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.lost, 60)

    def _run(self) -> None:
        try:
            self._receiver.run()
        except HeadwaterError as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _note(self, reached: Reached) -> None:
        with self._changed:
            self._flushed, self._timeline = reached.position.lsn, reached.position.timeline
            self._changed.notify_all()

    def _note_loss(self, reason: str) -> None:
        with self._changed:
            self.lost.append(reason)
            self._changed.notify_all()


def end_amid_wal(server: EmbeddedPostgres) -> int:
    """Return an LSN that WAL goes beyond already: else the next record comes when the server logs its transactions."""
    end = lsn_of(server) + 1
    run(server, "SELECT pg_logical_emit_message(true, 'x', '')")
    return end


def receive(server: EmbeddedPostgres, directory: Path, end: int, **options: object) -> None:
    """Receive up to an LSN."""
    request = ReceiveRequest(conninfo=conninfo_of(server), directory=directory, end=end, **options)  # type: ignore[arg-type]
    WalReceiver(request).run()


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def check_received(server: EmbeddedPostgres, directory: Path, end: int) -> None:
    """Check that files are named as their segments, and have the server's bytes up to an LSN."""
    files = contents(directory)
    segments = sorted(name for name in files if not name.endswith(".history"))
    assert segments
    for name in segments:
        number = int(name[8:16], 16) * 4096 + int(name[16:24], 16)
        assert len(files[name]) == MIB
        upto = min(MIB, end - number * MIB)
        assert name.endswith(".partial") == (upto < MIB), name
        assert files[name][:upto] == (server.wal_directory / name[:24]).read_bytes()[:upto], name


@pytest.mark.parametrize("major", [16, 18, *OTHERS])
def test_the_files_are_those_of_pg_receivewal(tmp_path: Path, major: int) -> None:
    program = find_client("pg_receivewal", major)
    assert program is not None
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    with small_server(major) as server:
        with server.connect() as connection:
            for slot in ("theirs", "ours"):
                connection.execute("SELECT pg_create_physical_replication_slot(%s, true)", [slot])
        run(server, FILL, "CREATE TABLE t (a int)", "SELECT pg_switch_wal()", "INSERT INTO t VALUES (1)")
        end = lsn_of(server)
        run(server, "INSERT INTO t VALUES (2)")
        words = [program, "-D", theirs, "--no-loop", "-S", "theirs", "--endpos", str(Lsn(end))]
        subprocess.run(list(map(str, words)), env=server.client_environment(), check=True, capture_output=True)
        receive(server, ours, end, slot="ours")
        assert contents(ours).keys() == contents(theirs).keys()
        assert {path.stat().st_mode for path in ours.iterdir()} == {path.stat().st_mode for path in theirs.iterdir()}
        check_received(server, ours, end)
        restart = value(server, "SELECT string_agg(DISTINCT restart_lsn::text, ' ') FROM pg_replication_slots")
        assert len(restart.split()) <= 2
        assert Lsn.parse(value(server, "SELECT restart_lsn FROM pg_replication_slots WHERE slot_name = 'ours'")) >= end


@pytest.mark.parametrize("major", [14, 18, *OTHERS])
def test_a_slot_is_made_and_keeps_what_is_not_synced(tmp_path: Path, major: int) -> None:
    with small_server(major, wal_keep_size="0") as server:
        receive(server, tmp_path / "wal", lsn_of(server), slot="s", creates_slot=True, is_synchronous=True)
        first = lsn_of(server, "restart_lsn FROM pg_replication_slots")
        for _ in range(3):
            run(server, FILL, "SELECT pg_switch_wal()", "CHECKPOINT")
        assert lsn_of(server, "restart_lsn FROM pg_replication_slots") == first
        end = lsn_of(server)
        receive(server, tmp_path / "wal", end, slot="s", creates_slot=True)
        assert lsn_of(server, "restart_lsn FROM pg_replication_slots") >= end
        check_received_names(tmp_path / "wal", end)


def check_received_names(directory: Path, end: int) -> None:
    names = sorted(contents(directory))
    assert names[-1].endswith(".partial") or end % MIB == 0
    frames = read_frames(WalDirectory.scan(directory), WalDirectory.scan(directory).start_lsn)
    assert int(frames.end_lsns[-1]) <= end
    assert len(frames.lsns) > 10


@contextmanager
def command(server: EmbeddedPostgres, directory: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command as a process of its own."""
    arguments = [str(Path(sys.executable).with_name("headwater")), "receive", "--from", conninfo_of(server)]
    process = subprocess.Popen([*arguments, "--to", directory, *words], stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_receivers(server: EmbeddedPostgres, count: int) -> None:
    """Wait until so many receivers stream."""
    with server.connect() as connection:
        query = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        while connection.execute(query).fetchone() != (count,):
            connection.execute("SELECT pg_sleep(0.01)")


def wait_for_all(server: EmbeddedPostgres, lsn: int) -> None:
    """Wait until all receivers, of which there is one at least, have told the server that all is written to an LSN."""
    with server.connect() as connection:
        until = time.monotonic() + 60
        query = "SELECT coalesce(bool_and(write_lsn >= %s::pg_lsn), false) FROM pg_stat_replication"
        while connection.execute(query, [str(Lsn(lsn))]).fetchone() != (True,):
            assert time.monotonic() < until, "no receiver tells the server how far it is"
            connection.execute("SELECT pg_sleep(0.01)")


def test_a_killed_receiver_goes_on_where_it_was(tmp_path: Path) -> None:
    with small_server(16) as server:
        wal = tmp_path / "wal"
        for number in range(3):
            with command(server, wal, "--slot", "s", "--create-slot", "--synchronous") as process:
                run(server, FILL)
                wait_for_all(server, lsn_of(server))
                run(server, FILL)
                assert process.poll() is None, process.communicate()
                process.send_signal((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[number])
                status = process.wait()
                assert status == (-signal.SIGKILL if number == 0 else 0), process.communicate()
        run(server, "SELECT pg_switch_wal()")
        end = lsn_of(server)
        receive(server, wal, end, slot="s")
        check_received(server, wal, end)
        assert read_frames(WalDirectory.scan(wal), WalDirectory.scan(wal).start_lsn).lsns.size


def test_a_server_that_restarts_is_waited_for(tmp_path: Path) -> None:
    with small_server(16) as server:
        with Receiving(server, tmp_path / "wal", slot="s", creates_slot=True) as receiving:
            run(server, FILL, "SELECT pg_switch_wal()")
            receiving.wait_for(lsn_of(server) // MIB * MIB)
            server.stop()
            receiving.wait_for_loss()
            server.start()
            run(server, FILL, "SELECT pg_switch_wal()")
            end = lsn_of(server)
            receiving.wait_for(end // MIB * MIB)
        check_received(server, tmp_path / "wal", lsn_of(server))
        assert "trying again in 1 s" in receiving.lost[0]


def test_a_server_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    """By a run that has WAL already, such as a service that is started again while the server is down."""
    with small_server(16) as server:
        receive(server, tmp_path / "wal", end_amid_wal(server), slot="s", creates_slot=True)
        server.stop()
        with (
            pytest.raises(ConnectionLostError),
            Receiving(server, tmp_path / "empty", waits_for_server=True) as receiving,
        ):
            receiving.wait_for(0)
        with Receiving(server, tmp_path / "wal", waits_for_server=True, slot="s") as receiving:
            receiving.wait_for_loss()
            server.start()
            run(server, FILL, "SELECT pg_switch_wal()")
            receiving.wait_for(lsn_of(server) // MIB * MIB)
        assert "could not connect to the server" in receiving.lost[0]


@pytest.mark.parametrize("major", [16, 18, *OTHERS])
def test_a_promotion_is_followed(tmp_path: Path, major: int) -> None:
    """From the standby itself; the segment in which the timeline was left stays partial, the next begins with it."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    theirs.mkdir()
    with small_server(major) as primary:
        run(primary, FILL)
        with standby_of(primary, base_backup(primary, tmp_path / "backup")) as standby:
            with Receiving(standby, ours) as receiving, pg_receivewal(standby, theirs, "--synchronous"):
                wait_for_receivers(standby, 2)
                run(primary, FILL, "SELECT pg_switch_wal()", FILL, "CREATE TABLE t (a int)")
                catch_up(standby, now(primary))
                run(standby, "SELECT pg_promote()", FILL, "SELECT pg_switch_wal()")
                wait_for_all(standby, lsn_of(standby))
                receiving.wait_for(lsn_of(standby) // MIB * MIB, 2)
            check_switch(standby, ours)
    assert contents(ours) == contents(theirs)


@contextmanager
def pg_receivewal(server: EmbeddedPostgres, directory: Path, *words: str) -> Iterator[None]:
    program = find_client("pg_receivewal", server.programs.major)
    assert program is not None
    command = [program, "-D", directory, "--no-loop", *words]
    process = subprocess.Popen(list(map(str, command)), env=server.client_environment())
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)  # that of 15 knows no other one
        assert process.wait() == 0


def check_switch(server: EmbeddedPostgres, directory: Path) -> None:
    """Check the files of a timeline that was left, and of the one that followed."""
    files = contents(directory)
    assert files["00000002.history"] == (server.wal_directory / "00000002.history").read_bytes()
    left = int(Lsn.parse(files["00000002.history"].decode().split("\t")[1]))
    name = f"{left // MIB:016X}"
    assert f"00000001{name}.partial" in files, sorted(files)
    assert f"00000002{name}" in files, sorted(files)
    received, own = WalDirectory.scan(directory), WalDirectory.scan(server.wal_directory)
    lsns = read_frames(received, received.start_lsn).lsns.tolist()
    assert lsns == read_frames(own, lsns[0], lsns[-1] + 1).lsns.tolist()
    assert lsns[0] < left < lsns[-1]


@pytest.mark.parametrize("form", ["simple.gz", "pgBackRest.zst"])
def test_what_the_server_has_removed_comes_from_an_archive(tmp_path: Path, form: str) -> None:
    """Then streaming again; what is in neither is waited for, and told."""
    wal, all_wal, empty = tmp_path / "wal", tmp_path / "all", tmp_path / "empty"
    empty.mkdir()
    with small_server(16, wal_keep_size="0", max_wal_size="2MB", min_wal_size="2MB") as server:
        receive(server, wal, lsn_of(server))
        with Receiving(server, all_wal, slot="s", creates_slot=True) as receiving:
            run(server, FILL, "SELECT pg_switch_wal()", FILL, "SELECT pg_switch_wal()")
            end = lsn_of(server)
            receiving.wait_for(end // MIB * MIB)
        drop_slot(server, "s")
        run(server, FILL, "SELECT pg_switch_wal()", "CHECKPOINT")
        for path in all_wal.glob("*.partial"):
            path.unlink()
        with Receiving(server, wal, archive=WalSource.of(empty)) as receiving:
            receiving.wait_for_loss()
        assert "has already been removed, and the archive has nothing further yet; trying again" in receiving.lost[0]
        archive = WalSource.of(ARCHIVES[form](all_wal, tmp_path / "archive"))
        receive(server, wal, end // MIB * MIB, archive=archive)
        expected = {name: data for name, data in contents(all_wal).items() if int(name[16:], 16) < end // MIB}
        assert len(expected) > 3
        assert expected.items() <= contents(wal).items()


def test_an_archive_of_another_cluster_gives_nothing(tmp_path: Path) -> None:
    wal, archive = tmp_path / "wal", tmp_path / "archive"
    archive.mkdir()
    with small_server(16, wal_keep_size="0", max_wal_size="2MB", min_wal_size="2MB") as server:
        receive(server, wal, lsn_of(server))
        (partial,) = wal.iterdir()
        foreign = bytearray(partial.read_bytes())
        foreign[24:32] = bytes(range(1, 9))
        (archive / partial.name[:24]).write_bytes(foreign)
        for _ in range(3):
            run(server, FILL, "SELECT pg_switch_wal()", "CHECKPOINT")
        before = contents(wal)
        with Receiving(server, wal, archive=WalSource.of(archive)) as receiving:
            receiving.wait_for_loss()
        assert "the archive has WAL of the system 578437695752307201" in receiving.lost[0], receiving.lost
        assert contents(wal) == before


def drop_slot(server: EmbeddedPostgres, slot: str) -> None:
    """Drop a slot once the server has noticed that nobody uses it any more."""
    with server.connect() as connection:
        while connection.execute("SELECT active FROM pg_replication_slots").fetchone() != (False,):
            connection.execute("SELECT pg_sleep(0.01)")
        connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    with small_server(16) as server, small_server(18) as other:
        receive(server, tmp_path / "wal", lsn_of(server))
        before = contents(tmp_path / "wal")
        with pytest.raises(SegmentError, match="the directory has WAL of the system"):
            receive(other, tmp_path / "wal", lsn_of(other))
        assert contents(tmp_path / "wal") == before


def test_what_cannot_be_received_is_an_error(tmp_path: Path) -> None:
    with small_server(16, wal_keep_size="0", max_wal_size="2MB", min_wal_size="2MB") as server:
        end = lsn_of(server)
        with pytest.raises(ServerError, match='replication slot "none" does not exist') as refused:
            receive(server, tmp_path / "wal", end, slot="none")
        assert refused.value.sqlstate == "42704"
        with pytest.raises(UsageError, match="invalid connection string"):
            WalReceiver(ReceiveRequest(conninfo="host", directory=tmp_path / "wal", end=end)).run()
        receive(server, tmp_path / "wal", end)
        for _ in range(3):
            run(server, FILL, "SELECT pg_switch_wal()", "CHECKPOINT")
        with pytest.raises(ServerError, match=r"requested WAL segment .* has already been removed") as gone:
            receive(server, tmp_path / "wal", lsn_of(server))
        assert gone.value.sqlstate == "58P01"
        with Receiving(server, tmp_path / "held") as receiving:
            receiving.wait_for(0)
            with pytest.raises(SegmentError, match="another receiver writes to the directory"):
                receive(server, tmp_path / "held", end)
        receive(server, tmp_path / "held", end_amid_wal(server))
        (partial,) = (tmp_path / "held").glob("*.partial")
        os.truncate(partial, 8192)
        with pytest.raises(SegmentError, match="wrong size: 8192 bytes, expected 1048576"):
            receive(server, tmp_path / "held", end_amid_wal(server))
        info = conninfo_of(server)
        server.stop()
    with pytest.raises(ConnectionLostError, match="could not connect to the server"):
        WalReceiver(ReceiveRequest(conninfo=info, directory=tmp_path / "wal", end=end)).run()


def test_a_server_that_says_nothing_is_lost(tmp_path: Path) -> None:
    """The walsender is stopped; the receiver asks it for a sign of life first."""
    with small_server(16) as server:
        with Receiving(server, tmp_path / "wal", timeout_seconds=1.0) as receiving:
            receiving.wait_for(0)
            pid = int(value(server, "SELECT pid FROM pg_stat_replication"))
            os.kill(pid, signal.SIGSTOP)
            try:
                receiving.wait_for_loss()
            finally:
                os.kill(pid, signal.SIGCONT)
        assert "the server has said nothing for 1 s" in receiving.lost[0]
        assert now(server)


def test_what_is_old_is_removed_but_what_a_slot_needs(tmp_path: Path, command: Command) -> None:
    wal, base, slots = tmp_path / "wal", tmp_path / "base", tmp_path / "slots"
    with small_server(18) as server:
        run(server, "CREATE TABLE t (a int)")
        take_backup(BackupRequest(conninfo=conninfo_of(server), directory=base))
        now(server)  # a backup ends its segment: there is no file before something is in the next
        words = ["receive", "--from", conninfo_of(server), "--to", str(wal), "--keep", "2MB", "--slots", str(slots)]
        process = subprocess.Popen([sys.executable, "-m", "headwater.cli.main", *words, "--status-interval", "0.1"])
        try:
            wait_until(lambda: any(wal.glob("*.partial")))
            source = ("--wal", wal, "--wal", base / "pg_wal", "--catalog", base)
            at = now(server)
            wait_until(lambda: is_received(wal, at))
            done(command, "slot", "create", slots / "one", *source, "--at", at)
            run(server, *(["INSERT INTO t VALUES (1)", FILL, "SELECT pg_switch_wal()"] * 4))
            filled = now(server)
            wait_until(lambda: is_received(wal, filled))
            first = whole(wal)[0]
            assert len(whole(wal)) >= 8
            assert first <= segment_name(1, read_slot(slots / "one").restart_lsn // MIB, MIB)
            lines = done(command, "decode", "--slot", slots / "one", "-q").decode()
            assert lines.count("INSERT") == 4
            run(server, FILL, "SELECT pg_switch_wal()")
            wait_until(lambda: whole(wal)[0] > first and len(whole(wal)) <= 3)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0


def whole(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if len(path.name) == 24)


def is_received(directory: Path, lsn: str) -> bool:
    """Tell whether the log in a directory goes to an LSN; its first segment may have nothing but zeros yet."""
    try:
        return end_of_log(WalDirectory.scan(WalSource.of(directory))) >= int(Lsn.parse(lsn))
    except SegmentError:
        return False


def test_a_segment_has_its_size_whenever_it_is_seen(tmp_path: Path) -> None:
    """Others read the directory while it is received into, and take a segment of another size for a damaged one."""
    size, sizes, has_ended = 64 << 20, set[int](), threading.Event()

    def look() -> None:
        while not has_ended.is_set():
            for path in tmp_path.glob("*.partial"):
                with suppress(FileNotFoundError):
                    sizes.add(path.stat().st_size)

    watcher = threading.Thread(target=look)
    watcher.start()
    for timeline in range(1, 4):
        writer = SegmentWriter(tmp_path, timeline, size, size)
        writer.write(size, memoryview(b"x"))
        writer.close()
    has_ended.set()
    watcher.join()
    assert sizes == {size}
    assert len(list(tmp_path.iterdir())) == 3
