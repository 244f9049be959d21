"""test_decoding: one line of text a change (contrib/test_decoding/test_decoding.c, 14 to 19).

A prepared transaction whose name contains ``_nodecode`` is decoded at its commit.

What differs between majors: with skip-empty-xacts, 14 to 16 write a logical message without the BEGIN it should have
brought forth.

With stream-changes, blocks of transactions in progress say of each change only that there was one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headwater.base.overrides import override
from headwater.catalog.relation import Column, RelationSchema
from headwater.errors import PluginError
from headwater.pg.identifiers import quote_identifier, quote_literal, quote_qualified_identifier
from headwater.pg.sqlstates import INVALID_PARAMETER_VALUE
from headwater.pg.version import VERSIONS
from headwater.plugins._messages import Out
from headwater.plugins._plan import Plan, Ready
from headwater.plugins._stamps import Stamps
from headwater.plugins.api import (
    WANT_ALL,
    CatalogView,
    PluginContext,
    PluginTraits,
    SliceTables,
    StreamedTransaction,
    TwoPhaseTransaction,
)
from headwater.plugins.kernel_plugin import KernelPlugin
from headwater.plugins.message_buffer import Rendering, pack
from headwater.plugins.options import parse_bool
from headwater.plugins.stamps import commit_stamps, no_stamps
from headwater.plugins.test_decoding._render import BITS, BOOL, QUOTED, RAW, Lines, Streamed, render_lines
from headwater.reorder.unit_flags import STREAMED
from headwater.rows.items import Literals, Messages, Transactions
from headwater.rows.session import SessionSettings
from headwater.rows.tuples.completeness import completeness

_RAW_TYPES = frozenset({20, 21, 23, 26, 700, 701, 1700})
_BIT_TYPES = frozenset({1560, 1562})
_BOOL_TYPE = 16

_ACTIONS = (b": INSERT:", b": UPDATE:", b": DELETE:", b": UPDATE: old-key:")


@dataclass(frozen=True)
class TestDecodingOptions:
    """Options as parsed (TestDecodingData).

    Attributes:
        include_xids: BEGIN and COMMIT show the xid.
        include_timestamp: COMMIT shows its time.
        force_binary: the output is declared binary; its bytes are the same.
        skip_empty_xacts: transactions without a change are left out.
        only_local: what has an origin is left out.
        include_rewrites: the new heaps that ALTER TABLE writes are shown.
        stream_changes: transactions in progress are shown.
    """

    __test__ = False

    include_xids: bool = True
    include_timestamp: bool = False
    force_binary: bool = False
    skip_empty_xacts: bool = False
    only_local: bool = False
    include_rewrites: bool = False
    stream_changes: bool = False


_WITHOUT_VALUE = {
    "include-xids": True,
    "include-timestamp": True,
    "force-binary": None,
    "skip-empty-xacts": True,
    "only-local": True,
    "include-rewrites": None,
    "stream-changes": None,
}
"""What an option without a value means; None: nothing, it is ignored."""


def parse_options(options: Sequence[tuple[str, str | None]]) -> TestDecodingOptions:
    """Read options (pg_decode_startup); a later one overrides an earlier one.

    Raises:
        PluginError: with the server's message.
    """
    result = TestDecodingOptions()
    for name, value in options:
        if name not in _WITHOUT_VALUE:
            shown = "(null)" if value is None else value
            raise PluginError(f'option "{name}" = "{shown}" is unknown', sqlstate=INVALID_PARAMETER_VALUE)
        parsed = _WITHOUT_VALUE[name] if value is None else parse_bool(value)
        if parsed is None and value is not None:
            raise PluginError(
                f'could not parse value "{value}" for parameter "{name}"', sqlstate=INVALID_PARAMETER_VALUE
            )
        # force-binary 'off' does not take back an earlier 'on'.
        if parsed is not None and not (name == "force-binary" and not parsed):
            result = replace(result, **{name.replace("-", "_"): parsed})
    return result


_BEGINNINGS = np.frombuffer(b"Bo", np.uint8)
"""First bytes of ``BEGIN`` and ``opening a streamed block``; nothing else begins so."""


class TestDecoding(KernelPlugin):
    """test_decoding.

    Attributes:
        options: as parsed.
    """

    __test__ = False

    name = "test_decoding"
    needs_tuples = False

    def __init__(self, options: Sequence[tuple[str, str | None]], context: PluginContext) -> None:
        """Parse the options.

        Raises:
            PluginError: an option is wrong.
        """
        self.major = context.major
        self.session = context.session
        self.options = parse_options(options)
        self.traits = PluginTraits(
            is_text=not self.options.force_binary,
            skips_empty=self.options.skip_empty_xacts,
            messages_count=VERSIONS[context.major].messages_begin_transactions,
            marks_rows=context.marks_rows,
            two_phase=context.two_phase,
            stream_limit=context.session.memory_limit if self.options.stream_changes else 0,
            puts_off_streams=self.options.skip_empty_xacts,
        )

    @override
    def wants(self, schema: RelationSchema, catalog: CatalogView) -> int:
        """Want everything that is a logical change; rewrites' new heaps with ``include-rewrites``."""
        is_shown = not schema.rewrite_of or self.options.include_rewrites
        return WANT_ALL if schema.is_logically_logged and is_shown else 0

    def schema_messages(self, schema: RelationSchema, catalog: CatalogView) -> list[bytes]:
        """Return of a rewrite's new heap the name that its lines carry (never sent); of others nothing."""
        if not schema.rewrite_of:
            return []
        original = catalog.relation(schema.rewrite_of)
        if original is None:
            raise PluginError(f"relation with OID {schema.rewrite_of} does not exist, though it is being rewritten")
        return [self.session.encoded(quote_qualified_identifier(schema.namespace, original.name, self.major))]

    def truncate(self, schemas: Sequence[RelationSchema], cascade: bool, restart_seqs: bool) -> list[bytes]:
        """Write ``table a, b: TRUNCATE: ...``."""
        if not schemas:
            return []
        names = ", ".join(quote_qualified_identifier(s.namespace, s.name, self.major) for s in schemas)
        flags = " restart_seqs" * restart_seqs + " cascade" * cascade
        return [self.session.encoded(f"table {names}: TRUNCATE:{flags or ' (no-flags)'}")]

    @override
    def message(self, lsn: int, transactional: bool, prefix: bytes, content: bytes) -> list[bytes]:
        """Write ``message: ...``."""
        head = f"message: transactional: {int(transactional)} prefix: ".encode()
        return [head + prefix + f", sz: {len(content)} content:".encode() + content]

    def filter_origin(self, origin_id: int) -> bool:
        """Leave out, with ``only-local``, all that has an origin."""
        return self.options.only_local and origin_id != 0

    @override
    def filter_prepare(self, xid: int, gid: bytes) -> bool:
        """Tell prepared transactions that are decoded at their commit by their names."""
        return b"_nodecode" in gid

    def prepare(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Write ``PREPARE TRANSACTION 'gid', txid 1``."""
        return [self._finished(b"PREPARE TRANSACTION", txn)]

    def commit_prepared(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Write ``COMMIT PREPARED 'gid', txid 1``, of empty ones, too."""
        return [self._finished(b"COMMIT PREPARED", txn)]

    def rollback_prepared(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Write ``ROLLBACK PREPARED 'gid', txid 1``, likewise."""
        return [self._finished(b"ROLLBACK PREPARED", txn)]

    @override
    def stream_start(self, xid: int, is_first: bool) -> list[bytes]:
        """Write ``opening a streamed block for transaction TXN 1``."""
        return [b"opening a streamed block for transaction" + self._txn(xid)]

    def stream_stop(self, xid: int) -> list[bytes]:
        """Write ``closing a streamed block for transaction TXN 1``."""
        return [b"closing a streamed block for transaction" + self._txn(xid)]

    @override
    def stream_truncate(
        self, schemas: Sequence[RelationSchema], cascade: bool, restart_seqs: bool, toplevel_xid: int, xid: int
    ) -> list[bytes]:
        """Write ``streaming truncate for TXN 1``."""
        return [self._streaming(b"truncate", toplevel_xid)] if schemas else []

    @override
    def stream_message(self, lsn: int, prefix: bytes, content: bytes, toplevel_xid: int) -> list[bytes]:
        """Write ``streaming message: ...``, without its content."""
        return [b"streaming message: transactional: 1 prefix: " + prefix + f", sz: {len(content)}".encode()]

    def stream_commit(self, txn: StreamedTransaction) -> list[bytes]:
        """Write ``committing streamed transaction TXN 1``."""
        return [b"committing streamed transaction" + self._txn(txn.xid) + self._stamp(txn.time)]

    def stream_abort(self, txn: StreamedTransaction) -> list[bytes]:
        """Write ``aborting streamed (sub)transaction TXN 1``."""
        return [b"aborting streamed (sub)transaction" + self._txn(txn.xid)]

    def stream_prepare(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Write ``preparing streamed transaction TXN 'gid', txid 1``."""
        gid = quote_literal(txn.gid)
        named = b" TXN " + gid + f", txid {txn.xid}".encode() if self.options.include_xids else b" " + gid
        return [b"preparing streamed transaction" + named + self._stamp(txn.time)]

    def _txn(self, xid: int) -> bytes:
        return f" TXN {xid}".encode() if self.options.include_xids else b""

    def _streaming(self, what: bytes, xid: int) -> bytes:
        return b"streaming " + what + b" for" + (self._txn(xid) or b" transaction")

    def _stamp(self, time: int) -> bytes:
        if not self.options.include_timestamp:
            return b""
        return self._commit_stamps(np.array([time], np.int64)).text.tobytes()

    def _finished(self, words: bytes, txn: TwoPhaseTransaction) -> bytes:
        xid = f", txid {txn.xid}".encode() if self.options.include_xids else b""
        return words + b" " + quote_literal(txn.gid) + xid + self._stamp(txn.time)

    def without_place(self, messages: Messages) -> NDArray[np.bool_]:
        """Return the beginnings that were put off until something followed."""
        return np.isin(messages.first_bytes, _BEGINNINGS) & self.options.skip_empty_xacts

    def writer(self, tables: SliceTables, ready: Ready, plan: Plan) -> Rendering:
        """Join the plan with the kernel, the words of the layouts and the commit times."""
        lines = make_lines(tables.schemas, tables.schema_messages, self.major, self.session)
        if self.traits.marks_rows:
            natts = np.array([len(schema.columns) for schema in tables.schemas], np.int64)
            firsts = tables.cells.new_first, tables.cells.old_first
            lines = lines._replace(marks=completeness(tables.items, tables.cells.kind, firsts, natts))
        stamps = self._stamps(tables.transactions)
        items, cells, with_xids = tables.items, tables.cells, self.options.include_xids
        streamed = self._streamed(tables.transactions)

        def step(span: NDArray[np.int64], out: Out) -> int:
            return int(render_lines(items, cells, ready, plan, lines, stamps, streamed, span, with_xids, out))

        words = len(lines.text) // max(len(lines.attribute), 1) + 3
        size = len(cells.text) * 5 // 4 + words * len(cells.kind) + 48 * len(plan.op) + 16 * len(lines.marks)
        return Rendering(step, plan, size + len(ready.data) + len(stamps.text))

    def brings_begin(self, literals: Literals) -> NDArray[np.uint8]:
        """Choose all literals but, before 17, logical messages (``message: ...``)."""
        counts = super().brings_begin(literals)
        if not self.traits.messages_count:
            full = np.flatnonzero(np.diff(literals.first))
            begins = literals.offsets[literals.first[full]]
            counts[full] = ~(_is_message(literals, begins, 0) | _is_message(literals, begins, len("streaming ")))
        return counts

    def _streamed(self, transactions: Transactions) -> Streamed:
        """Write what stands for a change in a block, by the block."""
        is_block = transactions.flags & STREAMED != 0
        xids = zip(transactions.xid.tolist(), is_block.tolist(), strict=True)
        start, text = pack(self._streaming(b"change", xid) if is_streamed else b"" for xid, is_streamed in xids)
        return Streamed(start, text)

    def _stamps(self, transactions: Transactions) -> Stamps:
        if not self.options.include_timestamp:
            return no_stamps(len(transactions.xid))
        return self._commit_stamps(transactions.commit_time)

    def _commit_stamps(self, times: NDArray[np.int64]) -> Stamps:
        return commit_stamps(times, self.session, b" (at ", b")")


def _is_message(literals: Literals, begins: NDArray[np.int64], at: int) -> NDArray[np.bool_]:
    """Find which texts have ``message: `` at a place, by where they begin: bool[n]."""
    is_message = np.ones(len(begins), np.bool_)
    for number, byte in enumerate(b"message: ", at):
        is_message &= literals.data[np.minimum(begins + number, len(literals.data) - 1)] == byte
    return is_message


def make_lines(
    schemas: Sequence[RelationSchema], names: Sequence[Sequence[bytes]], major: int, session: SessionSettings
) -> Lines:
    """Make the unchanging words of layouts; `names` overrides a layout's name where it is not empty."""
    heads = [_table_name(schema, name, major, session) for schema, name in zip(schemas, names, strict=True)]
    columns = [[column for column in schema.columns if not column.is_dropped] for schema in schemas]
    live = [column for table in columns for column in table]
    labels = [_label(column, major, session) for column in live]
    head_at, head_text = pack(b"table " + head + action for head in heads for action in _ACTIONS)
    label_at, label_text = pack(labels)
    return Lines(
        head_start=head_at,
        first=np.cumsum([0] + [len(table) for table in columns], dtype=np.int64),
        attribute=np.array([column.number - 1 for column in live], np.int32),
        label_start=label_at + head_at[-1],
        style=np.array([_style(column) for column in live], np.uint8),
        text=np.concatenate([head_text, label_text]),
        marks=np.empty(0, np.uint8),
    )


def _table_name(schema: RelationSchema, name: Sequence[bytes], major: int, session: SessionSettings) -> bytes:
    if name:
        return name[0]
    return session.encoded(quote_qualified_identifier(schema.namespace, schema.name, major))


def _label(column: Column, major: int, session: SessionSettings) -> bytes:
    type_name = column.type.display_name if column.type else "-"
    return session.encoded(f" {quote_identifier(column.name, major)}[{type_name}]:")


def _style(column: Column) -> int:
    """Tell how print_literal quotes values of a column's type; a domain counts as itself."""
    oid = column.type.oid if column.type else 0
    if oid in _RAW_TYPES:
        return RAW
    if oid in _BIT_TYPES:
        return BITS
    return BOOL if oid == _BOOL_TYPE else QUOTED
