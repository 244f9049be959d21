"""A table held while others go on: its changes from some place on wait in a slot of its own.

The table becomes one whose copy is finished, and that has to catch up, from just before the transaction that has
changed its definition. Its worker tries again and again to apply that; when the target's table fits, it catches up, and
the main worker takes the table over, as behind any copy.

Invariant: the slot is made before the state is written; one that is left by a kill in between is dropped at the start.
"""

from __future__ import annotations

from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.progress.installation import transaction
from headwater.apply.progress.subscriptions import State, read_subscription, set_state
from headwater.apply.serial.definition_changes import HeldTableError
from headwater.apply.table_sync.sync_slots import copy_slot, open_source
from headwater.apply.target.session import open_target


def hold_table(request: ApplyRequest, held: HeldTableError) -> None:
    """Hold a table, while the subscription's stream is closed.

    Args:
        request: what is asked for; held: says which table, and from where on.

    Raises:
        HeadwaterError: the slot cannot be made.
        ServerError: a server refuses, or is lost: the transaction will come again.
    """
    connection, _ = open_target(request.target, f"headwater hold {request.subscription}")
    with connection, open_source(request) as source:
        subscription = read_subscription(connection, request.subscription)
        assert subscription is not None
        copy_slot(source, subscription.slot, subscription.sync_name(held.oid))
        with transaction(connection, is_durable=True):
            connection.send(set_state(subscription, held.oid, State.FINISHEDCOPY, held.table_lsn))
