"""Open rows that may grow, against a model that forgets nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwater.rmgr.index._row_epochs import (
    CLOCK,
    CLOCKS,
    FAMILIES,
    end_all_rows,
    end_own_rows,
    join_family,
    may_grow,
)

BEGIN, ASK, JOIN, END_OWN, END_ALL = range(5)
Step = tuple[int, int, int]
"""What, xid, toplevel."""


def run(
    steps: NDArray[np.int64],
    families: NDArray[np.int64],
    clocks: NDArray[np.int64],
    begun: NDArray[np.int64],
    answers: NDArray[np.bool_],
) -> None:
    for i in range(len(steps)):
        what, xid, toplevel = steps[i]
        if what == BEGIN:
            begun[xid] = clocks[CLOCK]
        elif what == ASK:
            answers[i] = begun[xid] >= 0 and may_grow(begun[xid], xid, families, clocks)
        elif what == JOIN:
            join_family(xid, toplevel, families, clocks)
        elif what == END_OWN:
            end_own_rows(xid, families, clocks)
        else:
            end_all_rows(clocks)


class Model:
    """Open rows, and which xids are known to be of one family."""

    def __init__(self) -> None:
        self.tops: dict[int, int] = {}
        self.open: set[int] = set()

    def step(self, what: int, xid: int, toplevel: int) -> bool | None:
        if what == BEGIN:
            self.open.add(xid)
        elif what == ASK:
            return xid in self.open
        elif what == JOIN:
            self.tops[xid] = toplevel
        elif what == END_OWN:
            top = self.tops.get(xid, xid)
            self.open = {member for member in self.open if self.tops.get(member, member) != top}
        else:
            self.open = set()
        return None


def answers(steps: list[Step]) -> list[tuple[bool, bool]]:
    of_kernel, model = np.zeros(len(steps), np.bool_), Model()
    begun = np.full(4 * FAMILIES, -1, np.int64)
    run(
        np.array(steps, np.int64).reshape(-1, 3),
        np.zeros((3, FAMILIES), np.int64),
        np.zeros(CLOCKS, np.int64),
        begun,
        of_kernel,
    )
    of_model = [model.step(*step) for step in steps]
    return [
        (bool(answer), expected) for answer, expected in zip(of_kernel, of_model, strict=True) if expected is not None
    ]


TOPS = {4: 3, 5: 3, 7: 6}
"""Subtransactions and their toplevel transactions."""

NAMED = [(JOIN, xid, top) for xid, top in TOPS.items()]
whats = st.sampled_from([BEGIN, BEGIN, ASK, ASK, ASK, END_OWN, END_OWN, END_ALL])


def steps(xid: st.SearchStrategy[int]) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(whats, xid, st.just(0)), max_size=60)


@settings(max_examples=200)
@given(st.permutations(NAMED), steps(st.integers(3, 8)))
def test_a_row_grows_until_an_event_of_its_family(named: list[Step], made: list[Step]) -> None:
    assert all(answer == expected for answer, expected in answers([*named, *made]))


@settings(max_examples=200)
@given(steps(st.integers(3, 8)), steps(st.integers(3, 8)))
def test_a_family_that_becomes_known_late(before: list[Step], after: list[Step]) -> None:
    assert all(expected or not answer for answer, expected in answers([*before, *NAMED, *after]))


@settings(max_examples=200)
@given(steps(st.builds(lambda xid, lap: xid + lap * FAMILIES, st.integers(3, 5), st.integers(0, 2))))
def test_transactions_that_push_one_another_out_of_the_table(made: list[Step]) -> None:
    assert all(expected or not answer for answer, expected in answers(made))
