"""test_decoding once more, as a plugin of callbacks: what it writes must be what the server's own writes."""

from __future__ import annotations

from collections.abc import Sequence

from headwater import (
    UNCHANGED_TOAST,
    Change,
    Context,
    OutputPlugin,
    Relation,
    Row,
    Transaction,
    Truncate,
)
from headwater.base.overrides import override
from headwater.pg.identifiers import quote_identifier, quote_literal, quote_qualified_identifier

RAW, BITS, BOOL = {20, 21, 23, 26, 700, 701, 1700}, {1560, 1562}, 16


class TestDecoding(OutputPlugin):
    """The plugin with the option stream-changes alone."""

    __test__ = False

    @override
    def startup(self, ctx: Context, is_init: bool) -> None:
        ctx.streaming = ctx.streaming and ctx.option.get("stream-changes") == "1"

    def begin(self, ctx: Context, txn: Transaction) -> None:
        ctx.write(f"BEGIN {txn.xid}")

    @override
    def commit(self, ctx: Context, txn: Transaction, commit_lsn: int) -> None:
        ctx.write(f"COMMIT {txn.xid}")

    @override
    def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
        words = f"table {quote_qualified_identifier(relation.namespace, relation.name, ctx.major)}: "
        words += f"{change.action.upper()}:"
        if change.action == "update" and change.old is not None:
            words += f" old-key:{_tuple(ctx, relation, change.old, skips_nulls=True)} new-tuple:"
        row = change.old if change.action == "delete" else change.new
        if row is None:
            words += " (no-tuple-data)"
        else:
            words += _tuple(ctx, relation, row, skips_nulls=change.action == "delete")
        ctx.write(words)

    @override
    def truncate(self, ctx: Context, txn: Transaction, relations: Sequence[Relation], change: Truncate) -> None:
        names = ", ".join(
            quote_qualified_identifier(relation.namespace, relation.name, ctx.major) for relation in relations
        )
        flags = " restart_seqs" * change.restart_seqs + " cascade" * change.cascade
        ctx.write(f"table {names}: TRUNCATE:{flags or ' (no-flags)'}")

    @override
    def message(
        self, ctx: Context, txn: Transaction | None, message_lsn: int, transactional: bool, prefix: str, content: bytes
    ) -> None:
        head = f"message: transactional: {int(transactional)} prefix: {prefix}, sz: {len(content)} content:"
        ctx.write(head.encode() + content)

    @override
    def filter_prepare(self, ctx: Context, xid: int, gid: str) -> bool:
        return "_nodecode" in gid

    def begin_prepare(self, ctx: Context, txn: Transaction) -> None:
        self.begin(ctx, txn)

    @override
    def prepare(self, ctx: Context, txn: Transaction, prepare_lsn: int) -> None:
        self._finish(ctx, "PREPARE TRANSACTION", txn)

    @override
    def commit_prepared(self, ctx: Context, txn: Transaction, commit_lsn: int) -> None:
        self._finish(ctx, "COMMIT PREPARED", txn)

    @override
    def rollback_prepared(self, ctx: Context, txn: Transaction, prepare_end_lsn: int, prepare_time: int) -> None:
        self._finish(ctx, "ROLLBACK PREPARED", txn)

    def stream_start(self, ctx: Context, txn: Transaction) -> None:
        ctx.write(f"opening a streamed block for transaction TXN {txn.xid}")

    def stream_stop(self, ctx: Context, txn: Transaction) -> None:
        ctx.write(f"closing a streamed block for transaction TXN {txn.xid}")

    @override
    def stream_abort(self, ctx: Context, txn: Transaction, abort_lsn: int) -> None:
        ctx.write(f"aborting streamed (sub)transaction TXN {txn.xid}")

    @override
    def stream_prepare(self, ctx: Context, txn: Transaction, prepare_lsn: int) -> None:
        ctx.write(f"preparing streamed transaction TXN {_gid(txn)}, txid {txn.xid}")

    @override
    def stream_commit(self, ctx: Context, txn: Transaction, commit_lsn: int) -> None:
        ctx.write(f"committing streamed transaction TXN {txn.xid}")

    @override
    def stream_change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
        ctx.write(f"streaming change for TXN {txn.xid}")

    @override
    def stream_message(
        self, ctx: Context, txn: Transaction, message_lsn: int, transactional: bool, prefix: str, content: bytes
    ) -> None:
        ctx.write(f"streaming message: transactional: {int(transactional)} prefix: {prefix}, sz: {len(content)}")

    @override
    def stream_truncate(self, ctx: Context, txn: Transaction, relations: Sequence[Relation], change: Truncate) -> None:
        ctx.write(f"streaming truncate for TXN {txn.xid}")

    def _finish(self, ctx: Context, words: str, txn: Transaction) -> None:
        ctx.write(f"{words} {_gid(txn)}, txid {txn.xid}")


def _gid(txn: Transaction) -> str:
    assert txn.gid is not None
    return quote_literal(txn.gid.encode()).decode()


def _tuple(ctx: Context, relation: Relation, row: Row, *, skips_nulls: bool) -> str:
    words = ""
    for column in relation.columns:
        value = row[column.name]
        if value is None and skips_nulls:
            continue
        words += f" {quote_identifier(column.name, ctx.major)}[{column.type_name}]:"
        if value is None:
            words += "null"
        elif value is UNCHANGED_TOAST:
            words += "unchanged-toast-datum"
        else:
            assert isinstance(value, str)
            words += _literal(column.type_oid, value)
    return words


def _literal(type_oid: int, text: str) -> str:
    if type_oid in RAW:
        return text
    if type_oid in BITS:
        return f"B'{text}'"
    if type_oid == BOOL:
        return "true" if text == "t" else "false"
    return "'" + text.replace("'", "''") + "'"
