"""Folds of a database: where they go and for whom they wait, queues of bounded size, the shelf of states."""

from __future__ import annotations

import os
import resource
import threading
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import HeadwaterError, SessionError, SlotError
from headwater.pipeline.requests.request import DecodeRequest
from headwater.protocol.copy_frames import Piece
from headwater.slots.history import Position
from headwater.slots.kept_state import KeptState
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.place import WalSource
from headwater.wal.segments.segment_files import SegmentFiles
from headwater.walsender.folds.faults import MOST, Faults
from headwater.walsender.folds.fold_windows import ServedWal
from headwater.walsender.folds.items import Reached
from headwater.walsender.folds.member import Member
from headwater.walsender.folds.outbox import Outbox
from headwater.walsender.folds.places import Go, Places, Wait
from headwater.walsender.folds.rules import (
    GATHER_SECONDS,
    MOST_GATHER_SECONDS,
    MUCH_BYTES,
    MUCH_PATIENCE_SECONDS,
    NEAR_BYTES,
    PATIENCE_SECONDS,
    WINDOW_BYTES,
    Standing,
    Whereabouts,
    aim,
    next_line,
    patience,
)
from headwater.walsender.folds.shared_fold import Counts, SharedFold, Surroundings
from headwater.walsender.folds.shared_output import SharedOutput
from headwater.walsender.folds.shelf import SPACING, Shelf, size_of
from headwater.walsender.folds.shelf_room import ShelfRoom, level_of

END_SECONDS = 60
"""For threads that have nothing to wait for."""

LSNS = st.integers(1, 8 * WINDOW_BYTES)
OTHERS = st.lists(st.builds(Whereabouts, LSNS, st.none() | LSNS, st.booleans()), max_size=4)


def piece(size: int) -> Piece:
    return Piece(memoryview(bytes(size)), 1, 0)


def state_at(lsn: int, timeline: int = 1) -> KeptState:
    """Return a state of which only the place matters."""
    return cast(KeptState, SimpleNamespace(state=SimpleNamespace(lsn=lsn, timeline=timeline)))


def history(*left: int) -> WalDirectory:
    """Return WAL whose timelines, from 1 on, were left at these LSNs."""
    segments = SegmentFiles.of((), 16 << 20, [])
    return WalDirectory((), 16 << 20, 0, 16, segments, lineage=tuple(enumerate((*left, None), 1)))


@given(position=LSNS, left=st.integers(1, 4 * WINDOW_BYTES), others=OTHERS)
def test_a_window_goes_on_and_ends_where_others_stand(position: int, left: int, others: list[Whereabouts]) -> None:
    target = aim(position, position + left, others)
    assert position < target <= min(position + left, next_line(position))
    places = {other.position if other.target is None else other.target for other in others}
    assert not [place for place in places if position < place < target]


@given(standing=st.builds(Standing, LSNS, LSNS, st.floats(0, 60), st.booleans(), st.floats(0, 60)), others=OTHERS)
def test_all_waiting_is_bounded(standing: Standing, others: list[Whereabouts]) -> None:
    assert 0 <= patience(standing, others) <= MUCH_PATIENCE_SECONDS
    if standing.waited >= MUCH_PATIENCE_SECONDS:
        assert patience(standing, others) == 0


@given(positions=st.sets(LSNS, min_size=2, max_size=5))
def test_of_folds_that_stand_one_goes_at_once(positions: set[int]) -> None:
    """The last one has nobody to wait for: no two wait for each other."""
    end = max(positions) + 10 * WINDOW_BYTES
    last = min(positions)
    assert patience(Standing(last, end, 0), [Whereabouts(place) for place in positions - {last}]) == 0


def test_who_is_waited_for() -> None:
    far_end, near_end = 100 * WINDOW_BYTES + MUCH_BYTES, 100 * WINDOW_BYTES + NEAR_BYTES
    here = 100 * WINDOW_BYTES
    behind = here - WINDOW_BYTES // 2
    busy, ending = Standing(here, far_end, 0), Standing(here, near_end, 0)
    assert patience(busy, [Whereabouts(behind, here)]) == MUCH_PATIENCE_SECONDS
    assert patience(busy, [Whereabouts(behind)]) == MUCH_PATIENCE_SECONDS
    assert patience(busy, [Whereabouts(behind, here, is_slow=True)]) == 0
    assert patience(busy, [Whereabouts(behind, here + 1)]) == 0
    assert patience(ending, [Whereabouts(behind, here)]) == 0
    assert patience(ending, [Whereabouts(here - NEAR_BYTES, here)]) == PATIENCE_SECONDS


def test_who_comes_where_others_are_gathers() -> None:
    here, end = WINDOW_BYTES, 100 * WINDOW_BYTES
    running = [Whereabouts(here, next_line(here))]
    assert patience(Standing(here, end, 0, is_new=True), []) == 0
    assert patience(Standing(here, end, 0, is_new=True), running) == GATHER_SECONDS
    assert patience(Standing(here, end, 1, is_new=True, quiet=GATHER_SECONDS), running) == 0
    assert patience(Standing(here, end, MOST_GATHER_SECONDS, is_new=True), running) == 0


def test_a_queue_has_no_more_than_its_budget() -> None:
    outbox = Outbox(lambda: None, budget=100)
    assert outbox.offer(piece(60), 0)
    assert not outbox.offer(piece(60), 0)
    assert outbox.offer(Reached(state_at(1)), 0)
    outbox.take()
    assert outbox.offer(piece(60), 0)
    assert outbox.most == 60
    assert Outbox(lambda: None, budget=100).offer(piece(200), 0)


def test_states_that_follow_each_other_become_one() -> None:
    outbox = Outbox(lambda: None)
    for lsn in range(1, 1000):
        outbox.offer(Reached(state_at(lsn)))
    outbox.offer(piece(1))
    outbox.offer(Reached(state_at(1000)))
    items = [outbox.take() for _ in range(4)]
    assert [item.kept.state.lsn for item in items if isinstance(item, Reached)] == [999, 1000]
    assert items[3] is None


def test_a_queue_says_when_there_is_room() -> None:
    outbox, has_room = Outbox(lambda: None, budget=100), list[bool]()
    assert outbox.wait_for_room(0)
    for _ in range(4):
        outbox.offer(piece(25))
    waiting = threading.Thread(target=lambda: has_room.append(outbox.wait_for_room(60)), daemon=True)
    waiting.start()
    for _ in range(2):
        outbox.take()
    assert not has_room
    outbox.take()
    waiting.join(END_SECONDS)
    assert has_room == [True]


def test_a_closed_queue_takes_everything_and_has_nothing() -> None:
    outbox, has_room = Outbox(lambda: None, budget=100), list[bool]()
    outbox.offer(piece(100))
    waiting = [
        threading.Thread(target=outbox.offer, args=(piece(100),)),
        threading.Thread(target=lambda: has_room.append(outbox.wait_for_room(1))),
    ]
    for thread in waiting:
        thread.start()
    outbox.close()
    for thread in waiting:
        thread.join(END_SECONDS)
    assert has_room == [False]
    assert outbox.take() is None


def test_an_end_is_drained_when_all_was_taken() -> None:
    outbox = Outbox(lambda: None)
    outbox.offer(SlotError("it ends"))
    outbox.note_end()
    drained = [outbox.is_drained]
    outbox.take()
    drained.append(outbox.is_drained)
    outbox.offer(piece(1))
    assert [*drained, outbox.is_drained] == [False, True, False]


def test_an_end_counts_once_it_was_looked_at_again() -> None:
    outbox, drained = Outbox(lambda: None), list[bool]()
    for step in (outbox.note_end, outbox.expect_more, outbox.note_end, outbox.begin_look, outbox.note_end):
        step()
        drained.append(outbox.is_drained)
    assert drained == [True, False, False, False, True]


def test_a_shelf_has_the_nearest_state() -> None:
    shelf = Shelf()
    assert shelf.nearest(SPACING, history()) is None
    for number in range(1, 9):
        shelf.put(state_at(number * SPACING // 2))
    nearest = shelf.nearest(3 * SPACING + SPACING // 4, history())
    assert nearest is not None
    assert nearest.state.lsn == 5 * SPACING // 2
    newest = shelf.nearest(100 * SPACING, history())
    assert newest is not None
    assert newest.state.lsn == 4 * SPACING
    assert len(shelf) == 5


def test_a_shelf_has_a_budget() -> None:
    shelf = Shelf(ShelfRoom(20))
    for number in range(1, 9):
        shelf.put(state_at(number * SPACING))
    assert len(shelf) == 2
    newest = shelf.nearest(100 * SPACING, history())
    assert newest is not None
    assert newest.state.lsn == 8 * SPACING


def test_shelves_share_their_room() -> None:
    size = size_of(state_at(SPACING))
    room = ShelfRoom(8 * size)
    busy, idle, late = Shelf(room), Shelf(room), Shelf(room)
    idle.put(state_at(SPACING))
    idle.put(state_at(2 * SPACING))
    for number in range(1, 20):
        busy.put(state_at(number * SPACING))
    assert (len(busy), len(idle)) == (6, 2)
    for number in range(1, 20):
        late.put(state_at(number * SPACING))
    assert (len(busy), len(idle), len(late)) == (3, 2, 3)
    newest = busy.nearest(100 * SPACING, history())
    assert newest is not None
    assert newest.state.lsn == 19 * SPACING


@pytest.mark.parametrize(
    ("sizes", "most", "level"),
    [
        ([(10, 1), (20, 1)], 30, 30),
        ([(10, 1), (20, 1)], 25, 15),
        ([(10, 1), (20, 1), (2, 1)], 20, 9),
        ([(10, 9), (20, 1)], 12, 3),
        ([(10, 9), (20, 9)], 12, 0),
    ],
)
def test_who_needs_less_than_the_others_has_all(sizes: list[tuple[int, int]], most: int, level: int) -> None:
    assert level_of(sizes, most) == level


def test_a_shelf_gives_no_state_that_is_off_the_history() -> None:
    shelf, switched = Shelf(), history(2 * SPACING)
    for number in range(1, 5):
        shelf.put(state_at(number * SPACING))
    nearest = shelf.nearest(4 * SPACING, switched)
    assert nearest is not None
    assert nearest.state.lsn == 2 * SPACING
    shelf.put(state_at(4 * SPACING, timeline=2))
    assert shelf.nearest(4 * SPACING, switched) == state_at(4 * SPACING, timeline=2)


def test_what_a_member_was_given_must_be_of_the_history() -> None:
    member = Member(Outbox(lambda: None))
    member.check_of_history(history(100))
    member.has_been_given(3, Position(1, 200))
    member.check_of_history(history())
    member.check_of_history(history(200))
    with pytest.raises(SessionError, match="starting point 0/C8 on timeline 1 is not in this server's history"):
        member.check_of_history(history(199))


@dataclass(eq=False)
class Walker:
    """A fold without WAL: it stands, and goes where it is told."""

    kept: Any
    outputs: list[Any] = field(default_factory=list)
    handed: list[Any] = field(default_factory=list)
    alone_until: int = 0
    woken: int = 0

    def wake(self) -> None:
        self.woken += 1


class Output:
    """An output with members, unlike any other."""

    kind = ("kind",)
    opened: object = True

    def __init__(self) -> None:
        member = SimpleNamespace(can_join=True)
        self.members = [member]

    def drop_stopped(self) -> None:
        pass

    def is_same_as(self, other: Output, position: int) -> bool:  # noqa: ARG002
        return False


def walker(lsn: int, parts: object) -> Walker:
    """Return a fold at a place whose state has these parts."""
    return Walker(KeptState(_state(lsn, parts)), [Output()])


def _state(lsn: int, parts: object) -> Any:
    @dataclass(frozen=True)
    class State:
        lsn: int
        catalog: object
        left: object
        outputs: tuple[object, ...] = ()

    return State(lsn, parts, parts)


def test_folds_that_meet_become_one() -> None:
    places, parts = Places(), object()
    ahead, behind = walker(200, parts), walker(100, parts)
    for fold in (ahead, behind):
        places.enter(fold)
    assert places.next_step(ahead, 200, False) == Wait(None, has_changed=False)
    assert places.next_step(behind, 300, True) == Go(200, has_changed=False)
    behind.kept = KeptState(_state(200, parts))
    assert places.next_step(behind, 300, True) is None
    assert ahead.woken
    assert len(ahead.handed) == 1
    assert places.next_step(ahead, 300, True) == Go(300, has_changed=True)
    assert len(ahead.outputs) == 2


def test_a_fold_that_failed_in_company_stays_alone_for_the_window() -> None:
    places, parts = Places(), object()
    first, second = walker(100, parts), walker(100, parts)
    for fold in (first, second):
        fold.alone_until = 200
        places.enter(fold)
    assert places.next_step(first, 200, True) == Go(200, has_changed=False)
    assert places.next_step(second, 200, True) == Go(200, has_changed=False)
    first.kept = second.kept = KeptState(_state(200, parts))
    assert places.next_step(first, 200, False) == Wait(None, has_changed=False)
    assert places.next_step(second, 200, False) is None


@dataclass(frozen=True)
class Large:
    """A state that is looked at for as long as somebody else does something."""

    lsn: int
    is_looked_at: threading.Event
    is_done: threading.Event
    outputs: tuple[object, ...] = ()

    @property
    def catalog(self) -> object:
        """What takes its time."""
        self.is_looked_at.set()
        assert self.is_done.wait(END_SECONDS)
        return self.is_done

    left = catalog


class Comparing:
    """A fold that stands, and another whose state is just being compared with its own, in a thread.

    Attributes:
        places: of both; first: the fold that stands.
        steps: what the other one is told in the end.
    """

    def __init__(self) -> None:
        self.places, self._is_looked_at, self._is_done = Places(), threading.Event(), threading.Event()
        self.first, second = self._walker(), self._walker()
        self.places.enter(self.first)
        assert self.places.next_step(self.first, 200, False) == Wait(None, has_changed=False)
        self.places.enter(second)
        self.steps = list[object]()
        step = self.places.next_step
        self._thread = threading.Thread(target=lambda: self.steps.append(step(second, 200, False)), daemon=True)
        self._thread.start()
        assert self._is_looked_at.wait(END_SECONDS)

    def _walker(self) -> Walker:
        return Walker(KeptState(cast(Any, Large(200, self._is_looked_at, self._is_done))), [Output()])

    def end(self) -> list[object]:
        """Let the comparison end; return the steps."""
        self._is_done.set()
        self._thread.join(END_SECONDS)
        return self.steps


def test_nobody_waits_while_states_are_compared() -> None:
    comparing = Comparing()
    entering = threading.Thread(target=lambda: comparing.places.enter(walker(100, object())), daemon=True)
    entering.start()
    entering.join(END_SECONDS)
    assert not entering.is_alive()
    assert not comparing.steps
    assert comparing.end() == [None]
    assert len(comparing.first.handed) == 1


def test_a_fold_that_has_gone_while_it_was_compared_is_given_nothing() -> None:
    comparing = Comparing()
    assert len(comparing.places.leave(comparing.first)) == 1
    assert comparing.end() == [Wait(None, has_changed=False)]
    assert not comparing.first.handed


def test_nobody_waits_for_a_fold_that_is_to_be_alone() -> None:
    places, parts = Places(), object()
    ahead, lone = walker(200, parts), walker(100, parts)
    lone.alone_until = 300
    for fold in (ahead, lone):
        places.enter(fold)
    assert places.next_step(lone, 250, True) == Go(200, has_changed=False)
    assert places.next_step(ahead, 250, True) == Go(250, has_changed=False)
    ahead.kept = lone.kept = KeptState(_state(250, parts))
    assert places.next_step(ahead, 250, False) == Wait(None, has_changed=False)
    assert places.next_step(lone, 250, False) == Wait(None, has_changed=False)
    lone.kept = ahead.kept = KeptState(_state(300, parts))
    assert places.next_step(ahead, 300, False) == Wait(None, has_changed=False)
    assert places.next_step(lone, 300, False) is None


def test_requests_that_have_failed_are_known_for_a_while() -> None:
    faults, request = Faults(), DecodeRequest(wal=WalSource.of("wal"), catalog="base", options=(("a", "1"),))
    faults.note(replace(request, start=5, slot="first"), 100)
    assert faults.until(replace(request, start=9, slot="second")) == 100
    assert faults.until(replace(request, options=(("a", "2"),))) == 0
    for number in range(MOST):
        faults.note(replace(request, options=(("number", str(number)),)), 100)
    assert faults.until(request) == 0


def test_a_fold_without_members_ends() -> None:
    places, fold = Places(), walker(100, object())
    places.enter(fold)
    fold.outputs[0].members.clear()
    assert places.next_step(fold, 200, True) is None


def lone_fold(member: Member) -> SharedFold:
    """Return a fold of a member, which has come to no WAL yet."""
    around = Surroundings(cast(ServedWal, None), WalSource.of("none"), Places(), Shelf(), Counts())
    return SharedFold(around, [SharedOutput(cast(DecodeRequest, None), (), [member])], None)


def test_a_fold_that_does_not_begin_has_nothing_open() -> None:
    before = os.listdir("/proc/self/fd")
    folds = [lone_fold(Member(Outbox(lambda: None))) for _ in range(3)]
    assert os.listdir("/proc/self/fd") == before
    assert folds


def test_where_no_file_can_be_opened_members_are_told_and_let_go() -> None:
    member = Member(Outbox(lambda: None))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        lone_fold(member).start().join(END_SECONDS)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    item = member.outbox.take()
    assert isinstance(item, HeadwaterError)
    assert "Too many open files" in item.message
    member.wait()


def test_a_fold_that_waits_for_room_ends_when_its_member_stops() -> None:
    member = Member(Outbox(lambda: None, budget=100))
    member.outbox.offer(piece(100))
    around = Surroundings(cast(ServedWal, None), WalSource.of("none"), Places(), Shelf(), Counts())
    output = SharedOutput(cast(DecodeRequest, None), (), [member])
    thread = SharedFold(around, [output], None, room=10).start()
    member.stop()
    member.wait()
    thread.join(END_SECONDS)
    assert not thread.is_alive()
