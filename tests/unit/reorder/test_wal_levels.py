"""Changes of wal_level, and where decoding goes on after them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headwater.catalog.snapshot import SnapBuilder
from headwater.reorder.commits.control import Control
from headwater.reorder.commits.transactions import NEVER
from headwater.reorder.commits.wal_levels import Decodable, LevelGap, is_decodable, lies_in, starting_at

MINIMAL, REPLICA, LOGICAL = range(3)
BEGUN = Control(LOGICAL, 800).shut_down(100)


def test_a_fall_ends_a_stretch_and_a_raise_begins_one() -> None:
    assert BEGUN.decodable() == (Decodable(0, 100, NEVER),)
    fallen = BEGUN.level_changed(200, REPLICA)
    assert (fallen.decodable(), fallen.gap) == ((), LevelGap(REPLICA, 200))
    raised = fallen.level_changed(300, LOGICAL)
    assert (raised.decodable(), raised.gap) == ((Decodable(300, 300, NEVER),), None)


def test_the_lowest_level_of_a_gap_counts() -> None:
    fallen = BEGUN.level_changed(200, REPLICA).level_changed(220, MINIMAL).level_changed(240, REPLICA)
    assert fallen.gap == LevelGap(MINIMAL, 200)


def test_a_fall_before_decoding_has_begun_is_no_gap() -> None:
    waiting = Control(LOGICAL, 800, builder=SnapBuilder(50).running_xacts(100, 800, 790))
    fallen = waiting.level_changed(200, REPLICA)
    assert (fallen.gap, fallen.builder) == (None, SnapBuilder(50))


def test_another_level_that_is_high_enough_changes_nothing() -> None:
    low = replace(BEGUN, needed=REPLICA)
    assert low.level_changed(200, REPLICA).decodable() == low.decodable()
    assert low.level_changed(200, REPLICA).level_changed(300, LOGICAL).decodable() == low.decodable()
    assert low.level_changed(200, MINIMAL).gap == LevelGap(MINIMAL, 200)


def test_a_transaction_lies_in_a_stretch_with_all_it_did() -> None:
    stretches = (Decodable(0, 100, 200), Decodable(300, 300, NEVER))
    first = np.array([50, 90, 150, 210, 190, 310])
    commit = np.array([90, 120, 210, 220, 330, 340])
    assert is_decodable(commit, first, stretches).tolist() == [False, True, False, False, False, True]
    assert is_decodable(commit, first, starting_at(stretches, 200)).tolist() == [False] * 5 + [True]
    assert lies_in(commit, stretches).tolist() == [False, True, False, False, True, True]
