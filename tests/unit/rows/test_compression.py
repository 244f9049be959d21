"""The decompressors against their plain twins, Arrow's lz4, and broken blocks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.rows import _compression
from unit.rows.plain_compression import lz4_decompress, pglz_compress, pglz_decompress

REPETITIVE = st.lists(
    st.one_of(st.binary(max_size=12), st.sampled_from([b"a" * 300, b"PostgreSQL ", b"\0" * 20, b"11234"])), max_size=12
).map(b"".join)


def lz4_compress(raw: bytes) -> bytes:
    return bytes(pa.Codec("lz4_raw").compress(raw, asbytes=True))


def run(method: str, block: bytes, raw_size: int) -> bytes | None:
    """Decompress a payload with guard bytes on both sides of it and of the result; None for CORRUPT."""
    payload = (("pglz", "lz4").index(method) << 30 | raw_size).to_bytes(4, "little") + block
    src = np.frombuffer(bytearray(b"\xa5" * 7 + payload + b"\xa5" * 9), dtype=np.uint8)
    out = np.full(3 + raw_size + 40, 0xEE, dtype=np.uint8)
    end = _compression.decompress(src, 7, len(payload), out, 3)
    assert (out[:3] == 0xEE).all()
    assert (out[3 + raw_size :] == 0xEE).all()
    if end == _compression.CORRUPT:
        return None
    assert 3 + raw_size == end
    return out[3:end].tobytes()


@given(REPETITIVE)
def test_pglz_gives_back_what_was_compressed(raw: bytes) -> None:
    block = pglz_compress(raw)
    assert pglz_decompress(block, len(raw)) == raw
    assert run("pglz", block, len(raw)) == raw


@given(REPETITIVE)
def test_lz4_gives_back_what_was_compressed(raw: bytes) -> None:
    block = lz4_compress(raw)
    assert lz4_decompress(block, len(raw)) == raw
    assert run("lz4", block, len(raw)) == raw


@pytest.mark.parametrize("size", [1, 14, 15, 16, 269, 270, 271, 1000, 70_000])
def test_long_runs_and_long_literals(size: int) -> None:
    noise = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()
    for raw in (b"x" * size, noise, noise + noise, b"ab" * size):
        assert run("lz4", lz4_compress(raw), len(raw)) == raw
        if size <= 1000:
            assert run("pglz", pglz_compress(raw), len(raw)) == raw


@settings(max_examples=300)
@given(raw=REPETITIVE, data=st.data())
def test_mutated_blocks_decode_as_the_twin_does(raw: bytes, data: st.DataObject) -> None:
    for method, compress, twin in (
        ("pglz", pglz_compress, pglz_decompress),
        ("lz4", lz4_compress, lz4_decompress),
    ):
        block = bytearray(compress(raw))
        for _ in range(data.draw(st.integers(0, 3))):
            if block:
                block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
        cut = bytes(block[: data.draw(st.integers(0, len(block)))])
        size = max(0, len(raw) + data.draw(st.integers(-2, 2)))
        assert twin(cut, size) == run(method, cut, size)


@given(block=st.binary(max_size=60), size=st.integers(0, 400))
def test_arbitrary_bytes_decode_as_the_twin_does(block: bytes, size: int) -> None:
    assert pglz_decompress(block, size) == run("pglz", block, size)
    assert lz4_decompress(block, size) == run("lz4", block, size)


@pytest.mark.parametrize("method", [0, 1, 2, 3])
def test_payload_names_its_method(method: int) -> None:
    raw = b"to be or not to be, " * 20
    block = lz4_compress(raw) if method == 1 else pglz_compress(raw)
    payload = (method << 30 | len(raw)).to_bytes(4, "little") + block
    src, out = np.frombuffer(bytearray(payload), dtype=np.uint8), np.zeros(len(raw), dtype=np.uint8)
    end = _compression.decompress(src, 0, len(payload), out, 0)
    expected = raw if method < 2 else None
    assert expected == (None if end == _compression.CORRUPT else out.tobytes())


def test_a_size_that_no_block_could_hold_is_corrupt() -> None:
    payload = np.frombuffer(bytearray((1 << 29).to_bytes(4, "little") + bytes(100)), dtype=np.uint8)
    assert _compression.raw_size(payload, 0, 104) == _compression.CORRUPT
    assert _compression.raw_size(payload, 0, 3) == _compression.CORRUPT
