"""The interface of output plugins.

A plugin lives twice: on the driver it says what it wants and makes the messages that need the catalog (schemas,
truncates, origins); in the decode tasks it renders the rows and makes logical messages. Both are made of the same
options, and an instance pickles. The server's callbacks keep their names where the thing is the same (``truncate``,
``message``; PostgreSQL: ``replication/output_plugin.h``); ``begin_cb``, ``change_cb`` and ``commit_cb`` are one
:meth:`render` here.

Plugins are found by :mod:`headwater.pipeline.requests.plugin_loading`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import DatabaseLocale, Publication, PublicationMember, RelationSchema
from headwater.definitions.events import DdlEvent
from headwater.errors import PluginError
from headwater.pg.version import VERSIONS, Version
from headwater.reorder.announced_schemas import ENTRIES, Subject
from headwater.reorder.wanted_changes import (
    WANT_ALL,
    WANT_BARE_DELETE,
    WANT_DELETE,
    WANT_INSERT,
    WANT_TRUNCATE,
    WANT_UPDATE,
    Description,
)
from headwater.rows.collect.tentative import NOTHING_TENTATIVE, Tentative
from headwater.rows.items import Cells, Items, Literals, Messages, Transactions
from headwater.rows.session import SessionSettings

__all__ = [
    "WANT_ALL",
    "WANT_BARE_DELETE",
    "WANT_DELETE",
    "WANT_INSERT",
    "WANT_TRUNCATE",
    "WANT_UPDATE",
    "CatalogView",
    "ChosenRows",
    "DdlEvent",
    "Description",
    "PluginContext",
    "PluginTraits",
    "SinvalMessage",
    "SlicePlugin",
    "SliceTables",
    "StreamedTransaction",
    "TwoPhaseTransaction",
    "WholeCatalog",
]
"""What a plugin is written with, and found by."""


class CatalogView(Protocol):
    """The catalog as it was at some position, as far as plugins look at it."""

    def relation(self, oid: int) -> RelationSchema | None:
        """Return the relation with this OID."""

    def publication(self, name: str) -> Publication | None:
        """Return the publication of this name."""

    def relation_publications(self, oid: int) -> tuple[int, ...]:
        """Return OIDs of the publications that a relation is in by itself; negative ones of those that leave it out."""

    def publication_member(self, relation: int, publication: int) -> PublicationMember | None:
        """Return a publication's entry of a relation that it names, both by OID; None if it does not."""

    def schema_publications(self, oid: int) -> tuple[int, ...]:
        """Return OIDs of the publications that a schema is in."""

    def locale(self) -> DatabaseLocale:
        """Return the locale that the database's text is ordered by."""


class WholeCatalog(CatalogView, Protocol):
    """The catalog at the end of the window, and what it has been."""

    def has_had_publication(self, name: str) -> bool:
        """Tell whether there is, or has been since the catalog was taken, a publication of this name."""


class ChosenRows(Protocol):
    """The user's own choice of tables, columns and rows (:mod:`headwater.plugins.own_publications`)."""

    def shown(self, schema: RelationSchema, catalog: CatalogView) -> RelationSchema:
        """Return the relation without the columns that are not wanted."""

    def described(self, description: Description, schema: RelationSchema, catalog: CatalogView) -> Description:
        """Narrow what a plugin says of a relation that is shown so to what is wanted."""


class SinvalMessage(Protocol):
    """An invalidation message (PostgreSQL: ``SharedInvalidationMessage``, storage/sinval.h)."""

    @property
    def id(self) -> int:
        """From 0 on a catcache id; else a kind of :mod:`headwater.rmgr.invalidation`, such as CATALOG."""

    @property
    def value(self) -> int:
        """Hash value, catalog or relation OID, whatever the id says."""


@dataclass(frozen=True)
class TwoPhaseTransaction:
    """A prepared transaction, and the record that is decoded of it: PREPARE, or COMMIT or ROLLBACK PREPARED.

    Attributes:
        xid: toplevel xid.
        gid: its name, in the database's encoding.
        final_lsn: where the record starts; end_lsn: where it ends.
        time: microseconds since 2000-01-01, the origin's time if the record has one.
        prepare_end_lsn: where PREPARE ended; prepare_time: its time.
    """

    xid: int
    gid: bytes
    final_lsn: int
    end_lsn: int
    time: int
    prepare_end_lsn: int
    prepare_time: int


@dataclass(frozen=True)
class PluginContext:
    """The session that a plugin serves.

    Attributes:
        major: PostgreSQL's major version, 14 to 19.
        session: settings of the decoding session (the time zone of commit times).
        marks_rows: not all rows need be complete, and each is to be marked.
        two_phase: prepared transactions are wanted at PREPARE, of a plugin that can do it.
        with_ddl: DDL is wanted, of a plugin that shows it.
        with_definitions: the catalog has the definitions of objects, which DDL and columns' defaults come from.
        slot: name of the slot, empty without one.
        is_init: the slot is being made.
        database: name of the database.
    """

    major: int
    session: SessionSettings = field(default_factory=SessionSettings)
    marks_rows: bool = False
    two_phase: bool = False
    with_ddl: bool = False
    with_definitions: bool = False
    slot: str = ""
    is_init: bool = False
    database: str = ""

    @property
    def version(self) -> Version:
        """The version of the server."""
        return self.session.version if self.session.major == self.major else VERSIONS[self.major]

    def require_complete_rows(self, plugin: str) -> None:
        """Refuse rows that may not be complete.

        Args:
            plugin: what refuses them, as the subject and the verb of the sentence.

        Raises:
            PluginError: not all rows need be complete.
        """
        if self.marks_rows:
            raise PluginError(
                f"{plugin} rows that are not complete",
                hint="below wal_level logical, decode with test_decoding, or read rows in Spark",
            )


@dataclass(frozen=True)
class StreamedTransaction:
    """The end of a transaction that was streamed, or of a subtransaction of it that was rolled back.

    Attributes:
        toplevel_xid: the transaction's.
        xid: of what ended.
        final_lsn: where the record of its end starts; end_lsn: where it ends.
        time: microseconds since 2000-01-01, the origin's time if the record has one.
    """

    toplevel_xid: int
    xid: int
    final_lsn: int
    end_lsn: int
    time: int


class SliceTables(NamedTuple):
    """The tables that :meth:`SlicePlugin.render` is given.

    Attributes:
        items: the slice's changes.
        cells: their text or, with ``wants_binary``, their binary form; with ``wants_client_encoding``, REFUSED where it
            has no equivalent of a character.
        transactions: the slice's.
        literals: the slice's.
        schemas: its layouts.
        schema_messages: for each layout what :meth:`SlicePlugin.schema_messages` says as of its first item.
        tentative: its announcements that earlier slices may have made.
    """

    items: Items
    cells: Cells
    transactions: Transactions
    literals: Literals
    schemas: Sequence[RelationSchema]
    schema_messages: Sequence[Sequence[bytes]]
    tentative: Tentative = NOTHING_TENTATIVE


@dataclass(frozen=True)
class PluginTraits:
    """The traits of a plugin with its options.

    Attributes:
        is_text: its data is text.
        sends_schema: it announces relations, so items carry SEND_SCHEMA.
        skips_empty: BEGIN goes out with the first message; transactions that send none are left out.
        messages_count: with skips_empty, a logical message is such a first message (else it goes out without BEGIN).
        publication_names: the publications that its options name.
        announcements: what must be forgotten of a relation to have it announced again: ENTRIES, how it is published;
            or ANNOUNCED, if that it has been announced is forgotten by itself.
        counts_prepared: what a streamed transaction has announced counts for all when it is prepared, too.
        wants_client_encoding: it is given values in the client's encoding, and makes its other texts so; else all is in
            the database's, and messages of text are converted after it.
        wants_binary: it is given values in binary form, cells of kind BINARY, where their type has one.
        marks_rows: not all rows need be complete, and it marks each (:mod:`headwater.rows.tuples.completeness`).
        cuts_transactions: a huge transaction may be cut over several slices; if not, each is rendered as a whole, in
            the memory of one task.
        chooses_messages: of logical messages that it wants it may say nothing.
        leads_messages: what it says of a message that is in no transaction depends on the transaction before it, so
            that both are in one slice.
        tells_last: its messages depend on where what was output before them ended; then a window's first slice knows
            it.
        heeded: ids of the invalidation messages that :meth:`SlicePlugin.forgets` is asked about; it forgets nothing at
            others.
        two_phase: prepared transactions are decoded at PREPARE.
        stream_limit: transactions in progress are shown in blocks, as soon as so many bytes are queued
            (logical_decoding_work_mem; 1 for at once); 0 if they are not.
        puts_off_streams: with skips_empty, a block that says nothing is left out, and so is the end of a transaction
            whose blocks all say nothing.
        wants_ddl: :meth:`SlicePlugin.ddl` is called, of a request with its DDL.
    """

    is_text: bool = False
    sends_schema: bool = False
    skips_empty: bool = False
    messages_count: bool = True
    publication_names: tuple[str, ...] = ()
    announcements: int = ENTRIES
    counts_prepared: bool = False
    wants_client_encoding: bool = False
    wants_binary: bool = False
    marks_rows: bool = False
    cuts_transactions: bool = True
    chooses_messages: bool = False
    leads_messages: bool = False
    tells_last: bool = False
    heeded: frozenset[int] = frozenset()
    two_phase: bool = False
    stream_limit: int = 0
    puts_off_streams: bool = False
    wants_ddl: bool = False


class SlicePlugin(ABC):
    """Base of all output plugins.

    Args:
        options: name and value pairs in the order given; a value of None means the option came without one.
        context: the session.

    Attributes:
        name: as in CREATE_REPLICATION_SLOT.
        traits: how it is to be treated.
        chosen: which tables, columns and rows it is given, by the user's own choice; None for all.

    Raises:
        PluginError: an option is wrong, in the server's words.
    """

    name: ClassVar[str]
    traits: PluginTraits
    chosen: ChosenRows | None = None

    @classmethod
    def asks_for_definitions(cls, options: Sequence[tuple[str, str | None]]) -> str:
        """Name what the plugin reports by the definitions of objects; empty: nothing, unless DDL is asked for.

        They are followed for it where they are available; where not, the user is warned.

        Raises:
            PluginError: an option is wrong.
        """
        return ""

    @abstractmethod
    def __init__(self, options: Sequence[tuple[str, str | None]], context: PluginContext) -> None: ...

    @abstractmethod
    def wants(self, schema: RelationSchema, catalog: CatalogView) -> int:
        """Say which changes of a relation give a message, as of that view: WANT bits.

        Raises:
            PluginError: the server would stop at the first change, or we cannot do yet what it does.
        """

    def schema_messages(self, schema: RelationSchema, catalog: CatalogView) -> list[bytes]:
        """Make what :meth:`render` must be given for a layout; a plugin that sends schemas sends just that."""
        return []

    def looked_up(self, schema: RelationSchema, catalog: CatalogView) -> RelationSchema:
        """Return the relation with what else the plugin must know of it, as of that view."""
        return schema

    def describe(self, schema: RelationSchema, catalog: CatalogView) -> Description:
        """Return the answers of :meth:`wants`, if any change is wanted of :meth:`schema_messages`, and row filters."""
        wants = self.wants(schema, catalog)
        return Description(wants, tuple(self.schema_messages(schema, catalog)) if wants else ())

    def shown_columns(self, schema: RelationSchema, schema_messages: Sequence[bytes]) -> frozenset[int] | None:
        """Return numbers of the columns that messages about a relation hold, given its schema messages; None all.

        Values of others need not have a text form.
        """
        return None

    def read_as(self, schema: RelationSchema, schema_messages: Sequence[bytes]) -> RelationSchema:
        """Return the relation as its rows are taken apart, given its schema messages."""
        return schema

    @abstractmethod
    def truncate(self, schemas: Sequence[RelationSchema], cascade: bool, restart_seqs: bool) -> list[bytes]:
        """Make the messages of a TRUNCATE of relations that are all wanted; none for an empty list."""

    def wants_message(self, transactional: bool) -> bool:
        """Tell whether logical messages of this kind give any message; then decode tasks call :meth:`message`."""
        return True

    @abstractmethod
    def message(self, lsn: int, transactional: bool, prefix: bytes, content: bytes) -> list[bytes]:
        """Make the messages of a logical message whose record ends at `lsn`."""

    def origin(self, origin_id: int, name: str | None, lsn: int) -> list[bytes]:
        """Make what follows the BEGIN of a transaction that came from the origin at its own `lsn`.

        Args:
            origin_id: its id.
            name: its name; None if it has none any more.
            lsn: where the transaction's end is in the origin's log.
        """
        return []

    def ddl(self, event: DdlEvent, number: int, catalog: CatalogView) -> list[bytes]:
        """Make the messages of what a transaction has changed of an object, at its place among the changes.

        Args:
            event: the event.
            number: among the events of the transaction, from 0 on.
            catalog: as the transaction saw it after the change.
        """
        return []

    def passes_over(self, schema: RelationSchema, updates: bool, deletes: bool) -> None:
        """Take note that a window has updates or deletes that are not wanted, of a relation that is else wanted.

        Args:
            schema: the relation.
            updates: there are UPDATEs that are not wanted.
            deletes: there are DELETEs that are not wanted.
        """
        return

    def filter_origin(self, origin_id: int) -> bool:
        """Tell whether what came from this origin (0: local) is left out."""
        return False

    def filter_prepare(self, xid: int, gid: bytes) -> bool:
        """Tell whether a prepared transaction is decoded as any other, when it has committed."""
        return False

    def begin_prepare(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Make what goes before the changes of a prepared transaction, at once; nothing: it begins as any other."""
        return []

    def prepare(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Make what goes after the changes of a prepared transaction, if it has begun."""
        return []

    def commit_prepared(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Make what tells that a prepared transaction was committed."""
        return []

    def rollback_prepared(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Make what tells that a prepared transaction was rolled back."""
        return []

    def stream_start(self, xid: int, is_first: bool) -> list[bytes]:
        """Make what begins a block of a transaction in progress."""
        return []

    def stream_stop(self, xid: int) -> list[bytes]:
        """Make what ends a block of a transaction in progress."""
        return []

    def stream_truncate(
        self, schemas: Sequence[RelationSchema], cascade: bool, restart_seqs: bool, toplevel_xid: int, xid: int
    ) -> list[bytes]:
        """Do as :meth:`truncate`, in a block; ``xid`` is the subtransaction's."""
        return self.truncate(schemas, cascade, restart_seqs)

    def stream_message(self, lsn: int, prefix: bytes, content: bytes, toplevel_xid: int) -> list[bytes]:
        """Do as :meth:`message`, in a block."""
        return self.message(lsn, True, prefix, content)

    def stream_schema(self, messages: Sequence[bytes], xid: int) -> list[bytes]:
        """Make of :meth:`schema_messages` what goes before a truncate of this (sub)transaction in a block."""
        return list(messages)

    def stream_commit(self, txn: StreamedTransaction) -> list[bytes]:
        """Make what tells that a streamed transaction committed."""
        return []

    def stream_abort(self, txn: StreamedTransaction) -> list[bytes]:
        """Make what tells that a streamed transaction was rolled back, or a subtransaction of it."""
        return []

    def stream_prepare(self, txn: TwoPhaseTransaction) -> list[bytes]:
        """Make what tells that a streamed transaction was prepared."""
        return []

    def tracks(self, schema: RelationSchema) -> bool:
        """Tell whether the plugin caches how this relation is published; it passes over changes of others at once."""
        return True

    def forgets(self, message: SinvalMessage) -> list[Subject]:
        """Return the subjects that are looked up again, and whose schema is sent again, after an invalidation message.

        The message concerns our database or shared catalogs, and is one of those heeded; the caller leaves out others.
        Equal messages have equal answers.
        """
        return []

    def published_as(self, schema: RelationSchema, schema_messages: Sequence[bytes]) -> int:
        """Return the OID of the relation that its schema messages, if there are any, announce a relation as."""
        return schema.oid

    def renewed(self, schema: RelationSchema, catalog: CatalogView, entry: Description) -> Description:
        """Describe a relation again that is published as it was at ``entry``, as :meth:`describe` would.

        Asked where entries outlive changes of the relation (``announcements`` is ANNOUNCED).
        """
        return entry

    def require_sendable(self, schema: RelationSchema, catalog: CatalogView, announced_as: int, sent_as: int) -> None:
        """Check a change that is sent as of another relation than its own was announced as, both by OID.

        Raises:
            PluginError: what the server makes of its rows is not known.
        """
        return

    def missing_publications(self, catalog: CatalogView) -> list[str]:
        """Return the named publications that do not exist, and that the server passes over with a warning."""
        return []

    def validate(self, catalog: WholeCatalog) -> None:
        """Check the options by the catalog at the end of the window, before the plugin is asked anything.

        Raises:
            PluginError: the options name nothing that has existed in the window.
        """
        return

    @abstractmethod
    def render(self, tables: SliceTables) -> Messages:
        """Make all messages of a slice."""

    def without_place(self, messages: Messages) -> NDArray[np.bool_]:
        """Return bool[k]: messages that a walsender sends with the LSN 0, as the same callback writes another one.

        PostgreSQL: ``last_write`` of OutputPluginPrepareWrite.
        """
        return np.zeros(len(messages.lsn), np.bool_)
