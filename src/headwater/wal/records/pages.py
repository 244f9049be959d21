"""A window of WAL pages in memory: payload and page table, loaded from the segments as far as asked.

Invariants: the payload of pages [0, loaded) is contiguous in ``words``. A page that could not be WAL is there all the
same, with a status that says why. So a reader can distinguish a torn tail from damage.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.errors import SegmentError
from headwater.wal._pages import PAGE_OK, PAGE_UNREAD, PAGE_WORDS, PageTable, unpage
from headwater.wal.layout import PAGE_SIZE
from headwater.wal.records._position import lsn_to_payload
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.segment_files import Segment
from headwater.wal.segments.segment_reader import open_segment

_CHUNK_PAGES = 128
"""Pages read at once (1 MB): the copy out of the chunk finds it in the processor's cache."""


class PageWindow:
    """Pages [0, loaded) of a WAL, the first at ``lsn``.

    Attributes:
        lsn: of page 0, a multiple of 8192.
        loaded: pages in memory.
        words: int64[n] payload.
        table: page table, entries [0, loaded) valid.
    """

    def __init__(self, wal: WalDirectory, lsn: int) -> None:
        self._wal = wal
        self.lsn = lsn
        self.loaded = 0
        self.words: NDArray[np.int64] = np.zeros(0, np.int64)
        self.table = _page_table(0)
        self._scratch: NDArray[np.int64] = np.zeros(_CHUNK_PAGES * PAGE_WORDS, np.int64)
        self._base = lsn_to_payload(lsn, wal.segment_size)
        self._identity = wal.page_identity

    @property
    def base(self) -> int:
        """Payload position of ``words[0]``."""
        return int(self._base)

    @property
    def available(self) -> int:
        """Pages there are up to the end of the segments (a gap aside)."""
        last = self._wal.segments[-1].start_lsn + self._wal.segment_size
        return max(last - self.lsn, 0) // PAGE_SIZE

    def offset(self, pages: int) -> int:
        """Count the payload bytes before page number `pages`."""
        return int(lsn_to_payload(self.lsn + pages * PAGE_SIZE, self._wal.segment_size)) - self.base

    def load(self, pages: int) -> bool:
        """Load pages up to number `pages`, as far as there are segments.

        Returns:
            Whether anything more was loaded.

        Raises:
            SegmentError: a segment is missing, truncated or unreadable.
        """
        pages = min(pages, self.available)
        if pages <= self.loaded:
            return False
        segments = self._wal.covering(self.lsn + self.loaded * PAGE_SIZE, self.lsn + pages * PAGE_SIZE)
        self._make_room(pages)
        for segment in segments:
            end = min(self.lsn + pages * PAGE_SIZE, segment.start_lsn + self._wal.segment_size)
            self._load_segment(segment, (end - self.lsn) // PAGE_SIZE)
        return True

    def _make_room(self, pages: int) -> None:
        """Grow the arrays to hold `pages` pages; a little more, as a window often grows by the last record's pages."""
        if pages <= self.table.status.shape[0]:
            return
        room = pages + 16
        words: NDArray[np.int64] = np.empty(self.offset(room) // 8, np.int64)
        used = self.offset(self.loaded) // 8
        words[:used] = self.words[:used]
        self.words = words
        table = _page_table(room)
        for name in PageTable._fields:
            getattr(table, name)[: self.loaded] = getattr(self.table, name)[: self.loaded]
        self.table = table

    def _load_segment(self, segment: Segment, until: int) -> None:
        """Load one segment's pages up to page number `until` of the window."""
        first = self.lsn - segment.start_lsn
        with open_segment(segment, self._wal.segment_size, first + until * PAGE_SIZE) as reader:
            while self.loaded < until:
                count = min(until - self.loaded, _CHUNK_PAGES)
                view = self._scratch.data.cast("B")[: count * PAGE_SIZE]
                if reader.read_into(view, first + self.loaded * PAGE_SIZE) < len(view):
                    raise SegmentError(
                        f"WAL segment is truncated, expected {self._wal.segment_size} bytes",
                        lsn=self.lsn + self.loaded * PAGE_SIZE,
                        file=segment.path,
                    )
                self._unpage(count, segment.timeline)
                if self.loaded < until and (self.table.status[self.loaded - count : self.loaded] != PAGE_OK).all():
                    self.table.status[self.loaded : until] = PAGE_UNREAD
                    self.loaded = until

    def _unpage(self, count: int, timeline: int) -> None:
        end = unpage(
            self._scratch,
            count,
            self.lsn + self.loaded * PAGE_SIZE,
            self._identity,
            timeline,
            self.table,
            self.loaded,
            self.words,
            self.offset(self.loaded) // 8,
        )
        assert end == self.offset(self.loaded + count) // 8, "the window has no room"
        self.loaded += count


def _page_table(pages: int) -> PageTable:
    info, rest, timeline = (np.zeros(pages, np.int64) for _ in range(3))
    return PageTable(np.zeros(pages, np.uint8), info, np.zeros(pages, np.bool_), rest, timeline)
