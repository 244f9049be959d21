"""pgoutput: the messages of PostgreSQL's own logical replication (replication/pgoutput/pgoutput.c, 14 to 19).

Protocol versions 1 up to the major's highest, values as text or in binary form; prepared transactions at PREPARE (15);
transactions in progress in blocks.

The schema cache of the server (RelationSyncCache) is not here: the reorder room keeps account of what was announced,
with :meth:`PgOutput.forgets` for what makes the server forget. Every path that announces a relation sends a change
or truncate right after, but for a DELETE without its old tuple in 14.

What 14 does otherwise: BEGIN and COMMIT are always sent. It looks up again how a relation is published only after a
change of a publication. So that outlives changes of the relation, even that it is no partition any more. The relation
is announced again only after a message about itself. A partition may so be published as another relation than it was
announced as: its rows are then sent unconverted, which is done here only if they are the same.

"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from headwater.base.overrides import override
from headwater.catalog.relation import RelationSchema
from headwater.definitions.events import DdlEvent
from headwater.errors import DecodingError, HeadwaterError, PluginError
from headwater.filters.changes import compiled
from headwater.pg.catalogs import PG_NAMESPACE, PG_PUBLICATION, PG_PUBLICATION_NAMESPACE, PG_PUBLICATION_REL
from headwater.pg.catcache_hashes import hash_any, oid_of_hash
from headwater.pg.encodings import encode_name
from headwater.pg.version import VERSIONS
from headwater.plugins._messages import Out
from headwater.plugins._plan import READY, Plan, Ready
from headwater.plugins._plan import UNSENDABLE as NEVER_SENT
from headwater.plugins.api import (
    WANT_BARE_DELETE,
    WANT_DELETE,
    CatalogView,
    Description,
    PluginContext,
    PluginTraits,
    SinvalMessage,
    SliceTables,
    StreamedTransaction,
    TwoPhaseTransaction,
    WholeCatalog,
)
from headwater.plugins.kernel_plugin import KernelPlugin
from headwater.plugins.message_buffer import Rendering, with_messages
from headwater.plugins.pgoutput._render import CELL_SIZE, FIXED_SIZE, Wire, render_messages
from headwater.plugins.pgoutput.definitions import PREFIX, Publishing, definition_change, table_of
from headwater.plugins.pgoutput.options import parse_options
from headwater.plugins.pgoutput.protocol import (
    NAMED,
    UNSENDABLE,
    PreparedStamp,
    RelationMessage,
    announce,
    in_stream,
    with_texts,
    write_begin_prepare,
    write_commit_prepared,
    write_message,
    write_origin,
    write_prepare,
    write_rollback_prepared,
    write_stream_abort,
    write_stream_commit,
    write_stream_prepare,
    write_stream_start,
    write_stream_stop,
    write_truncate,
)
from headwater.plugins.publication import (
    Published,
    ancestor_relation,
    has_same_rows,
    held_back,
    is_publishable,
    load_publications,
    published,
    require_publications,
)
from headwater.reorder.announced_schemas import (
    ANNOUNCED,
    ENTRIES,
    LOADED,
    MEMBERS,
    NAMES,
    RELATIONS,
    ROWS,
    SCHEMAS,
    Subject,
    member_subject,
)
from headwater.reorder.unit_flags import STREAMED
from headwater.rmgr.invalidation import CATALOG, RELCACHE, RELSYNC
from headwater.rows.conversion import NO_CONVERSION, converted_text, make_conversion
from headwater.rows.conversion import refusal as refused_text
from headwater.rows.items import REFUSED, Cells, Items, Messages

_UP_TO_15 = frozenset({PG_PUBLICATION, PG_PUBLICATION_REL, PG_PUBLICATION_NAMESPACE})

# NAMESPACEOID, PUBLICATIONNAMESPACEMAP, PUBLICATIONOID, PUBLICATIONRELMAP of each major (utils/syscache.h).
CATCACHES = {
    14: frozenset({45, 47}),
    15: frozenset({48, 49, 51}),
    16: frozenset({36, 48, 49, 51}),
    17: frozenset({36, 48, 49, 51}),
    18: frozenset({38}),
    19: frozenset({38}),
}
"""Catcaches whose invalidation makes pgoutput forget how every relation is published, and from 15 on that it was
announced; 14 and 15 do not watch pg_namespace, from 18 on nothing else is watched (publications there send relsync
messages)."""

PUBLICATIONOID = {14: 45, 15: 49, 16: 49, 17: 49, 18: 51, 19: 51}
"""The catcache that holds publications themselves; its invalidation makes pgoutput load them again."""

PUBLICATIONNAME = {14: 44, 15: 46, 16: 46, 17: 46, 18: 48, 19: 48}
"""The catcache of the same rows by name, of which only the OID is asked.

Messages about a row go to both, to each with the hash of its key. Loading asks this one which publication a name is,
and the other for that one's row (GetPublicationByName): each keeps what it read, or that there was nothing, until a
message has its key's hash. So a publication's row may be read again, and the name of its later time be kept.
"""

PUBLICATIONRELMAP = {14: 47, 15: 51, 16: 51, 17: 51, 18: 53, 19: 53}
PUBLICATIONNAMESPACEMAP: dict[int, int | None] = {14: None, 15: 48, 16: 48, 17: 48, 18: 50, 19: 50}
"""The catcaches that hold the members of publications.

Any message about one of their rows drops all cached lists, such as that of a relation's publications; a row by itself
stays until a message has the hash of its key."""

CATALOGS = {
    14: frozenset({PG_PUBLICATION, PG_PUBLICATION_REL}),
    15: _UP_TO_15,
    16: _UP_TO_15 | {PG_NAMESPACE},
    17: _UP_TO_15 | {PG_NAMESPACE},
    18: frozenset({PG_NAMESPACE}),
    19: frozenset({PG_NAMESPACE}),
}
"""The catalogs of these catcaches, which a rewrite (VACUUM FULL) invalidates as a whole."""

_CACHES_OF = {
    PG_PUBLICATION: [(LOADED, 0), (NAMES, 0), (ROWS, 0)],
    PG_PUBLICATION_REL: [(RELATIONS, 0), (MEMBERS, 0)],
    PG_PUBLICATION_NAMESPACE: [(SCHEMAS, 0)],
}
"""The caches that are looked up again when a whole catalog is invalidated (CatalogCacheFlushCatalog)."""


def _heeded(major: int) -> frozenset[int]:
    """Return ids of the messages at which anything is forgotten."""
    of_caches = (
        PUBLICATIONOID[major],
        PUBLICATIONNAME[major],
        PUBLICATIONRELMAP[major],
        PUBLICATIONNAMESPACEMAP[major],
    )
    return (
        CATCACHES[major]
        | {cache for cache in of_caches if cache is not None}
        | {CATALOG, RELCACHE}
        | ({RELSYNC} if VERSIONS[major].has_relsync_invalidations else set())
    )


_DESCRIPTIONS = np.frombuffer(b"RY", np.uint8)
_BEGINNINGS = np.frombuffer(b"BbS", np.uint8)


class PgOutput(KernelPlugin):
    """pgoutput.

    Attributes:
        options: as parsed.
    """

    name = "pgoutput"
    needs_tuples = True

    def __init__(self, options: Sequence[tuple[str, str | None]], context: PluginContext) -> None:
        """Parse the options.

        Raises:
            PluginError: an option is wrong.
        """
        self.major, self.encoding = context.major, context.session.encoding
        version = context.version
        context.require_complete_rows(f"{self.name} cannot mark")
        self.options = parse_options(options, version)
        self.client_encoding = context.session.client_encoding
        self._announces_bare_deletes = version.announces_bare_deletes
        self._reads_missing_as_null = version.reads_missing_of_partitions_as_null
        self.traits = PluginTraits(
            sends_schema=True,
            skips_empty=version.puts_off_begin,
            publication_names=self.options.publication_names,
            announcements=ENTRIES if version.announces_anew_with_publications else ANNOUNCED,
            counts_prepared=version.counts_announcements_at_prepare,
            wants_client_encoding=True,
            wants_binary=self.options.binary,
            heeded=_heeded(self.major),
            two_phase=version.has_two_phase_option and (context.two_phase or self.options.two_phase),
            wants_ddl=context.with_ddl and context.with_definitions,
            stream_limit=context.session.memory_limit if self.options.streaming != "off" else 0,
        )
        self._numbers = {
            hash_any(encode_name(name, self.encoding)): [
                (NAMES, number) for number, other in enumerate(self.options.publication_names, 1) if other == name
            ]
            for name in self.options.publication_names
        }

    @override
    def wants(self, schema: RelationSchema, catalog: CatalogView) -> int:
        if not self.tracks(schema):
            return 0
        return self._wants(self._published(schema, catalog))

    def schema_messages(self, schema: RelationSchema, catalog: CatalogView) -> list[bytes]:
        """Write Y and R messages: of the ancestor that the relation is published as, if any, then its own."""
        return self._announcement(schema, self._published(schema, catalog))

    def describe(self, schema: RelationSchema, catalog: CatalogView) -> Description:
        """Say all of a relation, of one look at the publications."""
        if not self.tracks(schema):
            return Description()
        entry = self._published(schema, catalog)
        if entry.filters is not None:
            compiled(entry.filters, VERSIONS[self.major], self.encoding).check()
        messages = tuple(self._announcement(schema, entry)) if entry.emits else ()
        return Description(self._wants(entry), messages, entry.filters)

    def _wants(self, entry: Published) -> int:
        is_announced = self._announces_bare_deletes and entry.emits & WANT_DELETE
        return entry.emits | (WANT_BARE_DELETE if is_announced else 0)

    def _announcement(self, schema: RelationSchema, entry: Published) -> list[bytes]:
        relations = [schema] if entry.publish_as.oid == schema.oid else [entry.publish_as, schema]
        messages = []
        for relation in relations:
            messages += announce(
                relation, [column for column in relation.columns if entry.publishes(column)], self.encoding
            )
        return messages

    @override
    def published_as(self, schema: RelationSchema, schema_messages: Sequence[bytes]) -> int:
        """Return the first relation that the messages announce."""
        return _first_relation(schema_messages, self.encoding).oid

    def renewed(self, schema: RelationSchema, catalog: CatalogView, entry: Description) -> Description:
        """Announce the relation, and the ancestor that it is published as, as they are now."""
        publish_as = self.published_as(schema, entry.messages)
        relation = schema if publish_as == schema.oid else ancestor_relation(catalog, publish_as)
        messages = self._announcement(schema, Published(0, relation))
        return entry._replace(wants=held_back(entry.wants, schema, publish_as, self.major), messages=tuple(messages))

    def require_sendable(self, schema: RelationSchema, catalog: CatalogView, announced_as: int, sent_as: int) -> None:
        """Check that rows are converted as when they were announced, or are those of the ancestor."""
        if sent_as == schema.oid:
            return
        ancestor = ancestor_relation(catalog, sent_as)
        if announced_as != schema.oid or not has_same_rows(schema, ancestor):
            raise PluginError(
                f'the server sends rows of partition "{schema.namespace}.{schema.name}" as such of '
                f'"{ancestor.namespace}.{ancestor.name}", with other columns, unconverted: '
                "it has not been announced since a publication was changed"
            )

    def shown_columns(self, schema: RelationSchema, schema_messages: Sequence[bytes]) -> frozenset[int]:
        """Return the published columns."""
        return frozenset(place + 1 for place in _attributes(schema, _first_relation(schema_messages, self.encoding)))

    def read_as(self, schema: RelationSchema, schema_messages: Sequence[bytes]) -> RelationSchema:
        """Leave out, in 14, the values that older rows lack, if the relation is sent as an ancestor."""
        if not self._reads_missing_as_null or self.published_as(schema, schema_messages) == schema.oid:
            return schema
        return replace(schema, columns=tuple(replace(column, missing=None) for column in schema.columns))

    def truncate(self, schemas: Sequence[RelationSchema], cascade: bool, restart_seqs: bool) -> list[bytes]:
        """Write T; the schemas that are due go before it."""
        return [write_truncate([schema.oid for schema in schemas], cascade, restart_seqs)] if schemas else []

    @override
    def wants_message(self, transactional: bool) -> bool:
        """Want messages with the option ``messages``."""
        return self.options.messages

    def message(self, lsn: int, transactional: bool, prefix: bytes, content: bytes) -> list[bytes]:
        """Write M; the content is bytes, whatever they are."""
        try:
            return [write_message(lsn, transactional, self._converted(prefix, lsn), content)]
        except DecodingError:
            return [UNSENDABLE + prefix]

    def _converted(self, text: bytes, lsn: int) -> bytes:
        """Convert a text of a change at an LSN to the client's encoding.

        Raises:
            DecodingError: it has a character that cannot be sent.
        """
        return text if text.isascii() else converted_text(self.encoding, self.client_encoding, text, lsn)

    @override
    def origin(self, origin_id: int, name: str | None, lsn: int) -> list[bytes]:
        """Write O."""
        return [write_origin(name, lsn, self.encoding)] if name else []

    @override
    def ddl(self, event: DdlEvent, number: int, catalog: CatalogView) -> list[bytes]:
        """Write M with a prefix of our own; see :mod:`headwater.plugins.pgoutput.definitions`."""
        oid = table_of(event)
        relation = catalog.relation(oid) if oid else None
        publications = load_publications(self.options.publication_names, catalog, self.major)
        entry = None
        if relation is not None and self.tracks(relation):
            entry = published(relation, publications, catalog, self.major)
        change = definition_change(event, relation, Publishing(publications, entry), catalog)
        return [write_message(0, True, PREFIX.encode(), change.message())]

    def begin_prepare(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Write b; also before one that sends nothing else."""
        return [write_begin_prepare(_stamp(txn))]

    def prepare(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Write P."""
        return [write_prepare(_stamp(txn))]

    def commit_prepared(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Write K."""
        return [write_commit_prepared(_stamp(txn))]

    def rollback_prepared(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Write R."""
        lsns, times = (txn.prepare_end_lsn, txn.end_lsn), (txn.prepare_time, txn.time)
        return [write_rollback_prepared(PreparedStamp(lsns, times, txn.xid, txn.gid))]

    def stream_start(self, xid: int, is_first: bool) -> list[bytes]:
        """Write S."""
        return [write_stream_start(xid, is_first)]

    @override
    def stream_stop(self, xid: int) -> list[bytes]:
        """Write E."""
        return [write_stream_stop()]

    @override
    def stream_truncate(
        self, schemas: Sequence[RelationSchema], cascade: bool, restart_seqs: bool, toplevel_xid: int, xid: int
    ) -> list[bytes]:
        """Write T with the xid of the subtransaction."""
        return [in_stream(message, xid) for message in self.truncate(schemas, cascade, restart_seqs)]

    def stream_message(self, lsn: int, prefix: bytes, content: bytes, toplevel_xid: int) -> list[bytes]:
        """Write M with the xid of the toplevel transaction."""
        messages = self.message(lsn, True, prefix, content)
        return [message if message[:1] == UNSENDABLE else in_stream(message, toplevel_xid) for message in messages]

    def stream_schema(self, messages: Sequence[bytes], xid: int) -> list[bytes]:
        """Write Y and R with the xid of the subtransaction."""
        return [in_stream(message, xid) for message in messages]

    def stream_commit(self, txn: StreamedTransaction) -> list[bytes]:
        """Write C."""
        return [write_stream_commit(txn.xid, txn.final_lsn, txn.end_lsn, txn.time)]

    def stream_abort(self, txn: StreamedTransaction) -> list[bytes]:
        """Write A, with place and time if streaming is ``parallel``."""
        info = (txn.end_lsn, txn.time) if self.options.streaming == "parallel" else None
        return [write_stream_abort(txn.toplevel_xid, txn.xid, info)]

    def stream_prepare(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Write P."""
        return [write_stream_prepare(_stamp(txn))]

    def filter_origin(self, origin_id: int) -> bool:
        """Leave out, with ``origin 'none'``, all that has an origin."""
        return self.options.publish_no_origin and origin_id != 0

    def tracks(self, schema: RelationSchema) -> bool:
        """Tell whether pgoutput_change goes as far as RelationSyncCache."""
        return not schema.rewrite_of and is_publishable(schema)

    def forgets(self, message: SinvalMessage) -> list[Subject]:
        """Return entries of RelationSyncCache that the server drops, and what it reads again of publications."""
        major = self.major
        is_relsync = message.id == RELSYNC and VERSIONS[major].has_relsync_invalidations
        if message.id == RELCACHE or is_relsync:
            is_heeded = self.traits.announcements == ENTRIES or message.value != 0
            return [(self.traits.announcements, message.value)] if is_heeded else []
        if message.id == CATALOG:
            entries = [(ENTRIES, 0)] if message.value in CATALOGS[major] else []
            return entries + _CACHES_OF.get(message.value, [])
        subjects = [(ENTRIES, 0)] if message.id in CATCACHES[major] else []
        if message.id == PUBLICATIONOID[major]:
            subjects += [(LOADED, 0), (ROWS, oid_of_hash(message.value))]
        elif message.id == PUBLICATIONNAME[major]:
            subjects += self._numbers.get(message.value, [])
        elif message.id == PUBLICATIONRELMAP[major]:
            subjects += [(RELATIONS, 0), (MEMBERS, member_subject(message.value))]
        elif message.id == PUBLICATIONNAMESPACEMAP[major]:
            subjects.append((SCHEMAS, 0))
        return subjects

    def missing_publications(self, catalog: CatalogView) -> list[str]:
        """Return the named publications that do not exist, of which 18 warns; before, they are errors."""
        if not VERSIONS[self.major].warns_of_missing_publications:
            return []
        return [name for name in self.options.publication_names if catalog.publication(name) is None]

    @override
    def validate(self, catalog: WholeCatalog) -> None:
        require_publications(self.options.publication_names, catalog)

    def _published(self, schema: RelationSchema, catalog: CatalogView) -> Published:
        publications = load_publications(self.options.publication_names, catalog, self.major)
        return published(schema, publications, catalog, self.major)

    def writer(self, tables: SliceTables, ready: Ready, plan: Plan) -> Rendering:
        """Join the plan with the kernel, and with how the layouts are sent."""
        wire = make_wire(tables.schemas, tables.schema_messages, self.encoding)
        unsendable: DecodingError | None = None
        if make_conversion(self.encoding, self.client_encoding) is not NO_CONVERSION:
            streamed = tables.transactions.flags & STREAMED != 0
            ready, plan, unsendable = sendable(ready, plan, self._converted, streamed)
        items, cells, transactions = tables.items, tables.cells, tables.transactions

        def step(span: NDArray[np.int64], out: Out) -> int:
            return int(render_messages(items, cells, transactions, ready, plan, wire, span, out))

        size = len(cells.text) + CELL_SIZE * len(cells.kind) + FIXED_SIZE * len(plan.op) + len(ready.data)

        def refusal(message: int) -> HeadwaterError:
            if unsendable is not None and plan.op[message] == NEVER_SENT:
                return unsendable
            item = int(plan.arg[message])
            value = first_refused(items, item, cells, wire)
            return refused_text(self.encoding, self.client_encoding, value, int(items.lsn[item]))

        return Rendering(step, plan, size, refusal)

    def without_place(self, messages: Messages) -> NDArray[np.bool_]:
        """Return descriptions of relations and types, and beginnings that an origin follows."""
        kinds = messages.first_bytes
        precedes_origin = np.append(kinds[1:] == ord("O"), False)
        return np.isin(kinds, _DESCRIPTIONS) | (precedes_origin & np.isin(kinds, _BEGINNINGS))


def _stamp(txn: TwoPhaseTransaction) -> PreparedStamp:
    return PreparedStamp((txn.final_lsn, txn.end_lsn), (txn.time,), txn.xid, txn.gid)


def make_wire(
    schemas: Sequence[RelationSchema], schema_messages: Sequence[Sequence[bytes]], encoding: str = "UTF8"
) -> Wire:
    """Make how layouts are sent, as their first R message says (the ancestor's, if they are published as one).

    Raises:
        PluginError: a layout has no R message, or one with a column it does not have.
    """
    firsts = [_first_relation(messages, encoding) for messages in schema_messages]
    attributes = [_attributes(schema, first) for schema, first in zip(schemas, firsts, strict=True)]
    return Wire(
        relation=np.array([first.oid for first in firsts], np.int64),
        old_mark=np.array([ord("O" if first.replica_identity == "f" else "K") for first in firsts], np.uint8),
        first=np.cumsum([0] + [len(columns) for columns in attributes], dtype=np.int64),
        attribute=np.array([number for columns in attributes for number in columns], np.int32),
    )


def sendable(
    ready: Ready, plan: Plan, convert: Callable[[bytes, int], bytes], streamed: NDArray[np.bool_]
) -> tuple[Ready, Plan, DecodingError | None]:
    """Convert the names in ready-made messages to what the client gets.

    Args:
        ready: the slice's.
        plan: its messages.
        convert: makes of a text of a change at an LSN what the client gets.
        streamed: bool[t] transactions of which literals that announce something have xids.

    Returns:
        the messages, the plan, in which the first one that cannot be sent is UNSENDABLE, and the error of that one.
    """
    places = np.flatnonzero(plan.op == READY)
    tags = ready.data[ready.offsets[plan.arg[places]]]
    places = places[np.isin(tags, np.frombuffer(NAMED, np.uint8))]
    numbers, firsts = np.unique(plan.arg[places], return_index=True)
    texts: dict[int, bytes] = {}
    for number, place in sorted(zip(numbers.tolist(), places[firsts].tolist(), strict=True), key=itemgetter(1)):
        message, lsn = ready.data[ready.offsets[number] : ready.offsets[number + 1]].tobytes(), int(plan.lsn[place])
        has_xid = bool(streamed[plan.txn[place]]) and number < ready.schema_first[0] and message[:1] in (b"R", b"Y")
        try:
            made = with_texts(message, lambda text, lsn=lsn: convert(text, lsn), has_xid)  # type: ignore[misc]
        except DecodingError as error:
            plan.op[place] = NEVER_SENT
            return with_messages(ready, texts), plan, error
        if made != message:
            texts[number] = made
    return with_messages(ready, texts), plan, None


def first_refused(items: Items, item: int, cells: Cells, wire: Wire) -> bytes:
    """Find what cannot be sent of the first such value of a change, in the order in which values are sent."""
    layout = int(items.layout[item])
    columns = wire.attribute[wire.first[layout] : wire.first[layout + 1]]
    firsts = [first for first in (int(cells.old_first[item]), int(cells.new_first[item])) if first >= 0]
    all_cells = (int(first + column) for first in firsts for column in columns)
    cell = next(cell for cell in all_cells if cells.kind[cell] == REFUSED)
    return cells.text[cells.start[cell] :][: cells.length[cell]].tobytes()


def _first_relation(messages: Sequence[bytes], encoding: str) -> RelationMessage:
    for message in messages:
        if message[:1] == b"R":
            return RelationMessage.parse(message, encoding)
    raise PluginError("a layout came without its relation message")


def _attributes(schema: RelationSchema, relation: RelationMessage) -> list[int]:
    """Return indexes into a tuple's cells of the columns sent, matched by name (build_attrmap_by_name)."""
    places = {column.name: column.number - 1 for column in schema.columns if not column.is_dropped}
    missing = [name for name in relation.columns if name not in places]
    if missing:
        raise PluginError(f'table "{schema.namespace}.{schema.name}" has no column "{missing[0]}" to send')
    return [places[name] for name in relation.columns]
