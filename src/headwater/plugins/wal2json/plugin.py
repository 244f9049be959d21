"""wal2json 2.5: changes as JSON, a message for each (format 2), or one for each transaction (format 1).

Mirrors wal2json.c of github.com/eulerto/wal2json as Debian packages it for PostgreSQL 15, with its ways: names of types
that are quoted already are not escaped. Format 1 shows no TRUNCATE. It counts the changes of the last transaction on
into a message that is in none, which may put a comma before that. With ``bytea_output`` escape the first two characters
of bytea are left out. What it warns of, changes of tables without an identity, is printed once for each table.

Known gap: ``include-default``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headwater.base.overrides import override
from headwater.catalog.relation import RelationSchema
from headwater.errors import HeadwaterError, PluginError, warn
from headwater.pg.version import VERSIONS
from headwater.plugins._messages import Out
from headwater.plugins._plan import COMMIT, Plan, Ready
from headwater.plugins._stamps import Stamps
from headwater.plugins.api import (
    WANT_DELETE,
    WANT_INSERT,
    WANT_TRUNCATE,
    WANT_UPDATE,
    CatalogView,
    PluginContext,
    PluginTraits,
    SliceTables,
)
from headwater.plugins.kernel_plugin import KernelPlugin
from headwater.plugins.message_buffer import Rendering
from headwater.plugins.stamps import commit_stamps, no_stamps
from headwater.plugins.wal2json._render import render_json
from headwater.plugins.wal2json.options import parse_options
from headwater.plugins.wal2json.templates import Vocabulary
from headwater.reorder.unit_flags import BARE
from headwater.rows.items import Messages, Transactions

_WANTS = {"insert": WANT_INSERT, "update": WANT_UPDATE, "delete": WANT_DELETE, "truncate": WANT_TRUNCATE}

LONGEST_MESSAGE = 0x3FFFFFFF - 1
"""Bytes that a StringInfo of the server holds at most (MaxAllocSize, with a byte for the end)."""


class Wal2Json(KernelPlugin):
    """wal2json.

    Attributes:
        options: as parsed.
    """

    name = "wal2json"
    needs_tuples = True
    sends_origins = False

    def __init__(self, options: Sequence[tuple[str, str | None]], context: PluginContext) -> None:
        """Parse the options.

        Raises:
            PluginError: an option is wrong or not supported yet.
        """
        context.require_complete_rows(f"{self.name} cannot mark")
        self.major = context.major
        self.session = context.session
        self.options = parse_options(options)
        if self.options.include_default:
            raise PluginError('wal2json option "include-default" is not supported yet', hint="leave it off")
        is_first = self.options.format_version == 1
        self.has_boundaries = is_first or self.options.include_transaction
        self.joins = is_first and not self.options.write_in_chunks
        # Of a transaction without rows it is not known beforehand whether its messages are left out.
        chooses = bool(self.options.filter_msg_prefixes or self.options.add_msg_prefixes)
        self.traits = PluginTraits(
            is_text=True,
            chooses_messages=chooses,
            cuts_transactions=not is_first or (self.options.write_in_chunks and not chooses),
            leads_messages=is_first,
        )
        self.vocabulary = Vocabulary(self.options, self.session)
        self._filtered, self._added = (
            frozenset(map(self.session.encoded, prefixes))
            for prefixes in (self.options.filter_msg_prefixes, self.options.add_msg_prefixes)
        )

    @override
    def wants(self, schema: RelationSchema, catalog: CatalogView) -> int:
        """Want the actions asked for, of the tables asked for; updates and deletes where rows have an identity."""
        if not schema.is_logically_logged or schema.rewrite_of:
            return 0
        if not self.options.shows_table(schema.namespace, schema.name):
            return 0
        wants = sum(_WANTS[action] for action in self.options.actions)
        if self.options.format_version == 1:
            wants &= ~WANT_TRUNCATE
        return wants if schema.has_identity else wants & ~(WANT_UPDATE | WANT_DELETE)

    def passes_over(self, schema: RelationSchema, updates: bool, deletes: bool) -> None:
        """Warn of rows without an identity, as the plugin does."""
        if schema.has_identity:
            return
        if self.options.format_version == 1:
            if (updates and "update" in self.options.actions) or (deletes and "delete" in self.options.actions):
                warn(f'table "{schema.name}" without primary key or replica identity is nothing')
            return
        for is_unwanted, action in ((updates, "update"), (deletes, "delete")):
            if is_unwanted and action in self.options.actions:
                warn(f'no tuple identifier for {action.upper()} in table "{schema.namespace}"."{schema.name}"')

    @override
    def truncate(self, schemas: Sequence[RelationSchema], cascade: bool, restart_seqs: bool) -> list[bytes]:
        """Write a message for each table, in format 2."""
        return [self.vocabulary.truncate(schema) for schema in schemas]

    @override
    def message(self, lsn: int, transactional: bool, prefix: bytes, content: bytes) -> list[bytes]:
        """Write one message, unless its prefix is left out."""
        if prefix in self._filtered or (self._added and prefix not in self._added):
            return []
        return [self.vocabulary.message(transactional, prefix, content)]

    @override
    def origin(self, origin_id: int, name: str | None, lsn: int) -> list[bytes]:
        """Write the id, which the kernel finds by the transaction."""
        return [str(origin_id).encode()] if self.options.include_origin else []

    def filter_origin(self, origin_id: int) -> bool:
        """Leave out the origins asked for; what is local never is."""
        return origin_id != 0 and origin_id in self.options.filter_origins

    def render(self, tables: SliceTables) -> Messages:
        """Make all messages of a slice.

        Raises:
            PluginError: a message is longer than a server's can be.
        """
        rendering = self.rendering(tables)
        pieces = rendering.messages()
        messages = _joined(pieces, rendering.plan, tables.transactions) if self.joins else pieces
        sizes = np.diff(messages.offsets)
        if len(sizes) and sizes.max() > LONGEST_MESSAGE:
            at = int(np.argmax(sizes > LONGEST_MESSAGE))
            raise PluginError(
                f"a message has {sizes[at]} bytes, of which a server holds {LONGEST_MESSAGE} at most",
                lsn=int(messages.lsn[at]),
                hint="with write-in-chunks, or format-version=2, each change is a message of its own",
            )
        return messages

    def writer(self, tables: SliceTables, ready: Ready, plan: Plan) -> Rendering:
        """Join the plan with the kernel, the words of the layouts and the commit times.

        Raises:
            CatalogError: a type's modifiers cannot be printed.
        """
        words = self.vocabulary.words(tables.schemas)
        items, cells, transactions = tables.items, tables.cells, tables.transactions
        times = self._stamps(transactions)
        shows_keys = self.options.include_pk and self.options.format_version == 2
        rules = np.array([self.options.format_version, shows_keys, VERSIONS[self.major].lsn_digits], np.int64)

        def step(span: NDArray[np.int64], out: Out) -> int:
            return int(render_json(items, cells, transactions, ready, plan, words, times, rules, span, out))

        def refusal(message: int) -> HeadwaterError:
            return PluginError(
                "a value of type bytea has less than two characters",
                lsn=int(plan.lsn[message]),
                hint="wal2json reads past its end with bytea_output escape: set it to hex",
            )

        columns = max(len(words.attribute), 1)
        size = len(cells.text) * 5 // 4 + (len(words.text) // columns + 8) * len(cells.kind) + 256 * len(plan.op)
        return Rendering(step, plan, size + len(ready.data), refusal)

    def _stamps(self, transactions: Transactions) -> Stamps:
        if not self.options.include_timestamp:
            return no_stamps(len(transactions.xid))
        return commit_stamps(transactions.commit_time, self.session)


def _joined(pieces: Messages, plan: Plan, transactions: Transactions) -> Messages:
    """Join the pieces of each transaction to one message, which is where its last one is."""
    is_bare = transactions.flags[plan.txn] & BARE != 0
    last = np.flatnonzero((plan.op == COMMIT) | is_bare)
    offsets = pieces.offsets[np.concatenate([[0], last + 1])]
    return Messages(pieces.lsn[last], pieces.xid[last], offsets, pieces.data)
