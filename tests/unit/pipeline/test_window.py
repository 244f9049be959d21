"""Records that the server reads before it stops at ``upto_lsn``: those whose predecessor ended before it."""

from __future__ import annotations

import pytest

from headwater.pipeline.requests.scope import Scope, stop_lsn

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
        assert (lsn < stop_lsn(end, SEGMENT)) is is_read
    assert Scope(SEGMENT).end_before(lsn) == predecessor_end


@pytest.mark.parametrize("page", [3 * SEGMENT, 3 * SEGMENT + 5 * PAGE])
def test_reading_stops_before_the_first_record_that_is_not_read(page: int) -> None:
    header = 40 if page % SEGMENT == 0 else 24
    starts = [*range(page - 80, page, 8), *range(page + header, page + 120, 8)]
    for end in range(page - 60, page + 100):
        is_read = [Scope(SEGMENT).end_before(start) < end for start in starts]
        assert [start < stop_lsn(end, SEGMENT) for start in starts] == is_read
