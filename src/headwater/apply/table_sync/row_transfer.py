"""Rows from a COPY of the publisher's into one of the target's, as the bytes that they are.

Neither text nor binary rows are looked at, unless rules mask or filter them: both servers speak the same format.

PostgreSQL: tablesync.c (copy_table, copy_read_data).
"""

from __future__ import annotations

from headwater.apply.mapped.mapped_rows import MappedRows
from headwater.apply.table_sync.publisher_tables import SourceTable
from headwater.apply.table_sync.raw_transfer import hand_over
from headwater.apply.table_sync.wal_publisher import Publisher, WalPublisher
from headwater.apply.target.connection import About, TargetConnection
from headwater.receiver.replication_connection import Wait


def transfer(
    source: Publisher,
    table: SourceTable,
    target: TargetConnection,
    wait: Wait,
    about: About,
    *,
    binary: bool = False,
    condition: str = "",
) -> int:
    """Copy rows; they are not committed. The publisher's connection is not to be used for commands any more.

    Args:
        source: the publisher's connection, in the transaction whose snapshot is copied.
        table: whose rows; condition: that they meet, as well as the table's filters; binary: in binary form.
        target: the target's connection, in a transaction.
        wait: waits, and raises when all is to end; about: says what is copied, should it fail.

    Returns:
        how many rows.

    Raises:
        TargetError: the target refuses.
        ServerError: the publisher refuses.
        ConnectionLostError: one of both is lost; the target's connection is closed if it was not that.
    """
    target.begin_copy(table.copy_in_sql(binary), wait, about)
    try:
        rows = table.rows_map
        source.begin(table.copy_sql(binary, condition))
        is_plain = target.is_plain and not (binary or table.filters or table.has_generated)
        if rows is not None:
            _by_rows(source, target, wait, rows)
        elif is_plain and not isinstance(source, WalPublisher) and source.is_plain:
            hand_over(source.fileno(), target.fileno(), wait, target.hear_copy)
        else:
            _by_blocks(source, target, wait)
    except BaseException:
        # Else the target would take for all what there is.
        target.close()
        raise
    return target.end_copy(wait, about)


def _by_rows(source: Publisher, target: TargetConnection, wait: Wait, rows: MappedRows) -> None:
    source.begin_copy()
    for block in source.blocks(wait):
        if mapped := rows.take(block):
            target.put_copy(mapped, wait)
    rows.finish()
    source.finish()


def _by_blocks(source: Publisher, target: TargetConnection, wait: Wait) -> None:
    source.begin_copy()
    for block in source.blocks(wait):
        target.put_copy(block, wait)
    source.finish()
