"""The indexes of neighbouring runs joined into one, with their seams checked.

In: :class:`WalIndex` values in LSN order. Out: one :class:`WalIndex`. A seam holds when the first record of a run
points back (``xl_prev``) at the last record of the run before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from headwater.errors import RecordError
from headwater.pg.lsn import Lsn
from headwater.rmgr.index import Rows, WalIndex

_OFFSETS = {"end_subs", "inval_at"}


def merge_indexes(indexes: Sequence[WalIndex]) -> WalIndex:
    """Join the indexes of neighbouring runs.

    Args:
        indexes: at least one, in LSN order; what follows an end of the log is left out.

    Returns:
        their union.

    Raises:
        RecordError: two runs do not meet.
    """
    used = _until_end(indexes)
    _check_seams(used)
    return WalIndex(
        lo=used[0].lo,
        hi=used[-1].hi,
        records=sum(i.records for i in used),
        first_prev=next((i.first_prev for i in used if i.records), 0),
        last_lsn=next((i.last_lsn for i in reversed(used) if i.records), 0),
        rows=_merge_rows([i.rows for i in used]),
        kept=tuple(record for i in used for record in i.kept),
        custom=np.sum([i.custom for i in used], axis=0),
        end=used[-1].end,
        grid=used[0].grid,
    )


def _until_end(indexes: Sequence[WalIndex]) -> list[WalIndex]:
    used = []
    for index in indexes:
        used.append(index)
        if index.end is not None:
            break
    return used


def _check_seams(indexes: Sequence[WalIndex]) -> None:
    last = 0
    for index in indexes:
        if not index.records:
            continue
        if last and index.first_prev != last:
            raise RecordError(
                f"the first record from {Lsn(index.lo)} points back at {Lsn(index.first_prev)}, expected {Lsn(last)}",
                lsn=index.lo,
                hint="segments of different servers or timelines may be mixed in one directory",
            )
        last = index.last_lsn


def _merge_rows(rows: Sequence[Rows]) -> Rows:
    if len(rows) == 1:
        return rows[0]
    locators, numbers = _merge_locators([r.locators for r in rows])
    merged: dict[str, NDArray[np.generic]] = {}
    for field in fields(Rows):
        parts = [getattr(r, field.name) for r in rows]
        if field.name in _OFFSETS:
            merged[field.name] = _join_offsets(parts)
        elif field.name == "change_locator":
            merged[field.name] = np.concatenate([n[p] for n, p in zip(numbers, parts, strict=True)])
        elif field.name == "locators":
            merged[field.name] = locators
        else:
            merged[field.name] = np.concatenate(parts)
    return Rows(**merged)  # type: ignore[arg-type]


def _merge_locators(parts: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], list[NDArray[np.int32]]]:
    """All files once, and for each part the new number of each of its files."""
    locators, inverse = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
    inverse = inverse.reshape(-1).astype(np.int32)
    cuts = np.cumsum([len(p) for p in parts])[:-1]
    return locators, list(np.split(inverse, cuts))


def _join_offsets(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    joined = [np.zeros(1, np.int64)]
    base = 0
    for part in parts:
        joined.append(part[1:] + base)
        base += int(part[-1])
    return np.concatenate(joined)
