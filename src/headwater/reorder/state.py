"""The state at an LSN: all that decoding what follows needs of what came before, but for WAL that is still needed.

A value: it is compared, saved and loaded (:mod:`headwater.flat_values`), and the same whichever windows led to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.catalog.image import CatalogImage
from headwater.reorder.control import Control
from headwater.reorder.open_transactions import OpenTransactions
from headwater.reorder.schema_memory import SchemaMemory
from headwater.reorder.streams import NOTHING_QUEUED, Accounting


@dataclass(frozen=True)
class State:
    """Where decoding stands.

    Attributes:
        lsn: records that start before it have been read: the end of the last one.
        last_lsn: where that one starts, 0 if it is not known.
        timeline: the timeline that the log was on there.
        control: what control records have told; its builder knows the consistent LSN, where decoding could begin.
        catalog: as of the LSN, with what older transactions that have not ended can still see.
        left: what is known of transactions that have not ended.
        memory: what the plugin has in mind of the session.
        two_phase_at: what was prepared from this LSN on has been decoded at PREPARE; None if none was.
        accounting: what of transactions in progress is queued, of a session that streams them.
    """

    lsn: int
    last_lsn: int
    timeline: int
    control: Control
    catalog: CatalogImage
    left: OpenTransactions
    memory: SchemaMemory
    two_phase_at: int | None = None
    accounting: Accounting = NOTHING_QUEUED

    @property
    def restart_lsn(self) -> int:
        """WAL from here on is still needed: the oldest transaction that has not ended first showed here."""
        first = self.left.first_lsn
        return self.lsn if first is None else min(first, self.lsn)

    @property
    def in_new_session(self) -> State:
        """The state as a new session begins with it: the plugin has nothing announced, and nothing is streamed yet."""
        return replace(self, memory=self.memory.in_new_session, accounting=self.accounting.in_new_session)
