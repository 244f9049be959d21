"""Rows from a COPY of the publisher's into one of the target's, as the bytes that they are.

Neither text nor binary rows are looked at: both servers speak the same format.

PostgreSQL: tablesync.c (copy_table, copy_read_data).
"""

from __future__ import annotations

from headwater.apply.target.connection import About, TargetConnection
from headwater.receiver.replication_connection import ReplicationConnection, Wait


def transfer(
    source: ReplicationConnection, copy_out: str, target: TargetConnection, copy_in: str, wait: Wait, about: About
) -> int:
    """Copy rows; they are not committed.

    Args:
        source: the publisher's connection, in the transaction whose snapshot is copied; copy_out: its COPY.
        target: the target's, in a transaction; copy_in: its COPY.
        wait: waits, and raises when all is to end; about: says what is copied, should it fail.

    Returns:
        how many rows.

    Raises:
        TargetError: the target refuses.
        ServerError: the publisher refuses.
        ConnectionLostError: one of both is lost; the target's connection is closed if it was not that.
    """
    target.begin_copy(copy_in, wait, about)
    try:
        source.begin(copy_out)
        source.begin_copy()
        for block in source.blocks(wait):
            target.put_copy(block, wait)
        source.finish()
    except BaseException:
        # Else the target would take for all what there is.
        target.close()
        raise
    return target.end_copy(wait, about)
