"""The server's conversions between encodings, character by character, as a server made them.

PostgreSQL: ``pg_conversion`` (which there are), ``utils/mb/conversion_procs`` (what they make). They differ from those
of Python, also in encodings of the same name. They are the same in 14 to 19, but that 19 has no MULE_INTERNAL.

``conversions.zip`` is written by ``tools/generate_conversions.py``. Each conversion from an encoding that a database
can have is a member ``FROM-TO`` with its characters beyond ASCII, as :func:`pack` packs them. The member of a
conversion from UTF8 whose other direction is there has only what differs from that direction turned round. ASCII is the
same in all encodings.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

_FILE = Path(__file__).with_name("conversions.zip")
_KEY_PLANES, _VALUE_PLANES = 6, 6
_TURNED, _WHOLE = b"-", b"="
NOTHING = 0
"""Stands in place of a character where there is none."""


def is_converted(source: str, target: str) -> bool:
    """Tell whether there is a conversion from an encoding of databases to another encoding."""
    return f"{source}-{target}" in _members()


@cache
def _members() -> frozenset[str]:
    with ZipFile(_FILE) as members:
        return frozenset(members.namelist())


@lru_cache(maxsize=4)
def conversion(source: str, target: str) -> tuple[Int64s, Int64s]:
    """Read characters beyond ASCII and what they become, each as its bytes in a number, the first byte highest.

    Args:
        source: encoding of a database.
        target: the other one.

    Returns:
        int64[n] ascending, int64[n]. Two characters of UTF8 may together be one of `target`, or the other way round.

    Raises:
        KeyError: there is no such conversion.
    """
    with ZipFile(_FILE) as members:
        packed = members.read(f"{source}-{target}")
    keys, values = _unpacked(packed[1:])
    if packed[:1] == _TURNED:
        keys, values = changed(*turned(*conversion(target, source)), keys, values)
    return keys, values


def turned(keys: Int64s, values: Int64s) -> tuple[Int64s, Int64s]:
    """Turn a conversion round; where several characters become the same one, take the first of them."""
    targets, first = np.unique(values, return_index=True)
    return targets, keys[first]


def changed(keys: Int64s, values: Int64s, new_keys: Int64s, new_values: Int64s) -> tuple[Int64s, Int64s]:
    """Put other characters, or NOTHING, in the place of some."""
    is_unchanged = ~np.isin(keys, new_keys)
    there = new_values != NOTHING
    all_keys, all_values = (
        np.concatenate(two)
        for two in ((keys[is_unchanged], new_keys[there]), (values[is_unchanged], new_values[there]))
    )
    order = np.argsort(all_keys)
    return all_keys[order], all_values[order]


def pack(keys: Int64s, values: Int64s, is_turned: bool = False) -> bytes:
    """Pack characters as :func:`conversion` reads them.

    Args:
        keys: ascending.
        values: as many.
        is_turned: only the changes to the other direction.
    """
    planes = [*_planes(keys, _KEY_PLANES), *_planes(values, _VALUE_PLANES)]
    return (_TURNED if is_turned else _WHOLE) + zlib.compress(b"".join(planes), 9)


def _planes(numbers: Int64s, count: int) -> list[bytes]:
    """Split differences, signs in their lowest bits, into planes: all lowest bytes, all second ones, and so on."""
    steps = np.diff(numbers, prepend=0)
    folded = steps << 1 ^ steps >> 63
    return [(folded >> 8 * plane & 0xFF).astype(np.uint8).tobytes() for plane in range(count + 1)]


def _unpacked(packed: bytes) -> tuple[Int64s, Int64s]:
    planes = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(_KEY_PLANES + _VALUE_PLANES + 2, -1)
    keys, values = planes[: _KEY_PLANES + 1], planes[_KEY_PLANES + 1 :]
    return _numbers(keys), _numbers(values)


def _numbers(planes: NDArray[np.uint8]) -> Int64s:
    folded = np.zeros(planes.shape[1], np.int64)
    for plane, part in enumerate(planes):
        folded |= part.astype(np.int64) << 8 * plane
    return np.cumsum(folded >> 1 ^ -(folded & 1), dtype=np.int64)


def as_bytes(number: int) -> bytes:
    """Return the bytes that a number stands for."""
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def characters(source: str, target: str) -> Iterator[tuple[bytes, bytes]]:
    """Give characters beyond ASCII and what they become, as bytes; see :func:`conversion`."""
    for key, value in zip(*(numbers.tolist() for numbers in conversion(source, target)), strict=True):
        yield as_bytes(key), as_bytes(value)
