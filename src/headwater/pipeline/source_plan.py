"""What the ``headwater`` data source decodes: a window opened, indexed and assembled in this process.

In: options and a filter. Out: the assembly, and what its rows look like. Raises where the options name no table, or
where the name of a single table meant another one earlier, and the user has not said what is to be done with that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from headwater.catalog.relation import RelationSchema
from headwater.errors import CatalogError
from headwater.pg.lsn import Lsn
from headwater.pipeline.assemble import Assembly, assemble
from headwater.pipeline.index_job import index_in_threads, index_start, index_tasks
from headwater.pipeline.named_table import NamedTable, TableNames
from headwater.pipeline.reach import check_reach
from headwater.pipeline.request import OpenRequest, open_request
from headwater.pipeline.row_batches import RowForm
from headwater.pipeline.row_changes import RowChanges, TableChoice
from headwater.pipeline.row_filter import EVERYTHING, RowFilter
from headwater.pipeline.source_options import ERROR, SKIP, SourceOptions
from headwater.pipeline.window import Window
from headwater.plugins.table_patterns import EVERY_TABLE, qualified_name
from headwater.reorder.plan import Plan
from headwater.rmgr.index import UNREFINED, Refinement
from headwater.rows.typed import TypedTable


@dataclass(frozen=True)
class SourcePlan:
    """A window, opened and assembled.

    Attributes:
        options: of the read.
        opened: its files.
        assembly: what is to be decoded.
        names: gives the tables by name; asked only if the options name tables.
    """

    options: SourceOptions
    opened: OpenRequest
    assembly: Assembly
    names: Callable[[], TableNames]

    @cached_property
    def form(self) -> RowForm:
        """What rows look like.

        Raises:
            CatalogError: there is no such table, or its columns cannot be shown beside those of every row.
        """
        name = self.options.single_table
        if name is None:
            return RowForm()
        named = self.names().named(name)
        schema = None if named is None else self.opened.store.view(named.lsn).relation(named.oid)
        if schema is None:  # made and dropped by one transaction, if there is any
            schema = next((s for s in reversed(self._changed) if qualified_name(s) == name), None)
        if schema is None:
            raise self.names().no_match(name)
        return RowForm(TypedTable(schema, self.options.on_unrepresentable))

    @property
    def _changed(self) -> list[RelationSchema]:
        """Versions of relations that had changes, in the order in which they were first looked up."""
        return [use.schema for use in self.assembly.plan.relations if not use.is_toast]

    def check(self) -> None:
        """Whether the options name what there is.

        Raises:
            CatalogError: a pattern matches nothing, or another relation had a single table's name.
        """
        if self.form.table is None:
            self.names().require_match(self.options.request.tables, self.assembly.plan.relations)
        elif self.options.on_table_replaced == ERROR:
            self._refuse_replaced(self.form.table.schema.oid)

    def _refuse_replaced(self, oid: int) -> None:
        lsn, other = min(_changes_of_others(self.assembly.plan, oid), default=(0, oid))
        if other != oid:
            raise CatalogError(
                f'"{self.options.single_table}" was the name of another table earlier in the window: of OID {other}, '
                f"whose first change is at {Lsn(lsn)}; the last one to bear it has OID {oid}",
                hint='set onTableReplaced to "skip" to leave the other\'s changes out, or to "byName" to show them in '
                "the columns of the same names",
            )


def _changes_of_others(plan: Plan, oid: int) -> Iterator[tuple[int, int]]:
    """LSN of the first wanted changes, and of each truncate, of relations that are not this one; and their OIDs."""
    others = [number for number, use in enumerate(plan.relations) if use.schema.oid != oid]
    at = np.flatnonzero(np.isin(plan.rows.resolution, others) & plan.rows.wanted)
    if len(at):
        first = at[np.argmin(plan.rows.first[at])]
        yield int(plan.rows.first[first]), plan.relations[plan.rows.resolution[first]].schema.oid
    for lsn, messages in zip(plan.events.lsn[plan.events.made >= 0], plan.events.messages, strict=True):
        for message in messages:
            truncated = json.loads(message)[-1]
            if truncated != oid:
                yield int(lsn), truncated


def plan_source(options: SourceOptions, where: RowFilter = EVERYTHING) -> SourcePlan:
    """Steps 1 to 3 in this process.

    Args:
        options: of the read.
        where: which changes are wanted.

    Raises:
        HeadwaterError: any reason not to decode.
    """
    refinement = UNREFINED
    threads = os.cpu_count() or 1
    while True:
        opened, names = _open(options, where, refinement)
        store = opened.store
        start = index_start(opened.directory, store)
        tasks = index_tasks(opened.directory, start, options.request.end, opened.index_request(), threads)
        index = index_in_threads(tasks, threads)
        check_reach(opened, index)
        assembly = assemble(index, store, opened.plugin, _window(opened, where))
        if isinstance(assembly, Assembly):
            planned = SourcePlan(options, opened, assembly, names)
            if not options.request.plugin:
                planned.check()
            return planned
        refinement |= assembly


def _window(opened: OpenRequest, where: RowFilter) -> Window:
    request = opened.request
    # What rows are of is for RowChanges to choose: a single name means a relation, also while it has another name.
    tables = request.tables if request.plugin else EVERY_TABLE
    commits = (where.first_commit, where.last_commit)
    return Window(opened.directory.segment_size, request.start or 0, request.end, tables, commits)


def _open(
    options: SourceOptions, where: RowFilter, refinement: Refinement
) -> tuple[OpenRequest, Callable[[], TableNames]]:
    """Open the files; also what finds tables by name, once the catalog was rolled forward."""

    @cache
    def names() -> TableNames:
        return TableNames(opened.store, _window(opened, where))

    @cache
    def named() -> NamedTable | None:
        try:
            return names().named(str(options.single_table))
        except CatalogError:
            return None  # raised again where it is not taken for an error of one change

    if options.request.plugin:
        opened = open_request(options.request, refinement)
        return opened, names
    choice = TableChoice(
        options.request.tables, where, named if options.single_table else None, options.on_table_replaced != SKIP
    )
    opened = open_request(
        options.request, refinement, lambda store: RowChanges(choice, options.publications, store.major)
    )
    if opened.session.encoding not in ("UTF8", "SQL_ASCII"):
        raise CatalogError(
            f'database "{opened.store.database_name}" is in {opened.session.encoding}, rows need UTF8',
            hint="read a plugin's messages instead, with the option plugin",
        )
    return opened, names
