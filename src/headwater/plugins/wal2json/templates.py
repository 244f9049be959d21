"""The words of wal2json's messages that do not change from row to row, made once for a slice's layouts.

In: the plugin's options and the layouts. Out: :class:`~headwater.plugins.wal2json._render.Words` for the kernel.
Mirrors the texts of wal2json.c 2.5, with its ways: a type's name that begins with a quote stands as it is, and format 2
prints OIDs as signed numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.catalog.type_names import type_name_of
from headwater.plugins.message_buffer import pack
from headwater.plugins.wal2json import _render as k
from headwater.plugins.wal2json.options import Wal2JsonOptions
from headwater.rows.session import SessionSettings

Steps = list[tuple[int, bytes]]
Int64s = NDArray[np.int64]

_NUMBERS = frozenset({20, 21, 23, 26, 700, 701, 1700})
_BOOL, _BYTEA = 16, 17

_SHORT = {8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 0x22: '\\"', 0x5C: "\\\\"}
_ESCAPES = {code: _SHORT.get(code, f"\\u{code:04x}") for code in (*range(0x20), 0x22, 0x5C)}


def json_string(text: bytes) -> bytes:
    """Return a JSON string (escape_json, json.c), in the encoding that the text is in."""
    # Bytes of characters that are not ASCII stay as they are, whatever the encoding: it is a server's.
    return b'"' + text.decode("latin-1").translate(_ESCAPES).encode("latin-1") + b'"'


@dataclass(frozen=True)
class _List:
    """One of the lists that a part of a change is made of.

    Attributes:
        before: the text before it; after: the text after it.
        kind: LIST_OF_WORDS and so on.
        words: the texts before, and after, a column's value.
    """

    before: bytes
    after: bytes
    kind: int
    words: Callable[[Column], tuple[bytes, bytes]]


@dataclass(frozen=True)
class Vocabulary:
    """The words that options ask for.

    Attributes:
        options: the plugin's.
        session: whose settings and encoding count.
    """

    options: Wal2JsonOptions
    session: SessionSettings

    def words(self, schemas: Sequence[RelationSchema]) -> k.Words:
        """Return the words of some layouts.

        Raises:
            CatalogError: a type's modifiers cannot be printed.
        """
        columns = [[column for column in schema.columns if not column.is_dropped] for schema in schemas]
        live = [column for table in columns for column in table]
        steps = [step for preamble in self._preambles for step in preamble]
        lists = [part_list for part in self._parts for part_list in part]
        texts = _Texts()
        return k.Words(
            fixed=texts.add(self._fixed),
            step_first=_starts(self._preambles),
            step=np.array([step for step, _ in steps], np.uint8),
            step_start=texts.add(text for _, text in steps),
            list_first=_starts(self._parts),
            list_start=texts.add(text for part_list in lists for text in (part_list.before, part_list.after)),
            list_kind=np.array([part_list.kind for part_list in lists], np.uint8),
            head_start=texts.add(self._head(schema) for schema in schemas),
            traits=np.array([self._traits(schema) for schema in schemas], np.uint8),
            first=_starts(columns),
            attribute=np.array([column.number - 1 for column in live], np.int32),
            members=np.array(
                [_members(schema, column) for schema, table in zip(schemas, columns, strict=True) for column in table],
                np.uint8,
            ),
            style=np.array([self._style(column) for column in live], np.uint8),
            word_start=texts.add(text for part_list in lists for column in live for text in part_list.words(column)),
            text=texts.packed(),
        )

    # -- what both formats have

    @cached_property
    def _is_first(self) -> bool:
        return self.options.format_version == 1

    @cached_property
    def _space(self) -> bytes:
        return b" " if self.options.is_pretty and self._is_first else b""

    @cached_property
    def _line(self) -> bytes:
        return b"\n" if self.options.is_pretty and self._is_first else b""

    def _tabs(self, count: int) -> bytes:
        return b"\t" * count if self.options.is_pretty and self._is_first else b""

    def _field(self, depth: int, name: str) -> bytes:
        """Return a field's name, up to its value."""
        return self._tabs(depth) + f'"{name}":'.encode() + self._space

    @cached_property
    def _comma(self) -> bytes:
        return b"," + self._line

    @cached_property
    def _fixed(self) -> list[bytes]:
        """The texts that are the same for all layouts, as the kernel numbers them."""
        line, tabs = self._line, self._tabs
        if not self._is_first:
            kinds = [f'{{"action":"{letter}"'.encode() for letter in "IUDMT"]
            return [b"", b"", b"}", b"", b"", b",", *kinds, *([b"]"] * 6)]
        lead = (b"" if self.options.write_in_chunks else line) + tabs(2)
        bare = b"{" + line + self._field(1, "change") + b"[" + line + tabs(2)
        bare_end = tabs(1) + b"]" + line + b"}"
        kinds = [self._kind(word) for word in ("insert", "update", "delete")]
        ends = [b"]" + line, b"]," + line]
        ends += [b"]" + line + tabs(3) + b"}" + line] * 2
        ends += [b"]" + line + tabs(3) + b"}" + line, b"]" + line + tabs(3) + b"}," + line]
        separator = b"," + self._space
        return [lead, b",", tabs(2) + b"}", bare, bare_end, separator, *kinds, b"", b"", *ends]

    def _kind(self, word: str) -> bytes:
        """Return the beginning of a change, or message, of format 1."""
        return b"{" + self._line + self._field(3, "kind") + f'"{word}"'.encode() + self._comma

    def _head(self, schema: RelationSchema) -> bytes:
        """Return a layout's schema and table."""
        names = [("schema", schema.namespace)] if self.options.include_schemas else []
        return b"".join(
            self._field(3, field) + self._string(name) + self._comma
            if self._is_first
            else b"," + self._field(0, field) + self._string(name)
            for field, name in [*names, ("table", schema.name)]
        )

    def _string(self, name: str) -> bytes:
        return json_string(self.session.encoded(name))

    def _traits(self, schema: RelationSchema) -> int:
        has_key, has_identity = bool(schema.primary_key_columns), bool(schema.identity_columns)
        # In format 1 only a replica identity that is the primary key shows it.
        shows = self.options.include_pk and has_identity and schema.replica_identity == "d"
        return k.FINDS_IDENTITY * (has_key or has_identity) | k.SHOWS_KEY * shows

    @cached_property
    def _preambles(self) -> list[Steps]:
        return self._preambles_1() if self._is_first else self._preambles_2()

    @cached_property
    def _parts(self) -> list[list[_List]]:
        return self._parts_1() if self._is_first else self._parts_2()

    # -- format 1

    def _preambles_1(self) -> list[Steps]:
        options = self.options
        fields: list[tuple[bool, str, Steps]] = [
            (options.include_xids, "xid", [(k.SAY_XID, b"")]),
            (options.include_lsn, "nextlsn", _quoted(k.SAY_END)),
            (options.include_timestamp, "timestamp", _quoted(k.SAY_TIME)),
            (options.include_origin, "origin", [(k.SAY_ORIGIN, b"")]),
        ]
        begin: Steps = [(k.SAY_TEXT, b"{" + self._line)]
        for _, name, steps in (field for field in fields if field[0]):
            begin += [(k.SAY_TEXT, self._field(1, name)), *steps, (k.SAY_TEXT, self._comma)]
        begin.append((k.SAY_TEXT, self._field(1, "change") + b"["))
        line = b"" if options.write_in_chunks else self._line
        return [begin, [(k.SAY_TEXT, line + self._tabs(1) + b"]" + self._line + b"}")], [], []]

    def _parts_1(self) -> list[list[_List]]:
        options = self.options
        key = self._field(3, "pk") + b"{" + self._line
        identity = self._field(3, "oldkeys") + b"{" + self._line
        types = k.LIST_OF_WORDS if options.include_types else k.LIST_OF_NOTHING
        columns = [
            self._list("columnnames", 3, self._name),
            *([self._list("columntypes", 3, self._type_name)] if options.include_types else []),
            *([self._list("columntypeoids", 3, self._type_oid)] if options.include_type_oids else []),
            *([self._list("columnpositions", 3, _position)] if options.include_column_positions else []),
            *([self._list("columnoptionals", 3, _optional, types)] if options.include_not_null else []),
            self._last("columnvalues", 3, _nothing, k.LIST_OF_VALUES),
        ]
        identities = [
            self._list("keynames", 4, self._name, before=identity),
            *([self._list("keytypes", 4, self._type_name)] if options.include_types else []),
            *([self._list("keytypeoids", 4, self._type_oid)] if options.include_type_oids else []),
            self._last("keyvalues", 4, _nothing, k.LIST_OF_VALUES),
        ]
        keys = [
            self._list("pknames", 4, self._name, before=key),
            self._last("pktypes", 4, self._key_type_name, types),
        ]
        return [columns, identities, keys]

    def _list(
        self, name: str, depth: int, of: Callable[[Column], bytes], kind: int = k.LIST_OF_WORDS, before: bytes = b""
    ) -> _List:
        return _List(
            before + self._field(depth, name) + b"[", b"]" + self._comma, kind, lambda column: (of(column), b"")
        )

    def _last(self, name: str, depth: int, of: Callable[[Column], bytes], kind: int) -> _List:
        """Return a list whose end is that of its part."""
        return _List(self._field(depth, name) + b"[", b"", kind, lambda column: (of(column), b""))

    def _name(self, column: Column) -> bytes:
        return self._string(column.name)

    def _type_name(self, column: Column) -> bytes:
        return self._as_name(self._type_text(column), is_key=False)

    def _key_type_name(self, column: Column) -> bytes:
        return self._as_name(self._type_text(column), is_key=True)

    def _as_name(self, text: str, *, is_key: bool) -> bytes:
        """Return a name; one that is quoted already stands as it is, that of an array only in the list of a key."""
        if text.startswith('"') and (is_key or not text.endswith("]")):
            return self.session.encoded(text)
        return self._string(text)

    def _type_text(self, column: Column) -> str:
        """Return a type's name: format 2 does not know of ``include-typmod``."""
        info, typmod = _type(column), column.typmod
        if self.options.include_domain_data_type and info.domain_of is not None:
            info, typmod = info.domain_of, info.domain_typmod
        if self._is_first and not self.options.include_typmod:
            return info.name
        return type_name_of(info, typmod)

    def _told_type(self, column: Column) -> TypeInfo:
        """Return the type that format 1 takes for the OID and the value.

        With the domain's name its own OID is forgotten.
        """
        info = _type(column)
        options = self.options
        is_replaced = self._is_first and options.include_types and options.include_domain_data_type
        return info.domain_of if is_replaced and info.domain_of is not None else info

    def _type_oid(self, column: Column) -> bytes:
        return str(self._told_type(column).oid).encode()

    def _style(self, column: Column) -> int:
        oid = self._told_type(column).oid
        if oid in _NUMBERS:
            return k.NUMBER
        return k.BOOL if oid == _BOOL else k.HEX if oid == _BYTEA else k.QUOTED

    # -- format 2

    def _preambles_2(self) -> list[Steps]:
        options = self.options
        inside: Steps = []
        if options.include_xids:
            inside += [(k.SAY_TEXT, b',"xid":'), (k.SAY_XID, b"")]
        if options.include_timestamp:
            inside += [(k.SAY_TEXT, b',"timestamp":'), *_quoted(k.SAY_TIME)]
        if options.include_origin:
            inside += [(k.SAY_TEXT, b',"origin":'), (k.SAY_ORIGIN, b"")]
        names = {"xid": options.include_xids, "timestamp": options.include_timestamp, "origin": options.include_origin}
        bare: Steps = [(k.SAY_TEXT, f',"{name}":null'.encode()) for name, is_told in names.items() if is_told]
        lsn: Steps = [(k.SAY_TEXT, b',"lsn":'), *_quoted(k.SAY_LSN)] if options.include_lsn else []
        ends: Steps = []
        if options.include_lsn:
            ends = [(k.SAY_TEXT, b',"lsn":'), *_quoted(k.SAY_COMMIT), (k.SAY_TEXT, b',"nextlsn":'), *_quoted(k.SAY_END)]
        boundaries = [
            [(k.SAY_TEXT, b'{"action":"%c"' % letter), *inside, *ends, (k.SAY_TEXT, b"}")] for letter in b"BC"
        ]
        return [*boundaries, [*inside, *lsn], [*bare, *lsn]]

    def _parts_2(self) -> list[list[_List]]:
        return [
            [_List(b',"columns":[', b"", k.LIST_OF_VALUES, lambda column: (self._object(column), self._more(column)))],
            [_List(b',"identity":[', b"", k.LIST_OF_VALUES, lambda column: (self._object(column), b"}"))],
            [_List(b',"pk":[', b"", k.LIST_OF_WORDS, lambda column: (self._described(column), b"}"))],
        ]

    def _described(self, column: Column) -> bytes:
        made = b'{"name":' + self._name(column)
        if self.options.include_types:
            made += b',"type":' + self._type_name(column)
        if self.options.include_type_oids:
            oid = _type(column).oid
            made += f',"typeoid":{oid - (1 << 32) if oid >= 1 << 31 else oid}'.encode()
        return made

    def _object(self, column: Column) -> bytes:
        return self._described(column) + b',"value":'

    def _more(self, column: Column) -> bytes:
        """Return the text after a value of a new tuple."""
        text = b',"optional":' + _optional(column) if self.options.include_not_null else b""
        if self.options.include_column_positions:
            text += b',"position":' + _position(column)
        return text + b"}"

    # -- literals

    def message(self, transactional: bool, prefix: bytes, content: bytes) -> bytes:
        """Return a logical message, as the kernel takes it."""
        words = [json_string(text.partition(b"\0")[0]) for text in (prefix, content)]
        is_inside = b"true" if transactional else b"false"
        if not self._is_first:
            return b'M,"transactional":%b,"prefix":%b,"content":%b}' % (is_inside, *words)
        fields = zip(("transactional", "prefix", "content"), (is_inside, *words), strict=True)
        body = self._comma.join(self._field(3, name) + value for name, value in fields)
        return self._kind("message") + body + self._line + self._tabs(2) + b"}" + (b"" if transactional else self._line)

    def truncate(self, schema: RelationSchema) -> bytes:
        """Return a truncated table of format 2, as the kernel takes it."""
        return b"T" + self._head(schema) + b"}"


class _Texts:
    """Texts, one after the other."""

    def __init__(self) -> None:
        self._texts: list[bytes] = []
        self._size = 0

    def add(self, texts: Iterable[bytes]) -> Int64s:
        """Append some texts; return int64[n+1] where they are."""
        texts = list(texts)
        ends = accumulate(map(len, texts), initial=self._size)
        starts = np.array(list(ends), np.int64)
        self._texts += texts
        self._size = int(starts[-1])
        return starts

    def packed(self) -> NDArray[np.uint8]:
        """Return all texts."""
        return pack(self._texts)[1]


def _starts(groups: Sequence[Sequence[object]]) -> Int64s:
    return np.cumsum([0] + [len(group) for group in groups], dtype=np.int64)


def _quoted(step: int) -> Steps:
    return [(k.SAY_TEXT, b'"'), (step, b""), (k.SAY_TEXT, b'"')]


def _members(schema: RelationSchema, column: Column) -> int:
    """Return the members bits of a column; without a replica identity index, the identity is all columns."""
    in_identity = not schema.identity_columns or column.number in schema.identity_columns
    return k.IS_IDENTITY * in_identity | k.IS_KEY * (column.number in schema.primary_key_columns)


def _type(column: Column) -> TypeInfo:
    assert column.type is not None
    return column.type


def _nothing(_column: Column) -> bytes:
    return b""


def _position(column: Column) -> bytes:
    return str(column.number).encode()


def _optional(column: Column) -> bytes:
    return b"false" if column.not_null else b"true"
