"""Pages and records that are not what they should be: there is a result, or an error of ours."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.pages import BLCKSZ
from headwater.errors import CatalogError, HeadwaterError
from headwater.existing.page_history import Fates, HistoryFile, HistoryScan, PageVisibility, VisibleTuples, page_events
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from headwater.wal.records.frames import Frames, read_frames
from headwater.wal.segments.directory import WalDirectory

pytestmark = pytest.mark.server

MUTATIONS = 600
SETUP = """
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, repeat('v', i % 90) FROM generate_series(1, 2000) i;
UPDATE t SET v = 'changed' WHERE id % 5 = 0;
DELETE FROM t WHERE id % 9 = 0;
"""
CHANGES = """
UPDATE t SET v = v || '!' WHERE id % 3 = 0;
INSERT INTO t SELECT i, 'new' FROM generate_series(3000, 3300) i;
DELETE FROM t WHERE id % 11 = 0;
VACUUM t;
COPY t FROM PROGRAM 'seq 4000 4200 | sed "s/$/\\tcopied/"';
"""


@dataclass(frozen=True)
class Copied:
    """A stopped server's table, and what the log did to it since.

    Attributes:
        pages: of the table, as of the copy; start_lsn: of it; locator: its file.
        frames: the log from there on.
        rows: how many the table had, before and behind.
    """

    pages: np.ndarray
    start_lsn: int
    locator: tuple[int, int, int]
    frames: Frames
    rows: tuple[int, int]


@pytest.fixture(scope="module")
def copied() -> Iterator[Copied]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            for statement in SETUP.split(";\n"):
                connection.execute(statement) if statement.strip() else None
            row = connection.execute("SELECT count(*), pg_relation_filenode('t') FROM t").fetchone()
            database = connection.execute("SELECT oid FROM pg_database WHERE datname = 'postgres'").fetchone()
            assert row is not None
            assert database is not None
        server.stop()
        copy = DataDirectory(server.data_directory)
        locator = 1663, int(database[0]), int(row[1])
        heap = copy.heap(locator)
        assert heap is not None
        server.start()
        with server.connect() as connection:
            for statement in CHANGES.split(";\n"):
                connection.execute(statement) if statement.strip() else None
            behind = connection.execute("SELECT count(*) FROM t").fetchone()
            assert behind is not None
        server.stop()
        frames = read_frames(WalDirectory.scan(server.wal_directory), copy.start_lsn)
        yield Copied(np.frombuffer(heap, np.uint8), copy.start_lsn, locator, frames, (int(row[0]), int(behind[0])))


def all_committed() -> Fates:
    nothing, no_gaps = np.empty(0, np.int64), np.empty((0, 2), np.int64)
    return Fates(np.full(1 << 16, 0x55, np.uint8), np.int64(0), np.int64(1 << 18), no_gaps, nothing, nothing)


def visible(copied: Copied, pages: np.ndarray, frames: Frames, place: Path) -> VisibleTuples:
    """Find the visible tuples after the log, if all transactions have committed."""
    payload = io.BytesIO()
    scan = HistoryScan([copied.locator], 16, payload)
    scan.add(frames)
    history, file = scan.finish(), HistoryFile.named(place, 1)
    file.save(history)
    file.payload.write_bytes(payload.getvalue() or b"\0")
    blocks = max(len(pages) // BLCKSZ, file.blocks(0))
    if blocks > 1000:
        raise CatalogError("a page far away")
    whole = np.zeros(blocks * BLCKSZ, np.uint8)
    whole[: len(pages)] = pages
    changed = page_events([file], history.cuts, 0, 0, blocks)
    seen = PageVisibility(all_committed(), copied.start_lsn, lambda _multi: 0, False)
    return seen.visible(whole, 0, changed, "t")


def test_what_is_visible(copied: Copied, tmp_path: Path) -> None:
    assert len(visible(copied, copied.pages, copied.frames.part(0, 0), tmp_path).at) == copied.rows[0]
    tuples = visible(copied, copied.pages, copied.frames, tmp_path)
    assert len(tuples.at) == copied.rows[1]
    assert len(np.unique(tuples.tid)) == copied.rows[1]


def test_pages_with_other_bytes(copied: Copied, tmp_path: Path) -> None:
    dice, failed = random.Random(1), 0
    for _ in range(MUTATIONS):
        pages = copied.pages.copy()
        for _ in range(dice.randint(1, 4)):
            # Where most depends on it: the header, line pointers, headers of tuples.
            at = dice.choice([dice.randrange(24), dice.randrange(24, 600), dice.randrange(BLCKSZ)])
            pages[dice.randrange(len(pages) // BLCKSZ) * BLCKSZ + at] = dice.randrange(256)
        try:
            tuples = visible(copied, pages, copied.frames.part(0, 0), tmp_path)
        except HeadwaterError:
            failed += 1
            continue
        assert ((tuples.at >= 0) & (tuples.at + tuples.length <= len(tuples.data))).all()
    assert 20 < failed < MUTATIONS


def test_records_with_other_bytes(copied: Copied, tmp_path: Path) -> None:
    dice, failed = random.Random(2), 0
    data, positions = copied.frames.data, copied.frames.positions
    for _ in range(MUTATIONS // 3):
        mutated = data.copy()
        number = dice.randrange(len(positions))
        at, length = int(positions[number]), copied.frames.length(number)
        for _ in range(dice.randint(1, 3)):
            mutated[at + dice.randrange(16, min(length, 80))] = dice.randrange(256)
        try:
            tuples = visible(copied, copied.pages, replace(copied.frames, data=mutated), tmp_path)
        except HeadwaterError:
            failed += 1
            continue
        assert ((tuples.at >= 0) & (tuples.at + tuples.length <= len(tuples.data))).all()
    assert failed > 20


def test_pages_that_are_younger_than_the_log(copied: Copied, tmp_path: Path) -> None:
    pages = copied.pages.copy()
    pages[4:8] = np.frombuffer((copied.start_lsn + 8 & 0xFFFFFFFF).to_bytes(4, "little"), np.uint8)
    with pytest.raises(CatalogError, match=f"page 0 was changed at {Lsn(copied.start_lsn + 8)}"):
        visible(copied, pages, copied.frames.part(0, 0), tmp_path)


def test_pages_without_a_header(copied: Copied, tmp_path: Path) -> None:
    """A page is new if all of it is zeros; one that has lost its header is not."""
    pages, nothing = copied.pages.copy(), copied.frames.part(0, 0)
    pages[BLCKSZ : BLCKSZ + 512] = 0
    with pytest.raises(CatalogError, match="page 1 is broken"):
        visible(copied, pages, nothing, tmp_path)
    pages[BLCKSZ : 2 * BLCKSZ] = 0
    assert 0 < len(visible(copied, pages, nothing, tmp_path).at) < copied.rows[0]
    pages = copied.pages.copy()
    pages[14:16] = 0
    with pytest.raises(CatalogError, match="page 0 is broken"):
        visible(copied, pages, nothing, tmp_path)
