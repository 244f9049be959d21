"""Checks of what a user asks for: LSNs in order, WAL and catalog of one server, timeline, reach."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.store.catalog_store import CatalogStore
from headwater.errors import AwaitedCatalogError, AwaitedSegmentError, CatalogError, SegmentError, UsageError
from headwater.option_names import option
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.request import DecodeRequest
from headwater.reorder.commits.state import State
from headwater.wal.records.frames import read_frames
from headwater.wal.segments.directory import WalDirectory

OF_THE_RUN = (
    *("wal", "catalog", "database", "start", "end", "user", "on_level_gap", "from_replica_level"),
    *("slot", "makes_slot", "server_version"),
)
"""What requests have in common that are outputs of one run; the rest is each one's own."""


def check_one_run(requests: Sequence[DecodeRequest]) -> None:
    """Check that requests can be outputs of one run.

    Raises:
        UsageError: they cannot: they are not of one window, or not distinguished by their names.
    """
    first = requests[0]
    for request in requests[1:]:
        for name in OF_THE_RUN:
            if getattr(request, name) != getattr(first, name):
                raise UsageError(f"outputs of one run have one {name}, found another for {request.output!r}")
    names = [request.output for request in requests]
    if len(names) > 1 and (None in names or len(set(names)) < len(names)):
        raise UsageError(f"outputs of one run have names of their own, found {names}")


def check_order(request: DecodeRequest) -> None:
    """Check that a request's start lies before its end.

    Raises:
        UsageError: it does not.
    """
    start, end = request.start, request.end
    if start is not None and end is not None and start > end:
        raise UsageError(f"the start {Lsn(start)} lies behind the end {Lsn(end)}", hint="swap them")


def check_bounds(store: CatalogStore, request: DecodeRequest) -> None:
    """Check that a request's start and end can be meant.

    Raises:
        UsageError: one of them lies before the catalog.
    """
    for name, lsn in (("start", request.start), ("end", request.end)):
        if lsn is not None and lsn < store.start_lsn:
            raise UsageError(
                f"the {name} {Lsn(lsn)} lies before the backup, expected {Lsn(store.start_lsn)} or later",
                file=request.catalog,
                hint="give an older backup, or a later LSN",
            )


def check_no_user(request: DecodeRequest) -> None:
    """Check that a request does not ask for a role's settings where those of the state hold.

    Raises:
        UsageError: it does.
    """
    if request.user is not None:
        raise UsageError(
            "a role's settings cannot be had with a state: it has those of its sessions",
            hint=f"give settings with {option('set', 'NAME=VALUE')}",
        )


def check_definitions(store: CatalogStore, request: DecodeRequest) -> None:
    """Check that DDL, if it is asked for, can be reported with a state, which has its session's catalogs only."""
    if request.with_ddl and not store.has_definitions:
        raise UsageError(
            "DDL is asked for, and the state, or exported catalog, does not have the definitions of objects",
            hint="begin at a base backup, or with a state that such a session has kept",
        )


def check_database(state: State, request: DecodeRequest, file: str) -> None:
    """Check that a state is of the database that a request names.

    Args:
        state: a state; file: where it is, for the error.
        request: the request.

    Raises:
        UsageError: it is of another.
    """
    name = state.catalog.origin.database_name
    if request.database not in (None, name):
        raise UsageError(f'the state is of database "{name}", not of "{request.database}"', file=file)


def check_begins(state: State, request: DecodeRequest, file: str) -> None:
    """Check that a request can begin with a state.

    Args:
        state: a state.
        request: the request.
        file: the state's, for the error.

    Raises:
        UsageError: the state is of another database, or the request's start or end lies before it.
    """
    check_database(state, request, file)
    first = max(state.lsn, state.catalog.origin.consistent_lsn)
    for word, lsn in (("start", request.start), ("end", request.end)):
        if lsn is not None and lsn < first:
            raise UsageError(
                f"the {word} {Lsn(lsn)} lies before the state, expected {Lsn(first)} or later",
                file=file,
                hint="give an older state, or a later LSN",
            )


def check_level(state: State, request: DecodeRequest) -> None:
    """Check that a state is of a session that decoded WAL of the level that is asked for.

    Raises:
        UsageError: it is not.
    """
    if state.control.needed != request.needed_level:
        words = ("with", "without") if request.from_replica_level else ("without", "with")
        raise UsageError(
            f"asked for {words[0]} {option('from-replica-level')}, the state is of a session {words[1]} it",
            hint="begin at a catalog, or with another state",
        )


def check_server(directory: WalDirectory, store: CatalogStore, request: DecodeRequest) -> None:
    """Check that WAL and catalog are of one server.

    Raises:
        SegmentError: another version or system identifier.
    """
    if directory.major != store.major:
        raise SegmentError(
            f"the WAL is of PostgreSQL {directory.major}, the catalog of {store.major}", file=request.source.address
        )
    if directory.system_identifier != store.origin.system_identifier:
        raise SegmentError(
            f"the WAL is of system {directory.system_identifier}, expected {store.origin.system_identifier}",
            file=request.source.address,
            hint=f"give the WAL of the server that {request.catalog or 'the state'} was taken from",
        )


def check_goes_on(directory: WalDirectory, state: State, request: DecodeRequest) -> None:
    """Check that the WAL goes on where a state was left, and has all that the state still needs.

    Raises:
        SegmentError: it has a gap, begins too late, or ends too early.
        CatalogError: it is of a timeline that has left the state's before.
    """
    if not directory.has_been_at(state.timeline, state.lsn):
        raise CatalogError(
            f"the state is of timeline {state.timeline} at {Lsn(state.lsn)}, which is not in the history of the WAL's "
            f"timeline {directory.lineage[-1][0]}",
            file=request.source.address,
            hint="give the WAL of the server that the slot followed, with its .history files",
        )
    last = directory.segments[-1].start_lsn + directory.segment_size
    if state.lsn > last:
        raise AwaitedSegmentError(
            f"the WAL ends before {Lsn(last)}, expected it up to {Lsn(state.lsn)}", file=request.source.address
        )
    if state.restart_lsn < last:
        end = None if request.end is None else max(request.end, state.lsn)
        directory.covering(state.restart_lsn, end)


def check_fit(directory: WalDirectory, store: CatalogStore, request: DecodeRequest) -> None:
    """Check that the WAL covers the catalog's LSN.

    Raises:
        SegmentError: the WAL begins later than the catalog, or has a gap.
        RecordError, PageError: the record at the catalog's LSN is damaged.
        CatalogError: the catalog is newer than the WAL, or of a timeline that the WAL's history has left.
    """
    _check_timeline(directory, store, request)
    last = directory.segments[-1].start_lsn + directory.segment_size
    if store.start_lsn >= last:
        raise AwaitedCatalogError(
            f"the catalog is of {Lsn(store.start_lsn)}, newer than the WAL, which ends before {Lsn(last)}",
            file=request.catalog,
            hint="give a base backup from before the WAL, or later WAL",
        )
    directory.covering(store.start_lsn, None if request.end is None else max(request.end, store.start_lsn + 1))
    first = read_frames(directory, store.start_lsn, store.start_lsn + 1)
    if len(first.lsns) == 0:
        reason = f": {first.end.reason}" if first.end is not None else ""
        raise AwaitedCatalogError(
            f"the catalog is newer than the WAL, which has no record at the catalog's position{reason}",
            lsn=store.start_lsn,
            file=request.catalog,
            hint="give a base backup from before the WAL, or later WAL",
        )


def _check_timeline(directory: WalDirectory, store: CatalogStore, request: DecodeRequest) -> None:
    """Check that all that the catalog holds is part of the WAL's history.

    Raises:
        CatalogError: it is not.
    """
    lineage = dict(directory.lineage)
    newest = directory.lineage[-1][0]
    origin = store.origin
    for timeline, lsn in ((origin.timeline, origin.start_lsn + 1), (origin.reach_timeline, store.files.reach_lsn)):
        if timeline not in lineage:
            raise CatalogError(
                f"the catalog is of timeline {timeline}, which is not in the history of the WAL's timeline {newest}",
                file=request.catalog,
                hint=f"give WAL of timeline {timeline}, or the file {newest:08X}.history if it is missing",
            )
        switch = lineage[timeline]
        if switch is not None and lsn > switch:
            raise CatalogError(
                f"the catalog is of timeline {timeline} from behind {Lsn(switch)}, where the WAL's history left it",
                file=request.catalog,
                hint=f"give a base backup from before that, or of timeline {newest}; or leave the WAL of newer "
                "timelines away",
            )
