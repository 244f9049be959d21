"""Decode slices made by hand, and what the two plugins should make of them, in plain Python."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from headwater.catalog.relation import (
    Column,
    DatabaseLocale,
    Publication,
    PublicationMember,
    RelationSchema,
    TypeInfo,
)
from headwater.plugins.message_buffer import pack_literals
from headwater.reorder import unit_flags
from headwater.rows import items as it
from headwater.rows.items import Cells, Items, Literals, Messages, Transactions


def make_type(oid: int, name: str, display: str | None = None, namespace: str = "pg_catalog") -> TypeInfo:
    """Make a type with the attributes that plugins look at."""
    return TypeInfo(oid, name, namespace, display or name, "b", -1, "i", False)


INT4 = make_type(23, "int4", "integer")
TEXT = make_type(25, "text")
BOOL = make_type(16, "bool", "boolean")
VARBIT = make_type(1562, "varbit", "bit varying")
MOOD = make_type(16500, "mood", "shop.mood", "shop")
TYPES = (INT4, TEXT, BOOL, VARBIT, MOOD)


def make_column(number: int, name: str, type_info: TypeInfo | None = TEXT, generated: str = "") -> Column:
    """Make a column; one without a type is dropped."""
    return Column(number, name, type_info, -1, -1, "i", type_info is None, generated)


def make_table(oid: int, name: str, columns: Sequence[Column], **more: object) -> RelationSchema:
    """Make a permanent table in schema public."""
    values = {"replica_identity": "d", "identity_columns": (1,), "namespace_oid": 2200, "kind": "r"} | more
    return RelationSchema(
        oid=oid,
        namespace="public",
        name=name,
        persistence="p",
        columns=tuple(columns),
        **values,  # type: ignore[arg-type]
    )


class Sent(bytes):
    """A value in binary form, where other bytes are text."""


@dataclass(frozen=True)
class Change:
    """An item: tuples are a cell a column, text, binary or NULL, UNCHANGED, ABSENT; a literal's kind is LITERAL."""

    kind: int
    lsn: int
    layout: int
    new: tuple[bytes | int, ...] | None = None
    old: tuple[bytes | int, ...] | None = None
    flags: int = 0


@dataclass(frozen=True)
class Txn:
    """A transaction with its items."""

    xid: int
    changes: tuple[Change, ...]
    first_lsn: int = 0
    commit_lsn: int = 0
    end_lsn: int = 0
    commit_time: int = 0
    last_end: int = -1
    last_time: int = 0
    flags: int = unit_flags.BEGINS_HERE | unit_flags.ENDS_HERE
    origin: int = 0
    begin: int = 0
    end: int = 0


@dataclass(frozen=True)
class Slice:
    """A slice as Python values."""

    txns: tuple[Txn, ...]
    literals: tuple[tuple[bytes, ...], ...] = ()
    schemas: tuple[RelationSchema, ...] = ()
    schema_messages: tuple[tuple[bytes, ...], ...] = field(default=())

    def tables(self) -> tuple[Items, Cells, Transactions, Literals]:
        """Make the slice as the arrays that plugins take."""
        changes = [change for txn in self.txns for change in txn.changes]
        builder = _CellBuilder()
        new_first = [builder.add(change.new) for change in changes]
        old_first = [builder.add(change.old) for change in changes]
        txn_of = [i for i, txn in enumerate(self.txns) for _ in txn.changes]
        none = np.zeros(len(changes), np.int32)
        items = Items(
            kind=np.array([c.kind for c in changes], np.uint8),
            txn=np.array(txn_of, np.int32),
            xid=np.array([self.txns[t].xid for t in txn_of], np.uint32),
            lsn=np.array([c.lsn for c in changes], np.int64),
            layout=np.array([c.layout for c in changes], np.int32),
            new_at=none.astype(np.int64),
            new_len=none,
            old_at=none.astype(np.int64),
            old_len=none,
            flags=np.array([c.flags for c in changes], np.uint8),
        )
        return items, builder.cells(new_first, old_first), self._transactions(), pack_literals(self.literals)

    def _transactions(self) -> Transactions:
        ends = np.cumsum([len(txn.changes) for txn in self.txns], dtype=np.int64)
        names = ("first_lsn", "commit_lsn", "end_lsn", "commit_time", "last_end", "last_time")
        columns = {name: np.array([getattr(txn, name) for txn in self.txns], np.int64) for name in names}
        return Transactions(
            xid=np.array([txn.xid for txn in self.txns], np.uint32),
            item_start=np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(ends)],
            item_end=ends,
            flags=np.array([txn.flags for txn in self.txns], np.uint8),
            origin=np.array([txn.origin for txn in self.txns], np.int32),
            begin=np.array([txn.begin for txn in self.txns], np.int32),
            end=np.array([txn.end for txn in self.txns], np.int32),
            **columns,
        )


def _kind(value: bytes | int) -> int:
    if isinstance(value, bytes):
        return it.BINARY if isinstance(value, Sent) else it.TEXT
    return value


class _CellBuilder:
    def __init__(self) -> None:
        self.kind: list[int] = []
        self.start: list[int] = []
        self.length: list[int] = []
        self.text = bytearray()

    def add(self, values: tuple[bytes | int, ...] | None) -> int:
        if values is None:
            return -1
        first = len(self.kind)
        for value in values:
            text = value if isinstance(value, bytes) else b""
            self.kind.append(_kind(value))
            self.start.append(len(self.text))
            self.length.append(len(text))
            self.text += text
        return first

    def cells(self, new_first: list[int], old_first: list[int]) -> Cells:
        return Cells(
            new_first=np.array(new_first, np.int64),
            old_first=np.array(old_first, np.int64),
            kind=np.array(self.kind, np.uint8),
            start=np.array(self.start, np.int64),
            length=np.array(self.length, np.int32),
            text=np.frombuffer(bytes(self.text), np.uint8),
        )


def rows(messages: Messages) -> list[tuple[int, int, bytes]]:
    """Return messages as (LSN, xid, data)."""
    data, ends = messages.data.tobytes(), messages.offsets.tolist()
    parts = [data[a:b] for a, b in pairwise(ends)]
    return list(zip(messages.lsn.tolist(), messages.xid.tolist(), parts, strict=True))


Row = tuple[int, int, bytes]


def print_literal(oid: int, text: bytes) -> bytes:
    """Print a value as print_literal of test_decoding.c does."""
    if oid in (20, 21, 23, 26, 700, 701, 1700):
        return text
    if oid in (1560, 1562):
        return b"B'" + text + b"'"
    if oid == 16:
        return b"true" if text == b"t" else b"false"
    return b"'" + text.replace(b"'", b"''") + b"'"


def tuple_text(schema: RelationSchema, values: tuple[bytes | int, ...] | None, skip_nulls: bool) -> bytes:
    """Print a tuple as tuple_to_stringinfo of test_decoding.c does; names must need no quotes."""
    if values is None:
        return b" (no-tuple-data)"
    words = b""
    for column, value in zip(schema.columns, values, strict=True):
        if column.type is None or (value == it.NULL and skip_nulls):
            continue
        words += f" {column.name}[{column.type.display_name}]:".encode()
        if isinstance(value, bytes):
            words += print_literal(column.type.oid, value)
        else:
            words += b"null" if value == it.NULL else b"unchanged-toast-datum"
    return words


def change_text(schema: RelationSchema, change: Change) -> bytes:
    """Print a change as pg_decode_change of test_decoding.c does."""
    head = f"table {schema.namespace}.{schema.name}: ".encode()
    if change.kind == it.INSERT:
        return head + b"INSERT:" + tuple_text(schema, change.new, False)
    if change.kind == it.DELETE:
        return head + b"DELETE:" + tuple_text(schema, change.old, True)
    old = b"" if change.old is None else b" old-key:" + tuple_text(schema, change.old, True) + b" new-tuple:"
    return head + b"UPDATE:" + old + tuple_text(schema, change.new, False)


def begins_at_once(txn: Txn, skips: bool) -> bool:
    """Tell whether what a slice has of a transaction begins before its first change."""
    return bool(txn.flags & unit_flags.BEGINS_HERE) and not txn.flags & unit_flags.BARE and (not skips or txn.begin > 0)


def has_begun(txn: Txn, skips: bool) -> bool:
    """Tell whether a transaction has begun before the slice, or never begins."""
    if txn.flags & unit_flags.BARE:
        return True
    if skips and not txn.begin:
        return bool(txn.flags & unit_flags.WROTE_BEFORE)
    return not txn.flags & unit_flags.BEGINS_HERE


def framed(part: Slice, literal: int, line: bytes) -> list[bytes]:
    """Return the messages of a literal, or a line where there is none."""
    return list(part.literals[literal - 1]) if literal else [line]


def plain_test_decoding(part: Slice, xids: bool, skip: bool, messages_count: bool) -> list[Row]:
    """Write what test_decoding writes for a slice."""
    result: list[Row] = []
    for txn in part.txns:
        suffix = f" {txn.xid}".encode() if xids else b""
        bare, wrote = bool(txn.flags & unit_flags.BARE), has_begun(txn, skip)
        begin = framed(part, txn.begin, b"BEGIN" + suffix)
        if begins_at_once(txn, skip):
            result += [(txn.first_lsn, txn.xid, line) for line in begin]
            wrote = True
        for change in (c for c in txn.changes if c.kind < it.TOAST):
            ready = part.literals[change.layout] if change.kind == it.LITERAL else None
            if ready == ():
                continue
            counts = messages_count or ready is None or ready[0][:1] != b"m"
            if not wrote and counts:
                result += [(change.lsn, txn.xid, line) for line in begin]
                wrote = True
            lines = [change_text(part.schemas[change.layout], change)] if ready is None else ready
            result += [(change.lsn, txn.xid, line) for line in lines]
        if txn.flags & unit_flags.ENDS_HERE and not bare and wrote:
            end = framed(part, txn.end, b"COMMIT" + suffix)
            result += [(txn.end_lsn, txn.xid, line) for line in end]
    return result


def wire_tuple(mark: bytes, sent: Sequence[int], values: tuple[bytes | int, ...]) -> bytes:
    """Write a tuple as logicalrep_write_tuple of proto.c does, for the columns at the places given."""
    data = mark + struct.pack(">H", len(sent))
    for place in sent:
        value = values[place]
        if isinstance(value, bytes):
            data += b"t" + struct.pack(">I", len(value)) + value
        else:
            data += b"u" if value == it.UNCHANGED else b"n"
    return data


def wire_change(oid: int, full: bool, sent: Sequence[int], change: Change) -> bytes | None:
    """Write a change as logicalrep_write_insert, _update, _delete of proto.c do; None if a tuple is missing."""
    data = {it.INSERT: b"I", it.UPDATE: b"U", it.DELETE: b"D"}[change.kind] + struct.pack(">I", oid)
    if change.kind != it.INSERT and change.old is not None:
        data += wire_tuple(b"O" if full else b"K", sent, change.old)
    if change.kind == it.DELETE:
        return None if change.old is None else data
    return None if change.new is None else data + wire_tuple(b"N", sent, change.new)


def plain_pgoutput(part: Slice, sent: Sequence[Sequence[int]]) -> list[Row]:
    """Write what pgoutput writes for a slice whose layouts send the columns at the places given."""
    result: list[Row] = []
    for txn in part.txns:
        bare, wrote = bool(txn.flags & unit_flags.BARE), has_begun(txn, True)
        begin = framed(part, txn.begin, b"B" + struct.pack(">qqI", txn.commit_lsn, txn.commit_time, txn.xid))
        begin += part.literals[txn.origin - 1] if txn.origin else ()
        if begins_at_once(txn, True):
            result += [(txn.first_lsn, txn.xid, line) for line in begin]
            wrote = True
        for change in (c for c in txn.changes if c.kind < it.TOAST):
            if change.kind == it.LITERAL:
                batch = list(part.literals[change.layout])
            else:
                schema = part.schemas[change.layout]
                full = schema.replica_identity == "f"
                line = wire_change(schema.oid, full, sent[change.layout], change)
                batch = [] if line is None else [line]
                is_told = batch or (change.kind == it.DELETE and wrote)
                if is_told and change.flags & it.SEND_SCHEMA:
                    batch = [*part.schema_messages[change.layout], *batch]
            if batch and not wrote:
                batch = [*begin, *batch]
                wrote = True
            result += [(change.lsn, txn.xid, line) for line in batch]
        if txn.flags & unit_flags.ENDS_HERE and not bare and wrote:
            commit = b"C\0" + struct.pack(">qqq", txn.commit_lsn, txn.end_lsn, txn.commit_time)
            result += [(txn.end_lsn, txn.xid, line) for line in framed(part, txn.end, commit)]
    return result


@dataclass(frozen=True)
class Published:
    """A publication and what is in it: tables, some with column lists or row filters, schemas, tables left out."""

    publication: Publication
    tables: frozenset[int] = frozenset()
    schemas: frozenset[int] = frozenset()
    filtered: frozenset[int] = frozenset()
    lists: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    excepted: frozenset[int] = frozenset()


class Catalog:
    """A catalog view that knows just what it is given."""

    def __init__(self, relations: Sequence[RelationSchema] = (), publications: Sequence[Published] = ()) -> None:
        self._relations = {relation.oid: relation for relation in relations}
        self._publications = {entry.publication.name: entry for entry in publications}

    def relation(self, oid: int) -> RelationSchema | None:
        """Return a relation by OID."""
        return self._relations.get(oid)

    def publication(self, name: str) -> Publication | None:
        """Return a publication by name."""
        entry = self._publications.get(name)
        return entry.publication if entry else None

    def relation_publications(self, oid: int) -> tuple[int, ...]:
        """Return the publications that the relation is in by itself, and negative those that leave it out."""
        out = tuple(-entry.publication.oid for entry in self._publications.values() if oid in entry.excepted)
        return out + tuple(entry.publication.oid for entry in self._publications.values() if oid in entry.tables)

    def publication_member(self, relation: int, publication: int) -> PublicationMember | None:
        """Return what a publication says of a relation."""
        entry = next(candidate for candidate in self._publications.values() if candidate.publication.oid == publication)
        if relation not in entry.tables:
            return None
        return PublicationMember(entry.lists.get(relation), "a filter" if relation in entry.filtered else None)

    def locale(self) -> DatabaseLocale:
        """Return the locale of a database that orders text by its bytes."""
        return DatabaseLocale("C", "C", "c")

    def schema_publications(self, oid: int) -> tuple[int, ...]:
        """Return the publications that the schema is in."""
        return tuple(entry.publication.oid for entry in self._publications.values() if oid in entry.schemas)

    def has_had_publication(self, name: str) -> bool:
        """Tell whether there is such a publication."""
        return name in self._publications
