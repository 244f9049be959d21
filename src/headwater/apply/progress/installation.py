"""The schema ``headwater`` of the target: made at first use, in one transaction, and numbered by its form.

Its tables have what the server keeps in ``pg_subscription`` and ``pg_subscription_rel``, and what it has no place for:
ranges of tables that are copied. They are written in the transactions that they are about.

Rights: whoever uses it first needs CREATE on the database, or a schema ``headwater`` that belongs to the role. Nothing
else of the target is made or changed.

Invariant: a form that is not known here is never written to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from headwater.apply.progress import (
    applied_ahead,
    conflict_tables,
    origin_progress,
    run_states,
    set_aside_tables,
    standing,
)
from headwater.apply.progress.pending_statements import PENDING_TABLE
from headwater.apply.target.connection import TargetConnection
from headwater.errors import ServerError, TargetError

SCHEMA = "headwater"
FORM = 5
"""The version of the schema's form that is made and understood."""

_LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(7522525896800564325)"
_HAS_SCHEMA = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'headwater'"
# By a snapshot of its own: to_regclass may still answer what was so before the lock was waited for.
_HAS_FORM = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'headwater' AND c.relname = 'form')
"""
_FORM = "SELECT version FROM headwater.form"
_STATEMENTS = (
    "CREATE TABLE headwater.form (version int4 NOT NULL)",
    "INSERT INTO headwater.form VALUES (1)",
    """
    CREATE TABLE headwater.subscription (
        subid int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        subname text NOT NULL UNIQUE,
        subslotname text NOT NULL,
        subpublications text[] NOT NULL,
        hasslot bool NOT NULL,
        subtwophasestate "char" NOT NULL
    )
    """,
    """
    CREATE TABLE headwater.subscription_rel (
        srsubid int4 NOT NULL REFERENCES headwater.subscription ON DELETE CASCADE,
        srrelid oid NOT NULL,
        nspname text NOT NULL,
        relname text NOT NULL,
        srsubstate "char" NOT NULL CHECK (srsubstate IN ('i', 'd', 'f', 's', 'r')),
        srsublsn pg_lsn,
        PRIMARY KEY (srsubid, srrelid)
    )
    """,
    """
    CREATE TABLE headwater.subscription_range (
        srsubid int4 NOT NULL,
        srrelid oid NOT NULL,
        first_block int8 NOT NULL,
        xid int8 NOT NULL,
        PRIMARY KEY (srsubid, srrelid, first_block),
        FOREIGN KEY (srsubid, srrelid) REFERENCES headwater.subscription_rel ON DELETE CASCADE
    )
    """,
)

_SOURCE_TABLE = """
CREATE TABLE IF NOT EXISTS headwater.subscription_source (
    srsubid int4 PRIMARY KEY REFERENCES headwater.subscription ON DELETE CASCADE,
    system_identifier text NOT NULL,
    timeline int8 NOT NULL
)
"""

_ADDED = (
    *(PENDING_TABLE, _SOURCE_TABLE, *run_states.TABLES, *set_aside_tables.TABLES),
    *(*standing.DDL, *conflict_tables.STATEMENTS, *applied_ahead.TABLES, *origin_progress.TABLES),
)
"""What later forms have added; each statement does nothing where that is there already."""

# Databases of two clusters may have one OID, and after an upgrade of the server the cluster is another one.
_OWN = """
SELECT d.oid, s.system_identifier FROM pg_catalog.pg_database d, pg_catalog.pg_control_system() s
WHERE d.datname = pg_catalog.current_database()
"""
_RAISE = (
    # A publication of all tables refuses updates of a table that has no identity.
    "ALTER TABLE headwater.form REPLICA IDENTITY FULL",
    "ALTER TABLE headwater.form ADD COLUMN IF NOT EXISTS datoid oid, ADD COLUMN IF NOT EXISTS system_identifier int8",
    f"UPDATE headwater.form SET version = {FORM}",
    f"UPDATE headwater.form SET (datoid, system_identifier) = ({_OWN}) WHERE datoid IS NULL",
)
_IS_OF_ANOTHER = f"SELECT 1 FROM headwater.form WHERE ((datoid, system_identifier) = ({_OWN})) IS NOT TRUE"
_LACKS_TABLES = """
SELECT 1 FROM headwater.subscription_rel r WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
    WHERE c.oid OPERATOR(pg_catalog.=) r.srrelid AND c.relname OPERATOR(pg_catalog.=) r.relname
          AND n.nspname OPERATOR(pg_catalog.=) r.nspname) LIMIT 1
"""
_ADOPT = f"UPDATE headwater.form SET (datoid, system_identifier) = ({_OWN})"


@contextmanager
def transaction(connection: TargetConnection, *, is_durable: bool = False) -> Iterator[None]:
    """Run statements of a connection in one transaction, which an error rolls back.

    Args:
        connection: the target's.
        is_durable: the commit waits for the disk, as something elsewhere that rests on it is done next.
    """
    connection.rows("BEGIN")
    try:
        if is_durable:
            connection.rows("SET LOCAL synchronous_commit = local")
        yield
    except BaseException:
        with suppress(ServerError):
            connection.rows("ROLLBACK")
        raise
    connection.rows("COMMIT")


def install(connection: TargetConnection) -> None:
    """Make the schema unless it is there; one of an older form gets what it lacks.

    Raises:
        TargetError: the role may not; or the schema is of a form that is not known here, or came with a dump.
        ConnectionLostError: the target is lost.
    """
    if not is_installed(connection):
        with transaction(connection):
            connection.rows(_LOCK)
            if not is_installed(connection):
                _make(connection)
    form = _form(connection)
    if form < FORM:
        with transaction(connection):
            connection.rows(_LOCK)
            if _form(connection) < FORM:
                _raise(connection)
    elif form > FORM:
        text = f"the target's schema headwater is of form {form}, expected {FORM}"
        raise TargetError(text, sqlstate="0A000", hint="use the version of Headwater that has made it, or a newer one")
    _require_own(connection)


def _require_own(connection: TargetConnection) -> None:
    """Require that the schema was made in this database: a dump brings it along, with the OIDs of other tables.

    An upgrade of the server, or a copy of the whole database, leaves tables their OIDs. But tables that have other
    names than the source's count as others then.
    """
    if not connection.rows(_IS_OF_ANOTHER):
        return
    if connection.rows(_LACKS_TABLES):
        text = "the target's schema headwater comes from another database, whose tables have other OIDs"
        hint = "drop the schema headwater, and make its subscriptions anew; rows that are there need --no-copy-data"
        raise TargetError(text, sqlstate="55000", hint=hint)
    connection.rows(_ADOPT)


def is_installed(connection: TargetConnection) -> bool:
    """Tell whether the schema is there."""
    return connection.rows(_HAS_FORM) == [("t",)]


def _form(connection: TargetConnection) -> int:
    ((form,),) = connection.rows(_FORM)
    return int(str(form))


def _raise(connection: TargetConnection) -> None:
    for statement in (*_ADDED, *_RAISE):
        connection.rows(statement)


def _make(connection: TargetConnection) -> None:
    try:
        if not connection.rows(_HAS_SCHEMA):
            connection.rows("CREATE SCHEMA headwater")
    except TargetError as error:
        if error.sqlstate != "42501":
            raise
        hint = "GRANT CREATE ON DATABASE to the role, or make a schema headwater that it owns"
        raise TargetError(error.message, sqlstate=error.sqlstate, hint=hint) from None
    for statement in _STATEMENTS:
        connection.rows(statement)
    _raise(connection)
