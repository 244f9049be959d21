"""Hash functions of types, by which tables are divided: ``hashtext(name) % 4 = 0``.

PostgreSQL: ``hashfunc.c``, ``hashfn.c``; those of a date, of a bool and of a bytea can be called from 18 on.

Known gaps: hashes of numeric, "char", interval, timetz, networks, arrays, ranges and jsonb.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from headwater.filters.functions import Context, each, register
from headwater.pg.catcache_hashes import hash_any, hash_any_extended

Key: TypeAlias = Callable[[Any], bytes | None]
"""The function from a value to the bytes that are hashed; None where the hash is 0, or the seed."""


def _word(value: int) -> bytes:
    return (value & 0xFFFFFFFF).to_bytes(4, "little")


def _int8(value: int) -> bytes:
    """Return the bytes of an int8, those of an int4 if it fits one; unsigned numbers are taken for signed ones."""
    value = value - (1 << 64) if value >= 1 << 63 else value
    high = value >> 32
    return _word(value ^ (high if value >= 0 else ~high))


def _float(value: float) -> bytes | None:
    if value == 0:
        return None
    return struct.pack("<d", math.nan if math.isnan(value) else value)


def _hash(key: Key) -> Callable[[Context, Any], int]:
    def compute(_: Context, value: Any) -> int:
        payload = key(value)
        return 0 if payload is None else (hash_any(payload) ^ 1 << 31) - (1 << 31)

    return compute


def _extended(key: Key) -> Callable[[Context, Any, int], int]:
    def compute(_: Context, value: Any, seed: int) -> int:
        payload = key(value)
        unsigned = seed % (1 << 64) if payload is None else hash_any_extended(payload, seed % (1 << 64))
        return (unsigned ^ 1 << 63) - (1 << 63)

    return compute


_KEYS: dict[str, Key] = {
    "hashint2 hashint4 hashoid hashdate hashbool hashxid": _word,
    "hashint8 time_hash timestamp_hash timestamptz_hash pg_lsn_hash hashxid8": _int8,
    "hashfloat4 hashfloat8": _float,
    "hashtext hashname uuid_hash hashbytea": lambda value: bytes(value),
    "hashbpchar": lambda value: bytes(value.rstrip(b" ")),
}

for _names, _key in _KEYS.items():
    for _name in _names.split():
        register(_name, each(_hash(_key)))
        register(f"{_name}_extended" if "_" in _name else f"{_name}extended", each(_extended(_key)))
