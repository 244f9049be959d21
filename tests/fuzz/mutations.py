"""Bytes made wrong: at random, and where they mean something.

All randomness is of the generator handed in, so that an input is a function of its seed.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

Field = tuple[int, int]
"""Offset and width in bytes of a number."""

WIDTHS = (1, 2, 4, 8)


def edge(rng: random.Random, width: int) -> int:
    """Choose a number that code stumbles over: nothing, one, the largest, signs, sizes of pages and blocks."""
    top = (1 << 8 * width) - 1
    number = rng.choice(
        (0, 1, 2, 3, top, top - 1, top >> 1, (top >> 1) + 1, 7, 8, 23, 24, 0x7F, 0x80, 255, 256, 8191, 8192)
    )
    return (number + rng.choice((0, 0, 0, 1, -1))) & top


def put(data: bytearray, field: Field, value: int) -> None:
    """Write a number, as far as the bytes go."""
    at, width = field
    end = min(at + width, len(data))
    if at < end:
        data[at:end] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")[: end - at]


def change_field(rng: random.Random, data: bytearray, field: Field) -> None:
    """Change a field to an edge, a step up or down, by one bit, or to noise."""
    at, width = field
    if at >= len(data):
        return
    value = int.from_bytes(data[at : at + width], "little")
    how = rng.randrange(5)
    if how == 0:
        value = edge(rng, width)
    elif how == 1:
        value += rng.choice((-1, 1, -2, 2, 4, -4, 8, -8))
    elif how == 2:
        value ^= 1 << rng.randrange(8 * width)
    elif how == 3:
        value = rng.getrandbits(8 * width)
    else:
        value = edge(rng, rng.choice((1, 2)))
    put(data, field, value)


def _flip(rng: random.Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _noise(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    for offset in range(at, min(at + rng.choice((1, 1, 2, 4, 8, 30)), len(data))):
        data[offset] = rng.randrange(256)


def _edge_anywhere(rng: random.Random, data: bytearray) -> None:
    width = rng.choice(WIDTHS)
    at = rng.randrange(len(data))
    change_field(rng, data, (at - at % width if rng.random() < 0.7 else at, width))


def _repeat(rng: random.Random, data: bytearray) -> None:
    at, count = rng.randrange(len(data)), rng.choice((1, 2, 4, 8, 16, 64))
    source = rng.randrange(len(data))
    part = data[source : source + count]
    data[at : at + len(part)] = part[: len(data) - at]


def _fill(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    end = min(at + rng.choice((2, 4, 8, 64)), len(data))
    data[at:end] = bytes([rng.choice((0, 255))]) * (end - at)


WAYS: Sequence[Callable[[random.Random, bytearray], None]] = (
    _flip,
    _noise,
    _edge_anywhere,
    _edge_anywhere,
    _repeat,
    _fill,
)


def change(rng: random.Random, data: bytearray, fields: Sequence[Field] = ()) -> None:
    """Change a few bytes in place; fields, if there are any, more often than others."""
    if not data:
        return
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if fields and rng.random() < 0.7:
            change_field(rng, data, rng.choice(fields))
        else:
            rng.choice(WAYS)(rng, data)


def change_length(rng: random.Random, data: bytearray) -> None:
    """Cut, grow, repeat a byte very often, or take a piece out."""
    if not data:
        return
    how, at = rng.randrange(5), rng.randrange(len(data))
    if how == 0:
        del data[at:]
    elif how == 1:
        del data[at : at + rng.choice((1, 2, 4, 8, 100))]
    elif how == 2:
        data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8, 100)))
    elif how == 3:
        data[at:at] = data[at : at + 1] * rng.choice((1, 20, 5000))
    else:
        data += rng.randbytes(rng.choice((1, 4, 100)))


def changed(rng: random.Random, data: bytes, fields: Sequence[Field] = ()) -> bytes:
    """Make a changed copy, now and then of another length."""
    copy = bytearray(data)
    change(rng, copy, fields)
    if rng.random() < 0.2:
        change_length(rng, copy)
    return bytes(copy)


def words_of(data: bytes) -> list[Field]:
    """List all aligned 16- and 32-bit numbers."""
    return [(at, 4) for at in range(0, len(data) - 3, 4)] + [(at, 2) for at in range(0, len(data) - 1, 2)]


def u32(value: int) -> bytes:
    """Pack four bytes."""
    return struct.pack("<I", value & 0xFFFFFFFF)
