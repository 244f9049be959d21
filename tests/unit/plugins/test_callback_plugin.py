"""Plugins of callbacks: which calls a slice gives, with what, and what travels to tasks."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from headwater import UNCHANGED_TOAST, OutputPlugin
from headwater.base.overrides import override
from headwater.errors import PluginError
from headwater.pipeline.requests.plugin_loading import load_plugin
from headwater.plugins.api import PluginContext, SliceTables, StreamedTransaction, TwoPhaseTransaction
from headwater.plugins.callbacks.callback_plugin import CallbackPlugin
from headwater.plugins.callbacks.output_plugin import NEEDED, STREAM, TWO_PHASE, check_callbacks
from headwater.plugins.callbacks.plugin_file import PluginSource
from headwater.reorder.unit_flags import BARE, BEGINS_HERE, ENDS_HERE, STREAMED
from headwater.rows import items as it
from headwater.rows.session import SessionSettings
from unit.plugins.plugin_slices import INT4, TEXT, Change, Slice, Txn, make_column, make_table

TABLE = make_table(16400, "t", [make_column(1, "a", INT4), make_column(2, "b", TEXT)])


class Everything(OutputPlugin):
    """A plugin that writes down all calls."""

    def __init__(self) -> None:
        self.started: list[Any] = []

    def startup(self, ctx: Any, is_init: bool) -> None:
        self.started.append((ctx.options, is_init))

    def begin(self, ctx: Any, txn: Any) -> None:
        ctx.write(f"begin {txn.xid} {txn.origin} {txn.origin_lsn}")

    @override
    def change(self, ctx: Any, txn: Any, relation: Any, change: Any) -> None:
        rows = [None if row is None else dict(row) for row in (change.old, change.new)]
        ctx.write(f"{change.action} {relation.name} {change.xid} {change.lsn} {rows}")

    @override
    def truncate(self, ctx: Any, txn: Any, relations: Any, change: Any) -> None:
        ctx.write(f"truncate {[relation.name for relation in relations]} {change.cascade} {change.restart_seqs}")

    def message(self, ctx: Any, txn: Any, message_lsn: int, transactional: bool, prefix: str, content: bytes) -> None:
        ctx.write(f"message {txn and txn.xid} {message_lsn} {transactional} {prefix} {content!r}")

    def commit(self, ctx: Any, txn: Any, commit_lsn: int) -> None:
        ctx.write(f"commit {txn.xid} {commit_lsn}")

    def begin_prepare(self, ctx: Any, txn: Any) -> None:
        ctx.write(f"begin_prepare {txn.gid}")

    def prepare(self, ctx: Any, txn: Any, prepare_lsn: int) -> None:
        ctx.write(f"prepare {txn.gid} {prepare_lsn}")

    def commit_prepared(self, ctx: Any, txn: Any, commit_lsn: int) -> None:
        ctx.write(f"commit_prepared {txn.gid} {commit_lsn}")

    def rollback_prepared(self, ctx: Any, txn: Any, prepare_end_lsn: int, prepare_time: int) -> None:
        ctx.write(f"rollback_prepared {txn.gid} {prepare_end_lsn} {prepare_time}")

    def stream_start(self, ctx: Any, txn: Any) -> None:
        ctx.write(f"stream_start {txn.xid} {txn.is_streamed}")

    def stream_stop(self, ctx: Any, txn: Any) -> None:
        ctx.write(f"stream_stop {txn.xid}")

    def stream_abort(self, ctx: Any, txn: Any, abort_lsn: int) -> None:
        ctx.write(f"stream_abort {txn.xid} of {txn.toplevel_xid} {abort_lsn}")

    def stream_prepare(self, ctx: Any, txn: Any, prepare_lsn: int) -> None:
        ctx.write(f"stream_prepare {txn.gid} {prepare_lsn}")

    def stream_commit(self, ctx: Any, txn: Any, commit_lsn: int) -> None:
        ctx.write(f"stream_commit {txn.xid} {commit_lsn}")

    @override
    def stream_change(self, ctx: Any, txn: Any, relation: Any, change: Any) -> None:
        ctx.write(f"stream_change {relation.name} {change.xid} {dict(change.new)}")

    def stream_message(self, ctx: Any, txn: Any, lsn: int, transactional: bool, prefix: str, content: bytes) -> None:
        ctx.write(f"stream_message {txn.xid} {lsn} {transactional} {prefix} {content!r}")

    @override
    def stream_truncate(self, ctx: Any, txn: Any, relations: Any, change: Any) -> None:
        ctx.write(f"stream_truncate {[relation.name for relation in relations]} {change.cascade} {change.restart_seqs}")


def made(plugin: type[OutputPlugin] = Everything, **context: Any) -> CallbackPlugin:
    return CallbackPlugin(plugin, "mine", None, (("a", "1"),), PluginContext(16, **context))


def lines(plugin: CallbackPlugin, part: Slice) -> list[tuple[int, int, str]]:
    messages = plugin.render(SliceTables(*part.tables(), part.schemas, [()] * len(part.schemas)))
    texts = [
        messages.data[a:b].tobytes().decode() for a, b in zip(messages.offsets, messages.offsets[1:], strict=False)
    ]
    return list(zip(messages.lsn.tolist(), messages.xid.tolist(), texts, strict=True))


def test_calls_of_a_transaction() -> None:
    plugin = made()
    literals = (
        tuple(plugin.origin(3, "node", 77)),
        tuple(plugin.truncate([TABLE], True, False)),
        tuple(plugin.message(90, True, b"p", b"\xff")),
    )
    changes = (
        Change(it.INSERT, 10, 0, (b"1", b"x")),
        Change(it.UPDATE, 20, 0, (b"1", it.UNCHANGED), (b"2", it.NULL)),
        Change(it.DELETE, 30, 0, None, (b"1", it.NULL)),
        Change(it.DELETE, 31, 0, None, None),
        Change(it.TOAST, 32, 0),
        Change(it.LITERAL, 40, 1),
        Change(it.LITERAL, 50, 2),
    )
    txn = Txn(700, changes, first_lsn=5, commit_lsn=60, end_lsn=68, origin=1)
    unchanged = {"a": "1", "b": UNCHANGED_TOAST}
    assert lines(plugin, Slice((txn,), literals, (TABLE,))) == [
        (5, 700, "begin 700 node 77"),
        (10, 700, "insert t 700 10 [None, {'a': '1', 'b': 'x'}]"),
        (20, 700, f"update t 700 20 [{ {'a': '2', 'b': None} }, {unchanged}]"),
        (30, 700, "delete t 700 30 [{'a': '1', 'b': None}, None]"),
        (31, 700, "delete t 700 31 [None, None]"),
        (40, 700, "truncate ['t'] True False"),
        (90, 700, "message 700 90 True p b'\\xff'"),
        (68, 700, "commit 700 60"),
    ]


def prepared_transactions(plugin: CallbackPlugin) -> Slice:
    prepare = TwoPhaseTransaction(700, b"g", 60, 68, 1, 68, 1)
    finish = TwoPhaseTransaction(701, b"h", 160, 168, 2, 120, 9)
    literals = (
        tuple(plugin.begin_prepare(prepare)),
        tuple(plugin.prepare(prepare)),
        tuple(plugin.commit_prepared(finish)),
        tuple(plugin.rollback_prepared(finish)),
        tuple(plugin.message(90, False, b"p", b"m")),
    )
    parts = (
        Txn(700, (), first_lsn=5, commit_lsn=60, end_lsn=68, begin=1, end=2),
        *(Txn(701, (Change(it.LITERAL, 168, n),), flags=BARE | BEGINS_HERE | ENDS_HERE) for n in (2, 3, 4)),
    )
    return Slice(parts, literals)


def test_calls_of_prepared_ones_and_of_what_stands_alone() -> None:
    plugin = made(two_phase=True)
    assert lines(plugin, prepared_transactions(plugin)) == [
        (5, 700, "begin_prepare g"),
        (68, 700, "prepare g 60"),
        (168, 701, "commit_prepared h 160"),
        (168, 701, "rollback_prepared h 120 9"),
        (90, 701, "message None 90 False p b'm'"),
    ]


def streamed_transactions(plugin: CallbackPlugin) -> Slice:
    literals = (
        tuple(plugin.stream_start(700, True)),
        tuple(plugin.stream_start(700, False)),
        tuple(plugin.stream_truncate([TABLE], False, True, 700, 701)),
        tuple(plugin.stream_message(90, b"p", b"m", 700)),
        tuple(plugin.stream_abort(StreamedTransaction(700, 701, 100, 108, 3))),
        tuple(plugin.stream_commit(StreamedTransaction(700, 700, 160, 168, 4))),
        tuple(plugin.stream_prepare(TwoPhaseTransaction(702, b"g", 260, 268, 1, 268, 1))),
    )
    streamed = BEGINS_HERE | ENDS_HERE | STREAMED
    first = (Change(it.INSERT, 10, 0, (b"1", b"x")),)
    rest = tuple(Change(it.LITERAL, lsn, literal) for lsn, literal in ((40, 2), (90, 3)))
    empty = Txn(700, (), flags=streamed)
    parts = (
        Txn(700, first, first_lsn=5, end_lsn=30, begin=1, flags=streamed),
        empty,
        Txn(700, rest, first_lsn=35, end_lsn=95, begin=2, flags=streamed),
        *(
            Txn(xid, (Change(it.LITERAL, lsn, literal),), flags=BARE | BEGINS_HERE | ENDS_HERE)
            for xid, lsn, literal in ((701, 108, 4), (700, 168, 5), (702, 268, 6))
        ),
    )
    return Slice(parts, literals, (TABLE,))


def test_calls_of_transactions_in_progress() -> None:
    plugin = made()
    assert lines(plugin, streamed_transactions(plugin)) == [
        (5, 700, "stream_start 700 False"),
        (10, 700, "stream_change t 700 {'a': '1', 'b': 'x'}"),
        (30, 700, "stream_stop 700"),
        (35, 700, "stream_start 700 True"),
        (40, 700, "stream_truncate ['t'] False True"),
        (90, 700, "stream_message 700 90 True p b'm'"),
        (95, 700, "stream_stop 700"),
        (108, 701, "stream_abort 701 of 700 108"),
        (168, 700, "stream_commit 700 160"),
        (268, 702, "stream_prepare g 260"),
    ]


def test_it_is_told_of_its_options_once() -> None:
    plugin = pickle.loads(pickle.dumps(made(is_init=True)))
    assert plugin.plugin.started == [((("a", "1"),), True)]
    assert plugin.wants_message(True)


@pytest.mark.parametrize("name", NEEDED)
def test_callbacks_that_are_needed(name: str) -> None:
    lacking = type(
        "Lacking", (OutputPlugin,), {callback: getattr(Everything, callback) for callback in NEEDED if callback != name}
    )
    with pytest.raises(PluginError, match=f"output plugins have to register a {name} callback"):
        check_callbacks(lacking)


@pytest.mark.parametrize("name", TWO_PHASE)
def test_callbacks_that_are_needed_at_prepare_time(name: str) -> None:
    """With any of them; a missing callback is reported when it would be called."""
    some = {callback: getattr(Everything, callback) for callback in (*NEEDED, *TWO_PHASE) if callback != name}
    plugin = made(type("Lacking", (OutputPlugin,), some), two_phase=True, slot="mine_too")
    assert plugin.traits.two_phase
    with pytest.raises(
        PluginError, match=f"logical replication at prepare time requires a {name}_cb callback"
    ) as refusal:
        lines(plugin, prepared_transactions(plugin))
    where = f': slot "mine_too", output plugin "mine", in the {name} callback'
    assert refusal.value.message.endswith(where)
    assert refusal.value.sqlstate == "55000"
    assert refusal.value.lsn == {"begin_prepare": 5, "prepare": 68}.get(name, 168)


@pytest.mark.parametrize("name", STREAM)
def test_callbacks_that_are_needed_for_streaming(name: str) -> None:
    some = {callback: getattr(Everything, callback) for callback in (*NEEDED, *STREAM) if callback != name}
    plugin = made(type("Lacking", (OutputPlugin,), some))
    assert plugin.traits.stream_limit == 64 << 20
    with pytest.raises(PluginError, match=f"logical streaming requires a {name}_cb callback: .* in the {name} call"):
        lines(plugin, streamed_transactions(plugin))


def test_a_stream_is_prepared_by_a_callback_of_its_own() -> None:
    some = {callback: getattr(Everything, callback) for callback in (*NEEDED, *STREAM, *TWO_PHASE)}
    plugin = made(type("Lacking", (OutputPlugin,), some))
    with pytest.raises(PluginError, match="logical streaming at prepare time requires a stream_prepare_cb callback"):
        lines(plugin, streamed_transactions(plugin))


@pytest.mark.parametrize("name", ["stream_prepare", "filter_prepare"])
def test_any_callback_of_two_phase_is_for_two_phase(name: str) -> None:
    none = {callback: getattr(Everything, callback) for callback in NEEDED}
    assert not made(type("Plain", (OutputPlugin,), none), two_phase=True).traits.two_phase
    with_one = {name: lambda *_: True}
    assert made(type("One", (OutputPlugin,), none | with_one), two_phase=True).traits.two_phase
    assert not made(type("One", (OutputPlugin,), none | with_one)).traits.two_phase


def test_a_plugin_without_callbacks_for_it_is_not_streamed() -> None:
    none = {callback: getattr(Everything, callback) for callback in NEEDED}
    assert made(type("Plain", (OutputPlugin,), none)).traits.stream_limit == 0
    with_one = {"stream_truncate": Everything.stream_truncate}
    assert made(type("One", (OutputPlugin,), none | with_one)).traits.stream_limit
    declines = {"startup": lambda _self, ctx, _is_init: setattr(ctx, "streaming", False)}
    assert made(type("Declines", (Everything,), declines)).traits.stream_limit == 0


def test_text_is_given_in_utf8_only() -> None:
    session = SessionSettings(major=16, client_encoding="LATIN1")
    with pytest.raises(PluginError, match='output plugin "mine" is given text in UTF8, not in LATIN1'):
        made(session=session)


def test_a_file_of_one_s_own_travels_as_its_text(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "from headwater import OutputPlugin\n"
        "class Own(OutputPlugin):\n"
        "    def startup(self, ctx, is_init):\n        self.kept = ctx.option\n"
        "    def begin(self, ctx, txn):\n        ctx.write(str(self.kept))\n"
        "    def change(self, ctx, txn, relation, change):\n        pass\n"
        "    def commit(self, ctx, txn, commit_lsn):\n        pass\n"
    )
    path.chmod(0o644)
    plugin = load_plugin(f"{path}:Own")((("x", None),), PluginContext(16))
    data = pickle.dumps(plugin)
    path.unlink()
    again = pickle.loads(data)
    assert lines(again, Slice((Txn(700, ()),))) == [(0, 700, "{'x': None}")]
    assert isinstance(again.source, PluginSource)
    assert not again.wants_message(True)
