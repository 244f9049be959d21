"""LZ4 blocks: the kernel against the library's compressor, and against a plain twin on arbitrary bytes."""

from __future__ import annotations

import numpy as np
import pyarrow
from hypothesis import given
from hypothesis import strategies as st

from headwater.wal._lz4 import lz4_decompress


def kernel_decompress(source: bytes, raw_size: int) -> bytes | None:
    out = np.full(raw_size + 16, 0xEE, np.uint8)
    end = lz4_decompress(np.frombuffer(b"\x55" + source, np.uint8), 1, len(source), out, 8, raw_size)
    assert (out[:8] == 0xEE).all()
    assert (out[8 + raw_size :] == 0xEE).all()
    if end < 0:
        return None
    assert end == 8 + raw_size
    return out[8:end].tobytes()


class Malformed(Exception):
    """The twin's verdict."""


def plain_decompress(source: bytes, raw_size: int) -> bytes | None:
    out = bytearray()
    rest = list(source)
    try:
        while True:
            token = take(rest)
            count = length(rest, token >> 4)
            out += bytes(take(rest) for _ in range(count))
            if not rest:
                return bytes(out) if len(out) == raw_size else None
            back = take(rest) | take(rest) << 8
            count = length(rest, token & 15) + 4
            if not 0 < back <= len(out) or len(out) + count > raw_size:
                return None
            for _ in range(count):
                out.append(out[-back])
    except Malformed:
        return None


def take(rest: list[int]) -> int:
    if not rest:
        raise Malformed
    return rest.pop(0)


def length(rest: list[int], nibble: int) -> int:
    total = nibble
    more = 255 if nibble == 15 else 0
    while more == 255:
        more = take(rest)
        total += more
    return total


@given(st.lists(st.sampled_from([b"a", b"bc", b"\0" * 30, b"hello ", b"x" * 700]), max_size=40))
def test_what_was_compressed_comes_back(parts: list[bytes]) -> None:
    data = b"".join(parts)
    assert data == kernel_decompress(pyarrow.compress(data, codec="lz4_raw", asbytes=True), len(data))


@given(st.binary(max_size=60), st.integers(0, 200))
def test_any_bytes_as_the_plain_twin(source: bytes, raw_size: int) -> None:
    assert plain_decompress(source, raw_size) == kernel_decompress(source, raw_size)


def test_arguments_outside_the_arrays_are_refused() -> None:
    source, out = np.zeros(8, np.uint8), np.zeros(8, np.uint8)
    for start, count, at, raw_size in [(-1, 2, 0, 1), (0, 9, 0, 1), (0, -1, 0, 1), (0, 2, 1, 8), (0, 2, -1, 1)]:
        assert lz4_decompress(source, start, count, out, at, raw_size) == -1
