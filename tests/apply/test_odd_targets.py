"""Random targets with whatever refuses or skips a row: rows and the first error are those of a stock subscriber."""

from __future__ import annotations

import pytest

from apply.odd_targets import OddTargets
from apply.target_pairs import pair_of
from packaged_servers import is_packaged

DAILY = (18, 1, 12)
CASES = [
    pytest.param(*DAILY, id="18-1"),
    *(
        pytest.param(major, seed, 55, marks=pytest.mark.slow, id=f"{major}-{seed}")
        for major in (14, 15, 16, 17, 18, 19)
        for seed in (2, 3)
        if is_packaged(major)
    ),
]


@pytest.mark.parametrize(("major", "seed", "count"), CASES)
def test_odd_targets(major: int, seed: int, count: int) -> None:
    targets = OddTargets(seed, major)
    with pair_of(major) as pair:
        refusals = [
            pair.compare(case.source, case.target, case.work).refusal for case in (targets.case() for _ in range(count))
        ]
    # Neither all of it nor nothing is refused.
    assert len({refusal is None for refusal in refusals}) == 2
