"""Which records the server reads before it stops at ``upto_lsn``: those whose predecessor ended before it."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.pipeline.window import Window

PAGE, SEGMENT = 8192, 1 << 20


@pytest.mark.parametrize(
    ("lsn", "predecessor_end"),
    [
        (3 * SEGMENT + 5 * PAGE + 1000, 3 * SEGMENT + 5 * PAGE + 1000),
        (3 * SEGMENT + 5 * PAGE + 24, 3 * SEGMENT + 5 * PAGE),
        (3 * SEGMENT + 5 * PAGE + 32, 3 * SEGMENT + 5 * PAGE + 32),
        (3 * SEGMENT + 5 * PAGE + 40, 3 * SEGMENT + 5 * PAGE + 40),
        (3 * SEGMENT + 40, 3 * SEGMENT),
        (3 * SEGMENT + 48, 3 * SEGMENT + 48),
    ],
    ids=["inside a page", "first on a page", "after 8 bytes", "after 16 bytes", "first in a segment", "after 8 there"],
)
def test_a_record_is_read_if_its_predecessor_ended_before_the_end(lsn: int, predecessor_end: int) -> None:
    for end, is_read in ((predecessor_end, False), (predecessor_end + 1, True)):
        assert Window(SEGMENT, end=end).reads(np.array([lsn])).tolist() == [is_read]


def test_a_window_without_an_end_reads_everything() -> None:
    assert Window(SEGMENT).reads(np.array([1, 1 << 62])).all()
