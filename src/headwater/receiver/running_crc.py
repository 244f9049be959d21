"""CRC-32C of data that comes in pieces: those of the pieces, joined.

The CRC of two stretches is that of the first, carried over as many zero bytes as the second has, xor the second's.
Carrying over zeros is linear: an operator of 32 rows for each length, kept, as pieces have few lengths.

Sources: zlib's crc32_combine; the polynomial is Castagnoli's, reflected.
"""

from __future__ import annotations

from functools import cache

from headwater.wal.checksum import CASTAGNOLI, crc32c

PIECE = 1 << 20
"""Bytes that are summed up at a time."""

_Operator = tuple[int, ...]
"""Images of the 32 bits."""


class RunningCrc:
    """The CRC-32C of what was added so far."""

    def __init__(self) -> None:
        self._crc = 0
        self._rest = bytearray()

    def add(self, data: bytes) -> None:
        """Add bytes."""
        self._rest += data
        while len(self._rest) >= PIECE:
            self._join(bytes(self._rest[:PIECE]))
            del self._rest[:PIECE]

    def value(self) -> int:
        """Return the CRC, 32 bits; nothing may be added afterwards."""
        if self._rest:
            self._join(bytes(self._rest))
            self._rest.clear()
        return self._crc

    def _join(self, data: bytes) -> None:
        self._crc = _apply(_over_zeros(len(data)), self._crc) ^ crc32c(data)


def _apply(operator: _Operator, value: int) -> int:
    result = 0
    for image in operator:
        if value & 1:
            result ^= image
        value >>= 1
    return result


def _after(first: _Operator, second: _Operator) -> _Operator:
    """Return the operator that does both."""
    return tuple(_apply(second, image) for image in first)


@cache
def _over_bit_power(power: int) -> _Operator:
    """Carry a CRC over 2^power zero bits."""
    if power == 0:
        return (CASTAGNOLI, *(1 << bit for bit in range(31)))
    half = _over_bit_power(power - 1)
    return _after(half, half)


@cache
def _over_zeros(size: int) -> _Operator:
    """Carry a CRC over zero bytes."""
    operator = tuple(1 << bit for bit in range(32))
    for power in range(size.bit_length()):
        if size >> power & 1:
            operator = _after(operator, _over_bit_power(power + 3))
    return operator
