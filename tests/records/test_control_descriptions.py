"""Control records of a real server: what our parsers read against what the server's descriptions say."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from server_records import RecordedWal, ServerRecord

from headwater.pg.lsn import Lsn
from headwater.rmgr import dbase, logicalmsg, registry, replorigin, standby, xact, xlog
from headwater.rmgr.invalidation import CATALOG, RELCACHE, RELMAP, RELSYNC, SMGR, SNAPSHOT, Invalidation
from headwater.wal.directory import WalDirectory
from headwater.wal.frames import read_frames
from headwater.wal.record import Record, parse_record

pytestmark = pytest.mark.server


def pairs(recorded: RecordedWal, rmid: int, *names: str) -> Iterator[tuple[Record, ServerRecord]]:
    """Our record and the server's row, for the kinds named."""
    rows = recorded.inspected or recorded.dumped
    if not rows:
        pytest.skip(f"no reader of PostgreSQL {recorded.major}")
    wal = WalDirectory.scan(recorded.wal)
    frames = read_frames(wal, wal.start_lsn)
    index = {int(lsn): i for i, lsn in enumerate(frames.lsns)}
    for row in rows:
        if row.rmgr == registry.RMGR_NAMES[rmid] and row.name in names:
            i = index[row.lsn]
            yield parse_record(frames.record(i), row.lsn, int(frames.end_lsns[i]), recorded.major), row


def described(message: Invalidation) -> str:
    """A message as standby_desc_invalidations prints it."""
    names = {CATALOG: "catalog", RELCACHE: "relcache", SNAPSHOT: "snapshot", RELSYNC: "relsync"}
    if message.id >= 0:
        return f"catcache {message.id}"
    if message.id == SMGR:
        return "smgr"
    if message.id == RELMAP:
        return f"relmap db {message.db}"
    return f"{names[message.id]} {message.value}"


def test_transaction_ends(recorded: RecordedWal) -> None:
    seen = set()
    most_subxacts = 0
    for record, row in pairs(recorded, registry.XACT, "COMMIT", "ABORT", "COMMIT_PREPARED", "ABORT_PREPARED"):
        end = xact.parse_end(record, recorded.major)
        seen.add(row.name)
        assert (row.name.startswith("COMMIT"), row.name.endswith("PREPARED")) == (end.is_commit, end.is_prepared)
        invals = re.search(r"inval msgs: ([^;]*)", row.text)
        assert (invals[1].strip() if invals else "") == " ".join(map(described, end.invalidations))
        subs = re.search(r"subxacts: ([\d ]*)", row.text)
        expected = [int(xid) for xid in subs[1].split()] if subs else []
        assert expected == list(end.subxacts)
        most_subxacts = max(most_subxacts, len(expected))
        rels = re.search(r"rels: ([^;]*)", row.text)
        assert (rels[1].split() if rels else []) == [f"base/{db}/{rel}" for _, db, rel in end.relations]
        stats = re.search(r"dropped stats: ([^;]*)", row.text)
        assert (len(stats[1].split()) if stats else 0) == end.dropped_stats
        origin = re.search(r"origin: node \d+, lsn ([0-9A-F/]+)", row.text)
        assert (Lsn.parse(origin[1]) if origin else 0) == end.origin_lsn
        if end.is_prepared:
            assert row.text.startswith(f"{end.xid}: ")
    assert {"COMMIT", "ABORT", "COMMIT_PREPARED", "ABORT_PREPARED"} == seen
    assert most_subxacts == 80


def test_prepares(recorded: RecordedWal) -> None:
    gids = []
    for record, row in pairs(recorded, registry.XACT, "PREPARE"):
        prepare = xact.parse_prepare(record.main_data, record.lsn, recorded.major)
        gids.append(prepare.gid)
        assert f"gid {prepare.gid.decode()}:" in row.text
        assert record.xid == prepare.xid
        invals = re.search(r"inval msgs: ([^;]*)", row.text)
        assert (invals[1].strip() if invals else "") == " ".join(map(described, prepare.invalidations))
    assert gids == [b"it's", b"p2"]


def test_invalidations_and_assignments(recorded: RecordedWal) -> None:
    count = 0
    for record, row in pairs(recorded, registry.XACT, "INVALIDATION"):
        messages = xact.parse_invalidation_record(record.main_data, record.lsn, recorded.major)
        assert row.text.split("inval msgs: ")[-1].split("; ")[0].strip() == " ".join(map(described, messages))
        count += 1
    assert count > 20
    for record, row in pairs(recorded, registry.XACT, "ASSIGNMENT"):
        found = xact.parse_assignment(record.main_data, record.lsn)
        assert row.text == f"xtop {found.toplevel_xid}: subxacts: {' '.join(map(str, found.subxacts))}"
        count = 64
    assert count == 64


def test_standby_records(recorded: RecordedWal) -> None:
    count = 0
    for record, row in pairs(recorded, registry.STANDBY, "RUNNING_XACTS"):
        found = standby.parse_running_xacts(record.main_data, record.lsn)
        expected = (
            f"nextXid {found.next_xid} latestCompletedXid {found.latest_completed_xid}"
            f" oldestRunningXid {found.oldest_running_xid}"
        )
        assert row.text.startswith(expected)
        assert (f"{len(found.xids)} xacts:" in row.text) == bool(found.xids)
        count += 1
    assert count
    for record, row in pairs(recorded, registry.STANDBY, "LOCK"):
        locks = standby.parse_locks(record.main_data, record.lsn)
        expected = " ".join(f"xid {lock.xid} db {lock.database} rel {lock.relation}" for lock in locks)
        assert row.text.strip() == expected
    for record, row in pairs(recorded, registry.STANDBY, "INVALIDATIONS"):
        invals = standby.parse_standby_invalidations(record.main_data, record.lsn, recorded.major)
        assert " ".join(map(described, invals.messages)) in row.text


def test_xlog_records(recorded: RecordedWal) -> None:
    count = 0
    for record, row in pairs(recorded, registry.XLOG, "CHECKPOINT_ONLINE", "CHECKPOINT_SHUTDOWN"):
        found = xlog.parse_checkpoint(record.main_data, record.lsn, recorded.major)
        assert row.text.startswith(
            f"redo {Lsn(found.redo)}; tli {found.timeline}; prev tli {found.previous_timeline}; "
        )
        assert f"xid {found.next_xid >> 32}:{found.next_xid & 0xFFFFFFFF}; oid {found.next_oid}; " in row.text
        assert f"oldest xid {found.oldest_xid} in DB" in row.text
        assert f"oldest running xid {found.oldest_active_xid};" in row.text
        assert ("wal_level logical" in row.text) == (found.wal_level == 2)
        count += 1
    for record, row in pairs(recorded, registry.XLOG, "RESTORE_POINT"):
        assert row.text == xlog.parse_restore_point(record.main_data, record.lsn).name.decode()
        count += 100
    for record, row in pairs(recorded, registry.XLOG, "PARAMETER_CHANGE"):
        change = xlog.parse_parameter_change(record.main_data, record.lsn)
        assert row.text.startswith(f"max_connections={change.max_connections} max_worker_processes=")
        assert "wal_level=logical" in row.text
        assert change.wal_level == 2
    assert count > 100


def test_messages_origins_and_databases(recorded: RecordedWal) -> None:
    prefixes = set()
    for record, row in pairs(recorded, registry.LOGICALMSG, "MESSAGE"):
        found = logicalmsg.parse_message(record.main_data, record.lsn)
        kind = "transactional" if found.transactional else "non-transactional"
        prefixes.add(found.prefix)
        assert row.text.startswith(f'{kind}, prefix "{found.prefix.decode()}"; payload ({len(found.content)} bytes): ')
    assert {b"small", b"big", b"pages"} == prefixes
    for record, row in pairs(recorded, registry.REPLORIGIN, "SET"):
        moved = replorigin.parse_set(record.main_data, record.lsn)
        assert row.text == f"set {moved.origin}; lsn {Lsn(moved.remote_lsn)}; force: {int(moved.force)}"
    for record, row in pairs(recorded, registry.REPLORIGIN, "DROP"):
        assert row.text == f"drop {replorigin.parse_drop(record.main_data, record.lsn)}"
    for record, row in pairs(recorded, registry.DBASE, "CREATE_WAL_LOG"):
        made = dbase.parse_wal_log(record.main_data, record.lsn)
        assert row.text == f"create dir {made.tablespace}/{made.database}"
    for record, row in pairs(recorded, registry.DBASE, "CREATE_FILE_COPY"):
        copy = dbase.parse_file_copy(record.main_data, record.lsn)
        expected = f"{copy.source_tablespace}/{copy.source_database} to {copy.tablespace}/{copy.database}"
        assert row.text == f"copy dir {expected}"
    for record, row in pairs(recorded, registry.DBASE, "DROP"):
        gone = dbase.parse_drop(record.main_data, record.lsn)
        assert row.text == "dir " + " ".join(f"{tablespace}/{gone.database}" for tablespace in gone.tablespaces)
