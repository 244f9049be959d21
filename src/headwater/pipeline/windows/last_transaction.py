"""The number of messages that a window's last transaction gives, as far as the index tells: none, one, or more.

For plugins that put before a message that is in no transaction something that depends on the transaction before it
(``PluginTraits.leads_messages``). Where a window begins with such a message, the driver must know without decoding.
Invariant: the number is true, or :data:`UNTOLD`. It goes from window to window as an entry of no relation in the
plugin's memory (:mod:`headwater.reorder.announced_schemas`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headwater.errors import PluginError
from headwater.pipeline.windows.driver_messages import WantedMessages
from headwater.reorder.announced_schemas import Entry, SchemaMemory
from headwater.reorder.plan import Units
from headwater.reorder.slices.changes import Candidates, Choice
from headwater.reorder.wanted_changes import Description
from headwater.rmgr.index.index_codes import (
    CONFIRMS,
    DELETES_OLD,
    INSERTS,
    SPECULATIVE,
    SUPER_DELETES,
    UNSETTLED,
    UPDATES,
)
from headwater.rmgr.index.index_rows import Rows

MANY, UNTOLD = 2, 3
"""Two messages or more; and where it cannot be told without decoding."""

_COUNTED = INSERTS | UPDATES | DELETES_OLD | CONFIRMS
_NOT_COUNTED = SPECULATIVE | SUPER_DELETES | UNSETTLED
_NO_RELATION = 0


def changes_in_mind(memory: SchemaMemory) -> int:
    """Return the number that the window before gave; nothing has been shown at the start of a session."""
    return memory.entries[0].said.wants if memory.entries else 0


def with_changes(memory: SchemaMemory, changes: int) -> SchemaMemory:
    """Return the memory of a plugin that sends no schemas, with that in it."""
    return replace(memory, entries=(Entry(_NO_RELATION, Description(changes)),))


def require_told(changes: int, units: Units) -> None:
    """Check that the window before says enough for this one.

    Raises:
        PluginError: its first unit is a message, and what that depends on cannot be told.
    """
    if changes == UNTOLD and len(units.txn) and units.is_bare[0]:
        raise PluginError(
            "what the plugin puts before a message depends on the transaction before it, which is in another window",
            lsn=int(units.commit_lsn[0]),
            hint="end the window elsewhere, leave out the options actions and prefixes of messages, or use format 2",
        )


def last_changes(
    rows: Rows,
    candidates: Candidates,
    choice: Choice,
    certain_kinds: NDArray[np.uint8],
    messages: WantedMessages,
    units: Units,
    *,
    may_leave_out: bool,
) -> int | None:
    """Count the messages that the last transaction gives: 0, 1, MANY or UNTOLD.

    Args:
        rows: the index.
        candidates: c of its rows.
        choice: says which of them give messages.
        certain_kinds: uint8[c] bits of the kinds that do, whatever is in their rows.
        messages: logical messages that the plugin wants.
        units: what is output.
        may_leave_out: the plugin does not make something of all of these.

    Returns:
        the number, None if no transaction is output.
    """
    ended = units.txn[~units.is_bare]
    if not len(ended):
        return None
    of_last = (candidates.txn == ended[-1]) & choice.wanted
    counts = rows.changes.count[candidates.at[of_last]].astype(np.int64)
    kinds, sure = candidates.kinds[of_last], certain_kinds[of_last]
    are_all_certain = kinds & ~(sure & _COUNTED | _NOT_COUNTED) == 0
    logical = int(np.count_nonzero(messages.txn == ended[-1]))
    least = int(np.where(are_all_certain, counts, kinds & sure != 0).sum()) + (0 if may_leave_out else logical)
    most = int(counts.sum()) + logical
    if least >= MANY:
        return MANY
    return most if most < MANY else UNTOLD
