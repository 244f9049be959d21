"""Plugins of callbacks in the place of one that renders slices: the way from a slice's tables to calls, in order.

What is known on the driver only (truncates, origins, prepared transactions, blocks of transactions in progress) travels
to the task as a ready-made message. It holds a pickled event; the task, which got the plugin in the same way, reads it
and calls the callback. Mirrors the callback wrappers of logical.c: writes are accepted inside of callbacks alone. A
callback that is needed and missing is an error when it would be called, and an error names slot, plugin, callback and
LSN.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.base.overrides import override
from headwater.catalog.relation import RelationSchema
from headwater.errors import HeadwaterError, PluginError
from headwater.option_names import option
from headwater.plugins.api import (
    WANT_ALL,
    WANT_TRUNCATE,
    CatalogView,
    PluginContext,
    PluginTraits,
    SlicePlugin,
    SliceTables,
    StreamedTransaction,
    TwoPhaseTransaction,
)
from headwater.plugins.callbacks.output_plugin import (
    UNCHANGED_TOAST,
    Change,
    Column,
    Context,
    Relation,
    Row,
    Transaction,
    Truncate,
    Value,
    check_has,
    decodes_prepared,
    has_callback,
    streams,
)
from headwater.plugins.callbacks.output_plugin import OutputPlugin as Callbacks
from headwater.plugins.callbacks.plugin_file import PluginSource
from headwater.plugins.message_buffer import pack
from headwater.reorder.unit_flags import BARE, STREAMED
from headwater.rows.conversion import converted_text, refusal
from headwater.rows.items import (
    BINARY,
    INSERT,
    LITERAL,
    NULL,
    REFUSED,
    TEXT,
    TOAST,
    UNCHANGED,
    UPDATE,
    Cells,
    Items,
    Literals,
    Messages,
    Transactions,
)

CLIENT_ENCODING = "UTF8"

_ACTIONS = {INSERT: "insert", UPDATE: "update"}
_OPTIONAL = ("truncate", "message", "stream_truncate", "stream_message")


@dataclass(frozen=True)
class _Truncated:
    """A TRUNCATE, on its way to a task."""

    schemas: tuple[RelationSchema, ...]
    cascade: bool
    restart_seqs: bool


@dataclass(frozen=True)
class _LogicalMessage:
    """A logical message."""

    lsn: int
    transactional: bool
    prefix: str
    content: bytes


@dataclass(frozen=True)
class _CameFrom:
    """A transaction's origin."""

    name: str | None
    lsn: int


@dataclass(frozen=True)
class _TwoPhase:
    """A record of a prepared transaction, also of one that was streamed."""

    callback: str
    txn: TwoPhaseTransaction
    gid: str


@dataclass(frozen=True)
class _Block:
    """A block of a transaction in progress begins."""

    is_first: bool


@dataclass(frozen=True)
class _Streamed:
    """The end of a streamed (sub)transaction."""

    callback: str
    txn: StreamedTransaction


class CallbackPlugin(SlicePlugin):
    """A plugin that is called for one change at a time.

    Args:
        plugin: its class; name: its own; source: its file, None for an installed one.
        options, context: as those of every plugin.
    """

    def __init__(
        self,
        plugin: type[Callbacks],
        name: str,
        source: PluginSource | None,
        options: Sequence[tuple[str, str | None]],
        context: PluginContext,
    ) -> None:
        """Call ``startup``.

        Raises:
            PluginError: the plugin refuses, or cannot do what is asked.
        """
        self.plugin_name, self.source, self.slot = name, source, context.slot
        self.encoding, self.major = context.session.encoding, context.major
        self.options = tuple(options)
        _check_session(name, context)
        self.plugin = plugin()
        self._has = frozenset(callback for callback in _OPTIONAL if has_callback(plugin, callback))
        ctx = Context(self.options, self.major, self.slot, streaming=streams(plugin))
        self._call("startup", None, context.is_init, ctx=ctx)
        self.traits = PluginTraits(
            is_text=plugin.output_type == "text",
            wants_client_encoding=True,
            wants_binary=plugin.binary_values,
            cuts_transactions=False,
            two_phase=context.two_phase and decodes_prepared(plugin),
            stream_limit=context.session.memory_limit if ctx.streaming else 0,
        )

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self).copy()
        if self.source is not None:
            state["plugin"] = vars(self.plugin)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.source is not None:
            plugin = object.__new__(self.source.load())
            vars(plugin).update(state["plugin"])
            self.plugin = plugin

    @override
    def wants(self, schema: RelationSchema, catalog: CatalogView) -> int:
        """Want all changes of tables that are logged, and truncates if there is a callback for these."""
        if not schema.is_logically_logged or schema.rewrite_of:
            return 0
        return WANT_ALL if self._has & {"truncate", "stream_truncate"} else WANT_ALL & ~WANT_TRUNCATE

    @override
    def filter_origin(self, origin_id: int) -> bool:
        return bool(self._call("filter_by_origin", None, origin_id))

    @override
    def filter_prepare(self, xid: int, gid: bytes) -> bool:
        return bool(self._call("filter_prepare", None, xid, self._text(gid, 0)))

    @override
    def truncate(self, schemas: Sequence[RelationSchema], cascade: bool, restart_seqs: bool) -> list[bytes]:
        return [_packed(_Truncated(tuple(schemas), cascade, restart_seqs))] if schemas else []

    @override
    def wants_message(self, transactional: bool) -> bool:
        return "message" in self._has or (transactional and "stream_message" in self._has)

    @override
    def message(self, lsn: int, transactional: bool, prefix: bytes, content: bytes) -> list[bytes]:
        return [_packed(_LogicalMessage(lsn, transactional, self._text(prefix, lsn), content))]

    @override
    def origin(self, origin_id: int, name: str | None, lsn: int) -> list[bytes]:
        return [_packed(_CameFrom(name, lsn))]

    @override
    def begin_prepare(self, txn: TwoPhaseTransaction) -> list[bytes]:
        return self._two_phase("begin_prepare", txn)

    @override
    def prepare(self, txn: TwoPhaseTransaction) -> list[bytes]:
        return self._two_phase("prepare", txn)

    @override
    def commit_prepared(self, txn: TwoPhaseTransaction) -> list[bytes]:
        return self._two_phase("commit_prepared", txn)

    @override
    def rollback_prepared(self, txn: TwoPhaseTransaction) -> list[bytes]:
        return self._two_phase("rollback_prepared", txn)

    @override
    def stream_start(self, xid: int, is_first: bool) -> list[bytes]:
        return [_packed(_Block(is_first))]

    @override
    def stream_stop(self, xid: int) -> list[bytes]:
        """Make nothing: a block that has begun ends."""
        return []

    @override
    def stream_commit(self, txn: StreamedTransaction) -> list[bytes]:
        return [_packed(_Streamed("stream_commit", txn))]

    @override
    def stream_abort(self, txn: StreamedTransaction) -> list[bytes]:
        return [_packed(_Streamed("stream_abort", txn))]

    @override
    def stream_prepare(self, txn: TwoPhaseTransaction) -> list[bytes]:
        return self._two_phase("stream_prepare", txn)

    def _two_phase(self, callback: str, txn: TwoPhaseTransaction) -> list[bytes]:
        return [_packed(_TwoPhase(callback, txn, self._text(txn.gid, txn.final_lsn)))]

    def _text(self, text: bytes, lsn: int) -> str:
        made = text if text.isascii() else converted_text(self.encoding, CLIENT_ENCODING, text, lsn)
        return made.decode("utf-8", "surrogateescape")

    def render(self, tables: SliceTables) -> Messages:
        """Call the callbacks of a slice, in order, and return what they write."""
        ctx = self._context()
        rows = _Rows(self.encoding, tables.items, tables.cells, tables.schemas)
        _Calls(self, ctx, tables.items, rows, tables.transactions, tables.literals).run()
        self._call("shutdown", None, ctx=ctx)
        offsets, data = pack(message for _, _, message in ctx._written)
        lsn, xid = (np.array([written[column] for written in ctx._written], np.int64) for column in (0, 1))
        return Messages(lsn, xid, offsets, data)

    def _call(
        self, callback: str, place: tuple[int, int] | None, *arguments: object, ctx: Context | None = None
    ) -> object:
        """Call a callback; with a place (LSN, xid), it may write there."""
        ctx = ctx or self._context()
        with self._located(callback, place):
            ctx._place = place
            try:
                check_has(type(self.plugin), callback)
                return getattr(self.plugin, callback)(ctx, *arguments)
            finally:
                ctx._place = None

    def _context(self) -> Context:
        return Context(self.options, self.major, self.slot, streaming=self.traits.stream_limit > 0)

    @contextmanager
    def _located(self, callback: str, place: tuple[int, int] | None) -> Iterator[None]:
        """Add slot, plugin, callback and LSN to what goes wrong (output_plugin_error_callback)."""
        slot = f'slot "{self.slot}", ' if self.slot else ""
        where = f'{slot}output plugin "{self.plugin_name}", in the {callback} callback'
        lsn = None if place is None else place[0]
        try:
            yield
        except HeadwaterError as error:
            error.message = f"{error.message}: {where}"
            error.lsn = error.lsn if error.lsn is not None else lsn
            raise
        except Exception as error:
            raise PluginError(f"{type(error).__name__}: {error}: {where}", lsn=lsn) from error


def _check_session(name: str, context: PluginContext) -> None:
    if context.session.client_encoding != CLIENT_ENCODING:
        raise PluginError(
            f'output plugin "{name}" is given text in {CLIENT_ENCODING}, not in {context.session.client_encoding}',
            hint=f"leave out {option('client-encoding')}",
        )
    context.require_complete_rows(f'output plugin "{name}" cannot be given')


def _packed(event: object) -> bytes:
    return pickle.dumps(event, pickle.HIGHEST_PROTOCOL)


class _Rows:
    """The relations and rows of a slice as Python values."""

    def __init__(self, encoding: str, items: Items, cells: Cells, schemas: Sequence[RelationSchema]) -> None:
        # Numbers out of a memoryview are Python's own, in a third of the time.
        self._encoding, self._lsn = encoding, np.ascontiguousarray(items.lsn).data
        self._text, self._kind = np.ascontiguousarray(cells.text).data, np.ascontiguousarray(cells.kind).data
        self._start, self._length = np.ascontiguousarray(cells.start).data, np.ascontiguousarray(cells.length).data
        firsts = (np.ascontiguousarray(column).data for column in (cells.old_first, cells.new_first))
        self._firsts = dict(zip((False, True), firsts, strict=True))
        self._places = [[c.number - 1 for c in schema.columns if not c.is_dropped] for schema in schemas]
        self.relations = [relation_of(schema) for schema in schemas]

    def row(self, item: int, layout: int, is_new: bool) -> Row | None:
        """Make the new or old tuple of an item."""
        first = self._firsts[is_new][item]
        if first < 0:
            return None
        return Row(self.relations[layout], tuple(self._value(first + place, item) for place in self._places[layout]))

    def _value(self, cell: int, item: int) -> Value:
        kind = self._kind[cell]
        if kind == NULL:
            return None
        if kind == UNCHANGED:
            return UNCHANGED_TOAST
        value = self._text[self._start[cell] : self._start[cell] + self._length[cell]]
        if kind == TEXT:
            return str(value, "utf-8", "surrogateescape")
        if kind == REFUSED:
            raise refusal(self._encoding, CLIENT_ENCODING, value.tobytes(), self._lsn[item])
        assert kind == BINARY
        return value.tobytes()


def relation_of(schema: RelationSchema) -> Relation:
    """Make of a relation what callbacks are given."""
    is_full = schema.replica_identity == "f"
    columns = tuple(
        Column(
            name=column.name,
            type_name=column.type.display_name,
            type_oid=column.type.oid,
            typmod=column.typmod,
            is_key=is_full or column.number in schema.identity_columns,
            not_null=column.not_null,
        )
        for column in schema.columns
        if column.type is not None
    )
    return Relation(schema.oid, schema.namespace, schema.name, schema.replica_identity, columns)


class _Calls:
    """The calls of a slice."""

    def __init__(
        self,
        plugin: CallbackPlugin,
        ctx: Context,
        items: Items,
        rows: _Rows,
        transactions: Transactions,
        literals: Literals,
    ) -> None:
        self._plugin, self._ctx, self._rows = plugin, ctx, rows
        self._items, self._transactions, self._literals = items, transactions, literals

    def run(self) -> None:
        """Make all calls, in the order of the output."""
        for number in range(len(self._transactions.xid)):
            if self._transactions.flags[number] & BARE:
                self._bare(number)
            elif self._transactions.flags[number] & STREAMED:
                self._block(number)
            else:
                self._transaction(number)

    def _transaction(self, number: int) -> None:
        t = self._transactions
        txn = self._txn(number)
        begin, end = self._event(int(t.begin[number])), self._event(int(t.end[number]))
        if isinstance(begin, _TwoPhase):
            txn.gid = begin.gid
        self._call("begin_prepare" if begin else "begin", txn.first_lsn, txn)
        for item in range(int(t.item_start[number]), int(t.item_end[number])):
            self._item(txn, item)
        self._call("prepare" if end else "commit", txn.end_lsn, txn, txn.final_lsn)

    def _block(self, number: int) -> None:
        """Make the calls of a block; none of a block that has nothing."""
        t = self._transactions
        begin = self._event(int(t.begin[number]))
        if not isinstance(begin, _Block):
            return
        txn = self._txn(number)
        txn.is_streamed = not begin.is_first
        self._call("stream_start", txn.first_lsn, txn)
        for item in range(int(t.item_start[number]), int(t.item_end[number])):
            self._item(txn, item, "stream_")
        self._call("stream_stop", txn.end_lsn, txn)

    def _item(self, txn: Transaction, item: int, prefix: str = "") -> None:
        kind, lsn = int(self._items.kind[item]), int(self._items.lsn[item])
        if kind >= TOAST:
            return
        layout = int(self._items.layout[item])
        if kind == LITERAL:
            self._literal(txn, layout, lsn, prefix)
            return
        action = _ACTIONS.get(kind, "delete")
        new, old = (self._rows.row(item, layout, is_new) for is_new in (True, False))
        change = Change(action, lsn, int(self._items.xid[item]), new, old)
        self._call(f"{prefix}change", lsn, txn, self._rows.relations[layout], change)

    def _literal(self, txn: Transaction, literal: int, lsn: int, prefix: str) -> None:
        for event in self._events(literal):
            if isinstance(event, _Truncated):
                relations = tuple(relation_of(schema) for schema in event.schemas)
                self._call(f"{prefix}truncate", lsn, txn, relations, Truncate(lsn, event.cascade, event.restart_seqs))
            elif isinstance(event, _LogicalMessage):
                self._say(txn, event, prefix=prefix)

    def _bare(self, number: int) -> None:
        t = self._transactions
        for item in range(int(t.item_start[number]), int(t.item_end[number])):
            for event in self._events(int(self._items.layout[item])):
                if isinstance(event, _LogicalMessage):
                    self._say(None, event, int(t.xid[number]))
                elif isinstance(event, _TwoPhase):
                    self._finish(event)
                elif isinstance(event, _Streamed):
                    self._finish_streamed(event)

    def _finish(self, event: _TwoPhase) -> None:
        end = event.txn
        ends_stream = event.callback == "stream_prepare"
        place = 0, end.final_lsn, end.end_lsn, end.time
        txn = Transaction(end.xid, end.xid, *place, gid=event.gid, is_streamed=ends_stream)
        if event.callback == "rollback_prepared":
            self._call("rollback_prepared", end.end_lsn, txn, end.prepare_end_lsn, end.prepare_time)
        else:
            self._call(event.callback, end.end_lsn, txn, end.final_lsn)

    def _finish_streamed(self, event: _Streamed) -> None:
        end = event.txn
        place = 0, end.final_lsn, end.end_lsn, end.time
        txn = Transaction(end.xid, end.toplevel_xid, *place, is_streamed=True)
        lsn = end.final_lsn if event.callback == "stream_commit" else end.end_lsn
        self._call(event.callback, end.end_lsn, txn, lsn)

    def _say(self, txn: Transaction | None, event: _LogicalMessage, xid: int = 0, prefix: str = "") -> None:
        place = event.lsn, xid if txn is None else txn.xid
        message = event.transactional, event.prefix, event.content
        self._plugin._call(f"{prefix}message", place, txn, event.lsn, *message, ctx=self._ctx)

    def _call(self, callback: str, lsn: int, txn: Transaction, *arguments: object) -> None:
        self._plugin._call(callback, (lsn, txn.xid), txn, *arguments, ctx=self._ctx)

    def _txn(self, number: int) -> Transaction:
        t = self._transactions
        txn = Transaction(
            xid=int(t.xid[number]),
            toplevel_xid=int(t.xid[number]),
            first_lsn=int(t.first_lsn[number]),
            final_lsn=int(t.commit_lsn[number]),
            end_lsn=int(t.end_lsn[number]),
            time=int(t.commit_time[number]),
        )
        origin = self._event(int(t.origin[number]))
        if isinstance(origin, _CameFrom):
            txn.origin, txn.origin_lsn = origin.name, origin.lsn
        return txn

    def _event(self, number: int) -> object:
        """Read the only event of a literal, by 1 + its number; None for 0."""
        return next(self._events(number - 1)) if number else None

    def _events(self, literal: int) -> Iterator[object]:
        first, offsets = self._literals.first, self._literals.offsets
        for message in range(int(first[literal]), int(first[literal + 1])):
            yield pickle.loads(self._literals.data[offsets[message] : offsets[message + 1]].tobytes())
