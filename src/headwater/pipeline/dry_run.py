"""The messages that publications would send of a window, and the reasons for what they leave out.

Changes are decoded and counted, not delivered.

In: a request, and names of publications. Out: a :class:`PublicationReport` of each. The window is gone through once for
what all tables have, and once for each publication, with pgoutput, whose messages are made as ever; what is counted are
these, and the changes they were made of. All of it in this process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.errors import HeadwaterError
from headwater.pipeline.requests.open_output import scope_of
from headwater.pipeline.requests.open_request import OpenRequest, open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.slices.decode_job import DecodedSlice, SliceDecoder
from headwater.pipeline.slices.tentative_messages import Settlement
from headwater.pipeline.windows.index_job import index_in_threads
from headwater.pipeline.windows.windows import PlanWindows
from headwater.plugins.api import WANT_DELETE, WANT_INSERT, WANT_UPDATE, SlicePlugin
from headwater.plugins.rows.plugin import RowChanges, TableChoice
from headwater.plugins.table_patterns import EVERY_TABLE
from headwater.reorder.plan import RelationUse, Slice
from headwater.reorder.slices.cutting import SLICE_BYTES, cut_slices
from headwater.rows.items import DELETE, INSERT, SKIPPED, UPDATE, Messages

_OPERATIONS = ((INSERT, "inserts", WANT_INSERT), (UPDATE, "updates", WANT_UPDATE), (DELETE, "deletes", WANT_DELETE))
_ROWS = np.frombuffer(b"IUD", np.uint8)


class Operations(NamedTuple):
    """Changes of rows, by kind."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0

    def __add__(self, other: object) -> Operations:
        assert isinstance(other, Operations)
        return Operations(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    @property
    def total(self) -> int:
        """The sum of all operations."""
        return sum(self)


NO_CHANGES = Operations()


@dataclass(frozen=True)
class TableReport:
    """The changes of one table that a publication would send.

    Attributes:
        name: ``schema.table``, its last name.
        published_as: the partitioned table as of which it is published, if it is another one.
        changes: what the window has of it; sent: what is sent, by the messages that it becomes.
        bytes: of these messages.
        reasons: why anything is left out.
    """

    name: str
    published_as: str | None
    changes: Operations
    sent: Operations
    bytes: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class PublicationReport:
    """The messages that a publication would send.

    Attributes:
        name: its name.
        tables: all that have changes in the window, and those that could not have any in the WAL, by name.
        other_messages: messages that are no changes of rows: BEGIN, COMMIT, schemas, TRUNCATE; other_bytes: of them.
        error: with which the server would stop, None if it would not.
    """

    name: str
    tables: tuple[TableReport, ...] = ()
    other_messages: int = 0
    other_bytes: int = 0
    error: str | None = None

    @property
    def messages(self) -> int:
        """The number of all messages."""
        return self.other_messages + sum(table.sent.total for table in self.tables)

    @property
    def bytes(self) -> int:
        """The bytes of all messages."""
        return self.other_bytes + sum(table.bytes for table in self.tables)


def explain(request: DecodeRequest, publications: Sequence[str] = ()) -> list[PublicationReport]:
    """Go through a window.

    Args:
        request: the window; its plugin and options are not asked.
        publications: names; none for all that there are at the window's end.

    Raises:
        HeadwaterError: the window cannot be read.
    """
    whole = _WholeWindow(request)
    return [_of_publication(request, name, whole) for name in publications or whole.catalog.publication_names()]


@dataclass
class _Tally:
    """The counts of one table: the version of it that was met last, and its changes.

    Attributes:
        use: the relation.
        found: changes of the window; bare: DELETEs without an old row among them.
        sent: changes that are sent; bytes: of their messages.
        filtered: changes that a row filter has left out.
    """

    use: RelationUse
    found: Operations = NO_CHANGES
    bare: int = 0
    sent: Operations = NO_CHANGES
    bytes: int = 0
    filtered: int = 0


_Tallies = dict[int, _Tally]


@dataclass
class _WholeWindow:
    """All changes of tables in the window, and the catalog at its end."""

    request: DecodeRequest
    tallies: _Tallies = field(default_factory=dict)

    def __post_init__(self) -> None:
        request = replace(self.request, plugin=RowChanges.name, options=())
        opened = open_request(request, lambda store: RowChanges(TableChoice(EVERY_TABLE), (), store.major))
        decoder = SliceDecoder(opened.directory, opened.plugin, opened.session)
        for piece, catalog in _slices(opened):
            self.catalog: HistoricCatalog = catalog
            if piece is not None:
                self._count(decoder, piece)

    def _count(self, decoder: SliceDecoder, plan: Slice) -> None:
        changes = decoder.collected(plan)
        items = changes.items
        for layout, use in enumerate(changes.relations):
            kinds = items.kind[items.layout == layout]
            tally = self.tallies.setdefault(use.schema.oid, _Tally(use))
            tally.use = use
            tally.found += _operations(kinds)
            is_bare = (items.kind == DELETE) & (items.layout == layout) & (items.old_at < 0)
            tally.bare += int(np.count_nonzero(is_bare))


def _slices(opened: OpenRequest) -> Iterator[tuple[Slice | None, HistoricCatalog]]:
    """Give the slices of all windows, each with the catalog at its window's end; None before those of a window.

    It is not always the request's own that was rolled forward: a window may be gone through again from its start.
    """
    threads = os.cpu_count() or 1
    windows = PlanWindows(opened, scope_of(opened), lambda tasks: index_in_threads(tasks, threads), threads)
    for window in windows:
        catalog = window.behind.store.view(window.hi)
        yield None, catalog
        for piece in cut_slices(window.assembly.plan, SLICE_BYTES):
            yield piece, catalog


def _of_publication(request: DecodeRequest, name: str, whole: _WholeWindow) -> PublicationReport:
    """Count the messages that one of them would send."""
    options = ("proto_version", "1"), ("publication_names", quoted(name))
    counted = _Counted()
    try:
        opened = open_request(replace(request, plugin="pgoutput", options=options))
        decoder, settlement = SliceDecoder(opened.directory, opened.plugin, opened.session), Settlement()
        for piece, _ in _slices(opened):
            if piece is not None:
                decoded = decoder.cells(piece)
                counted.add(decoded, settlement.settled(decoder.messages_of(decoded)))
        asked = _Asked(opened.plugin, whole.catalog)
        tables = [asked.table(tally, counted.tallies.get(oid)) for oid, tally in whole.tallies.items()]
    except HeadwaterError as error:
        return PublicationReport(name, error=error.one_line())
    tables += [_unlogged(*table) for table in whole.catalog.unlogged_tables()]
    in_order = tuple(sorted(tables, key=lambda table: table.name))
    return PublicationReport(name, in_order, counted.other_messages, counted.other_bytes)


def quoted(name: str) -> str:
    """Return a publication's name as an element of ``publication_names`` (SplitIdentifierString)."""
    return '"' + name.replace('"', '""') + '"'


@dataclass
class _Counted:
    """The messages of a publication: changes by relation, and messages that are no changes of rows."""

    tallies: _Tallies = field(default_factory=dict)
    other_messages: int = 0
    other_bytes: int = 0

    def add(self, decoded: DecodedSlice, messages: Messages) -> None:
        """Add a slice: its changes that are sent are its messages of changes, in order."""
        sizes = np.diff(messages.offsets)
        is_row = np.isin(messages.data[messages.offsets[:-1]], _ROWS) if len(sizes) else np.zeros(0, np.bool_)
        self.other_messages += int(np.count_nonzero(~is_row))
        self.other_bytes += int(sizes[~is_row].sum())
        items, cells = decoded.changes.items, decoded.cells
        first = np.where(items.kind == DELETE, cells.old_first, cells.new_first)
        sent = np.flatnonzero((items.kind <= DELETE) & (first >= 0))
        of_sent = sizes[is_row]
        assert len(of_sent) == len(sent)
        for layout, use in enumerate(decoded.changes.relations):
            tally = self.tallies.setdefault(use.schema.oid, _Tally(use))
            tally.use = use
            own = items.layout == layout
            is_here = own[sent]
            tally.found += _operations(decoded.kinds[own & (decoded.kinds <= DELETE)])
            tally.sent += _operations(items.kind[sent[is_here]])
            tally.bytes += int(of_sent[is_here].sum())
            tally.filtered += int(np.count_nonzero(own & (items.kind == SKIPPED) & (decoded.kinds <= DELETE)))


def _operations(kinds: NDArray[np.uint8]) -> Operations:
    return Operations(*(int(np.count_nonzero(kinds == kind)) for kind, _, _ in _OPERATIONS))


def _unlogged(schema: str, name: str, persistence: str) -> TableReport:
    kind = "temporary" if persistence == "t" else "unlogged"
    reason = f"it is {kind}: its changes are not in the WAL"
    return TableReport(f"{schema}.{name}", None, NO_CHANGES, NO_CHANGES, 0, (reason,))


@dataclass(frozen=True)
class _Asked:
    """The plugin with one publication, asked why something is left out.

    Attributes:
        plugin: it.
        catalog: at the window's end.
    """

    plugin: SlicePlugin
    catalog: HistoricCatalog

    def table(self, whole: _Tally, published: _Tally | None) -> TableReport:
        """Report one table that has changes.

        Args:
            whole: what the window has of it.
            published: what the publication wants of it; None if there is nothing.
        """
        schema = whole.use.schema
        name = f"{schema.namespace}.{schema.name}"
        if published is None:
            reasons = tuple(self._unpublished(whole))
            return TableReport(name, None, whole.found, NO_CHANGES, 0, reasons)
        reasons = (*_reasons(whole, published, published.use.wants), *self._columns(published.use))
        return TableReport(
            name, self._published_as(published.use), whole.found, published.sent, published.bytes, reasons
        )

    def _unpublished(self, whole: _Tally) -> Iterator[str]:
        """Give the reasons why nothing of a table is published, as the publication is at the end."""
        schema = whole.use.schema
        wants = self.plugin.wants(schema, self.catalog)
        if wants:
            yield from _reasons(whole, _Tally(whole.use), wants)
        elif schema.kind not in "rp":
            yield "it is no table that a publication can have"
        else:
            yield "not in the publication"

    def _published_as(self, use: RelationUse) -> str | None:
        oid = self.plugin.published_as(use.schema, use.messages)
        other = None if oid == use.schema.oid else self.catalog.relation(oid)
        return None if other is None else f"{other.namespace}.{other.name}"

    def _columns(self, use: RelationUse) -> Iterator[str]:
        """Give the columns that are left out."""
        shown = self.plugin.shown_columns(use.schema, use.messages)
        for column in use.schema.columns:
            if not column.is_dropped and shown is not None and column.number not in shown:
                yield f"column {column.name}: {'generated' if column.generated else 'not in the column list'}"


def _reasons(whole: _Tally, published: _Tally, wants: int) -> Iterator[str]:
    """Give the reasons why not all changes of a table are sent.

    Args:
        whole: what the window has of it.
        published: what the publication wants of it.
        wants: WANT bits of what it publishes.
    """
    bare = whole.bare if wants & WANT_DELETE else 0
    for (_, word, want), changes, wanted in zip(_OPERATIONS, whole.found, published.found, strict=True):
        left = changes - wanted - (bare if want == WANT_DELETE else 0)
        if left > 0:
            yield f"{left} {word}: not published{' at that time' if wants & want else ''}"
    if bare:
        yield f"{bare} deletes: no old row was logged, as the replica identity has no columns"
    if published.filtered:
        yield f"{published.filtered} changes: row filter"
