"""Messages of pgoutput, mapped: what is announced gets other names, changes lose columns, are masked, or go.

In: framed messages as a source gives them, outside of and in streamed blocks. Out: framed messages. Those that no rule
is about stay the bytes that they are. An UPDATE that leaves a condition is a DELETE, one that comes into it an INSERT.

Invariants: a relation that is announced in a streamed transaction counts for that one alone until it commits. All
messages keep the LSNs that they were sent with. Of a row that is refused all messages before it are handed on first.

PostgreSQL: replication/pgoutput/pgoutput.c (pgoutput_row_filter, pgoutput_change), proto.c.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.apply.incoming.map_rules import MapRules, TableName
from headwater.apply.incoming.messages import (
    TEXT,
    UNCHANGED,
    Delete,
    Insert,
    SentTuple,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    Truncate,
    Update,
    read_message,
)
from headwater.apply.incoming.messages import Relation as RelationMessage
from headwater.apply.mapped.encoding import encode_change, encode_relation, encode_truncate, leave_out
from headwater.apply.mapped.row_filters import RowError
from headwater.apply.mapped.source_facts import SourceFacts
from headwater.apply.mapped.table_maps import TableMap, map_table
from headwater.errors import HeadwaterError, TargetError, UsageError
from headwater.remote_slots.announced_relations import SentRelation
from headwater.remote_slots.framed_messages import HEADER_BYTES, Found, find_messages

Change = Insert | Update | Delete
_FRAME = struct.Struct(">cI")
_CHANGES = np.frombuffer(b"IUD", np.uint8)
_OTHERS = np.frombuffer(b"RTScpA", np.uint8)
_ROWS = b"IUD"
_START, _STOP, _RELATION = b"S"[0], b"E"[0], b"R"[0]
REFUSED = "22023"
"""SQLSTATE of a relation that is announced in a form which a rule does not fit any more: invalid_parameter_value."""


class Mapped(NamedTuple):
    """A piece that is mapped.

    Attributes:
        data: messages; error: what came behind them, None if all are mapped.
    """

    data: bytes
    error: HeadwaterError | None


@dataclass(slots=True)
class _Entry:
    """A change to be mapped; number: of its message; new: what is handed on, None for nothing."""

    number: int
    map: TableMap
    message: Change
    is_streamed: bool
    new: Change | None

    @property
    def stays(self) -> bool:
        """Whether the message is handed on as it is."""
        return self.new is self.message and self.map.places is None and not self.map.masks


class StreamMap:
    """The map of a session's stream.

    Args:
        rules: they; facts: of the source.
    """

    def __init__(self, rules: MapRules, facts: SourceFacts) -> None:
        self._rules, self._facts = rules, facts
        self._maps: dict[SentRelation, TableMap] = {}
        self._current: dict[int, TableMap] = {}
        self._streamed: dict[int, dict[int, TableMap]] = {}
        self._block: int | None = None

    def apply(self, data: bytes) -> Mapped:
        """Map messages.

        Args:
            data: whole messages, framed as a slot sends them.

        Raises:
            DecodingError: they are malformed.
        """
        array = np.frombuffer(data, np.uint8)
        messages = find_messages(array)
        in_block = self._blocks(messages.kind)
        replaced: dict[int, bytes | None] = {}
        entries: list[_Entry] = []
        end, error = len(messages.kind), None
        chosen = self._chosen(array, messages, in_block)
        lying = (column[chosen].tolist() for column in (messages.start, messages.end, messages.lsn, in_block))
        for number, start, stop, lsn, is_streamed in zip(chosen.tolist(), *lying, strict=True):
            try:
                self._look(number, data[start:stop], lsn, is_streamed, replaced, entries)
            except HeadwaterError as refused:
                end, error = number, refused
                break
        end, error = self._judge(entries, messages, end, error)
        for entry in entries:
            if entry.number < end and not entry.stays:
                replaced[entry.number] = None if entry.new is None else _encoded(entry)
        return Mapped(_joined(data, messages, replaced, end), error)

    def _blocks(self, kinds: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Tell of each message whether it lies in a streamed block."""
        steps = (kinds == _START).astype(np.int64) - (kinds == _STOP)
        is_inside: NDArray[np.bool_] = (np.cumsum(steps) + (self._block is not None)) > 0
        return is_inside

    def _chosen(self, data: NDArray[np.uint8], messages: Found, in_block: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the numbers of the messages that are looked at."""
        is_change = np.isin(messages.kind, _CHANGES)
        oids = np.zeros(len(messages.kind), np.int64)
        changes = np.flatnonzero(is_change & (messages.end - messages.start >= 9))
        at = messages.start[changes] + 1 + 4 * in_block[changes]
        for byte in range(4):
            oids[changes] = oids[changes] << 8 | data[at + byte]
        watched = {oid for oid, table in self._current.items() if table.changes_rows}
        watched |= {oid for own in self._streamed.values() for oid, table in own.items() if table.changes_rows}
        watched |= set(self._announced(data, messages, in_block))
        is_watched = is_change & np.isin(oids, np.array(sorted(watched), np.int64))
        return np.flatnonzero(is_watched | np.isin(messages.kind, _OTHERS) | (messages.kind == _STOP))

    @staticmethod
    def _announced(data: NDArray[np.uint8], messages: Found, in_block: NDArray[np.bool_]) -> Iterator[int]:
        for number in np.flatnonzero(messages.kind == _RELATION).tolist():
            at = int(messages.start[number]) + 1 + 4 * int(in_block[number])
            yield int.from_bytes(data[at : at + 4].tobytes(), "big")

    def _look(
        self,
        number: int,
        data: bytes,
        lsn: int,
        is_streamed: bool,
        replaced: dict[int, bytes | None],
        entries: list[_Entry],
    ) -> None:
        if data[0] in _ROWS:
            self._change(number, data, lsn, is_streamed, replaced, entries)
            return
        message = read_message(data, lsn, is_streamed=is_streamed)
        match message:
            case RelationMessage():
                self._announce(number, data, message, is_streamed, replaced)
            case Truncate():
                self._truncate(number, message, is_streamed, replaced)
            case StreamStart():
                self._block = message.xid
                self._streamed.setdefault(message.xid, {})
            case StreamCommit() | StreamPrepare():
                self._current |= self._streamed.pop(message.xid, {})
            case StreamAbort():
                if message.xid == message.toplevel_xid:
                    self._streamed.pop(message.xid, None)
            case _:
                self._block = None

    def _change(
        self,
        number: int,
        data: bytes,
        lsn: int,
        is_streamed: bool,
        replaced: dict[int, bytes | None],
        entries: list[_Entry],
    ) -> None:
        """Map a change, or note it to be mapped once its condition is known."""
        at = 5 if is_streamed else 1
        table = self._table(int.from_bytes(data[at : at + 4], "big"))
        if table is None or not table.changes_rows:
            return
        if table.is_left_out:
            replaced[number] = None
        elif table.keeps is not None and (shorter := leave_out(data, at + 4, table.keeps)) is not None:
            replaced[number] = shorter
        else:
            message = read_message(data, lsn, is_streamed=is_streamed)
            assert isinstance(message, Insert | Update | Delete)
            _check(table, message)
            entries.append(_Entry(number, table, message, is_streamed, message))

    def _table(self, oid: int) -> TableMap | None:
        if self._block is not None and oid in self._streamed[self._block]:
            return self._streamed[self._block][oid]
        return self._current.get(oid)

    def _announce(
        self,
        number: int,
        data: bytes,
        message: RelationMessage,
        is_streamed: bool,
        replaced: dict[int, bytes | None],
    ) -> None:
        sent = message.sent
        table = self._maps.get(sent)
        if table is None:
            table = self._maps[sent] = self._mapped(sent)
        known = self._current if self._block is None else self._streamed[self._block]
        known[sent.oid] = table
        if table.is_left_out:
            replaced[number] = None
        elif table.target != sent:
            replaced[number] = encode_relation(data, table.target, is_streamed=is_streamed)

    def _mapped(self, sent: SentRelation) -> TableMap:
        try:
            return map_table(self._rules, sent, self._facts)
        except UsageError as error:
            # It was another one when the rules were checked: it is tried again, as all that the target refuses.
            raise TargetError(error.message, sqlstate=REFUSED, hint=error.hint) from None

    def _truncate(self, number: int, message: Truncate, is_streamed: bool, replaced: dict[int, bytes | None]) -> None:
        tables = {oid: self._table(oid) for oid in message.oids}
        left = tuple(oid for oid, table in tables.items() if table is None or not table.is_left_out)
        if not left:
            replaced[number] = None
        elif len(left) < len(message.oids):
            replaced[number] = encode_truncate(message, left, is_streamed=is_streamed)

    def _judge(
        self, entries: list[_Entry], messages: Found, end: int, error: HeadwaterError | None
    ) -> tuple[int, HeadwaterError | None]:
        """Have conditions decide; return the number of the first message that is not handed on, and why."""
        by_table: dict[int, list[_Entry]] = {}
        for entry in entries:
            if entry.map.condition is not None:
                by_table.setdefault(id(entry.map), []).append(entry)
        for own in by_table.values():
            try:
                _decide(own)
            except _RefusedError as refused:
                if refused.number < end:
                    end, error = (
                        refused.number,
                        error_of_row(own[0].map, refused.error, int(messages.lsn[refused.number])),
                    )
        return end, error


class _RefusedError(Exception):
    """A row that a condition fails for; number: of its message."""

    def __init__(self, number: int, error: HeadwaterError) -> None:
        super().__init__(number, error)
        self.number, self.error = number, error


def _check(table: TableMap, message: Change) -> None:
    for row in _rows(message):
        table.check(row)


def _rows(message: Change) -> Iterator[SentTuple]:
    if not isinstance(message, Insert) and message.old is not None:
        yield message.old
    if not isinstance(message, Delete):
        yield message.new


def _decide(entries: list[_Entry]) -> None:
    """Let a relation's condition decide what becomes of its changes."""
    olds = [(entry, entry.message.old) for entry in entries if not isinstance(entry.message, Insert)]
    was = dict(_verdicts([(entry, old) for entry, old in olds if old is not None], []))
    fresh = [(entry, entry.message) for entry in entries if not isinstance(entry.message, Delete)]
    rows = [(entry, message.new) for entry, message in fresh]
    now = dict(_verdicts(rows, [message.old if isinstance(message, Update) else None for _, message in fresh]))
    for entry in entries:
        entry.new = _outcome(entry, was.get(entry.number), now.get(entry.number))


def _verdicts(rows: list[tuple[_Entry, SentTuple]], older: list[SentTuple | None]) -> Iterable[tuple[int, bool]]:
    """Judge rows of one relation; return the number of each message with its verdict."""
    if not rows:
        return []
    condition = rows[0][0].map.condition
    assert condition is not None
    try:
        verdicts = condition.verdicts([row for _, row in rows], older or None)
    except RowError as error:
        raise _RefusedError(rows[error.row][0].number, error.error) from None
    return [(entry.number, bool(verdict)) for (entry, _), verdict in zip(rows, verdicts, strict=True)]


def _outcome(entry: _Entry, was: bool | None, now: bool | None) -> Change | None:
    """Return what becomes of a change whose old and new row, as far as there are any, are in the condition or not."""
    message = entry.message
    if not isinstance(message, Update) or was is None or was == now:
        return message if (was if now is None else now) else None
    if was:
        assert message.old is not None
        return Delete(message.xid, message.oid, message.old, message.old_is_key)
    return Insert(message.xid, message.oid, _complete(entry, message))


def _complete(entry: _Entry, message: Update) -> SentTuple:
    """Return a new row with the values that were not written again, which the old row has to have."""
    old, kinds, values = message.old, bytearray(message.new.kinds), list(message.new.values)
    assert old is not None
    gone = {*range(len(kinds))} - {*(range(len(kinds)) if entry.map.places is None else entry.map.places)}
    for place, kind in enumerate(message.new.kinds):
        if kind != UNCHANGED or place in gone:
            continue
        if old.kinds[place] != TEXT:
            raise _RefusedError(entry.number, _not_sent(entry.map, place))
        kinds[place], values[place] = old.kinds[place], old.values[place]
    return SentTuple(bytes(kinds), tuple(values))


def _not_sent(table: TableMap, place: int) -> HeadwaterError:
    name = table.source.columns[place].name
    return TargetError(
        f'a row comes into the condition whose value of column "{name}" was not sent, as it was not written again',
        sqlstate="55000",
        hint="REPLICA IDENTITY FULL sends it",
    )


def error_of_row(table: TableMap, error: HeadwaterError, lsn: int | None = None) -> TargetError:
    """Return the error of a row that a table's condition fails for; lsn: of its change."""
    assert table.condition is not None
    sqlstate = error.sqlstate if isinstance(error, TargetError) else REFUSED
    name = TableName(table.source.namespace, table.source.name)
    context = f'row filter of table "{name}" of the source, {table.condition.rule.text}'
    return TargetError(error.message, lsn=lsn, sqlstate=sqlstate, hint=error.hint, context=context)


def _encoded(entry: _Entry) -> bytes:
    assert entry.new is not None
    return encode_change(entry.map, entry.new, is_streamed=entry.is_streamed)


def _joined(data: bytes, messages: Found, replaced: dict[int, bytes | None], end: int) -> bytes:
    """Join messages up to one, some of which are replaced, or go."""
    last = len(data) if end == len(messages.kind) else int(messages.start[end]) - HEADER_BYTES
    if not replaced:
        return data[:last]
    parts, at, view = list[bytes | memoryview](), 0, memoryview(data)
    numbers = sorted(number for number in replaced if number < end)
    places = np.array(numbers, np.int64)
    begins, ends = (messages.start[places] - HEADER_BYTES).tolist(), messages.end[places].tolist()
    for number, begin, behind in zip(numbers, begins, ends, strict=True):
        if begin > at:
            parts.append(view[at:begin])
        at, new = behind, replaced[number]
        if new is not None:
            parts.append(_FRAME.pack(b"d", HEADER_BYTES - 1 + len(new)))
            parts.append(data[begin + _FRAME.size : begin + HEADER_BYTES])
            parts.append(new)
    parts.append(view[at:last])
    return b"".join(parts)
