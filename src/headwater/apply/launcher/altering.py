"""A subscription altered on its target, whoever applies it: enabled, disabled, set, refreshed, dropped.

Processes that apply it look at the target once a second, and do what it says. DROP disables it first, and waits until
nobody applies it any more.

PostgreSQL: subscriptioncmds.c (AlterSubscription, DropSubscription): words and SQLSTATEs are the server's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from headwater.apply.incoming.requests import ApplyRequest, WalSlot
from headwater.apply.progress.deletion_tables import stop_watching
from headwater.apply.progress.installation import install, is_installed, transaction
from headwater.apply.progress.origins import (
    drop_origin,
    ensure_origin,
    has_origin,
    leave_origin,
    list_origins,
    origin_name,
    use_origin,
)
from headwater.apply.progress.run_states import forget
from headwater.apply.progress.standing import missing, read_standing, set_enabled, set_parameters
from headwater.apply.progress.subscriptions import Subscription, read_subscription, remove_subscription
from headwater.apply.streamed.parallel_origins import drop_parallel_origins
from headwater.apply.table_sync.subscribing import refresh_now
from headwater.apply.table_sync.sync_slots import drop_slot, list_slots, open_source
from headwater.apply.table_sync.wal_publisher import Publisher
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.session import open_target
from headwater.errors import ConnectionLostError, ServerError

LEAVE_SECONDS = 30.0
"""How long whoever applies a subscription may take to leave it before it is dropped."""

_AGAIN_SECONDS = 0.1
_IN_USE, _NOT_IN_STATE = "55006", "55000"
Say = Callable[[str], None]


def enable(request: ApplyRequest, *, is_enabled: bool) -> None:
    """Enable or disable a subscription.

    Raises:
        ServerError: there is none of that name, or the target refuses.
    """
    with _opened(request) as connection:
        set_enabled(connection, request.subscription, is_enabled=is_enabled)


def change(request: ApplyRequest, values: dict[str, Sequence[str]], resets: Sequence[str] = ()) -> None:
    """Set parameters of a subscription, and reset others; its place stays what it is.

    Args:
        request: the subscription's; values: texts by the names of flags, which fit; resets: names.

    Raises:
        ServerError: there is none of that name, or the target refuses.
    """
    with _opened(request) as connection, transaction(connection):
        set_parameters(connection, request.subscription, values, resets)


def refresh_enabled(request: ApplyRequest, say: Say) -> None:
    """Take the tables that the publications have now.

    Raises:
        ServerError: there is no subscription of that name, it is disabled, or a server refuses.
    """
    with _opened(request) as connection:
        standing = read_standing(connection, request.subscription)
    if standing.is_there and not standing.is_enabled:
        text = "ALTER SUBSCRIPTION ... REFRESH is not allowed for disabled subscriptions"
        raise ServerError(text, sqlstate=_NOT_IN_STATE)
    refresh_now(request, say)


def drop(request: ApplyRequest, say: Say, *, keeps_slot: bool = False) -> None:
    """Drop a subscription: its slots on the publisher, and its origins, tables and states on the target.

    Args:
        request: the subscription's.
        say: is told of the slot.
        keeps_slot: the slot stays, and the publisher need not be there.

    Raises:
        ServerError: there is none of that name, it is applied still, or a server refuses: then all is as before.
    """
    with _opened(request) as connection:
        subscription = read_subscription(connection, request.subscription)
        name = origin_name(request.subscription)
        if subscription is None and (request.wal is None or not has_origin(connection, name)):
            raise missing(request.subscription)
        with _disabled(connection, subscription), ExitStack() as stack:
            for left in (name, *([] if subscription is None else list_origins(connection, subscription.sync_prefix))):
                _wait_until_left(connection, left)
            source = stack.enter_context(_source(request, keeps_slot=keeps_slot))
            _drop(connection, source, subscription, request, say, keeps_slot=keeps_slot)


def _opened(request: ApplyRequest) -> TargetConnection:
    connection, _ = open_target(request.target, f"headwater alter {request.subscription}")
    try:
        install(connection)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _disabled(connection: TargetConnection, subscription: Subscription | None) -> Iterator[None]:
    """Disable a subscription that is to be dropped in the ``with`` block; as it was, should that fail."""
    if subscription is None:
        yield
        return
    was_enabled = read_standing(connection, subscription.name).is_enabled
    set_enabled(connection, subscription.name, is_enabled=False)
    try:
        yield
    except BaseException:
        with suppress(ServerError):
            set_enabled(connection, subscription.name, is_enabled=was_enabled)
        raise


def _wait_until_left(connection: TargetConnection, name: str) -> None:
    """Wait until no session has a subscription's origin."""
    until = time.monotonic() + LEAVE_SECONDS
    origin = ensure_origin(connection, name)
    while True:
        try:
            use_origin(connection, origin)
            break
        except ServerError as error:
            if error.sqlstate != _IN_USE or time.monotonic() >= until:
                raise
            time.sleep(_AGAIN_SECONDS)
    leave_origin(connection)


class _Nowhere:
    """The publisher of a subscription whose slot is kept, if it cannot be reached; a context manager."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _source(request: ApplyRequest, *, keeps_slot: bool) -> Publisher | _Nowhere:
    try:
        return open_source(request)
    except ConnectionLostError as error:
        if keeps_slot:
            return _Nowhere()
        text = "could not connect to publisher when attempting to drop replication slot"
        hint = "--keep-slot leaves it, and needs no publisher"
        raise ConnectionLostError(f'{text} "{request.slot.slot}": {error.message}', hint=hint) from None


def _drop(
    connection: TargetConnection,
    source: Publisher | None,
    subscription: Subscription | None,
    request: ApplyRequest,
    say: Say,
    *,
    keeps_slot: bool,
) -> None:
    """Drop all in one transaction of the target; slots go last, as they do not come back."""
    if is_installed(connection):
        stop_watching(connection, request.subscription)
    with transaction(connection):
        forget(connection, request.subscription)
        if subscription is not None:
            remove_subscription(connection, subscription)
            for name in list_origins(connection, subscription.sync_prefix):
                drop_origin(connection, name)
        drop_parallel_origins(connection, request.subscription)
        drop_origin(connection, origin_name(request.subscription))
        if source is not None and subscription is not None:
            _drop_slots(source, subscription, say, keeps_slot=keeps_slot or request.wal is not None)
        if request.wal is not None and not keeps_slot:
            _drop_own_slot(request.wal, say)


def _drop_own_slot(slot: WalSlot, say: Say) -> None:
    from headwater.slots.slot_directory import is_slot, open_slot

    if is_slot(slot.path):
        with open_slot(slot.path, may_be_invalid=True) as opened:
            opened.drop()
        say(f'dropped replication slot "{slot.name}"')


def _drop_slots(source: Publisher, subscription: Subscription, say: Say, *, keeps_slot: bool) -> None:
    for name in list_slots(source, subscription.sync_prefix, f"_{subscription.system}"):
        drop_slot(source, name)
    if not keeps_slot and subscription.has_slot:
        drop_slot(source, subscription.slot)
        say(f'dropped replication slot "{subscription.slot}" on publisher')
