"""Output plugins of one's own: PostgreSQL's callbacks under their names, one change at a time as a Python object.

A plugin derives from :class:`OutputPlugin`, and is named by an entry point of the group ``headwater.plugins``, or as
``PATH:CLASS`` on the command line. PostgreSQL: ``replication/output_plugin.h``, ``logical.c``. The tutorial is
docs/guides/own-plugin.md.

Where it runs: ``startup`` and the filters where the WAL is planned, once; all other callbacks in the decode tasks. Each
task has a copy of the plugin as ``startup`` left it, and some whole transactions, in the order of their commits. So
what a plugin keeps between transactions is kept within a task alone.

Known gaps: a transaction is rendered by one task, whatever its size, and so is each block of one that is streamed. What
a plugin keeps with a streamed transaction is gone after the block, as other tasks may have the others.
"""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from headwater.errors import PluginError
from headwater.pg.sqlstates import OBJECT_NOT_IN_PREREQUISITE_STATE

POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class _Unchanged(enum.Enum):
    """A TOAST value that was not written again."""

    UNCHANGED_TOAST = "unchanged-toast-datum"

    def __repr__(self) -> str:
        return self.name


UNCHANGED_TOAST: Final = _Unchanged.UNCHANGED_TOAST
"""Stands for a TOAST value that an UPDATE did not write again: the WAL does not have it."""

Value = str | bytes | _Unchanged | None
"""A column's value: its text; its binary form, where ``binary_values`` asks for it; or None for NULL."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation as of a change.

    Attributes:
        name, type_name: as the server prints them; type_oid, typmod: of the type.
        is_key: it is of the replica identity.
        not_null: it has a NOT NULL constraint.
    """

    name: str
    type_name: str
    type_oid: int
    typmod: int
    is_key: bool
    not_null: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation as of a change.

    Attributes:
        oid: of the relation; namespace: its schema; name: its own.
        replica_identity: ``d`` default, ``n`` nothing, ``f`` full, ``i`` index.
        columns: without dropped ones.
    """

    oid: int
    namespace: str
    name: str
    replica_identity: str
    columns: tuple[Column, ...]


class Row(Mapping[str, Value]):
    """A tuple: values by the names of columns, in their order; equal to a dictionary of the same.

    Args:
        relation: whose.
        values: one a column.
    """

    __slots__ = ("_relation", "_values")

    def __init__(self, relation: Relation, values: tuple[Value, ...]) -> None:
        self._relation, self._values = relation, values

    def __getitem__(self, name: str) -> Value:
        for column, value in zip(self._relation.columns, self._values, strict=True):
            if column.name == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (column.name for column in self._relation.columns)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Row({dict(self)!r})"


@dataclass(frozen=True, slots=True)
class Change:
    """An INSERT, UPDATE or DELETE (ReorderBufferChange).

    Attributes:
        action: ``insert``, ``update`` or ``delete``.
        lsn: where its record starts.
        xid: the subtransaction, or transaction, that made it.
        new: the row, of INSERT and UPDATE; None if it was not logged.
        old: the old row, or its key with NULL elsewhere, of UPDATE and DELETE; None if it was not logged.
    """

    action: str
    lsn: int
    xid: int
    new: Row | None
    old: Row | None


@dataclass(frozen=True, slots=True)
class Truncate:
    """A TRUNCATE.

    Attributes:
        lsn: where its record starts.
        cascade, restart_seqs: as given.
    """

    lsn: int
    cascade: bool
    restart_seqs: bool


@dataclass(slots=True)
class Transaction:
    """A transaction (ReorderBufferTXN); a subtransaction, where ``stream_abort`` tells that one was rolled back.

    Attributes:
        xid: its own; toplevel_xid: of the toplevel transaction, the same but for subtransactions.
        first_lsn: where it, or its streamed block, first showed; 0 where it ends without its changes.
        final_lsn: start of its commit record, or PREPARE's; end_lsn: its end. Of a block the record that it is
            streamed at, and its last change.
        time: of the commit, or PREPARE, in microseconds since 2000-01-01; the origin's if it has one; 0 in a block.
        origin: name of the replication origin that it came from, None if it is local; origin_lsn: its commit there. Of
            what is streamed, the first block has the name alone, and all else has neither.
        gid: of a prepared transaction.
        is_streamed: blocks of it have been streamed before (rbtxn_is_streamed).
        private: whatever a plugin wants to keep with it (output_plugin_private), in a block up to its end.
    """

    xid: int
    toplevel_xid: int
    first_lsn: int
    final_lsn: int
    end_lsn: int
    time: int
    origin: str | None = None
    origin_lsn: int = 0
    gid: str | None = None
    is_streamed: bool = False
    private: Any = None

    @property
    def commit_time(self) -> datetime:
        """The time, in UTC."""
        return POSTGRES_EPOCH + timedelta(microseconds=self.time)


@dataclass
class Context:
    """The context that callbacks are given first (LogicalDecodingContext).

    Attributes:
        options: as given, (name, value); a value of None means an option without one.
        major: PostgreSQL's major version.
        slot: name of the slot, empty without one.
        streaming: transactions in progress are streamed; true if the plugin has callbacks for it, until ``startup``
            says otherwise.
    """

    options: tuple[tuple[str, str | None], ...]
    major: int
    slot: str = ""
    streaming: bool = False
    _written: list[tuple[int, int, bytes]] = field(default_factory=list, repr=False)
    _place: tuple[int, int] | None = field(default=None, repr=False)

    @property
    def option(self) -> dict[str, str | None]:
        """Options by name; of several with one name the last one's value."""
        return dict(self.options)

    def write(self, data: str | bytes) -> None:
        """Write a message (OutputPluginPrepareWrite and OutputPluginWrite).

        Args:
            data: text, which is sent in UTF8, or bytes.

        Raises:
            PluginError: not inside of a callback that may write.
        """
        if self._place is None:
            raise PluginError("writes are only accepted in commit, begin and change callbacks")
        encoded = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else bytes(data)
        self._written.append((*self._place, encoded))


class OutputPlugin:
    """Base of output plugins that are called for one change at a time; ``begin``, ``change`` and ``commit`` are needed.

    Attributes:
        output_type: ``text``, or ``binary`` for messages that are no text.
        binary_values: values come in the binary form of their types, as bytes, where these have one.
    """

    output_type: ClassVar[str] = "text"
    binary_values: ClassVar[bool] = False

    def startup(self, ctx: Context, is_init: bool) -> None:
        """Read the options, before all else.

        Args:
            ctx: its options.
            is_init: a slot is being made.
        """

    def shutdown(self, ctx: Context) -> None:
        """End a task: called after its last transaction."""

    def filter_by_origin(self, ctx: Context, origin_id: int) -> bool:
        """Tell whether what came from a replication origin (0: local) is left out."""
        return False

    def filter_prepare(self, ctx: Context, xid: int, gid: str) -> bool:
        """Tell whether a prepared transaction is decoded at its commit, as any other one."""
        return False

    @abstractmethod
    def begin(self, ctx: Context, txn: Transaction) -> None:
        """Begin a transaction: called before its first change."""

    @abstractmethod
    def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
        """Take an INSERT, UPDATE or DELETE."""

    @abstractmethod
    def commit(self, ctx: Context, txn: Transaction, commit_lsn: int) -> None:
        """End a transaction: called after its last change; ``commit_lsn``: where its commit record starts."""

    def truncate(self, ctx: Context, txn: Transaction, relations: Sequence[Relation], change: Truncate) -> None:
        """Take a TRUNCATE of some relations."""

    def message(
        self, ctx: Context, txn: Transaction | None, message_lsn: int, transactional: bool, prefix: str, content: bytes
    ) -> None:
        """Take a logical message; one that is not transactional has no transaction."""

    def begin_prepare(self, ctx: Context, txn: Transaction) -> None:
        """Begin a prepared transaction: called before its first change."""

    def prepare(self, ctx: Context, txn: Transaction, prepare_lsn: int) -> None:
        """End a prepared transaction: called after its last change."""

    def commit_prepared(self, ctx: Context, txn: Transaction, commit_lsn: int) -> None:
        """Take the commit of a prepared transaction."""

    def rollback_prepared(self, ctx: Context, txn: Transaction, prepare_end_lsn: int, prepare_time: int) -> None:
        """Take the rollback of a prepared transaction."""

    def stream_start(self, ctx: Context, txn: Transaction) -> None:
        """Begin a block of a transaction in progress: called before its first change."""

    def stream_stop(self, ctx: Context, txn: Transaction) -> None:
        """End the block: called after its last change."""

    def stream_abort(self, ctx: Context, txn: Transaction, abort_lsn: int) -> None:
        """Take the rollback of a transaction, or a subtransaction, of which something was streamed.

        Args:
            ctx: the context.
            txn: what was rolled back.
            abort_lsn: where the abort record ends.
        """

    def stream_prepare(self, ctx: Context, txn: Transaction, prepare_lsn: int) -> None:
        """Take the PREPARE of a transaction that was streamed."""

    def stream_commit(self, ctx: Context, txn: Transaction, commit_lsn: int) -> None:
        """Take the commit of a transaction that was streamed."""

    def stream_change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
        """Take a change in a block, as :meth:`change`."""

    def stream_message(
        self, ctx: Context, txn: Transaction, message_lsn: int, transactional: bool, prefix: str, content: bytes
    ) -> None:
        """Take a message in a block, as :meth:`message`."""

    def stream_truncate(self, ctx: Context, txn: Transaction, relations: Sequence[Relation], change: Truncate) -> None:
        """Take a TRUNCATE in a block, as :meth:`truncate`."""


NEEDED = ("begin", "change", "commit")
"""Callbacks without which a plugin is none."""

TWO_PHASE = ("begin_prepare", "prepare", "commit_prepared", "rollback_prepared")
"""Callbacks that are needed where prepared transactions are decoded at PREPARE, as they are with any of these,
``stream_prepare`` or ``filter_prepare``."""

STREAM = ("stream_start", "stream_stop", "stream_abort", "stream_commit", "stream_change")
"""Callbacks that are needed where transactions in progress are streamed, as they are with any of these,
``stream_message`` or ``stream_truncate``."""


def has_callback(plugin: type[OutputPlugin], name: str) -> bool:
    """Tell whether a plugin has a callback of its own."""
    return getattr(plugin, name) is not getattr(OutputPlugin, name)


def decodes_prepared(plugin: type[OutputPlugin]) -> bool:
    """Tell whether a plugin has any callback of prepared transactions (StartupDecodingContext)."""
    return any(has_callback(plugin, name) for name in (*TWO_PHASE, "stream_prepare", "filter_prepare"))


def streams(plugin: type[OutputPlugin]) -> bool:
    """Tell whether a plugin has any callback of transactions in progress (StartupDecodingContext)."""
    return any(has_callback(plugin, name) for name in (*STREAM, "stream_message", "stream_truncate"))


def check_has(plugin: type[OutputPlugin], name: str) -> None:
    """Check that a plugin has a callback that is to be called now (the callback wrappers of logical.c).

    Raises:
        PluginError: it is missing.
    """
    if has_callback(plugin, name):
        return
    for names, what in _NEEDED_FOR:
        if name in names:
            raise PluginError(f"{what} requires a {name}_cb callback", sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE)


_NEEDED_FOR = (
    (STREAM, "logical streaming"),
    (("stream_prepare",), "logical streaming at prepare time"),
    (TWO_PHASE, "logical replication at prepare time"),
)


def check_callbacks(plugin: type[OutputPlugin]) -> None:
    """Check that a plugin has the callbacks that it needs (LoadOutputPlugin).

    Raises:
        PluginError: one is missing.
    """
    for name in NEEDED:
        if not has_callback(plugin, name):
            raise PluginError(f"output plugins have to register a {name} callback")
    if plugin.output_type not in ("text", "binary"):
        raise PluginError(f'output_type of "{plugin.__name__}" is "{plugin.output_type}", expected text or binary')
