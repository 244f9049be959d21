"""debezium: the events of Debezium's PostgreSQL connector, each a line of JSON with topic, key and value.

Mirrors version 3.6.1.Final of the connector, reading a publication of all tables through ``pgoutput``, as its JSON
converter prints its records. Where the connector reads the server's present catalog, the catalog as of the change
counts here. The times of processing are those of the commit, so that the same WAL gives the same bytes.

Known gaps: those in ``docs/guides/debezium.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headwater.base.overrides import override
from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.definitions.tables import column_defaults
from headwater.errors import HeadwaterError, PluginError, warn
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.pg.version import VERSIONS
from headwater.plugins._messages import Out
from headwater.plugins._plan import Plan, Ready
from headwater.plugins.api import (
    WANT_DELETE,
    WANT_INSERT,
    WANT_TRUNCATE,
    WANT_UPDATE,
    CatalogView,
    DdlEvent,
    PluginContext,
    PluginTraits,
    SliceTables,
)
from headwater.plugins.debezium import _events as kinds
from headwater.plugins.debezium._events import Events, Keys, Tallies, list_events, number_events
from headwater.plugins.debezium._render import ROW_TEMPLATES, Slice, render_events
from headwater.plugins.debezium._values import STRING
from headwater.plugins.debezium.ddl import schema_change
from headwater.plugins.debezium.options import parse_options
from headwater.plugins.debezium.templates import SILENT_MESSAGE, Vocabulary
from headwater.plugins.kernel_plugin import KernelPlugin
from headwater.plugins.message_buffer import Rendering
from headwater.rows.items import TEXT, Cells, Items, Transactions
from headwater.rows.session import SessionSettings

_SETTINGS: tuple[tuple[str, str, Callable[[SessionSettings], bool]], ...] = (
    ("datestyle", "ISO", lambda session: session.datestyle.split(",")[0] == "ISO"),
    ("intervalstyle", "postgres", lambda session: session.intervalstyle == "postgres"),
    ("bytea_output", "hex", lambda session: session.bytea_output == "hex"),
    ("extra_float_digits", "1", lambda session: session.extra_float_digits >= 1),
)
"""The settings that the connector makes for its session, or does not work without."""


_FIRST_ROOM = 64 << 20
"""The most bytes that a slice's events get at first, before the bytes that they need are known."""

_SHOWN_BYTES = 60
"""The most bytes of a value that an error message shows."""


class Debezium(KernelPlugin):
    """The plugin debezium.

    Attributes:
        options: the options as parsed.
    """

    name = "debezium"
    needs_tuples = True
    sends_origins = False

    def __init__(self, options: Sequence[tuple[str, str | None]], context: PluginContext) -> None:
        """Parse the options.

        Raises:
            PluginError: an option is wrong or not supported, or the session prints values as the connector cannot
                read them.
        """
        context.require_complete_rows(f"{self.name} cannot mark")
        for name, wanted, is_set in _SETTINGS:
            if not is_set(context.session):
                raise PluginError(f"debezium needs {name} {wanted}", hint=f"add the setting {name}={wanted}")
        self.options = parse_options(options)
        self._knows_defaults = context.with_definitions
        self.traits = PluginTraits(
            is_text=True,
            skips_empty=VERSIONS[context.major].puts_off_begin,
            cuts_transactions=not self.options.transaction_metadata,
            tells_last=True,
            wants_ddl=context.with_definitions and self.options.schema_changes,
        )
        self.vocabulary = Vocabulary(self.options, context.session, context.database)

    @classmethod
    def asks_for_definitions(cls, options: Sequence[tuple[str, str | None]]) -> str:
        """Name defaults, and DDL unless ``include.schema.changes`` is false."""
        return "DDL and columns' defaults" if parse_options(options).schema_changes else "columns' defaults"

    def looked_up(self, schema: RelationSchema, catalog: CatalogView) -> RelationSchema:
        """Add the defaults of the columns, if the catalog has them."""
        if not self._knows_defaults or schema.oid < FIRST_NORMAL_OBJECT_ID:
            return schema
        assert isinstance(catalog, HistoricCatalog)
        defaults = catalog.derived(("column defaults", schema.oid), lambda oid: column_defaults(catalog, oid))
        if not defaults:
            return schema
        return replace(schema, columns=tuple(replace(c, default=defaults.get(c.number, "")) for c in schema.columns))

    @override
    def wants(self, schema: RelationSchema, catalog: CatalogView) -> int:
        """Tell which changes of a table are wanted: of the chosen tables those that a publication of all tables has.

        Raises:
            PluginError: the table has a column that cannot be shown yet.
        """
        if schema.kind != "r" or schema.persistence != "p" or schema.oid < FIRST_NORMAL_OBJECT_ID:
            return 0
        if schema.rewrite_of or not self.options.shows_table(schema.namespace, schema.name):
            return 0
        try:
            self.vocabulary.shown(schema)
        except PluginError as error:
            place = f'table "{schema.namespace}.{schema.name}"'
            raise PluginError(f"{error.message}: {place}", sqlstate=error.sqlstate, hint=error.hint) from None
        wants = WANT_INSERT | WANT_UPDATE | WANT_TRUNCATE
        return wants | WANT_DELETE if schema.has_identity else wants

    @override
    def passes_over(self, schema: RelationSchema, updates: bool, deletes: bool) -> None:
        """Warn of deleted rows that the WAL does not identify."""
        if deletes and not schema.has_identity:
            warn(f'table "{schema.namespace}.{schema.name}" has no replica identity: its deleted rows are not known')

    @override
    def shown_columns(self, schema: RelationSchema, schema_messages: Sequence[bytes]) -> frozenset[int]:
        """Return the columns of types that the connector knows."""
        return frozenset(column.number for column, _ in self.vocabulary.shown(schema))

    @override
    def truncate(self, schemas: Sequence[RelationSchema], cascade: bool, restart_seqs: bool) -> list[bytes]:
        """Make an event for each table; if truncates are skipped, a silent message stands for them."""
        if "t" in self.options.skipped:
            return [SILENT_MESSAGE] if schemas else []
        return [self.vocabulary.truncate(schema) for schema in schemas]

    @override
    def message(self, lsn: int, transactional: bool, prefix: bytes, content: bytes) -> list[bytes]:
        """Make one event; for a prefix that is excluded, a silent message."""
        if not self.options.shows_prefix(prefix.decode("utf-8", "replace")):
            return [SILENT_MESSAGE]
        return [self.vocabulary.message(prefix, content)]

    @override
    def ddl(self, event: DdlEvent, number: int, catalog: CatalogView) -> list[bytes]:
        """Make one event, as Debezium's other connectors have them."""
        return schema_change(self.vocabulary, event, catalog)

    @override
    def origin(self, origin_id: int, name: str | None, lsn: int) -> list[bytes]:
        """Make the words of an origin, which the kernel finds by the transaction."""
        return [] if name is None else [self.vocabulary.origin(name, lsn)]

    def writer(self, tables: SliceTables, ready: Ready, plan: Plan) -> Rendering:
        """Join the plan with the kernel, the words of the layouts, and events for messages."""
        texts = [ready.data[a:b].tobytes() for a, b in pairwise(ready.offsets.tolist())]
        words, keys = self.vocabulary.words(tables.schemas, texts)
        items, cells, transactions = tables.items, tables.cells, tables.transactions
        events = self._events(items, cells, transactions, plan, keys)
        tallies = _numbered(items, transactions, plan, keys, events, len(words.table) - 1)
        part = Slice(items, cells, transactions, ready, plan, words, keys, events, tallies)
        is_counted = int(self.options.transaction_metadata)

        def step(span: NDArray[np.int64], out: Out) -> int:
            return int(render_events(part, is_counted, span, out))

        def refusal(event: int) -> HeadwaterError:
            return PluginError(
                self._why_refused(tables, part, event),
                lsn=int(plan.lsn[events.message[event]]),
                hint="leave its table out with table.exclude.list",
            )

        size = int(np.diff(words.template).max(initial=0)) * len(events.kind) + 3 * len(cells.text) + len(ready.data)
        size += 8 * len(words.text) // max(len(words.template) - 1, ROW_TEMPLATES) * len(cells.kind)
        return Rendering(step, _plan_of(events, plan), min(size, _FIRST_ROOM) + 4096, refusal)

    def _why_refused(self, tables: SliceTables, part: Slice, event: int) -> str:
        """Describe the value at which the connector stops: table, column, and value."""
        item = int(part.plan.arg[part.events.message[event]])
        layout = int(part.items.layout[item])
        schema, first = tables.schemas[layout], int(part.words.first[layout])
        table = f'table "{schema.namespace}.{schema.name}"'
        for at, (column, _) in enumerate(self.vocabulary.shown(schema), first):
            bases = (int(part.cells.new_first[item]), int(part.cells.old_first[item]))
            cells = [base + column.number - 1 for base in bases if base >= 0]
            if _stops_at(part, event, at):
                return f'column "{column.name}" of {table} {_why(part.cells, cells, column.not_null)}'
        return f"the connector stops at a value of {table}, or shows another one in its place"

    def _events(self, items: Items, cells: Cells, transactions: Transactions, plan: Plan, keys: Keys) -> Events:
        most = kinds.EVENTS_AT_MOST * len(plan.op)
        message, order, table_order, last_end, time = np.empty((5, most), np.int64)
        events = Events(np.empty(most, np.uint8), message, order, table_order, last_end, time)
        skipped = self.options.skipped
        shows = [letter not in skipped for letter in "cud"]
        rules = [*shows, self.options.tombstones, self.options.transaction_metadata]
        count = list_events(items, cells, transactions, plan, keys, np.array(rules, np.int64), events)
        numbers = (column[:count].copy() for column in (message, order, table_order, last_end, time))
        return Events(events.kind[:count].copy(), *numbers)


def _stops_at(part: Slice, event: int, column: int) -> bool:
    """Tell whether a column alone stops an event: try with text in all other columns of its rows."""
    words, item = part.words, part.plan.arg[part.events.message[event]]
    layout, style, kind = part.items.layout[item], np.full_like(part.words.style, STRING), part.cells.kind.copy()
    style[column] = words.style[column]
    others = words.attribute[words.first[layout] : words.first[layout + 1]]
    others = others[others != words.attribute[column]]
    for base in (part.cells.new_first[item], part.cells.old_first[item]):
        if base >= 0:
            kind[base + others] = TEXT
    room = np.empty(_FIRST_ROOM + 16 * int(part.cells.length.max(initial=0)), np.uint8)
    out = Out(np.zeros(len(part.events.kind) + 1, np.int64), room)
    probe = part._replace(words=words._replace(style=style), cells=part.cells._replace(kind=kind))
    return int(render_events(probe, 0, np.array([event, event + 1]), out)) < 0


def _why(cells: Cells, numbers: Sequence[int], not_null: bool) -> str:
    """Describe why the connector stops at a value, of the new row, the old one, or both."""
    texts = {_text(cells, cell) for cell in numbers if cells.kind[cell] == TEXT}
    if not texts:
        return "has a value that was not written again, or NULL, for which the connector has no word in its type"
    value = f"holds {texts.pop()}" if len(texts) == 1 else "holds a value"
    if not_null:
        return f"is NOT NULL and {value}, which the connector cannot show, or shows as another value"
    return f"{value}, at which the connector stops, or which it shows as another value"


def _text(cells: Cells, cell: int) -> str:
    start, length = int(cells.start[cell]), int(cells.length[cell])
    text = cells.text[start : start + min(length, _SHOWN_BYTES)].tobytes().decode("utf-8", "replace")
    return text + ("..." if length > _SHOWN_BYTES else "")


def _numbered(items: Items, transactions: Transactions, plan: Plan, keys: Keys, events: Events, tables: int) -> Tallies:
    """Give the events their numbers, and count those of each table by transaction."""
    tallies = Tallies(np.empty(len(events.kind), np.int32), np.empty(len(events.kind), np.int64))
    number_events(items, transactions, plan, keys, events, np.zeros(tables, np.int64), tallies)
    return tallies


def _plan_of(events: Events, plan: Plan) -> Plan:
    """Make a plan whose messages are the events."""
    message = events.message
    return Plan(events.kind, plan.arg[message], plan.txn[message], plan.lsn[message], plan.xid[message])
