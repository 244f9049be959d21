"""The tuples of a table that are visible at an LSN, piece by piece, as a task reads them from a copy and the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.copy.heap_files import HeapFile
from headwater.catalog.pages import BLCKSZ
from headwater.existing.heap_history import HeapHistory
from headwater.existing.page_history import PageVisibility, VisibleTuples, page_events

PIECE_BLOCKS = 1024
"""Pages that are in memory at once."""


@dataclass(frozen=True)
class HeapPages:
    """Pages ``[first, last)`` of a file; pickles.

    Attributes:
        file: its number in the history; heap: where the copy has it.
        history: of its pages.
        catalog: path of the copy.
        start_lsn: its first LSN.
        has_checksums: its pages have checksums, which are verified.
    """

    file: int
    heap: HeapFile
    first: int
    last: int
    history: HeapHistory
    catalog: str
    start_lsn: int
    has_checksums: bool

    @property
    def name(self) -> str:
        """The file's name in errors."""
        return str(self.heap.segments[0].path) if self.heap.segments else "a file that the copy lacks"

    @property
    def blocks(self) -> int:
        """How many pages that are."""
        return self.last - self.first

    def pieces(self) -> Iterator[VisibleTuples]:
        """Give the visible tuples, some pages at a time.

        Raises:
            CatalogError: the file cannot be read, is damaged, or does not fit the log.
        """
        visibility = PageVisibility(self.history.fates(), self.start_lsn, self._update_xid, self.has_checksums)
        for first in range(self.first, self.last, PIECE_BLOCKS):
            last = min(first + PIECE_BLOCKS, self.last)
            pages = np.zeros((last - first) * BLCKSZ, np.uint8)
            self.heap.read(first, pages)
            changed = page_events(self.history.runs, self.history.cuts, self.file, first, last)
            yield visibility.visible(pages, first, changed, self.name)

    def _update_xid(self, multi: int) -> int:
        """Return who updated with a multixact.

        Few tables have a tuple for which this is asked, and to open an archive may take long.
        """
        return DataDirectory(self.catalog).update_xid_before(multi)
