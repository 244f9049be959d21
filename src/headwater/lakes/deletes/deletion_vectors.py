"""Deletion vectors of Delta: bitmaps of deleted rows, in the log or in files (PROTOCOL.md, "Deletion Vector Format").

A vector is four bytes that say so, little endian, and a bitmap. A small one lies in the log itself, in Z85. Others lie
in a file, all of one commit together: a byte for the version, then of each vector its size, big endian, its bytes, and
their CRC-32.

Known gaps: files elsewhere (storage type ``p``), of tables that were cloned.
"""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from headwater.errors import LakeError
from headwater.lakes.deletes.deleted_rows import DeletedRows, Positions, bitmap_of, positions_of
from headwater.lakes.stores.places import Where, folder_at, new_file, open_file, sync_folder

INLINE_BYTES = 512
"""Of a vector that lies in the log, at most. There it costs no file, and what removes files that it takes for nobody's
does not harm it; but all who read the log read it."""

_MAGIC = struct.pack("<I", 1681511377)
_VERSION = b"\x01"
_SIZE = struct.Struct(">I")
_INLINE, _FILE = "i", "u"
_UUID_LETTERS = 20

_BASE85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85, _FROM_Z85 = bytes.maketrans(_BASE85, _Z85), bytes.maketrans(_Z85, _BASE85)


@dataclass(frozen=True)
class DeletionVector(DeletedRows):
    """A vector, as the log names it.

    Attributes:
        place: the table's directory, or its address in a store.
        storage: ``i`` in the log, ``u`` in a file of the table's.
        text: the vector in Z85, or the file's name as the log has it.
        offset: of the vector in the file; None in the log.
        size: bytes of the vector; count: rows that it deletes.
    """

    place: str
    storage: str
    text: str
    offset: int | None
    size: int
    count: int

    @classmethod
    def named(cls, place: Where, noted: Mapping[str, Any]) -> Self:
        """Read what an action of the log says.

        Args:
            place: the table's directory; noted: the descriptor of JSON.

        Raises:
            LakeError: it lies where nothing is read here.
        """
        if noted.get("storageType") not in (_INLINE, _FILE):
            raise LakeError(
                f"a deletion vector of storage type {noted.get('storageType')!r}",
                file=str(place),
                hint="rewrite the table's files with who has made it, or land to another place",
            )
        return cls(
            place=folder_at(place),
            storage=str(noted["storageType"]),
            text=str(noted["pathOrInlineDv"]),
            offset=noted.get("offset"),
            size=int(noted["sizeInBytes"]),
            count=int(noted["cardinality"]),
        )

    @property
    def note(self) -> dict[str, Any]:
        """The descriptor, for JSON."""
        offset = {} if self.offset is None else {"offset": self.offset}
        there = {"storageType": self.storage, "pathOrInlineDv": self.text, **offset}
        return {**there, "sizeInBytes": self.size, "cardinality": self.count}

    @property
    def path(self) -> str | None:
        """The file that it lies in, or its address; None for the log."""
        if self.storage == _INLINE:
            return None
        prefix, name = self.text[:-_UUID_LETTERS], self.text[-_UUID_LETTERS:]
        file = f"deletion_vector_{uuid.UUID(bytes=_of_z85(name))}.bin"
        return "/".join(filter(None, (self.place, prefix, file)))

    def positions(self) -> Positions:
        try:
            content = self._content()
            if content[: len(_MAGIC)] != _MAGIC:
                raise ValueError(f"it begins with {content[: len(_MAGIC)].hex()}")
            positions = positions_of(content[len(_MAGIC) :])
        except (OSError, ValueError, struct.error) as error:
            raise self._damaged(str(error)) from None
        if len(positions) != self.count:
            raise self._damaged(f"it has {len(positions)} rows, not {self.count}")
        return positions

    def _content(self) -> bytes:
        if self.path is None:
            return _of_z85(self.text)[: self.size]
        with open_file(self.path) as file:
            version = file.read(1)
            file.seek(self.offset or 0)
            size = file.read(_SIZE.size)
            content, checksum = bytes(file.read(self.size)), file.read(_SIZE.size)
        if version != _VERSION:
            raise ValueError(f"its file has version {version.hex()}")
        if _SIZE.unpack(size)[0] != self.size or _SIZE.unpack(checksum)[0] != zlib.crc32(content):
            raise ValueError("its size or checksum is another one")
        return content

    def _damaged(self, reason: str) -> LakeError:
        return LakeError(
            f"a deletion vector is damaged: {reason}",
            file=self.path or str(self.place),
            hint="restore the file, or land to another place",
        )


def write_vectors(place: Where, deleted: Mapping[str, Positions]) -> dict[str, DeletionVector]:
    """Write the vectors of a commit; they are on the disk then, or in the store.

    Args:
        place: the table's directory; deleted: all deleted rows of files, by any names of these.

    Returns:
        the vectors, by the same names.

    Raises:
        OSError: they cannot be written.
        LakeError: likewise, in a store.
    """
    contents = {name: _MAGIC + bitmap_of(positions) for name, positions in deleted.items()}
    filed = {name: content for name, content in contents.items() if len(content) > INLINE_BYTES}
    key = uuid.uuid4()
    offsets = _write_file(place, f"deletion_vector_{key}.bin", filed) if filed else {}
    vectors = {}
    for name, content in contents.items():
        offset = offsets.get(name)
        text = _z85(content) if offset is None else _z85(key.bytes)
        storage = _INLINE if offset is None else _FILE
        vectors[name] = DeletionVector(folder_at(place), storage, text, offset, len(content), len(deleted[name]))
    return vectors


def _write_file(place: Where, name: str, contents: Mapping[str, bytes]) -> dict[str, int]:
    """Write vectors to a file; gives where each begins."""
    offsets = {}
    with new_file(f"{folder_at(place)}/{name}") as file:
        file.write(_VERSION)
        for of, content in contents.items():
            offsets[of] = file.tell()
            file.write(_SIZE.pack(len(content)) + content + _SIZE.pack(zlib.crc32(content)))
    sync_folder(place)
    return offsets


def _z85(content: bytes) -> str:
    """Return bytes as text, with zeros behind them up to a multiple of four."""
    return base64.b85encode(content + bytes(-len(content) % 4)).translate(_TO_Z85).decode()


def _of_z85(text: str) -> bytes:
    return base64.b85decode(text.encode().translate(_FROM_Z85))
