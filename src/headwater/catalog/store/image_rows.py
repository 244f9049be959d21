"""Versions and files as an image has them: those that no one can see any more left out, the rest in one order.

In: versions as bases and objects, files, the fates of transactions, a horizon. Out: arrays that do not depend on how
they came about (see :mod:`headwater.catalog.store.catalog_image`).

A version stays while it lies at a place of a kept file, or can be seen by a view at the horizon or later. A version
with a place that cannot be seen must stay: else a page image, or a copy made by VACUUM FULL, would bring it back to
life.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.store._gather import gather
from headwater.catalog.store.catalog_image import HeapImage, PendingCommand
from headwater.catalog.store.heaps import CatalogHeap
from headwater.catalog.store.tables import VersionBase
from headwater.catalog.store.version_rows import XID_MASK, VersionRows, rows_of_versions
from headwater.catalog.versions import (
    FIRST_NORMAL_XID,
    FROZEN_XID,
    INVALID_COMMAND_ID,
    INVALID_XID,
    NEVER,
    Fates,
    Version,
)
from headwater.errors import CatalogError

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Verdict(IntEnum):
    """The knowledge about a transaction, for an image with a horizon."""

    RUNS = 0
    """Nothing is known."""
    HINTED = 1
    """The backup says that the transaction committed; the WAL may still say where."""
    LATER = 2
    """The transaction committed at or after the horizon."""
    BEFORE = 3
    """The transaction committed before the horizon: all views see its changes."""
    ABORTED = 4


class Judge:
    """A judge of transactions, who gives verdicts.

    Args:
        fates: the fates of transactions.
        horizon: the oldest LSN that views will be asked for.
        next_xid: 64 bits; xids within 2^31 of it are widened rightly.
    """

    def __init__(self, fates: Fates, horizon: int, next_xid: int) -> None:
        self.horizon = horizon
        self.next_xid = next_xid
        self._fates = fates
        self._verdicts: dict[int, Verdict] = {
            INVALID_XID: Verdict.ABORTED,
            INVALID_XID + 1: Verdict.BEFORE,
            FROZEN_XID: Verdict.BEFORE,
        }

    def verdict(self, xid: int) -> Verdict:
        """Return the verdict on a transaction (low 32 bits).

        Raises:
            CatalogError: the backup should know of the transaction and does not.
        """
        verdict = self._verdicts.get(xid)
        if verdict is None:
            verdict = self._verdicts[xid] = self._judge(xid)
        return verdict

    def _judge(self, xid: int) -> Verdict:
        fates = self._fates
        lsn = fates.commit_lsn(xid)
        if fates.recorded(xid) is None:
            if fates.is_settled(xid):
                return Verdict.ABORTED if lsn == NEVER else Verdict.BEFORE
            return Verdict.RUNS if lsn == NEVER else Verdict.HINTED
        if lsn == NEVER:
            return Verdict.ABORTED
        return Verdict.BEFORE if lsn < self.horizon else Verdict.LATER

    def verdicts(self, xids: Int64s) -> NDArray[np.int8]:
        """Return the verdict on each transaction (low 32 bits): int8[n]."""
        distinct, number = np.unique(xids, return_inverse=True)
        return np.array([self.verdict(xid) for xid in distinct.tolist()], np.int8)[number]

    def sees(self, version: Version) -> bool:
        """Tell whether a view at the horizon or later can see a version."""
        verdicts = (self.verdict(xid) for xid in version.deleters)
        return self.verdict(version.inserter) != Verdict.ABORTED and Verdict.BEFORE not in verdicts

    def widen(self, xids: Int64s) -> Int64s:
        """Widen low halves of xids to 64 bits; numbers that are no xids stay as they are."""
        ahead = (xids - self.next_xid) & XID_MASK
        wide = self.next_xid + np.where(ahead >= 1 << 31, ahead - (1 << 32), ahead)
        return np.where(xids < FIRST_NORMAL_XID, xids, wide)

    def widened(self, xid: int) -> int:
        """Widen the low half of an xid to 64 bits."""
        return int(self.widen(np.array([xid], np.int64))[0])


@dataclass(frozen=True, eq=False)
class ImagedCatalog:
    """The versions of a catalog, or of a file whose catalog is not known, and its files.

    Attributes:
        rows: the versions.
        heaps: their files.
        is_raw: whether the versions are kept as they are, and nothing was asked of transactions.
    """

    rows: VersionRows
    heaps: tuple[HeapImage, ...]
    is_raw: bool


@dataclass(frozen=True, eq=False)
class _Pool:
    """All versions that an image may have, numbered; xids are low halves.

    Attributes:
        rows: the versions; ``at`` counts from the start of the source's bytes.
        source: int64[n] number of the entry of ``sources`` that has a version's bytes.
        of_base: for each base the number of each of its rows, -1 for a row that is gone.
        of_object: number by id.
    """

    rows: VersionRows
    source: Int64s
    sources: list[NDArray[np.uint8]]
    of_base: dict[int, Int64s]
    of_object: dict[int, int]


def _pool(bases: Sequence[VersionBase], objects: Sequence[Version]) -> _Pool:
    """Give numbers to the rows of bases that are no objects yet, and to the objects."""
    parts, of_base, start = list[VersionRows](), dict[int, Int64s](), 0
    for base in bases:
        numbers = np.zeros(len(base.rows), np.int64)
        numbers[list(base.taken)] = -1
        free = np.flatnonzero(numbers == 0)
        numbers[free] = np.arange(start, start + len(free))
        of_base[id(base)] = numbers
        parts.append(_narrowed(_chosen(base.rows, free)))
        start += len(free)
    of_object = {id(version): start + i for i, version in enumerate(objects)}
    for base in bases:
        for row, version in base.taken.items():
            of_base[id(base)][row] = of_object.get(id(version), -1)
    parts.append(rows_of_versions(objects))
    source = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return _Pool(_joined(parts), source, [part.data for part in parts], of_base, of_object)


def _chosen(rows: VersionRows, which: Int64s) -> VersionRows:
    """Choose some rows, in the order of their numbers; their bytes stay where they are."""
    number = np.full(len(rows), -1, np.int64)
    number[which] = np.arange(len(which))
    deletions = np.flatnonzero(number[rows.deleter_row] >= 0)
    order = deletions[np.argsort(number[rows.deleter_row[deletions]], kind="stable")]
    return VersionRows(
        xmin=rows.xmin[which],
        inserter=rows.inserter[which],
        cmin=rows.cmin[which],
        copied_deleter=rows.copied_deleter[which],
        deleter_row=number[rows.deleter_row[order]],
        deleter_xid=rows.deleter_xid[order],
        deleter_command=rows.deleter_command[order],
        infomask2=rows.infomask2[which],
        infomask=rows.infomask[which],
        hoff=rows.hoff[which],
        at=rows.at[which],
        length=rows.length[which],
        data=rows.data,
    )


def _narrowed(rows: VersionRows) -> VersionRows:
    """Reduce all xids to their low halves."""
    return replace(
        rows,
        inserter=rows.inserter & XID_MASK,
        copied_deleter=rows.copied_deleter & XID_MASK,
        deleter_xid=rows.deleter_xid & XID_MASK,
    )


def _joined(parts: Sequence[VersionRows]) -> VersionRows:
    """Join rows one after another; the bytes are left out."""
    starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()

    def all_of(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    rows = np.concatenate([part.deleter_row + start for part, start in zip(parts, starts, strict=False)])
    names = [name for name in VersionRows.__dataclass_fields__ if name not in ("deleter_row", "data")]
    return VersionRows(deleter_row=rows, data=np.empty(0, np.uint8), **{name: all_of(name) for name in names})


@dataclass(frozen=True, eq=False)
class _Places:
    """The places of numbered versions in a file: by block and offset number."""

    block: Int64s
    offnum: Int64s
    number: Int64s
    provisional: Int64s


def _places(heap: CatalogHeap, pool: _Pool) -> _Places:
    """List a file's places, of pages that were read and of others alike."""
    places = heap.places
    rest = ~np.isin(places.block, list(heap.pages)) & (places.block < heap.end)
    numbers = pool.of_base[id(places.base)][places.row[rest]] if id(places.base) in pool.of_base else places.row[:0]
    lie = [
        (block, offnum, pool.of_object[id(version)])
        for block, page in heap.pages.items()
        for offnum, version in page.slots.items()
    ]
    more = np.array(lie, np.int64).reshape(-1, 3).T
    block = np.concatenate([places.block[rest], more[0]])
    offnum = np.concatenate([places.offnum[rest], more[1]])
    number = np.concatenate([numbers, more[2]])
    order = np.lexsort((offnum, block))
    known = {int(block) for block in places.provisional.tolist()} | heap.pages.keys()
    provisional = np.array(sorted(block for block in known if heap.is_provisional(block)), np.int64)
    return _Places(block[order], offnum[order], number[order], provisional)


def image_catalog(
    bases: Sequence[VersionBase], objects: Sequence[Version], heaps: Sequence[CatalogHeap], judge: Judge, is_raw: bool
) -> ImagedCatalog:
    """Make the image of a catalog's versions and files.

    Args:
        bases: the catalog's bases.
        objects: versions that are objects already, each once.
        heaps: the files that are kept, by locator.
        judge: the judge of transactions.
        is_raw: leave nothing out: the copy is not complete yet, and the backup's word is not certain.
    """
    pool = _pool(bases, objects)
    places = [_places(heap, pool) for heap in heaps]
    placed = np.concatenate([np.empty(0, np.int64), *(placed_versions.number for placed_versions in places)])
    rows, keep = (pool.rows, np.ones(len(pool.rows), np.bool_)) if is_raw else _clipped(pool.rows, placed, judge)
    return _imaged(pool, rows, keep, list(zip(heaps, places, strict=True)), judge, is_raw)


def image_unknown(heap: CatalogHeap, judge: Judge) -> ImagedCatalog:
    """Make the image of a file whose catalog is not known yet: all of its versions, as they are."""
    objects = heap.versions()
    pool = _pool((), objects)
    return _imaged(pool, pool.rows, np.ones(len(objects), np.bool_), [(heap, _places(heap, pool))], judge, True)


def _clipped(rows: VersionRows, placed: Int64s, judge: Judge) -> tuple[VersionRows, Bools]:
    """Forget facts of versions that make no difference at the horizon or later; return the rows, and which to keep."""
    made, ended = judge.verdicts(rows.inserter), judge.verdicts(rows.deleter_xid)
    never = made == Verdict.ABORTED
    dead = np.zeros(len(rows), np.bool_)
    dead[rows.deleter_row[ended == Verdict.BEFORE]] = True
    keep = ~never & ~dead
    keep[placed] = True
    matters = (ended == Verdict.BEFORE) | (~dead[rows.deleter_row] & (ended != Verdict.ABORTED))
    which = np.flatnonzero(matters & ~never[rows.deleter_row] & keep[rows.deleter_row])
    row, xid = rows.deleter_row[which], rows.deleter_xid[which]
    is_copied = np.zeros(len(rows), np.bool_)
    is_copied[row[rows.copied_deleter[row] == xid]] = True
    command = np.where(ended[which] == Verdict.BEFORE, INVALID_COMMAND_ID, rows.deleter_command[which])
    inserter = np.where(made == Verdict.BEFORE, FROZEN_XID, rows.inserter)
    clipped = replace(
        rows,
        inserter=np.where(never, INVALID_XID, inserter),
        cmin=np.where(never | (made == Verdict.BEFORE), INVALID_COMMAND_ID, rows.cmin).astype(np.uint32),
        copied_deleter=np.where(is_copied, rows.copied_deleter, INVALID_XID),
        deleter_row=row,
        deleter_xid=xid,
        deleter_command=command.astype(np.uint32),
    )
    return clipped, keep


def _imaged(
    pool: _Pool,
    rows: VersionRows,
    keep: Bools,
    heaps: list[tuple[CatalogHeap, _Places]],
    judge: Judge,
    is_raw: bool,
) -> ImagedCatalog:
    order = _order(pool, rows, keep, [places for _, places in heaps])
    number = np.full(len(rows), -1, np.int64)
    number[order] = np.arange(len(order))
    chosen = _chosen(rows, order)
    data, at = _bytes(pool, chosen, order)
    wide = replace(
        chosen,
        inserter=judge.widen(chosen.inserter),
        copied_deleter=judge.widen(chosen.copied_deleter),
        deleter_xid=judge.widen(chosen.deleter_xid),
        at=at,
        data=data,
    )
    files = tuple(_imaged_heap(heap, places, pool, number, wide, judge, is_raw) for heap, places in heaps)
    return ImagedCatalog(wide, files, is_raw)


def _order(pool: _Pool, rows: VersionRows, keep: Bools, places: list[_Places]) -> Int64s:
    """Order the versions to keep: by first place, then by content."""
    placed = np.concatenate([np.empty(0, np.int64), *(placed_versions.number for placed_versions in places)])
    numbers, first = np.unique(placed, return_index=True)
    keep = keep.copy()
    keep[numbers] = False
    return np.concatenate([numbers[np.argsort(first)], _by_content(pool, rows, np.flatnonzero(keep))])


def _by_content(pool: _Pool, rows: VersionRows, which: Int64s) -> Int64s:
    """Order versions by what is known of them."""
    some = _chosen(rows, which)
    deletions: list[list[tuple[int, int]]] = [[] for _ in range(len(which))]
    for row, xid, command in zip(
        some.deleter_row.tolist(), some.deleter_xid.tolist(), some.deleter_command.tolist(), strict=True
    ):
        deletions[row].append((xid, command))
    plain = (some.xmin, some.inserter, some.cmin, some.copied_deleter, some.infomask2, some.infomask, some.hoff)
    columns = zip(*(column.tolist() for column in plain), strict=True)
    spans = zip(pool.source[which].tolist(), some.at.tolist(), some.length.tolist(), strict=True)
    content = (pool.sources[source][at : at + length].tobytes() for source, at, length in spans)
    keyed = sorted(zip(columns, deletions, content, which.tolist(), strict=True))
    return np.array([entry[-1] for entry in keyed], np.int64)


def _bytes(pool: _Pool, rows: VersionRows, order: Int64s) -> tuple[NDArray[np.uint8], Int64s]:
    """Join the bytes of versions one after another, and return where each begins."""
    source, to = pool.source[order], np.cumsum(rows.length) - rows.length
    data = np.empty(int(rows.length.sum()), np.uint8)
    for number, content in enumerate(pool.sources):
        of_it = np.flatnonzero(source == number)
        if not gather(
            np.ascontiguousarray(content), rows.at[of_it], rows.length[of_it].astype(np.int64), to[of_it], data
        ):
            raise CatalogError(
                f"a version's bytes lie outside of the {len(content)} bytes there are, expected all within"
            )
    return data, to


def _imaged_heap(
    heap: CatalogHeap,
    places: _Places,
    pool: _Pool,
    number: Int64s,
    rows: VersionRows,
    judge: Judge,
    is_raw: bool,
) -> HeapImage:
    is_known = heap.catalog is not None
    # The backup's content of a file that the WAL makes again matters no longer.
    is_new = heap.is_made and (heap.is_merged or not is_raw)
    lay = np.empty(0, np.int64)
    if is_raw and not heap.is_merged:
        rows_of = np.concatenate([heap.places.row, heap.places.lay])
        old = pool.of_base[id(heap.places.base)][rows_of] if id(heap.places.base) in pool.of_base else rows_of[:0]
        ids = [pool.of_object.get(id(version), -1) for version in heap.known()]
        known = np.concatenate([old, np.array(ids, np.int64)])
        lay = np.setdiff1d(number[known[known >= 0]], number[places.number])
        lay = lay[lay >= 0]
    return HeapImage(
        locator=heap.locator,
        catalog=heap.catalog.layout.oid if heap.catalog is not None else 0,
        rows=None if is_known else rows,
        file="" if heap.is_made else heap.file,
        is_missing=heap.is_missing and not is_new,
        is_made=heap.is_made,
        blocks=0 if is_new else heap.blocks,
        base_lsn=0 if is_new else heap.base_lsn,
        is_extended=heap.is_extended and not is_new,
        is_rewritten=heap.is_rewritten,
        is_merged=heap.is_merged,
        block=places.block,
        offnum=places.offnum,
        row=number[places.number],
        lay=lay,
        page_lsns=_page_lsns(heap),
        provisional=places.provisional,
        commands=tuple(_pending(heap, judge)),
    )


def _page_lsns(heap: CatalogHeap) -> Int64s:
    """Return ``pd_lsn`` of each block, up to the last one that has any."""
    lsns = np.zeros(max(heap.end, *(block + 1 for block in heap.pages), 0), np.int64)
    lsns[: heap.end] = heap.places.page_lsns[: heap.end]
    for block, page in heap.pages.items():
        lsns[block] = page.lsn
    return lsns[: int(np.flatnonzero(lsns).max(initial=-1)) + 1]


def _pending(heap: CatalogHeap, judge: Judge) -> Iterable[PendingCommand]:
    for (block, offnum), (xid, cmin, cmax) in sorted(heap.command_ids.items()):
        if judge.verdict(xid) in (Verdict.RUNS, Verdict.HINTED):
            yield PendingCommand(block, offnum, judge.widened(xid), cmin, cmax)
