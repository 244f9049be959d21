"""Versions of catalog rows as flat arrays.

In: the pages of a backup (:func:`rows_of_scan`), or versions (:func:`rows_of_versions`). Out: arrays, as images hold
them. A catalog of millions of rows costs its arrays; :class:`headwater.catalog.store.tables.VersionBase` makes objects
of the rows that redo or a look-up touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwater.base.constant_columns import check_lengths, check_range
from headwater.catalog.pages import HEAP_XMAX_COMMITTED, HEAP_XMAX_IS_MULTI, HEAP_XMIN_COMMITTED, HeapScan
from headwater.catalog.versions import (
    FIRST_NORMAL_XID,
    FROZEN_XID,
    INVALID_COMMAND_ID,
    INVALID_XID,
    Fates,
    Version,
)
from headwater.rmgr.heap import HEADER_SIZE, TupleBytes

Int64s = NDArray[np.int64]
XID_MASK = 0xFFFFFFFF


@dataclass(frozen=True, eq=False)
class VersionRows:
    """Versions of catalog rows, n of them, with d deletions.

    Attributes:
        xmin: uint32[n] raw ``t_xmin``.
        inserter: int64[n] the xid that decides whether the version exists, FROZEN_XID, or INVALID_XID for a known
            abort.
        cmin: uint32[n] the command that inserted the version, INVALID_COMMAND_ID if unknown.
        copied_deleter: int64[n] see :class:`Version`.
        deleter_row: int64[d] the version's number; deleter_xid: int64[d] its deleter; deleter_command: uint32[d] the
            deleter's command; sorted by row and xid.
        infomask2, infomask: uint16[n]; hoff: uint8[n] as in :class:`TupleBytes`.
        at: int64[n] offset in ``data`` of the bytes from tuple offset 23 on; length: int64[n] how many.
        data: uint8[].
    """

    xmin: NDArray[np.uint32]
    inserter: Int64s
    cmin: NDArray[np.uint32]
    copied_deleter: Int64s
    deleter_row: Int64s
    deleter_xid: Int64s
    deleter_command: NDArray[np.uint32]
    infomask2: NDArray[np.uint16]
    infomask: NDArray[np.uint16]
    hoff: NDArray[np.uint8]
    at: Int64s
    length: Int64s
    data: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.xmin)

    def check_parts(self) -> None:
        """Check that all rows and deletions are there, and every row lies in the data.

        Raises:
            ValueError: a part is missing, or a row lies outside.
        """
        rows = [getattr(self, f.name) for f in fields(self) if not f.name.startswith("deleter") and f.name != "data"]
        check_lengths(rows)
        check_lengths([self.deleter_row, self.deleter_xid, self.deleter_command])
        check_range(self.deleter_row, 0, len(self))
        check_range(self.at, 0, len(self.data) + 1)
        check_range(self.length, 0, len(self.data) + 1)
        check_range(self.at + self.length, 0, len(self.data) + 1)
        check_range(self.hoff, HEADER_SIZE, 256)
        check_range(self.length - self.hoff, -HEADER_SIZE, len(self.data) + 1)

    def check_fixed_length(self, length: int) -> None:
        """Check that every row has so many bytes after its header.

        Raises:
            ValueError: a row has less.
        """
        check_range(self.length - self.hoff, length - HEADER_SIZE, len(self.data) + 1)

    def column(self, offset: int, length: int) -> NDArray[np.generic]:
        """Return a fixed column of every row: uint32[n] for 4 bytes, else S``length``[n]."""
        body = self.at + self.hoff - HEADER_SIZE
        content = np.ascontiguousarray(self.data[body[:, None] + np.arange(offset, offset + length)])
        if not len(content):
            return np.empty(0, "<u4" if length == 4 else f"S{length}")
        return content.view("<u4" if length == 4 else f"S{length}")[:, 0]

    def sorted_keys(self, fields: tuple[tuple[int, int], ...]) -> tuple[NDArray[np.generic], Int64s]:
        """Sort rows by one fixed column, or two OIDs in one number: return keys in order, and the row of each.

        Args:
            fields: offset and length of each column.
        """
        if fields not in self._sorted:
            columns = [self.column(*field) for field in fields]
            keys = columns[0]
            if len(columns) == 2:
                keys = columns[0].astype("<u8") | columns[1].astype("<u8") << np.uint64(32)
            order = np.argsort(keys, kind="stable")
            self._sorted[fields] = keys[order], order
        return self._sorted[fields]

    @cached_property
    def _sorted(self) -> dict[tuple[tuple[int, int], ...], tuple[NDArray[np.generic], Int64s]]:
        return {}

    @cached_property
    def named(self) -> Int64s:
        """int64[] the transactions that inserted or deleted a row, each once."""
        xids = np.unique(np.concatenate([self.inserter, self.deleter_xid]))
        return xids[xids & XID_MASK >= FIRST_NORMAL_XID]

    @cached_property
    def _by_xid(self) -> tuple[Int64s, Int64s]:
        """The low halves of the xids of inserters and deleters in order, and the row of each."""
        inserted = np.flatnonzero(self.inserter & XID_MASK >= FIRST_NORMAL_XID)
        xids = np.concatenate([self.inserter[inserted], self.deleter_xid]) & XID_MASK
        rows = np.concatenate([inserted, self.deleter_row])
        order = np.argsort(xids, kind="stable")
        return xids[order], rows[order]

    @cached_property
    def _xids(self) -> frozenset[int]:
        return frozenset(np.unique(self._by_xid[0]).tolist())

    def named_by(self, xid: int) -> list[int]:
        """List the rows that a transaction inserted or deleted.

        Args:
            xid: the transaction's low 32 bits.
        """
        if xid not in self._xids:
            return []
        xids, rows = self._by_xid
        lo, hi = np.searchsorted(xids, xid, "left"), np.searchsorted(xids, xid, "right")
        numbers: list[int] = rows[lo:hi].tolist()
        return numbers

    def with_fixed_columns_only(self, fixed_length: int) -> VersionRows:
        """Return the same rows, with zeros in the place of all columns after those that every row has; lengths stay.

        Args:
            fixed_length: bytes of those columns.
        """
        data = self.data.copy()
        for start, stop in zip(self.at + self.hoff - HEADER_SIZE + fixed_length, self.at + self.length, strict=True):
            data[start:stop] = 0
        return replace(self, data=data)

    def tuple_at(self, row: int) -> TupleBytes:
        """Return a row's bytes."""
        at = int(self.at[row])
        tail = self.data[at : at + int(self.length[row])].tobytes()
        return TupleBytes(int(self.infomask2[row]), int(self.infomask[row]), int(self.hoff[row]), tail)


def rows_of_scan(scan: HeapScan, provisional: NDArray[np.bool_], fates: Fates) -> tuple[VersionRows, dict[int, int]]:
    """Make versions of the tuples of a backup's file; the facts in hint bits are added to the fates.

    Args:
        scan: the file's tuples.
        provisional: bool[n] tuples of pages that may come from the future: there the fate of an xid decides, not a bit.
        fates: the fates of transactions.

    Returns:
        the rows, and the multixacts that may have deleted some.
    """
    xmin, xmax, mask = scan.xmin.astype(np.int64), scan.xmax.astype(np.int64), scan.infomask
    inserter = np.where(scan.is_frozen & ~provisional, FROZEN_XID, xmin)
    inserter[scan.is_xmin_invalid & ~provisional] = INVALID_XID
    says = (mask & HEAP_XMIN_COMMITTED != 0) & ~scan.is_xmin_invalid & (inserter >= FIRST_NORMAL_XID)
    is_multi = mask & HEAP_XMAX_IS_MULTI != 0
    deleted = np.flatnonzero(scan.is_deleted & ~is_multi)
    gone = deleted[mask[deleted] & HEAP_XMAX_COMMITTED != 0]
    for xid in np.unique(np.concatenate([xmin[says], xmax[gone]])).tolist():
        fates.hint(xid)
    copied = np.zeros(len(xmin), np.int64)
    copied[deleted] = xmax[deleted]
    rows = VersionRows(
        xmin=scan.xmin,
        inserter=inserter,
        cmin=np.full(len(xmin), INVALID_COMMAND_ID, np.uint32),
        copied_deleter=copied,
        deleter_row=deleted,
        deleter_xid=xmax[deleted],
        deleter_command=np.full(len(deleted), INVALID_COMMAND_ID, np.uint32),
        infomask2=scan.infomask2,
        infomask=mask,
        hoff=scan.hoff,
        at=scan.start + HEADER_SIZE,
        length=scan.length - HEADER_SIZE,
        data=scan.data,
    )
    multis = np.flatnonzero(scan.is_deleted & is_multi)
    return rows, dict(zip(multis.tolist(), xmax[multis].tolist(), strict=True))


def rows_of_versions(versions: Sequence[Version]) -> VersionRows:
    """Make arrays of versions, with the low halves of xids."""
    deletions = [(i, xid, cmax) for i, v in enumerate(versions) for xid, cmax in sorted(v.deleters.items())]
    row, xid, command = np.array(deletions, np.int64).reshape(-1, 3).T
    lengths = np.array([len(v.data.tail) for v in versions], np.int64)
    return VersionRows(
        xmin=np.array([v.xmin for v in versions], np.uint32),
        inserter=np.array([v.inserter for v in versions], np.int64),
        cmin=np.array([v.cmin for v in versions], np.uint32),
        copied_deleter=np.array([v.copied_deleter for v in versions], np.int64),
        deleter_row=row,
        deleter_xid=xid,
        deleter_command=command.astype(np.uint32),
        infomask2=np.array([v.data.infomask2 for v in versions], np.uint16),
        infomask=np.array([v.data.infomask for v in versions], np.uint16),
        hoff=np.array([v.data.hoff for v in versions], np.uint8),
        at=np.cumsum(lengths) - lengths,
        length=lengths,
        data=np.frombuffer(b"".join(v.data.tail for v in versions), np.uint8),
    )


NO_ROWS = rows_of_versions(())
"""The rows of a catalog that has none."""
