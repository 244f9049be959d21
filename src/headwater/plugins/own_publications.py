"""The user's own publications: which tables, columns and rows any plugin is given, beside what the server's say.

In: texts such as ``shop.orders(id, total) WHERE total > 100``, in the words of CREATE PUBLICATION ... FOR TABLE. Out:
what of a relation is wanted, as of a view of the catalog. A partition is chosen by its own name, or by that of a
partitioned table above it. PostgreSQL's grammar comes with pgparse; the condition becomes the node tree that a server
would make of it (:mod:`headwater.filters.analysis`), and is computed as a server's row filter is.

As in a server's publication, a condition must do with the columns that are listed. Where updates or deletes are
published, it must do with those of the replica identity (CheckCmdReplicaIdentity).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from headwater.catalog.relation import RelationSchema, RowFilters
from headwater.errors import PluginError, UsageError
from headwater.filters.analysis import analyzed
from headwater.filters.changes import compiled
from headwater.option_names import option
from headwater.pg.version import VERSIONS
from headwater.plugins.api import CatalogView
from headwater.plugins.publication import joined_filters
from headwater.reorder.wanted_changes import (
    WANT_ALL,
    WANT_BARE_DELETE,
    WANT_DELETE,
    WANT_INSERT,
    WANT_TRUNCATE,
    WANT_UPDATE,
    Description,
)

_EXAMPLE = "write it as 'shop.orders(id, total) WHERE (total > 100) WITH (publish = 'insert, update')'"
_ACTIONS = {
    "insert": WANT_INSERT,
    "update": WANT_UPDATE,
    "delete": WANT_DELETE,
    "truncate": WANT_TRUNCATE,
}


@dataclass(frozen=True)
class OwnPublication:
    """One table of the user's.

    Attributes:
        text: as it was given.
        schema, name: the table's; an empty schema stands for ``public``.
        columns: the names of those that are wanted; empty for all.
        actions: WANT bits of what is published.
        is_filtered: there is a condition.
    """

    text: str
    schema: str
    name: str
    columns: tuple[str, ...]
    actions: int
    is_filtered: bool

    @classmethod
    def parse(cls, text: str) -> OwnPublication:
        """Read a text.

        Raises:
            UsageError: it is none, or the library that has PostgreSQL's grammar is missing.
        """
        table, options = _parsed(text)
        relation = table["relation"]
        columns = tuple(column["String"]["sval"] for column in table.get("columns", ()))
        schema, actions = relation.get("schemaname", "public"), _actions(text, options)
        return cls(text, schema, relation["relname"], columns, actions, "whereClause" in table)


@dataclass(frozen=True)
class OwnPublications:
    """All publications of the user; none: everything is wanted.

    Attributes:
        tables: the publications, a table each.
        major: PostgreSQL's; encoding: the database's.
    """

    tables: tuple[OwnPublication, ...]
    major: int
    encoding: str

    def shown(self, schema: RelationSchema, catalog: CatalogView) -> RelationSchema:
        """Return the relation with the wanted columns; others are as if they had been dropped.

        Raises:
            PluginError: tables that are named twice differ in their columns, or one lacks a column.
        """
        lists = sorted({table.columns for table in self._of(schema, catalog)})
        if len(lists) > 1:
            raise PluginError(f'cannot use different column lists for table "{schema.namespace}.{schema.name}"')
        wanted = frozenset(lists[0] if lists else ())
        if not wanted:
            return schema
        missing = sorted(wanted - {column.name for column in schema.columns if not column.is_dropped})
        if missing:
            raise PluginError(f'column "{missing[0]}" of relation "{schema.name}" does not exist')
        columns = tuple(
            column if column.is_dropped or column.name in wanted else replace(column, type=None, is_dropped=True)
            for column in schema.columns
        )
        return replace(schema, columns=columns)

    def described(self, description: Description, schema: RelationSchema, catalog: CatalogView) -> Description:
        """Narrow what a plugin wants to what the user wants.

        Args:
            description: the plugin's.
            schema: the relation as :meth:`shown`; catalog: the view.

        Raises:
            PluginError: a condition is none, or does not go with what is published.
            RowFilterError: it cannot be computed here.
        """
        tables = list(self._of(schema, catalog))
        actions = WANT_BARE_DELETE if _is_whole(tables) else 0
        for table in tables:
            actions |= table.actions
        wants = description.wants & actions
        filters = self._filters(schema, tables, catalog)
        if filters is None or not wants:
            return description._replace(wants=wants)
        if description.filters is not None:
            raise PluginError(
                f'a publication of the server filters the rows of table "{schema.namespace}.{schema.name}", too',
                hint="name a publication without a row filter",
            )
        compiled(filters, VERSIONS[self.major], self.encoding).check()
        return description._replace(wants=wants, filters=filters)

    def _of(self, schema: RelationSchema, catalog: CatalogView) -> Iterator[OwnPublication]:
        """Find the publications that have a relation."""
        names = {(schema.namespace, schema.name)}
        for oid in schema.ancestors:
            ancestor = catalog.relation(oid)
            names |= {(ancestor.namespace, ancestor.name)} if ancestor is not None else set()
        return (table for table in self.tables if (table.schema, table.name) in names)

    def _filters(
        self, schema: RelationSchema, tables: Iterable[OwnPublication], catalog: CatalogView
    ) -> RowFilters | None:
        """Join the filters as pgoutput joins those of several publications."""
        trees = ((table.actions, self._tree(table, schema)) for table in tables)
        filters = joined_filters(trees, schema, catalog)
        if filters is not None:
            _require_identity(schema, filters, self.major, self.encoding)
        return filters

    def _tree(self, table: OwnPublication, schema: RelationSchema) -> str | None:
        return _tree(table.text, schema, self.major, self.encoding) if table.is_filtered else None


def _is_whole(tables: Iterable[OwnPublication]) -> bool:
    """Tell whether DELETEs are wanted also where their old row is not known."""
    return any(table.actions & WANT_DELETE and not table.is_filtered for table in tables)


def _require_identity(schema: RelationSchema, filters: RowFilters, major: int, encoding: str) -> None:
    """Check that what updates and deletes are judged by is in their old rows (CheckCmdReplicaIdentity)."""
    if schema.replica_identity == "f":
        return
    made = compiled(filters, VERSIONS[major], encoding)
    looked_at = frozenset[int]().union(
        *(program.columns for program in (made.update, made.delete) if program is not None)
    )
    beyond = sorted(looked_at - set(schema.identity_columns))
    if beyond:
        raise PluginError(
            f'column "{schema.columns[beyond[0] - 1].name}" used in the WHERE expression is not part of the replica '
            f'identity of table "{schema.namespace}.{schema.name}"',
            hint="old rows do not have it: add WITH (publish = 'insert'), or have REPLICA IDENTITY FULL",
        )


@lru_cache(maxsize=256)
def _tree(text: str, schema: RelationSchema, major: int, encoding: str) -> str:
    table, _ = _parsed(text)
    return analyzed(table["whereClause"], schema.columns, major, encoding)


@lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[Mapping[str, Any], tuple[Mapping[str, Any], ...]]:
    """Parse the table and the options of a text."""
    try:
        import pgparse  # users without own publications need not have it
    except ImportError:
        raise UsageError(f"{option('publish')} needs pgparse", hint="run: pip install 'headwater[publish]'") from None
    try:
        statements = pgparse.parse(f"CREATE PUBLICATION p FOR TABLE {text}")
    except pgparse.PGQueryError as error:
        parenthesized = _parenthesized(text)
        if parenthesized is None:
            raise UsageError(f'"{text}" is no table of a publication: {error}', hint=_EXAMPLE) from None
        return _parsed(parenthesized)
    made = [statement["stmt"].get("CreatePublicationStmt") for statement in statements]
    objects = made[0].get("pubobjects", []) if len(made) == 1 and made[0] else []
    tables = [item["PublicationObjSpec"].get("pubtable") for item in objects]
    if len(tables) != 1 or not tables[0]:
        raise UsageError(f'"{text}" is not one table', hint=f"name each by itself; {_EXAMPLE}")
    return tables[0], tuple(item["DefElem"] for item in made[0].get("options", ()))


def _parenthesized(text: str) -> str | None:
    """Put parentheses around a condition that has none; None if it has, or none can be found."""
    import pgparse

    for where in re.finditer(r"\bwhere\b", text, re.IGNORECASE):
        ends = [len(text), *(match.start() for match in re.finditer(r"\bwith\b", text, re.IGNORECASE))]
        for end in ends:
            made = f"{text[: where.end()]} ({text[where.end() : end]}) {text[end:]}"
            try:
                pgparse.parse(f"CREATE PUBLICATION p FOR TABLE {made}")
            except pgparse.PGQueryError:
                continue
            return made
    return None


def _actions(text: str, options: Iterable[Mapping[str, Any]]) -> int:
    """Read WANT bits of WITH (publish = ...)."""
    actions = WANT_ALL & ~WANT_BARE_DELETE
    for given in options:
        value = given.get("arg", {}).get("String", {}).get("sval", "")
        words = [word.strip().lower() for word in value.split(",") if word.strip()]
        if given["defname"] != "publish" or any(word not in _ACTIONS for word in words):
            raise UsageError(f'"{text}" has an option that is not known here', hint=_EXAMPLE)
        actions = sum(_ACTIONS[word] for word in set(words))
    return actions
