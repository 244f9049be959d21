"""What the ``headwater`` data source decodes: a window opened, indexed and assembled in this process.

In: options and a filter. Out: the slices, and what their rows look like. Raises where the options name no table, or
where the name of a single table meant another one earlier, and the user has not said what is to be done with that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store import CatalogStore
from headwater.errors import CatalogError
from headwater.pg.lsn import Lsn
from headwater.pipeline.decode_job import SliceDecoder
from headwater.pipeline.index_job import index_in_threads
from headwater.pipeline.request import OpenRequest, open_request
from headwater.pipeline.row_batches import RowForm
from headwater.pipeline.row_changes import RowChanges, TableChoice
from headwater.pipeline.row_filter import EVERYTHING, RowFilter
from headwater.pipeline.single_table import SingleTable
from headwater.pipeline.source_options import ERROR, SKIP, SourceOptions
from headwater.pipeline.window import NO_COMMIT, Scope
from headwater.pipeline.windows import PlanWindows, Rolled
from headwater.plugins.table_patterns import EVERY_TABLE, qualified_name
from headwater.reorder.cutting import cut_slices
from headwater.reorder.plan import Plan, Slice
from headwater.rows.typed import TypedTable


@dataclass(frozen=True)
class SourcePlan:
    """What a read is made of; pickles.

    Attributes:
        decoder: decodes slices.
        slices: in output order.
        form: what rows look like.
    """

    decoder: SliceDecoder
    slices: tuple[Slice, ...]
    form: RowForm


def plan_source(options: SourceOptions, where: RowFilter = EVERYTHING) -> SourcePlan:
    """Steps 1 to 3 in this process.

    Args:
        options: of the read.
        where: which changes are wanted.

    Raises:
        HeadwaterError: any reason not to decode.
    """
    return _SourcePlanner(options, where).plan()


class _SourcePlanner:
    """One call of :func:`plan_source`."""

    def __init__(self, options: SourceOptions, where: RowFilter) -> None:
        self.options = options
        self.where = where
        self.table = None if options.single_table is None else SingleTable(options.single_table)
        self.is_found = False
        self.changed: RelationSchema | None = None

    def plan(self) -> SourcePlan:
        """Window by window; only the slices are kept."""
        opened, slices = self._open(), []
        for window in self._windows(opened, self._scope(opened), self._rolled):
            plan = window.assembly.plan
            self._check(plan)
            slices += cut_slices(plan, self.options.partition_bytes)
        decoder = SliceDecoder(opened.directory, opened.plugin, opened.session)
        return SourcePlan(decoder, tuple(slices), self._form())

    def _windows(self, opened: OpenRequest, scope: Scope, rolled: Rolled) -> PlanWindows:
        threads = os.cpu_count() or 1
        return PlanWindows(opened, scope, lambda tasks: index_in_threads(tasks, threads), threads, rolled=rolled)

    def _scope(self, opened: OpenRequest) -> Scope:
        request = self.options.request
        # A single name means a relation, also while it has another name: that is for RowChanges to choose.
        tables = EVERY_TABLE if self.table is not None else request.tables
        commits = (self.where.first_commit, self.where.last_commit)
        return Scope(opened.directory.segment_size, request.start or 0, tables, commits)

    def _rolled(self, store: CatalogStore, start: int, end: int, is_last: bool) -> None:
        """Find out what a single name means; if more windows follow, by going through all of them first."""
        table = self.table
        if table is None or self.is_found or self.options.request.plugin:
            return
        self.is_found = True
        if is_last:
            table.passed(store, start, end)
            return
        opened = self._open()
        scope = Scope(opened.directory.segment_size, self.options.request.start or 0, commits=NO_COMMIT)
        for _ in self._windows(opened, scope, lambda store, start, end, _: table.passed(store, start, end)):
            pass

    def _named(self) -> int | None:
        return None if self.table is None else self.table.oid

    def _open(self) -> OpenRequest:
        options = self.options
        if options.request.plugin:
            return open_request(options.request)
        named = None if self.table is None else self._named
        choice = TableChoice(options.request.tables, self.where, named, options.on_table_replaced != SKIP)
        opened = open_request(options.request, lambda store: RowChanges(choice, options.publications, store.major))
        if opened.session.encoding not in ("UTF8", "SQL_ASCII"):
            raise CatalogError(
                f'database "{opened.store.database_name}" is in {opened.session.encoding}, rows need UTF8',
                hint="read a plugin's messages instead, with the option plugin",
            )
        return opened

    def _check(self, plan: Plan) -> None:
        """Whether another relation had a single table's name.

        Raises:
            CatalogError: one had.
        """
        if self.table is None or self.options.request.plugin:
            return
        self.table.require()
        changed = [
            use.schema for use in plan.relations if not use.is_toast and qualified_name(use.schema) == self.table.name
        ]
        self.changed = changed[-1] if changed else self.changed
        oid = self._oid()
        lsn, other = min(_changes_of_others(plan, oid), default=(0, oid))
        if self.options.on_table_replaced == ERROR and other != oid:
            raise CatalogError(
                f'"{self.table.name}" was the name of another table earlier in the window: of OID {other}, '
                f"whose first change is at {Lsn(lsn)}; the last one to bear it has OID {oid}",
                hint='set onTableReplaced to "skip" to leave the other\'s changes out, or to "byName" to show them in '
                "the columns of the same names",
            )

    def _oid(self) -> int:
        schema = self._schema()
        return 0 if schema is None else schema.oid

    def _schema(self) -> RelationSchema | None:
        """The single table; of one that a transaction made and dropped the catalog at the end knows nothing."""
        return None if self.table is None else self.table.schema or self.changed

    def _form(self) -> RowForm:
        """What rows look like.

        Raises:
            CatalogError: there is no such table, or its columns cannot be shown beside those of every row.
        """
        if self.table is None or self.options.request.plugin:
            return RowForm()
        schema = self._schema()
        if schema is None:
            raise self.table.no_match()
        return RowForm(TypedTable(schema, self.options.on_unrepresentable))


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
