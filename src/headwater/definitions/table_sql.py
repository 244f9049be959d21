"""Tables in SQL (PostgreSQL: ``pg_dump.c``, dumpTableSchema; ``tablecmds.c`` for changes that children take over).

A partition is made as a table of its own, gets its indexes and constraints, and is attached then: in this way all of
them keep their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headwater.definitions.column_sql import bare_column, column_changes, column_clause, column_settings, option_changes
from headwater.definitions.indexes import options_in_sql
from headwater.definitions.objects import ColumnDefinition, TableDefinition
from headwater.definitions.statements import Phase, Statement
from headwater.definitions.step import Step

_HEAP = "heap"


def create_table(table: TableDefinition, step: Step) -> Iterator[Statement]:
    """Give all statements for a new table, except its constraints and indexes."""
    depth, name = step.depth(table.oid), table.sql_name
    yield Statement(Phase.CREATE_TABLE, depth, "".join(_create(table, step.major)))
    for column in table.columns:
        inherited = column.parents > 0 and not table.is_partition
        if inherited and not column.is_local:
            yield from _inherited(column, table, step)
        for action in column_settings(column, None, step.major):
            yield Statement(Phase.CREATE_TABLE, depth, f"ALTER TABLE ONLY {name} {action}")
    yield from _attach(table, step)
    yield from _marks(None, table, step)


def _create(table: TableDefinition, major: int) -> Iterator[str]:
    yield f"CREATE {'UNLOGGED ' if table.is_unlogged else ''}TABLE {table.sql_name}"
    columns = [column for column in table.columns if column.is_local or table.is_partition]
    clauses = [column_clause(column, table, major) for column in columns if table.of_type is None or _is_said(column)]
    if table.of_type is not None:
        yield f" OF {table.of_type}"
        yield f" ({', '.join(clauses)})" if clauses else ""
    else:
        yield f" ({', '.join(clauses)})"
    if table.parents and not table.is_partition:
        yield f" INHERITS ({', '.join(table.parents)})"
    if table.partition_key is not None:
        yield f" PARTITION BY {table.partition_key.required()}"
    if table.access_method not in (None, _HEAP):
        yield f" USING {table.access_method}"
    if table.options:
        yield f" WITH ({options_in_sql(table.options, major)})"
    if table.tablespace is not None:
        yield f" TABLESPACE {table.tablespace}"


def _is_said(column: ColumnDefinition) -> bool:
    """Tell whether a column of a typed table has anything of its own."""
    return bool(column.not_null or column.default is not None or column.identity)


def _inherited(column: ColumnDefinition, table: TableDefinition, step: Step) -> Iterator[Statement]:
    """Give the default and NOT NULL of a column that comes from a parent."""
    alter = f"ALTER TABLE ONLY {table.sql_name} ALTER COLUMN {step.quoted(column.name)}"
    if column.default is not None and not column.generated:
        yield Statement(Phase.INHERIT, 0, f"{alter} SET DEFAULT {column.default.required()}")
    if column.not_null and column.constraint is None:
        yield Statement(Phase.INHERIT, 0, f"{alter} SET NOT NULL")


def _attach(table: TableDefinition, step: Step) -> Iterator[Statement]:
    if step.is_attached(table.oid):
        assert table.bound is not None
        attach = f"ALTER TABLE ONLY {table.parents[0]} ATTACH PARTITION {table.sql_name} {table.bound.required()}"
        yield Statement(Phase.ATTACH, -step.depth(table.oid), attach)


def _marks(before: TableDefinition | None, table: TableDefinition, step: Step) -> Iterator[Statement]:
    """Give the changes that name an index (replica identity, CLUSTER), and those of row security."""
    alter = f"ALTER TABLE ONLY {table.sql_name}"
    identities = [version and (version.replica_identity, version.core[-4]) for version in (before, table)]
    if identities[0] != identities[1] and (before is not None or table.replica_identity != "default"):
        identity = table.replica_identity.upper()
        if table.replica_identity == "index":
            if table.identity_index is None:
                return
            identity = f"USING INDEX {step.quoted(table.identity_index)}"
        yield Statement(Phase.MARK_INDEX, 0, f"{alter} REPLICA IDENTITY {identity}")
    if table.cluster_index is not None and (before is None or before.core[-3] != table.core[-3]):
        yield Statement(Phase.MARK_INDEX, 0, f"{alter} CLUSTER ON {step.quoted(table.cluster_index)}")
    elif before is not None and before.cluster_index is not None and table.cluster_index is None:
        yield Statement(Phase.MARK_INDEX, 0, f"{alter} SET WITHOUT CLUSTER")
    flags = (before.row_security, before.force_row_security) if before is not None else (False, False)
    if table.row_security != flags[0]:
        yield Statement(Phase.MARK_INDEX, 0, f"{alter} {_switch(table.row_security)} ROW LEVEL SECURITY")
    if table.force_row_security != flags[1]:
        word = "FORCE" if table.force_row_security else "NO FORCE"
        yield Statement(Phase.MARK_INDEX, 0, f"{alter} {word} ROW LEVEL SECURITY")


def _switch(is_on: bool) -> str:
    return "ENABLE" if is_on else "DISABLE"


def drop_table(table: TableDefinition, step: Step) -> Iterator[Statement]:
    """Give DROP TABLE, for children before their parents, and for younger tables before older ones."""
    yield Statement(Phase.DROP_TABLE, -table.oid - (step.depth(table.oid) << 32), f"DROP TABLE {table.sql_name}")


def alter_table(before: TableDefinition, after: TableDefinition, step: Step) -> Iterator[Statement]:
    """Give the changes of a table, except its name and schema; columns of a typed table come with its type."""
    yield from _detach(before, after)
    yield from _dropped_defaults(before, after, step)
    if not before.is_of_same_type(after):
        yield from _dropped_columns(before, after, step)
    depth, name = step.depth(after.oid), after.sql_name
    for only, action in _actions(before, after, step):
        yield Statement(Phase.ALTER_TABLE, depth, f"ALTER TABLE {'ONLY ' if only else ''}{name} {action}")
    if not after.is_partition:
        for parent, oid in zip(after.parents, after.parent_oids, strict=True):
            if oid not in before.parent_oids or before.is_partition:
                yield Statement(Phase.INHERIT, depth, f"ALTER TABLE {name} INHERIT {parent}")
    yield from _attach(after, step)
    yield from _marks(before, after, step)


def _detach(before: TableDefinition, after: TableDefinition) -> Iterator[Statement]:
    if before.of_type is not None and not before.is_of_same_type(after):
        yield Statement(Phase.DETACH, 0, f"ALTER TABLE {before.sql_name} NOT OF")
    remaining = () if before.is_partition != after.is_partition else after.parent_oids
    for parent, oid in zip(before.parents, before.parent_oids, strict=True):
        if oid in remaining:
            continue
        detach = f"ALTER TABLE {parent} DETACH PARTITION {before.sql_name}"
        leave = f"ALTER TABLE {before.sql_name} NO INHERIT {parent}"
        yield Statement(Phase.DETACH, 0, detach if before.is_partition else leave)


def _actions(before: TableDefinition, after: TableDefinition, step: Step) -> Iterator[tuple[bool, str]]:
    """Give the actions of ALTER TABLE, and whether the statement has ONLY."""
    old = {column.number: column for column in before.columns}
    is_typed = before.is_of_same_type(after)
    if not is_typed:
        yield from _renamed_columns(old, after, step)
    for column in after.columns:
        if column.number in old or is_typed:
            was = old.get(column.number) or bare_column(column)
            for action in column_changes(was, column, after, step.major, is_typed):
                yield not action.goes_on, action.sql
            continue
        if column.is_local or not column.parents:
            yield False, f"ADD COLUMN {column_clause(column, replace(after, of_type=None), step.major)}"
        yield from ((True, action) for action in column_settings(column, None, step.major))
    if after.of_type is not None and not is_typed:
        yield False, f"OF {after.of_type}"
    yield from ((False, action) for action in option_changes(before.options, after.options, step.major))
    if before.is_unlogged != after.is_unlogged:
        yield False, f"SET {'UNLOGGED' if after.is_unlogged else 'LOGGED'}"
    if before.access_method != after.access_method:
        yield False, f"SET ACCESS METHOD {after.access_method or 'DEFAULT'}"
    if before.tablespace != after.tablespace:
        yield False, f"SET TABLESPACE {after.tablespace or 'pg_default'}"


def _dropped_defaults(before: TableDefinition, after: TableDefinition, step: Step) -> Iterator[Statement]:
    """Give DROP DEFAULT where a default is gone, or in the way: of another type, or of a dropped sequence."""
    new = {column.number: column for column in after.columns}
    for column in before.columns:
        now = new.get(column.number)
        if now is None or column.default is None or column.generated or now.generated:
            continue
        leads = column.core != now.core and not now.parents
        is_other = bool(step.dropped_tables) and column.default != now.default
        if leads or is_other or now.default is None:
            alter = f"ALTER TABLE {'' if leads else 'ONLY '}{before.sql_name} ALTER COLUMN {step.quoted(column.name)}"
            yield Statement(Phase.DROP_DEFAULT, step.depth(before.oid), f"{alter} DROP DEFAULT")


def _dropped_columns(before: TableDefinition, after: TableDefinition, step: Step) -> Iterator[Statement]:
    """Give DROP COLUMN, for generated columns first; a column that a parent loses goes with the parent's."""
    remaining = {column.number for column in after.columns}
    gone = [column for column in before.columns if column.number not in remaining]
    for column in sorted(gone, key=lambda dropped: not dropped.generated):
        if not (column.parents and _is_gone_above(column, before, step)):
            drop = f"ALTER TABLE {before.sql_name} DROP COLUMN {step.quoted(column.name)}"
            yield Statement(Phase.DROP_COLUMN, step.depth(before.oid), drop)


def _is_gone_above(column: ColumnDefinition, table: TableDefinition, step: Step) -> bool:
    """Tell whether a parent loses the column also in this step."""
    for oid in table.parent_oids:
        parent, now = step.table_before(oid), step.table_after(oid)
        had = parent is not None and any(candidate.name == column.name for candidate in parent.columns)
        if had and now is not None and not any(candidate.name == column.name for candidate in now.columns):
            return True
    return False


def _renamed_columns(
    old: dict[int, ColumnDefinition], after: TableDefinition, step: Step
) -> Iterator[tuple[bool, str]]:
    """Give RENAME COLUMN, to spare names first if columns exchange theirs; inherited ones come with the parent's."""
    renamed = [
        changed
        for changed in after.columns
        if changed.number in old and not changed.parents and old[changed.number].name != changed.name
    ]
    taken = {old[changed.number].name for changed in renamed}
    names = {changed.number: old[changed.number].name for changed in renamed}
    for column in renamed:
        if column.name in taken:
            names[column.number] = f"headwater_{column.number}"
            yield False, f"RENAME COLUMN {step.quoted(old[column.number].name)} TO {names[column.number]}"
    for column in renamed:
        yield False, f"RENAME COLUMN {step.quoted(names[column.number])} TO {step.quoted(column.name)}"
