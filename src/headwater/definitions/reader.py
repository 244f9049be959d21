"""Definitions of objects, read by class and OID.

In: a view of the catalog. Out: a definition, or None. None is for an object that does not exist, is temporary, or came
with an extension. It is also for a part of another object, such as a constraint's index or the type of a table's rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from headwater.catalog.generic_row import NamedRow
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.definitions.indexes import IndexReader
from headwater.definitions.objects import (
    Comment,
    CommentsDefinition,
    Definition,
    ExtensionDefinition,
    OtherDefinition,
    SchemaDefinition,
)
from headwater.definitions.publications import PublicationReader
from headwater.definitions.reading import DefinitionSource
from headwater.definitions.tables import TableReader
from headwater.definitions.types import TypeReader
from headwater.pg.catalogs import (
    PG_CLASS,
    PG_CONSTRAINT,
    PG_DESCRIPTION,
    PG_EVENT_TRIGGER,
    PG_EXTENSION,
    PG_NAMESPACE,
    PG_POLICY,
    PG_PROC,
    PG_PUBLICATION,
    PG_REWRITE,
    PG_STATISTIC_EXT,
    PG_TRIGGER,
    PG_TYPE,
)

COMMENT = PG_DESCRIPTION
"""The class of comments: their OID is that of the object that they are on."""

_OTHER_RELATIONS = {"v": "view", "m": "materialized view", "f": "foreign table"}
PRIVILEGES = "privileges"

_PRIVILEGES: dict[int, tuple[str, str, str, str]] = {
    PG_CLASS: ("relname", "relnamespace", "relowner", "relacl"),
    PG_TYPE: ("typname", "typnamespace", "typowner", "typacl"),
    PG_PROC: ("proname", "pronamespace", "proowner", "proacl"),
    PG_NAMESPACE: ("nspname", "", "nspowner", "nspacl"),
}
"""The columns of the name, schema, owner and privileges of objects."""

_COMMENTED = {"r": "TABLE", "p": "TABLE", "v": "VIEW", "m": "MATERIALIZED VIEW", "S": "SEQUENCE", "i": "INDEX"}
_COMMENTED |= {"I": "INDEX", "c": "TYPE", "f": "FOREIGN TABLE"}
_NAMED = {
    PG_NAMESPACE: ("SCHEMA", "nspname"),
    PG_PUBLICATION: ("PUBLICATION", "pubname"),
    PG_EXTENSION: ("EXTENSION", "extname"),
}
"""The objects that belong to no schema and no table, and the columns of their names."""


class ObjectKey(NamedTuple):
    """The key of an object: OID of the catalog that its row is in, and its own."""

    catalog: int
    oid: int


class DefinitionReader:
    """A reader of definitions as of a view.

    Args:
        view: the catalog, with definitions.
    """

    def __init__(self, view: HistoricCatalog) -> None:
        self._source = DefinitionSource(view)
        self._naming = self._source.naming
        self._indexes = IndexReader(self._source)
        self._tables = TableReader(self._source, self._indexes)
        self._types = TypeReader(self._source, self._tables, self._indexes)
        self._publications = PublicationReader(self._source)
        self._readers: dict[int, tuple[str, Callable[[NamedRow], Definition | None]]] = {
            PG_CLASS: ("pg_class", self._relation),
            PG_TYPE: ("pg_type", self._type),
            PG_CONSTRAINT: ("pg_constraint", self._constraint),
            PG_NAMESPACE: ("pg_namespace", self._schema),
            PG_PUBLICATION: ("pg_publication", self._publications.publication),
            PG_EXTENSION: ("pg_extension", self._extension),
            PG_PROC: ("pg_proc", self._function),
            PG_TRIGGER: ("pg_trigger", self._trigger),
            PG_POLICY: ("pg_policy", self._policy),
            PG_REWRITE: ("pg_rewrite", self._rule),
            PG_STATISTIC_EXT: ("pg_statistic_ext", self._statistics),
            PG_EVENT_TRIGGER: ("pg_event_trigger", self._event_trigger),
        }

    def read(self, key: ObjectKey) -> Definition | None:
        """Read the definition of an object.

        Raises:
            CatalogError: the catalog is inconsistent.
        """
        if key.catalog == COMMENT:
            return self._comments(key.oid)
        catalog, read = self._readers[key.catalog]
        row = self._source.row(catalog, "oid", key.oid)
        if row is None or self._is_temporary(key.catalog, row):
            return None
        if key.catalog != PG_EXTENSION and self._source.is_part(key.catalog, key.oid):
            return None
        return read(row)

    @property
    def major(self) -> int:
        """PostgreSQL's major version."""
        return self._naming.major

    def schema_name(self, oid: int) -> str | None:
        """Return the name of a schema; None if the schema does not exist."""
        row = self._source.row("pg_namespace", "oid", oid)
        return None if row is None else row.name("nspname")

    def relation_name(self, oid: int) -> str | None:
        """Return the name of a relation in SQL; None if the relation does not exist."""
        return self._naming.relation(oid) if self._source.row("pg_class", "oid", oid) is not None else None

    def constraint_name(self, oid: int) -> str | None:
        """Return the name of a constraint, not quoted; None if the constraint does not exist."""
        row = self._source.row("pg_constraint", "oid", oid)
        return None if row is None else row.name("conname")

    def is_partitioned(self, table: int) -> bool:
        """Tell whether a table is partitioned."""
        row = self._source.row("pg_class", "oid", table)
        return row is not None and row.letter("relkind") == "p"

    def row(self, key: ObjectKey) -> NamedRow | None:
        """Return the row of an object in its catalog; None if there is none."""
        return self._source.row(self._readers[key.catalog][0], "oid", key.oid)

    def identity_table(self, sequence: int) -> int:
        """Return the table of the identity column whose values a sequence makes, or 0."""
        owner = self._source.owned_by(sequence)
        return owner[0] if owner is not None and owner[2] == "i" else 0

    def _is_temporary(self, catalog: int, row: NamedRow) -> bool:
        if catalog == PG_CLASS:
            return row.letter("relpersistence") == "t"
        namespace = {PG_TYPE: "typnamespace", PG_PROC: "pronamespace", PG_CONSTRAINT: "connamespace"}.get(catalog)
        if catalog == PG_NAMESPACE:
            return self._source.is_temporary(row.oid("oid"))
        return namespace is not None and self._source.is_temporary(row.oid(namespace))

    def _relation(self, row: NamedRow) -> Definition | None:
        kind = row.letter("relkind")
        if row.oid("relrewrite"):
            return None
        if kind in "rp":
            return self._tables.table(row)
        if kind in "iI":
            return self._index(row)
        if kind == "S":
            return self._tables.sequence(row)
        return self._other_relation(row, _OTHER_RELATIONS[kind]) if kind in _OTHER_RELATIONS else None

    def _index(self, row: NamedRow) -> Definition | None:
        index = self._source.row("pg_index", "indexrelid", row.oid("oid"))
        table = None if index is None else self._source.row("pg_class", "oid", index.oid("indrelid"))
        is_of_table = table is not None and table.letter("relkind") in "rp" and not table.oid("relrewrite")
        return self._indexes.index(row) if is_of_table else None

    def _other_relation(self, row: NamedRow, what: str) -> OtherDefinition:
        oid, schema = row.oid("oid"), row.oid("relnamespace")
        rules = self._source.rows("pg_rewrite", "ev_class", oid)
        columns = self._tables.columns(oid)
        core = tuple(sorted(rule.raw() for rule in rules)), columns, row.texts("reloptions"), row.oid("relowner")
        shown = {
            "schema": self._source.view.namespace_name(schema),
            "columns": [{"name": column.name, "type": column.type} for column in columns],
            "options": list(row.texts("reloptions")),
        }
        return OtherDefinition(oid, row.name("relname"), self._naming.relation(oid), schema, core, what, shown)

    def _type(self, row: NamedRow) -> Definition | None:
        return self._types.type(row)

    def _constraint(self, row: NamedRow) -> Definition | None:
        table = self._source.row("pg_class", "oid", row.oid("conrelid")) if row.oid("conrelid") else None
        if table is None or table.letter("relkind") not in "rp":
            return None
        return self._indexes.constraint(row)

    def _schema(self, row: NamedRow) -> SchemaDefinition:
        name = row.name("nspname")
        return SchemaDefinition(row.oid("oid"), name, self._naming.quoted(name), 0, ())

    def _extension(self, row: NamedRow) -> ExtensionDefinition:
        name, version = row.name("extname"), row.text("extversion") or ""
        schema = row.oid("extnamespace")
        schema_name = self._naming.namespace(schema)
        return ExtensionDefinition(
            row.oid("oid"), name, self._naming.quoted(name), schema, (version,), schema_name, version
        )

    # -- objects that are reported without SQL

    def _function(self, row: NamedRow) -> OtherDefinition:
        return self._other(row, "function", "proname", row.oid("pronamespace"))

    def _trigger(self, row: NamedRow) -> OtherDefinition | None:
        return None if row.flag("tgisinternal") else self._other(row, "trigger", "tgname", table=row.oid("tgrelid"))

    def _policy(self, row: NamedRow) -> OtherDefinition:
        return self._other(row, "policy", "polname", table=row.oid("polrelid"))

    def _rule(self, row: NamedRow) -> OtherDefinition | None:
        if row.name("rulename") == "_RETURN":
            return None
        return self._other(row, "rule", "rulename", table=row.oid("ev_class"))

    def _statistics(self, row: NamedRow) -> OtherDefinition:
        return self._other(row, "statistics", "stxname", row.oid("stxnamespace"))

    def _event_trigger(self, row: NamedRow) -> OtherDefinition:
        return self._other(row, "event trigger", "evtname")

    def _other(self, row: NamedRow, what: str, name: str, schema: int = 0, table: int = 0) -> OtherDefinition:
        object_name = row.name(name)
        sql_name = self._naming.qualified(schema, object_name) if schema else self._naming.quoted(object_name)
        sql_name = f"{self._naming.relation(table)}.{sql_name}" if table else sql_name
        return OtherDefinition(row.oid("oid"), object_name, sql_name, schema, tuple(row.raw()), what, row.values())

    # -- owners and privileges

    def privileges(self, key: ObjectKey) -> OtherDefinition | None:
        """Read the owner and privileges of an object; None for an object without an owner of its own."""
        columns = _PRIVILEGES.get(key.catalog)
        row = None if columns is None else self.row(key)
        if columns is None or row is None or not self._is_owned(key.catalog, row):
            return None
        name, schema, owner, acl = columns
        sql_name = (
            self._naming.qualified(row.oid(schema), row.name(name)) if schema else self._naming.quoted(row.name(name))
        )
        granted = {"": row.raw_value(acl)}
        if key.catalog == PG_CLASS:
            attributes = self._source.rows("pg_attribute", "attrelid", key.oid)
            granted |= {
                attribute.name("attname"): attribute.raw_value("attacl")
                for attribute in attributes
                if attribute.has("attacl")
            }
        shown = {"owner": self._naming.role(row.oid(owner)), "privileges": self._granted(granted)}
        core = row.oid(owner), tuple(granted.items())
        # Another name is a change of the object itself.
        return OtherDefinition(key.oid, "", sql_name, 0, core, PRIVILEGES, shown)

    def _is_owned(self, catalog: int, row: NamedRow) -> bool:
        """Tell whether an object has its own privileges; an index, or the type of a table's rows, has the table's."""
        if self._is_temporary(catalog, row):
            return False
        if catalog == PG_CLASS:
            return row.letter("relkind") in "rpvmfS"
        return catalog != PG_TYPE or self._type(row) is not None

    def _granted(self, granted: dict[str, bytes | None]) -> dict[str, str]:
        """Print privileges as psql shows them, of the object itself under an empty name, and of its columns."""
        return {name: self._naming.privileges(acl) for name, acl in granted.items() if acl is not None}

    # -- comments

    def _comments(self, oid: int) -> CommentsDefinition | None:
        """Read the comments on an object that is not temporary."""
        rows = self._source.rows("pg_description", "objoid", oid)
        comments = sorted((comment for row in rows if (comment := self._comment(row)) is not None), key=_comment_key)
        core = tuple((item.key, item.text) for item in comments)
        return CommentsDefinition(oid, "", "", 0, core, tuple(comments)) if comments else None

    def comment_target(self, key: tuple[int, int, int]) -> str | None:
        """Return the object of a comment in SQL; None for an object that does not exist, or is not followed."""
        row = self.row(ObjectKey(*key[:2])) if key[0] in self._readers else None
        return None if row is None else self._target(row, key)

    def _comment(self, row: NamedRow) -> Comment | None:
        key = row.oid("classoid"), row.oid("objoid"), row.integer("objsubid")
        if self._source.is_part(*key[:2]):
            return None
        known = key[0] in self._readers
        owner = self.row(ObjectKey(*key[:2])) if known else None
        if owner is not None and self._is_temporary(key[0], owner):
            return None
        target = None if owner is None else self._target(owner, key)
        return Comment(key, target, row.text("description") or "", target or self._name_of(ObjectKey(*key[:2])))

    def _name_of(self, key: ObjectKey) -> str:
        """Return a name for an object that COMMENT ON cannot name."""
        definition = self.read(key) if key.catalog in self._readers else None
        if definition is None:
            return str(key.oid)
        return (
            f"{(definition.what if isinstance(definition, OtherDefinition) else definition.kind).upper()} "
            f"{definition.sql_name}"
        )

    def _target(self, row: NamedRow, key: tuple[int, int, int]) -> str | None:
        """Return the words after COMMENT ON."""
        catalog, oid, number = key
        if catalog == PG_CLASS:
            name = self._naming.relation(oid)
            if number:
                column = self._naming.live_column(oid, number)
                return None if column is None else f"COLUMN {name}.{column}"
            return f"{_COMMENTED[row.letter('relkind')]} {name}" if row.letter("relkind") in _COMMENTED else None
        if catalog == PG_TYPE:
            word = "DOMAIN" if row.letter("typtype") == "d" else "TYPE"
            return f"{word} {self._naming.qualified(row.oid('typnamespace'), row.name('typname'))}"
        if catalog == PG_CONSTRAINT:
            name = self._naming.quoted(row.name("conname"))
            if row.oid("contypid"):
                return f"CONSTRAINT {name} ON DOMAIN {self._naming.type(row.oid('contypid'))}"
            return f"CONSTRAINT {name} ON {self._naming.relation(row.oid('conrelid'))}"
        named = _NAMED.get(catalog)
        return None if named is None else f"{named[0]} {self._naming.quoted(row.name(named[1]))}"


def _comment_key(comment: Comment) -> tuple[int, int, int]:
    return comment.key
