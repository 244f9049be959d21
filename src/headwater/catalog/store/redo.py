"""Redo of the records that change catalogs (PostgreSQL: heap_redo and heap2_redo; heapam.c, 18: heapam_xlog.c).

In: records in LSN order. Out: versions and deletions in the catalogs' heaps. Redo here keeps what the server's redo
throws away: removed versions stay known, and NEW_CID tells which command made and removed them.

A page image with the apply flag already includes its record's change; the record then only says who did what. A record
that an online backup's page already includes (``pd_lsn``) changes nothing and says the same.

Known gap: a copy of a crashed server that ran with full_page_writes off is refused where its pages run ahead of the
WAL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.catalog.store.heaps import CatalogHeap, Locator, Page, Tid
from headwater.catalog.versions import INVALID_COMMAND_ID, Dependency, Version
from headwater.errors import CatalogError
from headwater.rmgr import heap as heap_rmgr
from headwater.rmgr import heap2 as heap2_rmgr
from headwater.rmgr import smgr as smgr_rmgr
from headwater.rmgr import xlog
from headwater.rmgr.heap import HEADER_SIZE, TupleBytes
from headwater.rmgr.index.index_codes import COMMAND_MASK, COMMAND_SHIFT
from headwater.rmgr.registry import HEAP, HEAP2, XLOG
from headwater.wal.records.record import Block, Image, Record

MAIN_FORK = 0
_NO_BLOCKS: frozenset[int] = frozenset()


class HeapRedo:
    """A redo that applies heap records to given heaps.

    Args:
        heaps: the heaps by locator; the caller may add to them.
        major: PostgreSQL's major version.

    Attributes:
        touched: for each xid, all keys by which the versions it made or removed may be looked up: (catalog, index,
            key).
        strays: files that NEW_CID named and that are not known to be a catalog's, of catalogs or user catalog tables;
            and the toplevel transaction that changed them last.
        numbers_commands: whether NEW_CID records come; else each catalog change is a command of its own, numbered by
            its LSN.
    """

    def __init__(self, heaps: dict[Locator, CatalogHeap], major: int) -> None:
        self._heaps = heaps
        self._major = major
        self.numbers_commands = True
        self.touched: dict[int, set[Dependency]] = {}
        self.strays: dict[Locator, int] = {}

    def apply(self, record: Record) -> None:
        """Apply a record of any resource manager: its page images, then the changes of heap records.

        Raises:
            CatalogError: the catalog cannot follow, as a tuple that the record names is not there.
            RecordError: the record is malformed.
        """
        try:
            loaded = self._load_images(record)
            if record.rmid == HEAP:
                self._apply_heap(record, loaded)
            elif record.rmid == HEAP2:
                self._apply_heap2(record, loaded)
        except CatalogError as error:
            error.lsn = error.lsn if error.lsn is not None else record.lsn
            raise

    def _load_images(self, record: Record) -> frozenset[int]:
        """Restore applied images; return the ids of their blocks."""
        loaded = _NO_BLOCKS
        for block in record.blocks:
            if block.image is None or block.fork != MAIN_FORK or not block.image.is_applied:
                continue
            heap = self._heaps.get(block.locator)
            if heap is not None:
                self._load_image(record, block, block.image, heap)
                loaded |= {block.id}
        return loaded

    def _load_image(self, record: Record, block: Block, image: Image, heap: CatalogHeap) -> None:
        heap.is_changed = True
        is_rewrite = record.rmid == XLOG and record.kind == xlog.FPI
        for version in heap.load(block.block, image.page(), record.end_lsn, is_rewrite):
            self.arrived(heap, version, record.lsn)

    def arrived(self, heap: CatalogHeap, version: Version, lsn: int) -> None:
        """Learn of a version that a record has brought, once it is in its place; here, nothing follows from it.

        Args:
            heap: the heap that the version lies in.
            version: the version.
            lsn: the record's LSN.
        """

    def _apply_heap(self, record: Record, loaded: frozenset[int]) -> None:
        op = record.info & heap_rmgr.OPMASK
        target = self._target(record)
        if target is None:
            return
        block, heap = target
        if op == heap_rmgr.INSERT:
            insert = heap_rmgr.parse_insert(record.main_data, record.lsn)
            tuples = [] if block.id in loaded or not block.data else [heap_rmgr.parse_tuple(block.data, record.lsn)]
            self._insert(record, heap, block, (insert.offnum,), tuples, loaded)
        elif op == heap_rmgr.DELETE:
            delete = heap_rmgr.parse_delete(record.main_data, record.lsn)
            self._delete(record, heap, block, delete.offnum, loaded)
        elif op in (heap_rmgr.UPDATE, heap_rmgr.HOT_UPDATE):
            self._update(record, heap, block, loaded)
        elif op == heap_rmgr.INPLACE:
            self._inplace(record, heap, block, loaded)
        elif op == heap_rmgr.LOCK:
            self._advance(record, heap, block, loaded)

    def _apply_heap2(self, record: Record, loaded: frozenset[int]) -> None:
        op = record.info & heap_rmgr.OPMASK
        if op == heap2_rmgr.NEW_CID:
            self._new_cid(record)
            return
        target = self._target(record)
        if target is None:
            return
        block, heap = target
        if op == heap2_rmgr.MULTI_INSERT:
            is_init = bool(record.info & heap_rmgr.INIT_PAGE)
            multi = heap2_rmgr.parse_multi_insert(record.main_data, is_init, record.lsn)
            tuples = (
                []
                if block.id in loaded
                else heap2_rmgr.parse_multi_insert_tuples(block.data, len(multi.offnums), record.lsn)
            )
            self._insert(record, heap, block, multi.offnums, tuples, loaded)
        elif op in (heap2_rmgr.PRUNE, heap2_rmgr.VACUUM, heap2_rmgr.FREEZE_PAGE):
            self._prune(record, heap, block, op, loaded)
        elif op == heap2_rmgr.LOCK_UPDATED:
            self._advance(record, heap, block, loaded)

    def _target(self, record: Record) -> tuple[Block, CatalogHeap] | None:
        """Return block 0 and its heap, if that is among the given ones."""
        block = record.block(0)
        heap = self._heaps.get(block.locator) if block is not None and block.fork == MAIN_FORK else None
        if block is None or heap is None:
            return None
        heap.is_changed = True
        return block, heap

    def _new_cid(self, record: Record) -> None:
        """Remember the commands until the record that they belong to arrives (log_heap_new_cid comes right before)."""
        change = heap2_rmgr.parse_new_cid(record.main_data, record.lsn)
        heap = self._heaps.get(change.locator)
        if heap is None or heap.catalog is None:
            self.strays[change.locator] = change.top_xid
        if heap is not None:
            heap.is_changed = True
            heap.command_ids[change.tid] = (record.xid, change.cmin, change.cmax)

    def _commands(self, record: Record, heap: CatalogHeap, tid: Tid) -> tuple[int, int]:
        """Return the command ids of NEW_CID for a record's change of a tuple; those of another transaction are void."""
        if not self.numbers_commands:
            command = record.lsn >> COMMAND_SHIFT & COMMAND_MASK
            return command, command
        xid, cmin, cmax = heap.command_ids.pop(tid, (record.xid, INVALID_COMMAND_ID, INVALID_COMMAND_ID))
        return (cmin, cmax) if xid == record.xid else (INVALID_COMMAND_ID, INVALID_COMMAND_ID)

    def _insert(
        self,
        record: Record,
        heap: CatalogHeap,
        block: Block,
        offnums: Sequence[int],
        tuples: Sequence[TupleBytes],
        loaded: frozenset[int],
    ) -> None:
        page = self._page_for(record, heap, block)
        is_new = self._advance(record, heap, block, loaded)
        if is_new and len(tuples) != len(offnums):
            raise CatalogError(
                f"insert into catalog file {_name(heap)} carries no tuple and no page image", lsn=record.lsn
            )
        for i, offnum in enumerate(offnums):
            if is_new:
                self._place(record, heap, page, offnum, tuples[i])
            self._learn_insert(record, heap, (block.block, offnum), page)

    def _place(self, record: Record, heap: CatalogHeap, page: Page, offnum: int, data: TupleBytes) -> None:
        version = Version(record.xid, record.xid, data)
        heap.add(version)
        page.slots[offnum] = version

    def _learn_insert(self, record: Record, heap: CatalogHeap, tid: Tid, page: Page) -> None:
        cmin, _ = self._commands(record, heap, tid)
        version = page.slots.get(tid[1])
        if version is not None and version.xmin == record.xid:
            version.cmin = cmin if cmin != INVALID_COMMAND_ID else version.cmin
            self.touch(record.xid, heap, version)
            self.arrived(heap, version, record.lsn)

    def _delete(
        self, record: Record, heap: CatalogHeap, block: Block, offnum: int, loaded: frozenset[int]
    ) -> Version | None:
        """Note the deletion of the tuple at ``offnum``; return the tuple."""
        page = self._page_for(record, heap, block, may_reset=False)
        is_new = self._advance(record, heap, block, loaded)
        cmin, cmax = self._commands(record, heap, (block.block, offnum))
        version = page.slots.get(offnum)
        if version is None:
            if is_new:
                raise CatalogError(
                    f"catalog file {_name(heap)} has no tuple at ({block.block},{offnum}) to delete", lsn=record.lsn
                )
            return None
        if not is_new and block.id not in loaded and record.xid not in version.deleters:
            # The page is younger than this record: another tuple lies here by now.
            return None
        if version.cmin == INVALID_COMMAND_ID:
            version.cmin = cmin
        version.delete(record.xid, cmax)
        self.touch(record.xid, heap, version)
        return version

    def _update(self, record: Record, heap: CatalogHeap, block: Block, loaded: frozenset[int]) -> None:
        update = heap_rmgr.parse_update(record.main_data, record.lsn)
        other = record.block(1)
        old_block = other if other is not None and other.fork == MAIN_FORK else block
        is_same_page = old_block.block == block.block
        # The server's redo takes the old tuple off first; both may lie on one page, whose LSN must not move in between.
        was = heap.page(block.block).lsn
        old = self._delete(record, heap, old_block, update.old_offnum, loaded)
        if is_same_page:
            heap.page(block.block).lsn = was
        page = self._page_for(record, heap, block)
        if self._advance(record, heap, block, loaded):
            if not block.data:
                raise CatalogError(
                    f"update of catalog file {_name(heap)} has no tuple and no page image", lsn=record.lsn
                )
            updated = heap_rmgr.parse_updated_tuple(block.data, update.flags, record.lsn)
            data = updated.rest
            if updated.prefix or updated.suffix:
                if old is None:
                    raise CatalogError(f"update of catalog file {_name(heap)} lacks its old tuple", lsn=record.lsn)
                data = heap_rmgr.restore_updated(updated, old.data, record.lsn)
            self._place(record, heap, page, update.new_offnum, data)
        self._learn_insert(record, heap, (block.block, update.new_offnum), page)

    def _inplace(self, record: Record, heap: CatalogHeap, block: Block, loaded: frozenset[int]) -> None:
        change = heap_rmgr.parse_inplace(record.main_data, self._major, record.lsn)
        page = self._page_for(record, heap, block, may_reset=False)
        if not self._advance(record, heap, block, loaded):
            return
        version = page.slots.get(change.offnum)
        if version is None or len(version.data.body) != len(block.data):
            raise CatalogError(
                f"catalog file {_name(heap)} has no tuple of {len(block.data)} bytes at "
                f"({block.block},{change.offnum}) to overwrite",
                lsn=record.lsn,
            )
        data = version.data
        tail = data.tail[: data.hoff - HEADER_SIZE] + block.data
        if heap.catalog is not None:
            heap.catalog.note_change(version)
        version.become(TupleBytes(data.infomask2, data.infomask, data.hoff, tail))

    def _prune(self, record: Record, heap: CatalogHeap, block: Block, op: int, loaded: frozenset[int]) -> None:
        page = self._page_for(record, heap, block, may_reset=False)
        if self._advance(record, heap, block, loaded):
            prune = heap2_rmgr.parse_prune(record.main_data, block.data, op, self._major, record.lsn)
            for offnum in (*(source for source, _ in prune.redirected), *prune.dead, *prune.unused):
                page.slots.pop(offnum, None)

    def _page_for(self, record: Record, heap: CatalogHeap, block: Block, may_reset: bool = True) -> Page:
        """Return the page a record changes, emptied first if the record says so."""
        if may_reset and record.info & heap_rmgr.INIT_PAGE and block.will_init:
            return heap.reset(block.block, 0)
        return heap.page(block.block)

    @staticmethod
    def _advance(record: Record, heap: CatalogHeap, block: Block, loaded: frozenset[int]) -> bool:
        """Tell whether the page still lacks the record's change (XLogReadBufferForRedo: BLK_NEEDS_REDO)."""
        page = heap.page(block.block)
        if block.id in loaded:
            return False
        if page.lsn < record.end_lsn:
            page.lsn = record.end_lsn
            return True
        if page.is_provisional:
            raise CatalogError(
                f"page {block.block} of catalog file {_name(heap)} is younger than the WAL's first change of it",
                lsn=record.lsn,
                hint="copy a server that was shut down, use pg_basebackup, or run with full_page_writes = on",
            )
        return False

    def touch(self, xid: int, heap: CatalogHeap, version: Version) -> None:
        """Note that a transaction made or removed a version."""
        if heap.catalog is not None:
            heap.catalog.note_change(version)
            touched = self.touched.get(xid)
            if touched is None:
                touched = self.touched[xid] = set()
            touched.update(heap.catalog.keys_of(version))


def _name(heap: CatalogHeap) -> str:
    return "/".join(str(part) for part in heap.locator)


def apply_storage(record: Record, heaps: Mapping[Locator, CatalogHeap]) -> None:
    """Apply a record of SMGR to the heaps that it is about: a file is made, or cut off (smgr_redo).

    Raises:
        RecordError: the record is malformed.
    """
    if record.kind == smgr_rmgr.TRUNCATE:
        change = smgr_rmgr.parse_truncate(record.main_data, record.lsn)
        heap = heaps.get(change.locator)
        if heap is not None and change.flags & smgr_rmgr.TRUNCATE_HEAP:
            heap.truncate(change.blocks)
    else:
        create = smgr_rmgr.parse_create(record.main_data, record.lsn)
        if create.locator in heaps and create.fork == MAIN_FORK:
            heaps[create.locator].is_made = heaps[create.locator].is_changed = True
