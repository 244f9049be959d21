"""The limits of the machine itself: the same WAL read, its checksums computed, the same Parquet written, no more.

WAL is read as it lies in the system's memory, in pieces of 16 MB into memory that is used again. Checksums are CRC-32C
of all its bytes, by the processor's own instruction where there is one, as of each record. Parquet is what has landed,
read back and written once more by pyarrow with the same options, a file to a thread at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cores import cores_said, on_cores
from headwater.lakes.data_files import parquet_options
from headwater.pg.lsn import Lsn
from headwater.wal._crc import words_crc
from headwater.wal.segments.addresses import wal_source
from headwater.wal.segments.directory import WalDirectory
from logs import Log

PIECE_BYTES = 16 << 20
READING, CHECKING = "reading the WAL", "reading it, and CRC"


def limits(log: Log, end: str, files: Sequence[Path], cores: Sequence[int]) -> dict[str, float]:
    """Measure the seconds of each limit, by its name.

    Args:
        log: whose WAL is read, up to an LSN.
        end: it.
        files: of Parquet, as they have landed of it.
        cores: how many, of each way to write them.
    """
    segments = _segments(log, end)
    held = np.zeros(PIECE_BYTES // 8, np.int64)
    words_crc(held, 8)  # compiled, or loaded
    with on_cores(1):
        seconds = {
            READING: _seconds(lambda: _read(segments, held, lambda _: None)),
            CHECKING: _seconds(lambda: _read(segments, held, lambda size: words_crc(held, size))),
        }
    tables = [pq.read_table(file, partitioning=None) for file in files]
    for count in cores:
        with on_cores(count):
            seconds[f"the same Parquet by pyarrow, {cores_said(count)}"] = _seconds(
                partial(_write, tables, log.directory / "written", count)
            )
    return seconds


def _segments(log: Log, end: str) -> list[Path]:
    directory = WalDirectory.scan(wal_source(str(log.wal)))
    lo, hi = Lsn.parse(log.start) - directory.segment_size, Lsn.parse(end)
    return [Path(segment.path) for segment in directory.segments if lo < segment.start_lsn < hi]


def _read(segments: Sequence[Path], held: NDArray[np.int64], look: Callable[[int], object]) -> None:
    memory = held.view(np.uint8).data
    for segment in segments:
        with segment.open("rb", buffering=0) as source:
            while size := source.readinto(memory):
                look(size)


def _write(tables: Sequence[pa.Table], place: Path, threads: int) -> None:
    place.mkdir(exist_ok=True)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda pair: _write_file(pair[1], place / f"{pair[0]}.parquet"), enumerate(tables)))


def _write_file(rows: pa.Table, file: Path) -> None:
    pq.write_table(rows, file, **parquet_options(rows.schema))


def _seconds(work: Callable[[], object]) -> float:
    """Measure the second of two runs: memory and files are there."""
    work()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
