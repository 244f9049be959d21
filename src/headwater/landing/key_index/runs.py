"""Runs: files of entries in the order of their hashes, each an entry of 16 bytes, looked up by blocks.

::

    n entries            hash uint64, file uint32, row uint32; in the order of hashes; blocks of 256 (4096 bytes)
    b first hashes       uint64, of each block
    b checksums          uint32, CRC-32 of each block
    the end              magic, version, n, CRC-32 of the two tables before it, CRC-32 of the end itself

All numbers are little endian. A look-up reads the blocks that may have what is sought, and sees that they are whole.
The file is mapped; what was read of it is let go after some thousand hashes, so that what is resident stays bounded.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headwater.landing.key_index.key_hashes import Hashes

ENTRY = np.dtype([("hash", "<u8"), ("file", "<u4"), ("row", "<u4")])
Entries = NDArray[np.void]

BLOCK = 256
"""Entries."""

_MAGIC, _VERSION = b"hwkeyrun", 1
_END = struct.Struct("<8sIQII")
_SOUGHT = 1 << 13
"""Hashes that are looked up before memory is let go."""
_MERGED = 1 << 20
"""Entries of all runs that are merged at a time, about."""


class DamagedRunError(ValueError):
    """A run is not what was written."""


class Run:
    """A run that is open to be looked up; use it as a context manager, or call :meth:`close`.

    Args:
        path: the file.

    Attributes:
        entries: how many.

    Raises:
        DamagedRunError: it is not whole.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            try:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:
                raise DamagedRunError(f"{path}: it is empty") from None
        self._path = path
        size = len(self._map)
        if size < _END.size:
            raise DamagedRunError(f"{path}: it has {size} bytes")
        magic, version, self.entries, tables, end = _END.unpack(self._map[size - _END.size :])
        blocks = -(-self.entries // BLOCK)
        begin = self.entries * ENTRY.itemsize
        is_whole = size == begin + blocks * 12 + _END.size and (magic, version) == (_MAGIC, _VERSION)
        if not is_whole or end != zlib.crc32(self._map[size - _END.size : size - 4]):
            raise DamagedRunError(f"{path}: its end is damaged")
        content = self._map[begin : begin + blocks * 12]
        if zlib.crc32(content) != tables:
            raise DamagedRunError(f"{path}: the tables of its blocks are damaged")
        self._firsts = np.frombuffer(content, "<u8", blocks)
        self._checksums = np.frombuffer(content, "<u4", blocks, blocks * 8)

    def close(self) -> None:
        """Let the file go."""
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, hashes: Hashes) -> Entries:
        """Return the entries of hashes, in their order.

        Args:
            hashes: ascending, each once.

        Raises:
            DamagedRunError: a block that may have them is damaged.
        """
        if not self.entries:
            return np.zeros(0, ENTRY)
        parts = [self._find(hashes[at : at + _SOUGHT]) for at in range(0, len(hashes), _SOUGHT)]
        return np.concatenate([np.zeros(0, ENTRY), *parts])

    def _find(self, hashes: Hashes) -> Entries:
        low = np.maximum(np.searchsorted(self._firsts, hashes, "left") - 1, 0)
        high = np.maximum(np.searchsorted(self._firsts, hashes, "right") - 1, 0)
        counts = high - low + 1
        inside = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = self._blocks(np.unique(np.repeat(low, counts) + inside))
        # A block is followed by later ones: their entries together are in order, too.
        there = np.ascontiguousarray(rows["hash"])
        begin, end = np.searchsorted(there, hashes, "left"), np.searchsorted(there, hashes, "right")
        lengths = end - begin
        chosen: Entries = rows[np.repeat(end - np.cumsum(lengths), lengths) + np.arange(int(lengths.sum()))]
        return chosen

    def _blocks(self, blocks: NDArray[np.int64]) -> Entries:
        """Return the entries of blocks, ascending, that are seen to be whole."""
        size = BLOCK * ENTRY.itemsize
        end = self.entries * ENTRY.itemsize
        pieces = []
        for number in blocks.tolist():
            piece = self._map[number * size : min((number + 1) * size, end)]
            if zlib.crc32(piece) != self._checksums[number]:
                raise DamagedRunError(f"{self._path}: block {number} is damaged")
            pieces.append(piece)
        self._map.madvise(mmap.MADV_DONTNEED)
        return np.frombuffer(b"".join(pieces), ENTRY)

    def between(self, low: int, high: int) -> Entries:
        """Return the entries with hashes from one on, up to another one that is not among them.

        Raises:
            DamagedRunError: see :meth:`find`.
        """
        if not self.entries:
            return np.zeros(0, ENTRY)
        first = max(int(np.searchsorted(self._firsts, np.uint64(low), "left")) - 1, 0)
        last = len(self._firsts) if high > _MOST else int(np.searchsorted(self._firsts, np.uint64(high), "left"))
        rows = self._blocks(np.arange(first, max(last, first + 1)))
        is_own = rows["hash"] >= np.uint64(low)
        if high <= _MOST:
            is_own &= rows["hash"] < np.uint64(high)
        return rows[is_own]

    @property
    def firsts(self) -> Hashes:
        """The first hashes of the blocks."""
        return self._firsts


_MOST = (1 << 64) - 1


def write_run(path: Path, pieces: Iterable[Entries]) -> int:
    """Write a run; it is whole when that returns, though a loss of power may take it.

    Args:
        path: the file; pieces: entries, all in order.

    Returns:
        how many entries it has.

    Raises:
        OSError: it cannot be written.
    """
    firsts: list[Hashes] = []
    checksums: list[int] = []
    entries = 0
    with open(path, "xb") as file:
        for blocks in _in_blocks(pieces):
            content = blocks.tobytes()
            firsts.append(blocks["hash"][::BLOCK].copy())
            size = BLOCK * ENTRY.itemsize
            checksums += [zlib.crc32(content[at : at + size]) for at in range(0, len(content), size)]
            entries += len(blocks)
            file.write(content)
        tables = np.concatenate([np.zeros(0, "<u8"), *firsts]).tobytes() + np.array(checksums, "<u4").tobytes()
        end = _END.pack(_MAGIC, _VERSION, entries, zlib.crc32(tables), 0)[:-4]
        file.write(tables + end + struct.pack("<I", zlib.crc32(end)))
    return entries


def _in_blocks(pieces: Iterable[Entries]) -> Iterator[Entries]:
    """Yield entries as they come, but in whole blocks, the last one excepted."""
    waiting = np.zeros(0, ENTRY)
    for piece in pieces:
        together = np.concatenate([waiting, piece])
        whole = len(together) // BLOCK * BLOCK
        if whole:
            yield together[:whole]
        waiting = together[whole:]
    if len(waiting):
        yield waiting


def in_order(entries: Entries) -> Entries:
    """Sort entries by their hashes."""
    return entries[np.argsort(np.ascontiguousarray(entries["hash"]))]


def merged(runs: Sequence[Run], living: NDArray[np.uint32]) -> Iterator[Entries]:
    """Yield the entries of several runs in order, a stretch of hashes at a time.

    Args:
        runs: they; living: numbers of the files whose entries stay, ascending.

    Raises:
        DamagedRunError: one is damaged.
    """
    firsts = np.sort(np.concatenate([np.zeros(0, np.uint64), *(run.firsts for run in runs)]))
    bounds = np.unique(firsts[:: max(_MERGED // BLOCK, 1)]).tolist()[1:]
    for low, high in zip([0, *bounds], [*bounds, _MOST + 1], strict=True):
        rows = np.concatenate([run.between(low, high) for run in runs])
        yield in_order(rows[np.isin(rows["file"], living)])
