"""Definitions of objects, as values.

A definition is what a view of the catalog has of an object: its name, and all that its SQL consists of. Names of other
objects are as of the same view, qualified and quoted as in SQL. Definitions are compared by :attr:`core`, which has
OIDs and trees: a statement that renames an object does not change the objects that refer to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from headwater.errors import UnsupportedDefinitionError

Core = tuple[Any, ...]
"""The values that make an object what it is, whatever is renamed."""


@dataclass(frozen=True)
class Expression:
    """An expression.

    Attributes:
        tree: the node tree of the catalog, without places in the statement that it was written in.
        sql: the same in SQL; None if it cannot be written exactly.
        reason: why it cannot.
    """

    tree: str
    sql: str | None = field(compare=False)
    reason: str = field(default="", compare=False)

    def required(self) -> str:
        """Return the SQL.

        Raises:
            UnsupportedDefinitionError: the expression cannot be written in SQL.
        """
        if self.sql is None:
            raise UnsupportedDefinitionError(self.reason)
        return self.sql


@dataclass(frozen=True)
class Definition:
    """The definition of any object.

    Attributes:
        oid: its OID.
        name: its name, not quoted.
        sql_name: the name in SQL, qualified.
        schema_oid: OID of the schema that it can be moved out of; 0 if it has none, or moves with its table.
        core: the values that make it what it is.
    """

    oid: int
    name: str
    sql_name: str
    schema_oid: int
    core: Core = field(repr=False)

    kind = "object"
    """The name of this kind of object."""

    def structure(self) -> dict[str, Any]:
        """Return the definition as a value of JSON: names and SQL, no OIDs of other objects."""
        return {"kind": self.kind, "oid": self.oid} | _structure(self, hidden=("oid", "core", "sql_name"))

    def is_same(self, other: Definition) -> bool:
        """Tell whether it is the same as another definition, its name included."""
        return (self.name, self.schema_oid, self.core) == (other.name, other.schema_oid, other.core)


def _structure(value: Any, hidden: tuple[str, ...] = ("core",)) -> dict[str, Any]:
    structure = {}
    for attribute in fields(value):
        if (
            attribute.name not in hidden
            and attribute.name != "numbers"
            and not attribute.name.endswith("_oid")
            and not attribute.name.endswith("_oids")
        ):
            structure[attribute.name] = _json(getattr(value, attribute.name))
    return structure


def _json(value: Any) -> Any:
    if isinstance(value, Expression):
        return value.sql if value.sql is not None else {"unsupported": value.reason}
    if isinstance(value, Definition):
        return value.structure()
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    return _structure(value) if hasattr(value, "__dataclass_fields__") else value


@dataclass(frozen=True)
class SchemaDefinition(Definition):
    """A schema (``pg_namespace``)."""

    kind = "schema"


@dataclass(frozen=True)
class SequenceDefinition(Definition):
    """A sequence (``pg_sequence``).

    Attributes:
        schema: its schema.
        is_unlogged: it is not replicated.
        type: the type of its values.
        start, increment, minimum, maximum, cache: numbers.
        cycles: it begins again at its end.
        owner: the column that it belongs to, ``table.column`` in SQL; None without one.
        table_oid: OID of that table, or 0; is_identity: it makes the values of an identity column.
    """

    schema: str
    is_unlogged: bool
    type: str
    start: int
    increment: int
    minimum: int
    maximum: int
    cache: int
    cycles: bool
    owner: str | None
    table_oid: int
    is_identity: bool

    kind = "sequence"


@dataclass(frozen=True)
class NotNull:
    """A NOT NULL constraint that has a row of its own (18 and newer).

    Attributes:
        name: its name, not quoted.
        is_local: it is defined in the table itself; is_inheritable: its children also have it; is_valid: all rows
            satisfy it.
    """

    name: str
    is_local: bool
    is_inheritable: bool
    is_valid: bool


@dataclass(frozen=True)
class ColumnDefinition:
    """A column of a table, or of a composite type (``pg_attribute``).

    Attributes:
        number: ``attnum``.
        name: its name, not quoted.
        type: its type in SQL.
        collation: its collation in SQL, if it is not that of the type.
        not_null: it has no NULL; constraint: the constraint for that.
        default: its default, or the expression that generates it.
        generated: empty, ``stored`` or ``virtual``.
        identity: empty, ``always`` or ``by default``; sequence: the sequence that makes its values.
        storage: ``plain``, ``external``, ``extended`` or ``main``; type_storage: the default of its type.
        compression: empty, ``pglz`` or ``lz4``.
        statistics: target, -1 for the default.
        options: texts ``name=value``.
        is_local: it is defined in the table itself; parents: the number of parents that it is inherited from.
        core: OIDs of its type and collation, and the typmod.
    """

    number: int
    name: str
    type: str
    collation: str | None
    not_null: bool
    constraint: NotNull | None
    default: Expression | None
    generated: str
    identity: str
    sequence: SequenceDefinition | None
    storage: str
    type_storage: str
    compression: str
    statistics: int
    options: tuple[str, ...]
    is_local: bool
    parents: int
    core: Core = field(repr=False)


@dataclass(frozen=True)
class TableDefinition(Definition):
    """A table (``pg_class``).

    Attributes:
        schema: its schema.
        is_unlogged: it is not replicated.
        columns: the columns that are not dropped, in order.
        of_type: the type of a typed table, in SQL, else None; of_type_oid: its OID, or 0.
        parents: the tables that it inherits from or is a partition of, in SQL; parent_oids: their OIDs.
        is_partition: it is a partition.
        bound: the partition's ``FOR VALUES ...`` or ``DEFAULT``.
        partition_key: the key of a partitioned table, such as ``RANGE (a)``.
        options: texts ``name=value``, ``toast.name=value``.
        tablespace: None for the database's own.
        access_method: None for a table that has none.
        replica_identity: ``default``, ``full``, ``nothing`` or ``index``; identity_index: its name, not quoted.
        cluster_index: the index that it was clustered by, not quoted.
        row_security, force_row_security: the switches of row security.
    """

    schema: str
    is_unlogged: bool
    columns: tuple[ColumnDefinition, ...]
    of_type: str | None
    of_type_oid: int
    parents: tuple[str, ...]
    parent_oids: tuple[int, ...]
    is_partition: bool
    bound: Expression | None
    partition_key: Expression | None
    options: tuple[str, ...]
    tablespace: str | None
    access_method: str | None
    replica_identity: str
    identity_index: str | None
    cluster_index: str | None
    row_security: bool
    force_row_security: bool

    kind = "table"

    def is_of_same_type(self, other: TableDefinition) -> bool:
        """Tell whether both tables are of one composite type, which gives them their columns."""
        return self.of_type_oid != 0 and self.of_type_oid == other.of_type_oid


@dataclass(frozen=True)
class ConstraintDefinition(Definition):
    """A constraint of a table (``pg_constraint``); NOT NULL is a part of the column.

    Attributes:
        table: its table in SQL; table_oid: the table's OID.
        type: ``primary key``, ``unique``, ``check``, ``foreign key`` or ``exclusion``.
        definition: as ``pg_get_constraintdef`` has it.
        is_local: it is defined in the table itself; parents: the number of parents that it is inherited from.
        parent_oid: OID of the partitioned table's constraint that it belongs to, or 0.
        other_oid: OID of the table that a foreign key refers to, or 0.
        is_valid: all rows satisfy it.
        index_name: its index in SQL, None without one; index_oid: the index's OID, or 0.
        index_parent: the partitioned table's index that its index belongs to, in SQL; index_parent_oid: that one's OID,
            or 0.
    """

    table: str
    table_oid: int
    type: str
    definition: Expression
    is_local: bool
    parents: int
    parent_oid: int
    other_oid: int
    is_valid: bool
    index_name: str | None
    index_oid: int
    index_parent: str | None
    index_parent_oid: int

    kind = "constraint"


@dataclass(frozen=True)
class IndexDefinition(Definition):
    """An index that does not belong to a constraint (``pg_index``).

    Attributes:
        schema: the schema of its table.
        table: its table in SQL; table_oid: the table's OID.
        definition: as ``pg_get_indexdef`` has it.
        parent: the partitioned table's index that it belongs to, in SQL; parent_oid: that one's OID.
        is_valid: it was built.
        tablespace: None for the database's own.
        options: texts ``name=value``.
        statistics: targets of expressions, by their numbers.
    """

    schema: str
    table: str
    table_oid: int
    definition: Expression
    parent: str | None
    parent_oid: int
    is_valid: bool
    tablespace: str | None
    options: tuple[str, ...]
    statistics: tuple[tuple[int, int], ...]

    kind = "index"


@dataclass(frozen=True)
class EnumDefinition(Definition):
    """An enum; ``labels`` in their order, ``label_oids`` their OIDs."""

    schema: str
    labels: tuple[str, ...]
    label_oids: tuple[int, ...]

    kind = "type"


@dataclass(frozen=True)
class CompositeDefinition(Definition):
    """A composite type; ``columns`` are its attributes."""

    schema: str
    columns: tuple[ColumnDefinition, ...]

    kind = "type"


@dataclass(frozen=True)
class DomainConstraint:
    """A constraint of a domain: its name, not quoted, definition, and whether all values satisfy it."""

    oid: int
    name: str
    definition: Expression
    is_valid: bool


@dataclass(frozen=True)
class DomainDefinition(Definition):
    """A domain.

    Attributes:
        schema: its schema.
        base: the base type, in SQL.
        collation: its collation in SQL, if it is not that of the base type.
        not_null: no value is NULL.
        not_null_name: the name of the constraint for that, not quoted (17 and newer).
        default: the default.
        constraints: the constraints, ordered by name.
    """

    schema: str
    base: str
    collation: str | None
    not_null: bool
    not_null_name: str | None
    default: Expression | None
    constraints: tuple[DomainConstraint, ...]

    kind = "domain"


@dataclass(frozen=True)
class RangeDefinition(Definition):
    """A range type.

    Attributes:
        schema: its schema.
        subtype, operator_class, collation, canonical, difference: its parameters, in SQL; None for the default.
        multirange: the multirange type's name, qualified.
    """

    schema: str
    subtype: str
    operator_class: str
    collation: str | None
    canonical: str | None
    difference: str | None
    multirange: str

    kind = "type"


@dataclass(frozen=True)
class PublishedTable:
    """A table of a publication.

    Attributes:
        oid: its OID; table: its name in SQL.
        columns: the published columns in SQL, None for all; numbers: their attnums, in order, none for all.
        filter: the row filter.
        is_excepted: it is the exception in a publication of all tables.
    """

    oid: int
    table: str
    columns: tuple[str, ...] | None
    filter: Expression | None
    is_excepted: bool
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class PublicationDefinition(Definition):
    """A publication.

    Attributes:
        all_tables, all_sequences: it is FOR ALL of them.
        publish: the kinds of changes that it publishes: ``insert``, ``update``, ``delete``, ``truncate``.
        via_root: ``publish_via_partition_root``.
        generated: ``publish_generated_columns``: ``none`` or ``stored``; None where there is no such parameter.
        tables: the tables that it names; schemas: the schemas that it names, in SQL.
    """

    all_tables: bool
    all_sequences: bool
    publish: tuple[str, ...]
    via_root: bool
    generated: str | None
    tables: tuple[PublishedTable, ...]
    schemas: tuple[str, ...]

    kind = "publication"


@dataclass(frozen=True)
class Comment:
    """A comment on an object.

    Attributes:
        key: the object that it is on: catalog, OID, column.
        target: the same in SQL, such as ``TABLE public.t``; None for an object that is not written in SQL.
        text: the comment.
        name: the object for people: as `target`, or such as ``FUNCTION public.f``, or its OID where it is not followed.
    """

    key: tuple[int, int, int]
    target: str | None
    text: str
    name: str


@dataclass(frozen=True)
class CommentsDefinition(Definition):
    """The comments on an object and its columns."""

    comments: tuple[Comment, ...]

    kind = "comment"


@dataclass(frozen=True)
class ExtensionDefinition(Definition):
    """An extension: its schema in SQL, and version."""

    schema: str
    version: str

    kind = "extension"


@dataclass(frozen=True)
class OtherDefinition(Definition):
    """An object that is not written in SQL.

    Attributes:
        what: ``view``, ``function``, ``trigger`` and so on.
        row: the columns of fixed length of its row.
    """

    what: str
    row: dict[str, Any] = field(hash=False)

    kind = "other"

    def structure(self) -> dict[str, Any]:
        """Return the object as a value of JSON."""
        return {"kind": self.what, "oid": self.oid, "name": self.name, "row": self.row}
