"""Where the columns of a table are looked up: with all commits that the window reads, and no other."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.catalog.versions import NEVER
from headwater.pipeline.assemble import Window
from headwater.pipeline.named_table import view_lsn

PAGE, SEGMENT = 8192, 1 << 20


@pytest.mark.parametrize("page", [3 * SEGMENT, 3 * SEGMENT + 5 * PAGE])
def test_a_view_at_the_windows_end_sees_the_commits_that_the_window_reads(page: int) -> None:
    header = 40 if page % SEGMENT == 0 else 24
    starts = [*range(page - 80, page, 8), *range(page + header, page + 120, 8)]
    for end in range(page - 60, page + 100):
        window = Window(SEGMENT, end=end)
        assert [start < view_lsn(window) for start in starts] == window.reads(np.array(starts)).tolist()


def test_a_window_without_an_end_sees_all() -> None:
    assert view_lsn(Window(SEGMENT)) == NEVER
