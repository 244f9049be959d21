"""A value in a file that is whole or not there: written beside its place, synced, renamed; with a checksum.

The layout: magic, version of the format, CRC-32 of the rest, its length; then the value
(:mod:`headwater.base.value_codec`).
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import TypeVar

from headwater.base.system_errors import errors_as
from headwater.base.value_codec import read_value, shape_digest, value_bytes
from headwater.base.whole_files import write_whole
from headwater.errors import FlatValueError, SlotError

T = TypeVar("T")

_MAGIC = b"HEADWATR"
_VERSION = 9
_HEAD = struct.Struct("<8sIIQ40x")
"""64 bytes, so that arrays of the value stay aligned."""


def save_value(path: Path, value: object) -> None:
    """Put a value in the place of a file, or of nothing.

    Args:
        path: the file.
        value: a record that :mod:`headwater.base.value_codec` can write.

    Raises:
        SlotError: it cannot be written; what was there is there still.
    """
    with errors_as(SlotError, "write", path):
        write_whole(path, value_pieces(value), 0o600)


def value_pieces(value: object) -> list[bytes]:
    """Return the bytes of a file that has a value."""
    data = value_bytes(value)
    return [_HEAD.pack(_MAGIC, _VERSION, zlib.crc32(data), len(data)), data]


def format_of(kind: type) -> bytes:
    """Return what tells files of this format, with values of this type, from those of any other release."""
    return _HEAD.pack(_MAGIC, _VERSION, 0, 0) + shape_digest(kind)


def is_value_file(path: Path) -> bool:
    """Tell whether a file begins as the files of :func:`save_value` do."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def load_value(path: Path, kind: type[T]) -> T:
    """Return the value of a file.

    Raises:
        SlotError: there is none, or it is damaged, or of another version.
    """
    with errors_as(SlotError, "read", path):
        raw = bytearray(path.read_bytes())
    return value_of(raw, kind, str(path))


def value_of(raw: bytearray, kind: type[T], file: str) -> T:
    """Return the value in the bytes of a file.

    Args:
        raw: they; kind: of the value; file: what errors name.

    Raises:
        SlotError: they are damaged, or of another version.
    """
    if len(raw) < _HEAD.size or raw[:8] != _MAGIC:
        raise SlotError("not a file that headwater has written", file=file)
    _, version, checksum, length = _HEAD.unpack_from(raw)
    if version != _VERSION:
        raise SlotError(f"the file has format version {version}, expected {_VERSION}", file=file)
    data = memoryview(raw)[_HEAD.size :]
    if len(data) != length or zlib.crc32(data) != checksum:
        actual = f"found {len(data)} bytes with checksum {zlib.crc32(data):08X}"
        raise SlotError(f"damaged: {actual}, expected {length} with {checksum:08X}", file=file)
    try:
        return read_value(kind, data)
    except FlatValueError as error:
        raise SlotError(error.message, file=file, hint="it was written by another version of headwater") from None
