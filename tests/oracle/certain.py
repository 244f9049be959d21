"""A transaction that every run of sessions in threads has, whatever they pick: a plugin surely shows its changes.

It has a table of its own, which nobody else touches. An update leaves a long value where it is. The publication with
lists of columns has the table from its beginning to its end, so that nobody else can take it out.
"""

from __future__ import annotations

from oracle.session import Session
from oracle.streams import parse_lsn

TRANSACTION = """
ALTER PUBLICATION pub_columns ADD TABLE certain.long (id, note);
INSERT INTO certain.long VALUES ({id}, 'certain', repeat('long', 2000));
UPDATE certain.long SET note = 'certainly' WHERE id = {id};
DELETE FROM certain.long WHERE id = {id};
TRUNCATE certain.long;
ALTER PUBLICATION pub_columns DROP TABLE certain.long
"""
"""Whatever the publication publishes, a row of it is inserted, updated or deleted, or all are truncated."""
TRIES = 30


def change_certainly(session: Session) -> tuple[int, int]:
    """Commit such a transaction; others may be in its way for a while.

    Args:
        session: one without a lock timeout, outside of a transaction.

    Returns:
        positions of the log before and behind it.
    """
    for _ in range(TRIES):
        before = _position(session)
        if _is_done(session):
            return before, _position(session)
    raise AssertionError(session.last_error)


def _is_done(session: Session) -> bool:
    session.begin()
    statements = TRANSACTION.format(id=session.next_number()).strip().split(";\n")
    return all(session.run(statement) for statement in statements) and session.finish("COMMIT")


def _position(session: Session) -> int:
    ((lsn,),) = session.rows("SELECT pg_current_wal_insert_lsn()::text")
    return parse_lsn(lsn)
