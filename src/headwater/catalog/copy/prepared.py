"""Transactions that were prepared when a data directory was copied: ``pg_twophase`` (PostgreSQL: twophase.c).

A state file holds what the PREPARE record holds, and a checksum. It is written at the first checkpoint after PREPARE
and outlives every shutdown, until COMMIT PREPARED or ROLLBACK PREPARED.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.errors import CatalogError, RecordError
from headwater.rmgr.xact import Prepare, parse_prepare
from headwater.wal.checksum import crc32c

# 17 and newer put the epoch before the xid.
_NAME = re.compile(r"(?:[0-9A-F]{8})?([0-9A-F]{8})")
_CRC_SIZE = 4


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction that was prepared and neither committed nor rolled back.

    Attributes:
        xid: the transaction.
        database: OID.
        gid: the transaction's name.
        subxacts: the transaction's subtransactions.
        changes_catalog: whether the transaction changed the catalog.
    """

    xid: int
    database: int
    gid: str
    subxacts: tuple[int, ...]
    changes_catalog: bool

    @classmethod
    def of_record(cls, record: Prepare) -> PreparedTransaction:
        """Take over a transaction as PREPARE TRANSACTION logged it."""
        gid = record.gid.decode("utf-8", "replace")
        return cls(record.xid, record.database, gid, record.subxacts, bool(record.invalidations))

    def __str__(self) -> str:
        return f'prepared transaction "{self.gid}" (xid {self.xid})'


def prepared_transactions(directory: DataDirectory) -> tuple[PreparedTransaction, ...]:
    """Read the transactions that were prepared at the directory's LSN, in any database.

    Only those are known that were still prepared when the copy was made.

    A server that did not shut down may have left files of transactions that had ended; recovery removes them.

    Raises:
        CatalogError: a state file is broken, or the file of ``pg_xact`` that should know of it is missing.
    """
    names = [(name, match) for name in directory.tree.names("pg_twophase") if (match := _NAME.fullmatch(name))]
    transactions = [_read(directory, f"pg_twophase/{name}", int(match[1], 16)) for name, match in names]
    return tuple(
        transaction for transaction in transactions if directory.is_shutdown or not directory.has_ended(transaction.xid)
    )


def _read(directory: DataDirectory, name: str, xid: int) -> PreparedTransaction:
    file, data = directory.tree.place(name), directory.tree.read(name)
    state, expected = data[:-_CRC_SIZE], int.from_bytes(data[-_CRC_SIZE:], "little")
    if crc32c(state) != expected:
        raise CatalogError(
            f"incorrect checksum in state of a prepared transaction, found {crc32c(state):08X}, "
            f"expected {expected:08X}",
            file=file,
        )
    try:
        record = parse_prepare(state, 0, directory.major)
    except RecordError as error:
        raise CatalogError(error.message, file=file) from None
    if record.xid != xid:
        raise CatalogError(f"state of prepared transaction {record.xid}, expected {xid}", file=file)
    return PreparedTransaction.of_record(record)
