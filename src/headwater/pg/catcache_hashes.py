"""The hashes by which invalidation messages of catalog caches name rows (CatalogCacheComputeHashValue of catcache.c).

The key of a cache is hashed: a name as bytes (``namehashfast``: ``hash_bytes`` of common/hashfn.c, which is Bob
Jenkins' lookup3), an OID as a number (``int4hashfast``: ``murmurhash32`` of common/hashfn.h). No two numbers have the
same hash, so a hash tells which OID is meant.
"""

from __future__ import annotations

_WORD = 0xFFFFFFFF
_START = 0x9E3779B9 + 3923095
_MURMUR = 0x85EBCA6B, 0xC2B2AE35
_MURMUR_INVERSES = tuple(pow(factor, -1, 1 << 32) for factor in _MURMUR)


def hash_any(key: bytes) -> int:
    """Compute the 32-bit hash of some bytes, as a little-endian server does."""
    return hash_any_extended(key, 0) & _WORD


def hash_any_extended(key: bytes, seed: int) -> int:
    """Compute the 64-bit hash of some bytes with a seed (hash_bytes_extended).

    Without a seed its low half is the 32-bit hash.

    Args:
        key: the bytes.
        seed: 64 bits, unsigned.
    """
    a = b = c = (_START + len(key)) & _WORD
    if seed:
        a, b, c = _mix(*_added(a, b, c, (seed >> 32 | (seed & _WORD) << 32).to_bytes(8, "little") + bytes(4)))
    whole = len(key) // 12 * 12
    for at in range(0, whole, 12):
        a, b, c = _mix(*_added(a, b, c, key[at : at + 12]))
    # The lowest byte of the last word is left to the length.
    rest = key[whole:]
    high, low = _final(*_added(a, b, c, rest[:8].ljust(8, b"\0") + b"\0" + rest[8:].ljust(3, b"\0")))
    return high << 32 | low


def hash_oid(oid: int) -> int:
    """Compute the 32-bit hash of an OID."""
    first, second = _MURMUR
    word = (oid ^ oid >> 16) * first & _WORD
    word = (word ^ word >> 13) * second & _WORD
    return word ^ word >> 16


def hash_oids(first: int, second: int) -> int:
    """Compute the 32-bit hash of a key of two OIDs."""
    return _rotated(hash_oid(second), 8) ^ hash_oid(first)


def oid_of_hash(value: int) -> int:
    """Return the OID that has a hash."""
    first, second = _MURMUR_INVERSES
    word = (value ^ value >> 16) * second & _WORD
    word = (word ^ word >> 13 ^ word >> 26) * first & _WORD
    return word ^ word >> 16


def _added(a: int, b: int, c: int, block: bytes) -> tuple[int, int, int]:
    """Add 12 bytes to the state."""
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


def _final(a: int, b: int, c: int) -> tuple[int, int]:
    """Compute the two words of the hash from the state."""
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _rotated(b, bits) & _WORD
        a, b, c = b, c, a
    return a, b
