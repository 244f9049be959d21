"""The plan of a read of the ``headwater`` data source: a window opened, indexed and assembled in this process.

In: options and a filter. Out: the slices, and what their rows look like. Raises where the options name no table. Raises
also where a single table's name meant another one earlier, unless the user has said what to do then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.errors import CatalogError, HeadwaterError
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.open_request import OpenRequest, open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.scope import NO_COMMIT, Scope
from headwater.pipeline.requests.single_table import SingleTable
from headwater.pipeline.requests.slot_request import kept_in_slot
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.slices.row_batches import RowForm
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.pipeline.windows.windows import PlanWindows, Rolled, windows_in_threads
from headwater.plugins.rows.plugin import RowChanges, TableChoice, require_text
from headwater.plugins.rows.row_filter import EVERYTHING, RowFilter
from headwater.plugins.table_patterns import EVERY_TABLE, qualified_name
from headwater.reorder.plan import Plan, Slice
from headwater.reorder.slices.cutting import cut_slices
from headwater.rows.columns.table_columns import TypedTable
from headwater.slots.kept_state import KeptState
from headwater.slots.slot_directory import read_slot
from headwater.source.options import ERROR, SKIP, SourceOptions
from headwater.wal.segments.directory import WalDirectory

_NEVER = 2**63 - 1


@dataclass(frozen=True)
class SourcePlan:
    """The plan of a read: slices, and what decodes them; pickles.

    Attributes:
        decoder: decodes slices.
        slices: in output order.
        form: what rows look like.
    """

    decoder: SliceDecoder
    slices: tuple[Slice, ...]
    form: RowForm


def plan_source(options: SourceOptions, where: RowFilter = EVERYTHING) -> SourcePlan:
    """Do steps 1 to 3 in this process.

    Args:
        options: of the read.
        where: says which changes are wanted.

    Raises:
        HeadwaterError: any reason not to decode.
    """
    return _SourcePlanner(options, where).plan()


def open_source(
    options: SourceOptions,
    where: RowFilter = EVERYTHING,
    named: Callable[[], int | None] | None = None,
    kept_state: KeptState | None = None,
    directory: WalDirectory | None = None,
) -> OpenRequest:
    """Open what options ask for: a plugin's messages, or rows.

    Args:
        options: of the read.
        where: says which changes are wanted.
        named: gives the OID of a single table, see :class:`TableChoice`.
        kept_state: a state to go on from, None to begin at the catalog.
        directory: the WAL as it was just found; None to look.

    Raises:
        HeadwaterError: any reason not to decode.
    """
    request = options.request
    if request.plugin:
        return open_request(request, kept_state=kept_state, directory=directory)
    choice = TableChoice(request.tables, where, named, options.on_table_replaced != SKIP)

    def make_plugin(store: CatalogStore) -> RowChanges:
        return RowChanges(
            choice,
            options.publications,
            store.major,
            request.from_replica_level,
            store.encoding,
            wants_ddl=request.with_ddl and store.has_definitions,
        )

    return open_request(request, make_plugin, kept_state, directory).of_rows()


def rows_of_changes(request: DecodeRequest) -> RowForm:
    """Return the form of rows of any tables."""
    return RowForm(marks_rows=request.from_replica_level, has_ddl=request.with_ddl)


def kept_of(options: SourceOptions) -> KeptState | None:
    """Return the state where the slot of some options stands, None for none.

    Raises:
        SlotError: the slot cannot be read.
    """
    return None if options.slot is None else kept_in_slot(read_slot(Path(options.slot)))


def form_of_slot(options: SourceOptions) -> RowForm:
    """Return the form of rows of the single table that a slot's options name, by the WAL after its place.

    Raises:
        HeadwaterError: there is no such table, or any reason not to decode.
    """
    return _SourcePlanner(options, EVERYTHING).form_only()


class _SourcePlanner:
    """One call of :func:`plan_source`.

    Which relation a single name means shows at the end only. So it is taken for what it means after the first window;
    where that proves wrong, all is gone through once more.

    Attributes:
        table: the single table that rows are of, None for others.
        taken: OID of the relation that its name is taken for, None for none; is_taken: it is.
        firsts: LSN of the first change of each relation, by OID.
        changed: the last relation that had the name while it changed.
    """

    def __init__(self, options: SourceOptions, where: RowFilter) -> None:
        name = None if options.request.plugin else options.single_table
        self.options = options
        self.where = where
        self.table = None if name is None else SingleTable(name)
        self.taken: int | None = None
        self.is_taken = False
        self.firsts: dict[int, int] = {}
        self.changed: RelationSchema | None = None

    def plan(self) -> SourcePlan:
        """Plan all windows, once if a single name means one relation in all of them."""
        while (result := self._tried()) is None:
            self.taken = None if self.table is None else self.table.oid
        self._check()
        return SourcePlan(*result, self._form())

    def form_only(self) -> RowForm:
        """Return the form of rows, without slices."""
        table = self.table
        assert table is not None
        self._find(table)
        table.require()
        return self._form()

    def _tried(self) -> tuple[SliceDecoder, tuple[Slice, ...]] | None:
        """Go through all windows; None if the name proved to mean another relation, in a log that grows even twice."""
        try:
            result = self._go_through()
        except HeadwaterError:
            # It may be an error of a relation that the name does not mean.
            if self._is_found_mistaken():
                return None
            raise
        return result if self.table is None or self.table.oid == self.taken else None

    def _go_through(self) -> tuple[SliceDecoder, tuple[Slice, ...]]:
        """Go through all windows, one by one; only the slices are kept."""
        self.firsts, self.changed, slices = {}, None, []
        named = None if self.table is None else lambda: self.taken
        opened = open_source(self.options, self.where, named, kept_of(self.options))
        for window in self._windows(opened, self._scope(opened), self._rolled):
            plan = window.assembly.plan
            self._note(plan)
            slices += cut_slices(plan, self.options.partition_bytes)
        return SliceDecoder(opened.directory, opened.plugin, opened.session), tuple(slices)

    def _rolled(self, store: CatalogStore, start: int, end: int, is_last: bool) -> None:
        if self.table is not None and _counts(start, end, is_last):
            self.table.passed(store, start, end)
            self.taken, self.is_taken = self.taken if self.is_taken else self.table.oid, True

    def _is_found_mistaken(self) -> bool:
        """Tell whether the name means another relation than the one it was taken for, which takes going through all."""
        if self.table is None or not self.is_taken:
            return False
        self._find(self.table)
        return self.table.oid != self.taken

    def _find(self, table: SingleTable) -> None:
        """Show a single table the catalog after each window."""

        def rolled(store: CatalogStore, start: int, end: int, is_last: bool) -> None:
            if _counts(start, end, is_last):
                table.passed(store, start, end)

        opened = open_source(self.options, kept_state=kept_of(self.options))
        scope = Scope(opened.directory.segment_size, self.options.request.start or 0, commits=NO_COMMIT)
        for _ in self._windows(opened, scope, rolled):
            pass

    def _windows(self, opened: OpenRequest, scope: Scope, rolled: Rolled) -> PlanWindows:
        return windows_in_threads(opened, scope, WindowBounds(self.options.window_bytes), rolled=rolled)

    def _scope(self, opened: OpenRequest) -> Scope:
        request = self.options.request
        # A single name means a relation, also while it has another name: that is for RowChanges to choose.
        tables = EVERY_TABLE if self.table is not None else request.tables
        commits = (self.where.first_commit, self.where.last_commit)
        return Scope(opened.directory.segment_size, request.start or 0, tables, commits)

    def _note(self, plan: Plan) -> None:
        """Note the relations that a window has changes of."""
        if self.table is None:
            return
        self.firsts = first_changes(plan) | self.firsts
        for use in plan.relations:
            if not use.is_toast and qualified_name(use.schema) == self.table.name:
                self.changed = use.schema

    def _check(self) -> None:
        """Check that no other relation had a single table's name.

        Raises:
            CatalogError: one had.
        """
        if self.table is None:
            return
        self.table.require()
        schema = self._schema()
        oid = 0 if schema is None else schema.oid
        replaced = first_of_others(self.firsts, oid)
        if self.options.on_table_replaced == ERROR and replaced is not None:
            lsn, other = replaced
            raise CatalogError(
                f'"{self.table.name}" was the name of another table earlier in the window: of OID {other}, '
                f"whose first change is at {Lsn(lsn)}; the last one to bear it has OID {oid}",
                hint='set onTableReplaced to "skip" to leave the other\'s changes out, or to "byName" to show them in '
                "the columns of the same names",
            )

    def _schema(self) -> RelationSchema | None:
        """Return the single table; of one that a transaction made and dropped the catalog at the end knows nothing."""
        return None if self.table is None else self.table.schema or self.changed

    def _form(self) -> RowForm:
        """Return the form of rows.

        Raises:
            CatalogError: there is no such table, or its columns cannot be shown beside those of every row.
        """
        if self.table is None:
            return rows_of_changes(self.options.request)
        schema = self._schema()
        if schema is None:
            raise self.table.no_match()
        require_text(schema)
        typed = TypedTable(schema, self.options.on_unrepresentable, self.options.types)
        return RowForm(typed, self.options.request.from_replica_level)


def _counts(start: int, end: int, is_last: bool) -> bool:
    """Tell whether a name means what it does in a window that ends after where output begins, or is the last one."""
    return is_last or end > start


def first_changes(plan: Plan) -> dict[int, int]:
    """Return the LSN of the first wanted change, or truncate, of each relation that has one, by OID."""
    firsts = np.full(len(plan.relations), _NEVER)
    np.minimum.at(firsts, plan.rows.resolution[plan.rows.wanted], plan.rows.first[plan.rows.wanted])
    changes = [(use.schema.oid, lsn) for use, lsn in zip(plan.relations, firsts.tolist(), strict=True) if lsn != _NEVER]
    for lsn, messages in zip(plan.events.lsn[plan.events.made >= 0], plan.events.messages, strict=True):
        changes += [(json.loads(message)[3], int(lsn)) for message in messages]
    return {oid: min(lsn for other, lsn in changes if other == oid) for oid, _ in changes}


def first_of_others(firsts: Mapping[int, int], oid: int) -> tuple[int, int] | None:
    """Return the LSN and OID of the first change of a relation that is not this one; None if there is none."""
    return min(((lsn, other) for other, lsn in firsts.items() if other != oid), default=None)
