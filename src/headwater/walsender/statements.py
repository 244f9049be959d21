"""SQL on a connection: the session's own statements are done here; the rest is asked of layers, in their order.

1. Shapes: what stock subscribers ask, from the catalog (:mod:`headwater.walsender.sql`).
2. SELECT of our functions and views (:mod:`headwater.walsender.queries`).
3. ``Served.elsewhere``, if there is one (:mod:`headwater.walsender.elsewhere`).

What no layer can answer is refused with the server's error class 0A000. A statement is prepared, bound and run;
simple queries do all three at once.

PostgreSQL: postgres.c (exec_simple_query), utility.c, xact.c. Known gap: a transaction is a state of the session and of
its settings, no more: what functions did to slots stays, as on a server.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from headwater.errors import HeadwaterError, SessionError
from headwater.pg.sqlstates import (
    ACTIVE_SQL_TRANSACTION,
    FEATURE_NOT_SUPPORTED,
    IN_FAILED_SQL_TRANSACTION,
    INSUFFICIENT_PRIVILEGE,
    STATEMENT_TOO_COMPLEX,
    SYNTAX_ERROR,
)
from headwater.protocol.backend_messages import (
    IDLE,
    IN_FAILED_TRANSACTION,
    Column,
    EncodeText,
    Value,
    command_complete,
    data_row,
    row_description,
)
from headwater.protocol.startup import SessionRequest
from headwater.walsender.access.users import User
from headwater.walsender.copying.copy_rights import may_copy, may_read_sequences
from headwater.walsender.copying.copy_stream import CopyStream
from headwater.walsender.elsewhere import AskingSession, Described, Elsewhere, NotAnsweredError, Parameter
from headwater.walsender.operating.answer_counts import Layer
from headwater.walsender.queries.expressions import NotHereError, ParameterTypes
from headwater.walsender.queries.functions import Known
from headwater.walsender.queries.grammar import MOST_CHARACTERS, ParsedStatement, parse_statements
from headwater.walsender.queries.prepared import (
    Encode,
    Outcome,
    Prepared,
    RawParameter,
    Run,
    encoder,
    format_of,
    prepared_select,
)
from headwater.walsender.queries.select import compile_select
from headwater.walsender.queries.session_statements import (
    CloseCursor,
    Deallocate,
    Declare,
    Discard,
    Fetch,
    SessionStatement,
    SetSetting,
    Show,
    is_exit,
    session_statement,
)
from headwater.walsender.queries.value_types import TEXT, TYPES, Printing
from headwater.walsender.queries.views_as_values import views_read, with_rows
from headwater.walsender.served import Served
from headwater.walsender.served_cluster import SessionSnapshot
from headwater.walsender.sessions.clock import now
from headwater.walsender.sessions.interruption import Interruption
from headwater.walsender.sessions.portals import CursorRows, Portal, Portals
from headwater.walsender.sessions.session_settings import ClientSettings, is_cut
from headwater.walsender.sessions.transactions import NO_TRANSACTION, Transaction
from headwater.walsender.sql.copy_shapes import parse_copy
from headwater.walsender.sql.long_names import cut_notice, long_names
from headwater.walsender.sql.publisher_answers import PublisherAnswers
from headwater.walsender.sql.results import Result
from headwater.walsender.sql.sequence_answers import SequenceQuery

_TEXTS = frozenset((18, 19, 25, 114, 705, 1042, 1043))
"""Types whose binary form is text in the client's encoding."""
_WITHOUT_NOTICES = ("warning", "error", "fatal", "panic")
"""Values of client_min_messages."""

log = logging.getLogger("headwater.walsender")

_PIECE = 256 << 10
"""Bytes of an answer that are sent at a time."""


class Statements:
    """The statements of one session.

    Args:
        served: what is served.
        request: what the client is; user: who it is.
        settings: of the session.
        known: gives the functions and the views of the session.

    Attributes:
        transaction: of the session.
        portals: its named statements and cursors.
        interruption: what ends the statement that runs.
    """

    def __init__(
        self,
        served: Served,
        request: SessionRequest,
        user: User,
        settings: ClientSettings,
        known: Callable[[Statements], Known],
    ) -> None:
        self._served, self._request, self.user, self.settings = served, request, user, settings
        self.transaction: Transaction[SessionSnapshot] = Transaction(
            settings, lambda name: served.imported_snapshot(name, request.database), now
        )
        self.portals = Portals()
        self.interruption = Interruption()
        self._known = known(self)

    @property
    def is_failed(self) -> bool:
        """Whether the transaction has failed."""
        return self.transaction.status == IN_FAILED_TRANSACTION

    @property
    def client_encoding(self) -> str:
        """The encoding of texts on the connection."""
        return self.settings.client_encoding

    def encoded(self, text: str) -> bytes:
        """Encode a name as the client gets it."""
        return self.settings.encoded(text)

    def check_not_failed(self) -> None:
        """Check that the transaction has not failed.

        Raises:
            SessionError: it has.
        """
        if self.is_failed:
            raise SessionError(
                "current transaction is aborted, commands ignored until end of transaction block",
                sqlstate=IN_FAILED_SQL_TRANSACTION,
            )

    def failed(self) -> None:
        """Note that a statement has failed: the transaction has, too."""
        self.transaction.fail()
        if self.transaction.status == IDLE:
            self.portals.end_transaction(commits=False)

    def ended(self) -> None:
        """Note that a query, or what came up to Sync, has ended: a transaction that nobody began ends, too."""
        if self.transaction.status == IDLE:
            self.transaction.end_implicit()
            self.portals.end_transaction(commits=True)

    def close(self) -> None:
        """Let go of all that is open: portals, the snapshot of the transaction."""
        self.portals.drop_all()
        self.transaction.close()

    def answers(self, query: str) -> Iterator[bytes]:
        """Answer the statements of a simple query, in their order, piece by piece; may take its time.

        Raises:
            SessionError: one of them is refused; those before it have been answered.
        """
        self.portals.drop_unnamed()
        yield from self.cut_names(query)
        for statement in self.parsed(query):
            prepared = self._prepared(statement, ParameterTypes(is_open=False))
            outcome = prepared.bind([])(())
            yield from _sent(outcome, self.settings.encoded)

    def cut_names(self, query: str) -> Iterator[bytes]:
        """Give notices of the names that are cut in a query, as far as it is parsed."""
        names = list(long_names(query))
        if not names:
            return
        end = len(query)
        try:
            self.parsed(query)
        except SessionError as error:
            end = end if error.position is None else error.position
        yield self.cut_notices(name for name, position in names if position <= end)

    def cut_notices(self, names: Iterable[str]) -> bytes:
        """Return notices of names that are cut; nothing if the client wants none."""
        if self.settings.show("client_min_messages")[1].lower() in _WITHOUT_NOTICES:
            return b""
        return b"".join(cut_notice(name, self.settings.encoded) for name in names)

    def parsed(self, query: str) -> list[ParsedStatement]:
        """Split a query into statements; a long one, which is not parsed, can be one of a known shape."""
        if len(query) > MOST_CHARACTERS and self._shape(query) is not None:
            return [ParsedStatement(query, "SelectStmt", {})]
        return parse_statements(query)

    def prepare(self, text: str, types: Sequence[int]) -> Prepared:
        """Prepare the one statement of a text.

        Raises:
            SessionError: it is refused, or there are several.
        """
        statements = self.parsed(text)
        if not statements:
            return Prepared("", (), None, lambda _: lambda _: Outcome(""), kind="")
        if len(statements) > 1:
            raise SessionError("cannot insert multiple commands into a prepared statement", sqlstate=SYNTAX_ERROR)
        try:
            return self._prepared(statements[0], ParameterTypes.of(types))
        except NotHereError:
            return self._asked_elsewhere(statements[0], types)

    def _prepared(self, parsed: ParsedStatement, types: ParameterTypes) -> Prepared:
        own = session_statement(parsed)
        if not is_exit(own):
            self.check_not_failed()
        if isinstance(own, Declare):
            return self._prepared_cursor(parsed, own, types)
        if own is not None:
            return self._own(parsed, own)
        self._take_snapshot()
        if parsed.kind == "SelectStmt":
            shape = None if types.highest else self._shape(parsed.text)
            if shape is not None:
                prepared = self._prepared_shape(parsed.text, shape, not types.is_open)
                is_elsewhere = PublisherAnswers.is_of_subscriptions(parsed.text, self._served.cluster.version)
                return self._of_subscriptions(parsed, prepared) if is_elsewhere else prepared
            try:
                select = compile_select(parsed.node, self._known, types)
            except NotHereError as error:
                return self._asked_elsewhere(parsed, types.oids(), error.what)
            except RecursionError:
                raise SessionError("stack depth limit exceeded", sqlstate=STATEMENT_TOO_COMPLEX) from None
            except SessionError as error:
                if error.position is not None:
                    error.position = parsed.character(error.position)
                raise
            return _once_read(prepared_select(parsed.text, select, self.encoder), self._note_views)
        return self._asked_elsewhere(parsed, types.oids())

    def _note_views(self) -> None:
        self.transaction.note_read()
        self._served.counts.answered(Layer.VIEWS)

    def encoder(self, columns: Sequence[Column]) -> Encode:
        """Return what encodes rows of these columns."""
        return encoder(columns, self.printing, self.settings.sent)

    def printing(self) -> Printing:
        """Return what output functions go by."""
        return Printing(self._served.cluster.version, self.settings.session())

    def _prepared_shape(self, text: str, result: Result, is_once: bool) -> Prepared:
        """Return a query of a known shape; it is answered anew when it is executed, but for one that runs once."""
        encode = self.encoder(result.columns)

        def run(_: Sequence[int]) -> Outcome:
            answered = result if is_once else self._shape(text)
            assert answered is not None
            self._served.counts.answered(Layer.CATALOG)
            return self._shape_outcome(answered, encode)

        return Prepared(text, (), result.columns, lambda _: run)

    def _shape(self, text: str) -> Result | None:
        """Answer a query of a known shape from the catalog; None for any other."""
        cluster, database = self._served.cluster, self._request.database
        sequences = SequenceQuery.parse(text, cluster.version) if database else None
        if sequences is not None:
            return self._sequences(sequences)
        if not database or not PublisherAnswers.knows(text, cluster.version):
            return None
        with cluster.reading(database):
            catalog = cluster.catalog(database, self.transaction.snapshot)
            return PublisherAnswers(catalog, cluster.version, database, self.settings.session()).answer(text)

    def _sequences(self, query: SequenceQuery) -> Result:
        """Answer what values sequences have; the WAL is read without holding up who asks for the catalog."""
        cluster, database = self._served.cluster, self._request.database
        with cluster.reading(database):
            catalog = cluster.catalog(database, self.transaction.snapshot)
            asked = query.asked(catalog)
            may_read = may_read_sequences(self.user.readable, catalog)
        oids = [sequence.oid for sequence in asked] if may_read else []
        values = cluster.sequence_values(database, self.transaction.snapshot, oids) if oids else {}
        with cluster.reading(database):
            return query.result(catalog, asked, values, may_read=may_read)

    def _shape_outcome(self, result: Result, encode: Encode) -> Outcome:
        """Take what a query of a known shape has been answered."""
        self.transaction.note_read()
        for name, value in result.settings:
            self.transaction.set(name, value, is_local=False)
        types = [TYPES[column.type] for column in result.columns]
        rows = [tuple(type.taken(v, False) for type, v in zip(types, row, strict=True)) for row in result.rows]
        return Outcome("SELECT", result.columns, rows, encode, is_query=True)

    def _asked_elsewhere(self, parsed: ParsedStatement, types: Sequence[int], what: str = "") -> Prepared:
        """Prepare a statement that another layer may know.

        Raises:
            SessionError: it does not, or the statement is wrong.
        """
        elsewhere = self._served.elsewhere
        try:
            if elsewhere is None:
                raise NotAnsweredError
            written = self._written(parsed)
            described = elsewhere.describe(written(False), types, self._asking())
            self._served.counts.answered(Layer.ELSEWHERE)
            return self._described(parsed.text, written, elsewhere, described)
        except NotAnsweredError as error:
            raise _refused(parsed.text, error.reason, what) from None
        except SessionError as error:
            if views_read(parsed, self._known.view):
                error.position = None  # It is one in the text that was written.
            raise

    def _written(self, parsed: ParsedStatement) -> Callable[[bool], str]:
        """Return what writes a statement for somebody else: our views as their rows, or without any."""
        reading, version = views_read(parsed, self._known.view), self._served.cluster.version
        if not reading:
            return lambda _: parsed.text
        return lambda has_rows: with_rows(parsed, reading, version, has_rows=has_rows) or parsed.text

    def _of_subscriptions(self, parsed: ParsedStatement, without: Prepared) -> Prepared:
        """Let another layer answer which tables the source itself subscribes to; where none can, the log tells."""
        try:
            return self._asked_elsewhere(parsed, ())
        except SessionError as error:
            if error.sqlstate != FEATURE_NOT_SUPPORTED:
                raise
            log.warning("whether the source itself subscribes to published tables is not known: %s", error.hint)
            return without

    def _asking(self) -> AskingSession:
        snapshot, user = self.transaction.snapshot, self.user
        state = None if snapshot is None else snapshot.kept
        timeout = "statement_timeout", self.settings.show("statement_timeout")[1]
        settings = (*self.settings.of_decoding(), timeout)
        ends = self.transaction.held, self.interruption, self.settings.milliseconds["statement_timeout"]
        return AskingSession(self._request.database, user.name, settings, state, user.publications, *ends)

    def _take_snapshot(self) -> None:
        """Let a transaction that is to read by one snapshot take it, if it has none yet."""
        if self.transaction.wants_snapshot and self._request.database:
            state = self._served.cluster.state_at_end(self._request.database)
            self.transaction.snapshot = SessionSnapshot(state, None)

    def _described(
        self, text: str, written: Callable[[bool], str], elsewhere: Elsewhere, described: Described
    ) -> Prepared:
        def bind(parameters: Sequence[RawParameter]) -> Run:
            pairs = zip(described.parameters, parameters, strict=True)
            given = [Parameter(type, raw.value, raw.is_binary) for type, raw in pairs]

            def run(formats: Sequence[int]) -> Outcome:
                self.transaction.note_read()
                try:
                    answer = elsewhere.answer_elsewhere(written(True), given, formats, self._asking())
                except NotAnsweredError as error:
                    raise _refused(text, error.reason) from None
                if answer.columns != described.columns:
                    answer.rows.close()
                    raise SessionError("cached plan must not change result type", sqlstate=FEATURE_NOT_SUPPORTED)
                encode = partial(self._sent_elsewhere, tuple(formats), answer.columns)
                source = answer.rows
                return Outcome("SELECT", answer.columns, (), encode, answer.messages, is_query=True, source=source)

            return run

        return Prepared(text, described.parameters, described.columns, bind)

    def _sent_elsewhere(
        self, asked: tuple[int, ...], columns: Sequence[Column], row: Sequence[Value], formats: Sequence[int]
    ) -> Sequence[Value]:
        """Return a row that has its formats already, with texts in the client's encoding."""
        if any(format_of(formats, place) != format_of(asked, place) for place in range(len(row))):
            raise SessionError("rows of a cursor are wanted in another format", sqlstate=FEATURE_NOT_SUPPORTED)
        return [
            value if format_of(asked, place) and columns[place].type not in _TEXTS else self.settings.sent(value)
            for place, value in enumerate(row)
        ]

    def _own(self, parsed: ParsedStatement, own: SessionStatement) -> Prepared:
        """Prepare a statement about the session."""
        if isinstance(own, Show):
            name, _ = self.settings.show(own.name)
            columns = (TEXT.column(name),)

            def show(_: Sequence[int]) -> Outcome:
                value = self.transaction.shown(own.name) or self.settings.show(own.name)[1]
                return Outcome("SHOW", columns, [(value,)], self.encoder(columns))

            return Prepared(parsed.text, (), columns, lambda _: show, parsed.kind)
        if isinstance(own, Fetch):
            columns_of = self.portals.portals.get(own.name)
            columns = None if columns_of is None or own.moves else columns_of.columns  # type: ignore[assignment]
            return Prepared(parsed.text, (), columns, lambda _: partial(self._fetch, own), parsed.kind)

        def run(_: Sequence[int]) -> Outcome:
            return self._done(own)

        return Prepared(parsed.text, (), None, lambda _: run, parsed.kind, ends_transaction=is_exit(own))

    def _done(self, own: SessionStatement) -> Outcome:
        """Do a statement about the session that gives no rows."""
        if isinstance(own, Deallocate):
            return self._deallocate(own)
        if isinstance(own, Discard):
            return self._discard(own)
        if isinstance(own, CloseCursor):
            return self._close_cursor(own)
        had_block = self.transaction.status != IDLE
        outcome = self.transaction.run(own)
        if isinstance(own, SetSetting) and own.value is not None and is_cut(own.name, own.value):
            outcome = replace(outcome, before=self.cut_notices([own.value]) + outcome.before)
        if had_block and self.transaction.has_ended:
            self.portals.end_transaction(commits=outcome.tag == "COMMIT")
        return outcome

    def _deallocate(self, own: Deallocate) -> Outcome:
        if own.name is None:
            self.portals.drop_named()
            return Outcome("DEALLOCATE ALL")
        self.portals.statement(own.name)
        del self.portals.statements[own.name]
        return Outcome("DEALLOCATE")

    def _discard(self, own: Discard) -> Outcome:
        if own.what == "ALL":
            if self.transaction.status != IDLE:
                raise SessionError("DISCARD ALL cannot run inside a transaction block", sqlstate=ACTIVE_SQL_TRANSACTION)
            self.portals.drop_named()
            self.settings.restore(self.settings.initial)
        return Outcome(f"DISCARD {own.what}")

    def _prepared_cursor(self, parsed: ParsedStatement, own: Declare, types: ParameterTypes) -> Prepared:
        prepared = self._prepared(own.query, types)

        def bind(parameters: Sequence[RawParameter]) -> Run:
            run = prepared.bind(parameters)
            return lambda _: self._declare(own, prepared, run)

        return Prepared(parsed.text, prepared.parameters, None, bind, parsed.kind)

    def _declare(self, own: Declare, prepared: Prepared, run: Run) -> Outcome:
        if self.transaction.status == IDLE and not own.is_held:
            raise SessionError("DECLARE CURSOR can only be used in transaction blocks", sqlstate=NO_TRANSACTION)
        self.portals.check_new_portal(own.name)
        portal = Portal(own.name, prepared, run, is_held=own.is_held)
        self.portals.add(portal)
        if own.is_held:
            portal.hold()
        return Outcome("DECLARE CURSOR")

    def _fetch(self, own: Fetch, formats: Sequence[int]) -> Outcome:
        portal = self.portals.portal(own.name, "cursor")
        if own.moves:
            return Outcome(f"MOVE {sum(1 for _ in portal.fetched(own.count, formats))}")
        source = CursorRows(portal, own.count, formats)
        return Outcome("FETCH", portal.columns, source=source, is_query=True)

    def _close_cursor(self, own: CloseCursor) -> Outcome:
        if own.name is None:
            self.portals.drop_all()
            return Outcome("CLOSE CURSOR ALL")
        self.portals.portal(own.name, "cursor")
        self.portals.drop(own.name)
        return Outcome("CLOSE CURSOR")

    def copy_of(self, query: str) -> str | None:
        """Return the statement of a query that is a COPY to the client, of a table; None for anything else."""
        statement = query.strip().rstrip(";").rstrip()
        return statement if parse_copy(statement) is not None else None

    def copied(self, statement: str) -> CopyStream:
        """Begin a COPY to the client.

        Raises:
            SessionError: it is refused.
        """
        self.check_not_failed()
        self._take_snapshot()
        self.transaction.note_read()
        if self.user.readable is not None:
            self._check_rights(statement)
        database, settings = self._request.database, self.settings.of_decoding()
        snapshot = self.transaction.snapshot
        copy = parse_copy(statement)
        assert copy is not None
        copied = self._served.cluster.copied(database, copy, snapshot, settings)
        is_upstream = snapshot is not None and snapshot.rows is not None
        self._served.counts.answered(Layer.UPSTREAM if is_upstream else Layer.ROWS)
        return copied

    def _check_rights(self, statement: str) -> None:
        """Check that a user who is limited to publications copies no more than they have.

        Raises:
            SessionError: it does.
        """
        cluster, database = self._served.cluster, self._request.database
        copy, names = parse_copy(statement), self.user.readable or ()
        with cluster.reading(database):
            catalog = cluster.catalog(database, self.transaction.snapshot)
            is_allowed = copy is not None and may_copy(copy, names, catalog, cluster.version)
        if not is_allowed:
            name = "" if copy is None else copy.table
            raise SessionError(f"permission denied for table {name}", sqlstate=INSUFFICIENT_PRIVILEGE)


def _once_read(prepared: Prepared, note: Callable[[], None]) -> Prepared:
    """Return a statement that notes that the transaction has read something."""

    def bind(parameters: Sequence[RawParameter]) -> Run:
        run = prepared.bind(parameters)

        def noted(formats: Sequence[int]) -> Outcome:
            note()
            return run(formats)

        return noted

    return Prepared(prepared.text, prepared.parameters, prepared.columns, bind, prepared.kind)


def _refused(text: str, reason: str, what: str = "") -> SessionError:
    hint = "Headwater answers what clients of replication ask, and functions and views of slots; ask the primary "
    hint += f"for {what}." if what else "anything else."
    return SessionError(
        f"cannot answer this query without a server: {text[:200]}",
        sqlstate=FEATURE_NOT_SUPPORTED,
        hint=reason or hint,
    )


def _sent(outcome: Outcome, encode: EncodeText) -> Iterator[bytes]:
    """Give the messages that answer a statement of a simple query, in pieces."""
    pending = [outcome.before]
    if outcome.columns is not None:
        pending.append(row_description(outcome.columns, (), encode))
    size, count, rows = 0, 0, outcome.opened()
    with closing(rows):
        try:
            for row in rows.take(None):
                message = data_row(outcome.encode(row, ()))
                pending.append(message)
                size, count = size + len(message), count + 1
                if size >= _PIECE:
                    yield b"".join(pending)
                    pending, size = [], 0
        except HeadwaterError:
            yield b"".join(pending)
            raise
        tag = f"{outcome.tag} {count}" if outcome.is_query else outcome.tag
        yield b"".join([*pending, rows.notices(), command_complete(tag), outcome.after])
