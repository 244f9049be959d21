"""The commands that begin and end a transaction of the target, and what tells where its WAL is behind one.

PostgreSQL: worker.c (store_flush_position).
"""

from __future__ import annotations

from headwater.apply.target.connection import Bound, Outcome, Statement
from headwater.pg.lsn import Lsn

BEGIN, COMMIT, ROLLBACK = (Bound(Statement(word)) for word in ("BEGIN", "COMMIT", "ROLLBACK"))

LOCAL_END = Bound(Statement("SELECT pg_catalog.pg_current_wal_insert_lsn()"))
"""Gives an LSN of the target before which all is that was committed; see :func:`lsn_of`."""

WRITE_COMMIT = Bound(Statement("SELECT pg_catalog.pg_current_xact_id()"))
"""Has a commit written that nobody waits for, outside of a transaction: the WAL writer flushes up to it.

PostgreSQL: xact.c (RecordTransactionCommit), xlog.c (XLogBackgroundFlush).
"""


def lsn_of(outcome: Outcome) -> int:
    """Return the LSN that a statement has returned."""
    ((lsn,),) = outcome.rows
    assert lsn is not None
    return int(Lsn.parse(lsn))
