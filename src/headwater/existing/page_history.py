"""The changes of heap pages in the log, and the tuples that are visible on them at an LSN.

In: framed records of a stretch of WAL, pages of a copy of a cluster, what became of transactions. Out: where the
visible tuples lie, as logged (``xl_heap_header`` first), which is what decode kernels take.

**Why this is right.** While a server writes, a copy has each page as of some moment between the copy's first LSN and
its end. Let P be an LSN that is not before that end. A tuple version is visible at P if the transaction that inserted
it committed up to P, and none that deleted it did. So of each line pointer two things must be known: the version that
lies there at P, and who deleted it.

- A page that no record between the first LSN and P has changed is what it was before: the copy's bytes are right, but
  for hint bits, which only say what is so. Its ``pd_lsn`` proves it; a younger page is an error.
- Of any other page the first record has the whole image, as long as full_page_writes is on (an online backup forces
  it). Or it makes the page new. The records after it say which tuples came and went. Where neither is so, the copy's
  page is as of before the first record, which ``pd_lsn`` proves again.
- A record that removes tuples (prune, vacuum) removes what no snapshot could see: the version was deleted by a
  transaction that had committed, or inserted by one that had aborted, before that record and so before P. It is not
  visible at P, whether or not it is still thought to lie there; a later insert takes its place.
- Locks, freezing and hint bits change what a tuple's header says, not who inserted or deleted it. Hints of an image
  are those of a moment before P, so what they call committed was.
- ``pg_xact`` of the copy has the transactions that ended before its first LSN; those that ended since are in the
  log's own records, with their subtransactions. One that has neither was running at P, or its server crashed: not
  committed.
- A multixact is one of before the first LSN, whose members the copy has, or the log has the record that made it.

Known gap: updates whose new tuple shares bytes with the old one, as ``wal_level = replica`` writes them, are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from headwater.errors import CatalogError, RecordError
from headwater.existing import _page_history as k
from headwater.existing import _visible_tuples as v
from headwater.existing.page_checksum import first_wrong_page
from headwater.option_names import option, ways
from headwater.pg.lsn import Lsn
from headwater.pg.version import VERSIONS
from headwater.rmgr.header_slots import header_scratch
from headwater.rmgr.heap_layout import MOST_TUPLES
from headwater.rmgr.locator_hash import locator_hash
from headwater.rows.collect._page_tuples import PAGE
from headwater.wal.layout import (
    BKPIMAGE_APPLY,
    BKPIMAGE_APPLY_14,
    BKPIMAGE_COMPRESSED,
    BKPIMAGE_IS_COMPRESSED_14,
)
from headwater.wal.records.frames import Frames
from headwater.wal.records.record import parse_record

Locator = tuple[int, int, int]
Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]
Fates = v.Fates
gather = v.gather
FindUpdater = Callable[[int], int]
"""Who has updated or deleted of a multixact, 0 for nobody."""

_WIDE_MULTI_AT, _MULTI_AT = 16, 8
_NO_EVENTS = np.empty((0, k.COLUMNS), np.int64)


def _wanted(files: Sequence[Locator], major: int) -> k.WantedFiles:
    table = np.array(files, np.int64).reshape(-1, 3).T.copy()
    version = VERSIONS[major]
    named = version.names_image_compression
    return k.WantedFiles(
        files=table,
        slots=locator_hash(table, table.shape[1]),
        applied=BKPIMAGE_APPLY if named else BKPIMAGE_APPLY_14,
        compressed=BKPIMAGE_COMPRESSED if named else BKPIMAGE_IS_COMPRESSED_14,
        multi_at=_WIDE_MULTI_AT if version.has_wide_members else _MULTI_AT,
    )


@dataclass(frozen=True, eq=False)
class History:
    """Events of a run of WAL, e of them, by file and page, those of a page in the log's order.

    Attributes:
        events: int64[e, COLUMNS].
        cuts: int64[n, 3] file, its first block that is gone, LSN.
        multis: int64[m, 2] multixacts that were made, and who of each updated or deleted, 0 for nobody.
    """

    events: Int64s
    cuts: Int64s
    multis: Int64s


class HistoryScan:
    """A scan of records, stretch by stretch, in LSN order.

    Args:
        files: whose pages are followed.
        major: PostgreSQL's.
        payload: gets page images and tuples.
    """

    def __init__(self, files: Sequence[Locator], major: int, payload: BinaryIO) -> None:
        self._wanted = _wanted(files, major)
        self._major, self._sink = major, payload
        self._headers = header_scratch(major)
        self._payload = np.empty(1 << 20, np.uint8)
        self._events = np.empty((1 << 14, k.COLUMNS), np.int64)
        self._found: list[tuple[Int64s, Int64s, Int64s]] = []

    def add(self, frames: Frames) -> None:
        """Take one stretch of records.

        Raises:
            RecordError: a record is malformed.
            CatalogError: the log does not say what becomes of a tuple.
        """
        # The kernel stops where it lacks room, or needs an image restored, and goes on at the same record.
        records = len(frames.positions)
        cuts, multis = np.empty((records, 3), np.int64), np.empty((records, 2), np.int64)
        state = np.zeros(k.STATE_SIZE, np.int64)
        while status := k.collect_history(
            frames.data,
            frames.positions,
            frames.lsns,
            self._wanted,
            self._headers,
            self._payload,
            self._events,
            cuts,
            multis,
            state,
        ):
            self._go_on(status, frames, state)
        before = self._sink.tell()
        self._sink.write(self._payload[: state[k.USED]].data)
        events = self._events[: state[k.EVENTS]].copy()
        # Events name bytes of this stretch's payload; from here on they name bytes of the whole file.
        events[events[:, k.AT] >= 0, k.AT] += before
        self._found.append((events, cuts[: state[k.CUTS]].copy(), multis[: state[k.MULTIS]].copy()))

    def finish(self) -> History:
        """Return all of the history, once all stretches are in."""
        events, cuts, multis = (
            np.concatenate([arrays[part] for arrays in self._found] or [np.empty((0, width), np.int64)])
            for part, width in enumerate((k.COLUMNS, 3, 2))
        )
        # Stable: events of a page stay in the order of the WAL.
        order = np.lexsort((events[:, k.AT_BLOCK], events[:, k.FILE]))
        return History(events[order], cuts, multis)

    def _go_on(self, status: int, frames: Frames, state: Int64s) -> None:
        """Make room for the next record, or say what is wrong with it."""
        number = int(state[k.RECORD])
        lsn = int(frames.lsns[number])
        if status == k.NEED_EVENTS:
            longer = np.empty((2 * len(self._events) + (1 << 16), k.COLUMNS), np.int64)
            longer[: len(self._events)] = self._events
            self._events = longer
        elif status == k.NEED_PAYLOAD:
            more = np.empty(2 * len(self._payload) + frames.length(number) + 33 * PAGE, np.uint8)
            more[: len(self._payload)] = self._payload
            self._payload = more
        elif status == k.NEED_IMAGE:
            self._restore_images(frames, number, state)
        elif status == k.SHARES_OLD:
            raise CatalogError(
                "an update has only a part of its new row: it was written with wal_level below logical",
                lsn=lsn,
                hint=ways(
                    "take the base backup after wal_level was raised",
                    f"land changes only ({option('snapshot', 'never')})",
                ),
            )
        else:
            raise RecordError("malformed record: its lengths disagree", lsn=lsn)

    def _restore_images(self, frames: Frames, number: int, state: Int64s) -> None:
        lsn, end = int(frames.lsns[number]), int(frames.end_lsns[number])
        record = parse_record(frames.record(number), lsn, end, self._major)
        known = {tuple(file) for file in self._wanted.files.T.tolist()}
        at = int(state[k.USED])
        for block in record.blocks:
            if block.image is None or block.fork or not block.image.is_applied or block.locator not in known:
                continue
            self._payload[at : at + PAGE] = np.frombuffer(block.image.page(), np.uint8)
            at += PAGE
        state[k.IMAGES_DONE] = 1


@dataclass(frozen=True)
class HistoryFile:
    """The history of a run of WAL, in files.

    Attributes:
        events: of ``numpy.save``; keys: likewise, int64[e] file and block of each; payload: bytes that they refer to.
    """

    events: Path
    keys: Path
    payload: Path

    @staticmethod
    def named(place: Path, number: int) -> HistoryFile:
        """Return the files of a run, by its number, in a directory."""
        return HistoryFile(*(place / f"{number:06}.{what}" for what in ("events.npy", "keys.npy", "payload")))

    def save(self, history: History) -> None:
        """Write events; the payload is written as they come."""
        np.save(self.events, history.events)
        np.save(self.keys, history.events[:, k.FILE] << 32 | history.events[:, k.AT_BLOCK])

    def blocks(self, file: int) -> int:
        """Return the number of the page after the last one of a file that was changed; 0 for none."""
        keys = np.load(self.keys, mmap_mode="r")
        at = int(np.searchsorted(keys, file + 1 << 32))
        key = int(keys[at - 1]) if at else -1
        return (key & 0xFFFFFFFF) + 1 if key >> 32 == file else 0

    def of_pages(self, file: int, first: int, last: int) -> Int64s:
        """Return int64[e, COLUMNS] events of pages ``[first, last)`` of a file."""
        keys = np.load(self.keys, mmap_mode="r")
        lo, hi = np.searchsorted(keys, [file << 32 | first, file << 32 | last])
        events: Int64s = np.array(np.load(self.events, mmap_mode="r")[lo:hi]) if lo < hi else _NO_EVENTS
        return events


@dataclass(frozen=True, eq=False)
class PageEvents:
    """The events that are left to do to some pages, from the last image of each on.

    Attributes:
        starts: int64[n + 1] events of each page; events: int64[e, COLUMNS]; payload: uint8[].
        is_cut: bool[n] the file has been cut off before the page since the copy began.
    """

    starts: Int64s
    events: Int64s
    payload: Bytes
    is_cut: NDArray[np.bool_]


def page_events(histories: Sequence[HistoryFile], cuts: Int64s, file: int, first: int, last: int) -> PageEvents:
    """Return the events of pages ``[first, last)`` of a file.

    Args:
        histories: in LSN order.
        cuts: int64[n, 3] as :attr:`History.cuts`.
        file: its number.
        first, last: blocks.
    """
    # Of page 7, in the order of the WAL, with a truncation of the file to 5 blocks in between:
    #
    #   LSN     0/10       0/20       0/30          0/40        0/50
    #   event   INSERTED   INSERTED   (cut to 5)    PAGE_IMAGE  DELETED
    #   stays   no         no                       yes         yes
    #
    # What is before a cut is gone with its page; what is before the last image is in it.
    parts = [history.of_pages(file, first, last) for history in histories]
    events = np.concatenate(parts or [_NO_EVENTS])
    part = np.repeat(np.arange(len(parts)), [len(events_of_part) for events_of_part in parts])
    keep = np.ones(len(events), np.bool_)
    is_cut = np.zeros(last - first, np.bool_)
    for _, blocks, lsn in cuts[cuts[:, 0] == file].tolist():
        keep &= (events[:, k.AT_BLOCK] < blocks) | (events[:, k.LSN] > lsn)
        # The copy may still have such a page, as it was before the cut: it must not be read.
        is_cut[max(blocks - first, 0) :] = True
    events, part = events[keep], part[keep]
    order = np.argsort(events[:, k.AT_BLOCK], kind="stable")
    chosen = _from_last_image(events[order])
    events, part = events[order][chosen], part[order][chosen]
    payload = _payload(histories, events, part)
    starts = np.searchsorted(events[:, k.AT_BLOCK], np.arange(first, last + 1))
    return PageEvents(starts.astype(np.int64), events, payload, is_cut)


def _from_last_image(events: Int64s) -> Int64s:
    """Return the numbers of the events of each page that are after its last image, or are it."""
    if not len(events):
        return np.empty(0, np.int64)
    begins = np.flatnonzero(np.append(True, np.diff(events[:, k.AT_BLOCK]) != 0))
    number = np.arange(len(events))
    image = np.where(events[:, k.KIND] <= k.PAGE_IMAGE, number, -1)
    last = np.repeat(np.maximum.reduceat(image, begins), np.diff(np.append(begins, len(events))))
    return np.flatnonzero(number >= last)


def _payload(histories: Sequence[HistoryFile], events: Int64s, part: Int64s) -> Bytes:
    """Collect the bytes that events refer to, one after the other; their places become those in them."""
    has = events[:, k.AT] >= 0
    ends = np.cumsum(np.where(has, events[:, k.LENGTH], 0))
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    for number in np.unique(part[has]).tolist():
        chosen = np.flatnonzero(has & (part == number))
        source = np.memmap(histories[number].payload, np.uint8, "c").view(np.ndarray)
        v.gather(source, events[chosen, k.AT], events[chosen, k.LENGTH], out, ends[chosen] - events[chosen, k.LENGTH])
    events[has, k.AT] = (ends - events[:, k.LENGTH])[has]
    return out


@dataclass(frozen=True, eq=False)
class VisibleTuples:
    """Tuples of some pages, n of them.

    Attributes:
        data: uint8[] in which they lie; the pages as the copy has them are its beginning.
        at, length: int64[n] where each lies, from its ``xl_heap_header`` on, and its bytes.
        tid: int64[n] block and offset number, as ``MOST_TUPLES`` counts.
        first: number of the first page; in_copy: bytes of the pages.
    """

    data: Bytes
    at: Int64s
    length: Int64s
    tid: Int64s
    first: int
    in_copy: int

    def block_of(self, number: int) -> int:
        """Return the page of a tuple."""
        return int(self.tid[number]) // MOST_TUPLES


class PageVisibility:
    """A judge of which tuples of pages are visible.

    Args:
        fates: what became of transactions, and the multixacts that the log has.
        limit: LSN; pages that no record has changed since are not younger than it.
        find_updater: returns the updater of an earlier multixact, 0 for none.
        has_checksums: pages of the copy have checksums.
    """

    def __init__(self, fates: Fates, limit: int, find_updater: FindUpdater, has_checksums: bool) -> None:
        self._fates, self._limit, self._find = fates, limit, find_updater
        self._has_checksums = has_checksums
        self._slots = v.Slots(
            np.zeros(MOST_TUPLES, np.int64), np.zeros(MOST_TUPLES, np.int64), np.zeros(MOST_TUPLES, np.uint8)
        )

    def visible(self, pages: Bytes, first: int, changed: PageEvents, where: str) -> VisibleTuples:
        """Return the visible tuples of some pages.

        Args:
            pages: uint8[n * PAGE] as the copy has them, zeros where it has none.
            first: number of the first one.
            changed: what the log did to them.
            where: the table's file, for errors.

        Raises:
            CatalogError: a page is broken, or does not fit the log.
        """
        count = len(pages) // PAGE
        pages.reshape(-1, PAGE)[changed.is_cut] = 0
        if self._has_checksums:
            wrong = first_wrong_page(pages, first, np.diff(changed.starts) == 0)
            if wrong is not None:
                raise _damaged(f"page {wrong} has another checksum than what it holds", where)
        data = np.concatenate([pages, changed.payload]) if len(changed.payload) else pages
        most = 300 * count + len(changed.events)
        while True:
            at, length, tid, multis = (np.empty(most, np.int64) for _ in range(4))
            seen = v.Seen(at, length, tid, multis, np.zeros(8, np.int64))
            status = v.visible_tuples(
                data, first, count, changed.starts, changed.events, self._limit, self._fates, self._slots, seen
            )
            if status == v.FULL:
                most *= 2
            elif status != k.DONE:
                raise _page_error(status, seen, where)
            elif seen.state[v.UNKNOWN_MULTIS]:
                self._learn(seen.multis[: seen.state[v.UNKNOWN_MULTIS]])
            else:
                count_of_visible = seen.state[v.TUPLES]
                return VisibleTuples(
                    data,
                    seen.at[:count_of_visible],
                    seen.length[:count_of_visible],
                    seen.tid[:count_of_visible],
                    first,
                    len(pages),
                )

    def _learn(self, multis: Int64s) -> None:
        """Look up the updaters of multixacts that the log does not have."""
        fresh = np.unique(multis)
        updaters_of_fresh = np.array([self._find(multi) for multi in fresh.tolist()], np.int64)
        known = np.concatenate([self._fates.multis, fresh])
        order = np.argsort(known)
        updaters = np.concatenate([self._fates.updaters, updaters_of_fresh])
        self._fates = self._fates._replace(multis=known[order], updaters=updaters[order])


def _page_error(status: int, seen: v.Seen, where: str) -> CatalogError:
    page, value = f"page {int(seen.state[v.BAD_BLOCK])}", int(seen.state[v.BAD_VALUE])
    if status == v.YOUNG_PAGE:
        return CatalogError(
            f"{page} was changed at {Lsn(value)}, which the log does not tell of before that",
            file=where,
            hint="copy a server that was shut down, or use pg_basebackup",
        )
    reason = {
        v.BAD_PAGE: f"{page} is broken: its header or a line pointer",
        v.LOST_XID: f"pg_xact does not have the status of transaction {value}, which {page} names",
        v.NO_TUPLE: f"{page} has no tuple where the record at {Lsn(value)} deletes one",
        v.OLD_TUPLE: f"{page} has a tuple that VACUUM FULL of a version before 9.0 has moved",
    }[status]
    return _damaged(reason, where)


def _damaged(reason: str, where: str) -> CatalogError:
    return CatalogError(reason, file=where, hint="the backup is damaged; take it again")
