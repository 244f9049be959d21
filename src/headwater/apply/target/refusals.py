"""Errors of the target, in the words of the server's own apply worker.

The server says which parameter of a statement it could not read; the apply worker says of which column that is.

PostgreSQL: worker.c (apply_error_callback, slot_store_data), tcop/postgres.c (bind_param_error_callback).
"""

from __future__ import annotations

import re

from headwater.apply.target.connection import Bound, Statement, TargetConnection
from headwater.apply.target.grants import FUNCTIONS
from headwater.apply.target.relation_map import MappingChangedError, RelationMap
from headwater.apply.target.relations import MappedRelation
from headwater.apply.target.statements import column_of
from headwater.errors import TargetError

_ROLLBACK = Bound(Statement("ROLLBACK"))
_PARAMETER = re.compile(r"(?:unnamed portal|portal \"[^\"]*\") parameter \$(\d+)(?: = [^\n]*)?\n?")
_NO_RIGHT = re.compile(r"permission denied for function (pg_replication_origin_\w+)")
_LEFT_OVER = re.compile(r"incorrect binary data format in bind parameter (\d+)")


def in_words_of_worker(error: TargetError, mapped: MappedRelation, bound: Bound) -> None:
    """Say of which column a value was refused, rather than of which parameter.

    Args:
        error: is changed; mapped, bound: what was refused.
    """
    context = error.context or ""
    left_over, parameter = _LEFT_OVER.fullmatch(error.message), _PARAMETER.search(context)
    number = left_over or parameter
    place = column_of(mapped, bound, int(number[1])) if number else None
    if place is None:
        return
    if left_over:
        error.message = f"incorrect binary data format in logical replication column {place + 1}"
    target = f'target relation "{mapped.namespace}.{mapped.name}"'
    column = f'{target} column "{mapped.sent.columns[place].name}"'
    error.context = _PARAMETER.sub("", context).replace(target, column, 1)


def name_grant(error: TargetError) -> None:
    """Give the error of a function that the role may not call a hint that names the grant."""
    match = _NO_RIGHT.fullmatch(error.message)
    if match and error.hint is None:
        signature = next(name for name in FUNCTIONS if name.startswith(f"{match[1]}("))
        error.hint = f"GRANT EXECUTE ON FUNCTION {signature} to the role"


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
