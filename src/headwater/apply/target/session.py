"""The session in which changes are applied: its settings, and the facts of the server that statements depend on.

As the apply worker's: triggers and rules fire only if they are ENABLE REPLICA or ALWAYS. No schema is searched, and
nothing is timed out. Commits do not wait for the disk unless that is asked for. Values come as text that
does not depend on a session's settings (ISO), so the target's own do not matter.

PostgreSQL: worker.c (InitializeLogRepWorker, run_apply_worker); 14 to 19.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.apply.target.connection import TargetConnection
from headwater.errors import ServerError
from headwater.pg.version import VERSIONS

REPLICA_ROLE = "session_replication_role"

_SETTINGS = {
    "search_path": "",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "row_security": "off",
    # A row is looked up by an index wherever there is one, as the apply worker does, whatever statistics say.
    "enable_seqscan": "off",
    "jit": "off",
}
_FACTS = """
SELECT current_user, current_database(), pg_catalog.pg_encoding_to_char(encoding),
       (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)
FROM pg_catalog.pg_database WHERE datname = current_database()
"""


@dataclass(frozen=True)
class TargetFacts:
    """The facts of a target.

    Attributes:
        version: the server's, as a number; user, database: of the session; encoding: the database's.
        is_superuser: the session's user is one.
    """

    version: int
    user: str
    database: str
    encoding: str
    is_superuser: bool

    @property
    def major(self) -> int:
        """PostgreSQL's major version."""
        return self.version // 10000


def open_target(
    conninfo: str, application: str, synchronous_commit: str = "off"
) -> tuple[TargetConnection, TargetFacts]:
    """Connect to a target, and make the session that of an apply worker.

    Raises:
        ServerError: the server refuses, or its role lacks a right that is needed.
        ConnectionLostError: there is no server.
    """
    connection = TargetConnection(conninfo, application, _SETTINGS)
    try:
        facts = _facts(connection)
        _set(connection, REPLICA_ROLE, "replica", facts)
        _set(connection, "synchronous_commit", synchronous_commit, facts)
        return connection, facts
    except BaseException:
        connection.close()
        raise


def _facts(connection: TargetConnection) -> TargetFacts:
    if connection.major not in VERSIONS:
        raise ServerError(f"the target is PostgreSQL {connection.major}, expected {min(VERSIONS)} to {max(VERSIONS)}")
    ((user, database, encoding, is_superuser),) = connection.rows(_FACTS)
    assert user is not None
    assert database is not None
    return TargetFacts(connection.version, user, database, encoding or "UTF8", is_superuser == "t")


def _set(connection: TargetConnection, name: str, value: str, facts: TargetFacts) -> None:
    try:
        connection.rows("SELECT pg_catalog.set_config($1, $2, false)", (name, value))
    except ServerError as error:
        if error.sqlstate != "42501":
            raise
        grant = (
            f'GRANT SET ON PARAMETER {name} TO "{facts.user}"'
            if VERSIONS[facts.major].grants_parameters
            else "use a superuser"
        )
        raise ServerError(error.message, hint=grant, sqlstate=error.sqlstate) from None
