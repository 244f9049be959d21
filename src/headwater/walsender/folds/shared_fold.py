"""One fold: a thread that goes through the WAL window by window, and gives what comes of it to the members of outputs.

A member whose queue stays full while others have nothing is detached: it goes on alone from the start of the window,
of which it will not be given again what it has. What fails in company is tried alone: so who is at fault ends alone.

PostgreSQL: XLogSendLogical (walsender.c), for many at once.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, field, replace

from headwater.errors import AwaitedCatalogError, AwaitedSegmentError, HeadwaterError, SessionError
from headwater.jobs.unforeseen import unforeseen
from headwater.pipeline.slices.decode_job import SliceDecoder, collected_together
from headwater.pipeline.windows.database_fold import PlannedWindow
from headwater.protocol.copy_frames import Piece
from headwater.reorder.plan import Slice
from headwater.reorder.slices.cutting import cut_together
from headwater.slots.history import Position, position_in
from headwater.slots.kept_state import KeptState
from headwater.wal.segments.arrivals import Arrivals
from headwater.wal.segments.place import WalSource
from headwater.walsender.folds.bell import Bell
from headwater.walsender.folds.faults import Faults
from headwater.walsender.folds.fold_windows import FoldWindows, Look, ServedWal, look_from
from headwater.walsender.folds.items import Reached
from headwater.walsender.folds.member import Member
from headwater.walsender.folds.places import Go, Places, Wait, position_of
from headwater.walsender.folds.shared_output import SharedOutput
from headwater.walsender.folds.shelf import Shelf

log = logging.getLogger("headwater.walsender")

SLICE_BYTES = 16 << 20
"""Bytes of WAL that are decoded before anything of them is sent."""

HOLD_UP_SECONDS = 0.5
"""A member may hold up others so long at a time."""

STALL_SECONDS = 5.0
"""A client that takes nothing for so long is detached though it holds up nobody: its fold's memory is let go of."""


@dataclass
class Counts:
    """The counts of a service's folds.

    Attributes:
        made: messages that were decoded and framed; given: that were put into queues, of each member.
        joined, detached: how often folds became one, and members were detached.
    """

    made: int = 0
    given: int = 0
    joined: int = 0
    detached: int = 0


@dataclass(frozen=True)
class Surroundings:
    """The surroundings of a database's folds.

    Attributes:
        wal: that is served; source: where it comes to.
        places: of the folds; shelf: of states; counts: of the service.
        faults: of requests.
        catalog: absolute path of the one that is served: states on the shelf are of its history.
    """

    wal: ServedWal
    source: WalSource
    places: Places
    shelf: Shelf
    counts: Counts
    faults: Faults = field(default_factory=Faults)
    catalog: str = ""


class SharedFold:
    """A fold.

    Args:
        around: its surroundings.
        outputs: what it makes; kept_state: the state where they begin, None for the catalog.
        alone_until: LSN before which it does not become one with another.
        room: bytes that its members must have room for before it begins; None: it begins at once.

    Attributes:
        outputs, handed, kept, alone_until: see :class:`~headwater.walsender.folds.places.Fold`.
    """

    def __init__(
        self,
        around: Surroundings,
        outputs: list[SharedOutput],
        kept_state: KeptState | None,
        alone_until: int = 0,
        room: int | None = None,
    ) -> None:
        self._around, self.outputs, self.kept, self.alone_until = around, outputs, kept_state, alone_until
        self.handed: list[SharedOutput] = []
        self._room = room
        self._has_turned_out = False
        self._bell: Bell | None = None
        self._windows: FoldWindows | None = None
        self._target, self._read = 0, Position(0, 0)
        self._limit = 0

    def start(self) -> threading.Thread:
        """Begin; return the thread."""
        if self._room is None:
            self._take_members()
        thread = threading.Thread(target=self._run, name="walsender-fold", daemon=True)
        try:
            thread.start()
        except Exception as error:
            self._fail(unforeseen("starting a thread", error))
        return thread

    def wake(self) -> None:
        """Let it look at everything again."""
        if self._bell is not None:
            self._bell.ring()

    def _run(self) -> None:
        try:
            if self._has_room():
                with Bell() as self._bell, Arrivals(self._around.source.places, self._bell.fileno()) as arrivals:
                    self._around.places.enter(self)
                    self._go_on(self._bell, arrivals)
        except HeadwaterError as error:
            self._fail(error)
        except Exception as error:
            log.exception("a fold has failed")
            self._fail(unforeseen("decoding", error))
        finally:
            if self._windows is not None:
                self._windows.close()

    def _has_room(self) -> bool:
        """Wait until its members have room; False: they have stopped. Nobody waits for a fold that waits so."""
        if self._room is None:
            return True
        room = self._room
        if not all(member.outbox.wait_for_room(room) for output in self.outputs for member in output.members):
            return False
        self._take_members()
        return True

    def _take_members(self) -> None:
        for output in self.outputs:
            for member in output.members:
                member.entered()

    def _go_on(self, bell: Bell, arrivals: Arrivals) -> None:
        while True:
            bell.silence()
            self._begin_look()
            look, members = self._look(), self._member_count()
            step = self._around.places.next_step(self, 0 if look is None else look.end, bool(look and look.has_more))
            if step is None:
                return
            self._count_joined(members)
            if (step.has_changed or self._has_turned_out) and self._windows is not None:
                self._windows.change(self.outputs)
                self._has_turned_out = False
            if isinstance(step, Wait):
                if look is None or not look.has_more:
                    self._note_end()
                arrivals.wait(step.seconds)
            elif look is not None and not self._go(step, look):
                self._around.places.note_slow(self, True)
                arrivals.wait()

    def _begin_look(self) -> None:
        for output in self.outputs:
            for member in output.members:
                member.outbox.begin_look()

    def _member_count(self) -> int:
        return sum(len(output.members) for output in self.outputs)

    def _count_joined(self, before: int) -> None:
        """Count members that have come, where there were so many before."""
        members = self._member_count()
        if members > before:
            self._around.counts.joined += members - before
            log.debug("%d subscribers share a fold, and %d outputs", members, len(self.outputs))

    def _look(self) -> Look | None:
        """Look at the WAL, and open what is not open; None: some that is needed has not come."""
        try:
            look = look_from(self._around.wal, self.kept)
            self._check_members(look)
            if self._windows is None:
                self._windows = FoldWindows(self.outputs, self.kept, look.directory)
            return look
        except (AwaitedSegmentError, AwaitedCatalogError):
            return None

    def _check_members(self, look: Look) -> None:
        """End members that were given messages of a window which another history goes on with now."""
        for output in self.outputs:
            for member in list(output.members):
                try:
                    member.check_of_history(look.directory)
                except SessionError as error:
                    output.members.remove(member)
                    member.fail(error)

    def _note_end(self) -> None:
        for output in self.outputs:
            for member in output.members:
                member.outbox.note_end()

    def _go(self, step: Go, look: Look) -> bool:
        """Go through a window; False: some of its WAL has not come."""
        assert self._windows is not None
        self._target = min(step.target, self._limit) if self._limit > position_of(self) else step.target
        for output in self.outputs:
            output.begin_window()
        try:
            window = self._windows.next(position_of(self), self._target, look)
            self._read = position_in(look.directory, window.behind.lsn)
            self._decode(window)
        except (AwaitedSegmentError, AwaitedCatalogError):
            self._begin_again()
            return False
        except HeadwaterError as error:
            if len(self.outputs) == 1:
                self._around.faults.note(self.outputs[0].request, step.target)
                if self._may_come_nearer(error):
                    self._begin_again()
                    return True
            raise
        self._end_window(window)
        if position_of(self) >= look.end:
            self._note_end()
        return True

    def _may_come_nearer(self, error: HeadwaterError) -> bool:
        """Tell whether transactions lie before one that fails: these are sent first, as by a server."""
        until = error.good_until
        if until is None or not 0 < position_of(self) < until < self._target:
            return False
        self._limit = until
        return True

    def _begin_again(self) -> None:
        assert self._windows is not None
        self._windows.close()
        self._windows = None
        for output in self.outputs:
            output.begin_again()

    def _decode(self, window: PlannedWindow) -> None:
        assert self._windows is not None
        decoders = self._windows.decoders()
        for group in cut_together([assembly.plan for assembly in window.assemblies], SLICE_BYTES):
            for output in self.outputs:
                output.drop_stopped()
            wanted = [(number, piece) for number, piece in group if self.outputs[number].members]
            if wanted:
                self._decode_group(decoders, wanted)
            elif not any(output.members for output in self.outputs):
                return

    def _decode_group(self, decoders: list[SliceDecoder], group: list[tuple[int, Slice]]) -> None:
        """Decode slices that read about the same WAL, which is read once."""
        collected = collected_together([(decoders[number], piece) for number, piece in group])
        for (number, piece), changes in zip(group, collected, strict=True):
            output, decoder = self.outputs[number], decoders[number]
            messages = output.settlement.settled(decoder.messages_of(decoder.printed(piece, changes)))
            self._around.counts.made += len(messages.lsn)
            for framed, members in output.framed(messages):
                for member in members:
                    self._give(output, member, framed)

    def _end_window(self, window: PlannedWindow) -> None:
        assert self._windows is not None
        state = self._windows.state_behind(window)
        kept_state = KeptState(replace(state, outputs=()), self.outputs[0].server_settings)
        # What fails from here on finds all outputs at the end of the window, and the fold there, too.
        ends = [output.end_window(own, state.lsn) for output, own in zip(self.outputs, state.outputs, strict=True)]
        self._has_turned_out = any(end is not own for end, own in zip(ends, state.outputs, strict=True))
        self.kept = kept_state
        for output, end in zip(self.outputs, ends, strict=True):
            reached = Reached(KeptState(replace(state, outputs=(end,)), output.server_settings))
            for member in output.members:
                member.outbox.offer(reached)
        is_of_catalog = os.path.abspath(self.outputs[0].request.catalog) == self._around.catalog
        if is_of_catalog and not self._windows.has_definitions:
            self._around.shelf.put(kept_state)

    # -- members

    def _give(self, output: SharedOutput, member: Member, piece: Piece) -> None:
        """Put a piece into a member's queue; or detach the member, if it holds up others."""
        if not member.outbox.offer(piece, HOLD_UP_SECONDS) and not self._gave_late(member, piece):
            self._detach(output, member, piece)
            return
        member.has_been_given(piece.count, self._read)
        self._around.counts.given += piece.count

    def _gave_late(self, member: Member, piece: Piece) -> bool:
        """Wait for room in a member's queue, as long as others are not held up by that; False: they are."""
        places, has_noted = self._around.places, False
        try:
            while self._is_put_up_with(member):
                if member.outbox.offer(piece, HOLD_UP_SECONDS):
                    return True
                places.note_slow(self, True)
                has_noted = True
            return False
        finally:
            if has_noted:
                places.note_slow(self, False)

    def _is_put_up_with(self, member: Member) -> bool:
        others = (other for output in self.outputs for other in output.members if other is not member)
        has_starving = any(not other.outbox.has_items for other in others)
        return not has_starving and member.outbox.idle_seconds < STALL_SECONDS

    def _detach(self, output: SharedOutput, member: Member, piece: Piece) -> None:
        """Let a member go on alone from the start of the window, once it has room for what it could not take."""
        log.info("a subscriber lags behind, and goes on alone")
        self._around.counts.detached += 1
        alone = SharedOutput(output.request, output.server_settings, [member], output.state, output.before.copy())
        fold = SharedFold(self._around, [alone], self.kept, room=len(piece.data))
        output.members.remove(member)
        member.left()
        fold.start()

    def _fail(self, error: HeadwaterError) -> None:
        """End who is at fault: one alone is; several go on alone from where the window began."""
        outputs = self._around.places.leave(self)
        for output in outputs:
            try:
                if len(outputs) == 1:
                    output.fail(error)
                else:
                    output.begin_again()
                    alone_until = max(self._target, position_of(self) + 1)
                    SharedFold(self._around, [output], self.kept, alone_until).start()
            except Exception as other:
                log.exception("a fold does not go on")
                output.fail(unforeseen("decoding", other))
