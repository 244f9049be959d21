"""WAL for the catalogs' server: verified as PostgreSQL does, equal but for the records that become NOOPs."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from bad_input.servers import run, small_server
from headwater.catalog.store.bootstrap import open_catalog
from headwater.pg.catalogs import GLOBAL_TABLESPACE
from headwater.rmgr import relmap, smgr, standby, xlog
from headwater.rmgr.registry import CLOG, MULTIXACT, RELMAP, SMGR, STANDBY, XACT, XLOG
from headwater.wal.records.frames import read_frames
from headwater.wal.records.record import Record, parse_record
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.catalog_server.filtered_wal import SystemFiles
from headwater.walsender.catalog_server.system_files import system_files
from headwater.walsender.catalog_server.wal_feed import WalFeed
from packaged_servers import is_packaged
from serving.service import Serving, backup_of

pytestmark = pytest.mark.server

WORK = (
    "CREATE TABLE t (a int PRIMARY KEY, b text, c point)",
    "CREATE INDEX ON t USING gist (c)",
    "INSERT INTO t SELECT n, repeat('x', n % 3000), point(n, n) FROM generate_series(1, 2000) n",
    "UPDATE t SET b = repeat('y', 50) WHERE a % 3 = 0",
    "VACUUM (FREEZE) t",
    "CREATE SEQUENCE s",
    "SELECT nextval('s') FROM generate_series(1, 100)",
    "CHECKPOINT",
    "ALTER TABLE t ADD d int DEFAULT 3",
    "ALTER ROLE postgres SET work_mem = '5MB'",
    "VACUUM FULL pg_class",
    "CREATE DATABASE other",
    "DROP TABLE t",
    "SELECT pg_switch_wal()",
    "SELECT pg_logical_emit_message(true, 'end', '')",
)


def stays(record: Record, files: SystemFiles) -> bool:
    """Tell whether a record stays, in plain words."""

    def holds(locator: tuple[int, int, int]) -> bool:
        tablespace, database, number = locator
        if tablespace == GLOBAL_TABLESPACE:
            return database == 0 and number in files.shared
        return (tablespace, database) == (files.tablespace, files.database) and number in files.local

    if record.blocks:
        return holds(record.blocks[0].locator)
    if record.rmid == SMGR:
        if record.kind == smgr.CREATE:
            return holds(smgr.parse_create(record.main_data, record.lsn).locator)
        return holds(smgr.parse_truncate(record.main_data, record.lsn).locator)
    if record.rmid == RELMAP:
        return relmap.parse_update(record.main_data, record.lsn).database in (0, files.database)
    if record.rmid == XLOG:
        return record.kind not in (xlog.PARAMETER_CHANGE, xlog.LOGICAL_DECODING_STATUS_CHANGE)
    if record.rmid == STANDBY:
        return record.kind != standby.LOCK
    return record.rmid in (XACT, CLOG, MULTIXACT)


@pytest.mark.parametrize("major", [major for major in (14, 16, 18) if is_packaged(major)])
def test_records_stay_or_are_noops(tmp_path: Path, major: int) -> None:
    with small_server(major, wal_compression="on" if major == 16 else "off") as server:
        catalog = backup_of(server, tmp_path / "base")
        run(server, *WORK)
        server.stop()
        wal = WalDirectory.scan(server.wal_directory)
        store = open_catalog(catalog, "postgres")
        files = system_files(store)
        place = tmp_path / "filtered"
        place.mkdir()
        feed = WalFeed(place, store.start_lsn, wal.segment_size)
        middle = int(read_frames(wal, store.start_lsn).lsns[500])
        for until in (middle, wal.stop_lsn):
            feed.write(wal, until, files)
        theirs = read_frames(wal, store.start_lsn)
        ours = read_frames(WalDirectory.scan(place), store.start_lsn, feed.end)
    assert ours.lsns.tolist() == theirs.lsns.tolist()
    counts = [0, 0]
    for i, (lsn, end) in enumerate(zip(theirs.lsns.tolist(), theirs.end_lsns.tolist(), strict=True)):
        before, after = (parse_record(frames.record(i), lsn, end, major) for frames in (theirs, ours))
        expected = before if stays(before, files) else before._replace(rmid=XLOG, info=xlog.NOOP)
        counts[expected is before] += 1
        assert without_roles(after, files) == without_roles(expected, files)
    assert min(counts) > 100


def without_roles(record: Record, files: SystemFiles) -> Record:
    """Take away pages of roles: in these one may log in that may not in the source."""
    is_of_roles = any(block.db == 0 and block.rel in files.roles for block in record.blocks)
    return record._replace(blocks=()) if is_of_roles else record


MANY = "DO $$ BEGIN FOR i IN 1..900 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
"""Transactions whose commit times fill more than a page."""
ASKED = "SELECT relname::text, pg_catalog.pg_encoding_to_char(6)::text FROM pg_catalog.pg_class WHERE relname = 't'"
MAJORS = [pytest.param(major, marks=pytest.mark.slow) for major in (14, 15, 16, 17, 19) if is_packaged(major)]


@pytest.mark.parametrize("is_turned_off", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("major", [18, *MAJORS])
def test_a_source_that_keeps_commit_times(tmp_path: Path, major: int, is_turned_off: bool) -> None:
    """Pages of commit times that came, or were not made any more, since the backup are nothing to the replay."""
    with small_server(major, track_commit_timestamp="on") as server:
        catalog = backup_of(server, tmp_path / "base")
        if is_turned_off:
            run(server, "ALTER SYSTEM SET track_commit_timestamp = off")
            server.stop()
            server.start()
        run(server, MANY, "CREATE TABLE t ()")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            place = f"host=127.0.0.1 port={serving.port} user=postgres dbname=postgres"
            with psycopg.connect(place) as session:
                assert session.execute(ASKED.encode()).fetchall() == [("t", "UTF8")]
