"""Work behind: in order, one at a time, its errors before later ones, and ended where the run is interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from headwater.jobs.background_step import BackgroundStep


class Refused(Exception):
    """The error that a piece of work raises here."""


def refuse() -> None:
    raise Refused("one")


def nothing() -> None:
    """Do nothing: end nothing, and give nothing up."""


def do(
    *pieces: Callable[[], None],
    stop: Callable[[], None] = nothing,
    then: BaseException | None = None,
    give_up: Callable[[], None] = nothing,
) -> None:
    """Do pieces one after the other; and then raise an error of the caller's."""
    with BackgroundStep(stop) as behind:
        for piece in pieces:
            behind.begin(piece, give_up)
        if then is not None:
            raise then


def test_pieces_are_done_in_order_and_all_of_them() -> None:
    done: list[int] = []
    do(*(partial(done.append, number) for number in range(3)))
    assert done == [0, 1, 2]


def test_a_piece_is_done_beside_what_follows() -> None:
    began, goes_on = threading.Event(), threading.Event()

    def piece() -> None:
        began.set()
        assert goes_on.wait(60)

    with BackgroundStep(nothing) as behind:
        behind.begin(piece, nothing)
        assert began.wait(60)
        goes_on.set()


def test_an_error_comes_before_the_next_piece() -> None:
    done: list[int] = []
    with pytest.raises(Refused):
        do(refuse, partial(done.append, 2))
    assert done == []


def test_a_piece_that_it_does_not_come_to_is_given_up() -> None:
    given_up: list[int] = []
    with pytest.raises(Refused):
        do(refuse, partial(given_up.append, 1), give_up=partial(given_up.append, 2))
    assert given_up == [2]


def test_an_error_of_the_last_piece_is_raised_at_the_end() -> None:
    with pytest.raises(Refused):
        do(refuse)


def test_an_error_of_an_earlier_window_is_the_one_that_is_told() -> None:
    with pytest.raises(Refused):
        do(refuse, then=ValueError("of a later window"))


def test_what_was_begun_is_finished_where_a_later_window_fails() -> None:
    done: list[int] = []
    with pytest.raises(ValueError, match="later"):
        do(partial(done.append, 1), then=ValueError("a later window"))
    assert done == [1]


def test_an_interrupt_ends_what_is_being_done() -> None:
    stopped = threading.Event()

    def piece() -> None:
        stopped.wait(60)
        refuse()

    with pytest.raises(KeyboardInterrupt):
        do(piece, stop=stopped.set, then=KeyboardInterrupt())
    assert stopped.is_set()
