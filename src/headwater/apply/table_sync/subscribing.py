"""A subscription's beginning and its refreshes: which tables it has, and the slot.

At its first start the tables of the publications are written with the state i, or r if no rows are to be copied; then
the slot is made, as CREATE SUBSCRIPTION does. Later, tables that have come to the publications are added, and tables
that have left them are removed, as ALTER SUBSCRIPTION ... REFRESH PUBLICATION does.

Invariants: a slot is made once. One that was there before is not taken for the subscription's own by mistake. One that
is lost later is not made anew, as changes would be missing. Whatever is killed, the next start goes on.

PostgreSQL: subscriptioncmds.c (CreateSubscription, AlterSubscription_refresh).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from headwater.apply.incoming.map_rules import MapRules, TableName
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.progress.installation import install, is_installed, transaction
from headwater.apply.progress.origin_progress import forget_progress
from headwater.apply.progress.origins import drop_origin, ensure_origin, has_origin, origin_name
from headwater.apply.progress.pending_statements import add_pending
from headwater.apply.progress.standing import array_text
from headwater.apply.progress.subscriptions import (
    State,
    SubscribedTable,
    Subscription,
    add_subscription,
    add_table,
    note_publications,
    note_slot,
    read_subscription,
    read_tables,
    remove_subscription,
    remove_table,
    set_two_phase,
)
from headwater.apply.table_sync.checked_rules import check_rules, wanted_tables
from headwater.apply.table_sync.creating import make_tables
from headwater.apply.table_sync.locks_of_source import telling_of_locks
from headwater.apply.table_sync.publisher_tables import list_tables
from headwater.apply.table_sync.sync_slots import (
    drop_slot,
    has_slot,
    let_fail_over,
    look_at_present,
    look_behind,
    make_slot,
    open_source,
)
from headwater.apply.table_sync.wal_publisher import Publisher, WalPublisher
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.session import open_target
from headwater.errors import ServerError, TargetError, UsageError

DUPLICATE = "42710"
Say = Callable[[str], None]

_TABLE = """
SELECT c.oid, c.relkind::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""
_KINDS = {
    "S": "sequences",
    "v": "views",
    "m": "materialized views",
    "c": "composite types",
    "f": "foreign tables",
    "i": "indexes",
    "I": "partitioned indexes",
}
_HINT_SLOT = "--no-create-slot uses the slot that is there, --slot names another"


def subscribe(connection: TargetConnection, request: ApplyRequest, say: Say, *, refreshes: bool = True) -> Subscription:
    """Return the subscription, which is made if there is none of that name, and refreshed if there is.

    Args:
        connection: the target's; request: what is asked for; say: is told of what is made, in the server's words.
        refreshes: False: one that is there stays as it is.

    Raises:
        ServerError: a server refuses, a table is missing, or a slot of that name is there already.
        ConnectionLostError: a server is lost.
    """
    install(connection)
    with open_source(request) as source, telling_of_locks(request, source, say):
        subscription = read_subscription(connection, request.subscription)
        if subscription is None:
            subscription = _create(connection, source, request)
        else:
            _check(subscription, request)
            note_publications(connection, subscription, array_text(request.slot.publications))
            if refreshes:
                refresh(connection, source, subscription, request, say)
        if not subscription.has_slot:
            _make_slot(connection, source, subscription, request, say)
        elif not has_slot(source, subscription.slot):
            text = f'replication slot "{subscription.slot}" does not exist'
            raise ServerError(
                text, sqlstate="42704", hint="what came since it was there last is not to be had any more"
            )
        fails_over = request.fails_over
        if fails_over is not None and let_fail_over(source, subscription.slot, fails_over=fails_over):
            say(f'set failover of replication slot "{subscription.slot}" to {"true" if fails_over else "false"}')
        return replace(subscription, has_slot=True)


def is_subscribed(connection: TargetConnection, name: str) -> bool:
    """Tell whether the target has a subscription of a name."""
    return is_installed(connection) and read_subscription(connection, name) is not None


def refresh_now(request: ApplyRequest, say: Say) -> None:
    """Refresh a subscription, also one that is being applied: its worker notices within a second.

    Raises:
        ServerError: a server refuses, or there is no such subscription.
        ConnectionLostError: a server is lost.
    """
    connection, facts = open_target(request.target, f"headwater refresh {request.subscription}")
    with connection, open_source(request) as source, telling_of_locks(request, source, say):
        check_rules(connection, facts, request)
        install(connection)
        subscription = read_subscription(connection, request.subscription)
        if subscription is None:
            raise TargetError(f'subscription "{request.subscription}" does not exist', sqlstate="42704")
        refresh(connection, source, subscription, request, say)


def is_two_phase(connection: TargetConnection, subscription: Subscription, request: ApplyRequest) -> bool:
    """Tell whether transactions are to come at PREPARE: not before all tables are ready, if it was not so before."""
    if not request.slot.two_phase or subscription.two_phase == "e":
        return request.slot.two_phase
    tables = read_tables(connection, subscription)
    if not tables or any(table.state != State.READY for table in tables):
        return False
    set_two_phase(connection, subscription, "e")
    return True


def refresh(
    connection: TargetConnection,
    source: Publisher,
    subscription: Subscription,
    request: ApplyRequest,
    say: Say,
) -> None:
    """Add tables that have come to the publications, and remove those that have left them.

    A table that the target does not have, or no longer has, is told of, and neither added nor removed.

    Raises:
        ServerError: a server refuses.
        ConnectionLostError: a server is lost.
    """
    present = read_tables(connection, subscription)
    place, names, leaving = _refreshed(source, request, present)
    published = _local_tables(connection, names, request.maps, subscription, say)
    for table in present:
        name = (table.namespace, table.name)
        # A table that goes by another name on the target now is added under that.
        if table.oid not in published and (name in leaving or name in published.values()):
            _remove(connection, source, subscription, table)
            say(f'table "{table.namespace}.{table.name}" removed from subscription "{subscription.name}"')
    for oid in sorted(published.keys() - {table.oid for table in present}):
        if request.copies_data and subscription.two_phase == "e":
            raise ServerError(
                "refreshing a subscription with copy_data is not allowed when two_phase is enabled",
                sqlstate="0A000",
                hint="use --no-copy-data",
            )
        with transaction(connection):
            add_table(connection, subscription, oid, published[oid], _first_state(request), place)
        say(f'table "{".".join(published[oid])}" added to subscription "{subscription.name}"')


Names = Collection[tuple[str, str]]


def _refreshed(
    source: Publisher, request: ApplyRequest, present: Sequence[SubscribedTable]
) -> tuple[int, Sequence[TableName], Names]:
    """Return as of where publications are looked at, which tables they have, and which tables have left them.

    Where DDL is applied, tables come and go in the stream. So they are looked at as of where that is. A table that does
    not exist, there or at the end of the log, has not left by itself.
    """
    own = {(table.namespace, table.name) for table in present}
    if request.definitions.ddl != "apply" or not isinstance(source, WalPublisher):
        place = look_at_present(source)
        names = _wanted_tables(source, request)
        return place, names, own.difference(names)
    place = look_behind(source, 0)
    names = _wanted_tables(source, request)
    leaving = {table for table in own.difference(names) if source.has_table(*table)}
    look_at_present(source)
    later = _wanted_tables(source, request)
    return place, names, {table for table in leaving.difference(later) if source.has_table(*table)}


def _wanted_tables(source: Publisher, request: ApplyRequest) -> list[TableName]:
    tables = (TableName(*table) for table in list_tables(source, request.slot.publications))
    return wanted_tables(request.maps, tables)


def _local_tables(
    connection: TargetConnection, names: Iterable[TableName], rules: MapRules, subscription: Subscription, say: Say
) -> dict[int, tuple[str, str]]:
    """Return the names of the published tables that the target has, by their OIDs there."""
    tables = {}
    for namespace, name in names:
        try:
            tables[_local_table(connection, *rules.target(TableName(namespace, name)))] = (namespace, name)
        except TargetError as error:
            say(f'table "{namespace}.{name}" is not added to subscription "{subscription.name}": {error.message}')
    return tables


def _create(connection: TargetConnection, source: Publisher, request: ApplyRequest) -> Subscription:
    """Write the subscription with its tables and its origin, in one transaction."""
    slot, origin = request.slot, origin_name(request.subscription)
    if slot.creates_slot and has_slot(source, slot.slot):
        raise ServerError(f'replication slot "{slot.slot}" already exists', sqlstate=DUPLICATE, hint=_HINT_SLOT)
    if has_origin(connection, origin):
        hint = "another database of the target may have a subscription of that name: name this one differently"
        raise TargetError(f'replication origin "{origin}" already exists', sqlstate=DUPLICATE, hint=hint)
    place = look_behind(source, 0)
    names = _wanted_tables(source, request)
    with transaction(connection, is_durable=True):  # The slot is made next.
        made = None
        if request.definitions.creates_tables and isinstance(source, WalPublisher):
            made = make_tables(connection, source, request, names)
        tables = {_local_table(connection, *request.maps.target(table)): table for table in names}
        add_subscription(
            connection,
            request.subscription,
            slot.slot,
            array_text(slot.publications),
            has_slot=not slot.creates_slot,
            two_phase=_first_two_phase(request, bool(tables)),
        )
        subscription = read_subscription(connection, request.subscription)
        assert subscription is not None
        forget_progress(connection, origin)
        ensure_origin(connection, origin)
        for oid, table in tables.items():
            add_table(connection, subscription, oid, table, _first_state(request), place)
        if made is not None:
            add_pending(connection, subscription, made.waiting({table: oid for oid, table in tables.items()}))
    return subscription


def _first_two_phase(request: ApplyRequest, has_tables: bool) -> str:
    """Return the state; where rows are copied, transactions come at PREPARE once all tables are ready."""
    if not request.slot.two_phase:
        return "d"
    return "e" if has_tables and not request.copies_data else "p"


def _first_state(request: ApplyRequest) -> State:
    return State.INIT if request.copies_data else State.READY


def _make_slot(
    connection: TargetConnection,
    source: Publisher,
    subscription: Subscription,
    request: ApplyRequest,
    say: Say,
) -> None:
    """Make the slot, unless an attempt that was killed has made it."""
    try:
        if not has_slot(source, subscription.slot):
            look_behind(source, 0)
            two_phase, fails_over = subscription.two_phase == "e", bool(request.fails_over)
            make_slot(source, subscription.slot, two_phase=two_phase, fails_over=fails_over)
            say(f'created replication slot "{subscription.slot}" on publisher')
    except ServerError as error:
        if error.sqlstate == DUPLICATE:
            # Somebody else has just made it: all is left as if nothing had been asked for.
            with transaction(connection):
                remove_subscription(connection, subscription)
                drop_origin(connection, origin_name(subscription.name))
        raise
    note_slot(connection, subscription)


def _check(subscription: Subscription, request: ApplyRequest) -> None:
    """See that a subscription is what it was."""
    if subscription.slot != request.slot.slot:
        raise UsageError(
            f'subscription "{subscription.name}" has the slot "{subscription.slot}", not "{request.slot.slot}"'
        )


def _remove(
    connection: TargetConnection, source: Publisher, subscription: Subscription, table: SubscribedTable
) -> None:
    """Remove a table, and what its copy has left."""
    with transaction(connection):
        remove_table(connection, subscription, table.oid)
    if table.state != State.READY:
        name = subscription.sync_name(table.oid)
        drop_slot(source, name)
        drop_origin(connection, name)


def _local_table(connection: TargetConnection, namespace: str, name: str) -> int:
    rows = connection.rows(_TABLE, (namespace, name))
    if not rows:
        raise TargetError(f'relation "{namespace}.{name}" does not exist', sqlstate="42P01")
    ((oid, kind),) = rows
    if kind not in ("r", "p"):
        detail = f"This operation is not supported for {_KINDS[kind]}." if kind in _KINDS else None
        text = f'cannot use relation "{namespace}.{name}" as logical replication target'
        raise TargetError(text, sqlstate="42809", detail=detail)
    return int(str(oid))
