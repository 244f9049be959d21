"""The role that changes of a table are applied as, and what it must not meet.

As the table's owner, by SET ROLE, or as the session's role (``run_as_owner``). Missing rights on the table are the
server's to notice. Row security is refused, as policies would be passed over or leave rows out.

PostgreSQL: worker.c (TargetPrivilegesCheck), utils/init/usercontext.c (SwitchToUntrustedUser); 16 to 19.

Known gap: the server forbids code of a table's owner to become another role again; SET ROLE does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.apply.target.connection import Bound, Statement, TargetConnection
from headwater.apply.target.session import TargetFacts
from headwater.apply.target.table_facts import TableFacts
from headwater.errors import TargetError
from headwater.pg.version import VERSIONS
from headwater.receiver.replication_connection import quoted

NO_ROLE = Bound(Statement("SET LOCAL ROLE NONE"))
"""Makes the session's role that of the rest of the transaction."""

_MAY_BECOME = "SELECT pg_catalog.pg_has_role($1::name, $2::name, $3)"


def become(role: str) -> Bound:
    """Return the statement that makes a role that of the rest of the transaction."""
    return Bound(Statement(f"SET LOCAL ROLE {quoted(role)}"))


@contextmanager
def acting_as(connection: TargetConnection, role: str | None) -> Iterator[None]:
    """Act as a role, in the transaction that the connection is in; None for the session's. An error has to end that.

    Raises:
        TargetError: the session's role may not.
        ConnectionLostError: the target is lost.
    """
    if role is not None:
        connection.rows(become(role).statement.sql)
    yield
    if role is not None:
        connection.rows(NO_ROLE.statement.sql)


def role_for(
    connection: TargetConnection, facts: TargetFacts, table: TableFacts, name: str, *, run_as_owner: bool
) -> str | None:
    """Return the role that changes of a table are applied as, None for the session's.

    Args:
        connection: the target's; facts: of it; table: facts of the table; name: its own.
        run_as_owner: changes are applied as the session's role: the owner of the subscription.

    Raises:
        TargetError: the role may not become the table's owner (42501), or row security is in force (0A000).
    """
    is_own = run_as_owner or table.owner == facts.user
    user, is_secured = (facts.user, table.is_secured) if is_own else (table.owner, table.has_row_security)
    if not is_own:
        _may_become(connection, facts, table.owner)
    if is_secured:
        text = f'user "{user}" cannot replicate into relation with row-level security enabled: "{name}"'
        raise TargetError(text, sqlstate="0A000")
    return None if is_own else table.owner


def _may_become(connection: TargetConnection, facts: TargetFacts, owner: str) -> None:
    right = "SET" if VERSIONS[facts.major].grants_set_role else "MEMBER"
    ((is_allowed,),) = connection.rows(
        "SELECT pg_catalog.pg_has_role($1::name, $2::name, $3)", (facts.user, owner, right)
    )
    if is_allowed != "t":
        hint = f"GRANT {quoted(owner)} TO {quoted(facts.user)}, or apply with --run-as-owner on"
        raise TargetError(f'role "{facts.user}" cannot SET ROLE to "{owner}"', sqlstate="42501", hint=hint)
