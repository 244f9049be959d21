"""Tables, their columns, and sequences (PostgreSQL: ``pg_dump.c``, ruleutils.c: pg_get_partkeydef_worker)."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.catalog.generic_row import NamedRow
from headwater.catalog.node_tree import Node
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.definitions.constants import Label, constant
from headwater.definitions.expressions import Deparser, result_collation, result_type
from headwater.definitions.indexes import IndexReader
from headwater.definitions.naming import Naming
from headwater.definitions.objects import ColumnDefinition, Expression, NotNull, SequenceDefinition, TableDefinition
from headwater.definitions.reading import DefinitionSource, bare_tree, column_options
from headwater.pg.catalogs import PG_CLASS

_IDENTITIES = {"a": "always", "d": "by default"}
_GENERATED = {"s": "stored", "v": "virtual"}
_STORAGE = {"p": "plain", "e": "external", "x": "extended", "m": "main"}
_COMPRESSION = {"p": "pglz", "l": "lz4"}
_REPLICA_IDENTITIES = {"d": "default", "n": "nothing", "f": "full", "i": "index"}
_STRATEGIES = {"h": "HASH", "l": "LIST", "r": "RANGE"}


class TableReader:
    """A reader of tables and sequences as of a view."""

    def __init__(self, source: DefinitionSource, indexes: IndexReader) -> None:
        self._source = source
        self._naming = source.naming
        self._indexes = indexes

    def table(self, row: NamedRow) -> TableDefinition:
        """Read a table, from its row of ``pg_class``."""
        oid, kind, persistence = row.oid("oid"), row.letter("relkind"), row.letter("relpersistence")
        parents = tuple(parent.oid("inhparent") for parent in self._parents(oid))
        # While a partition is detached, pg_inherits has this before the partition's row (DETACH ... CONCURRENTLY).
        is_partition = row.flag("relispartition") and bool(parents)
        columns, bound = self.columns(oid), row.text("relpartbound") if is_partition else None
        if is_partition and bound is None:
            raise self._source.inconsistent(f"partition {oid} has no bound")
        identity, clustered = self._marked_index(oid, "indisreplident"), self._marked_index(oid, "indisclustered")
        key = self._partition_key(oid) if kind == "p" else None
        method = row.oid("relam")
        options = (*row.texts("reloptions"), *self._toast_options(row.oid("reltoastrelid")))
        bound_expression = None if bound is None else self._source.expression(bound, oid, _bound)
        flags = row.flag("relrowsecurity"), row.flag("relforcerowsecurity")
        return TableDefinition(
            oid=oid,
            name=row.name("relname"),
            sql_name=self._naming.relation(oid),
            schema_oid=row.oid("relnamespace"),
            core=(
                *(persistence, row.oid("reloftype"), parents, is_partition, bound_expression, key, options),
                *(row.oid("reltablespace"), method, row.letter("relreplident"), identity, clustered, flags),
                tuple(map(column_core, columns)),
            ),
            schema=self._source.view.namespace_name(row.oid("relnamespace")),
            is_unlogged=persistence == "u",
            columns=columns,
            of_type=self._naming.type(row.oid("reloftype")) if row.oid("reloftype") else None,
            of_type_oid=row.oid("reloftype"),
            parents=tuple(map(self._naming.relation, parents)),
            parent_oids=parents,
            is_partition=is_partition,
            bound=bound_expression,
            partition_key=key,
            options=options,
            tablespace=self._naming.tablespace(row.oid("reltablespace")),
            access_method=self._naming.access_method(method) if method else None,
            replica_identity=row.word("relreplident", _REPLICA_IDENTITIES),
            identity_index=self._relation_name(identity) if row.letter("relreplident") == "i" else None,
            cluster_index=self._relation_name(clustered),
            row_security=flags[0],
            force_row_security=flags[1],
        )

    def _parents(self, oid: int) -> list[NamedRow]:
        rows = [row for row in self._source.rows("pg_inherits", "inhrelid", oid) if not row.flag("inhdetachpending")]
        return sorted(rows, key=lambda row: row.integer("inhseqno"))

    def _toast_options(self, oid: int) -> tuple[str, ...]:
        row = self._source.row("pg_class", "oid", oid) if oid else None
        return () if row is None else tuple(f"toast.{option}" for option in row.texts("reloptions"))

    def _marked_index(self, table: int, flag: str) -> int:
        rows = self._source.rows("pg_index", "indrelid", table)
        return next((row.oid("indexrelid") for row in rows if row.flag(flag)), 0)

    def _relation_name(self, oid: int) -> str | None:
        row = self._source.row("pg_class", "oid", oid) if oid else None
        return None if row is None else row.name("relname")

    def _partition_key(self, oid: int) -> Expression:
        row = self._source.row("pg_partitioned_table", "partrelid", oid)
        if row is None:
            raise self._source.inconsistent(f"pg_partitioned_table has no row of relation {oid}")
        keys = row.numbers("partattrs"), row.oids("partclass"), row.oids("partcollation")
        tree = repr((row.letter("partstrat"), *keys, bare_tree(row.text("partexprs"))))
        return self._source.deparsed(tree, lambda: self._key_told(oid, row))

    def _key_told(self, oid: int, row: NamedRow) -> str:
        return f"{row.word('partstrat', _STRATEGIES)} ({', '.join(self._key_elements(oid, row))})"

    def _key_elements(self, oid: int, row: NamedRow) -> Iterator[str]:
        deparser, numbers = self._source.deparser(oid), row.numbers("partattrs")
        expressions = self._source.expressions(row, "partexprs", numbers)
        keys = row.oids("partclass"), row.oids("partcollation")
        if {len(numbers)} != set(map(len, keys)):
            raise self._source.inconsistent(f"the partition key of relation {oid} has columns without operator classes")
        for number, operator_class, collation in zip(numbers, *keys, strict=True):
            if number:
                sql, type, own_collation = self._indexes.column(oid, number)
            else:
                node = next(expressions)
                sql, type, own_collation = deparser.element(node), result_type(node), result_collation(node)
            if collation and collation != own_collation:
                sql += f" COLLATE {self._naming.collation(collation)}"
            yield sql + self._indexes.operator_class(operator_class, type)

    # -- columns

    def columns(self, relation: int) -> tuple[ColumnDefinition, ...]:
        """Read the columns of a table, or the attributes of a composite type, that are not dropped."""
        rows = self._source.rows("pg_attribute", "attrelid", relation)
        live = [row for row in rows if row.integer("attnum") > 0 and not row.flag("attisdropped")]
        defaults = {row.integer("adnum"): row for row in self._source.rows("pg_attrdef", "adrelid", relation)}
        named = self._not_nulls(relation)
        ordered = sorted(live, key=lambda row: row.integer("attnum"))
        return tuple(self._column(relation, row, defaults, named) for row in ordered)

    def _not_nulls(self, relation: int) -> dict[int, NotNull]:
        constraints = dict[int, NotNull]()
        for row in self._source.rows("pg_constraint", "conrelid", relation):
            if row.letter("contype") == "n":
                flags = row.flag("conislocal"), not row.flag("connoinherit"), row.flag("convalidated")
                constraints |= dict.fromkeys(row.numbers("conkey"), NotNull(row.name("conname"), *flags))
        return constraints

    def _column(
        self, relation: int, row: NamedRow, defaults: dict[int, NamedRow], named: dict[int, NotNull]
    ) -> ColumnDefinition:
        number, type, identity = row.integer("attnum"), row.oid("atttypid"), row.letter("attidentity")
        collation, typmod = row.oid("attcollation"), row.integer("atttypmod")
        default = defaults[number].text("adbin") if number in defaults else None
        type_storage = self._naming.row("pg_type", type).word("typstorage", _STORAGE)
        return ColumnDefinition(
            number=number,
            name=row.name("attname"),
            type=self._naming.type(type, typmod),
            collation=self._source.collation(collation, type),
            not_null=row.flag("attnotnull"),
            constraint=named.get(number),
            default=None if default is None else self._source.expression(default, relation),
            generated=_GENERATED.get(row.letter("attgenerated"), ""),
            identity=_IDENTITIES.get(identity, ""),
            sequence=self._identity_sequence(relation, number) if identity else None,
            storage=row.word("attstorage", _STORAGE),
            type_storage=type_storage,
            compression=_COMPRESSION.get(row.letter("attcompression"), ""),
            statistics=row.integer("attstattarget") if row.has("attstattarget") else -1,
            options=column_options(row),
            is_local=row.flag("attislocal"),
            parents=row.integer("attinhcount"),
            core=(type, typmod, collation),
        )

    def _identity_sequence(self, table: int, number: int) -> SequenceDefinition | None:
        for row in self._source.rows("pg_depend", "refobjid", table):
            is_internal = row.letter("deptype") == "i" and row.integer("refobjsubid") == number
            if is_internal and row.oid("classid") == row.oid("refclassid") == PG_CLASS:
                relation = self._source.row("pg_class", "oid", row.oid("objid"))
                if relation is not None and relation.letter("relkind") == "S":
                    return self.sequence(relation)
        return None

    def sequence(self, row: NamedRow) -> SequenceDefinition:
        """Read a sequence, from its row of ``pg_class``."""
        oid = row.oid("oid")
        sequence, owner = self._source.row("pg_sequence", "seqrelid", oid), self._source.owned_by(oid)
        if sequence is None:
            raise self._source.inconsistent(f"pg_sequence has no row of sequence {oid}")
        numbers = tuple(map(sequence.integer, ("seqstart", "seqincrement", "seqmin", "seqmax", "seqcache")))
        start, increment, minimum, maximum, cache = numbers
        persistence = row.letter("relpersistence")
        return SequenceDefinition(
            oid=oid,
            name=row.name("relname"),
            sql_name=self._naming.relation(oid),
            schema_oid=row.oid("relnamespace"),
            core=(persistence, sequence.oid("seqtypid"), numbers, sequence.flag("seqcycle"), owner),
            schema=self._source.view.namespace_name(row.oid("relnamespace")),
            is_unlogged=persistence == "u",
            type=self._naming.type(sequence.oid("seqtypid")),
            start=start,
            increment=increment,
            minimum=minimum,
            maximum=maximum,
            cache=cache,
            cycles=sequence.flag("seqcycle"),
            owner=None if owner is None else _owner(self._naming, *owner[:2]),
            table_oid=0 if owner is None else owner[0],
            is_identity=owner is not None and owner[2] == "i",
        )


def column_defaults(view: HistoricCatalog, table: int) -> dict[int, str]:
    """Return the defaults of a table's columns in SQL, by the columns' numbers, as far as they can be written.

    Args:
        view: the catalog, with definitions.
        table: OID of the table.
    """
    source = DefinitionSource(view)
    trees = {row.integer("adnum"): row.text("adbin") for row in source.rows("pg_attrdef", "adrelid", table)}
    defaults = {number: source.expression(tree, table).sql for number, tree in trees.items() if tree is not None}
    return {number: sql for number, sql in defaults.items() if sql is not None}


def _owner(naming: Naming, table: int, column: int) -> str:
    return f"{naming.relation(table)}.{naming.column(table, column)}"


def column_core(column: ColumnDefinition) -> tuple[object, ...]:
    """Return what makes a column what it is, with its name: another name is a change of the table."""
    sequence = None if column.sequence is None else (column.sequence.oid, column.sequence.core)
    return (
        *(column.number, column.name, column.core, column.not_null, column.constraint, column.default),
        *(column.generated, column.identity, sequence, column.storage, column.compression, column.statistics),
        *(column.options, column.is_local, column.parents),
    )


def _bound(deparser: Deparser, node: Node) -> str:
    """Return a PARTITIONBOUNDSPEC in SQL (get_rule_expr, get_range_partbound_string)."""
    if node.boolean("is_default"):
        return "DEFAULT"
    strategy = node.word("strategy")
    if strategy == "h":
        return f"FOR VALUES WITH (modulus {node.integer('modulus')}, remainder {node.integer('remainder')})"
    if strategy == "l":
        values = (constant(datum, deparser.naming, Label.NEVER) for datum in node.nodes("listdatums"))
        return f"FOR VALUES IN ({', '.join(values)})"
    lower, upper = (
        ", ".join(_limit(datum, deparser) for datum in node.nodes(field)) for field in ("lowerdatums", "upperdatums")
    )
    return f"FOR VALUES FROM ({lower}) TO ({upper})"


def _limit(node: Node, deparser: Deparser) -> str:
    kind = node.integer("kind")
    if kind:
        return "MINVALUE" if kind < 0 else "MAXVALUE"
    return constant(node.node("value"), deparser.naming, Label.NEVER)
