"""The place of a relation's pages in a copy of a cluster, so that tasks can read them.

A relation's main fork is one file or several segments of one size; in a backup in tar format each is a piece of an
archive. A :class:`HeapFile` says where, and pickles. Nothing is known here of what the pages hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.base.system_errors import reason_of
from headwater.catalog.copy.file_tree import Piece
from headwater.catalog.pages import BLCKSZ
from headwater.errors import CatalogError


@dataclass(frozen=True)
class HeapFile:
    """A relation's main fork.

    Attributes:
        segments: in their order, all but the last of ``segment_blocks`` pages; none for a file that the copy lacks.
        segment_blocks: pages of a whole segment.
    """

    segments: tuple[Piece, ...]
    segment_blocks: int

    @property
    def blocks(self) -> int:
        """The number of whole pages."""
        return sum(segment.size // BLCKSZ for segment in self.segments)

    def read(self, first: int, out: NDArray[np.uint8]) -> int:
        """Read pages.

        Args:
            first: number of the first page.
            out: uint8[n * BLCKSZ] gets up to n pages; bytes that the file does not have stay as they are.

        Returns:
            how many pages were read.

        Raises:
            CatalogError: the file cannot be read, or is shorter than it was.
        """
        last = min(first + len(out) // BLCKSZ, self.blocks)
        at = first
        while at < last:
            number, inside = divmod(at, self.segment_blocks)
            count = min(last - at, self.segment_blocks - inside)
            part = out[(at - first) * BLCKSZ : (at - first + count) * BLCKSZ]
            _read(self.segments[number], inside * BLCKSZ, part)
            at += count
        return max(last - first, 0)

    def mapped(self, segment: int) -> NDArray[np.uint8]:
        """Map the bytes of a segment, which are read where somebody looks at them.

        Raises:
            CatalogError: the file cannot be read.
        """
        piece = self.segments[segment]
        try:
            return np.memmap(piece.path, np.uint8, "c", piece.offset, (piece.size,))
        except (OSError, ValueError) as error:
            raise _unreadable(piece, str(error)) from None


def _read(piece: Piece, at: int, out: NDArray[np.uint8]) -> None:
    try:
        with piece.path.open("rb") as file:
            file.seek(piece.offset + at)
            length = file.readinto(out.data)
    except OSError as error:
        raise _unreadable(piece, reason_of(error)) from None
    if length < len(out):
        raise _unreadable(piece, f"it ends {len(out) - length} bytes early")


def _unreadable(piece: Piece, reason: str) -> CatalogError:
    return CatalogError(f"could not read a table's file: {reason}", file=str(piece.path))
