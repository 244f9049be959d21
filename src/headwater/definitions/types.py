"""Types of users: enums, composites, domains, ranges (PostgreSQL: ``pg_dump.c``, dumpType)."""

from __future__ import annotations

import struct
from collections.abc import Callable

from headwater.catalog.generic_row import NamedRow
from headwater.definitions.indexes import IndexReader
from headwater.definitions.objects import (
    CompositeDefinition,
    Definition,
    DomainConstraint,
    DomainDefinition,
    EnumDefinition,
    OtherDefinition,
    RangeDefinition,
)
from headwater.definitions.reading import DefinitionSource, bare_tree
from headwater.definitions.tables import TableReader, column_core
from headwater.pg.catalogs import F_ARRAY_SUBSCRIPT_HANDLER


class TypeReader:
    """A reader of types as of a view."""

    def __init__(self, source: DefinitionSource, tables: TableReader, indexes: IndexReader) -> None:
        self._source = source
        self._naming = source.naming
        self._tables = tables
        self._indexes = indexes

    def type(self, row: NamedRow) -> Definition | None:
        """Read a type, from its row of ``pg_type``; None for a type that comes with another object."""
        if row.oid("typelem") and row.oid("typsubscript") == F_ARRAY_SUBSCRIPT_HANDLER and row.letter("typtype") == "b":
            return None
        readers: dict[str, Callable[[NamedRow], Definition | None]] = {
            "e": self._enum,
            "c": self._composite,
            "d": self._domain,
            "r": self._range,
            "b": self._other,
            "p": self._other,
        }
        read = readers.get(row.letter("typtype"))
        return None if read is None else read(row)

    def _schema(self, row: NamedRow) -> str:
        return self._source.view.namespace_name(row.oid("typnamespace"))

    def _sql_name(self, row: NamedRow) -> str:
        return self._naming.qualified(row.oid("typnamespace"), row.name("typname"))

    def _names(self, row: NamedRow) -> tuple[int, str, str, int]:
        """Return OID, name, name in SQL, and OID of the schema."""
        return row.oid("oid"), row.name("typname"), self._sql_name(row), row.oid("typnamespace")

    def _other(self, row: NamedRow) -> OtherDefinition:
        what = "base type" if row.letter("typtype") == "b" else "shell type"
        core = tuple(row.values().items())
        return OtherDefinition(*self._names(row), core, what, row.values())

    def _enum(self, row: NamedRow) -> EnumDefinition:
        rows = self._source.rows("pg_enum", "enumtypid", row.oid("oid"))
        ordered = sorted(rows, key=lambda label: struct.unpack("<f", struct.pack("<I", label.oid("enumsortorder"))))
        oids, labels = (
            tuple(label.oid("oid") for label in ordered),
            tuple(label.name("enumlabel") for label in ordered),
        )
        core = oids, labels
        return EnumDefinition(*self._names(row), core, self._schema(row), labels, oids)

    def _composite(self, row: NamedRow) -> CompositeDefinition | None:
        relation = self._source.row("pg_class", "oid", row.oid("typrelid"))
        if relation is None or relation.letter("relkind") != "c":
            return None
        columns = self._tables.columns(row.oid("typrelid"))
        core = tuple(map(column_core, columns))
        return CompositeDefinition(*self._names(row), core, self._schema(row), columns)

    def _domain(self, row: NamedRow) -> DomainDefinition:
        constraints = sorted(self._source.rows("pg_constraint", "contypid", row.oid("oid")), key=_name_of)
        checks = tuple(self._check(constraint) for constraint in constraints if constraint.letter("contype") == "c")
        not_nulls = [constraint.name("conname") for constraint in constraints if constraint.letter("contype") == "n"]
        base, typmod, collation = row.oid("typbasetype"), row.integer("typtypmod"), row.oid("typcollation")
        tree = row.text("typdefaultbin")
        default = None if tree is None else self._source.expression(tree)
        not_null = row.flag("typnotnull")
        return DomainDefinition(
            oid=row.oid("oid"),
            name=row.name("typname"),
            sql_name=self._sql_name(row),
            schema_oid=row.oid("typnamespace"),
            core=(base, typmod, collation, not_null, tuple(not_nulls), default, checks),
            schema=self._schema(row),
            base=self._naming.type(base, typmod),
            collation=self._source.collation(collation, base),
            not_null=not_null,
            not_null_name=not_nulls[0] if not_nulls else None,
            default=default,
            constraints=checks,
        )

    def _check(self, row: NamedRow) -> DomainConstraint:
        definition = self._source.deparsed(bare_tree(row.text("conbin")), lambda: self._indexes.check(row))
        return DomainConstraint(row.oid("oid"), row.name("conname"), definition, row.flag("convalidated"))

    def _range(self, row: NamedRow) -> RangeDefinition | None:
        range_row = self._source.row("pg_range", "rngtypid", row.oid("oid"))
        if range_row is None:
            return None
        names = "rngsubtype", "rngmultitypid", "rngcollation", "rngsubopc", "rngcanonical", "rngsubdiff"
        core = subtype, multirange, collation, operator_class, canonical, difference = tuple(map(range_row.oid, names))
        return RangeDefinition(
            oid=row.oid("oid"),
            name=row.name("typname"),
            sql_name=self._sql_name(row),
            schema_oid=row.oid("typnamespace"),
            core=core,
            schema=self._schema(row),
            subtype=self._naming.type(subtype),
            operator_class=self._naming.operator_class(operator_class),
            collation=self._source.collation(collation, subtype),
            canonical=self._naming.function(canonical) if canonical else None,
            difference=self._naming.function(difference) if difference else None,
            multirange=self._multirange(multirange),
        )

    def _multirange(self, oid: int) -> str:
        return self._sql_name(self._naming.row("pg_type", oid))


def _name_of(row: NamedRow) -> str:
    return row.name("conname")
