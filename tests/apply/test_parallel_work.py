"""Random work of many kinds of tables, applied by several sessions at a time and by a stock subscription.

The worker is stopped while sessions write, so that much has to be applied at a time afterwards.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from apply.applied_work import SOURCE_TABLES, TARGET_TABLES, AppliedWork
from apply.differential import OURS, Differential, differential, rows_of
from headwater.apply.incoming.parallel_options import COMMIT, ORDERS

pytestmark = pytest.mark.server

ONE_BY_ONE = ("bag", "full_key", "event", "typed", "parent", "log", "deep", "figures", "shelf", "numbered", "by_hash")
"""Tables whose changes are always applied one by one; in every second round they are changed, too."""
DRIVER = Path(__file__).with_name("killed_apply.py")
CASES = [
    pytest.param(COMMIT, 16, 1),
    *(pytest.param(order, major, 2, marks=pytest.mark.slow) for order in ORDERS for major in (14, 15, 16, 17, 18, 19)),
    *(pytest.param(order, 18, seed, marks=pytest.mark.slow) for order in ORDERS for seed in range(3, 9)),
]


@pytest.mark.parametrize(("order", "major", "seed"), CASES)
def test_random_work(tmp_path: Path, order: str, major: int, seed: int) -> None:
    flags = ["--workers", "3", "--order", order]
    with differential(tmp_path, (major, major), SOURCE_TABLES, target_tables=TARGET_TABLES, flags=flags) as pair:
        pair.worker.program = (str(DRIVER), "small", "0")
        writers = AppliedWork(pair.publisher.connect, seed, ONE_BY_ONE)
        others = AppliedWork(pair.publisher.connect, seed)
        for number in range(3):
            _round(pair, others if number == 1 else writers)
            if number < 2:
                # Of a table that comes a line is written when the worker starts.
                changed = writers.definitions(4, 10 * (number + 1))
                pair.everywhere(*(text for text in changed if not text.startswith("CREATE TABLE")))
        writers.close()
        others.close()
        used = "SELECT count(*) FROM pg_replication_origin_status WHERE external_id LIKE 'headwater_ours_P%'"
        assert rows_of(pair.target, f"{used} AND remote_lsn > '0/0'", OURS)[0][0] > 0


def _round(pair: Differential, writers: AppliedWork) -> None:
    """Let sessions work, and compare; the last transaction is applied by the main session, whose origin is compared."""
    pair.catch_up()
    assert pair.worker.stop() == 0
    writers.round(60)
    writers.settle()
    pair.worker.start()
    pair.catch_up()
    pair.catch_up()
    pair.compare()
