"""The values of sequences as of an LSN: where a server would have them that is restored up to there.

In: a copy of a cluster, and the WAL between it and the LSN. Out: a value a sequence. A server logs a value some ahead
of the one that it gave last (SEQ_LOG_VALS), and does not log each: so the value may be up to 32 steps further than the
one that was given last. It never is behind, so none is given twice.

A sequence whose database the copy does not have came there page by page (CREATE DATABASE by WAL_LOG): its page is in
the WAL. Or its directory was copied (:mod:`headwater.existing.directory_copies`).

PostgreSQL: commands/sequence.c (nextval_internal, seq_redo).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.pages import BLCKSZ
from headwater.errors import CatalogError
from headwater.existing.directory_copies import DirectoryCopy, copies_in, place_at
from headwater.existing.page_history import Locator
from headwater.rmgr import xlog
from headwater.rmgr.payload import Payload
from headwater.rmgr.registry import SEQ, XLOG
from headwater.wal.layout import INFO_AT, RMID_AT, XLR_RMGR_INFO_MASK
from headwater.wal.records.frames import Frames, read_frames
from headwater.wal.records.record import parse_record
from headwater.wal.segments.directory import WalDirectory

STRETCH_BYTES = 64 << 20
"""WAL that is read at a time."""

_FIRST_ITEM_AT, _LENGTH_MASK = 24, 0x7FFF
_HEADER_SIZE_AT, _LOCATOR_BYTES = 22, 12
_PAGE_LSN, _VALUE = struct.Struct("<II"), struct.Struct("<qq?")


@dataclass(frozen=True)
class SequenceValue:
    """The value of a sequence.

    Attributes:
        last: ``last_value``; is_called: it has been given, so that the next one follows it.
        page_lsn: LSN of its page.
    """

    last: int
    is_called: bool
    page_lsn: int = 0


class SequenceLog:
    """The values that the WAL has given to all sequences since a copy, as far as it was read; it is read once.

    Args:
        copy: of the cluster.

    Attributes:
        reached: LSN up to which the WAL was read.
    """

    def __init__(self, copy: DataDirectory) -> None:
        self._copy = copy
        self.reached = copy.start_lsn
        self._logged: dict[Locator, SequenceValue] = {}
        self._copies: tuple[DirectoryCopy, ...] = ()

    def values(self, directory: WalDirectory, sequences: Iterable[Locator], lsn: int) -> dict[Locator, SequenceValue]:
        """Return the values of sequences.

        Args:
            directory: the WAL.
            sequences: their files, as of the LSN; lsn: records that start before it have happened, not before
                :attr:`reached`.

        Raises:
            HeadwaterError: WAL or a file is missing, or malformed.
        """
        self._read(directory, lsn)
        values = {locator: self._logged.get(locator) for locator in sequences}
        unlogged = [locator for locator, value in values.items() if value is None]
        in_copy = {locator: place_at(locator, self._copies, self._copy.start_lsn) for locator in unlogged}
        self._copy.expect_heaps(in_copy.values())
        imaged = {locator for locator in unlogged if not self._copy.has_heap(in_copy[locator])}
        if imaged:
            values |= self._imaged(directory, imaged, lsn)
        for locator in unlogged:
            if values[locator] is None:
                self._copy.require_heap(in_copy[locator], f"the sequence in file {locator}")
                values[locator] = _in_page(self._page(in_copy[locator]), self._copy.start_lsn)
        return {locator: value for locator, value in values.items() if value is not None}

    def _read(self, directory: WalDirectory, lsn: int) -> None:
        """Take in what the WAL says, in its order."""
        for frames in _stretches(directory, self.reached, lsn):
            copies = {made.lsn: made for made in copies_in(frames, directory)}
            managers = frames.data[frames.positions + RMID_AT]
            for index in np.flatnonzero((managers == SEQ) | np.isin(frames.lsns, list(copies))).tolist():
                start, end = int(frames.lsns[index]), int(frames.end_lsns[index])
                if start in copies:
                    self._go_along(copies[start])
                    continue
                data = parse_record(frames.record(index), start, end, directory.major).main_data
                locator = Payload(data, "sequence LOG", start).locator()
                self._logged[locator] = _of_tuple(data[_LOCATOR_BYTES:], start, end)
            self.reached = int(frames.end_lsns[-1])

    def _go_along(self, made: DirectoryCopy) -> None:
        """Let files that were copied have the values that they had where they lay."""
        copy, self._copies = made.copy, (*self._copies, made)
        source, target = (copy.source_tablespace, copy.source_database), (copy.tablespace, copy.database)
        copied = {(*target, file[2]): value for file, value in self._logged.items() if file[:2] == source}
        self._logged = {file: value for file, value in self._logged.items() if file[:2] != target} | copied

    def _imaged(self, directory: WalDirectory, sequences: set[Locator], lsn: int) -> dict[Locator, SequenceValue]:
        """Find the pages of sequences that were logged whole; they are kept for whoever asks next."""
        times = (self._copy.start_lsn, *(made.lsn for made in self._copies), lsn)
        places = {place_at(file, self._copies, time): file for time in times for file in sequences}
        for frames in _stretches(directory, self._copy.start_lsn, lsn):
            for index in np.flatnonzero(_are_images(frames)).tolist():
                start, end = int(frames.lsns[index]), int(frames.end_lsns[index])
                for block in parse_record(frames.record(index), start, end, directory.major).blocks:
                    file = places.get(block.locator)
                    if file is not None and block.image is not None and not (block.fork or block.block):
                        self._logged[file] = _in_page(np.frombuffer(block.image.page(), np.uint8), start, end)
        return {locator: self._logged[locator] for locator in sequences if locator in self._logged}

    def _page(self, locator: Locator) -> NDArray[np.uint8]:
        page = np.zeros(BLCKSZ, np.uint8)
        self._copy.heap_file(locator).read(0, page)
        return page


def sequence_values(
    directory: WalDirectory, copy: DataDirectory, sequences: Mapping[Locator, int], lsn: int
) -> dict[int, SequenceValue]:
    """Read the values of sequences, once.

    Args:
        directory: the WAL; copy: of the cluster.
        sequences: OIDs by their files, as of the LSN; lsn: records that start before it have happened.

    Returns:
        the values by OID.

    Raises:
        HeadwaterError: WAL or a file is missing, or malformed.
    """
    values = SequenceLog(copy).values(directory, sequences, lsn)
    return {sequences[locator]: value for locator, value in values.items()}


def _stretches(directory: WalDirectory, lo: int, hi: int) -> Iterator[Frames]:
    """Give the records that start in a stretch of the WAL, some at a time."""
    while lo < hi:
        frames = read_frames(directory, lo, min(lo + STRETCH_BYTES, hi))
        if not len(frames.lsns):
            return
        yield frames
        lo = int(frames.end_lsns[-1])


def _are_images(frames: Frames) -> NDArray[np.bool_]:
    """Tell which records are whole pages that a statement has logged."""
    info = frames.data[frames.positions + INFO_AT] & XLR_RMGR_INFO_MASK
    are_images: NDArray[np.bool_] = (frames.data[frames.positions + RMID_AT] == XLOG) & (info == xlog.FPI)
    return are_images


def _in_page(page: NDArray[np.uint8], lsn: int, page_lsn: int | None = None) -> SequenceValue:
    """Read a sequence's only page; its LSN is the one in it, if it is not another."""
    if page_lsn is None:
        high, low = _PAGE_LSN.unpack_from(page.data)
        page_lsn = high << 32 | low
    (item,) = struct.unpack_from("<I", page.data, _FIRST_ITEM_AT)
    offset, length = item & _LENGTH_MASK, item >> 17
    return _of_tuple(page[offset : offset + length].tobytes(), lsn, page_lsn)


def _of_tuple(data: bytes, lsn: int, page_lsn: int) -> SequenceValue:
    """Read a sequence's only tuple."""
    at = data[_HEADER_SIZE_AT] if len(data) > _HEADER_SIZE_AT else len(data)
    if len(data) < at + _VALUE.size:
        raise CatalogError(f"the tuple of a sequence has {len(data)} bytes, expected more", lsn=lsn)
    last, _, is_called = _VALUE.unpack_from(data, at)
    return SequenceValue(last, is_called, page_lsn)
