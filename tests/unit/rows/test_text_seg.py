"""Signs of uncertainty of a seg's bounds, as the servers before and from 19 on print them."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from headwater.rows.text._seg import write_seg


@pytest.mark.parametrize(
    ("signs", "before_19", "since_19"),
    [
        (b"~\0", "~1 .. ", "~1 .. 2"),
        (b"\0~", "1 .. 2", "1 .. ~2"),
        (b"~~", "~1 .. ~2", "~1 .. ~2"),
        (b"<~", "<1 .. 2", "<1 .. ~2"),
        (b"~>", "~1 .. >2", "~1 .. >2"),
    ],
)
def test_signs(signs: bytes, before_19: str, since_19: str) -> None:
    source = np.frombuffer(bytearray(struct.pack("<ffBB2s", 1, 2, 1, 1, signs)), np.uint8)
    out = np.zeros(64, np.uint8)
    texts = [
        out[: write_seg(by_lower, source, np.int64(0), np.int64(12), out, np.int64(0))].tobytes().decode()
        for by_lower in (True, False)
    ]
    assert texts == [before_19, since_19]
