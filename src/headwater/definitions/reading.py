"""The source that all readers of definitions use: rows, names and expressions as of one view.

A definition is read by the keys of its rows, never by a scan of a catalog.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from headwater.catalog.generic_row import NamedRow
from headwater.catalog.node_tree import Node
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.catalog.versions import Key
from headwater.definitions.expressions import Deparser, parse_one, parse_several
from headwater.definitions.naming import Naming
from headwater.definitions.objects import Expression
from headwater.errors import CatalogError, UnsupportedDefinitionError
from headwater.pg.catalogs import PG_CLASS, PG_PROC

_SERVERS_OWN = "pg_attver="
"""An option of columns that only servers set, from November 2026 on: the version of a row type.

Values of the type are compared with it. Users cannot set it, and pg_dump omits it.
"""

_PLACES = re.compile(r" :(?:stmt_)?(?:location|len) -?\d+")


class DefinitionSource:
    """A source that definitions are read from.

    Args:
        view: the catalog, with definitions.

    Attributes:
        view: the same; naming: names as of the view.
    """

    def __init__(self, view: HistoricCatalog) -> None:
        self.view = view
        self.naming = Naming(view)

    def rows(self, catalog: str, index: str, key: Key) -> list[NamedRow]:
        """Return the rows under a key."""
        return self.view.named_rows(catalog, index, key)

    def row(self, catalog: str, index: str, key: Key) -> NamedRow | None:
        """Return the row under a key; None if there is none."""
        rows = self.rows(catalog, index, key)
        return rows[0] if rows else None

    def expression(
        self, tree: str, relation: int = 0, say: Callable[[Deparser, Node], str] | None = None
    ) -> Expression:
        """Return an expression with its SQL.

        Args:
            tree: a ``pg_node_tree``.
            relation: OID of the relation whose columns it names.
            say: the function that makes the SQL of its node.
        """
        say = say or Deparser.sql
        return self.deparsed(bare_tree(tree), lambda: say(self.deparser(relation), parse_one(tree)))

    def expressions(self, row: NamedRow, name: str, numbers: Sequence[int]) -> Iterator[Node]:
        """Give the expressions of a key, one for each zero among the numbers of its columns.

        Raises:
            CatalogError: there are fewer or more expressions.
        """
        nodes, expected = parse_several(row.text(name)), list(numbers).count(0)
        if len(nodes) != expected:
            raise self.inconsistent(
                f"{name} of a row of {row.catalog} has {len(nodes)} expressions, expected {expected}"
            )
        return iter(nodes)

    def deparser(self, relation: int = 0) -> Deparser:
        """Return a deparser, which makes SQL of nodes."""
        return Deparser(self.naming, relation)

    def deparsed(self, tree: str, say: Callable[[], str]) -> Expression:
        """Return an expression; the function that makes its SQL may raise UnsupportedDefinitionError."""
        try:
            return Expression(tree, say())
        except UnsupportedDefinitionError as error:
            return Expression(tree, None, error.message)

    def collation(self, oid: int, type: int) -> str | None:
        """Return a collation in SQL; None if it is that of the type."""
        if not oid or oid == self.naming.row("pg_type", type).oid("typcollation"):
            return None
        return self.naming.collation(oid)

    def is_temporary(self, namespace: int) -> bool:
        """Tell whether a schema is that of a session's temporary objects."""
        return self.view.namespace_name(namespace).startswith(("pg_temp_", "pg_toast_temp_"))

    def is_part(self, catalog: int, oid: int) -> bool:
        """Tell whether an object came with an extension, or is a function of a type, and is dropped with that."""
        kinds = "ei" if catalog == PG_PROC else "e"
        dependencies = self.rows("pg_depend", "objid", oid)
        return any(row.oid("classid") == catalog and row.letter("deptype") in kinds for row in dependencies)

    def owned_by(self, oid: int) -> tuple[int, int, str] | None:
        """Return the table, column and kind of dependency of a sequence that belongs to a column, else None."""
        for row in self.rows("pg_depend", "objid", oid):
            kind = row.letter("deptype")
            is_of_column = row.oid("refclassid") == PG_CLASS and row.integer("refobjsubid") > 0
            if row.oid("classid") == PG_CLASS and is_of_column and kind in "ai":
                return row.oid("refobjid"), row.integer("refobjsubid"), kind
        return None

    def inconsistent(self, message: str) -> CatalogError:
        """Return the error of rows that do not fit each other."""
        return CatalogError(message, lsn=self.view.lsn)


def bare_tree(tree: str | None) -> str:
    """Strip the places of the nodes in their statement from a node tree."""
    return _PLACES.sub("", tree or "")


def column_options(row: NamedRow) -> tuple[str, ...]:
    """Return the options of a column from its row of ``pg_attribute``, without those that only servers set."""
    return tuple(option for option in row.texts("attoptions") if not option.startswith(_SERVERS_OWN))
