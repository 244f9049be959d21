"""DuckLake's delete files: positions of rows of a file, in a Parquet file beside it (specification, ``DELETE``).

A file of rows has at most one in a snapshot, with all of its deleted rows. DuckDB's own may say of each row in which
snapshot it went (``partial_max``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.base.system_errors import reason_of
from headwater.errors import LakeError
from headwater.lakes.deletes.deleted_rows import DeletedRows, Positions
from headwater.lakes.stores.places import arrow_source, is_address, new_file, path_at

PATH_ID, POSITION_ID = 2147483646, 2147483645
"""The numbers of the two columns of each such file."""

_PATH, _POSITION, _SNAPSHOT = "file_path", "pos", "_ducklake_internal_snapshot_id"
_TAIL = struct.Struct("<I4s")


def _column(name: str, type: pa.DataType, number: int) -> pa.Field[Any]:
    return pa.field(name, type, metadata={"PARQUET:field_id": str(number)})


_COLUMNS = pa.schema([_column(_PATH, pa.string(), PATH_ID), _column(_POSITION, pa.int64(), POSITION_ID)])
_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": [_PATH],
    "column_encoding": {_POSITION: "DELTA_BINARY_PACKED"},
    "store_schema": False,
}


@dataclass(frozen=True)
class PlacedDeletes(DeletedRows):
    """Rows of a file that a delete file names.

    Attributes:
        place: the delete file's path.
        count: how many rows.
        snapshot: those that went until then; None for all.
    """

    place: str
    count: int
    snapshot: int | None = None

    def positions(self) -> Positions:
        positions = _read(self.place, self.snapshot)
        if self.snapshot is None and len(positions) != self.count:
            raise _damaged(self.place, f"it has {len(positions)} rows, not {self.count}")
        return positions


def write_deletes(path: str, of: str, positions: Positions) -> int:
    """Write a delete file, which is on the disk then; return its size in bytes.

    Args:
        path: its own, on this machine or an address in a store; of: the path of the file of rows.
        positions: all of its rows that are deleted.

    Raises:
        OSError: it cannot be written; LakeError: likewise, in a store.
    """
    paths = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int32), [of])
    rows = pa.table({_PATH: paths.cast(pa.string()), _POSITION: positions}, schema=_COLUMNS)
    with new_file(path) as sink:
        pq.write_table(rows, sink, **_OPTIONS)
        return int(sink.tell())


def footer_size(path: str, size: int) -> int:
    """Return the bytes of a Parquet file's footer.

    Args:
        path: the file's, or its address in a store; size: its bytes.

    Raises:
        OSError: it cannot be read; LakeError: likewise, in a store.
    """
    begin = size - _TAIL.size
    if is_address(path):
        place = path_at(path)
        with place.store.errors(place.key, "read"):
            tail = place.store.files.cat_file(f"{place.store.bucket}/{place.key}", start=begin, end=size)
    else:
        with open(path, "rb") as file:
            file.seek(begin)
            tail = file.read()
    footer, _magic = _TAIL.unpack(tail)
    return int(footer)


def _read(place: str, snapshot: int | None) -> Positions:
    try:
        with pq.ParquetFile(arrow_source(place)) as there:
            rows = there.read()
        if snapshot is not None and _SNAPSHOT in rows.column_names:
            rows = rows.filter(pc.less_equal(rows[_SNAPSHOT], pa.scalar(snapshot)))
        return np.unique(rows[_POSITION].to_numpy().astype(np.int64))
    except OSError as error:
        raise _damaged(place, reason_of(error)) from None
    except (pa.ArrowException, KeyError) as error:
        raise _damaged(place, str(error)) from None


def _damaged(place: str, reason: str) -> LakeError:
    return LakeError(
        f"a delete file is damaged: {reason}", file=place, hint="restore the file, or land to another place"
    )
