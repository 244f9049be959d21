"""Step 4: one slice decoded into messages.

A task reads only the ranges of WAL its slice names, keeps only the planned transactions, and renders them. It needs
nothing but the slice, the WAL directory and the plugin, all of which pickle. Slices of several outputs are read
together: a stretch of WAL that any of them names is read and framed once, and each picks its own out of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwater.errors import DecodingError
from headwater.filters.changes import let_pass, looked_at
from headwater.filters.located import locate_tuples
from headwater.plugins.api import SlicePlugin, SliceTables
from headwater.reorder.plan import Ranges, RelationUse, Slice
from headwater.rmgr.index.kept_records import KeptRecord
from headwater.rmgr.index.wal_index import joined_stretches
from headwater.rmgr.logicalmsg import parse_message
from headwater.rows.collect.collect import Collector, SliceChanges
from headwater.rows.collect.tentative import NOTHING_TENTATIVE, Tentative, announce_sent, may_depend
from headwater.rows.conversion import converted_messages, refusal
from headwater.rows.items import DELETE, REFUSED, SKIPPED, Cells, Messages
from headwater.rows.session import SessionSettings
from headwater.rows.tuples.layout import SliceLayouts, compile_layouts
from headwater.rows.tuples.render import Located, place_of_cell, print_located
from headwater.wal.records.frames import Frames
from headwater.wal.records.record import parse_record
from headwater.wal.records.stretches import read_stretches
from headwater.wal.segments.directory import WalDirectory


@dataclass(frozen=True)
class LocatedSlice:
    """A slice's changes with their tuples taken apart, before anything is printed.

    Attributes:
        changes: those that row filters let pass; kinds: uint8[n] what they were before.
        located: where the values of their tuples lie.
        layouts: of the relation versions.
        session: settings that values are printed under.
    """

    changes: SliceChanges
    kinds: NDArray[np.uint8]
    located: Located
    layouts: SliceLayouts
    session: SessionSettings

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """int64[n] the number of each item among those of its record, from 0."""
        items = self.changes.items
        places = np.arange(len(items.lsn))
        is_first = np.ones(len(places), np.bool_)
        is_first[1:] = (items.lsn[1:] != items.lsn[:-1]) | (items.txn[1:] != items.txn[:-1])
        return places - np.maximum.accumulate(np.where(is_first, places, 0))

    def cells(self) -> Cells:
        """Return all values printed; what located them is used up.

        Raises:
            HeadwaterError: a value or a type stands in the way.
        """
        return print_located(self.located, self.changes.items, self.layouts)

    def text(self) -> Cells:
        """Return the same for readers of rows: all of it is text in UTF8.

        Raises:
            HeadwaterError: as :meth:`cells`, or a value has a character that is none in UTF8.
        """
        cells = self.cells()
        refused = np.flatnonzero(cells.kind == REFUSED)
        if len(refused):
            raise self._refusal(cells, int(refused[0]))
        return cells

    def _refusal(self, cells: Cells, cell: int) -> DecodingError:
        items, session = self.changes.items, self.session
        item, number = place_of_cell(cells, cell)
        schema = self.changes.relations[int(items.layout[item])].schema
        place = f'column "{schema.columns[number].name}" of table "{schema.namespace}.{schema.name}"'
        text = cells.text[cells.start[cell] :][: cells.length[cell]].tobytes()
        return refusal(session.written_in, session.client_encoding, text, int(items.lsn[item]), place)


@dataclass(frozen=True)
class DecodedSlice:
    """A slice's changes with their text, before a plugin makes messages of them.

    Attributes:
        changes: those that row filters let pass; kinds: uint8[n] what they were before.
        tentative: announcements among them that earlier slices may have made.
        cells: their text.
    """

    changes: SliceChanges
    kinds: NDArray[np.uint8]
    tentative: Tentative
    cells: Cells

    @property
    def filtered(self) -> int:
        """The number of changes that row filters have left out."""
        return int(np.count_nonzero((self.changes.items.kind == SKIPPED) & (self.kinds <= DELETE)))


@dataclass(frozen=True)
class SliceDecoder:
    """A decoder of slices; pickles, runs once per slice on any worker that sees the WAL directory.

    Attributes:
        directory: the WAL.
        plugin: the output plugin.
        session: settings that values are printed under.
    """

    directory: WalDirectory
    plugin: SlicePlugin
    session: SessionSettings

    @property
    def is_text(self) -> bool:
        """The messages can go to a column of strings."""
        return self.plugin.traits.is_text and self.session.is_utf8

    def located(self, plan: Slice) -> LocatedSlice:
        """Read and collect the rows of a slice, take them apart, and leave out what row filters do not let pass.

        Args:
            plan: the slice.

        Raises:
            HeadwaterError: a record, a tuple or a type stands in the way.
        """
        return self._located(self.collected(plan))

    def _located(self, changes: SliceChanges) -> LocatedSlice:
        schemas = [self.plugin.read_as(use.schema, use.messages) for use in changes.relations]
        shown = [self._looked_at(use) for use in changes.relations]
        session = self.session if self.plugin.traits.wants_client_encoding else self.session.of_database
        layouts = compile_layouts(schemas, session, shown, binary=self.plugin.traits.wants_binary)
        tuples, kinds = locate_tuples(changes.tuples, changes.items, layouts), changes.items.kind
        if any(use.filters is not None for use in changes.relations):
            version, encoding = self.session.version, self.session.encoding
            changes = replace(changes, items=let_pass(tuples, changes.items, changes.relations, version, encoding))
        return LocatedSlice(changes, kinds, tuples.located, layouts, self.session)

    def cells(self, plan: Slice) -> DecodedSlice:
        """Do the same, and print what is left; raises as :meth:`located`, or a value stands in the way."""
        return self.printed(plan, self.collected(plan))

    def printed(self, plan: Slice, changes: SliceChanges) -> DecodedSlice:
        """Return the rows of a slice that are collected already; as :meth:`cells`."""
        located = self._located(changes)
        changes, cells = located.changes, located.cells()
        changes, tentative = announce_sent(plan, changes, cells) if may_depend(plan) else (changes, NOTHING_TENTATIVE)
        return DecodedSlice(changes, located.kinds, tentative, cells)

    def collected(self, plan: Slice) -> SliceChanges:
        """Read and collect the rows of a slice.

        Raises:
            HeadwaterError: a record stands in the way.
        """
        (changes,) = collected_together([(self, plan)])
        return changes

    def collector(self, plan: Slice) -> Collector:
        """Return a collector that picks the changes of a slice out of its records."""
        return Collector(plan, self._say, self.directory.major, not self.plugin.traits.marks_rows)

    def _looked_at(self, use: RelationUse) -> frozenset[int] | None:
        """Return the columns of a relation that anyone looks at; None for all."""
        shown = self.plugin.shown_columns(use.schema, use.messages)
        if shown is None or use.filters is None:
            return shown
        return shown | looked_at(use.schema, use.filters, self.session.version, self.session.encoding)

    def _say(self, record: KeptRecord, toplevel_xid: int) -> Sequence[bytes]:
        """Make the plugin's messages of a logical message; in a transaction's streamed block if there is an xid."""
        parsed = parse_record(record.data, record.lsn, record.end_lsn, self.directory.major)
        message = parse_message(parsed.main_data, record.lsn)
        if toplevel_xid:
            return self.plugin.stream_message(record.end_lsn, message.prefix, message.content, toplevel_xid)
        return self.plugin.message(record.end_lsn, message.transactional, message.prefix, message.content)

    def messages(self, plan: Slice) -> Messages:
        """Return the plugin's messages of a slice.

        Raises:
            HeadwaterError: as :meth:`cells`, or the plugin refuses.
        """
        return self.messages_of(self.cells(plan))

    def messages_of(self, decoded: DecodedSlice) -> Messages:
        """Return the plugin's messages of a slice that is decoded already; raises as :meth:`messages`."""
        changes = decoded.changes
        tables = SliceTables(
            changes.items,
            decoded.cells,
            changes.transactions,
            changes.literals,
            [use.schema for use in changes.relations],
            [use.messages for use in changes.relations],
            decoded.tentative,
        )
        messages = replace(self.plugin.render(tables), filtered=decoded.filtered)
        if not self.plugin.traits.is_text or self.plugin.traits.wants_client_encoding:
            return messages
        return converted_messages(messages, self.session.encoding, self.session.client_encoding)


def collected_together(parts: Sequence[tuple[SliceDecoder, Slice]]) -> list[SliceChanges]:
    """Read WAL once, and collect the rows of several slices out of it.

    Args:
        parts: the slices, each with what decodes it; all of one WAL directory.

    Raises:
        HeadwaterError: a record stands in the way.
    """
    collectors = [decoder.collector(plan) for decoder, plan in parts]
    for frames in _read(parts[0][0].directory, joined_ranges([plan for _, plan in parts])):
        for collector in collectors:
            collector.add(frames)
    return [collector.finish() for collector in collectors]


def joined_ranges(slices: Sequence[Slice]) -> Ranges:
    """Return the stretches of WAL that slices read, none of it twice."""
    return joined_stretches(stretch for plan in slices for stretch in plan.ranges)


def _read(directory: WalDirectory, ranges: Ranges) -> Iterator[Frames]:
    """Give the records of some ranges, stretch by stretch; each is let go of before the next is read."""
    for lo, hi in ranges:
        for _, _, frames in read_stretches(directory, lo, hi, check=False):
            yield frames
