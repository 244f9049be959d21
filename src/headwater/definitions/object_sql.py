"""Sequences, indexes, constraints, publications, comments and extensions in SQL (PostgreSQL: ``pg_dump.c``)."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.definitions.column_sql import option_changes, sequence_options
from headwater.definitions.constants import literal
from headwater.definitions.objects import (
    CommentsDefinition,
    ConstraintDefinition,
    ExtensionDefinition,
    IndexDefinition,
    PublicationDefinition,
    PublishedTable,
    SequenceDefinition,
)
from headwater.definitions.statements import Phase, Statement
from headwater.definitions.step import Step
from headwater.errors import UnsupportedDefinitionError


def create_sequence(sequence: SequenceDefinition, _step: Step) -> Iterator[Statement]:
    """Give CREATE SEQUENCE; the sequence of an identity column comes with the column."""
    if sequence.is_identity:
        return
    unlogged = "UNLOGGED " if sequence.is_unlogged else ""
    create = f"CREATE {unlogged}SEQUENCE {sequence.sql_name} AS {sequence.type} {sequence_options(sequence)}"
    yield Statement(Phase.SEQUENCE, 0, create)
    yield from _owned(None, sequence)


def _owned(before: SequenceDefinition | None, sequence: SequenceDefinition) -> Iterator[Statement]:
    was = None if before is None else before.core[-1]
    if was != sequence.core[-1] and not sequence.is_identity:
        owner = sequence.owner or "NONE"
        yield Statement(Phase.INHERIT, 0, f"ALTER SEQUENCE {sequence.sql_name} OWNED BY {owner}")


def alter_sequence(before: SequenceDefinition, after: SequenceDefinition, _step: Step) -> Iterator[Statement]:
    """Give the changes of a sequence, except its name and schema."""
    alter = f"ALTER SEQUENCE {after.sql_name}"
    if before.core[1:4] != after.core[1:4] and before.is_identity == after.is_identity:
        # After the tables: a column that gets another type gives it to its sequence.
        yield Statement(Phase.INHERIT, 0, f"{alter} AS {after.type} {sequence_options(after)}")
    if before.is_unlogged != after.is_unlogged:
        yield Statement(Phase.INHERIT, 0, f"{alter} SET {'UNLOGGED' if after.is_unlogged else 'LOGGED'}")
    yield from _owned(before, after)


def drop_sequence(sequence: SequenceDefinition, step: Step) -> Iterator[Statement]:
    """Give DROP SEQUENCE; a sequence that belongs to a column may have been dropped with it."""
    if not sequence.is_identity and sequence.table_oid not in step.dropped_tables:
        yield Statement(Phase.DROP_SEQUENCE, -sequence.oid, f"DROP SEQUENCE IF EXISTS {step.late_name(sequence)}")


def create_index(index: IndexDefinition, step: Step) -> Iterator[Statement]:
    """Give CREATE INDEX, and ATTACH PARTITION to the index of a partitioned table that it belongs to."""
    depth = step.depth(index.table_oid)
    yield Statement(Phase.INDEX, depth, index.definition.required())
    for number, target in index.statistics:
        yield Statement(
            Phase.INDEX, depth, f"ALTER INDEX {index.sql_name} ALTER COLUMN {number} SET STATISTICS {target}"
        )
    if index.parent is not None:
        yield Statement(Phase.ATTACH_INDEX, 0, f"ALTER INDEX {index.parent} ATTACH PARTITION {index.sql_name}")


def drop_index(index: IndexDefinition, step: Step) -> Iterator[Statement]:
    """Give DROP INDEX; an index that belongs to a partitioned table's may have been dropped with it."""
    if index.table_oid not in step.dropped_tables:
        depth = step.depth(index.table_oid)
        yield Statement(Phase.DROP_CONSTRAINT, depth, f"DROP INDEX IF EXISTS {index.sql_name}")


def alter_index(before: IndexDefinition, after: IndexDefinition, step: Step) -> Iterator[Statement]:
    """Give the changes of an index, except its name."""
    if before.definition != after.definition and before.options == after.options:
        yield from drop_index(before, step)
        yield from create_index(after, step)
        return
    alter = f"ALTER INDEX {after.sql_name}"
    for action in option_changes(before.options, after.options, step.major):
        yield Statement(Phase.INDEX, 0, f"{alter} {action}")
    if before.tablespace != after.tablespace:
        yield Statement(Phase.INDEX, 0, f"{alter} SET TABLESPACE {after.tablespace or 'pg_default'}")
    for number, target in after.statistics:
        if (number, target) not in before.statistics:
            yield Statement(Phase.INDEX, 0, f"{alter} ALTER COLUMN {number} SET STATISTICS {target}")
    if after.parent is not None and before.parent_oid != after.parent_oid:
        yield Statement(Phase.ATTACH_INDEX, 0, f"ALTER INDEX {after.parent} ATTACH PARTITION {after.sql_name}")


def create_constraint(constraint: ConstraintDefinition, step: Step) -> Iterator[Statement]:
    """Give ADD CONSTRAINT, unless the constraint comes with that of a parent."""
    attached = step.is_attached(constraint.table_oid)
    is_key = constraint.index_name is not None
    if not is_key and not attached and (constraint.parent_oid or (constraint.parents and not constraint.is_local)):
        return
    if constraint.type == "foreign key" and constraint.parent_oid and step.is_named_as_parent(constraint):
        return
    is_partitioned_key = constraint.type == "foreign key" and step.is_partitioned(constraint.table_oid)
    only = "ONLY " if is_key or (attached and not is_partitioned_key) else ""
    add = f"ALTER TABLE {only}{constraint.table} ADD CONSTRAINT {step.quoted(constraint.name)}"
    phase = Phase.FOREIGN_KEY if constraint.type == "foreign key" else Phase.INDEX
    yield Statement(phase, step.depth(constraint.table_oid), f"{add} {constraint.definition.required()}")
    if constraint.index_parent is not None:
        attach = f"ALTER INDEX {constraint.index_parent} ATTACH PARTITION {constraint.index_name}"
        yield Statement(Phase.ATTACH_INDEX, 0, attach)


def drop_constraint(constraint: ConstraintDefinition, step: Step) -> Iterator[Statement]:
    """Give DROP CONSTRAINT, unless the constraint is dropped with its table."""
    is_foreign = constraint.type == "foreign key"
    if constraint.table_oid in step.dropped_tables and not (is_foreign and constraint.other_oid in step.dropped_tables):
        return
    if constraint.parent_oid and is_foreign:
        return
    drop = f"ALTER TABLE {constraint.table} DROP CONSTRAINT IF EXISTS {step.quoted(constraint.name)}"
    phase = Phase.DROP_FOREIGN_KEY if is_foreign else Phase.DROP_CONSTRAINT
    yield Statement(phase, step.depth(constraint.table_oid), drop)


def alter_constraint(before: ConstraintDefinition, after: ConstraintDefinition, step: Step) -> Iterator[Statement]:
    """Give the changes of a constraint, except its name."""
    depth = step.depth(after.table_oid)
    alter = f"ALTER TABLE {after.table}"
    if before.definition != after.definition:
        if after.type == "foreign key" and _is_deferral(before, after):
            yield Statement(Phase.FOREIGN_KEY, depth, f"{alter} {_deferral(after, step)}")
            return
        yield from drop_constraint(before, step)
        yield from create_constraint(after, step)
        return
    if after.is_valid and not before.is_valid:
        yield Statement(Phase.FOREIGN_KEY, depth, f"{alter} VALIDATE CONSTRAINT {step.quoted(after.name)}")
    if after.index_parent is not None and before.index_parent_oid != after.index_parent_oid:
        attach = f"ALTER INDEX {after.index_parent} ATTACH PARTITION {after.index_name}"
        yield Statement(Phase.ATTACH_INDEX, 0, attach)


_DEFERRALS = " DEFERRABLE", " INITIALLY DEFERRED", " NOT VALID"


def _without_deferral(constraint: ConstraintDefinition) -> str:
    sql = constraint.definition.required()
    for words in _DEFERRALS:
        sql = sql.replace(words, "")
    return sql


def _is_deferral(before: ConstraintDefinition, after: ConstraintDefinition) -> bool:
    return _without_deferral(before) == _without_deferral(after)


def _deferral(after: ConstraintDefinition, step: Step) -> str:
    sql = after.definition.required()
    how = "DEFERRABLE" if " DEFERRABLE" in sql else "NOT DEFERRABLE"
    when = " INITIALLY DEFERRED" if " INITIALLY DEFERRED" in sql else ""
    return f"ALTER CONSTRAINT {step.quoted(after.name)} {how}{when}"


def create_publication(publication: PublicationDefinition, _step: Step) -> Iterator[Statement]:
    """Give CREATE PUBLICATION."""
    members = _members(publication.tables, publication.schemas)
    what = " FOR ALL TABLES" if publication.all_tables else f" FOR {members}" if members else ""
    if publication.all_sequences:
        what = f"{what}, ALL SEQUENCES" if what else " FOR ALL SEQUENCES"
    if any(table.is_excepted for table in publication.tables):
        raise UnsupportedDefinitionError("a publication of all tables but some is not told in SQL")
    create = f"CREATE PUBLICATION {publication.sql_name}{what} WITH ({_parameters(publication)})"
    yield Statement(Phase.PUBLICATION, 0, create)


def _parameters(publication: PublicationDefinition) -> str:
    parameters = f"publish = {literal(', '.join(publication.publish))}"
    if publication.via_root is not None:
        parameters += f", publish_via_partition_root = {'true' if publication.via_root else 'false'}"
    return parameters + (f", publish_generated_columns = {publication.generated}" if publication.generated else "")


def _members(tables: tuple[PublishedTable, ...], schemas: tuple[str, ...]) -> str:
    parts = [f"TABLE {', '.join(map(_member, tables))}"] if tables else []
    parts += [f"TABLES IN SCHEMA {', '.join(schemas)}"] if schemas else []
    return ", ".join(parts)


def _member(table: PublishedTable) -> str:
    columns = f" ({', '.join(table.columns)})" if table.columns else ""
    condition = f" WHERE ({table.filter.required()})" if table.filter is not None else ""
    return f"ONLY {table.table}{columns}{condition}"


def alter_publication(before: PublicationDefinition, after: PublicationDefinition, step: Step) -> Iterator[Statement]:
    """Give the changes of a publication's parameters, and of its tables and schemas."""
    alter = f"ALTER PUBLICATION {after.sql_name}"
    if any(table.is_excepted for table in (*before.tables, *after.tables)):
        raise UnsupportedDefinitionError("a publication of all tables but some is not told in SQL")
    if _parameters(before) != _parameters(after):
        yield Statement(Phase.PUBLICATION, 0, f"{alter} SET ({_parameters(after)})")
    remaining = tuple(table for table in before.tables if table.oid not in step.dropped_tables)
    schemas = tuple(oid for oid in before.core[3] if step.after.schema_name(oid) is not None)
    was = [(member.oid, member.numbers, member.filter) for member in remaining], schemas
    now = [(member.oid, member.numbers, member.filter) for member in after.tables], after.core[3]
    if was == now:
        return
    if after.tables or after.schemas:
        yield Statement(Phase.PUBLICATION, 0, f"{alter} SET {_members(after.tables, after.schemas)}")
        return
    names = [step.after.relation_name(table.oid) for table in remaining]
    schema_names = [step.after.schema_name(oid) for oid in schemas]
    gone = [f"TABLE {', '.join(f'ONLY {name}' for name in names if name)}"] if any(names) else []
    gone += (
        [f"TABLES IN SCHEMA {', '.join(step.quoted(name) for name in schema_names if name)}"] if schema_names else []
    )
    if gone:
        yield Statement(Phase.PUBLICATION, 0, f"{alter} DROP {', '.join(gone)}")


def drop_publication(publication: PublicationDefinition, _step: Step) -> Iterator[Statement]:
    """Give DROP PUBLICATION."""
    yield Statement(Phase.DROP_PUBLICATION, 0, f"DROP PUBLICATION {publication.sql_name}")


def comment(before: CommentsDefinition | None, after: CommentsDefinition | None, step: Step) -> Iterator[Statement]:
    """Give COMMENT ON for objects with another comment now, but not for dropped ones."""
    old = {comment.key: comment for comment in before.comments} if before is not None else {}
    new = {comment.key: comment for comment in after.comments} if after is not None else {}
    for key, comment in new.items():
        if key in old and old[key].text == comment.text:
            continue
        if comment.target is None:
            raise UnsupportedDefinitionError("a comment on an object of this kind is not told in SQL")
        yield Statement(Phase.COMMENT, 0, f"COMMENT ON {comment.target} IS {literal(comment.text)}")
    for key in old.keys() - new.keys():
        target = step.after.comment_target(key)
        if target is not None:
            yield Statement(Phase.COMMENT, 0, f"COMMENT ON {target} IS NULL")


def create_extension(extension: ExtensionDefinition, _step: Step) -> Iterator[Statement]:
    """Give CREATE EXTENSION."""
    version = literal(extension.version)
    create = f"CREATE EXTENSION {extension.sql_name} WITH SCHEMA {extension.schema} VERSION {version}"
    yield Statement(Phase.TYPE, -1, create)


def alter_extension(before: ExtensionDefinition, after: ExtensionDefinition, _step: Step) -> Iterator[Statement]:
    """Give the change of an extension's version or schema."""
    alter = f"ALTER EXTENSION {after.sql_name}"
    if before.version != after.version:
        yield Statement(Phase.TYPE, -1, f"{alter} UPDATE TO {literal(after.version)}")
    if before.schema_oid != after.schema_oid:
        yield Statement(Phase.RENAME, 0, f"{alter} SET SCHEMA {after.schema}")


def drop_extension(extension: ExtensionDefinition, _step: Step) -> Iterator[Statement]:
    """Give DROP EXTENSION."""
    yield Statement(Phase.DROP_TYPE, 1, f"DROP EXTENSION {extension.sql_name}")
