"""Records of a range of WAL, found and verified (PostgreSQL: ``xlogreader.c``).

In: a :class:`WalDirectory` and a range. Out: :class:`Frames`: the payload bytes and where in them each record lies.

The rules are XLogReader's, with one difference. The server takes the first thing that is not a valid record for the end
of the WAL, whatever comes after. Here it is the end only if nothing valid follows. Valid is a later page or segment
that stands where it should. So is a later record in the same page that points back to the bad place or beyond.
Otherwise the WAL is damaged, and reading stops with an error rather than with a plausible part of the data. A live tail
may change between two looks at it, so the verdict "damaged" needs a second reading that comes no further. As long as
each reading comes further than the one before it, a server writes.

Known gap: damage in the very last record before the end cannot be distinguished from a torn write.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.errors import PageError, RecordError, UsageError, WalError
from headwater.pg.lsn import Lsn
from headwater.pg.version import VERSIONS
from headwater.wal import _pages as p
from headwater.wal.layout import LONG_HEADER, PAGE_SIZE, SHORT_HEADER
from headwater.wal.records import _frames as k
from headwater.wal.records._position import lsn_to_payload
from headwater.wal.records.pages import PageWindow
from headwater.wal.segments.directory import WalDirectory, next_valid_page

_PAUSE_SECONDS = 0.02
_PROOF_BYTES = 4
_FIRST_CAPACITY_BYTES = 96
"""Payload bytes per record that the output arrays are first made for."""


@dataclass(frozen=True)
class EndOfWal:
    """The position where the log ended before the end of the range, and the reason.

    Attributes:
        lsn: where the next record would have started.
        reason: in the server's words where it has some.
    """

    lsn: int
    reason: str


@dataclass(frozen=True)
class Frames:
    """The records of a range, n of them.

    Attributes:
        data: uint8[m] payload; record i is ``data[positions[i] : positions[i] + xl_tot_len]``, always inside.
        positions: int64[n] byte offsets, multiples of 8.
        lsns: int64[n] start of each record.
        end_lsns: int64[n] end of each record, aligned, before a page header is skipped; after a switch record the
            segment's end.
        end: set when the log ended before the range did.
    """

    data: NDArray[np.uint8]
    positions: NDArray[np.int64]
    lsns: NDArray[np.int64]
    end_lsns: NDArray[np.int64]
    end: EndOfWal | None

    def length(self, index: int) -> int:
        """Return the xl_tot_len of one record."""
        return int(self.data.view("<u4")[self.positions[index] // 4])

    def lengths_of(self, numbers: NDArray[np.int64] | slice) -> NDArray[np.int64]:
        """Return the xl_tot_len of k of the records, by their numbers, int64[k]."""
        return self.data.view("<u4")[self.positions[numbers] // 4].astype(np.int64)

    def part(self, start: int, stop: int) -> Frames:
        """Return records ``[start, stop)``, over the same bytes."""
        if stop - start == len(self.lsns):
            return self
        which = slice(start, stop)
        return Frames(self.data, self.positions[which], self.lsns[which], self.end_lsns[which], None)

    def record(self, index: int) -> bytes:
        """Return the bytes of one record."""
        at = int(self.positions[index])
        return self.data[at : at + self.length(index)].tobytes()


def read_frames(
    directory: WalDirectory, lo: int, hi: int | None = None, *, check: bool = True, expect_prev: int | None = None
) -> Frames:
    """Find every record that starts in [lo, hi).

    Args:
        directory: the segments.
        lo: a record's start, or a page's start (then the records that start on or after that page).
        hi: an LSN; None for the end of the log. Reads on as far as the last record needs.
        check: verify checksums.
        expect_prev: LSN of the record before the first, to verify the seam between two ranges.

    Raises:
        SegmentError: a segment is missing, truncated or unreadable.
        PageError: a page is damaged.
        RecordError: a record is damaged.
        UsageError: `lo` cannot be the start of a record.
    """
    failure: WalError | None = None
    while True:
        reader = _Reader(directory, lo, hi, check, expect_prev)
        outcome = reader.read()
        if isinstance(outcome, Frames):
            return outcome
        if failure is not None and _lsn(outcome) <= _lsn(failure):
            raise outcome
        failure = outcome
        if reader.is_last_page:
            # A server that writes to this page may have been between two records.
            time.sleep(_PAUSE_SECONDS)


def _lsn(failure: WalError) -> int:
    return failure.lsn or 0


class _Reader:
    """One look at a range.

    Attributes:
        is_last_page: a failure was found on the last page that holds WAL.
    """

    def __init__(self, wal: WalDirectory, lo: int, hi: int | None, check: bool, expect_prev: int | None) -> None:
        _check_start(wal, lo)
        self._wal = wal
        self._asked = hi
        self._hi = wal.stop_lsn if hi is None else min(hi, wal.stop_lsn)
        self._window = PageWindow(wal, lo - lo % PAGE_SIZE)
        self._origin = np.array([self._window.lsn, wal.segment_size, self._hi, check], np.int64)
        self._cursor = np.zeros(16, np.int64)
        if expect_prev is not None:
            self._cursor[k.PREV] = expect_prev
            self._cursor[k.PREV_KNOWN] = 1
        if lo % PAGE_SIZE:
            self._cursor[k.AT] = lsn_to_payload(lo, wal.segment_size) - self._window.base
        self._at_page = lo % PAGE_SIZE == 0
        self.is_last_page = False
        self._outputs = [np.zeros(0, np.int64) for _ in range(3)]

    def read(self) -> Frames | WalError:
        """Return the frames, or the error that one look makes likely."""
        self._window.load(-(-(self._hi - self._window.lsn) // PAGE_SIZE))
        status = self._resync() if self._at_page else k.DONE
        if status == k.DONE:
            status = self._frame()
        if status == k.DONE:
            ended = self._asked is None or self._hi < self._asked
            return self._frames(EndOfWal(self._next_lsn(), "no WAL segment follows") if ended else None)
        if status == k.MORE:
            self._cursor[k.BAD_PAGE] = self._window.loaded
            self._cursor[k.BAD_LSN] = self._next_lsn()
        return self._judge(status)

    def _resync(self) -> int:
        while True:
            status = int(
                k.resync(
                    self._window.table,
                    self._window.loaded,
                    self._window.lsn,
                    self._wal.segment_size,
                    self._hi,
                    self._cursor,
                )
            )
            if status != k.MORE or not self._window.load(int(self._cursor[k.NEED])):
                return status

    def _frame(self) -> int:
        window = self._window
        self._grow(window.offset(window.loaded) // _FIRST_CAPACITY_BYTES + 16)
        while True:
            status = int(k.frame(window.words, window.table, window.loaded, self._origin, self._cursor, *self._outputs))
            if status == k.FULL:
                self._grow(self._outputs[0].shape[0] * 2)
            elif status != k.MORE or not window.load(int(self._cursor[k.NEED])):
                return status

    def _grow(self, capacity: int) -> None:
        count = int(self._cursor[k.COUNT])
        grown: list[NDArray[np.int64]] = [np.empty(capacity, np.int64) for _ in range(3)]
        for new, old in zip(grown, self._outputs, strict=True):
            new[:count] = old[:count]
        self._outputs = grown

    def _frames(self, end: EndOfWal | None) -> Frames:
        count = int(self._cursor[k.COUNT])
        positions, lsns, end_lsns = (output[:count] for output in self._outputs)
        data = self._window.words[: self._window.offset(self._window.loaded) // 8].view(np.uint8)
        return Frames(data, positions, lsns, end_lsns, end)

    def _page_lsn(self, page: int) -> int:
        return self._window.lsn + page * PAGE_SIZE

    def _next_lsn(self) -> int:
        """Return the LSN where the next record starts or would start."""
        cursor = self._cursor
        page = self._page_lsn(int(cursor[k.PAGE]))
        used = int(cursor[k.AT] - cursor[k.PAGE_START])
        header = LONG_HEADER if page % self._wal.segment_size == 0 else SHORT_HEADER
        return page if used == 0 else min(page + header + used, page + PAGE_SIZE)

    def _judge(self, status: int) -> Frames | WalError:
        """Decide whether a failure is the end of the log or damage inside it."""
        reason = self._describe(status)
        if status == k.BAD_OVERWRITE:
            return self._error(status, reason)
        follower = self._follower(status)
        if follower is None:
            return self._frames(EndOfWal(int(self._cursor[k.BAD_LSN]), reason))
        bad_lsn, bad_page_lsn = int(self._cursor[k.BAD_LSN]), self._page_lsn(int(self._cursor[k.BAD_PAGE]))
        if status in (k.BAD_PAGE_HEADER, k.MORE) and bad_lsn < follower < bad_page_lsn:
            # The next record stands on the same page, so it is the length that is wrong, not the next page.
            size = int(self._window.words[int(self._cursor[k.AT]) // 8]) & 0xFFFFFFFF
            status, reason = k.BAD_LENGTH, f"invalid record length: found {size}"
        return self._error(status, f"{reason}, but WAL goes on at {Lsn(follower)}")

    def _follower(self, status: int) -> int | None:
        """Find something valid after the failure: its LSN, None if there is nothing."""
        bad_page = int(self._cursor[k.BAD_PAGE])
        misfit = status in (k.UNEXPECTED_CONTRECORD, k.NO_CONTRECORD, k.BAD_REST)
        later = self._later_page(bad_page + 1)
        self.is_last_page = later is None
        if misfit and not self._is_bare(bad_page):
            return self._page_lsn(bad_page)
        return later if later is not None else self._later_record(status, bad_page)

    def _is_bare(self, page: int) -> bool:
        """Tell whether nothing follows a page's header, which then may not be whole itself."""
        start, end = self._window.offset(page), self._window.offset(page + 1)
        return not self._window.words[start // 8 : end // 8].any()

    def _later_page(self, page: int) -> int | None:
        """Find the first valid page from a page number on: in the same segment, or at the start of any later one."""
        lsn = self._page_lsn(page)
        segment = self._wal.segment_at(lsn)
        if segment is not None:
            valid_page = next_valid_page(self._wal, segment, (lsn - segment.start_lsn) // PAGE_SIZE)
            if valid_page is not None:
                return valid_page
        after = self._wal.segments.following(lsn // self._wal.segment_size)
        return None if after is None else after.start_lsn

    def _later_record(self, status: int, bad_page: int) -> int | None:
        """Find the first valid record after the failure on its page, or the failed one itself if only a page is bad."""
        cursor, window = self._cursor, self._window
        at, end = int(cursor[k.AT]), window.offset(window.loaded)
        if at >= end:
            return None
        # What was here before a segment was recycled points to places before the segment.
        known = bool(cursor[k.PREV_KNOWN])
        floor = int(cursor[k.PREV]) if known else self._page_lsn(bad_page)
        # A length that no continuation page has confirmed may be wrong: the next record may be on the same page.
        confirmed = bad_page > int(cursor[k.PAGE]) + 1
        start = at if status == k.BAD_PREV else at + 8
        first = max(start, window.offset(bad_page)) if confirmed else start
        spans = [(first, window.offset(bad_page + 1))]
        if status == k.BAD_PAGE_HEADER and self._fills(at, bad_page):
            spans.append((at, at + 8))
        if status == k.BAD_LENGTH and not window.words[at // 8 : at // 8 + 3].any():
            # Another backend may have copied its record after a place that is reserved and still empty.
            return None
        for first, last in spans:
            record_lsn = int(
                k.chained_record(window.words, window.base, self._wal.segment_size, first, last, end, max(floor, 1))
            )
            if record_lsn >= 0:
                return record_lsn
        return None

    def _fills(self, at: int, bad_page: int) -> bool:
        """Tell whether the failed record has enough bytes on the bad page to prove that they were written.

        The few zero bytes that many records end with look the same on a page that is still to come.
        """
        size = int(self._window.words[at // 8]) & 0xFFFFFFFF
        start, end = self._window.offset(bad_page), min(at + size, self._window.offset(bad_page + 1))
        tail = self._window.words.view(np.uint8)[max(start, at) : max(end, at)]
        return int(np.count_nonzero(tail)) >= _PROOF_BYTES

    def _error(self, status: int, message: str) -> WalError:
        lsn = int(self._cursor[k.BAD_LSN])
        page_lsn = self._page_lsn(int(self._cursor[k.BAD_PAGE]))
        segment = self._wal.segment_at(page_lsn if status == k.BAD_PAGE_HEADER else lsn)
        kind = PageError if status in (k.BAD_PAGE_HEADER, k.UNEXPECTED_CONTRECORD) else RecordError
        return kind(
            message,
            lsn=page_lsn if kind is PageError else lsn,
            file=segment.path if segment else self._wal.path,
            hint="restore the segment from another copy",
        )

    def _describe(self, status: int) -> str:
        """Describe the failure in the server's words."""
        actual, expected = int(self._cursor[k.FOUND]), int(self._cursor[k.EXPECTED])
        page = int(self._cursor[k.BAD_PAGE])
        at = Lsn(self._page_lsn(page))
        if status == k.BAD_PAGE_HEADER:
            return self._describe_page(page)
        return {
            k.UNEXPECTED_CONTRECORD: f"page at {at} begins with the rest of a record, expected a record's start",
            k.NO_CONTRECORD: f"there is no contrecord flag at {at}, expected {expected} more bytes",
            k.BAD_REST: f"invalid contrecord length at {at}: found {actual}, expected {expected}",
            k.BAD_LENGTH: f"invalid record length: found {actual}, expected at least {expected}",
            k.BAD_RMGR: f"invalid resource manager ID: found {actual}, expected at most {expected}",
            k.BAD_PREV: f"record with incorrect prev-link: found {Lsn(actual & (1 << 64) - 1)}, expected "
            + (str(Lsn(expected)) if expected >= 0 else "one before the record"),
            k.BAD_CRC: "incorrect resource manager data checksum in record: "
            f"found {actual & 0xFFFFFFFF:08X}, expected {expected & 0xFFFFFFFF:08X}",
            k.MORE: "record goes on in a WAL segment that is not there",
            k.BAD_OVERWRITE: f"overwritten contrecord names {Lsn(actual & (1 << 64) - 1)}, expected {Lsn(expected)}",
        }[status]

    def _describe_page(self, page: int) -> str:
        status = int(self._window.table.status[page])
        lsn = Lsn(self._page_lsn(page))
        magic = VERSIONS[self._wal.major].page_magic
        return {
            p.PAGE_ZERO: f"page at {lsn} is zero, expected magic number {magic:04X}",
            p.PAGE_MAGIC: f"invalid magic number of page at {lsn}, expected {magic:04X}",
            p.PAGE_INFO: f"invalid info bits of page at {lsn}: found {int(self._window.table.info[page]):04X}",
            p.PAGE_SYSTEM: f"page at {lsn} is from a different database system, expected {self._wal.system_identifier}",
            p.PAGE_SEGMENT_SIZE: f"incorrect segment size in page header at {lsn}, expected {self._wal.segment_size}",
            p.PAGE_BLOCK_SIZE: f"incorrect block size in page header at {lsn}, expected {PAGE_SIZE}",
            p.PAGE_NOT_LONG: f"page at {lsn} has no long header, expected one at a segment's start",
            p.PAGE_ADDRESS: f"unexpected address of page at {lsn}",
            p.PAGE_TIMELINE: f"out-of-sequence timeline ID of page at {lsn}",
            p.PAGE_UNREAD: f"page at {lsn} holds no WAL",
        }[status]


def _check_start(wal: WalDirectory, lo: int) -> None:
    """Refuse a start that no record can have."""
    offset = lo % PAGE_SIZE
    header = LONG_HEADER if lo % wal.segment_size < PAGE_SIZE else SHORT_HEADER
    if lo < 0 or lo % 8 or 0 < offset < header:
        raise UsageError(f"no record can start at {Lsn(lo)}, expected a multiple of 8 outside a page header")
    if lo < wal.start_lsn:
        raise wal.missing(lo // wal.segment_size)
    if wal.segment_at(lo) is None and lo < wal.stop_lsn:
        raise wal.missing(lo // wal.segment_size)
