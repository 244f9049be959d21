"""Deletion vectors of Iceberg's format 3: bitmaps of deleted rows, in Puffin files (Puffin spec, "deletion-vector-v1").

A vector is of one file of rows, and has all of its rows that are deleted: so a later one takes the place of an earlier
one. It is what Delta's vectors are: its length, big endian, four bytes that say what it is, a bitmap, and the CRC-32 of
these. All vectors of a commit lie in one file, between its first bytes and a footer of JSON that says where each is.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from pyiceberg.manifest import DATA_FILE_TYPE, DataFileContent, FileFormat
from pyiceberg.manifest import DataFile as IcebergFile

from headwater.errors import LakeError
from headwater.lakes.deletes.deleted_rows import DeletedRows, Positions, bitmap_of, positions_of, united
from headwater.lakes.deletes.position_deletes import PATH_ID, PlacedFile, local_path
from headwater.lakes.iceberg.format_version import THIRD
from headwater.lakes.iceberg.numbered_manifests import detail
from headwater.lakes.stores.places import new_file, open_file

_FILE_MAGIC = b"PFA1"
_MAGIC = bytes.fromhex("d1d33964")
_SIZE, _FOOTER = struct.Struct(">I"), struct.Struct("<i4x")
_ROW_POSITION_ID = 2147483645
_OVERHEAD = 2 * _SIZE.size


@dataclass(frozen=True)
class PuffinVector(DeletedRows):
    """Rows of a file that a vector names.

    Attributes:
        place: the path of the Puffin file, or its address.
        offset, size: of the vector there, in bytes.
        count: how many rows.
    """

    place: str
    offset: int
    size: int
    count: int

    @classmethod
    def of(cls, vector: IcebergFile) -> Self:
        """Take what a manifest says of a vector."""
        offset, size = (detail(vector, name) for name in ("content_offset", "content_size_in_bytes"))
        if offset is None or size is None:
            raise _damaged(vector.file_path, "the manifest does not say where in it the vector is")
        return cls(local_path(vector.file_path), int(offset), int(size), vector.record_count)

    def positions(self) -> Positions:
        try:
            with open_file(self.place) as file:
                file.seek(self.offset)
                positions = positions_of(_bitmap(bytes(file.read(self.size)), self.size))
        except (OSError, ValueError, struct.error) as error:
            raise _damaged(self.place, str(error)) from None
        if len(positions) != self.count:
            raise _damaged(self.place, f"it has {len(positions)} rows, not {self.count}")
        return positions


def _bitmap(blob: bytes, size: int) -> bytes:
    """Take a vector out of what is around it.

    Raises:
        ValueError: that is another.
    """
    if len(blob) != size or size < _OVERHEAD + len(_MAGIC):
        raise ValueError(f"the file has {len(blob)} bytes of it, not {size}")
    content, checksum = blob[_SIZE.size : -_SIZE.size], blob[-_SIZE.size :]
    if content[: len(_MAGIC)] != _MAGIC:
        raise ValueError(f"it begins with {content[: len(_MAGIC)].hex()}")
    if _SIZE.unpack(blob[: _SIZE.size])[0] != len(content) or _SIZE.unpack(checksum)[0] != zlib.crc32(content):
        raise ValueError("its size or checksum is another one")
    return content[len(_MAGIC) :]


def _damaged(place: str, reason: str) -> LakeError:
    return LakeError(
        f"a deletion vector is damaged: {reason}", file=place, hint="restore the file, or land to another place"
    )


def with_vectors(
    place: str, name: str, files: Mapping[str, PlacedFile], deleted: Mapping[str, Positions]
) -> dict[str, PlacedFile]:
    """Write the vectors of a commit: rows that go, and those of the same files that have gone before.

    They are on the disk then, or in the store.

    Args:
        place: the directory, or its address; name: how the file's name begins.
        files: of rows, as they are; deleted: rows that were there, by the same names.

    Returns:
        the files as they are then, by these names.

    Raises:
        LakeError: what was deleted before cannot be read; or it cannot be written in a store.
        OSError: it cannot be written.
    """
    if not deleted:
        return {}
    every = {key: _every(files[key], positions) for key, positions in deleted.items()}
    path = f"{place}/{name}-{uuid.uuid4().hex}-deletes.puffin"
    blobs = {key: _blob(positions) for key, positions in every.items()}
    offsets, size = _write(path, {files[key].file.file_path: blob for key, blob in blobs.items()}, every.values())
    changed = {}
    for key, blob in blobs.items():
        file, count = files[key].file, len(every[key])
        vector = PuffinVector(path, offsets[file.file_path], len(blob), count)
        changed[key] = replace(files[key], own=(_noted(vector, file, size),), deleted=vector)
    return changed


def _every(file: PlacedFile, positions: Positions) -> Positions:
    return positions if file.deleted is None else united(file.deleted.positions(), positions)


def _blob(positions: Positions) -> bytes:
    content = _MAGIC + bitmap_of(positions)
    return _SIZE.pack(len(content)) + content + _SIZE.pack(zlib.crc32(content))


def _write(path: str, blobs: Mapping[str, bytes], every: Any) -> tuple[dict[str, int], int]:
    """Write a Puffin file of vectors, by the paths of their files of rows; gives where each begins, and its size."""
    offsets, notes = {}, []
    with new_file(path) as file:
        file.write(_FILE_MAGIC)
        for (of, blob), positions in zip(blobs.items(), every, strict=True):
            offsets[of] = file.tell()
            notes.append(_blob_note(of, offsets[of], len(blob), len(positions)))
            file.write(blob)
        footer = json.dumps({"blobs": notes, "properties": {"created-by": "headwater"}}).encode()
        file.write(_FILE_MAGIC + footer + _FOOTER.pack(len(footer)) + _FILE_MAGIC)
        return offsets, file.tell()


def _blob_note(of: str, offset: int, length: int, count: int) -> dict[str, Any]:
    """Return what the footer says of a vector."""
    return {
        "type": "deletion-vector-v1",
        "fields": [_ROW_POSITION_ID],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": offset,
        "length": length,
        "properties": {"referenced-data-file": of, "cardinality": str(count)},
    }


def _noted(vector: PuffinVector, file: IcebergFile, size: int) -> IcebergFile:
    """Return a vector as manifests have it; by the bounds, pyiceberg's readers know which file it is of."""
    bounds = {PATH_ID: file.file_path.encode()}
    made = IcebergFile(
        *[
            {
                "content": DataFileContent.POSITION_DELETES,
                "file_path": vector.place,
                "file_format": FileFormat.PUFFIN,
                "partition": file.partition,
                "record_count": vector.count,
                "file_size_in_bytes": size,
                "lower_bounds": bounds,
                "upper_bounds": bounds,
                "referenced_data_file": file.file_path,
                "content_offset": vector.offset,
                "content_size_in_bytes": vector.size,
            }.get(field.name)
            for field in DATA_FILE_TYPE[THIRD].fields
        ]
    )
    made.spec_id = file.spec_id
    return made
