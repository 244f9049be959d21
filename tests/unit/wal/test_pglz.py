"""pglz: the kernel against a plain decompressor, on compressed and on arbitrary bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.wal._pglz import pglz_decompress
from unit.wal.plain_pglz import compress, plain_decompress


def kernel_decompress(source: bytes, raw_size: int) -> bytes | None:
    out = np.full(raw_size + 16, 0xEE, np.uint8)
    end = pglz_decompress(np.frombuffer(b"\x55" + source, np.uint8), 1, len(source), out, 8, raw_size)
    assert (out[:8] == 0xEE).all()
    assert (out[8 + raw_size :] == 0xEE).all()
    if end < 0:
        return None
    assert end == 8 + raw_size
    return out[8:end].tobytes()


@given(st.lists(st.sampled_from([b"a", b"bc", b"\0" * 30, b"hello ", b"x" * 400]), max_size=40))
def test_what_was_compressed_comes_back(parts: list[bytes]) -> None:
    data = b"".join(parts)
    assert data == kernel_decompress(compress(data), len(data))


@given(st.binary(max_size=60), st.integers(0, 200))
def test_any_bytes_as_the_plain_twin(source: bytes, raw_size: int) -> None:
    assert plain_decompress(source, raw_size) == kernel_decompress(source, raw_size)


def test_arguments_outside_the_arrays_are_refused() -> None:
    source, out = np.zeros(8, np.uint8), np.zeros(8, np.uint8)
    for start, length, at, raw_size in [
        (-1, 2, 0, 1),
        (0, 9, 0, 1),
        (0, -1, 0, 1),
        (0, 2, 1, 8),
        (0, 2, -1, 1),
        (0, 2, 0, -1),
    ]:
        assert pglz_decompress(source, start, length, out, at, raw_size) == -1
