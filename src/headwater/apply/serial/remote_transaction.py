"""The source's transaction that is being applied, and the words for it in errors.

PostgreSQL: worker.c (apply_error_callback), as of 15 and later.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.apply.target.relations import MappedRelation
from headwater.pg.lsn import Lsn


@dataclass(frozen=True)
class RemoteTransaction:
    """The source's transaction that is being applied.

    Attributes:
        xid: its own.
        finish_lsn: START of its commit record, which messages name as where it is finished; None while it still runs.
        time: of its commit, microseconds since 2000; None where that is not known.
    """

    xid: int
    finish_lsn: int | None
    time: int | None = None


def words_of_context(origin: str, kind: str, mapped: MappedRelation | None, remote: RemoteTransaction | None) -> str:
    """Return the CONTEXT of an error.

    Args:
        origin: name of the origin; kind: of the message; mapped: the table, if it is about one.
        remote: the transaction, if there is one.
    """
    target = f' for replication target relation "{mapped.namespace}.{mapped.name}"' if mapped else ""
    place = f" in transaction {remote.xid}" if remote else ""
    if remote and remote.finish_lsn is not None:
        place += f", finished at {Lsn(remote.finish_lsn)}"
    return f'processing remote data for replication origin "{origin}" during message type "{kind}"{target}{place}'
