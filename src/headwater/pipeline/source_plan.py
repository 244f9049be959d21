"""What the ``headwater`` data source decodes: a window opened, indexed and assembled in this process.

In: options and a filter. Out: the slices, and what their rows look like. Raises where the options name no table, or
where the name of a single table meant another one earlier, and the user has not said what is to be done with that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

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
from headwater.pipeline.slot_request import kept_in_slot
from headwater.pipeline.source_options import ERROR, SKIP, SourceOptions
from headwater.pipeline.window import NO_COMMIT, Scope
from headwater.pipeline.windows import PlanWindows, Rolled
from headwater.plugins.table_patterns import EVERY_TABLE, qualified_name
from headwater.reorder.cutting import cut_slices
from headwater.reorder.plan import Plan, Slice
from headwater.rows.typed import TypedTable
from headwater.slots.kept_state import KeptState
from headwater.slots.slot_directory import read_slot
from headwater.wal.directory import WalDirectory


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


def open_source(
    options: SourceOptions,
    where: RowFilter = EVERYTHING,
    named: Callable[[], int | None] | None = None,
    kept: KeptState | None = None,
    directory: WalDirectory | None = None,
) -> OpenRequest:
    """Open what options ask for: a plugin's messages, or rows.

    Args:
        options: of the read.
        where: which changes are wanted.
        named: tells the OID of a single table, see :class:`TableChoice`.
        kept: a state to go on from, None to begin at the catalog.
        directory: the WAL as it was just found; None to look.

    Raises:
        HeadwaterError: any reason not to decode.
    """
    request = options.request
    if request.plugin:
        return open_request(request, kept=kept, directory=directory)
    choice = TableChoice(request.tables, where, named, options.on_table_replaced != SKIP)

    def make_plugin(store: CatalogStore) -> RowChanges:
        return RowChanges(choice, options.publications, store.major)

    opened = open_request(request, make_plugin, kept, directory)
    if opened.session.encoding not in ("UTF8", "SQL_ASCII"):
        raise CatalogError(
            f'database "{opened.store.database_name}" is in {opened.session.encoding}, rows need UTF8',
            hint="read a plugin's messages instead, with the option plugin",
        )
    return opened


def kept_of(options: SourceOptions) -> KeptState | None:
    """The state where the slot of some options stands, None for none.

    Raises:
        SlotError: the slot cannot be read.
    """
    return None if options.slot is None else kept_in_slot(read_slot(Path(options.slot)))


def form_of_slot(options: SourceOptions) -> RowForm:
    """What rows of the single table look like that a slot's options name, by the WAL behind its place.

    Raises:
        HeadwaterError: there is no such table, or any reason not to decode.
    """
    return _SourcePlanner(options, EVERYTHING).form_only()


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

    def form_only(self) -> RowForm:
        """Without slices."""
        table = self.table
        assert table is not None
        self._pass_through(table)
        table.require()
        return self._form()

    def _pass_through(self, table: SingleTable) -> None:
        """Show a single table the catalog behind each window."""
        opened = self._open()
        scope = Scope(opened.directory.segment_size, self.options.request.start or 0, commits=NO_COMMIT)
        for _ in self._windows(opened, scope, lambda store, start, end, _: table.passed(store, start, end)):
            pass

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
        self._pass_through(table)

    def _named(self) -> int | None:
        return None if self.table is None else self.table.oid

    def _open(self) -> OpenRequest:
        named = None if self.table is None else self._named
        return open_source(self.options, self.where, named, kept_of(self.options))

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
        lsn, other = min(changes_of_others(plan, oid), default=(0, oid))
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


def changes_of_others(plan: Plan, oid: int) -> Iterator[tuple[int, int]]:
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
