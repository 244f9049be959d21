"""Columns in SQL: in CREATE TABLE and ALTER TABLE (PostgreSQL: ``pg_dump.c``, dumpTableSchema)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from headwater.definitions.indexes import options_in_sql
from headwater.definitions.objects import ColumnDefinition, NotNull, SequenceDefinition, TableDefinition
from headwater.pg.identifiers import quote_identifier


def sequence_options(sequence: SequenceDefinition) -> str:
    """Return the options of a sequence, all of them."""
    cycle = "CYCLE" if sequence.cycles else "NO CYCLE"
    return (
        f"START WITH {sequence.start} INCREMENT BY {sequence.increment} MINVALUE {sequence.minimum} "
        f"MAXVALUE {sequence.maximum} CACHE {sequence.cache} {cycle}"
    )


def identity(column: ColumnDefinition) -> str:
    """Return GENERATED ... AS IDENTITY."""
    clause = f"GENERATED {column.identity.upper()} AS IDENTITY"
    if column.sequence is None:
        return clause
    return f"{clause} (SEQUENCE NAME {column.sequence.sql_name} {sequence_options(column.sequence)})"


def not_null(column: ColumnDefinition, major: int) -> str:
    """Return NOT NULL, with the constraint's name if it has one."""
    if column.constraint is None:
        return "NOT NULL"
    inherit = "" if column.constraint.is_inheritable else " NO INHERIT"
    return f"CONSTRAINT {quote_identifier(column.constraint.name, major)} NOT NULL{inherit}"


def column_clause(column: ColumnDefinition, table: TableDefinition, major: int) -> str:
    """Return a column as CREATE TABLE and ADD COLUMN have it; the identity of a partition comes with ATTACH."""
    words = [quote_identifier(column.name, major)]
    words.append("WITH OPTIONS" if table.of_type is not None else column.type)
    if column.collation is not None and table.of_type is None:
        words.append(f"COLLATE {column.collation}")
    if column.generated:
        assert column.default is not None
        words.append(f"GENERATED ALWAYS AS ({column.default.required()}) {column.generated.upper()}")
    elif column.identity and not table.is_partition:
        words.append(identity(column))
    elif column.default is not None:
        words.append(f"DEFAULT {column.default.required()}")
    is_own = column.constraint is None or column.constraint.is_local or table.is_partition
    if column.not_null and is_own and (column.constraint is None or column.constraint.is_valid):
        words.append(not_null(column, major))
    return " ".join(words)


def column_settings(column: ColumnDefinition, before: ColumnDefinition | None, major: int) -> Iterator[str]:
    """Give actions of ALTER TABLE for what has no clause in CREATE TABLE: storage, compression, statistics, options."""
    alter = f"ALTER COLUMN {quote_identifier(column.name, major)}"
    # A column that gets another type also gets that type's storage.
    keeps_type = before is not None and before.core == column.core
    if column.storage != (before.storage if before is not None and keeps_type else column.type_storage):
        yield f"{alter} SET STORAGE {column.storage.upper()}"
    if column.compression != ("" if before is None else before.compression):
        yield f"{alter} SET COMPRESSION {column.compression or 'default'}"
    if column.statistics != (-1 if before is None else before.statistics):
        yield f"{alter} SET STATISTICS {column.statistics}"
    yield from _options(alter, column.options, () if before is None else before.options, major)


def _options(alter: str, after: Sequence[str], before: Sequence[str], major: int) -> Iterator[str]:
    yield from (f"{alter} {action}" for action in option_changes(before, after, major))


def option_changes(before: Sequence[str], after: Sequence[str], major: int) -> Iterator[str]:
    """Give SET and RESET of parameters."""
    remaining = {option.partition("=")[0] for option in after}
    gone = [name for option in before if (name := option.partition("=")[0]) not in remaining]
    new = [option for option in after if option not in before]
    if gone:
        yield f"RESET ({', '.join(gone)})"
    if new:
        yield f"SET ({options_in_sql(new, major)})"


class Action(NamedTuple):
    """An action of ALTER TABLE.

    Attributes:
        sql: the action.
        goes_on: whether it is applied to children also; else the statement has ONLY.
    """

    sql: str
    goes_on: bool = False


def bare_column(column: ColumnDefinition) -> ColumnDefinition:
    """Return a column as it comes into a typed table with an attribute of the type: with nothing of its own."""
    nothing: dict[str, Any] = {"default": None, "not_null": False, "constraint": None, "identity": "", "sequence": None}
    settings: dict[str, Any] = {"storage": column.type_storage, "compression": "", "statistics": -1, "options": ()}
    return replace(column, **nothing, **settings)


def column_changes(
    before: ColumnDefinition, after: ColumnDefinition, table: TableDefinition, major: int, is_typed: bool = False
) -> Iterator[Action]:
    """Give the changes of a column that still exists, without its name; each action is for a statement of its own.

    A type comes with the parents' type, or with the type of a typed table. Defaults of children come with the children.
    """
    alter = f"ALTER COLUMN {quote_identifier(after.name, major)}"
    is_retyped = before.core != after.core
    leads = is_retyped and not after.parents and not is_typed
    if before.generated and not after.generated and not after.parents:
        yield Action(f"{alter} DROP EXPRESSION", True)
    if before.identity and not after.identity and not table.is_partition:
        yield Action(f"{alter} DROP IDENTITY", True)
    if leads:
        yield Action(f"{alter} {_retyped(before, after, major)}", True)
    if after.default is not None and not after.generated and (is_retyped or before.default != after.default):
        yield Action(f"{alter} SET DEFAULT {after.default.required()}")
    elif after.default is not None and before.generated and not is_retyped and before.default != after.default:
        yield Action(f"{alter} SET EXPRESSION AS ({after.default.required()})", True)
    yield from _nullness(before, after, table, major)
    if not table.is_partition:
        yield from _identity_changes(before, after, alter)
    yield from map(Action, column_settings(after, before, major))


def _retyped(before: ColumnDefinition, after: ColumnDefinition, major: int) -> str:
    """Return TYPE; values are read from the text of the old ones, and a server refuses text that does not fit."""
    collation = f" COLLATE {after.collation}" if after.collation is not None else ""
    is_read = before.core[0] != after.core[0] and not after.generated
    using = f" USING {quote_identifier(after.name, major)}::pg_catalog.text::{after.type}" if is_read else ""
    return f"TYPE {after.type}{collation}{using}"


def _nullness(
    before: ColumnDefinition, after: ColumnDefinition, table: TableDefinition, major: int
) -> Iterator[Action]:
    alter = f"ALTER COLUMN {quote_identifier(after.name, major)}"
    # A constraint with a row of its own comes from the parent, and so does NOT NULL of a partitioned table.
    goes_on = before.constraint is not None or after.constraint is not None or table.partition_key is not None
    if before.not_null and not after.not_null and after.constraint is None:
        yield Action(f"{alter} DROP NOT NULL", goes_on)
    elif before.constraint is not None and after.constraint is not None:
        yield from _constraint_changes(before.constraint, after.constraint, major)
    elif after.constraint is not None and (after.constraint.is_local or not after.parents):
        clause = not_null(after, major).replace(" NOT NULL", f" NOT NULL {quote_identifier(after.name, major)}", 1)
        yield Action(f"ADD {clause}{'' if after.constraint.is_valid else ' NOT VALID'}", True)
    elif after.not_null and not before.not_null and after.constraint is None:
        yield Action(f"{alter} SET NOT NULL", goes_on)


def _constraint_changes(before: NotNull, after: NotNull, major: int) -> Iterator[Action]:
    old, new = (quote_identifier(constraint.name, major) for constraint in (before, after))
    if old != new:
        yield Action(f"RENAME CONSTRAINT {old} TO {new}", True)
    if after.is_valid and not before.is_valid:
        yield Action(f"VALIDATE CONSTRAINT {new}", True)


def _identity_changes(before: ColumnDefinition, after: ColumnDefinition, alter: str) -> Iterator[Action]:
    if after.identity and not before.identity:
        yield Action(f"{alter} ADD {identity(after)}", True)
    elif after.identity and before.identity != after.identity:
        yield Action(f"{alter} SET GENERATED {after.identity.upper()}", True)
