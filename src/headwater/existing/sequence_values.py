"""The values of sequences as of an LSN: where a server would have them that is restored up to there.

In: a copy of a cluster, and the WAL between it and the LSN. Out: a value a sequence. A server logs a value some ahead
of the one that it gave last (SEQ_LOG_VALS), and does not log each: so the value may be up to 32 steps further than the
one that was given last. It never is behind, so none is given twice.

PostgreSQL: commands/sequence.c (nextval_internal, seq_redo).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.pages import BLCKSZ
from headwater.errors import CatalogError
from headwater.existing.page_history import Locator
from headwater.rmgr.payload import Payload
from headwater.rmgr.registry import SEQ
from headwater.wal.records.frames import read_frames
from headwater.wal.records.record import parse_record
from headwater.wal.segments.directory import WalDirectory

STRETCH_BYTES = 64 << 20
"""WAL that is read at a time."""

_RMID_AT, _FIRST_ITEM_AT, _LENGTH_MASK = 17, 24, 0x7FFF
_HEADER_SIZE_AT, _LOCATOR_BYTES = 22, 12
_VALUE = struct.Struct("<qq?")


@dataclass(frozen=True)
class SequenceValue:
    """The value of a sequence.

    Attributes:
        last: ``last_value``; is_called: it has been given, so that the next one follows it.
    """

    last: int
    is_called: bool


def sequence_values(
    directory: WalDirectory, copy: DataDirectory, sequences: Mapping[Locator, int], lsn: int
) -> dict[int, SequenceValue]:
    """Read the values of sequences.

    Args:
        directory: the WAL; copy: of the cluster.
        sequences: OIDs by their files, as of the LSN; lsn: records that start before it have happened.

    Returns:
        the values by OID.

    Raises:
        HeadwaterError: WAL or a file is missing, or malformed.
    """
    values = dict(_logged(directory, copy.start_lsn, lsn, sequences))
    copy.expect_heaps(locator for locator, oid in sequences.items() if oid not in values)
    for locator, oid in sequences.items():
        if oid not in values:
            copy.require_heap(locator, f"sequence {oid}")
            values[oid] = _in_page(copy, locator)
    return values


def _logged(
    directory: WalDirectory, lo: int, hi: int, sequences: Mapping[Locator, int]
) -> Iterator[tuple[int, SequenceValue]]:
    """Give what the WAL says of sequences, in its order."""
    while lo < hi:
        frames = read_frames(directory, lo, min(lo + STRETCH_BYTES, hi))
        if not len(frames.lsns):
            return
        for index in np.flatnonzero(frames.data[frames.positions + _RMID_AT] == SEQ).tolist():
            start, end = int(frames.lsns[index]), int(frames.end_lsns[index])
            data = parse_record(frames.record(index), start, end, directory.major).main_data
            oid = sequences.get(_locator(data, start))
            if oid is not None:
                yield oid, _of_tuple(data[_LOCATOR_BYTES:], start)
        lo = int(frames.end_lsns[-1])


def _locator(data: bytes, lsn: int) -> Locator:
    return Payload(data, "sequence LOG", lsn).locator()


def _in_page(copy: DataDirectory, locator: Locator) -> SequenceValue:
    page = np.zeros(BLCKSZ, np.uint8)
    copy.heap_file(locator).read(0, page)
    (item,) = struct.unpack_from("<I", page.data, _FIRST_ITEM_AT)
    offset, length = item & _LENGTH_MASK, item >> 17
    return _of_tuple(page[offset : offset + length].tobytes(), copy.start_lsn)


def _of_tuple(data: bytes, lsn: int) -> SequenceValue:
    """Read a sequence's only tuple."""
    at = data[_HEADER_SIZE_AT] if len(data) > _HEADER_SIZE_AT else len(data)
    if len(data) < at + _VALUE.size:
        raise CatalogError(f"the tuple of a sequence has {len(data)} bytes, expected more", lsn=lsn)
    last, _, is_called = _VALUE.unpack_from(data, at)
    return SequenceValue(last, is_called)
