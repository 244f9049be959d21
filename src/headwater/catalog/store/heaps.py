"""The files of catalogs: which version of which row lies where.

Job: give redo the version at a page and offset, and take page images in. After VACUUM FULL one catalog has several
heaps, and one version may lie in two of them.

In: the pages of a backup, or the places of an image, as flat arrays; a page becomes objects when redo touches it.

A page of an online backup may be younger than the backup's start. Its content is provisional until the WAL's first page
image of it arrives (the server writes one for every page changed during a backup). Versions that the image lacks are
then taken back, as the records that follow bring them again. In the same way a whole file may be younger. Then the
catalog moves there in the middle of the WAL, and the file's content is matched with the catalog's other versions only
then. The content of a provisional page is matched when the WAL has shown the page: until then a version lies in one
file only, so that it can be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.pages import (
    HEAP_XMAX_COMMITTED,
    HEAP_XMAX_IS_MULTI,
    HEAP_XMIN_COMMITTED,
    PageTuple,
    page_tuples,
    scan_heap,
)
from headwater.catalog.store.tables import CatalogTable, VersionBase
from headwater.catalog.store.version_rows import NO_ROWS, rows_of_scan
from headwater.catalog.versions import INVALID_XID, Fates, Key, Version
from headwater.errors import CatalogError

_MOST_BLOCKS = 1 << 24
"""The most blocks of a file, 128 GB: memory here follows the number of blocks."""

Int64s = NDArray[np.int64]
Locator = tuple[int, int, int]
"""A file: tablespace OID, database OID (0 shared), file number."""
Tid = tuple[int, int]


class Page:
    """A page of a heap: the versions at its offset numbers.

    Attributes:
        lsn: ``pd_lsn``.
        slots: offset number to version.
        is_provisional: whether the page is of an online backup, and changed after the backup's start.
    """

    __slots__ = ("is_provisional", "lsn", "slots")

    def __init__(self, lsn: int = 0, is_provisional: bool = False) -> None:
        self.lsn = lsn
        self.slots: dict[int, Version] = {}
        self.is_provisional = is_provisional


def _none() -> Int64s:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class HeapPlaces:
    """The content of a file, m tuples in b blocks.

    Attributes:
        base: the versions.
        block, offnum, row: int64[m] each tuple's block, offset number and row of ``base``; by block and offset number.
        lay: int64[] rows of ``base`` that lay in this file before.
        page_lsns: int64[b] ``pd_lsn`` of each block.
        provisional: int64[] blocks that may come from the future.
    """

    base: VersionBase = field(default_factory=lambda: VersionBase(NO_ROWS))
    block: Int64s = field(default_factory=_none)
    offnum: Int64s = field(default_factory=_none)
    row: Int64s = field(default_factory=_none)
    lay: Int64s = field(default_factory=_none)
    page_lsns: Int64s = field(default_factory=_none)
    provisional: Int64s = field(default_factory=_none)


def places_in_pages(
    data: bytes, fixed_length: int, start_lsn: int, fates: Fates, update_xid: Callable[[int], int]
) -> tuple[HeapPlaces, int]:
    """Read the tuples of a file of a backup.

    Args:
        data: whole pages.
        fixed_length: bytes that each row has at least.
        start_lsn: the backup's start; younger pages are provisional.
        fates: the fates of transactions, which take over hint bits.
        update_xid: resolves the updater of a multixact, 0 if it has none.

    Returns:
        the file's tuples, and the first block that is broken, -1 if there is none.
    """
    scan = scan_heap(data, fixed_length)
    is_young = scan.page_lsns > start_lsn
    rows, multis = rows_of_scan(scan, is_young[scan.block], fates)
    base, row = VersionBase(rows, multis, update_xid), np.arange(len(rows))
    young = np.flatnonzero(is_young)
    return HeapPlaces(base, scan.block, scan.offnum, row, _none(), scan.page_lsns, young), scan.bad_block


class CatalogHeap:
    """A file of a catalog, or of a relation that may turn out to be one.

    Args:
        locator: the file's locator.
        fates: the fates of transactions.
        update_xid: resolves the updater of a multixact, 0 if it has none.
        places: the file's content before any record is applied.

    Attributes:
        catalog: the catalog of this heap, None if that is not known yet.
        command_ids: the commands that NEW_CID gave for tuples whose record has not come yet: xid, cmin, cmax.
        places: the file's content when it was opened.
        end: ``places`` holds for blocks before this one: the file was cut there.
        is_rewritten: whether the file was written as a whole, from another file of the catalog, as the WAL or the
            backup has shown.
        is_merged: whether its versions have been matched with those of the catalog's other heaps.
        file: the name under which the backup has the file, or should have it.
        is_missing: whether the backup does not have it.
        is_made: whether the WAL has shown how it came to be.
        blocks: pages that the backup has of it.
        base_lsn: ``pd_lsn`` of the backup's youngest page, 0 if it has none.
        is_extended: whether the WAL has shown how the page after ``blocks`` came to be.
        is_changed: whether a record has touched it since it was opened.
        is_as_of_now: whether it is of an exported catalog, after its consistent point: its provisional pages come from
            no future.
        pages: the pages that were read or made so far.
    """

    def __init__(
        self,
        locator: Locator,
        fates: Fates,
        update_xid: Callable[[int], int],
        places: HeapPlaces | None = None,
    ) -> None:
        self.locator = locator
        self.catalog: CatalogTable | None = None
        self.command_ids: dict[Tid, tuple[int, int, int]] = {}
        self.places = places or HeapPlaces()
        self.end = len(self.places.page_lsns)
        self.is_rewritten = False
        self.is_merged = False
        self.file = ""
        self.is_missing = False
        self.is_made = False
        self.blocks = 0
        self.base_lsn = 0
        self.is_extended = False
        self.is_changed = False
        self.is_as_of_now = False
        self.pages: dict[int, Page] = {}
        self._fates = fates
        self._update_xid = update_xid
        self._provisional = frozenset(self.places.provisional.tolist())
        self._known: dict[int, Version] = {}
        self._gone: dict[int, Version] = {}

    def attach(self, catalog: CatalogTable) -> None:
        """Make this a heap of a catalog from the start on; its rows are found by key."""
        self.catalog = catalog
        catalog.add_base(self.places.base)

    def merge(self, catalog: CatalogTable, strangers: Iterable[Version] = ()) -> None:
        """Join this heap's versions with those the catalog has from other heaps, as the catalog moves to this heap now.

        Args:
            catalog: the catalog.
            strangers: versions that none of these is a copy of.
        """
        if self.is_merged:
            return
        versions, unsettled = self.versions(), {id(version) for version in self.unsettled()}
        if self.catalog is not None:
            for version in versions:
                catalog.discard(version)
        self.catalog = catalog
        self.is_merged = catalog.is_changed = True
        taken = {id(version) for version in strangers}
        became = {}
        for version in versions:
            mates = [v for v in catalog.row_mates(version) if id(v) not in taken]
            original = None if id(version) in unsettled else catalog.original_of(version, mates)
            if original is None:
                catalog.add(version)
            else:
                original.absorb(version)
                original.become(version.data)
            became[id(version)] = original or version
            taken.add(id(original or version))
        self._replace(became)

    def precede(self, catalog: CatalogTable, strangers: Iterable[Version] = ()) -> None:
        """Join this heap's versions with their copies.

        The catalog lay in this heap before it moved to those that are known.

        Args:
            catalog: the catalog.
            strangers: versions that are copies of none of these.
        """
        self.catalog = catalog
        self.is_merged = catalog.is_changed = True
        versions, apart = self.versions(), {id(version) for version in (*strangers, *self.unsettled())}
        became: dict[int, Version] = {}
        rows: dict[Key, list[Version]] = {}
        for version in versions:
            rows.setdefault(catalog.first_key(version), []).append(version)
        for originals in rows.values():
            for copy in [mate for mate in catalog.row_mates(originals[0]) if id(mate) not in apart]:
                free = [v for v in originals if id(v) not in became and id(v) not in apart]
                original = catalog.original_of(copy, free)
                if original is not None:
                    copy.absorb(original)
                    became[id(original)] = copy
        for version in versions:
            if id(version) not in became:
                became[id(version)] = version
                catalog.add(version)
        self._replace(became)

    def _replace(self, became: dict[int, Version]) -> None:
        stay = {id(version): version for version in became.values()}
        self._gone.update((key, version) for key, version in self._known.items() if key not in stay)
        self._known = stay
        for page in self.pages.values():
            page.slots = {offnum: became[id(version)] for offnum, version in page.slots.items()}

    def page(self, block: int) -> Page:
        """Return a page; an empty one if neither the backup nor the WAL has shown it yet.

        Raises:
            CatalogError: no catalog is so large.
        """
        page = self.pages.get(block)
        if page is None:
            if block >= _MOST_BLOCKS:
                name = "/".join(map(str, self.locator))
                raise CatalogError(f"page {block} of catalog file {name}, expected one before {_MOST_BLOCKS}")
            page = self.pages[block] = self._read(block)
        return page

    def _read(self, block: int) -> Page:
        places = self.places
        if block >= self.end:
            return Page()
        page = Page(int(places.page_lsns[block]), block in self._provisional)
        lo, hi = np.searchsorted(places.block, block, "left"), np.searchsorted(places.block, block, "right")
        for offnum, row in zip(places.offnum[lo:hi].tolist(), places.row[lo:hi].tolist(), strict=True):
            version = page.slots[offnum] = places.base.version(row)
            self._known[id(version)] = version
        return page

    def is_provisional(self, block: int) -> bool:
        """Tell whether a page may come from the future."""
        page = self.pages.get(block)
        return page.is_provisional if page is not None else block < self.end and block in self._provisional

    def add(self, version: Version) -> None:
        """Take in a version that has come to lie in this file."""
        if self.catalog is not None:
            self.catalog.add(version)
        self._known[id(version)] = version

    def _version(self, row: PageTuple) -> Version:
        """Make a version that a page image brings.

        Its hints may come from the future: the fate of the xid decides.
        """
        version = Version(row.xmin, row.xmin, row.data)
        mask = row.data.infomask
        if mask & HEAP_XMIN_COMMITTED and not row.is_xmin_invalid:
            self._fates.hint(row.xmin)
        deleter = self._deleter(row)
        if deleter:
            version.delete(deleter)
            version.copied_deleter = deleter
            if mask & HEAP_XMAX_COMMITTED:
                self._fates.hint(deleter)
        return version

    def _deleter(self, row: PageTuple) -> int:
        """Return the transaction that deleted a tuple, or tried to; 0 without one."""
        if not row.is_deleted:
            return INVALID_XID
        return self._update_xid(row.xmax) if row.data.infomask & HEAP_XMAX_IS_MULTI else row.xmax

    def load(self, block: int, image: bytes, lsn: int, is_rewrite: bool = False) -> list[Version]:
        """Replace a page by a page image of the WAL.

        Versions are recognized again by offset number and ``xmin``.

        Args:
            block: block number.
            image: 8192 bytes.
            lsn: end of the record.
            is_rewrite: whether the image is how the page came to be, not how it was changed.

        Returns:
            the versions that the log had not shown before.
        """
        page = self.page(block)
        before, page.slots = page.slots, {}
        fresh = []
        for offnum, row in page_tuples(image):
            version = before.get(offnum)
            if version is None or version.xmin != row.xmin:
                version = self._version(row)
                fresh.append(version)
                self.add(version)
            else:
                del before[offnum]
                self._become(version, row)
                if is_rewrite:
                    version.copied_deleter = self._deleter(row)
            page.slots[offnum] = version
        self.is_rewritten |= is_rewrite and bool(page.slots)
        was_provisional = page.is_provisional
        self._settle(page, before.values(), lsn)
        if not was_provisional:
            return fresh
        if self.is_merged:
            self._join(list(page.slots.values()))
        return list(page.slots.values())

    def _become(self, version: Version, row: PageTuple) -> None:
        """Give a version that lies here other bytes."""
        if self.catalog is not None and version.data.tail != row.data.tail:
            self.catalog.require_row(row.data)
            self.catalog.note_change(version)
        version.become(row.data)

    def _join(self, versions: Iterable[Version]) -> None:
        """Join versions of a page that the log has shown only after the file was merged."""
        assert self.catalog is not None
        became = {id(version): version for version in self.versions()}
        for version in versions:
            mates = [mate for mate in self.catalog.row_mates(version) if id(mate) not in became]
            original = self.catalog.original_of(version, mates)
            if original is not None:
                self.catalog.discard(version)
                original.absorb(version)
                original.become(version.data)
                became[id(version)] = became[id(original)] = original
        self._replace(became)

    def reset(self, block: int, lsn: int) -> Page:
        """Empty a page that a record makes again."""
        page = self.page(block)
        before, page.slots = page.slots, {}
        self._settle(page, before.values(), lsn)
        return page

    def _settle(self, page: Page, gone: Iterable[Version], lsn: int) -> None:
        """Settle a page as the WAL has it; versions that only a provisional page had never existed."""
        for version in gone if page.is_provisional else ():
            self._known.pop(id(version), None)
            self._gone[id(version)] = version
            if self.catalog is not None:
                self.catalog.discard(version)
        page.is_provisional = False
        page.lsn = lsn
        self.is_extended |= self.pages.get(self.blocks) is page

    def versions(self) -> list[Version]:
        """List all versions that lie or lay in this file, as far as the WAL has come; those that lie there first."""
        places = self.places
        for block in np.unique(places.block).tolist():
            self.page(block)
        for row in np.concatenate([places.row, places.lay]).tolist():
            version = places.base.version(row)
            if id(version) not in self._gone:
                self._known[id(version)] = version
        lie = (page.slots[offnum] for _, page in sorted(self.pages.items()) for offnum in sorted(page.slots))
        return list({id(version): version for version in (*lie, *self._known.values())}.values())

    def unsettled(self) -> list[Version]:
        """List versions of pages that may come from the future: none of them is joined with a copy of it."""
        if self.is_as_of_now:
            return []
        blocks = [block for block in sorted(self._provisional) if self.is_provisional(block)]
        return [version for block in blocks for version in self.page(block).slots.values()]

    def known(self) -> list[Version]:
        """List versions that lie or lay in this file and are objects already."""
        return list(self._known.values())

    def truncate(self, blocks: int) -> None:
        """Cut the file before block ``blocks``.

        The WAL is still to bring the pages after it that a page from the future has.
        """
        for block in self._provisional:
            if block >= blocks and self.is_provisional(block):
                self.reset(block, 0)
        self.end = min(self.end, blocks)
        for block in [block for block in self.pages if block >= blocks]:
            del self.pages[block]
        self.is_changed = True
