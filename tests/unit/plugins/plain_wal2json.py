"""The messages of wal2json for a slice, in plain Python: both formats value by value, as its source has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.catalog.relation import Column, RelationSchema
from headwater.plugins.wal2json.options import Wal2JsonOptions
from headwater.reorder import unit_flags
from headwater.rows import items as it
from unit.plugins.plugin_slices import Change, Row, Slice, Txn

Values = tuple[bytes | int, ...]

_SHORT = {8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}


def escaped(text: bytes) -> bytes:
    """Escape a text as escape_json of json.c does."""
    made = (_SHORT.get(byte, b"\\u%04x" % byte if byte < 32 else bytes([byte])) for byte in text)
    return b'"' + b"".join(made) + b'"'


def value_text(oid: int, value: bytes | int) -> bytes:
    """Write a value as pg_decode_write_value does."""
    if not isinstance(value, bytes):
        return b"null"
    if oid in (20, 21, 23, 26, 700, 701, 1700):
        return b"null" if value.lower().lstrip(b"-")[:3] in (b"nan", b"inf") else value
    if oid == 16:
        return b"true" if value == b"t" else b"false"
    return escaped(value[2:] if oid == 17 else value)


def lsn_text(lsn: int) -> bytes:
    """Print an LSN as pg_lsn_out does."""
    return b"%X/%X" % (lsn >> 32, lsn & 0xFFFFFFFF)


def shown(
    schema: RelationSchema, values: Values | None, only: tuple[int, ...], skip_nulls: bool
) -> Iterator[tuple[Column, bytes | int]]:
    """Give the columns that are printed; of those whose numbers are given, if there are any."""
    for place, column in enumerate(schema.columns):
        value: bytes | int = b"" if values is None else values[place]
        if column.type is None or (only and column.number not in only) or value == it.UNCHANGED:
            continue
        if not (skip_nulls and value == it.NULL):
            yield column, value


def oid_of(column: Column) -> int:
    """Return the OID of a column's type."""
    assert column.type is not None
    return column.type.oid


def type_text(column: Column) -> bytes:
    """Return a type's name, for types without modifiers."""
    assert column.type is not None
    return escaped(column.type.display_name.encode())


@dataclass
class Plain:
    """One slice under some options."""

    part: Slice
    options: Wal2JsonOptions
    many_before: bool = False

    def __post_init__(self) -> None:
        pretty = self.options.is_pretty
        self.tab, self.line, self.space = (b"\t", b"\n", b" ") if pretty else (b"", b"", b"")

    def rows(self) -> list[Row]:
        """Make all messages."""
        return self.rows_1() if self.options.format_version == 1 else self.rows_2()

    def is_sent(self, change: Change) -> bool:
        """Tell whether a change gives a message."""
        if change.kind == it.LITERAL:
            return bool(self.part.literals[change.layout])
        if change.kind >= it.TOAST:
            return False
        return (change.old if change.kind == it.DELETE else change.new) is not None

    def origin(self, txn: Txn) -> bytes:
        """Return the id of a transaction's origin."""
        return self.part.literals[txn.origin - 1][0] if txn.origin else b"0"

    # -- format 1

    def rows_1(self) -> list[Row]:
        """Make messages of format 1."""
        rows: list[Row] = []
        counted = 2 if self.many_before else 0
        for txn in self.part.txns:
            changes = [change for change in txn.changes if self.is_sent(change)]
            if txn.flags & unit_flags.BARE:
                rows += [(change.lsn, txn.xid, self.bare_1(change, counted > 1)) for change in changes]
                continue
            pieces = [(txn.first_lsn, self.begin_1(txn))]
            for counted, change in enumerate(changes, 1):
                newline = b"" if self.options.write_in_chunks else self.line
                lead = newline + 2 * self.tab + (b"," if counted > 1 else b"")
                pieces.append((change.lsn, lead + self.change_1(change)))
            counted = len(changes)
            end = b"" if self.options.write_in_chunks else self.line
            pieces.append((txn.end_lsn, end + self.tab + b"]" + self.line + b"}"))
            if self.options.write_in_chunks:
                rows += [(lsn, txn.xid, text) for lsn, text in pieces]
            else:
                rows.append((txn.end_lsn, txn.xid, b"".join(text for _, text in pieces)))
        return rows

    def field(self, depth: int, name: bytes, value: bytes, end: bytes = b",") -> bytes:
        """Write a field on a line of its own."""
        return depth * self.tab + b'"' + name + b'":' + self.space + value + end + self.line

    def begin_1(self, txn: Txn) -> bytes:
        """Begin a transaction as pg_decode_begin_txn_v1 does."""
        text = b"{" + self.line
        if self.options.include_xids:
            text += self.field(1, b"xid", b"%d" % txn.xid)
        if self.options.include_lsn:
            text += self.field(1, b"nextlsn", b'"' + lsn_text(txn.end_lsn) + b'"')
        if self.options.include_origin:
            text += self.field(1, b"origin", self.origin(txn))
        return text + self.tab + b'"change":' + self.space + b"["

    def bare_1(self, change: Change, comma: bool) -> bytes:
        """Write a message that is in no transaction."""
        lead = b"{" + self.line + self.tab + b'"change":' + self.space + b"[" + self.line + 2 * self.tab
        body = (b"," if comma else b"") + self.part.literals[change.layout][0]
        return lead + body + self.tab + b"]" + self.line + b"}"

    def change_1(self, change: Change) -> bytes:
        """Write a change as pg_decode_change_v1 does, or a message."""
        if change.kind == it.LITERAL:
            return self.part.literals[change.layout][0]
        schema, options = self.part.schemas[change.layout], self.options
        kind = {it.INSERT: b"insert", it.UPDATE: b"update", it.DELETE: b"delete"}[change.kind]
        text = b"{" + self.line + self.field(3, b"kind", b'"' + kind + b'"')
        if options.include_schemas:
            text += self.field(3, b"schema", escaped(schema.namespace.encode()))
        text += self.field(3, b"table", escaped(schema.name.encode()))
        identity = schema.identity_columns
        has_key = options.include_pk and bool(identity) and schema.replica_identity == "d"
        if change.kind != it.DELETE:
            more = change.kind == it.UPDATE or has_key
            text += self.lists_1(schema, change.new, (), "column", more)
        if has_key:
            text += self.key_1(schema, change.kind != it.INSERT)
        if change.kind == it.UPDATE and change.old is None:
            text += self.lists_1(schema, change.new, identity, "key", False)
        elif change.kind != it.INSERT:
            text += self.lists_1(schema, change.old, identity if change.kind == it.DELETE else (), "key", False)
        return text + 2 * self.tab + b"}"

    def listed(self, parts: list[bytes]) -> bytes:
        """Write a list."""
        return b"[" + (b"," + self.space).join(parts) + b"]"

    def lists_1(
        self, schema: RelationSchema, values: Values | None, only: tuple[int, ...], word: str, more: bool
    ) -> bytes:
        """Write the lists of a tuple as tuple_to_stringinfo does."""
        is_key, options, name = word == "key", self.options, word.encode()
        pairs = list(shown(schema, values, only, is_key))
        depth = 4 if is_key else 3
        text = 3 * self.tab + b'"oldkeys":' + self.space + b"{" + self.line if is_key else b""
        text += self.field(depth, name + b"names", self.listed([escaped(c.name.encode()) for c, _ in pairs]))
        if options.include_types:
            text += self.field(depth, name + b"types", self.listed([type_text(c) for c, _ in pairs]))
        if options.include_type_oids:
            text += self.field(depth, name + b"typeoids", self.listed([b"%d" % oid_of(c) for c, _ in pairs]))
        if options.include_column_positions and not is_key:
            text += self.field(depth, name + b"positions", self.listed([b"%d" % c.number for c, _ in pairs]))
        if options.include_not_null and not is_key:
            optionals = [b"false" if c.not_null else b"true" for c, _ in pairs if options.include_types]
            text += self.field(depth, name + b"optionals", self.listed(optionals))
        texts = [value_text(oid_of(c), value) for c, value in pairs]
        text += self.field(depth, name + b"values", self.listed(texts), b"," if more else b"")
        return text + (3 * self.tab + b"}" + self.line if is_key else b"")

    def key_1(self, schema: RelationSchema, more: bool) -> bytes:
        """Write the primary key as pk_to_stringinfo does."""
        columns = [column for column, _ in shown(schema, None, schema.primary_key_columns, False)]
        types = [type_text(column) for column in columns if self.options.include_types]
        text = 3 * self.tab + b'"pk":' + self.space + b"{" + self.line
        text += self.field(4, b"pknames", self.listed([escaped(column.name.encode()) for column in columns]))
        text += self.field(4, b"pktypes", self.listed(types), b"")
        return text + 3 * self.tab + (b"}," if more else b"}") + self.line

    # -- format 2

    def rows_2(self) -> list[Row]:
        """Make messages of format 2."""
        rows: list[Row] = []
        for txn in self.part.txns:
            is_bare = bool(txn.flags & unit_flags.BARE)
            has_boundaries = self.options.include_transaction and not is_bare
            if has_boundaries:
                rows.append((txn.first_lsn, txn.xid, self.boundary_2(b"B", txn)))
            for change in filter(self.is_sent, txn.changes):
                lsn = b',"lsn":"' + lsn_text(change.lsn) + b'"' if self.options.include_lsn else b""
                preamble = (self.null_preamble() if is_bare else self.preamble(txn)) + lsn
                rows += [(change.lsn, txn.xid, text) for text in self.change_2(change, preamble)]
            if has_boundaries:
                rows.append((txn.end_lsn, txn.xid, self.boundary_2(b"C", txn)))
        return rows

    def preamble(self, txn: Txn) -> bytes:
        """Write what a message has of its transaction."""
        text = b',"xid":%d' % txn.xid if self.options.include_xids else b""
        return text + (b',"origin":' + self.origin(txn) if self.options.include_origin else b"")

    def null_preamble(self) -> bytes:
        """Write the same of no transaction."""
        text = b',"xid":null' if self.options.include_xids else b""
        return text + (b',"origin":null' if self.options.include_origin else b"")

    def boundary_2(self, letter: bytes, txn: Txn) -> bytes:
        """Write a boundary as pg_decode_begin_txn_v2 and pg_decode_commit_txn_v2 do."""
        text = b'{"action":"' + letter + b'"' + self.preamble(txn)
        if self.options.include_lsn:
            text += b',"lsn":"%b","nextlsn":"%b"' % (lsn_text(txn.commit_lsn), lsn_text(txn.end_lsn))
        return text + b"}"

    def change_2(self, change: Change, preamble: bytes) -> Iterator[bytes]:
        """Write a change as pg_decode_write_change does, or messages."""
        if change.kind == it.LITERAL:
            for literal in self.part.literals[change.layout]:
                yield b'{"action":"' + literal[:1] + b'"' + preamble + literal[1:]
            return
        schema, options = self.part.schemas[change.layout], self.options
        letter = {it.INSERT: b"I", it.UPDATE: b"U", it.DELETE: b"D"}[change.kind]
        text = b'{"action":"' + letter + b'"' + preamble
        if options.include_schemas:
            text += b',"schema":' + escaped(schema.namespace.encode())
        text += b',"table":' + escaped(schema.name.encode())
        if change.kind != it.DELETE:
            text += b',"columns":' + self.objects(schema, change.new, (), "columns")
        if change.old is not None:
            text += b',"identity":' + self.objects(schema, change.old, schema.identity_columns, "identity")
        elif schema.primary_key_columns or schema.identity_columns:
            text += b',"identity":' + self.objects(schema, change.new, schema.identity_columns, "identity") * (
                change.kind == it.UPDATE
            )
            text = text.removesuffix(b',"identity":')
        if options.include_pk:
            held = change.new if change.old is None else change.old
            key = schema.primary_key_columns
            text += b',"pk":' + (self.objects(schema, held, key, "pk") if key else b"[]")
        yield text + b"}"

    def objects(self, schema: RelationSchema, values: Values | None, only: tuple[int, ...], part: str) -> bytes:
        """Write columns as pg_decode_write_tuple does."""
        options, made = self.options, []
        for column, value in shown(schema, values, only, False):
            text = b'{"name":' + escaped(column.name.encode())
            if options.include_types:
                text += b',"type":' + type_text(column)
            if options.include_type_oids:
                text += b',"typeoid":%d' % oid_of(column)
            if part != "pk":
                text += b',"value":' + value_text(oid_of(column), value)
            if part == "columns" and options.include_not_null:
                text += b',"optional":' + (b"false" if column.not_null else b"true")
            if part == "columns" and options.include_column_positions:
                text += b',"position":%d' % column.number
            made.append(text + b"}")
        return b"[" + b",".join(made) + b"]"
