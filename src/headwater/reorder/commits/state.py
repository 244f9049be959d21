"""The state at an LSN: all that decoding what follows needs of what came before, but for WAL that is still needed.

A value: it is compared, saved and loaded (:mod:`headwater.base.value_codec`), and the same whichever windows led to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater.catalog.store.catalog_image import CatalogImage
from headwater.errors import UsageError
from headwater.option_names import option
from headwater.reorder.announced_schemas import NOTHING_REMEMBERED, SchemaMemory
from headwater.reorder.commits.control import Control
from headwater.reorder.commits.open_transactions import OpenTransactions
from headwater.reorder.commits.stream_rules import NOTHING_QUEUED, Accounting


@dataclass(frozen=True)
class OutputState:
    """The state of one output, beside what all of them share.

    Attributes:
        asked: its plugin and the options it was asked for with, in the words of the command line.
        memory: the plugin's memory of the session.
        two_phase_at: transactions prepared from this LSN on have been decoded at PREPARE; None if none was.
        accounting: the queued part of transactions in progress, of a session that streams them.
    """

    asked: str = ""
    memory: SchemaMemory = NOTHING_REMEMBERED
    two_phase_at: int | None = None
    accounting: Accounting = NOTHING_QUEUED

    @property
    def in_new_session(self) -> OutputState:
        """As a new session begins with it: the plugin has nothing announced, and nothing is streamed yet."""
        return replace(self, memory=self.memory.in_new_session, accounting=self.accounting.in_new_session)


@dataclass(frozen=True)
class State:
    """The position of decoding, and all that is needed to go on from it.

    Attributes:
        lsn: records that start before it have been read: the end of the last one.
        last_lsn: where that one starts, 0 if it is not known.
        timeline: the timeline that the log was on there.
        control: what control records have told; its builder knows the consistent LSN, where decoding could begin.
        catalog: as of the LSN, with what older transactions that have not ended can still see.
        left: what is known of transactions that have not ended.
        outputs: of each output; none where nothing has been decoded yet.
    """

    lsn: int
    last_lsn: int
    timeline: int
    control: Control
    catalog: CatalogImage
    left: OpenTransactions
    outputs: tuple[OutputState, ...] = ()

    @property
    def restart_lsn(self) -> int:
        """WAL from here on is still needed: the oldest transaction that has not ended first showed here."""
        first = self.left.first_lsn
        return self.lsn if first is None else min(first, self.lsn)

    @property
    def in_new_session(self) -> State:
        """The state as a new session begins with it."""
        return replace(self, outputs=tuple(output.in_new_session for output in self.outputs))

    def going_on(self, asked: Sequence[str]) -> State:
        """Return the state as outputs go on with it: with what is kept for each of them, in their order.

        What one output alone has left, any single one goes on with, as a slot may be copied with another plugin. Of
        several, each goes on with its own: what was decoded at PREPARE for one, another has never been given.

        Args:
            asked: of each output (:attr:`OutputState.asked`).

        Raises:
            UsageError: one of them is not among those that the state was kept for.
        """
        if not self.outputs:
            return replace(self, outputs=tuple(map(OutputState, asked)))
        if len(self.outputs) == len(asked) == 1:
            return self
        unclaimed = list(self.outputs)
        outputs = []
        for wanted in asked:
            place = next((number for number, output in enumerate(unclaimed) if output.asked == wanted), None)
            if place is None:
                names = ", ".join(f'"{output.asked}"' for output in self.outputs)
                raise UsageError(
                    f'the state has nothing of the output "{wanted}", it was kept by a run with {names}',
                    hint="go on with these outputs, or some of them; begin with another one in a run of its own, "
                    f"with {option('catalog')}",
                )
            outputs.append(unclaimed.pop(place))
        return replace(self, outputs=tuple(outputs))
