"""The completeness of a catalog that was copied while a server wrote: how far WAL must be read to believe it.

In: a request and the index of its window. Such a copy holds pages of many moments. It is one catalog only once WAL has
been replayed to the moment when the copying ended (PostgreSQL: xlogrecovery.c, CheckRecoveryConsistency): the
BACKUP_END record of a primary's backup, ``minRecoveryPoint`` for one from a standby. Without a ``backup_label`` no page
may be younger than the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.copy.taken_at import CatalogOrigin
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.errors import AwaitedCatalogError, CatalogError, WalError
from headwater.option_names import option
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.open_request import OpenRequest
from headwater.rmgr.index.wal_index import WalIndex
from headwater.rmgr.registry import XLOG
from headwater.rmgr.xlog import (
    BACKUP_END,
    CHECKPOINT_ONLINE,
    CHECKPOINT_SHUTDOWN,
    parse_backup_end,
    parse_checkpoint,
)
from headwater.wal.layout import INFO_AT, RMID_AT, XLR_RMGR_INFO_MASK
from headwater.wal.records.frames import Frames
from headwater.wal.records.record import Record, parse_record
from headwater.wal.records.stretches import read_stretches
from headwater.wal.segments.directory import WalDirectory

_COMPLETING = BACKUP_END, CHECKPOINT_ONLINE, CHECKPOINT_SHUTDOWN
"""Kinds of records that a copy may be complete at."""


def reaches(store: CatalogStore, pieces: Iterable[WalIndex]) -> bool:
    """Tell whether WAL was read far enough for its catalog to be believed.

    Args:
        store: the catalog.
        pieces: indexes of what was read since it was taken.
    """
    has_end, hi = store.origin.backup_start is None, 0
    for piece in pieces:
        has_end = has_end or _has_backup_end(piece, store)
        hi = piece.hi
    return has_end and hi >= store.files.reach_lsn


def check_reach(opened: OpenRequest, store: CatalogStore, index: WalIndex) -> None:
    """Refuse a window that ends before its catalog is consistent.

    Args:
        opened: the request; store: its catalog.
        index: of the window.

    Raises:
        CatalogError: the window ends too early.
    """
    start, lsn = store.origin.backup_start, store.files.reach_lsn
    if start is not None and not _has_backup_end(index, store):
        manifest_end = DataDirectory(opened.request.catalog).manifest_end_lsn()
        raise _too_early(opened, index, _backup_end_after(opened.directory, index.hi, start) or manifest_end)
    if index.hi < lsn:
        raise _too_early(opened, index, lsn)


def _too_early(opened: OpenRequest, index: WalIndex, lsn: int | None) -> CatalogError:
    is_cut = opened.request.end is not None and index.end is None
    what = "window" if is_cut else "WAL"
    until = "" if lsn is None else f", expected {Lsn(lsn)} at least"
    how = f"{option('end', Lsn(lsn))} or later" if lsn is not None and is_cut else "more WAL"
    kind = CatalogError if is_cut else AwaitedCatalogError
    return kind(
        f"the {what} ends at {Lsn(index.hi)}, before the copy of the catalog was complete{until}",
        file=opened.request.catalog,
        hint=f"give {how}, or an older base backup",
    )


def _has_backup_end(index: WalIndex, store: CatalogStore) -> bool:
    """Tell whether the window has the end of the backup that the catalog is of."""
    for entry in index.kept:
        if entry.data[RMID_AT] == XLOG and entry.data[INFO_AT] & XLR_RMGR_INFO_MASK == BACKUP_END:
            record = parse_record(entry.data, entry.lsn, entry.end_lsn, store.major)
            if parse_backup_end(record.main_data, record.lsn) == store.origin.backup_start:
                return True
    return False


def complete_at(store: CatalogStore, directory: WalDirectory) -> int | None:
    """Return the LSN to which WAL must be replayed before a copy of a cluster is one; None if that is yet to come.

    Args:
        store: the catalog of the copy, not rolled forward.
        directory: the WAL.

    Raises:
        WalError: it cannot be read.
    """
    origin = store.origin
    if store.files.is_complete:
        return origin.start_lsn
    if origin.backup_start is None and origin.reach_lsn:
        return store.files.reach_lsn  # a standby's copy: it says itself how far it has replayed
    record = _first_record(directory, origin.start_lsn, _COMPLETING, partial(_completes, origin))
    return None if record is None else max(record.end_lsn, store.files.reach_lsn)


def _completes(origin: CatalogOrigin, record: Record) -> bool:
    """Tell whether a copy was complete at a record: as :meth:`CatalogFiles.complete` is called."""
    if origin.backup_start is not None:
        return _is_end_of(origin.backup_start, record)
    if record.kind == BACKUP_END:
        return False
    return parse_checkpoint(record.main_data, record.lsn, origin.major).redo > origin.start_lsn


def _is_end_of(start: int, record: Record) -> bool:
    return record.kind == BACKUP_END and parse_backup_end(record.main_data, record.lsn) == start


def _backup_end_after(directory: WalDirectory, lsn: int, start: int) -> int | None:
    """Find the end of the backup that began at ``start``, if the WAL from ``lsn`` on has it and can be read."""
    segment = lsn // directory.segment_size * directory.segment_size
    if directory.segment_at(segment) is None:
        return None
    try:
        record = _first_record(directory, segment, (BACKUP_END,), partial(_is_end_of, start))
    except WalError:
        return None
    return None if record is None else record.end_lsn


def _first_record(
    directory: WalDirectory, lsn: int, kinds: Sequence[int], is_it: Callable[[Record], bool]
) -> Record | None:
    """Return the first record of XLOG, of some kinds, that is the one that is looked for."""
    for _, _, frames in read_stretches(directory, lsn, directory.stop_lsn):
        for i in _of_kinds(frames, kinds):
            record = parse_record(frames.record(i), int(frames.lsns[i]), int(frames.end_lsns[i]), directory.major)
            if is_it(record):
                return record
    return None


def _of_kinds(frames: Frames, kinds: Sequence[int]) -> Iterator[int]:
    at = frames.positions
    own = np.isin(frames.data[at + INFO_AT] & XLR_RMGR_INFO_MASK, kinds)
    return iter(np.flatnonzero((frames.data[at + RMID_AT] == XLOG) & own).tolist())
