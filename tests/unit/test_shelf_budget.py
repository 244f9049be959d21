"""The kept states of a shelf that stay: dense near the end of the log, sparse far back, within a budget."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headwater.slots.kept_state import file_name
from headwater.slots.shelf_budget import SPACING, ShelfBudget, unneeded
from headwater.slots.shelf_directory import ShelvedFile

DATABASE, OTHER = "5-a", "6-b"
ROOMY = ShelfBudget(1 << 60, 1e9)


def shelved(lsns: Iterable[int], database: str = DATABASE, timeline: int = 1) -> list[ShelvedFile]:
    folder = Path(database) / f"{timeline:08X}"
    return [ShelvedFile(folder / file_name(lsn), timeline, lsn, 10, 0.0) for lsn in sorted(set(lsns))]


def stay(files: list[ShelvedFile], budget: ShelfBudget = ROOMY, now: float = 0.0) -> list[int]:
    gone = set(unneeded(files, {DATABASE}, budget, now))
    return [file.lsn for file in files if file not in gone]


@given(steps=st.lists(st.integers(1, 64 * SPACING), min_size=1, max_size=300))
def test_the_way_to_any_place_is_short(steps: list[int]) -> None:
    """States come one after the other, and are thinned each time; wherever one has been, one is near."""
    end, staying, all_lsns = 0, list[int](), list[int]()
    for step in steps:
        end += step
        all_lsns.append(end)
        staying = stay(shelved([*staying, end]))
    assert staying[-1] == end
    for lsn in all_lsns:
        following = min(other for other in staying if other >= lsn)
        assert following - lsn <= max(SPACING, (end - lsn) / 3)


def test_a_quarter_of_a_terabyte_has_few() -> None:
    assert len(stay(shelved(range(SPACING, 1 << 38, SPACING)))) < 120


def test_thinning_again_changes_nothing() -> None:
    staying = stay(shelved(range(0, 1 << 36, SPACING // 3)))
    assert stay(shelved(staying)) == staying


def test_old_ones_go_but_for_the_newest() -> None:
    files = shelved([1, 10 * SPACING, 20 * SPACING])
    assert stay(files, ShelfBudget(100, 5), now=6) == [20 * SPACING]
    assert stay(shelved([1, 20 * SPACING], OTHER), ShelfBudget(100, 5), now=6) == []


def test_a_budget_is_for_all() -> None:
    mine, theirs = shelved([SPACING, 2 * SPACING, 3 * SPACING]), shelved([2 * SPACING, 9 * SPACING], OTHER)
    assert stay([*theirs, *mine], ShelfBudget(40, 1e9)) == [9 * SPACING, SPACING, 2 * SPACING, 3 * SPACING]
    assert stay([*theirs, *mine], ShelfBudget(20, 1e9)) == [2 * SPACING, 3 * SPACING]
    assert stay(mine, ShelfBudget(0, 1e9)) == [3 * SPACING]


def test_timelines_are_apart() -> None:
    files = [*shelved([5, 6]), *shelved([7, 8], timeline=2)]
    assert stay(files) == [6, 7, 8]
