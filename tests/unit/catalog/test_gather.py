"""The bytes of rows put one after the other, beside plain slices."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.catalog.store._gather import gather

pytestmark = pytest.mark.interpreted


def _int64s(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize("seed", range(20))
def test_as_slices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source = rng.integers(0, 256, 300, np.uint8)
    length = rng.integers(0, 40, 50)
    at = rng.integers(0, 300 - length + 1)
    to = np.cumsum(length) - length
    out = np.zeros(int(length.sum()), np.uint8)
    assert gather(source, at, length, to, out)
    parts = (source[start : start + size].tobytes() for start, size in zip(at.tolist(), length.tolist(), strict=True))
    assert out.tobytes() == b"".join(parts)


@pytest.mark.parametrize(("at", "length", "to"), [(-1, 1, 0), (0, -1, 0), (0, 1, -1), (8, 3, 0), (0, 3, 8), (11, 0, 0)])
def test_a_span_outside_is_not_copied(at: int, length: int, to: int) -> None:
    source, out = np.full(10, 7, np.uint8), np.zeros(10, np.uint8)
    assert not gather(source, _int64s(at), _int64s(length), _int64s(to), out)
    assert not out.any()
