"""SQL on a connection: the session's own statements are done here; the rest is asked of layers, in their order.

A simple query is one statement here, or several that are each done as if they had come alone. What no layer can answer
is refused with the server's error class 0A000.

PostgreSQL: postgres.c (exec_simple_query), utility.c. Known gap: transactions are a state of the session, no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.errors import SessionError
from headwater.pg.sqlstates import (
    FEATURE_NOT_SUPPORTED,
    IN_FAILED_SQL_TRANSACTION,
    INSUFFICIENT_PRIVILEGE,
    SYNTAX_ERROR,
)
from headwater.protocol.backend_messages import (
    IDLE,
    IN_FAILED_TRANSACTION,
    IN_TRANSACTION,
    Report,
    command_complete,
    parameter_status,
)
from headwater.protocol.startup import SessionRequest
from headwater.walsender.access.users import User
from headwater.walsender.copy_rights import may_copy
from headwater.walsender.copy_stream import CopyStream
from headwater.walsender.operating.answer_counts import Layer
from headwater.walsender.replies import result, shown
from headwater.walsender.served import Served
from headwater.walsender.served_cluster import SessionSnapshot
from headwater.walsender.session_settings import ClientSettings
from headwater.walsender.sql.copy_shapes import parse_copy
from headwater.walsender.sql.publisher_answers import PublisherAnswers

_QUOTED = r"'((?:[^']|'')*)'"
_BEGIN = re.compile(r"(BEGIN|START\s+TRANSACTION)(\s+(?:WORK|TRANSACTION))?(?P<modes>(?:[\s,]+[A-Z][A-Z\s]*)*)", re.I)
_END = re.compile(r"(COMMIT|END|ROLLBACK|ABORT)(\s+(?:WORK|TRANSACTION))?", re.I)
_SET = re.compile(rf"SET\s+(?:SESSION\s+|LOCAL\s+)?([\w.]+)\s*(?:=|\s+TO\s)\s*(?:{_QUOTED}|(.+?))\s*", re.I | re.S)
_SET_MODES = re.compile(r"SET\s+TRANSACTION\s+(?P<modes>[A-Z][A-Z\s,]*)", re.I)
_SET_SNAPSHOT = re.compile(rf"SET\s+TRANSACTION\s+SNAPSHOT\s+{_QUOTED}", re.I)
_SHOW = re.compile(r"SHOW\s+([\w.]+)", re.I)

_FIRST_WORDS = frozenset(
    (
        *("ABORT", "ALTER", "ANALYSE", "ANALYZE", "BEGIN", "CALL", "CHECKPOINT", "CLOSE"),
        *("CLUSTER", "COMMENT", "COMMIT", "COPY", "CREATE", "DEALLOCATE", "DECLARE", "DELETE"),
        *("DISCARD", "DO", "DROP", "END", "EXECUTE", "EXPLAIN", "FETCH", "GRANT"),
        *("IMPORT", "INSERT", "LISTEN", "LOAD", "LOCK", "MERGE", "MOVE", "NOTIFY"),
        *("PREPARE", "REASSIGN", "REFRESH", "REINDEX", "RELEASE", "RESET", "REVOKE", "ROLLBACK"),
        *("SAVEPOINT", "SECURITY", "SELECT", "SET", "SHOW", "START", "TABLE", "TRUNCATE"),
        *("UNLISTEN", "UPDATE", "VACUUM", "VALUES", "WITH"),
    )
)
"""Words that a statement of SQL begins with (gram.y)."""


class Statements:
    """The statements of one session.

    Args:
        served: what is served.
        request: what the client is; user: who it is.
        settings: of the session.

    Attributes:
        status: of the transaction, as ReadyForQuery has it.
        snapshot: what the transaction reads by; None for the present.
    """

    def __init__(self, served: Served, request: SessionRequest, user: User, settings: ClientSettings) -> None:
        self._served, self._request, self.user, self.settings = served, request, user, settings
        self.status = IDLE
        self.snapshot: SessionSnapshot | None = None
        self._is_repeatable = self._is_read_only = self._has_read = False

    def answer(self, query: str) -> bytes:
        """Answer the statements of a query, in their order; may take its time.

        Raises:
            SessionError: one of them is refused.
        """
        return b"".join(self._answer_statement(statement) for statement in statements_of(query))

    def check_uses_snapshot(self, words: str) -> None:
        """Check that the transaction can take the snapshot of a slot that is made in it.

        Raises:
            SessionError: it cannot.
        """
        if self.status == IDLE:
            raise SessionError(f"{words} must be called inside a transaction")
        if not self._is_repeatable:
            raise SessionError(f"{words} must be called in REPEATABLE READ isolation mode transaction")
        if self._served.cluster.version.wants_read_only_snapshots and not self._is_read_only:
            raise SessionError(f"{words} must be called in a read-only transaction")
        if self._has_read:
            raise SessionError(f"{words} must be called before any query")

    def _answer_statement(self, statement: str) -> bytes:
        if (match := _END.fullmatch(statement)) is not None:
            return self._finish(match[1].upper())
        self._check_begins(statement)
        self.check_not_failed()
        if (match := _BEGIN.fullmatch(statement)) is not None:
            return self._begin(match["modes"], "START TRANSACTION" if match[1][0] in "sS" else "BEGIN")
        if (match := _SET_SNAPSHOT.fullmatch(statement)) is not None:
            self._import_snapshot(match[1].replace("''", "'"))
            return command_complete("SET")
        if (match := _SET_MODES.fullmatch(statement)) is not None:
            self._take_modes(match["modes"])
            return command_complete("SET")
        if (match := _SET.fullmatch(statement)) is not None:
            value = match[3] if match[2] is None else match[2].replace("''", "'")
            return self._set(match[1], value) + command_complete("SET")
        if (match := _SHOW.fullmatch(statement)) is not None:
            return shown(*self.settings.show(match[1]))
        return self._ask(statement)

    def check_not_failed(self) -> None:
        """Check that the transaction has not failed.

        Raises:
            SessionError: it has.
        """
        if self.status == IN_FAILED_TRANSACTION:
            raise SessionError(
                "current transaction is aborted, commands ignored until end of transaction block",
                sqlstate=IN_FAILED_SQL_TRANSACTION,
            )

    def _check_begins(self, statement: str) -> None:
        """Check that a statement begins as one; the word that does not is named, as by the server's parser."""
        word = re.match(r"\w+", statement)
        if word is not None and word[0].upper() not in _FIRST_WORDS:
            raise SessionError(f'syntax error at or near "{word[0]}"', sqlstate=SYNTAX_ERROR)

    def _ask(self, statement: str) -> bytes:
        """Ask the layers that read catalogs and rows."""
        self._has_read = True
        cluster, database = self._served.cluster, self._request.database
        with cluster.reading(database):
            catalog = cluster.catalog(database, self.snapshot)
            answers = PublisherAnswers(catalog, cluster.version, database, self.settings.session())
            answered = answers.answer(statement)
        if answered is not None:
            self._served.counts.answered(Layer.CATALOG)
            changed = b"".join(self._set(name, value) for name, value in answered.settings)
            rows = [tuple(map(self.settings.sent, row)) for row in answered.rows]
            return result(answered.columns, rows, answered.tag) + changed
        raise SessionError(
            f"cannot answer this query without a server: {statement[:200]}",
            sqlstate=FEATURE_NOT_SUPPORTED,
            hint="Headwater answers what stock clients of replication ask; ask the primary anything else.",
        )

    def _begin(self, modes: str, tag: str) -> bytes:
        if self.status == IN_TRANSACTION:
            warning = Report("WARNING", "25001", "there is already a transaction in progress")
            return warning.as_bytes() + command_complete(tag)
        self.status = IN_TRANSACTION
        self._is_repeatable = self._is_read_only = self._has_read = False
        self._take_modes(modes)
        return command_complete(tag)

    def _take_modes(self, modes: str) -> None:
        words = " ".join(modes.upper().replace(",", " ").split())
        if "ISOLATION LEVEL" in words:
            self._is_repeatable = "REPEATABLE READ" in words or "SERIALIZABLE" in words
        if "READ ONLY" in words or "READ WRITE" in words:
            self._is_read_only = "READ ONLY" in words

    def _import_snapshot(self, name: str) -> None:
        """Let the transaction read by a snapshot that another session has exported (ImportSnapshot)."""
        if self.snapshot is not None or self._has_read:
            raise SessionError("SET TRANSACTION SNAPSHOT must be called before any query", sqlstate="25001")
        if self.status == IDLE or not self._is_repeatable:
            raise SessionError(
                "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ",
                sqlstate=FEATURE_NOT_SUPPORTED,
            )
        self.snapshot = self._served.imported_snapshot(name, self._request.database)

    def _finish(self, word: str) -> bytes:
        commits = word in ("COMMIT", "END") and self.status != IN_FAILED_TRANSACTION
        tag = command_complete("COMMIT" if commits else "ROLLBACK")
        if self.status == IDLE:
            return Report("WARNING", "25P01", "there is no transaction in progress").as_bytes() + tag
        self.status = IDLE
        self.close()
        return tag

    def close(self) -> None:
        """Let go of the snapshot of the transaction, if it has one."""
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is not None:
            snapshot.close()

    def copy_of(self, query: str) -> str | None:
        """Return the statement of a query that is a COPY to the client, of a table; None for anything else."""
        statements = list(statements_of(query))
        return statements[0] if len(statements) == 1 and parse_copy(statements[0]) is not None else None

    def copied(self, statement: str) -> CopyStream:
        """Begin a COPY to the client.

        Raises:
            SessionError: it is refused.
        """
        self.check_not_failed()
        self._has_read = True
        if self.user.publications is not None:
            self._check_rights(statement)
        database, settings = self._request.database, self.settings.of_decoding()
        if self.snapshot is not None and self.snapshot.rows is not None:
            self._served.counts.answered(Layer.UPSTREAM)
            return self.snapshot.rows.copy(statement)
        copy = parse_copy(statement)
        assert copy is not None
        copied = self._served.cluster.copied(database, copy, self.snapshot, settings)
        self._served.counts.answered(Layer.ROWS)
        return copied

    def _check_rights(self, statement: str) -> None:
        """Check that a user who is limited to publications copies no more than they have.

        Raises:
            SessionError: it does.
        """
        cluster, database = self._served.cluster, self._request.database
        copy, names = parse_copy(statement), self.user.publications or ()
        with cluster.reading(database):
            catalog = cluster.catalog(database, self.snapshot)
            is_allowed = copy is not None and may_copy(copy, names, catalog, cluster.version)
        if not is_allowed:
            name = "" if copy is None else copy.table
            raise SessionError(f"permission denied for table {name}", sqlstate=INSUFFICIENT_PRIVILEGE)

    def _set(self, name: str, value: str) -> bytes:
        """Change a setting, and return what the client is told of it."""
        is_reported = self.settings.set(name, value)
        return parameter_status(*self.settings.show(name)) if is_reported else b""


def statements_of(query: str) -> Iterator[str]:
    """Split a query at its semicolons; those in quotes, and comments, split nothing."""
    start = 0
    for match in _SPLIT.finditer(query):
        if match[0] == ";":
            if part := query[start : match.start()].strip():
                yield part
            start = match.end()
    if part := query[start:].strip():
        yield part


_SPLIT = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|;", re.S)
