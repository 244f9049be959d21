"""A slot whose client has confirmed what is on a timeline that was left before: it is to be off the history, too.

What is confirmed is a number, of no timeline; the slot's state may be older, and of before the switch. On the new
timeline the number would stand for other transactions, which would be left out. So the state follows it.

Known gap: where the service was killed before it noticed the switch, the number alone is there.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from headwater.errors import HeadwaterError, OffHistoryError
from headwater.pipeline.requests.slot_request import kept_in_slot
from headwater.pipeline.slot_moves import state_at
from headwater.slots.history import is_of_history, position_in
from headwater.slots.slot_directory import OpenSlot
from headwater.walsender.served_cluster import ServedCluster

log = logging.getLogger("headwater.walsender")


def follow_left_timeline(cluster: ServedCluster, opened: OpenSlot, error: OffHistoryError) -> None:
    """Move the state of a slot to what its client has confirmed, if that is off the history; takes its time.

    Args:
        cluster: has the WAL; opened: the slot; error: the session's end.
    """
    slot = opened.slot
    if slot.state is None or not is_of_history(slot.state, cluster.look()):
        return
    try:
        old = cluster.look_at(slot.restart_lsn, error.timeline)
        if not position_in(old, slot.confirmed_lsn).is_of(cluster.look()):
            state = state_at(cluster.request_of(slot), kept_in_slot(slot), slot.confirmed_lsn, old)
            opened.write(replace(slot, state=state.in_new_session))
    except HeadwaterError as failure:
        log.error("the slot does not follow the timeline that was left: %s", failure)
