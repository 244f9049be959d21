"""Values out of line, found in the heap of a TOAST table.

Tasks go through the table's visible chunks once and write where each lies, sorted by value: sixteen bytes for two
kilobytes. Whoever needs values looks them up there and reads their chunks, most of them where the copy has them; those
that only the log has lie in a file beside. All of a batch's chunks become items before its rows, as in a transaction
that has just written them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.copy.heap_files import HeapFile
from headwater.catalog.pages import BLCKSZ
from headwater.errors import CatalogError
from headwater.existing.heap_pages import HeapPages
from headwater.existing.page_history import VisibleTuples, gather
from headwater.existing.toast_values import first_key, keys_of, value_of

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class ToastPart:
    """The chunks of some pages of a TOAST table.

    Attributes:
        keys: of ``numpy.save``: int64[n] sorted.
        places: likewise int64[n, 2] where each lies, from its ``xl_heap_header`` on, and its bytes. Behind the pages of
            the copy, the bytes of ``rest`` are counted.
        rest: chunks that the copy does not have as they are.
        lo, hi: the least and the greatest value; hi is -1 if there are none.
    """

    keys: Path
    places: Path
    rest: Path
    lo: int
    hi: int


@dataclass(frozen=True)
class ToastTask:
    """Some pages of a TOAST table; pickles.

    Attributes:
        pages: them; place: directory; number: of the task, in it.
    """

    pages: HeapPages
    place: Path
    number: int

    def run(self) -> ToastPart:
        """Find the chunks.

        Raises:
            CatalogError: as :meth:`HeapPages.pieces`, or a chunk is malformed.
        """
        names = [self.place / f"{self.number:06}.toast.{what}" for what in ("keys.npy", "places.npy", "rest")]
        keys, places = [np.empty(0, np.int64)], [np.empty((0, 2), np.int64)]
        with names[2].open("wb") as rest:
            for tuples in self.pages.pieces():
                keys.append(_keys(tuples, self.pages))
                places.append(np.stack([self._placed(tuples, rest), tuples.length], axis=1))
        key, where = np.concatenate(keys), np.concatenate(places)
        order = np.argsort(key)
        np.save(names[0], key[order])
        np.save(names[1], where[order])
        bounds = (value_of(int(key.min())), value_of(int(key.max()))) if len(key) else (0, -1)
        lo, hi = bounds
        return ToastPart(names[0], names[1], names[2], lo, hi)

    def _placed(self, tuples: VisibleTuples, rest: BinaryIO) -> Int64s:
        """Return the places of chunks; those that the copy has not are put into a file."""
        places = tuples.first * BLCKSZ + tuples.at
        logged = np.flatnonzero(tuples.at >= tuples.in_copy)
        length = tuples.length[logged]
        out = np.empty(int(length.sum()), np.uint8)
        gather(tuples.data, tuples.at[logged], length, out, _starts(length))
        places[logged] = self.pages.heap.blocks * BLCKSZ + rest.tell() + _starts(length)
        rest.write(out.tobytes())
        return places


@dataclass(frozen=True)
class ToastValues:
    """All values of a TOAST table; pickles.

    Attributes:
        heap: where the copy has it; parts: of its pages.
    """

    heap: HeapFile
    parts: tuple[ToastPart, ...]

    def chunks(self, values: Int64s) -> tuple[Bytes, Int64s, Int64s]:
        """Return the chunks of values.

        Args:
            values: int64[n] ids, sorted, each once.

        Returns:
            uint8[] bytes, and int64[m] where in them each chunk lies, and its length; by value, and in their order.

        Raises:
            CatalogError: a file cannot be read.
        """
        pieces = [self._in_part(part, values) for part in self.parts if part.lo <= part.hi]
        keys = np.concatenate([np.empty(0, np.int64), *(piece[0] for piece in pieces)])
        order = np.argsort(keys)
        length = np.concatenate([np.empty(0, np.int64), *(piece[1] for piece in pieces)])[order]
        out = np.concatenate([np.empty(0, np.uint8), *(piece[2] for piece in pieces)])
        starts = np.concatenate([np.empty(0, np.int64), *(_starts(piece[1]) for piece in pieces)])
        base = np.repeat(
            np.cumsum([0, *(len(piece[2]) for piece in pieces)])[:-1], [len(piece[1]) for piece in pieces]
        ).astype(np.int64)
        return out, (starts + base)[order], length

    def _in_part(self, part: ToastPart, values: Int64s) -> tuple[Int64s, Int64s, Bytes]:
        """Return keys, lengths and bytes of the chunks that a part has of values."""
        inside = values[(values >= part.lo) & (values <= part.hi)]
        keys = np.load(part.keys, mmap_mode="r")
        lo = np.searchsorted(keys, first_key(inside))
        hi = np.searchsorted(keys, first_key(inside + 1))
        which = np.repeat(lo - np.append(0, np.cumsum(hi - lo)[:-1]), hi - lo) + np.arange((hi - lo).sum())
        places = np.load(part.places, mmap_mode="r")[which]
        at, length = np.ascontiguousarray(places[:, 0]), np.ascontiguousarray(places[:, 1])
        out, out_at = np.empty(int(length.sum()), np.uint8), _starts(length)
        size = self.heap.segment_blocks * BLCKSZ
        end = self.heap.blocks * BLCKSZ
        for segment in np.unique(at[at < end] // size).tolist():
            own = np.flatnonzero((at < end) & (at // size == segment))
            gather(self._segments[segment], at[own] - segment * size, length[own], out, out_at[own])
        own = np.flatnonzero(at >= end)
        if len(own):
            rest = np.memmap(part.rest, np.uint8, "c").view(np.ndarray)
            gather(rest, at[own] - end, length[own], out, out_at[own])
        return np.array(keys[which]), length, out

    @cached_property
    def _segments(self) -> Sequence[Bytes]:
        return [self.heap.mapped(number).view(np.ndarray) for number in range(len(self.heap.segments))]


def _keys(tuples: VisibleTuples, pages: HeapPages) -> Int64s:
    keys, wrong = keys_of(tuples)
    if wrong is not None:
        raise CatalogError(f"page {tuples.block_of(wrong)} of a TOAST table has a malformed chunk", file=pages.name)
    return keys


def _starts(length: Int64s) -> Int64s:
    return np.append(0, np.cumsum(length))[:-1].astype(np.int64)
