"""Files of catalogs: which version of which row lies where.

Job: give redo the version at a page and offset, and take page images in. After VACUUM FULL one catalog has several
heaps, and one version may lie in two of them.

A page of an online backup may be younger than the backup's start. What it says is provisional until the WAL's first
page image of it arrives (the server writes one for every page changed during a backup): versions that the image lacks
are then taken back, as the records that follow bring them again. In the same way a whole file may be younger: then the
catalog moves there in the middle of the WAL, and what it holds is matched with the catalog's other versions only then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from headwater.catalog.pages import (
    BLCKSZ,
    HEAP_XMAX_COMMITTED,
    HEAP_XMAX_IS_MULTI,
    HEAP_XMIN_COMMITTED,
    HeapScan,
    PageTuple,
    page_lsn,
    page_tuples,
    scan_heap,
)
from headwater.catalog.tables import CatalogTable, Key
from headwater.catalog.versions import FROZEN_XID, INVALID_XID, Fates, Version
from headwater.pg.catalogs import CatalogLayout

Locator = tuple[int, int, int]
"""Tablespace OID, database OID (0 shared), file number."""
Tid = tuple[int, int]


class Page:
    """A page of a heap: which version lies at which offset number.

    Attributes:
        lsn: ``pd_lsn``.
        slots: offset number to version.
        is_provisional: of an online backup, and changed after the backup's start.
    """

    __slots__ = ("is_provisional", "lsn", "slots")

    def __init__(self, lsn: int = 0, is_provisional: bool = False) -> None:
        self.lsn = lsn
        self.slots: dict[int, Version] = {}
        self.is_provisional = is_provisional


class CatalogHeap:
    """One file of a catalog, or of a relation that may turn out to be one.

    Args:
        locator: its place.
        fates: of transactions.
        start_lsn: of the backup; younger pages are provisional.
        update_xid: resolves the updater of a multixact, 0 if it has none.
        base: the backup's file, empty if it has none.

    Attributes:
        catalog: whose heap it is, None if that is not known yet.
        command_ids: what NEW_CID said of tuples whose record has not come yet.
        is_rewritten: the WAL has shown how this file was written as a whole.
        is_merged: its versions have been matched with those of the catalog's other heaps.
        file: where the backup has it, or should have it.
        is_missing: the backup does not have it.
        is_made: the WAL has shown how it came to be.
        blocks: pages that the backup has of it.
        is_extended: the WAL has shown how the next one came to be.
    """

    def __init__(
        self,
        locator: Locator,
        fates: Fates,
        start_lsn: int,
        update_xid: Callable[[int], int],
        base: bytes = b"",
    ) -> None:
        self.locator = locator
        self.catalog: CatalogTable | None = None
        self.command_ids: dict[Tid, tuple[int, int]] = {}
        self.is_rewritten = False
        self.is_merged = False
        self.file = ""
        self.is_missing = False
        self.is_made = False
        self.blocks = len(base) // BLCKSZ
        self.is_extended = False
        self._fates = fates
        self._start_lsn = start_lsn
        self._update_xid = update_xid
        self._base = memoryview(base)
        self._pages: dict[int, Page] = {}
        self._known: dict[int, Version] = {}

    def scan(self, layout: CatalogLayout) -> HeapScan:
        """Where the base's rows lie, if they are those of a catalog."""
        return scan_heap(bytes(self._base), layout.fixed_length)

    @property
    def base_lsn(self) -> int:
        """``pd_lsn`` of the base's youngest page, 0 without a base."""
        if not len(self._base):
            return 0
        words = np.frombuffer(self._base, "<u4").reshape(-1, BLCKSZ // 4)
        return int((words[:, 0].astype(np.int64) << 32 | words[:, 1]).max())

    def attach(self, catalog: CatalogTable, scan: HeapScan) -> None:
        """This is a heap of that catalog from the start on; its pages are read lazily, its rows found by the scan."""
        self.catalog = catalog
        for index in catalog.indexes.values():
            index.add_base(self, scan)

    def merge(self, catalog: CatalogTable, strangers: Iterable[Version] = ()) -> None:
        """The catalog moves to this heap now: join its versions with those the catalog has from other heaps.

        Args:
            catalog: the catalog.
            strangers: versions that none of these is a copy of.
        """
        if self.is_merged:
            return
        versions = self.versions()
        if self.catalog is not None:
            for version in versions:
                catalog.discard(version)
        self.catalog = catalog
        self.is_merged = True
        taken = {id(version) for version in strangers}
        became = {}
        for version in versions:
            mates = [v for v in catalog.row_mates(version) if id(v) not in taken]
            original = catalog.original_of(version, mates)
            if original is None:
                catalog.add(version)
            else:
                original.absorb(version)
                original.data = version.data
            became[id(version)] = original or version
            taken.add(id(original or version))
        self._replace(became)

    def precede(self, catalog: CatalogTable) -> None:
        """The catalog lay in this heap before it moved to those that are known: join its versions with their copies."""
        self.catalog = catalog
        self.is_merged = True
        versions = self.versions()
        became: dict[int, Version] = {}
        rows: dict[Key, list[Version]] = {}
        for version in versions:
            rows.setdefault(catalog.first_key(version), []).append(version)
        for originals in rows.values():
            for copy in list(catalog.row_mates(originals[0])):
                original = catalog.original_of(copy, [v for v in originals if id(v) not in became])
                if original is not None:
                    copy.absorb(original)
                    became[id(original)] = copy
        for version in versions:
            if id(version) not in became:
                became[id(version)] = version
                catalog.add(version)
        self._replace(became)

    def _replace(self, became: dict[int, Version]) -> None:
        self._known = {id(version): version for version in became.values()}
        for page in self._pages.values():
            page.slots = {offnum: became[id(version)] for offnum, version in page.slots.items()}

    def page(self, block: int) -> Page:
        """A page; an empty one if neither the backup nor the WAL has shown it yet."""
        page = self._pages.get(block)
        if page is None:
            page = self._pages[block] = self._read(block)
        return page

    def _read(self, block: int) -> Page:
        raw = self._base[block * BLCKSZ : (block + 1) * BLCKSZ]
        if len(raw) < BLCKSZ:
            return Page()
        lsn = page_lsn(raw)
        page = Page(lsn, is_provisional=lsn > self._start_lsn)
        for offnum, found in page_tuples(raw):
            # Torn pages of an online backup may hold anything; sound ones were checked by the scan.
            if self.catalog is not None and not self.catalog.is_row(found.data):
                continue
            page.slots[offnum] = self._version(found, page.is_provisional)
            self.add(page.slots[offnum])
        return page

    def add(self, version: Version) -> None:
        """Take in a version that has come to lie in this file."""
        self._known[id(version)] = version
        if self.catalog is not None:
            self.catalog.add(version)

    def _version(self, found: PageTuple, is_provisional: bool) -> Version:
        version = Version(found.xmin, found.xmin, found.data)
        mask = found.data.infomask
        # Hints of a provisional page, or of an image, may come from the future: there the fate of the xid decides.
        if found.is_frozen and not is_provisional:
            version.inserter = FROZEN_XID
        elif found.is_xmin_invalid:
            version.inserter = found.xmin if is_provisional else INVALID_XID
        elif mask & HEAP_XMIN_COMMITTED:
            self._fates.hint(found.xmin)
        deleter = self._deleter(found)
        if deleter:
            version.delete(deleter)
            version.copied_deleter = deleter
            if mask & HEAP_XMAX_COMMITTED:
                self._fates.hint(deleter)
        return version

    def _deleter(self, found: PageTuple) -> int:
        """The transaction that deleted a tuple, or tried to; 0 without one."""
        if not found.is_deleted:
            return INVALID_XID
        return self._update_xid(found.xmax) if found.data.infomask & HEAP_XMAX_IS_MULTI else found.xmax

    def load(self, block: int, image: bytes, lsn: int, is_rewrite: bool = False) -> list[Version]:
        """A page image of the WAL replaces a page. Versions are known again by offset number and ``xmin``.

        Args:
            block: block number.
            image: 8192 bytes.
            lsn: end of the record.
            is_rewrite: the image is how the page came to be, not how it was changed.

        Returns:
            the versions not seen before.
        """
        page = self.page(block)
        before, page.slots = page.slots, {}
        fresh = []
        for offnum, found in page_tuples(image):
            version = before.get(offnum)
            if version is None or version.xmin != found.xmin:
                version = self._version(found, is_provisional=True)
                fresh.append(version)
                self.add(version)
            else:
                del before[offnum]
                version.data = found.data
                if is_rewrite:
                    version.copied_deleter = self._deleter(found)
            page.slots[offnum] = version
        self.is_rewritten |= is_rewrite and bool(page.slots)
        self._settle(page, before.values(), lsn)
        return fresh

    def reset(self, block: int, lsn: int) -> Page:
        """A record makes the page anew."""
        page = self.page(block)
        before, page.slots = page.slots, {}
        self._settle(page, before.values(), lsn)
        return page

    def _settle(self, page: Page, gone: Iterable[Version], lsn: int) -> None:
        """The page is now what the WAL says; what only a provisional page had never was."""
        for version in gone if page.is_provisional else ():
            self._known.pop(id(version), None)
            if self.catalog is not None:
                self.catalog.discard(version)
        page.is_provisional = False
        page.lsn = lsn
        self.is_extended |= self._pages.get(self.blocks) is page

    def versions(self) -> list[Version]:
        """All versions that lie or lay in this file, as far as the WAL has come."""
        for block in range(len(self._base) // BLCKSZ):
            self.page(block)
        return list(self._known.values())

    def truncate(self, blocks: int) -> None:
        """The file now ends before block ``blocks``."""
        self._base = self._base[: blocks * BLCKSZ]
        for block in [block for block in self._pages if block >= blocks]:
            del self._pages[block]
