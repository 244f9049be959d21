"""The words of debezium's events that do not change from event to event, made once for a slice's layouts.

In: the plugin's options and the layouts. Out: :class:`~headwater.plugins.debezium._render.Words` for the kernel, and
the templates of truncates and logical messages. Mirrors ``Envelope``, ``SourceInfoStructMaker``,
``TransactionStructMaker`` and ``LogicalDecodingMessageMonitor`` of Debezium 3.6.1, as ``JsonConverter`` of Kafka
Connect prints them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import Column, RelationSchema
from headwater.plugins._plan import Int64s
from headwater.plugins.debezium import _events as events
from headwater.plugins.debezium import _render as k
from headwater.plugins.debezium.column_types import Form, Forms, Schema, field_schema, json_text
from headwater.plugins.debezium.defaults import default_value
from headwater.plugins.debezium.options import DebeziumOptions
from headwater.plugins.debezium.schemas import (
    MESSAGE_KEY,
    PLACE,
    SOURCE,
    TIMES,
    TRANSACTION,
    TRANSACTION_KEY,
    field,
    mark,
    struct,
)
from headwater.plugins.message_buffer import pack
from headwater.rows.session import SessionSettings

VERSION = "3.6.1.Final"
"""The version of Debezium whose events these are."""

UNCOUNTED_TABLE = b"\1"
"""The name that stands for the table of a ready-made event that is not counted in its transaction."""

SILENT_MESSAGE = b""
"""A ready-made message that gives no event: its transaction is one that the connector has seen."""

_LONGEST_TOPIC = 249


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary that makes words, by options.

    Attributes:
        options: the plugin's options.
        session: the session in whose encoding the words are.
        database: the database's name.
    """

    options: DebeziumOptions
    session: SessionSettings
    database: str

    def shown(self, schema: RelationSchema) -> list[tuple[Column, Form]]:
        """Return the columns that events have, with their forms.

        Raises:
            PluginError: a column cannot be shown yet.
        """
        live = (column for column in schema.columns if not column.is_dropped and not _is_generated(column))
        forms = ((column, self._forms.form(column)) for column in live)
        return [(column, form) for column, form in forms if form is not None]

    def words(self, schemas: Sequence[RelationSchema], ready_made: Sequence[bytes]) -> tuple[k.Words, events.Keys]:
        """Make the words and keys of some layouts and ready-made messages.

        Args:
            schemas: the layouts.
            ready_made: the ready-made messages, origins among them.
        """
        layouts = [_Layout.of(self, schema) for schema in schemas]
        numbers: dict[bytes, int] = {}
        names = [self._inside(layout.table) for layout in layouts]
        tables = [numbers.setdefault(name, len(numbers)) for name in names]
        heads = [_made_head(message) for message in ready_made]
        made_tables = [_made_table(name, numbers) for name, _ in heads]
        columns = [column for layout in layouts for column in layout.columns]
        firsts = _starts([layout.columns for layout in layouts])
        texts = _Texts(self.session)
        words = k.Words(
            template=texts.add([*(text for layout in layouts for text in layout.templates), *self._frames]),
            first=firsts,
            attribute=np.array([column.number - 1 for column, _ in columns], np.int32),
            style=np.array([form.style for _, form in columns], np.uint16),
            parameter=np.array([form.parameter for _, form in columns], np.int32),
            optional=np.array([not column.not_null for column, _ in columns], np.uint8),
            word=texts.add([text for column, form in columns for text in _column_words(column, form)]),
            key_column=np.array(
                [first + place for layout, first in zip(layouts, firsts, strict=False) for place in layout.key],
                np.int32,
            ),
            table=texts.add_encoded(list(numbers)),
            made=np.array([start for _, start in heads], np.int64),
            text=texts.packed(),
        )
        keys = events.Keys(
            first=_starts([layout.key for layout in layouts]),
            attribute=words.attribute[words.key_column],
            table=np.array(tables, np.int32),
            made_table=np.array(made_tables, np.int32),
        )
        return words, keys

    @cached_property
    def _forms(self) -> Forms:
        return Forms(self.options)

    # -- parts of events

    def topic(self, name: str) -> str:
        """Make a topic's name, in which only some characters are allowed (sanitizedTopicName)."""
        return re.sub(r"[^A-Za-z0-9._-]", "_", f"{self.options.topic_prefix}.{name}")[:_LONGEST_TOPIC]

    def event(self, topic: str, key: str, value: str, headers: str = "") -> str:
        """Make an event's template."""
        if self.options.event_form == "value":
            return value
        return f'{{"topic":{json_text(topic)}{headers},"key":{key},"value":{value}}}'

    def key(self, schema: Schema, payload: str) -> str:
        """Make a key, with its schema if that is wanted."""
        return _with_schema(schema, payload) if self.options.key_schemas else payload

    def header(self, schema: Schema, payload: str) -> str:
        """Make a header, with its schema if that is wanted."""
        return _with_schema(schema, payload) if self.options.header_schemas else payload

    def value(self, schema: Schema, payload: str) -> str:
        """Make a value, with its schema if that is wanted."""
        return _with_schema(schema, payload) if self.options.value_schemas else payload

    def source(self, namespace: str, table: str) -> str:
        """Make the block ``source``, the origin of an event."""
        head = {"version": VERSION, "connector": "postgresql", "name": self.options.topic_prefix}
        place = json_text({"schema": namespace, "table": table})[1:-1]
        return (
            f'{json_text(head)[:-1]},"ts_ms":{mark(k.MILLIS)},"snapshot":"false","db":{json_text(self.database)},'
            f'"sequence":"[{mark(k.SEQUENCE)}]","ts_us":{mark(k.MICROS)},"ts_ns":{mark(k.NANOS)},{place},'
            f'"txId":{mark(k.XID)},"lsn":{mark(k.LSN)},"xmin":null,"origin":{mark(k.ORIGIN)}}}'
        )

    def change(self, envelope: Schema, source: str, operation: str, before: str, after: str) -> str:
        """Make the value of a change of a row, or of a truncate."""
        return self.value(
            envelope,
            f'{{"before":{before},"after":{after},"source":{source},"transaction":{mark(k.TRANSACTION)},'
            f'"op":"{operation}","ts_ms":{mark(k.MILLIS)},"ts_us":{mark(k.MICROS)},"ts_ns":{mark(k.NANOS)}}}',
        )

    @cached_property
    def _frames(self) -> list[str]:
        """The templates of a transaction's begin and end."""
        key = self.key(TRANSACTION_KEY, f'{{"id":{mark(k.ID)}}}')
        return [
            self.event(
                self.topic("transaction"),
                key,
                self.value(
                    TRANSACTION,
                    f'{{"status":"{status}","id":{mark(k.ID)},"event_count":{count},"data_collections":{tables},'
                    f'"ts_ms":{mark(k.MILLIS)}}}',
                ),
            )
            for status, count, tables in (("BEGIN", "null", "null"), ("END", mark(k.COUNT), mark(k.TABLES)))
        ]

    # -- literals

    def truncate(self, schema: RelationSchema) -> bytes:
        """Make the template of a truncate, after its table's name."""
        layout = _Layout.of(self, schema)
        value = self.change(layout.envelope, layout.source, "t", "null", "null")
        event = self.event(layout.topic, "null", value)
        return self._inside(layout.table) + b"\0" + self.session.encoded(event)

    def _inside(self, name: str) -> bytes:
        """Escape a text as it stands in a JSON string."""
        return self.session.encoded(json_text(name)[1:-1])

    def message(self, prefix: bytes, content: bytes) -> bytes:
        """Make the template of a logical message, after an empty table's name."""
        prefix_text = json_text(prefix.decode("latin-1")).encode("latin-1")
        shown = self._content(content)
        source = self.source("", "")
        key = self.session.encoded(self.key(MESSAGE_KEY, '{"prefix":\0}'))
        value = self.session.encoded(
            self.value(
                self._message_schema,
                f'{{"op":"m","ts_ms":{mark(k.MILLIS)},"source":{source},"transaction":{mark(k.TRANSACTION)},'
                f'"message":{{"prefix":\0,"content":{json_text(shown)}}}}}',
            )
        )
        event = self.event(self.topic("message"), "\1", "\2").encode()
        template = event.replace(b"\1", key).replace(b"\2", value) if b"\1" in event else value
        return b"\0" + template.replace(b"\0", prefix_text)

    def _content(self, content: bytes) -> str:
        mode = self.options.binary_mode
        if mode == "hex":
            return content.hex()
        return (base64.urlsafe_b64encode if mode == "base64-url-safe" else base64.b64encode)(content).decode()

    @cached_property
    def _message_schema(self) -> Schema:
        content = field("bytes" if self.options.binary_mode == "bytes" else "string", "content", optional=True)
        message = struct(
            [field("string", "prefix", optional=True), content], "io.debezium.connector.postgresql.Message"
        )
        return struct(
            [field("string", "op"), TIMES[0], SOURCE, PLACE, message | {"field": "message"}],
            "io.debezium.connector.postgresql.MessageValue",
        )

    def origin(self, name: str, lsn: int) -> bytes:
        """Make the text that replaces an origin's mark."""
        return self.session.encoded(f'{json_text(name)},"origin_lsn":{lsn}')


@dataclass(frozen=True)
class _Layout:
    """A relation's templates and columns.

    Attributes:
        table: ``schema.table``.
        topic: its topic.
        columns: the columns that events have.
        key: the indexes in `columns` of the key's columns.
        envelope: the schema of its values.
        source: the source block.
        templates: the templates, by kind of event.
    """

    table: str
    topic: str
    columns: tuple[tuple[Column, Form], ...]
    key: tuple[int, ...]
    envelope: Schema
    source: str
    templates: tuple[str, ...]

    @classmethod
    def of(cls, vocabulary: Vocabulary, schema: RelationSchema) -> _Layout:
        """Make the words of a relation."""
        columns = tuple(vocabulary.shown(schema))
        places = {column.number: place for place, (column, _) in enumerate(columns)}
        key = tuple(places[number] for number in key_columns(schema) if number in places)
        table = f"{schema.namespace}.{schema.name}"
        topic = vocabulary.topic(table)
        fields = [
            field_schema(form, column.name, not column.not_null, default_value(column, form))
            for column, form in columns
        ]
        rows = struct(fields, f"{topic}.Value", optional=True, version=None)
        envelope = struct(
            [rows | {"field": "before"}, rows | {"field": "after"}, SOURCE, PLACE, field("string", "op"), *TIMES],
            f"{topic}.Envelope",
            version=2,
        )
        key_schema = struct([fields[place] for place in key], f"{topic}.Key", version=None)
        source = vocabulary.source(schema.namespace, schema.name)
        layout = cls(table, topic, columns, key, envelope, source, ())
        return cls(table, topic, columns, key, envelope, source, layout._templates(vocabulary, key_schema))

    def _templates(self, vocabulary: Vocabulary, key_schema: Schema) -> tuple[str, ...]:
        def event(value: str, header: str = "") -> str:
            other = vocabulary.header(key_schema, mark(k.OTHER_KEY))
            headers = f',"headers":{{"{header}":{other}}}' if header else ""
            key = vocabulary.key(key_schema, mark(k.KEY)) if self.key else "null"
            return vocabulary.event(self.topic, key, value, headers)

        def change(operation: str, before: str, after: str) -> str:
            return vocabulary.change(self.envelope, self.source, operation, before, after)

        before, after = mark(k.BEFORE), mark(k.AFTER)
        created, deleted = change("c", "null", after), change("d", before, "null")
        return (
            event(created),
            event(change("u", before, after)),
            event(deleted),
            event("null"),
            event(deleted, "__debezium.newkey"),
            event("null", "__debezium.newkey"),
            event(created, "__debezium.oldkey"),
        )


def key_columns(schema: RelationSchema) -> tuple[int, ...]:
    """Return the numbers of the columns of a relation's key: those of its primary key, else of a unique index."""
    return schema.primary_key_columns or schema.unique_columns


def _is_generated(column: Column) -> bool:
    return column.generated != ""


def _column_words(column: Column, form: Form) -> tuple[str, str, str]:
    """Make the words of a column: its comma and name before a value, the word for NULL, and the placeholder."""
    default = default_value(column, form) if column.not_null else None
    null = "null" if not column.not_null else form.zero if default is None else json_text(default)
    placeholder = form.placeholder if not column.not_null or form.placeholder != "null" else ""
    return f",{json_text(column.name)}:", null, placeholder


def _made_head(message: bytes) -> tuple[bytes | None, int]:
    """Return a ready-made message's table, empty for none, None if there is no event; and where its template begins."""
    name, separator, _ = message.partition(b"\0")
    return (name if separator else None), len(name) + len(separator)


def _made_table(name: bytes | None, numbers: dict[bytes, int]) -> int:
    """Return the number of a ready-made message's table."""
    if name is None:
        return events.SILENT
    if name == UNCOUNTED_TABLE:
        return events.UNCOUNTED
    return numbers.setdefault(name, len(numbers)) if name else events.NO_TABLE


def _with_schema(schema: Schema, payload: str) -> str:
    return f'{{"schema":{json_text(schema)},"payload":{payload}}}'


class _Texts:
    """A collection of texts, one after the other."""

    def __init__(self, session: SessionSettings) -> None:
        self._session = session
        self._texts: list[bytes] = []
        self._size = 0

    def add(self, texts: Sequence[str]) -> Int64s:
        """Append texts; return int64[n+1], the offsets of these texts."""
        return self.add_encoded([self._session.encoded(text) for text in texts])

    def add_encoded(self, encoded: Sequence[bytes]) -> Int64s:
        """Append texts that are already encoded; return int64[n+1], their offsets."""
        starts = np.array(list(accumulate(map(len, encoded), initial=self._size)), np.int64)
        self._texts += encoded
        self._size = int(starts[-1])
        return starts

    def packed(self) -> NDArray[np.uint8]:
        """Return all texts as uint8[]."""
        return pack(self._texts)[1]


def _starts(groups: Sequence[Sequence[object]]) -> Int64s:
    return np.cumsum([0] + [len(group) for group in groups], dtype=np.int64)
