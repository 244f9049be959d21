"""Checks of what rules need of the target, before the first row: tables, columns, types that masks fit."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.apply.incoming.map_rules import ColumnRule, MapRules, TableName, mask_of
from headwater.apply.mapped.table_maps import TableMap, unfit_for_key
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.lookup import Lookup
from headwater.apply.target.relations import MappedRelation, map_relation
from headwater.apply.target.session import TargetFacts
from headwater.errors import ConnectionLostError, TargetError, UsageError
from headwater.rows.masks import HEX_CHARACTERS, LITERAL, NULL

_COLUMNS = """
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atttypmod,
       t.typcategory = 'S' AND t.typtype = 'b' AND t.typlen = -1
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped
"""
_HEADER = 4
"""What is added to the length of a varchar(n) or char(n) in its modifier."""


@dataclass(frozen=True)
class _Column:
    """A column of the target; type: its name; length: of text at most, None for any; is_text: it takes any text."""

    type: str
    is_required: bool
    length: int | None
    is_text: bool


def check_target(
    connection: TargetConnection, facts: TargetFacts, rules: MapRules, table: TableMap, *, run_as_owner: bool
) -> None:
    """See that a table of the target is there, and takes what rules make of its rows.

    Args:
        connection: the target's; facts: of it; rules: all of them; table: the map.
        run_as_owner: changes are applied as the session's role.

    Raises:
        UsageError: it does not.
        ConnectionLostError: the target is lost.
    """
    source = TableName(table.source.namespace, table.source.name)
    own = rules.of(source)
    try:
        mapped = map_relation(connection, facts, table.target, run_as_owner=run_as_owner)
    except ConnectionLostError:
        raise
    except TargetError as error:
        message = f'{_rule_text(rules, source)}: table "{source}" of the source: {error.message}'
        raise UsageError(message, hint=error.hint or error.detail) from None
    if own.masked:
        columns = _columns(connection, mapped)
        for rule in own.masked.values():
            _check_mask(connection, rule, columns, mapped, table)


def _rule_text(rules: MapRules, source: TableName) -> str:
    """Return the text of a rule that is about a table, first of all of one that gives it another name."""
    own = rules.of(source)
    texts = [text for name, text in rules.sources(rules.target(source)) if name == source]
    texts += [rule.text for rule in own.columns]
    texts += [own.condition.text] if own.condition else []
    return texts[0]


def _columns(connection: TargetConnection, mapped: MappedRelation) -> dict[str, _Column]:
    columns = {}
    for name, type, is_required, typmod, is_text in connection.rows(_COLUMNS, (str(mapped.oid),)):
        length = int(str(typmod)) - _HEADER
        is_any = is_text == "t"
        columns[str(name)] = _Column(str(type), is_required == "t", length if is_any and length >= 0 else None, is_any)
    return columns


def _check_mask(
    connection: TargetConnection,
    rule: ColumnRule,
    columns: dict[str, _Column],
    mapped: MappedRelation,
    table: TableMap,
) -> None:
    place = next(at for at, column in enumerate(table.source.columns) if column.name == rule.column)
    at = place if table.places is None else table.places.index(place)
    column, mask = columns[mapped.sent.columns[at].name], mask_of(rule)
    lookup = mapped.lookup
    is_key = isinstance(lookup, Lookup) and lookup.is_key and any(part.sent == at for part in lookup.columns)
    if is_key and not mask.tells_apart:
        raise unfit_for_key(rule)
    if mask.kind == NULL and column.is_required:
        raise UsageError(f"{rule.text}: the target's column is NOT NULL")
    if mask.makes_text and not column.is_text:
        raise UsageError(f"{rule.text}: the target's column is of type {column.type}, expected one of text")
    needed = HEX_CHARACTERS if mask.tells_apart else len(mask.argument) if mask.kind == LITERAL else 0
    if column.length is not None and column.length < needed:
        raise UsageError(f"{rule.text}: {needed} characters do not fit {column.type}, the type of the target's column")
    if mask.kind == LITERAL:
        _check_literal(connection, rule, mask.argument, column.type)


def _check_literal(connection: TargetConnection, rule: ColumnRule, text: str, type: str) -> None:
    try:
        connection.rows(f"SELECT $1::{type}", (text,))
    except ConnectionLostError:
        raise
    except TargetError as error:
        # The server's message has the text, which is not for everybody's eyes.
        reason = f"its type {type} does not take the text (SQLSTATE {error.sqlstate})"
        raise UsageError(f"{rule.text}: the target's column: {reason}") from None
