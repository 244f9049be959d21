"""Random targets with whatever refuses or skips a row: rows and the first error are those of a stock subscriber."""

from __future__ import annotations

import pytest

from apply.odd_targets import OddTargets
from apply.refused_runs import refused_runs
from apply.target_pairs import OURS, SOURCE, pair_of
from headwater.apply.dry_run import dry_run
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


_LETTERS = """
SELECT kind, message, sqlstate FROM headwater.dead_letters WHERE subname = '{}' ORDER BY id
"""


@pytest.mark.parametrize(("major", "seed", "count"), [pytest.param(18, 11, 3, id="18-11"), *CASES[1:]])
def test_dead_letters_are_what_a_dry_run_reports(major: int, seed: int, count: int) -> None:
    if major < 15:
        pytest.skip("its subscriptions cannot be disabled by an error")
    targets = OddTargets(seed, major)
    letters = 0
    with pair_of(major) as pair:
        # A trigger's own SQLSTATE is no reason to put a row aside.
        cases = (case for case in (targets.case() for _ in range(count)) if "P0042" not in "".join(case.target))
        for case in cases:
            with refused_runs(pair, case.source, case.target) as runs:
                pair.run(SOURCE, *case.work)
                lines: list[str] = []
                findings = dry_run(runs.request(), lines.append)
                assert runs.run_ours(dead_letters=("*.*",)) is None
                rows = pair.run(OURS, _LETTERS.format(runs.ours))
                refused = [line for line in lines if line.startswith("refused: ")]
                assert len(rows) == len(refused) == findings.refusals
                for (kind, message, sqlstate), line in zip(rows, refused, strict=True):
                    assert line.startswith(f'refused: {kind} of "s.t"')
                    assert f": {message} (SQLSTATE {sqlstate})" in line
                letters += len(rows)
    assert letters
