"""The words for the source's transaction in errors.

PostgreSQL: worker.c (apply_error_callback), as of 15 and later.
"""

from __future__ import annotations

from headwater.apply.incoming.remote_transaction import RemoteTransaction
from headwater.apply.target.relations import MappedRelation
from headwater.pg.lsn import lsn_text
from headwater.pg.version import Version


def words_of_context(
    origin: str, kind: str, mapped: MappedRelation | None, remote: RemoteTransaction | None, server: Version
) -> str:
    """Return the CONTEXT of an error.

    Args:
        origin: name of the origin; kind: of the message; mapped: the table, if it is about one.
        remote: the transaction, if there is one; server: whose words they are.
    """
    target = f' for replication target relation "{mapped.namespace}.{mapped.name}"' if mapped else ""
    place = f" in transaction {remote.xid}" if remote else ""
    if remote and remote.finish_lsn is not None:
        place += f", finished at {lsn_text(remote.finish_lsn, server)}"
    return f'processing remote data for replication origin "{origin}" during message type "{kind}"{target}{place}'
