"""Catalogs and their heaps: versions in place, found again by page and offset or by key.

Job: :class:`CatalogHeap` says which version lies where, for redo; :class:`CatalogTable` finds versions by key, for
views. After VACUUM FULL one catalog has several heaps, and one version may lie in two of them.

A heap's base is the backup's file. It is scanned for keys as a whole; a page becomes versions only when redo touches it
or a looked-up key lies on it.

A page of an online backup may be younger than the backup's start. What it says is provisional until the WAL's first
page image of it arrives (the server writes one for every page changed during a backup): versions that the image lacks
are then taken back, as the records that follow bring them again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

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
from headwater.catalog.versions import FROZEN_XID, INVALID_COMMAND_ID, INVALID_XID, Fates, Version
from headwater.errors import CatalogError
from headwater.pg.catalogs import CatalogLayout
from headwater.rmgr.heap import HEADER_SIZE, TupleBytes

Locator = tuple[int, int, int]
"""Tablespace OID, database OID (0 shared), file number."""
Key = int | bytes
Tid = tuple[int, int]

KEYS: dict[str, dict[str, tuple[str, ...]]] = {
    "pg_attribute": {"attrelid": ("attrelid",)},
    "pg_class": {"oid": ("oid",), "filenode": ("relfilenode", "reltablespace")},
    "pg_database": {"oid": ("oid",)},
    "pg_enum": {"enumtypid": ("enumtypid",)},
    "pg_index": {"indrelid": ("indrelid",)},
    "pg_inherits": {"inhrelid": ("inhrelid",)},
    "pg_namespace": {"oid": ("oid",), "nspname": ("nspname",)},
    "pg_publication": {"pubname": ("pubname",)},
    "pg_publication_namespace": {"pnpubid": ("pnpubid",)},
    "pg_publication_rel": {"prpubid": ("prpubid",)},
    "pg_replication_origin": {"roident": ("roident",)},
    "pg_type": {"oid": ("oid",), "typname": ("typname",)},
}
"""By which fixed columns each catalog is looked up; two OIDs make one key, the second one in the high half."""

UPDATED_IN_PLACE = frozenset({"pg_class", "pg_database"})
"""Catalogs with rows that change with no new version (heap_inplace_update)."""


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


class KeyIndex:
    """Versions of a catalog by key.

    Args:
        layout: the catalog's.
        columns: one fixed column of 4 or 64 bytes, or two of 4.
    """

    def __init__(self, layout: CatalogLayout, columns: Sequence[str]) -> None:
        lengths = {column.name: column.length for column in layout.columns}
        self._fields = [(layout.offsets[name], lengths[name]) for name in columns]
        self._readers = [(offset, struct.Struct("<I" if n == 4 else f"{n}s")) for offset, n in self._fields]
        self._base: list[tuple[CatalogHeap, NDArray[np.generic], NDArray[np.int64]]] = []
        self._loaded: set[Key] = set()
        self.versions: dict[Key, list[Version]] = {}

    def key_of(self, data: TupleBytes) -> Key:
        """A tuple's key; its columns must be long enough."""
        at = data.hoff - HEADER_SIZE
        values = [reader.unpack_from(data.tail, at + offset)[0] for offset, reader in self._readers]
        return as_key(values)

    def add_base(self, heap: CatalogHeap, scan: HeapScan) -> None:
        """Remember on which pages of a heap's base each key lies."""
        columns = [scan.column(offset, length) for offset, length in self._fields]
        keys = columns[0] if len(columns) == 1 else columns[0].astype("<u8") | columns[1].astype("<u8") << np.uint64(32)
        order = np.argsort(keys, kind="stable")
        self._base.append((heap, keys[order], scan.block[order]))
        self._loaded.clear()

    def find(self, key: Key) -> list[Version]:
        """All versions under a key, after reading the pages it lies on."""
        if key not in self._loaded:
            for heap, keys, blocks in self._base:
                value = keys.dtype.type(key)
                lo, hi = np.searchsorted(keys, value, "left"), np.searchsorted(keys, value, "right")
                for block in dict.fromkeys(blocks[lo:hi].tolist()):
                    heap.page(block)
            self._loaded.add(key)
        return self.versions.get(key, [])

    def load_all(self) -> None:
        """Read every page of the base."""
        for heap, _, blocks in self._base:
            for block in np.unique(blocks).tolist():
                heap.page(block)


def as_key(values: Sequence[int | bytes]) -> Key:
    """The key of one name, one OID, or two OIDs."""
    first = values[0]
    if isinstance(first, bytes):
        return first.rstrip(b"\0")
    second = values[1] if len(values) > 1 else 0
    assert isinstance(second, int)
    return first | second << 32


class CatalogTable:
    """One catalog: all versions of its rows.

    Args:
        layout: its columns.
        fates: of transactions, shared by all catalogs.
    """

    def __init__(self, layout: CatalogLayout, fates: Fates) -> None:
        self.layout = layout
        self.fates = fates
        self.indexes = {name: KeyIndex(layout, columns) for name, columns in KEYS[layout.name].items()}
        self._primary = next(iter(self.indexes.values()))

    def find(self, index: str, key: Key) -> list[Version]:
        """All versions under a key of an index of :data:`KEYS`."""
        return self.indexes[index].find(key)

    def keys_of(self, version: Version) -> list[tuple[str, str, Key]]:
        """Everything the version can be looked up by: (catalog, index, key)."""
        return [(self.layout.name, name, index.key_of(version.data)) for name, index in self.indexes.items()]

    def add(self, version: Version) -> None:
        """Take a version in.

        Raises:
            CatalogError: its row is shorter than every row of this catalog.
        """
        self._check(version.data)
        for index in self.indexes.values():
            index.versions.setdefault(index.key_of(version.data), []).append(version)

    def discard(self, version: Version) -> None:
        """Take a version back."""
        for index in self.indexes.values():
            versions = index.versions.get(index.key_of(version.data), [])
            if version in versions:
                versions.remove(version)

    def match(self, version: Version, taken: set[int]) -> Version | None:
        """The known version that a rewritten heap's version is a copy of.

        Args:
            version: from the new heap.
            taken: ``id`` of versions that were matched already.
        """
        self._check(version.data)
        known = [v for v in self._primary.find(self._primary.key_of(version.data)) if v.xmin == version.xmin]
        known = [v for v in known if id(v) not in taken]
        same = [v for v in known if v.data.body == version.data.body]
        if not same and self.layout.name in UPDATED_IN_PLACE:
            # Bytes of the fixed part may have changed since the copy; its OID and file have not.
            keys = self.keys_of(version)
            same = [v for v in known if self.keys_of(v) == keys and len(v.data.body) == len(version.data.body)]
        return max(same, key=lambda v: v.deleters.keys() == version.deleters.keys(), default=None)

    def _check(self, data: TupleBytes) -> None:
        if len(data.tail) + HEADER_SIZE < data.hoff + self.layout.fixed_length:
            raise CatalogError(
                f"row of {self.layout.name} has {len(data.tail) + HEADER_SIZE - data.hoff} bytes, "
                f"expected at least {self.layout.fixed_length}"
            )


class CatalogHeap:
    """One file of a catalog, or of a relation that may turn out to be one.

    Args:
        locator: its place.
        fates: of transactions.
        start_lsn: of the backup; younger pages are provisional.
        update_xid: resolves the updater of a multixact, 0 if it has none.
        base: the backup's file, empty if it has none.
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
        self._fates = fates
        self._start_lsn = start_lsn
        self._update_xid = update_xid
        self._base = memoryview(base)
        self._pages: dict[int, Page] = {}

    def scan(self, layout: CatalogLayout) -> HeapScan:
        """Where the base's rows lie, if they are those of a catalog."""
        return scan_heap(bytes(self._base), layout.fixed_length)

    def attach(self, catalog: CatalogTable, scan: HeapScan | None = None) -> None:
        """This is a heap of that catalog.

        Args:
            catalog: the catalog.
            scan: of the base, if the catalog has no other heap yet: then pages may be read lazily. Without it every
                version of this heap is matched with the catalog's own.
        """
        if scan is not None:
            self.catalog = catalog
            for index in catalog.indexes.values():
                index.add_base(self, scan)
            return
        for block in range(len(self._base) // BLCKSZ):
            self.page(block)
        self.catalog = catalog
        taken: set[int] = set()
        for page in self._pages.values():
            for offnum, version in page.slots.items():
                page.slots[offnum] = self._adopt(version, catalog, taken)

    def _adopt(self, version: Version, catalog: CatalogTable, taken: set[int]) -> Version:
        known = catalog.match(version, taken)
        if known is None:
            catalog.add(version)
            taken.add(id(version))
            return version
        taken.add(id(known))
        for xid, cmax in version.deleters.items():
            known.delete(xid, cmax)
        if known.cmin == INVALID_COMMAND_ID:
            known.cmin = version.cmin
        known.data = version.data
        return known

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
            if self.catalog is not None and not self._is_row(found.data, self.catalog):
                continue
            page.slots[offnum] = self._version(found, page.is_provisional)
            if self.catalog is not None:
                self.catalog.add(page.slots[offnum])
        return page

    @staticmethod
    def _is_row(data: TupleBytes, catalog: CatalogTable) -> bool:
        """Torn pages of an online backup may hold anything; sound ones were checked by the scan."""
        return len(data.tail) + HEADER_SIZE >= data.hoff + catalog.layout.fixed_length

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
        if found.is_deleted:
            deleter = self._update_xid(found.xmax) if mask & HEAP_XMAX_IS_MULTI else found.xmax
            version.delete(deleter)
            if mask & HEAP_XMAX_COMMITTED:
                self._fates.hint(deleter)
        return version

    def load(self, block: int, image: bytes, lsn: int) -> list[Version]:
        """A page image of the WAL replaces a page. Versions are known again by offset number and ``xmin``.

        Args:
            block: block number.
            image: 8192 bytes.
            lsn: end of the record.

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
                if self.catalog is not None:
                    self.catalog.add(version)
            else:
                del before[offnum]
                version.data = found.data
            page.slots[offnum] = version
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
        if page.is_provisional and self.catalog is not None:
            for version in gone:
                self.catalog.discard(version)
        page.is_provisional = False
        page.lsn = lsn

    def versions(self) -> list[Version]:
        """All versions on the pages read so far."""
        return [version for page in self._pages.values() for version in page.slots.values()]

    def truncate(self, blocks: int) -> None:
        """The file now ends before block ``blocks``."""
        self._base = self._base[: blocks * BLCKSZ]
        for block in [block for block in self._pages if block >= blocks]:
            del self._pages[block]
