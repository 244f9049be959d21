"""Indexes and constraints (PostgreSQL: ``ruleutils.c``, pg_get_indexdef_worker, pg_get_constraintdef_worker)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.catalog.generic_row import NamedRow
from headwater.definitions.constants import literal
from headwater.definitions.expressions import result_collation, result_type
from headwater.definitions.objects import ConstraintDefinition, Core, Expression, IndexDefinition
from headwater.definitions.reading import DefinitionSource, bare_tree, column_options
from headwater.pg.identifiers import quote_identifier

_DESCENDING, _NULLS_FIRST = 1, 2
_COERCIBLE = {1043: 25, 650: 869}
"""The types that use another type's operator class: varchar uses text's, cidr inet's."""

_ARRAY, _ENUM, _RANGE, _MULTIRANGE, _RECORD = 2277, 3500, 3831, 4537, 2249

CONSTRAINT_TYPES = {"p": "primary key", "u": "unique", "c": "check", "f": "foreign key", "x": "exclusion"}
_ACTIONS = {"a": "", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}


def options_in_sql(options: Sequence[str], major: int) -> str:
    """Return storage parameters in SQL, from ``name=value`` (flatten_reloptions)."""
    return ", ".join(_option(option, major) for option in options)


def _option(option: str, major: int) -> str:
    name, _, value = option.partition("=")
    written = value if quote_identifier(value, major) == value and value else literal(value)
    return f"{'.'.join(quote_identifier(part, major) for part in name.split('.'))}={written}"


class IndexReader:
    """A reader of indexes and constraints as of a view."""

    def __init__(self, source: DefinitionSource) -> None:
        self._source = source
        self._naming = source.naming

    def index(self, row: NamedRow) -> IndexDefinition | None:
        """Read an index, from its row of ``pg_class``; None for the index of a constraint."""
        oid = row.oid("oid")
        index = self._source.row("pg_index", "indexrelid", oid)
        if index is None:
            raise self._source.inconsistent(f"pg_index has no row of index {oid}")
        table = index.oid("indrelid")
        if any(
            constraint.oid("conindid") == oid and constraint.letter("contype") in "pux"
            for constraint in self._of_table(table)
        ):
            return None
        attributes = self._attributes(oid)
        parent = self._parent(oid)
        targets = ((number, attribute.integer("attstattarget")) for number, attribute in attributes.items())
        statistics = tuple((n, t) for n, t in targets if t >= 0 and attributes[n].has("attstattarget"))
        definition = self._told(index, row)
        options, tablespace = row.texts("reloptions"), row.oid("reltablespace")
        return IndexDefinition(
            oid=oid,
            name=row.name("relname"),
            sql_name=self._naming.relation(oid),
            schema_oid=0,
            core=(definition.tree, parent, options, tablespace, statistics, index.flag("indisvalid")),
            schema=self._source.view.namespace_name(row.oid("relnamespace")),
            table=self._naming.relation(table),
            table_oid=table,
            definition=definition,
            parent=self._naming.relation(parent) if parent else None,
            parent_oid=parent,
            is_valid=index.flag("indisvalid"),
            tablespace=self._naming.tablespace(tablespace),
            options=options,
            statistics=statistics,
        )

    def _of_table(self, table: int) -> list[NamedRow]:
        return self._source.rows("pg_constraint", "conrelid", table)

    def _attributes(self, oid: int) -> dict[int, NamedRow]:
        return {row.integer("attnum"): row for row in self._source.rows("pg_attribute", "attrelid", oid)}

    def _parent(self, oid: int) -> int:
        """Return the OID of the partitioned table's index that an index belongs to, or 0."""
        row = self._source.row("pg_inherits", "inhrelid", oid)
        return 0 if row is None else row.oid("inhparent")

    def _told(self, index: NamedRow, row: NamedRow) -> Expression:
        """Return CREATE INDEX, compared without its names, options and tablespace."""
        core = _index_core(index, row, self._attributes(row.oid("oid")))

        def say() -> str:
            unique = "UNIQUE " if index.flag("indisunique") else ""
            only = "ONLY " if row.letter("relkind") == "I" else ""
            name, table = self._naming.quoted(row.name("relname")), self._naming.relation(index.oid("indrelid"))
            return f"CREATE {unique}INDEX {name} ON {only}{table} {self._body(index, row)}"

        return self._source.deparsed(repr(core), say)

    def _body(self, index: NamedRow, row: NamedRow, operators: Sequence[int] = ()) -> str:
        """Return the index from USING on, with the operators of an exclusion constraint."""
        keys, elements = index.integer("indnkeyatts"), list(self._elements(index, row, operators))
        text = f"USING {self._naming.access_method(row.oid('relam'))} ({', '.join(elements[:keys])})"
        if elements[keys:]:
            text += f" INCLUDE ({', '.join(elements[keys:])})"
        if index.flag("indnullsnotdistinct"):
            text += " NULLS NOT DISTINCT"
        if row.texts("reloptions"):
            text += f" WITH ({options_in_sql(row.texts('reloptions'), self._naming.major)})"
        tablespace = self._naming.tablespace(row.oid("reltablespace"))
        if tablespace is not None:
            text += f"{' USING INDEX' if operators else ''} TABLESPACE {tablespace}"
        predicate = index.text("indpred")
        if predicate is not None:
            condition = self._source.expression(predicate, index.oid("indrelid")).required()
            text += f" WHERE ({condition})" if operators else f" WHERE {condition}"
        return text

    def _elements(self, index: NamedRow, row: NamedRow, operators: Sequence[int]) -> Iterator[str]:
        """Give the columns and expressions in SQL, each with its collation, operator class, options and order."""
        table, numbers = index.oid("indrelid"), index.numbers("indkey")
        classes, collations, orders = index.oids("indclass"), index.oids("indcollation"), index.numbers("indoption")
        expressions = self._source.expressions(index, "indexprs", numbers)
        attributes, deparser = self._attributes(row.oid("oid")), self._source.deparser(table)
        keys = index.integer("indnkeyatts")
        known = {len(classes), len(collations), len(orders), *([len(operators)] if operators else [])}
        if known != {keys} or keys > len(numbers) or not set(range(1, keys + 1)) <= attributes.keys():
            raise self._source.inconsistent(f"index {row.oid('oid')} has not all it needs of {keys} columns")
        for at, number in enumerate(numbers):
            if number:
                sql, type, collation = self.column(table, number)
            else:
                node = next(expressions)
                sql, type, collation = deparser.element(node), result_type(node), result_collation(node)
            if at >= len(classes):
                yield sql
                continue
            options = column_options(attributes[at + 1])
            if collations[at] and collations[at] != collation:
                sql += f" COLLATE {self._naming.collation(collations[at])}"
            sql += self.operator_class(classes[at], 0 if options else type)
            if options:
                sql += f" ({options_in_sql(options, self._naming.major)})"
            sql += _order(orders[at])
            yield sql + (f" WITH {self._naming.operator(operators[at])}" if operators else "")

    def column(self, table: int, number: int) -> tuple[str, int, int]:
        """Return a column of a table in SQL, and the OIDs of its type and collation.

        Raises:
            CatalogError: the table has no such column.
        """
        row = self._attributes(table).get(number)
        if row is None:
            raise self._source.inconsistent(f"relation {table} has no column {number}, which a key names")
        return self._naming.quoted(row.name("attname")), row.oid("atttypid"), row.oid("attcollation")

    def operator_class(self, oid: int, type: int) -> str:
        """Return an operator class with a space before it; empty if it is certainly the default of the type."""
        row = self._naming.row("pg_opclass", oid)
        is_default = type and row.flag("opcdefault") and self._is_of(row, type)
        return "" if is_default else f" {self._naming.operator_class(oid)}"

    def _is_of(self, row: NamedRow, type: int) -> bool:
        """Tell whether a default operator class is the one that GetDefaultOpClass finds for a type."""
        input_type, method = row.oid("opcintype"), row.oid("opcmethod")
        info = self._naming.type_info(type)
        base = info.base or info
        if input_type == base.oid:
            return True
        classes = self._source.rows("pg_opclass", "opcintype", base.oid)
        if any(other.oid("opcmethod") == method and other.flag("opcdefault") for other in classes):
            return False
        of_kind = {"e": _ENUM, "r": _RANGE, "m": _MULTIRANGE, "c": _RECORD}.get(base.typtype)
        return input_type in (_COERCIBLE.get(base.oid), _ARRAY if base.element is not None else of_kind)

    # -- constraints

    def constraint(self, row: NamedRow) -> ConstraintDefinition | None:
        """Read a table's constraint; None for a domain's, a trigger's, NOT NULL, or one that is made for partitions."""
        table, type = row.oid("conrelid"), CONSTRAINT_TYPES.get(row.letter("contype"))
        if not table or type is None or self._is_made_for_partition(row):
            return None
        index = row.oid("conindid") if row.letter("contype") in "pux" else 0
        parent = self._parent(index) if index else 0
        definition = self._constraint_told(row)
        rest = row.oid("conparentid"), row.flag("conislocal"), row.integer("coninhcount"), row.flag("convalidated")
        return ConstraintDefinition(
            oid=row.oid("oid"),
            name=row.name("conname"),
            sql_name=f"{self._naming.relation(table)}.{self._naming.quoted(row.name('conname'))}",
            schema_oid=0,
            core=(definition.tree, parent, *rest),
            table=self._naming.relation(table),
            table_oid=table,
            type=type,
            definition=definition,
            is_local=row.flag("conislocal"),
            parents=row.integer("coninhcount"),
            parent_oid=row.oid("conparentid"),
            other_oid=row.oid("confrelid"),
            is_valid=row.flag("convalidated"),
            index_name=self._naming.relation(index) if index else None,
            index_oid=index,
            index_parent=self._naming.relation(parent) if parent else None,
            index_parent_oid=parent,
        )

    def _is_made_for_partition(self, row: NamedRow) -> bool:
        """Tell whether a server made a row for a partition that a foreign key refers to, beside the key's own row."""
        parent = row.oid("conparentid")
        if not parent or row.letter("contype") != "f":
            return False
        parent_row = self._source.row("pg_constraint", "oid", parent)
        return parent_row is not None and parent_row.oid("conrelid") == row.oid("conrelid")

    def _constraint_told(self, row: NamedRow) -> Expression:
        """Return the definition of a constraint as pg_get_constraintdef has it."""
        say = {"c": self._check, "f": self._foreign_key, "x": self._exclusion}.get(row.letter("contype"), self._key)
        core = _constraint_core(row)
        index = row.oid("conindid")
        if row.letter("contype") in "pux":
            index_row = self._source.row("pg_index", "indexrelid", index)
            relation = self._source.row("pg_class", "oid", index)
            if index_row is None or relation is None:
                raise self._source.inconsistent(f"constraint {row.oid('oid')} has no index")
            core = (*core, *_index_core(index_row, relation, self._attributes(index)))
        return self._source.deparsed(repr(core), lambda: say(row) + _enforcement(row))

    def check(self, row: NamedRow) -> str:
        """Return a CHECK constraint in SQL, also of a domain."""
        return self._check(row) + _enforcement(row)

    def _check(self, row: NamedRow) -> str:
        tree = row.text("conbin")
        if tree is None:
            raise self._source.inconsistent(f"constraint {row.oid('oid')} has no expression")
        condition = self._source.expression(tree, row.oid("conrelid")).required()
        return f"CHECK ({condition}){' NO INHERIT' if row.flag('connoinherit') else ''}"

    def _foreign_key(self, row: NamedRow) -> str:
        table, other, period = row.oid("conrelid"), row.oid("confrelid"), row.flag("conperiod")
        columns, other_columns = (
            self._columns(relation, row.numbers(key), period)
            for relation, key in ((table, "conkey"), (other, "confkey"))
        )
        sql = f"FOREIGN KEY ({columns}) REFERENCES {self._naming.relation(other)}({other_columns})"
        sql += " MATCH FULL" if row.letter("confmatchtype") == "f" else ""
        for word, column in (("UPDATE", "confupdtype"), ("DELETE", "confdeltype")):
            action = row.word(column, _ACTIONS)
            sql += f" ON {word} {action}" if action else ""
        chosen = row.numbers("confdelsetcols")
        return sql + (f" ({self._columns(table, chosen)})" if chosen else "")

    def _columns(self, table: int, numbers: Sequence[int], has_period: bool = False) -> str:
        names = [self._naming.column(table, number) for number in numbers]
        if has_period and names:
            names[-1] = f"PERIOD {names[-1]}"
        return ", ".join(names)

    def _key(self, row: NamedRow) -> str:
        """Return a primary key, or a unique constraint, in SQL."""
        table, index = row.oid("conrelid"), self._source.row("pg_index", "indexrelid", row.oid("conindid"))
        relation = self._source.row("pg_class", "oid", row.oid("conindid"))
        if index is None or relation is None:
            raise self._source.inconsistent(f"constraint {row.oid('oid')} has no index")
        keys = row.numbers("conkey")
        sql = "PRIMARY KEY " if row.letter("contype") == "p" else "UNIQUE "
        sql += "NULLS NOT DISTINCT " if index.flag("indnullsnotdistinct") else ""
        sql += f"({self._columns(table, keys)}{' WITHOUT OVERLAPS' if row.flag('conperiod') else ''})"
        if index.integer("indnatts") > len(keys):
            sql += f" INCLUDE ({self._columns(table, index.numbers('indkey')[len(keys) :])})"
        if relation.texts("reloptions"):
            sql += f" WITH ({options_in_sql(relation.texts('reloptions'), self._naming.major)})"
        tablespace = self._naming.tablespace(relation.oid("reltablespace"))
        return sql + (f" USING INDEX TABLESPACE {tablespace}" if tablespace is not None else "")

    def _exclusion(self, row: NamedRow) -> str:
        index = self._source.row("pg_index", "indexrelid", row.oid("conindid"))
        relation = self._source.row("pg_class", "oid", row.oid("conindid"))
        if index is None or relation is None:
            raise self._source.inconsistent(f"constraint {row.oid('oid')} has no index")
        return f"EXCLUDE {self._body(index, relation, row.oids('conexclop'))}"


def _order(bits: int) -> str:
    """Return the order of a column's values in SQL; empty for the default order."""
    if bits & _DESCENDING:
        return " DESC" if bits & _NULLS_FIRST else " DESC NULLS LAST"
    return " NULLS FIRST" if bits & _NULLS_FIRST else ""


def _enforcement(row: NamedRow) -> str:
    sql = " DEFERRABLE" if row.flag("condeferrable") else ""
    sql += " INITIALLY DEFERRED" if row.flag("condeferred") else ""
    if row.has("conenforced") and not row.flag("conenforced"):
        return sql + " NOT ENFORCED"
    return sql if row.flag("convalidated") else sql + " NOT VALID"


def _index_core(index: NamedRow, row: NamedRow, attributes: dict[int, NamedRow]) -> Core:
    """Return what makes an index what it is, apart from its name and those of its columns."""
    return (
        index.oid("indrelid"),
        *(index.flag(name) for name in ("indisunique", "indnullsnotdistinct")),
        index.integer("indnkeyatts"),
        *(index.numbers(name) for name in ("indkey", "indoption")),
        *(index.oids(name) for name in ("indclass", "indcollation")),
        *(bare_tree(index.text(name)) for name in ("indexprs", "indpred")),
        row.oid("relam"),
        row.letter("relkind"),
        tuple(column_options(attribute) for _, attribute in sorted(attributes.items())),
    )


def _constraint_core(row: NamedRow) -> Core:
    letters = "contype", "confupdtype", "confdeltype", "confmatchtype"
    flags = "condeferrable", "condeferred", "conenforced", "connoinherit", "conperiod"
    return (
        row.oid("conrelid"),
        row.oid("confrelid"),
        *map(row.letter, letters),
        *map(row.flag, flags),
        *(row.numbers(name) if row.has(name) else () for name in ("conkey", "confkey", "confdelsetcols")),
        row.oids("conexclop"),
        bare_tree(row.text("conbin")),
    )
