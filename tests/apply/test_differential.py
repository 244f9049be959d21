"""Random work, applied by a stock subscription and by ours: the same rows, commit times, origins and places."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from apply.applied_work import LEAVES, SOURCE_TABLES, TARGET_TABLES, WITHOUT_KEY, AppliedWork
from apply.differential import Differential, differential
from packaged_servers import is_packaged

pytestmark = pytest.mark.server


_BY_ITSELF = ("--no-batches",)


@dataclass(frozen=True)
class Kind:
    """A kind of subscription, as both are asked for it.

    Attributes:
        publication: what is published.
        flags: of ours; options: of the stock subscription.
        is_two_phase: prepared transactions are applied at PREPARE.
        left_out: tables that are not changed.
        first: major that has all of it first.
        is_whole: all rows of the publisher are published.
    """

    publication: str = "FOR ALL TABLES"
    flags: tuple[str, ...] = _BY_ITSELF
    options: str = ""
    is_two_phase: bool = False
    left_out: tuple[str, ...] = ()
    first: int = 14
    is_whole: bool = True


_FILTERED = """
FOR TABLE marker,
keyed WHERE (id % 2 = 0), typed (id, flag, r, j, raw, at), pair WHERE (b > '1'), bag WHERE (a < 3),
full_key, by_index WHERE (id <> 7), event, event_1 WHERE (id > 3), diary WHERE (at < 20), parent, child,
log, deep, figures (id, note, a), numbered WHERE (id > 5), cut (id, b, c), by_hash, green, "Odd" ("Id", "größe")
"""
KINDS = {
    "text": Kind(),
    "batched": Kind(flags=()),
    "binary": Kind(flags=(*_BY_ITSELF, "--binary"), options="binary = true"),
    "batched binary": Kind(flags=("--binary",), options="binary = true"),
    "synchronous": Kind(flags=(*_BY_ITSELF, "--synchronous-commit", "on"), options="synchronous_commit = on"),
    "two-phase": Kind(is_two_phase=True, left_out=WITHOUT_KEY, first=15),
    "root": Kind("FOR ALL TABLES WITH (publish_via_partition_root = true)", left_out=LEAVES),
    "filtered": Kind(_FILTERED, first=15, is_whole=False),
}
DAILY = (
    ("text", 18, 18),
    ("batched", 16, 16),
    ("binary", 16, 16),
    ("two-phase", 18, 18),
    ("root", 16, 16),
    ("filtered", 18, 18),
)
DAILY_SEED = 1
PAIRS = ((14, 14), (15, 15), (16, 16), (17, 17), (18, 18), (19, 19), (14, 18), (18, 14), (16, 19), (19, 15))
CASES = [
    *(pytest.param(*case, DAILY_SEED, id="-".join(map(str, case))) for case in DAILY),
    *(
        pytest.param(kind, *pair, seed, marks=pytest.mark.slow, id=f"{kind}-{pair[0]}-{pair[1]}-{seed}")
        for kind in KINDS
        for pair in PAIRS
        for seed in (2, 3)
        if min(pair) >= KINDS[kind].first and all(map(is_packaged, pair))
    ),
]


@pytest.mark.parametrize(("name", "publisher", "target", "seed"), CASES)
def test_random_work(tmp_path: Path, name: str, publisher: int, target: int, seed: int) -> None:
    kind = KINDS[name]
    with differential(
        tmp_path,
        (publisher, target),
        SOURCE_TABLES,
        target_tables=TARGET_TABLES,
        publication=kind.publication,
        flags=kind.flags,
        options=kind.options,
        is_two_phase=kind.is_two_phase,
    ) as pair:
        work(pair, seed, kind, 2 if seed == DAILY_SEED else 3)


def work(pair: Differential, seed: int, kind: Kind, rounds: int, steps: int = 25) -> None:
    """Let sessions work; in between both are compared, and definitions change."""
    # A start asks the publisher for its tables, which waits for one that is locked by a prepared transaction.
    pair.catch_up()
    writers = AppliedWork(pair.publisher.connect, seed, kind.left_out, prepares=True)
    for number in range(rounds):
        writers.round(steps)
        pair.catch_up()
        pair.compare()
        writers.settle()
        pair.catch_up()
        if number + 1 < rounds:
            pair.everywhere(*writers.definitions(4, 10 * (number + 1)))
            pair.refresh()
    writers.close()
    pair.catch_up()
    pair.compare()
