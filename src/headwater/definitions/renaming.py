"""Changes of names and schemas, for all kinds of objects, in an order in which no name is taken twice.

Objects that exchange their names, or take the name of an object that is dropped at the end, first get a spare name.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.definitions.objects import (
    CompositeDefinition,
    ConstraintDefinition,
    Definition,
    DomainDefinition,
    EnumDefinition,
    ExtensionDefinition,
    IndexDefinition,
    OtherDefinition,
    PublicationDefinition,
    RangeDefinition,
    SchemaDefinition,
    SequenceDefinition,
    TableDefinition,
)
from headwater.definitions.statements import Phase, Statement
from headwater.definitions.step import Change, Step

_WORDS: dict[type[Definition], str] = {
    SchemaDefinition: "SCHEMA",
    TableDefinition: "TABLE",
    IndexDefinition: "INDEX",
    SequenceDefinition: "SEQUENCE",
    EnumDefinition: "TYPE",
    CompositeDefinition: "TYPE",
    RangeDefinition: "TYPE",
    DomainDefinition: "DOMAIN",
    PublicationDefinition: "PUBLICATION",
}


def renamed(change: Change, step: Step) -> Iterator[Statement]:
    """Give RENAME and SET SCHEMA for an object that still exists."""
    before, after = change.before, change.after
    if before is None or after is None or isinstance(after, OtherDefinition | ExtensionDefinition):
        return
    if isinstance(after, ConstraintDefinition):
        if before.name != after.name:
            name = f"{step.quoted(before.name)} TO {step.quoted(after.name)}"
            yield Statement(Phase.RENAME, 2, f"ALTER TABLE {after.table} RENAME CONSTRAINT {name}")
        return
    word = _WORDS.get(type(after))
    if word is not None:
        yield from _moved(word, before, after, step)


def _moved(word: str, before: Definition, after: Definition, step: Step) -> Iterator[Statement]:
    phase = Phase.SCHEMA if word == "SCHEMA" else Phase.RENAME
    schema = step.after.schema_name(before.schema_oid) if before.schema_oid else None
    if isinstance(after, IndexDefinition):
        # An index moves with its table, which has its schema by then.
        schema = None if before.name == after.name else after.schema
    name = before.name
    is_renamed, is_moved = before.name != after.name, before.schema_oid != after.schema_oid
    if isinstance(before, SequenceDefinition) and isinstance(after, SequenceDefinition) and before.table_oid:
        is_moved = is_moved and before.table_oid != after.table_oid
    if (is_renamed or is_moved) and step.is_name_given_up(before, after):
        name = step.spare_name(before)
        yield Statement(Phase.GIVE_NAME_UP, 0, f"ALTER {word} {before.sql_name} RENAME TO {name}")
    if is_moved:
        old_name = _named(schema, name, step)
        schema = step.after.schema_name(after.schema_oid)
        yield Statement(phase, 0, f"ALTER {word} {old_name} SET SCHEMA {step.quoted(schema or '')}")
    if name != after.name:
        yield Statement(phase, 1, f"ALTER {word} {_named(schema, name, step)} RENAME TO {step.quoted(after.name)}")


def _named(schema: str | None, name: str, step: Step) -> str:
    return step.quoted(name) if schema is None else f"{step.quoted(schema)}.{step.quoted(name)}"


def given_up(change: Change, step: Step) -> Iterator[Statement]:
    """Give RENAME to a spare name for an object that is dropped at the end, if another object takes its name before."""
    before = change.before
    if before is None or change.after is not None or not before.schema_oid or isinstance(before, TableDefinition):
        return
    word = _WORDS.get(type(before))
    if word is not None and word != "INDEX" and step.is_name_taken(before):
        spare = step.spare_name(before)
        yield Statement(Phase.GIVE_NAME_UP, 0, f"ALTER {word} {before.sql_name} RENAME TO {spare}")
