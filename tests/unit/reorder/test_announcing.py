"""Who announces a relation where transactions are streamed."""

from __future__ import annotations

import numpy as np

from headwater.reorder.announcing import Announcers, announced_by


def column(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


NOTHING = np.empty((2, 0), np.int64)
# Replays: 0 a block of A, 1 a commit of another, 2 a block of B, 3 A commits, 4 and 5 commits of others.
WHO = Announcers(
    of=column(1, 0, 2, 0, 0, 0),
    top=column(0, 700, 800),
    ends=column(6, 3, 6),
    is_open=np.array([False, False, True]),
    tops=column(700, 800),
    first=column(1, 2),
)


def test_each_streamed_transaction_announces_for_itself() -> None:
    found = announced_by(column(7, 7, 7, 7), column(0, 1, 2, 4), WHO, column(), NOTHING)
    assert sorted(found.sends.tolist()) == [0, 1, 2]
    assert found.own.tolist() == [[7, 7], [1, 2]]
    assert (found.common.tolist(), found.by.tolist()) == ([7], [1])


def test_what_a_streamed_one_announced_counts_once_it_has_committed() -> None:
    found = announced_by(column(7, 7, 7), column(0, 4, 5), WHO, column(), NOTHING)
    assert found.sends.tolist() == [0]
    assert (found.common.tolist(), found.by.tolist()) == ([7], [0])


def test_what_was_known_is_not_announced_again() -> None:
    found = announced_by(column(7, 7), column(2, 4), WHO, column(7), np.stack([column(7), column(2)]))
    assert found.sends.tolist() == []
    assert found.own.tolist() == [[7], [2]]
    assert found.own_by.tolist() == [-1]
