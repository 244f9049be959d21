"""Types in SQL (PostgreSQL: ``pg_dump.c``, dumpType)."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.definitions.constants import literal
from headwater.definitions.objects import (
    ColumnDefinition,
    CompositeDefinition,
    DomainConstraint,
    DomainDefinition,
    EnumDefinition,
    RangeDefinition,
)
from headwater.definitions.step import Step


def create_enum(type: EnumDefinition, _step: Step) -> Iterator[str]:
    """Give CREATE TYPE ... AS ENUM."""
    yield f"CREATE TYPE {type.sql_name} AS ENUM ({', '.join(map(literal, type.labels))})"


def alter_enum(before: EnumDefinition, after: EnumDefinition, _step: Step) -> Iterator[str]:
    """Give the renames and additions of labels, each next to a label that exists by then."""
    old = dict(zip(before.label_oids, before.labels, strict=True))
    labels = list(zip(after.label_oids, after.labels, strict=True))
    alter = f"ALTER TYPE {after.sql_name}"
    for oid, label in labels:
        if oid in old and old[oid] != label:
            yield f"{alter} RENAME VALUE {literal(old[oid])} TO {literal(label)}"
    known = [at for at, (oid, _) in enumerate(labels) if oid in old]
    first = known[0] if known else len(labels)
    for at in range(first - 1, -1, -1):
        place = f" BEFORE {literal(labels[at + 1][1])}" if at + 1 < len(labels) else ""
        yield f"{alter} ADD VALUE {literal(labels[at][1])}{place}"
    for at in range(first + 1, len(labels)):
        if labels[at][0] not in old:
            yield f"{alter} ADD VALUE {literal(labels[at][1])} AFTER {literal(labels[at - 1][1])}"


def create_composite(type: CompositeDefinition, step: Step) -> Iterator[str]:
    """Give CREATE TYPE ... AS."""
    columns = ", ".join(_attribute(column, step) for column in type.columns)
    yield f"CREATE TYPE {type.sql_name} AS ({columns})"


def _attribute(column: ColumnDefinition, step: Step) -> str:
    return f"{step.quoted(column.name)} {_typed(column)}"


def _typed(column: ColumnDefinition) -> str:
    return column.type + (f" COLLATE {column.collation}" if column.collation is not None else "")


def alter_composite(before: CompositeDefinition, after: CompositeDefinition, step: Step) -> Iterator[str]:
    """Give the statements that drop, rename, change and add attributes, with the columns of typed tables."""
    alter, goes_on = f"ALTER TYPE {after.sql_name}", " CASCADE" if step.has_typed_tables(after.oid) else ""
    yield from (f"{alter} {action}{goes_on}" for action in _attribute_actions(before, after, step))


def _attribute_actions(before: CompositeDefinition, after: CompositeDefinition, step: Step) -> Iterator[str]:
    old = {column.number: column for column in before.columns}
    new = {column.number: column for column in after.columns}
    for column in before.columns:
        if column.number not in new:
            yield f"DROP ATTRIBUTE {step.quoted(column.name)}"
    renamed = [
        (old[attribute.number], attribute)
        for attribute in after.columns
        if attribute.number in old and old[attribute.number].name != attribute.name
    ]
    taken = {attribute.name for attribute, _ in renamed}
    for was, now in renamed:
        if now.name in taken:
            yield f"RENAME ATTRIBUTE {step.quoted(was.name)} TO headwater_{was.number}"
    for was, now in renamed:
        name = f"headwater_{was.number}" if now.name in taken else step.quoted(was.name)
        yield f"RENAME ATTRIBUTE {name} TO {step.quoted(now.name)}"
    for column in after.columns:
        name = step.quoted(column.name)
        if column.number not in old:
            yield f"ADD ATTRIBUTE {_attribute(column, step)}"
        elif old[column.number].core != column.core:
            yield f"ALTER ATTRIBUTE {name} TYPE {_typed(column)}"


def create_domain(type: DomainDefinition, step: Step) -> Iterator[str]:
    """Give CREATE DOMAIN."""
    words = [f"CREATE DOMAIN {type.sql_name} AS {type.base}"]
    if type.collation is not None:
        words.append(f"COLLATE {type.collation}")
    if type.default is not None:
        words.append(f"DEFAULT {type.default.required()}")
    if type.not_null_name is not None:
        words.append(f"CONSTRAINT {step.quoted(type.not_null_name)}")
    if type.not_null:
        words.append("NOT NULL")
    words += [_check(constraint, step) for constraint in type.constraints if constraint.is_valid]
    yield " ".join(words)
    yield from (
        f"ALTER DOMAIN {type.sql_name} ADD {_check(constraint, step)}"
        for constraint in type.constraints
        if not constraint.is_valid
    )


def _check(constraint: DomainConstraint, step: Step) -> str:
    return f"CONSTRAINT {step.quoted(constraint.name)} {constraint.definition.required()}"


def alter_domain(before: DomainDefinition, after: DomainDefinition, step: Step) -> Iterator[str]:
    """Give the changes of a domain's default, NOT NULL and constraints."""
    alter = f"ALTER DOMAIN {after.sql_name}"
    old, new = ({constraint.oid: constraint for constraint in type.constraints} for type in (before, after))
    yield from (
        f"{alter} DROP CONSTRAINT {step.quoted(constraint.name)}" for oid, constraint in old.items() if oid not in new
    )
    for oid, constraint in new.items():
        if oid not in old:
            yield f"{alter} ADD {_check(constraint, step)}"
            continue
        if old[oid].name != constraint.name:
            yield f"{alter} RENAME CONSTRAINT {step.quoted(old[oid].name)} TO {step.quoted(constraint.name)}"
        if constraint.is_valid and not old[oid].is_valid:
            yield f"{alter} VALIDATE CONSTRAINT {step.quoted(constraint.name)}"
    if after.default is None and before.default is not None:
        yield f"{alter} DROP DEFAULT"
    elif after.default is not None and before.default != after.default:
        yield f"{alter} SET DEFAULT {after.default.required()}"
    if before.not_null != after.not_null:
        if after.not_null and after.not_null_name is not None:
            yield f"{alter} ADD CONSTRAINT {step.quoted(after.not_null_name)} NOT NULL"
        else:
            yield f"{alter} {'SET' if after.not_null else 'DROP'} NOT NULL"


def create_range(type: RangeDefinition, _step: Step) -> Iterator[str]:
    """Give CREATE TYPE ... AS RANGE."""
    parts = {
        "SUBTYPE": type.subtype,
        "SUBTYPE_OPCLASS": type.operator_class,
        "COLLATION": type.collation,
        "CANONICAL": type.canonical,
        "SUBTYPE_DIFF": type.difference,
        "MULTIRANGE_TYPE_NAME": type.multirange,
    }
    options = ", ".join(f"{name} = {value}" for name, value in parts.items() if value is not None)
    yield f"CREATE TYPE {type.sql_name} AS RANGE ({options})"
