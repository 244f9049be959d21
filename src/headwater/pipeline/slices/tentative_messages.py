"""Messages that depend on other slices: found out, while slices are delivered in their order, is which of them go out.

In: what tasks report of such messages (:class:`~headwater.pipeline.slices.message_files.Told`). Those that earlier
slices may have given come with it and are not in the tasks' files; those that nothing goes before are. Out: the files
with what had to be put in or taken out. Mostly that is nothing: the first slice that may give an announcement gives it,
and no later one does, so files stay as they are.

:class:`Settlement` keeps what was given in a session: one number for each announcement that depended on rows, and for
each transaction that is cut over several slices.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa

from headwater.jobs.value_files import new_file, writing
from headwater.pipeline.slices.message_files import (
    MessageCounts,
    MessageForm,
    Told,
    arrow_writer,
    message_schema,
    message_table,
    parquet_writer,
)
from headwater.reorder.announced_schemas import Announced, SchemaMemory, StreamedAnnouncement
from headwater.reorder.plan import Slice
from headwater.reorder.unit_flags import MAY_HAVE_WRITTEN
from headwater.rows.items import COUNTED, DEPENDENT, HELD, Messages

T = TypeVar("T", Announced, StreamedAnnouncement)


def depends_on_others(plan: Slice) -> bool:
    """Tell whether messages of a slice may depend on those of earlier ones."""
    is_numbered = bool(plan.events.tentative.any() or plan.tentative[3].any())
    return is_numbered or bool(plan.counted.size) or bool((plan.units.flags & MAY_HAVE_WRITTEN).any())


@dataclass
class Settlement:
    """The messages of a session that were given and that others depend on; asked in the order of the output."""

    _given: set[int] = field(default_factory=set)

    def copy(self) -> Settlement:
        """Return another one, as this is now."""
        return Settlement(set(self._given))

    def goes_out(self, kind: int, number: int, counts_as: int) -> bool:
        """Tell whether messages of this kind and number go out; to be asked once for each."""
        was_given = number in self._given
        if kind == DEPENDENT:
            return was_given
        if kind != COUNTED:
            self._given.add(number)
        elif was_given:
            self._given.add(counts_as)
        return kind != HELD or not was_given

    def end_window(self, memory: SchemaMemory, lsn: int) -> SchemaMemory:
        """Return what the plugin remembers at the end of a window, with what has turned out: nothing there is numbered.

        Of what was given nothing is remembered here that no later message depends on. So it does not grow, and sessions
        that remember the same are alike, however long they have lasted.

        Args:
            memory: as the window left it; lsn: where it ends.
        """
        given = self._given
        self._given = {number for number in given if number < -lsn}
        announced = _turned_out(memory.announced, given)
        streamed = _turned_out(memory.streamed, given)
        if announced is memory.announced and streamed is memory.streamed:
            return memory
        return replace(memory, announced=announced, streamed=streamed)

    def settled(self, messages: Messages) -> Messages:
        """Return the messages of a slice that go out."""
        stays = np.ones(len(messages.lsn), np.bool_)
        columns = (column.tolist() for column in messages.conditions)
        for kind, number, counts_as, first, count in zip(*columns, strict=True):
            stays[first : first + count] = self.goes_out(kind, number, counts_as)
        return messages if stays.all() else messages.take(np.flatnonzero(stays))

    def settle(self, path: str, counts: MessageCounts, form: MessageForm) -> MessageCounts:
        """Put into a task's file what goes out, and take out what does not.

        Args:
            path: the file.
            counts: what the task reported of it.
            form: of the file.

        Returns:
            what is in the file then.

        Raises:
            HeadwaterError: it cannot be written.
        """
        changes = [
            group for group in counts.told if self.goes_out(group.kind, group.number, group.counts_as) != group.is_there
        ]
        if not changes:
            return counts
        settled = f"{path}.settled"
        with new_file(settled) as sink:
            if form in (MessageForm.LINES, MessageForm.LINES_WITH_LSN):
                _write_lines(path, sink, changes)
            else:
                _write_table(path, sink, changes, form)
        os.replace(settled, path)
        more = sum(-group.count if group.is_there else group.count for group in changes)
        size = sum(-group.size if group.is_there else group.size for group in changes)
        return replace(counts, messages=counts.messages + more, size=counts.size + size)


def _turned_out(announcements: tuple[T, ...], given: set[int]) -> tuple[T, ...]:
    """Return the announcements that were made, if any of them may not have been."""
    if not any(announcement.number for announcement in announcements):
        return announcements
    made = (it for it in announcements if not it.number or it.number in given)
    return tuple(it._replace(number=0) if it.number else it for it in made)


def _write_lines(path: str, sink: BinaryIO, changes: Sequence[Told]) -> None:
    with open(path, "rb") as source, writing(sink.name):
        for change in changes:
            _copy(source, sink, change.place - source.tell())
            if change.is_there:
                source.seek(change.end)
            else:
                sink.write(change.lines)
        shutil.copyfileobj(source, sink)


def _copy(source: BinaryIO, sink: BinaryIO, count: int) -> None:
    while count > 0:
        piece = source.read(min(count, 1 << 20))
        if not piece:
            return
        sink.write(piece)
        count -= len(piece)


def _write_table(path: str, sink: BinaryIO, changes: Sequence[Told], form: MessageForm) -> None:
    if form is MessageForm.PARQUET:
        import pyarrow.parquet as pq  # takes a tenth of a second that only Parquet is worth

        table = pq.read_table(path)
    else:
        table = message_table(path)
    is_text = pa.types.is_string(table.schema.field("data").type)
    pieces = pa.Table.from_batches(
        [batch for piece in _pieces(table, changes) for batch in piece.to_batches()], table.schema
    )
    with writing(sink.name):
        if form is MessageForm.PARQUET:
            with parquet_writer(sink, message_schema(is_text)) as writer:
                writer.write_table(pieces)
        else:
            with arrow_writer(sink, message_schema(is_text)) as writer:
                writer.write_table(pieces)


def _pieces(table: pa.Table, changes: Sequence[Told]) -> Iterator[pa.Table]:
    done = 0
    for change in changes:
        yield table.slice(done, change.at - done)
        done = change.at + change.count if change.is_there else change.at
        if not change.is_there:
            columns: tuple[list[Any], ...] = (list(change.lsn), list(change.xid), list(change.texts))
            yield pa.table(
                [pa.array(column, field.type) for column, field in zip(columns, table.schema, strict=True)],
                schema=table.schema,
            )
    yield table.slice(done)
