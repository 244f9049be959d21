"""Blocks that a walsender streams with a small logical_decoding_work_mem are those that the accounting says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest

from headwater.base.value_codec import same
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from headwater.pg.version import Version
from headwater.reorder.commits.accounting import StreamRules, account
from headwater.reorder.commits.replays import TwoPhase
from headwater.reorder.commits.stream_rules import NOTHING_QUEUED, Accounting, Blocks, Running, Streams
from headwater.reorder.commits.transactions import toplevel_of
from headwater.rmgr.index.index_codes import ABORT, ABORT_PREPARED, CHUNKS
from headwater.rmgr.index.wal_index import Request, WalIndex, build_index, joined_stretches
from headwater.rmgr.registry import STANDBY
from headwater.rmgr.standby import parse_running_xacts
from headwater.wal.records.frames import Frames, read_frames
from headwater.wal.records.record import parse_record
from headwater.wal.segments.directory import WalDirectory
from oracle.live_decoding import LiveDecoding, flushed
from packaged_servers import programs_of
from server_versions import version_of

pytestmark = pytest.mark.server

MAJORS = (14, 15, 16, 17, 18, 19)
FEW_OR_ALL = [
    pytest.param(15, 1, marks=pytest.mark.slow),
    (18, 2),
    *(pytest.param(major, seed, marks=pytest.mark.slow) for major in MAJORS for seed in range(100, 105)),
]
FEW_OR_ALL_IMMEDIATE = [18, pytest.param(16, marks=pytest.mark.slow), pytest.param(17, marks=pytest.mark.slow)]
FEW_OR_ALL_TWO_PHASE = [
    pytest.param(major, seed, marks=pytest.mark.slow) for major in MAJORS for seed in range(200, 203)
]
EVERYTHING = ((0, 1 << 62),)
TABLES = """
    create table ticks (id serial);
    create table t (a int primary key, b text);
    create table wide (a int primary key, b text); alter table wide alter b set storage external;
    create table plain (a int, b text); alter table plain replica identity full;
    create table cleared (a int)
"""


@dataclass
class Writers:
    """Sessions whose transactions run at once, driven by one thread."""

    rng: Random
    sessions: list[Any]
    watcher: Any
    live: LiveDecoding
    key: int = 0

    def wait(self) -> None:
        """Wait until the walsender has read all that was written."""
        self.live.read_to(flushed(self.watcher))

    def some(self, most: int) -> int:
        return self.rng.randrange(1, most)

    def keys(self, count: int) -> tuple[int, int]:
        self.key += count
        return self.key - count + 1, self.key


def insert(w: Writers, s: Any) -> None:
    lo, hi = w.keys(w.some(400))
    s.execute(f"insert into t select i, repeat('x', i % 90) from generate_series({lo}, {hi}) i")


def copy(w: Writers, s: Any) -> None:
    lo, hi = w.keys(w.some(700))
    with s.cursor() as cursor, cursor.copy("copy t from stdin") as rows:
        rows.write(b"".join(b"%d\tcopied %d\n" % (i, i * i) for i in range(lo, hi + 1)))


def toast(w: Writers, s: Any) -> None:
    lo, hi = w.keys(w.some(4))
    s.execute(f"insert into wide select i, repeat('y', {w.some(60000)}) from generate_series({lo}, {hi}) i")


def change_plain(w: Writers, s: Any) -> None:
    lo, hi = w.keys(w.some(50))
    s.execute(f"insert into plain select i, 'z' from generate_series({lo}, {hi}) i")
    s.execute(f"update plain set b = 'changed' where a between {lo} and {hi} and a % 2 = 0")
    s.execute(f"delete from plain where a between {lo} and {hi} and a % 3 = 0")


def on_conflict(w: Writers, s: Any) -> None:
    lo, hi = w.keys(w.some(50))
    s.execute(
        f"insert into t select i, 'once' from generate_series({lo}, {hi}) i on conflict (a) do update set b = 'again'"
    )
    s.execute(f"insert into t values ({hi}, 'twice') on conflict (a) do update set b = repeat('again', 20)")


def toast_on_conflict(w: Writers, s: Any) -> None:
    lo, hi = w.keys(w.some(3))
    s.execute(
        f"insert into wide select i, repeat('w', {w.some(30000)}) from generate_series({lo}, {hi}) i "
        "on conflict (a) do nothing"
    )


def delete_toast(w: Writers, s: Any) -> None:
    lo, hi = w.keys(2)
    s.execute(f"insert into wide values ({lo}, repeat('d', 9000)), ({hi}, repeat('e', 9000))")
    s.execute(f"update wide set b = repeat('f', 7000) where a = {lo}; delete from wide where a = {hi}")


def message(w: Writers, s: Any) -> None:
    s.execute("select pg_logical_emit_message(true, 'prefix', repeat('m', %s))", [w.some(9000)])


def truncate_own(w: Writers, s: Any) -> None:
    (number,) = w.keys(1)[:1]
    s.execute(f"create table own_{number} (a int, b text); insert into own_{number} values (1, 'a')")
    s.execute(f"truncate own_{number}; insert into own_{number} select i, 'b' from generate_series(1, 30) i")


def define(w: Writers, s: Any) -> None:
    (number,) = w.keys(1)[:1]
    s.execute(f"create table made_{number} (a int primary key, b text)")
    s.execute(f"insert into made_{number} select i, 'c' from generate_series(1, 40) i")
    s.execute(f"alter table made_{number} add c int default 3")


def savepoint(w: Writers, s: Any) -> None:
    s.execute("savepoint s")
    w.rng.choice(CHANGES)(w, s)
    w.wait()
    s.execute(w.rng.choice(("release s", "rollback to s")))


CHANGES: tuple[Callable[[Writers, Any], None], ...] = (
    insert, copy, toast, change_plain, on_conflict, toast_on_conflict, delete_toast, message,
)  # fmt: skip
ALL: tuple[Callable[[Writers, Any], None], ...] = (*CHANGES, insert, copy, savepoint, savepoint, define, truncate_own)


def end_transaction(w: Writers, s: Any) -> None:
    ending = w.rng.choice(("commit", "commit", "rollback", "prepare"))
    if ending != "prepare":
        s.execute(ending)
        return
    (number,) = w.keys(1)[:1]
    s.execute(f"prepare transaction 'p{number}'")
    w.rng.choice(CHANGES)(w, s)
    w.wait()
    s.execute(f"{w.rng.choice(('commit', 'rollback'))} prepared 'p{number}'")


def run_workload(w: Writers, steps: int) -> None:
    """Let sessions take turns; the walsender has read all before one of them rolls something back."""
    is_open = [False] * len(w.sessions)
    for _ in range(steps):
        number = w.rng.randrange(len(w.sessions))
        session = w.sessions[number]
        if not is_open[number]:
            session.execute("begin")
            is_open[number] = True
        elif w.rng.random() < 0.12:
            end_transaction(w, session)
            is_open[number] = False
        else:
            w.rng.choice(ALL)(w, session)
            w.wait()
    for session in w.sessions:
        session.execute("rollback")
    w.wait()


@dataclass
class Recorded:
    """A server's WAL from a slot's start on, and the blocks that it streamed."""

    directory: Any
    start: int
    database: int
    version: Version
    blocks: list[list[int]]
    aborted: list[int]

    def index(self, detailed: tuple[tuple[int, int], ...] = ()) -> WalIndex:
        frames = read_frames(WalDirectory.scan(self.directory), self.start)
        request = request_of(self, detailed=detailed)
        return build_index(frames, int(frames.lsns[0]), int(frames.end_lsns[-1]), request)


def request_of(run: Recorded, **more: Any) -> Request:
    """Make the request of what an index has to have for a run."""
    return Request((run.database,), (), run.version.major, **more, change_size=run.version.change_size)


def recorded(
    major: int, seed: int, steps: int, work_mem: str, immediate: bool = False, two_phase: bool = False
) -> Iterator[Recorded]:
    """Run a workload, and give its WAL to a test while the server's files are there."""
    settings = {"max_prepared_transactions": "9"}
    with EmbeddedPostgres(programs_of(major), autovacuum=False, settings=settings) as server:
        with server.connect() as watcher:
            watcher.execute(TABLES)
            slot = f"pg_create_logical_replication_slot('s', 'test_decoding', false, {two_phase})"
            start = _asked(watcher, f"select lsn::text from {slot}")
            database = _asked(watcher, "select oid::int from pg_database where datname = current_database()")
            version = version_of(watcher)
            sessions = [server.connect() for _ in range(3)]
            with LiveDecoding(server, "s", work_mem, immediate) as live:
                run_workload(Writers(Random(seed), sessions, watcher, live), steps)
            for session in sessions:
                session.close()
        server.stop()
        yield Recorded(server.wal_directory, int(Lsn.parse(start)), database, version, live.blocks, live.aborted)


def _asked(connection: Any, query: str) -> Any:
    return connection.execute(query).fetchone()[0]


def changes_of(index: WalIndex, blocks: Blocks) -> list[list[int]]:
    """Count [xid, changes, truncates and messages] of each block with changes, as the walsender would have said."""
    rows = index.rows
    c = rows.changes
    chunked = np.unique(c.locator[c.kinds & CHUNKS != 0])
    is_sent = (rows.locators[c.locator, 2] >= 16384) & ~np.isin(c.locator, chunked) & (c.count > 0)
    sent = c.take(np.flatnonzero(is_sent))
    texts = rows.messages.take(np.flatnonzero(rows.messages.transactional))
    tables = (sent, rows.truncates, texts)
    xid = np.concatenate([table.xid.astype(np.int64) for table in tables])
    lsn = np.concatenate([table.lsn for table in tables])
    at = np.arange(len(sent))
    first = np.append(True, np.diff(sent.first) != 0)[: len(at)]
    taken = np.ones(len(lsn), np.int64)
    taken[: len(at)] = at - np.maximum.accumulate(np.where(first, at, 0)) + 1
    top = toplevel_of(rows)(xid)
    aborted = {int(sub): int(place) for sub, place in _aborts(rows)}
    gone = np.array([aborted.get(int(x), 1 << 62) for x in xid])
    counted = []
    for i in range(len(blocks)):
        behind = (lsn > blocks.lo[i]) | ((lsn == blocks.lo[i]) & (taken > blocks.lo_taken[i]))
        inside = (lsn < blocks.hi[i]) | ((lsn == blocks.hi[i]) & (taken <= blocks.hi_taken[i]))
        if blocks.first[i]:
            chosen = behind & inside & (top == blocks.xid[i]) & (gone >= blocks.place[i])
            counted.append([int(blocks.xid[i]), int(chosen.sum())])
    return counted


def _aborts(rows: Any) -> Any:
    ends = rows.ends.take(np.flatnonzero(rows.ends.kind == ABORT))
    yield from zip(ends.xid, ends.lsn, strict=True)
    yield from zip(ends.subs.values, np.repeat(ends.lsn, ends.subs.counts), strict=True)


def aborts_of(index: WalIndex, streams: Streams) -> list[int]:
    """List the transactions whose rollback is told, in order."""
    xids, since = (
        np.concatenate(both) for both in ((streams.sub_xid, streams.top_xid), (streams.sub_since, streams.top_since))
    )
    streamed_since = dict(zip(xids.tolist(), since.tolist(), strict=True))
    ends = index.rows.ends
    aborts = ends.take(np.flatnonzero((ends.kind == ABORT) | (ends.kind == ABORT_PREPARED)))
    rolled_back = []
    for i in range(len(aborts)):
        listed = (*aborts.subs.values[aborts.subs.starts[i] : aborts.subs.starts[i + 1]].tolist(), int(aborts.xid[i]))
        rolled_back += [xid for xid in listed if streamed_since.get(xid, 1 << 62) < aborts.lsn[i]]
    return rolled_back


def running_of(index: WalIndex, major: int) -> Running:
    """Return the RUNNING_XACTS records that an index has kept."""
    parsed = (parse_record(record.data, record.lsn, record.end_lsn, major) for record in index.kept)
    records = [record for record in parsed if record.rmid == STANDBY]
    oldest = [parse_running_xacts(record.main_data, record.lsn).oldest_running_xid for record in records]
    return Running(np.array([record.lsn for record in records], np.int64), np.array(oldest, np.int64))


def streams_of(run: Recorded, index: WalIndex, limit: int, immediate: bool = False, two_phase: bool = False) -> Streams:
    prepares = TwoPhase(run.start, lambda _xid, _gid: False) if two_phase else None
    rules = StreamRules(limit, immediate, run.version, run.database, run.start, two_phase=prepares)
    running = running_of(index, run.version.major)
    return account(NOTHING_QUEUED, index.rows, running, index.lo, index.hi, index.grid, EVERYTHING, rules)


def windows_of(run: Recorded, windows: int, grid: int, limit: int) -> Iterator[Streams]:
    """Give some windows one after the other, each indexed in detail where that is asked for only."""
    frames = read_frames(WalDirectory.scan(run.directory), run.start)
    edges = [int(frames.lsns[i * len(frames.lsns) // windows]) for i in range(windows)] + [int(frames.end_lsns[-1])]
    rules, before = StreamRules(limit, False, run.version, run.database, run.start), NOTHING_QUEUED
    for lo, hi in pairwise(edges):
        of_window = (frames.lsns >= lo) & (frames.lsns < hi)
        positions, lsns, ends = (column[of_window] for column in (frames.positions, frames.lsns, frames.end_lsns))
        part = Frames(frames.data, positions, lsns, ends, None)
        yield (streams := _streams_of_window(part, before, run, lo, hi, grid, rules))
        before = streams.accounting


def _streams_of_window(
    frames: Frames, before: Accounting, run: Recorded, lo: int, hi: int, grid: int, rules: StreamRules
) -> Streams:
    request = request_of(run, grid=grid)
    for _ in range(3):
        index = build_index(frames, lo, hi, request)
        running = running_of(index, run.version.major)
        streams = account(before, index.rows, running, lo, hi, grid, request.detailed, rules)
        if not streams.lacking:
            return streams
        request = replace(request, detailed=joined_stretches((*request.detailed, *streams.lacking)))
    raise AssertionError("a window was indexed three times, and that is not enough")


def joined(streams: list[Streams]) -> Blocks:
    """Join the blocks of all streams."""
    return Blocks(*(np.concatenate([getattr(part.blocks, f.name) for part in streams]) for f in fields(Blocks)))


@pytest.mark.parametrize(("major", "seed"), FEW_OR_ALL)
def test_blocks_are_those_of_a_walsender(major: int, seed: int) -> None:
    for run in recorded(major, seed, 200, "64kB"):
        index = run.index(EVERYTHING)
        streams = streams_of(run, index, 64 << 10)
        assert not streams.lacking
        assert len(run.blocks) > 40
        assert changes_of(index, streams.blocks) == run.blocks
        assert aborts_of(index, streams) == run.aborted
        windows = list(windows_of(run, 3, 1 << 16, 64 << 10))
        assert same(joined(windows), streams.blocks)
        assert same(windows[-1].accounting, streams.accounting)


@pytest.mark.parametrize(("major", "seed"), FEW_OR_ALL_TWO_PHASE)
def test_blocks_of_prepared_transactions_are_those_of_a_walsender(major: int, seed: int) -> None:
    for run in recorded(major, seed, 150, "64kB", two_phase=True):
        index = run.index(EVERYTHING)
        streams = streams_of(run, index, 64 << 10, two_phase=True)
        assert changes_of(index, streams.blocks) == run.blocks


@pytest.mark.parametrize("major", FEW_OR_ALL_IMMEDIATE)
def test_blocks_of_single_changes_are_those_of_a_walsender(major: int) -> None:
    for run in recorded(major, 1, 25, "64kB", immediate=True):
        index = run.index(EVERYTHING)
        assert len(run.blocks) > 500
        assert changes_of(index, streams_of(run, index, 64 << 10, immediate=True).blocks) == run.blocks
