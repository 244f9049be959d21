"""Position deletes of Iceberg: files that name rows of files by their places (spec, "Position Delete Files").

A file has the path of a file of rows, as manifests have it, and a position there, in the order of both. Those that are
written here are of one file of rows each, and have all of its deleted rows: so a later one takes the place of an
earlier one, and a reader of a file opens one more at most. Others may have written files that are of several; these
stay, and what both say is deleted once.

Which delete files are of which files of rows, sequence numbers say: Iceberg's planning of a scan finds them.

Known gaps: delete files that are no Parquet; files of several files of rows go with who has written them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat

from headwater.base.system_errors import reason_of
from headwater.errors import LakeError
from headwater.lakes.deletes.deleted_rows import DeletedRows, Positions, united
from headwater.lakes.iceberg.numbered_manifests import detail
from headwater.lakes.stores.places import arrow_source, new_file

PATH_ID, POSITION_ID = 2147483546, 2147483545
"""The ids that Iceberg has for the two columns of each such file."""

_PATH, _POSITION = "file_path", "pos"


def _column(name: str, type: pa.DataType, number: int) -> pa.Field[Any]:
    return pa.field(name, type, nullable=False, metadata={"PARQUET:field_id": str(number)})


_COLUMNS = pa.schema([_column(_PATH, pa.string(), PATH_ID), _column(_POSITION, pa.int64(), POSITION_ID)])

_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": [_PATH],
    "column_encoding": {_POSITION: "DELTA_BINARY_PACKED"},
    "write_statistics": False,
    "store_schema": False,
}


@dataclass(frozen=True)
class PositionDeletes(DeletedRows):
    """Rows of a file that delete files name.

    Attributes:
        file: the path of the file of rows, as manifests have it.
        places: paths of the delete files.
        count: how many rows; they are looked at to see that it is so.
    """

    file: str
    places: tuple[str, ...]
    count: int

    def positions(self) -> Positions:
        positions = _read(self.file, self.places)
        if len(positions) != self.count:
            raise _damaged(self.places[0], f"it has {len(positions)} rows of {self.file}, not {self.count}")
        return positions


@dataclass(frozen=True)
class PlacedFile:
    """A file of a table, with what is deleted of its rows.

    Attributes:
        file: it, as manifests have it.
        own: delete files that are of no other file.
        deleted: the rows that these and others name; None for none.
    """

    file: IcebergFile
    own: tuple[IcebergFile, ...] = ()
    deleted: DeletedRows | None = None

    @classmethod
    def of(cls, file: IcebergFile, delete_files: Iterable[IcebergFile]) -> PlacedFile:
        """Take what a scan finds of a file.

        Args:
            file: of rows; delete_files: that concern it.

        Raises:
            LakeError: a delete file cannot be read.
        """
        theirs = sorted(delete_files, key=lambda deletes: deletes.file_path)
        if not theirs:
            return cls(file)
        own = cls.own_of(file, theirs)
        places = tuple(local_path(deletes.file_path) for deletes in theirs)
        for deletes in theirs:
            if deletes.file_format != FileFormat.PARQUET:
                raise LakeError(
                    f"a delete file of format {deletes.file_format.value}",
                    file=deletes.file_path,
                    hint="rewrite the table's files with who has made it, or land to another place",
                )
        is_one = len(theirs) == len(own) == 1
        count = own[0].record_count if is_one else len(_read(file.file_path, places))
        return cls(file, own, PositionDeletes(file.file_path, places, count) if count else None)

    @staticmethod
    def own_of(file: IcebergFile, delete_files: Iterable[IcebergFile]) -> tuple[IcebergFile, ...]:
        """Return the delete files that are of no other file."""
        return tuple(deletes for deletes in delete_files if _is_of(deletes, file))

    def deleting(self, place: str, name: str, positions: Positions) -> PlacedFile:
        """Write a delete file of rows that go, and of those that have gone before.

        It is on the disk then, or in the store.

        Args:
            place: the directory, or its address; name: how its name begins; positions: of rows that were there.

        Raises:
            LakeError: what was deleted before cannot be read; or it cannot be written in a store.
            OSError: it cannot be written.
        """
        every = positions if self.deleted is None else united(self.deleted.positions(), positions)
        path = f"{place}/{name}-{uuid.uuid4().hex}-deletes.parquet"
        written = _write(path, self.file, every)
        return replace(self, own=(written,), deleted=PositionDeletes(self.file.file_path, (path,), len(every)))


def local_path(location: str) -> str:
    """Return the path of a file, by what Iceberg knows it by; in a store that is its address."""
    if "://" in location and not location.startswith("file:"):
        return location
    return "/" + location.removeprefix("file:").lstrip("/")


def _is_of(deletes: IcebergFile, file: IcebergFile) -> bool:
    """Tell whether a delete file is of one file of rows alone: its least and its greatest path are that one's.

    In format 3 it may say so itself.
    """
    path = file.file_path.encode()
    if detail(deletes, "referenced_data_file") == file.file_path:
        return True
    return all((bounds or {}).get(PATH_ID) == path for bounds in (deletes.lower_bounds, deletes.upper_bounds))


def _write(path: str, file: IcebergFile, positions: Positions) -> IcebergFile:
    paths = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int32), [file.file_path])
    rows = pa.table({_PATH: paths.cast(pa.string()), _POSITION: positions}, schema=_COLUMNS)
    with new_file(path) as sink:
        pq.write_table(rows, sink, **_OPTIONS)
        size = sink.tell()
    return _noted(path, file, positions, size)


def _noted(path: str, file: IcebergFile, positions: Positions, size: int) -> IcebergFile:
    """Return a delete file as manifests have it, with whole paths as bounds: by these it is known whose it is."""
    least, most = (int(position).to_bytes(8, "little") for position in (positions[0], positions[-1]))
    of = file.file_path.encode()
    made = IcebergFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=file.partition,
        record_count=len(positions),
        file_size_in_bytes=size,
        lower_bounds={PATH_ID: of, POSITION_ID: least},
        upper_bounds={PATH_ID: of, POSITION_ID: most},
    )
    made.spec_id = file.spec_id
    return made


def _read(file: str, places: Iterable[str]) -> Positions:
    """Read the rows of a file that delete files name, each once."""
    parts = [_read_one(file, place) for place in places]
    return np.unique(np.concatenate(parts)) if len(parts) > 1 else parts[0]


def _read_one(file: str, place: str) -> Positions:
    try:
        with pq.ParquetFile(arrow_source(place)) as there:
            rows = there.read(columns=[_PATH, _POSITION])
        chosen = rows.filter(pc.equal(rows[_PATH], pa.scalar(file)))[_POSITION]
        positions: Positions = chosen.to_numpy().astype(np.int64)
    except OSError as error:
        raise _damaged(place, reason_of(error)) from None
    except (pa.ArrowException, KeyError) as error:
        raise _damaged(place, str(error)) from None
    return np.unique(positions)


def _damaged(place: str, reason: str) -> LakeError:
    return LakeError(
        f"a delete file is damaged: {reason}", file=place, hint="restore the file, or land to another place"
    )
