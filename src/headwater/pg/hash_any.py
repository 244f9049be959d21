"""The hash that PostgreSQL names bytes by (``hash_bytes`` of common/hashfn.c, which is Bob Jenkins' lookup3).

Invalidation messages of catalog caches name a row by the hash of its key: for a name, of its bytes
(``namehashfast`` of utils/cache/catcache.c).
"""

from __future__ import annotations

_WORD = 0xFFFFFFFF
_START = 0x9E3779B9 + 3923095


def hash_any(key: bytes) -> int:
    """The 32-bit hash of some bytes, as a little-endian server computes it."""
    a = b = c = (_START + len(key)) & _WORD
    whole = len(key) // 12 * 12
    for at in range(0, whole, 12):
        a, b, c = _mix(*_added(a, b, c, key[at : at + 12]))
    # The lowest byte of the last word is left to the length.
    rest = key[whole:]
    return _final(*_added(a, b, c, rest[:8].ljust(8, b"\0") + b"\0" + rest[8:].ljust(3, b"\0")))


def _added(a: int, b: int, c: int, block: bytes) -> tuple[int, int, int]:
    """The state with 12 bytes added to it."""
    words = (int.from_bytes(block[at : at + 4], "little") for at in (0, 4, 8))
    x, y, z = ((old + word) & _WORD for old, word in zip((a, b, c), words, strict=True))
    return x, y, z


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _WORD


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for bits in (4, 6, 8, 16, 19, 4):
        a = (a - c & _WORD) ^ _rotated(c, bits)
        a, b, c = b, c + b & _WORD, a
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _rotated(b, bits) & _WORD
        a, b, c = b, c, a
    return b
