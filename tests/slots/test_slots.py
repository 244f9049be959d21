"""Slots by the command: made, decoded call by call, killed, advanced, copied, dropped."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from arrow_types import values_of
from bad_input.running_command import running
from bad_input.servers import conninfo_of, run, small_server, value
from headwater.pg.lsn import Lsn
from headwater.receiver.base_backup import BackupRequest, take_backup
from headwater.slots.kept_state import lsn_of_name
from headwater.slots.slot_directory import active_pid, open_slot, read_slot
from slots.conftest import Command, ServerRun, create_slot, done, lsns, refused

pytestmark = [pytest.mark.server]


def show(command: Command, path: Path) -> dict[str, object]:
    shown: dict[str, object] = json.loads(done(command, "slot", "show", path, "--json"))
    return shown


def test_calls_say_what_one_peek_says(command: Command, server_run: ServerRun, tmp_path: Path) -> None:
    create_slot(command, tmp_path / "one", server_run)
    places = lsns(server_run.lines)
    taken_so_far, call = b"", ("decode", "--slot", tmp_path / "one", "--with-lsn", "-q")
    for end in (places[len(places) // 3], places[len(places) // 2]):
        seen = done(command, *call, "--end", Lsn(end), "--peek")
        taken = done(command, *call, "--end", Lsn(end))
        assert taken == seen
        assert taken
        taken_so_far += taken
    taken_so_far += done(command, *call)
    assert taken_so_far == server_run.lines
    assert done(command, *call) == b""
    shown = show(command, tmp_path / "one")
    assert (shown["calls"], shown["active"], shown["catalog"]) == (4, False, "not needed any more")
    assert shown["messages"] == len(places)


def test_a_slot_needs_its_backup_only_once(command: Command, server_run: ServerRun, tmp_path: Path) -> None:
    """The slot's own content is enough, also for another slot made of it."""
    create_slot(command, tmp_path / "one", server_run)
    done(command, "slot", "copy", tmp_path / "one", tmp_path / "two")
    done(command, "slot", "copy", tmp_path / "one", tmp_path / "three", "-o", "include-xids=0")
    middle = lsns(server_run.lines)[len(server_run.lines.splitlines()) // 2]
    stands = done(command, "slot", "advance", tmp_path / "two", Lsn(middle)).decode().strip()
    assert show(command, tmp_path / "two")["confirmed_flush_lsn"] == stands
    rest = done(command, "decode", "--slot", tmp_path / "two", "--with-lsn", "-q")
    whole = server_run.lines.splitlines(keepends=True)
    assert b"".join(whole).endswith(rest)
    assert 0 < len(rest) < len(server_run.lines)
    assert done(command, "decode", "--slot", tmp_path / "three", "-q").splitlines()[0] == b"BEGIN"
    listed = done(command, "slot", "list", tmp_path).decode().splitlines()
    assert [line.split()[0] for line in listed] == ["slot_name", "one", "three", "two"]
    done(command, "slot", "drop", tmp_path / "three")
    assert not (tmp_path / "three").exists()


def test_a_slot_is_made_in_the_past(command: Command, server_run: ServerRun, tmp_path: Path) -> None:
    """It says what one says that was advanced to the same place; a place that was never there is refused."""
    create_slot(command, tmp_path / "one", server_run)
    middle = Lsn(lsns(server_run.lines)[len(server_run.lines.splitlines()) // 2])
    source = ("--wal", server_run.wal, "--catalog", server_run.backup, "--database", "postgres")
    stands = done(command, "slot", "create", tmp_path / "two", *source, "--at", middle).decode().strip()
    assert done(command, "slot", "advance", tmp_path / "one", middle).decode().strip() == stands
    calls = [done(command, "decode", "--slot", tmp_path / name, "--with-lsn", "-q") for name in ("one", "two")]
    assert calls[0] == calls[1] != b""
    for place, reason in (("0/100", "the first place after the catalog is"), ("F/0", "the WAL that is here ends at")):
        assert reason in refused(command, "slot", "create", tmp_path / "three", *source, "--at", place)
    assert not (tmp_path / "three").exists()


def test_a_slot_is_made_at_a_time(command: Command, tmp_path: Path) -> None:
    """It begins with the first commit at or after the time that the server gives its commits."""
    with small_server(18, track_commit_timestamp="on") as server:
        run(server, "CREATE TABLE t (a int)")
        take_backup(BackupRequest(conninfo=conninfo_of(server), directory=tmp_path / "base"))
        run(server, *(f"INSERT INTO t VALUES ({number})" for number in range(5)))
        query = "SELECT pg_xact_commit_timestamp(xmin)::text FROM t WHERE a = {}"
        times = [value(server, query.format(number)) for number in range(5)]
        server.stop()
        source = ("--wal", server.wal_directory, "--wal", tmp_path / "base" / "pg_wal", "--catalog", tmp_path / "base")
        for number in (1, 3):
            slot = tmp_path / f"s{number}"
            done(command, "slot", "create", slot, *source, "--at", times[number])
            lines = done(command, "decode", "--slot", slot, "-q").decode().splitlines()
            shown = [line for line in lines if line.startswith("table")]
            assert shown == [f"table public.t: INSERT: a[integer]:{row}" for row in range(number, 5)]
        for time, reason in (
            ("2000-01-01 00:00:00+00", "the first commit behind"),
            ("2999-01-01 00:00:00+00", "no transaction has committed at or after"),
            ("2026-01-01 00:00:00", "has no offset from UTC"),
            ("soon", "is neither an LSN nor a time"),
        ):
            assert reason in refused(command, "slot", "create", tmp_path / "other", *source, "--at", time)


def test_a_slot_keeps_what_it_is_made_with_for_later(command: Command, server_run: ServerRun, tmp_path: Path) -> None:
    source = ("--wal", server_run.wal, "--catalog", server_run.backup, "--database", "postgres")
    done(command, "slot", "create", tmp_path / "deep" / "er" / "one", *source, "--two-phase", "--failover")
    done(command, "slot", "copy", tmp_path / "deep" / "er" / "one", tmp_path / "two")
    create_slot(command, tmp_path / "three", server_run)
    for path, noted in ((tmp_path / "two", True), (tmp_path / "three", False)):
        shown = show(command, path)
        assert (shown["two_phase"], shown["failover"]) == (noted, noted)


def test_what_a_killed_process_has_left_of_a_slot_is_in_nobodys_way(
    command: Command, server_run: ServerRun, tmp_path: Path
) -> None:
    left, other = tmp_path / "left", tmp_path / "other"
    for place, names in ((left, ("lock", "slot.part")), (other, ("lock", "letter"))):
        place.mkdir()
        for name in names:
            (place / name).touch()
    create_slot(command, left, server_run)
    assert done(command, "decode", "--slot", left, "--with-lsn", "-q") == server_run.lines
    again = ("slot", "create", other, "--wal", server_run.wal, "--catalog", server_run.backup, "--database", "postgres")
    assert 'replication slot "other" already exists' in refused(command, *again)
    assert sorted(path.name for path in other.iterdir()) == ["letter", "lock"]


def test_what_is_refused(command: Command, server_run: ServerRun, tmp_path: Path) -> None:
    create_slot(command, tmp_path / "one", server_run)
    again = ("slot", "create", tmp_path / "one", "--wal", server_run.wal, "--catalog", server_run.backup)
    assert 'replication slot "one" already exists' in refused(command, *again)
    assert 'replication slot "two" does not exist' in refused(command, "decode", "--slot", tmp_path / "two")
    assert "cannot be given with --slot" in refused(
        command, "decode", "--slot", tmp_path / "one", "--plugin", "pgoutput"
    )
    done(command, "slot", "copy", tmp_path / "one", tmp_path / "rows", "--plugin", "rows")
    assert "nonsense" in refused(
        command, "slot", "copy", tmp_path / "one", tmp_path / "bad", "--plugin", "nonsense", "-o", "a=b"
    )
    assert "unknown_option" in refused(
        command, "slot", "copy", tmp_path / "one", tmp_path / "bad", "-o", "unknown_option=1"
    )
    assert not (tmp_path / "bad").exists()
    assert "the slot rows is for rows" in refused(command, "decode", "--slot", tmp_path / "rows")
    assert "minimum is" in refused(command, "slot", "advance", tmp_path / "one", "0/1000")
    raw = bytearray((tmp_path / "one" / "slot").read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / "one" / "slot").write_bytes(raw)
    assert "damaged" in refused(command, "decode", "--slot", tmp_path / "one")


@pytest.mark.slow
def test_a_slot_is_used_by_one_process(command: Command, server_run: ServerRun, tmp_path: Path) -> None:
    create_slot(command, tmp_path / "one", server_run)
    words = ("decode", "--slot", tmp_path / "one", "--out", tmp_path / "out", "--engine", "spark")
    with running(*words, directory=tmp_path) as first:
        first.until(first.has_java)
        message = refused(command, "decode", "--slot", tmp_path / "one")
        assert f'replication slot "one" is active for PID {first.process.pid}' in message
        assert show(command, tmp_path / "one")["active_pid"] == first.process.pid
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    assert show(command, tmp_path / "one")["active"] is False


def test_kept_states_make_any_window_readable(command: Command, server_run: ServerRun, tmp_path: Path) -> None:
    states, whole = tmp_path / "states", server_run.lines.splitlines(keepends=True)
    states.mkdir()
    wal = ("--wal", server_run.wal, "--with-lsn", "-q")
    source = ("--catalog", server_run.backup, "--database", "postgres", "--keep-states", states)
    done(command, "decode", *wal, *source, "--window-bytes", "1")
    names = sorted(path.name for path in states.iterdir())
    assert len(names) > 2
    start = int(names[len(names) // 2].partition(".")[0].replace("-", ""), 16)
    rest = done(command, "decode", *wal, "--from-state", states, "--start", Lsn(start))
    assert b"".join(whole).endswith(rest)
    assert 0 < len(rest) < len(server_run.lines)


def test_looking_at_a_slot_does_not_keep_anybody_from_using_it(
    command: Command, server_run: ServerRun, tmp_path: Path
) -> None:
    create_slot(command, tmp_path / "one", server_run)
    looked, is_done = 0, threading.Event()

    def look() -> None:
        nonlocal looked
        while not is_done.is_set():
            active_pid(tmp_path / "one")
            looked += 1

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(50):
            with open_slot(tmp_path / "one"):
                assert active_pid(tmp_path / "one") == os.getpid()
    finally:
        is_done.set()
        looking.join()
    assert looked > 50
    assert active_pid(tmp_path / "one") is None


def test_a_kept_state_begins_a_session(command: Command, server_run: ServerRun, tmp_path: Path) -> None:
    """Announcements of before are made again, as to a slot that stands there."""
    states, slot = tmp_path / "states", tmp_path / "slot"
    states.mkdir()
    plugin = ("--plugin", "pgoutput", "-o", "proto_version=1", "-o", "publication_names=every")
    source = ("--wal", server_run.wal, "--catalog", server_run.backup, "--database", "postgres")
    done(
        command, "decode", *source, *plugin, "--keep-states", states, "--window-bytes", "1", "-q", "--out", "/dev/null"
    )
    done(command, "slot", "create", slot, *source, *plugin)
    names = sorted(states.iterdir())
    state = names[len(names) // 2]
    done(command, "slot", "advance", slot, Lsn(kept_lsn(state)))
    begun = read_slot(slot).confirmed_lsn
    assert kept_lsn(state) == begun
    outs = [tmp_path / f"{name}.parquet" for name in ("state", "slot")]
    from_state = ("--wal", server_run.wal, "--from-state", state, "--database", "postgres", *plugin)
    done(command, "decode", *from_state, "-q", "--out", outs[0])
    done(command, "decode", "--slot", slot, "-q", "--out", outs[1])
    actual, expected = (pq.read_table(out) for out in outs)
    assert actual == expected
    assert [data[:1] for data in values_of(actual.column("data"))[:3]] == [b"B", b"R", b"I"]


def test_what_a_kept_state_cannot_serve(command: Command, server_run: ServerRun, tmp_path: Path) -> None:
    states = tmp_path / "states"
    states.mkdir()
    source = ("--wal", server_run.wal, "--catalog", server_run.backup, "--database", "postgres")
    done(command, "decode", *source, "--keep-states", states, "--window-bytes", "1", "-q", "--out", "/dev/null")
    state = sorted(states.iterdir())[1]
    call = ("decode", "--wal", server_run.wal, "--from-state", state, "-q")
    assert 'the state is of database "postgres", not of "other"' in refused(command, *call, "--database", "other")
    before = Lsn(kept_lsn(state) - 8)
    assert f"the start {before} lies before the state" in refused(command, *call, "--start", before)
    assert f"the end {before} lies before the state" in refused(command, *call, "--end", before)


def kept_lsn(path: Path) -> int:
    lsn = lsn_of_name(path.name)
    assert lsn is not None
    return lsn


@pytest.mark.slow
def test_killed_at_any_moment_nothing_is_lost_or_comes_twice(
    command: Command, server_run: ServerRun, tmp_path: Path
) -> None:
    """Every call writes a file of its own, which is there when it is whole."""
    create_slot(command, tmp_path / "one", server_run)
    rng, places = random.Random(7), lsns(server_run.lines)
    outs = [tmp_path / f"out-{number:02d}" for number in range(14)]
    for number, out in enumerate(outs):
        end = places[min(len(places) - 1, (number + 1) * len(places) // 10)]
        call = ("decode", "--slot", tmp_path / "one", "--with-lsn", "-q", "--end", Lsn(end), "--out", out)
        with running(*call, directory=tmp_path) as killed:
            try:
                killed.process.wait(rng.uniform(2, 9))
            except subprocess.TimeoutExpired:
                killed.process.kill()
                killed.process.wait()
    last = tmp_path / "out-last"
    done(command, "decode", "--slot", tmp_path / "one", "--with-lsn", "-q", "--out", last)
    assert b"".join(out.read_bytes() for out in [*outs, last] if out.exists()) == server_run.lines
