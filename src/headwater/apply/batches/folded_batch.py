"""A batch, folded: what is to be done on the target, and how that is sent.

PostgreSQL: no counterpart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.apply.batches.batch import Messages, table_changes
from headwater.apply.batches.bulk_table import BulkTable
from headwater.apply.batches.net_changes import Copied, Counted, runs_of
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.rights import NO_ROLE, become

Tables = Mapping[int, BulkTable]
"""Tables whose changes can be folded, by their relations' OIDs."""


@dataclass(frozen=True)
class Steps:
    """The steps of a run of one table's changes, in their order; they are taken as a role, None for the session's."""

    role: str | None
    steps: tuple[Counted | Copied, ...]


@dataclass(frozen=True)
class FoldedBatch:
    """A batch.

    Attributes:
        tables: that it is about, as they were when it was folded.
        runs: what is to be done.
    """

    tables: Tables
    runs: tuple[Steps, ...]


def fold_batch(messages: Messages, tables: Tables) -> FoldedBatch:
    """Fold whole transactions.

    Args:
        messages: of the transactions; tables: all that they are about.

    Raises:
        Unfoldable, RepeatedError: changes cannot be folded, or it does not pay.
        DecodingError: a message is malformed.
    """
    changes, cells = table_changes(messages, {oid: table.columns for oid, table in tables.items()})
    nets = (net for oid, own in changes.items() for net in runs_of(tables[oid], messages.data, own, cells))
    runs = tuple(Steps(net.table.mapped.role, tuple(net.statements())) for net in nets)
    return FoldedBatch(tables, runs)


def send_folded(connection: TargetConnection, folded: FoldedBatch) -> bool:
    """Have a batch applied in the transaction that is open, and see that the tables are still what they were.

    Args:
        connection: the target's, in the session's own role; folded: the batch.

    Returns:
        False if a row was not there, or was there already: what was done has to be rolled back.

    Raises:
        TargetError: the target refuses something.
        ConnectionLostError: the target is lost.
    """
    checks: list[tuple[int, list[int]]] = []
    for run in folded.runs:
        _send_run(connection, run, checks)
    for table in folded.tables.values():
        connection.send(table.mapped.guard)
        connection.send(table.guard)
    _drain(connection)
    return all(counts == [rows] for rows, counts in checks)


def _send_run(connection: TargetConnection, run: Steps, checks: list[tuple[int, list[int]]]) -> None:
    if run.role is not None:
        connection.send(become(run.role))
    for step in run.steps:
        if isinstance(step, Copied):
            _drain(connection)
            checks.append((step.rows, [connection.copy(step.command, [step.data])]))
        else:
            checks.append((step.rows, _counted(connection, step)))
    if run.role is not None:
        connection.send(NO_ROLE)


def _counted(connection: TargetConnection, step: Counted) -> list[int]:
    counts: list[int] = []
    connection.send(step.bound, lambda outcome: counts.append(outcome.count))
    return counts


def _drain(connection: TargetConnection) -> None:
    if connection.pending:
        connection.sync()
    connection.drain()
