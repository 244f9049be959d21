"""The records of the WAL as rows, one a record: the columns of ``pg_get_wal_records_info`` (``pg_walinspect``).

In: framed records. Out: Arrow batches in LSN order. No catalog is needed: a record is described in the server's words.
Times in descriptions are in UTC. Bytes of names that are no UTF-8 are replaced, as a column of text can hold none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.pg.version import VERSIONS
from headwater.rmgr.description import block_ref, description, kind_name, manager_name
from headwater.rmgr.description_parts import Style, utc_stamp
from headwater.rmgr.outline import RecordChoice, chosen_records, outline
from headwater.wal.records.frames import Frames

_COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("start_lsn", pa.int64(), "BIGINT"),
    ("end_lsn", pa.int64(), "BIGINT"),
    ("prev_lsn", pa.int64(), "BIGINT"),
    ("xid", pa.int64(), "BIGINT"),
    ("resource_manager", pa.string(), "STRING"),
    ("record_type", pa.string(), "STRING"),
    ("record_length", pa.int32(), "INT"),
    ("main_data_length", pa.int32(), "INT"),
    ("fpi_length", pa.int32(), "INT"),
    ("description", pa.string(), "STRING"),
    ("block_ref", pa.string(), "STRING"),
)

SPARK_COLUMNS = ", ".join(f"{name} {type}" for name, _, type in _COLUMNS)
"""The columns as a Spark DDL string."""

ARROW_SCHEMA = pa.schema([(name, type) for name, type, _ in _COLUMNS])

BATCH_ROWS = 8192
"""Rows of a batch: a description can be as long as a record."""


def record_batches(frames: Frames, segment_size: int, choice: RecordChoice, major: int) -> Iterator[pa.RecordBatch]:
    """Give the chosen records as rows.

    Args:
        frames: the records.
        segment_size: bytes.
        choice: says which of them.
        major: PostgreSQL's.

    Raises:
        RecordError: a record is malformed, or of an unknown kind.
    """
    records_outline = outline(frames, segment_size, major, choice)
    rows = np.flatnonzero(records_outline.is_chosen)
    records = chosen_records(frames, records_outline, major)
    style = Style(VERSIONS[major], utc_stamp)
    for start in range(0, len(rows), BATCH_ROWS):
        positions = rows[start : start + BATCH_ROWS]
        words = [
            (
                kind_name(major, record.rmid, record.info, record.lsn),
                len(record.main_data),
                _text(description(record, style)),
                block_ref(record, style.version),
            )
            for record in islice(records, len(positions))
        ]
        types, main_lengths, descriptions, blocks = zip(*words, strict=True)
        columns: list[Iterable[Any]] = [
            frames.lsns[positions],
            frames.end_lsns[positions],
            records_outline.prev[positions],
            records_outline.xid[positions],
            [manager_name(rmid) for rmid in records_outline.rmid[positions].tolist()],
            types,
            records_outline.length[positions],
            main_lengths,
            records_outline.image_bytes[positions],
            descriptions,
            blocks,
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def _text(shown: str) -> str:
    return shown if shown.isascii() else shown.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
