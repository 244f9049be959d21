"""Errors of the target, in the words of the server's own apply worker.

The server says which parameter of a statement it could not read; the apply worker says of which column that is. What
a statement's error does not tell is asked of the server, once the transaction is rolled back.

PostgreSQL: worker.c (apply_error_callback, slot_store_data), tcop/postgres.c (bind_param_error_callback).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.apply.incoming.messages import SentTuple
from headwater.apply.target.connection import Bound, Statement, TargetConnection
from headwater.apply.target.lengths import TOO_LONG
from headwater.apply.target.relation_map import DIVISION_BY_ZERO, MappingChangedError, RelationMap
from headwater.apply.target.relations import MappedRelation
from headwater.apply.target.rights import become
from headwater.apply.target.routing import NO_PARTITION
from headwater.apply.target.statements import column_of, length_checks, probe
from headwater.errors import TargetError

_BEGIN, _ROLLBACK = Bound(Statement("BEGIN")), Bound(Statement("ROLLBACK"))
_PROCESSING = "processing remote data "
"""How a context begins that has nothing else, such as a trigger's function."""
_PARAMETER = re.compile(r"(?:unnamed portal|portal \"[^\"]*\") parameter \$(\d+)(?: = [^\n]*)?\n?")
_NO_RIGHT = re.compile(r"permission denied for function (pg_replication_origin_\w+)")
_LEFT_OVER = re.compile(r"incorrect binary data format in bind parameter (\d+)")


@dataclass(frozen=True, slots=True)
class SentChange:
    """A statement for a change of one row, or a check before it.

    Attributes:
        mapped: the table; bound: it; row: the tuple that it is about.
        is_check: it is sent before the row is looked up.
    """

    mapped: MappedRelation
    bound: Bound
    row: SentTuple
    is_check: bool = False


def in_words_of_worker(
    connection: TargetConnection, error: TargetError, sent: SentChange, undo: str = "ROLLBACK"
) -> None:
    """Say what was refused as the apply worker does: of which column, or that no partition is there.

    Args:
        connection: the target's.
        error: is changed; sent: what was refused.
        undo: what has to be rolled back before the server can be asked.

    Raises:
        ConnectionLostError: the target is lost.
    """
    connection.rows(undo)
    if sent.is_check and error.sqlstate == DIVISION_BY_ZERO:
        _name_partition(connection, sent, error, undo)
    elif error.sqlstate in TOO_LONG and (error.context or "").startswith(_PROCESSING):
        _name_long_column(connection, sent, error, undo)
    else:
        _name_parameter(error, sent.mapped, sent.bound)


def _name_parameter(error: TargetError, mapped: MappedRelation, bound: Bound) -> None:
    """Say of which column a value was refused, rather than of which parameter."""
    context = error.context or ""
    left_over, parameter = _LEFT_OVER.fullmatch(error.message), _PARAMETER.search(context)
    number = left_over or parameter
    place = column_of(mapped, bound, int(number[1])) if number else None
    if place is None:
        return
    if left_over:
        error.message = f"incorrect binary data format in logical replication column {place + 1}"
    error.context = _PARAMETER.sub("", context)
    _name_column(error, mapped, place)


def _name_column(error: TargetError, mapped: MappedRelation, place: int) -> None:
    target = f'target relation "{mapped.namespace}.{mapped.name}"'
    column = f'{target} column "{mapped.sent.columns[place].name}"'
    error.context = (error.context or "").replace(target, column, 1)


def _name_long_column(connection: TargetConnection, sent: SentChange, error: TargetError, undo: str) -> None:
    """Say which column's value was too long: the first that is."""
    for place, bound in length_checks(sent.mapped, sent.row):
        refusal = _refused(connection, [bound], undo)
        if refusal is not None and refusal.sqlstate == error.sqlstate:
            _name_column(error, sent.mapped, place)
            return


def _name_partition(connection: TargetConnection, sent: SentChange, error: TargetError, undo: str) -> None:
    """Say that no partition is there for a row that is looked up, as the server says it."""
    mapped = sent.mapped
    error.message, error.sqlstate = f'no partition of relation "{mapped.name}" found for row', NO_PARTITION
    role = [] if mapped.role is None else [become(mapped.role)]
    begin = [_BEGIN] if undo == "ROLLBACK" else []
    refusal = _refused(connection, [*begin, *role, probe(mapped, sent.row)], undo)
    if refusal is not None and refusal.sqlstate == NO_PARTITION:
        error.message, error.detail = refusal.message, refusal.detail


def _refused(connection: TargetConnection, statements: Sequence[Bound], undo: str) -> TargetError | None:
    """Run statements, undo them, and return what is refused."""
    try:
        for statement in statements:
            connection.send(statement, prepares=False)
        connection.sync()
        connection.drain()
    except TargetError as error:
        return error
    finally:
        connection.rows(undo)
    return None


def name_grant(error: TargetError) -> None:
    """Give the error of a function that the role may not call a hint that names the grant."""
    match = _NO_RIGHT.fullmatch(error.message)
    if match and error.hint is None:
        error.hint = f"GRANT EXECUTE ON FUNCTION {match[1]} to the role"


def changed_meanwhile(connection: TargetConnection, relations: RelationMap, error: TargetError) -> TargetError:
    """Roll back, and return what is to be raised for an error: that a table has changed, if it has.

    Raises:
        ConnectionLostError: the target is lost.
    """
    connection.send(_ROLLBACK)
    connection.sync()
    connection.drain()
    if not relations.has_changed():
        return error
    return MappingChangedError(
        error.message, sqlstate=error.sqlstate, detail=error.detail, hint=error.hint, context=error.context
    )
