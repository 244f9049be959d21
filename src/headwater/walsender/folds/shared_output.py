"""One output of a fold: a session's messages, made once and put into the queues of all that ask the same of it.

Invariant: members of an output have the same request, state and settlement at the start of each window; what sets them
apart is how many messages of the window each has been given already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headwater.base.value_codec import same
from headwater.errors import HeadwaterError
from headwater.pipeline.requests.open_output import OpenOutput, scope_of
from headwater.pipeline.requests.open_request import OpenRequest, open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.slices.tentative_messages import Settlement
from headwater.plugins.callbacks.callback_plugin import CallbackPlugin
from headwater.protocol.copy_frames import Piece, framed
from headwater.reorder.commits.state import OutputState, State
from headwater.rows.items import Messages
from headwater.slots.kept_state import KeptState
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.folds.member import Member

Settings = tuple[tuple[str, str], ...]


@dataclass(eq=False)
class SharedOutput:
    """An output.

    Attributes:
        request: what is asked, by the first of its members.
        server_settings: see :class:`~headwater.slots.kept_state.KeptState`.
        members: who is given it.
        state: at the start of the present window; None where nothing is known of it yet.
        settlement: of its messages; before: as it was at the start of the present window.
        count: messages of the present window so far.
        opened: it, once it is open.
    """

    request: DecodeRequest
    server_settings: Settings
    members: list[Member]
    state: OutputState | None = None
    settlement: Settlement = None  # type: ignore[assignment]
    before: Settlement = None  # type: ignore[assignment]
    count: int = 0
    opened: OpenOutput | None = None

    def __post_init__(self) -> None:
        self.settlement = self.settlement or Settlement()
        self.before = self.settlement.copy()

    @property
    def plan(self) -> OpenOutput:
        """The open output."""
        assert self.opened is not None
        return self.opened

    @property
    def own_state(self) -> OutputState:
        """The state at the start of the present window."""
        return OutputState(self.plan.asked) if self.state is None else self.state

    def open(self, kept_state: KeptState | None, directory: WalDirectory) -> None:
        """Open it where it begins, unless it is open.

        Args:
            kept_state: the state of its database there, None for the catalog; directory: the WAL.

        Raises:
            HeadwaterError: the plugin, one of its options or a setting is refused, or WAL is missing.
        """
        if self.opened is not None and kept_state is not None:
            return
        if kept_state is not None and self.state is not None:
            kept_state = KeptState(replace(kept_state.state, outputs=(self.state,)), self.server_settings)
        opened = open_request(self.request, kept_state=kept_state, directory=directory)
        self.opened, self.server_settings = OpenOutput(opened, scope_of(opened)), opened.server_settings
        if opened.state is not None:
            (self.state,) = opened.state.outputs

    def opened_with(self, state: State, first: OpenRequest) -> OpenOutput:
        """Return it as one of several of a fold, in a state of all of them; they share what the first one has."""
        shared = replace(self.plan.opened, store=first.store, directory=first.directory, state=state)
        return replace(self.plan, opened=shared)

    def begin_window(self) -> None:
        """Note where a window begins."""
        self.before = self.settlement.copy()

    def begin_again(self) -> None:
        """Go back to the start of the window: members will not be given again what they have."""
        self.settlement, self.count = self.before.copy(), 0

    def end_window(self, state: OutputState, lsn: int) -> OutputState:
        """Note the state at the end of a window; return it with what has turned out in the window."""
        for member in self.members:
            member.given = max(0, member.given - self.count)
        memory = self.settlement.end_window(state.memory, lsn)
        self.state, self.count = state if memory is state.memory else replace(state, memory=memory), 0
        return self.state

    def fail(self, error: HeadwaterError) -> None:
        """End all members with an error."""
        for member in self.members:
            member.fail(error)

    def drop_stopped(self) -> None:
        """Let go of members that have stopped."""
        for member in [member for member in self.members if member.is_stopped]:
            self.members.remove(member)
            member.left()

    def framed(self, messages: Messages) -> Iterator[tuple[Piece, list[Member]]]:
        """Frame the next messages of a window, once for all; give each piece with those that do not have it yet."""
        opened, first, count = self.plan.opened, self.count, len(messages.lsn)
        self.count += count
        lsns = sent_lsns(opened, messages)
        behind: dict[int, list[Member]] = {}
        for member in self.members:
            behind.setdefault(min(max(member.given - first, 0), count), []).append(member)
        for given, members in behind.items():
            for piece in framed(lsns[given:], messages.offsets[given:], messages.data):
                yield piece, [member for member in members if member in self.members]

    def is_same_as(self, other: SharedOutput, position: int) -> bool:
        """Tell whether another output's messages are the same from an LSN on."""
        return (
            self.asks(position) == other.asks(position)
            and self.server_settings == other.server_settings
            and self.settlement == other.settlement
            and same(self.own_state, other.own_state)
        )

    def asks(self, position: int) -> DecodeRequest:
        """Return its request, without what makes no difference from an LSN on."""
        start = self.request.start if (self.request.start or 0) > position else None
        names_slot = isinstance(self.plan.plugin, CallbackPlugin)
        return replace(self.request, start=start, slot=self.request.slot if names_slot else "")

    @property
    def kind(self) -> tuple[object, ...]:
        """What outputs of one fold have in common."""
        request, session = self.request, self.plan.opened.session
        return request.needed_level, request.on_level_gap, request.catalog, session.version


def sent_lsns(opened: OpenRequest, messages: Messages) -> NDArray[np.int64]:
    """Return int64[k]: the LSNs that a walsender sends messages with."""
    return np.where(opened.plugin.without_place(messages), 0, messages.lsn)


def joined(outputs: Sequence[SharedOutput], position: int) -> list[SharedOutput]:
    """Join outputs that are the same from an LSN on, and leave out those without members."""
    distinct: list[SharedOutput] = []
    for output in outputs:
        output.drop_stopped()
        if not output.members:
            continue
        like = next((other for other in distinct if other.is_same_as(output, position)), None)
        if like is None:
            distinct.append(output)
        else:
            like.members += output.members
    return distinct


Begin = Callable[[SharedOutput, KeptState | None], None]
"""Begins a fold of an output alone, from a state on."""
