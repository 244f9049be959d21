"""A store as an image, and an image as a store.

In: a store at an LSN, a horizon. Out: :class:`headwater.catalog.store.catalog_image.CatalogImage`, and back. Nothing is
left out while the copy of the catalog is not complete: until then the backup's word on transactions is not certain.

A catalog goes into the next image as it is if nothing in it has changed since the last image, and nothing crossed the
horizon. The last image is the one that the store was opened from. Of roles an image has only the columns of every row;
their passwords are zeros.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.copy.commit_log import CommitLog, Transactions
from headwater.catalog.store.catalog_image import CatalogImage, CatalogPlace, HeapImage, MappedFile, Stray
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.database_copies import expect_move, restore_place, settle_place
from headwater.catalog.store.heaps import CatalogHeap, HeapPlaces, Locator
from headwater.catalog.store.image_rows import ImagedCatalog, Judge, Verdict, image_catalog, image_unknown
from headwater.catalog.store.tables import VersionBase
from headwater.catalog.store.version_rows import XID_MASK, VersionRows
from headwater.catalog.versions import Fates
from headwater.errors import CatalogError
from headwater.pg.catalogs import PG_AUTHID, PG_CLASS, PG_PUBLICATION, SHARED_CATALOGS, catalog_layout, catalog_oids

Int64s = NDArray[np.int64]
_UNDECIDED = (Verdict.RUNS, Verdict.HINTED)


def image_of(store: CatalogStore, horizon: int, lsn: int, next_xid: int) -> CatalogImage:
    """Make a value of a catalog, from which a store can go on without the backup and the WAL up to here.

    Args:
        store: the catalog.
        horizon: the oldest LSN at which views will be asked for; the store's own if that is later.
        lsn: the LSN where the next record begins: WAL from here on rolls the image forward.
        next_xid: the next xid at ``lsn``, 64 bits.

    Raises:
        CatalogError: a file that a catalog lies in has not been read, see :meth:`CatalogRedo.missing_locators`.
    """
    if store.files.whereabouts.also:
        rows = store.database_rows()
        settle_place(store.files, rows[-1].tablespace if rows else None)
    missing = store.redo.missing_locators()
    if missing:
        raise CatalogError(f"{len(missing)} files of catalogs have not been read, first {min(missing)}", lsn=lsn)
    image = _image_of(store, max(horizon, store.horizon), lsn, next_xid)
    expect_move(store.files)
    return image


def _image_of(store: CatalogStore, horizon: int, lsn: int, next_xid: int) -> CatalogImage:
    judge = Judge(store.fates, horizon, next_xid)
    files, maker = store.files, _Maker(store, judge)
    known = {oid: maker.catalog(oid) for oid in sorted(store.tables)}
    strays = maker.strays()
    unknown = [image_unknown(files.heaps[stray.locator], judge) for stray in strays]
    named = [*known.values(), *unknown]
    xids, commits, hinted = _fates(store, judge, named)
    settled = store.fates.settled
    return CatalogImage(
        origin=store.origin,
        lsn=lsn,
        horizon=horizon,
        next_xid=next_xid,
        settled_before=None if settled is None else judge.widened(settled),
        is_complete=files.is_complete,
        reach_lsn=files.reach_lsn,
        xids=xids,
        commits=commits,
        hinted=hinted,
        commit_log=_commit_log(store, next_xid),
        mapped=tuple(sorted(MappedFile(*key, *to) for key, to in files.mapped.items() if to[1] >= horizon)),
        places=tuple(CatalogPlace(*place) for place in sorted(files.places.items())),
        remapped=tuple(CatalogPlace(*place) for place in sorted(files.remapped.items())),
        strays=strays,
        unread=tuple(sorted(store.unread)),
        database=files.whereabouts.database,
        descent=files.whereabouts.descent,
        copied_to=files.whereabouts.also,
        publication_names=tuple(sorted(store.publication_names | maker.publication_names())),
        catalogs=tuple((oid, catalog.rows) for oid, catalog in known.items()),
        heaps=tuple(sorted((heap for catalog in named for heap in catalog.heaps), key=lambda heap: heap.locator)),
    )


def _commit_log(store: CatalogStore, next_xid: int) -> CommitLog | None:
    """Return the part of ``pg_xact`` of before the WAL that is still needed, None if none is.

    A page of which only the rows are known may come whole at any time, with rows that nobody saw any more. That is so
    as long as xids of then can be there unfrozen. All pages of a database may come while it is created.
    """
    origin = store.origin
    is_needed = not store.files.is_complete or (origin.is_exported and next_xid - origin.next_full_xid < 1 << 31)
    return store.transactions.commit_log() if is_needed or store.is_being_made else None


class _Maker:
    """The work of a call of :func:`image_of`."""

    def __init__(self, store: CatalogStore, judge: Judge) -> None:
        source = store.source
        self._store = store
        self._source = source
        self._judge = judge
        self._before = dict(source.catalogs) if source is not None else {}
        self._settled = set[int]()
        if source is not None:
            self._settled.update(source.xids[source.commits == 0].tolist())
        self._place = catalog_layout(store.major, PG_CLASS).reader("relfilenode", "reltablespace")

    def catalog(self, oid: int) -> ImagedCatalog:
        """Return a catalog's versions and files."""
        store, table = self._store, self._store.tables[oid]
        of_it = [heap for _, heap in sorted(store.files.heaps.items()) if heap.catalog is table]
        stays = [heap for heap in of_it if not self._is_left(heap, oid)]
        if len(stays) == len(of_it) and not table.is_changed and not any(heap.is_changed for heap in stays):
            same = self._unchanged(oid, stays)
            if same is not None:
                return same
        for base in table.bases:
            base.take_multis()
        imaged = image_catalog(table.bases, table.made_versions(), stays, self._judge, not store.files.is_complete)
        if oid != PG_AUTHID:
            return imaged
        return replace(imaged, rows=imaged.rows.with_fixed_columns_only(table.layout.fixed_length))

    def _unchanged(self, oid: int, heaps: list[CatalogHeap]) -> ImagedCatalog | None:
        """Return a catalog as the last image has it, if it is still so.

        That holds as long as no transaction is decided.
        """
        source, is_complete = self._source, self._store.files.is_complete
        if source is None or source.is_complete != is_complete:
            return None
        rows = self._before[oid]
        open_xids = [xid & XID_MASK for xid in rows.named.tolist() if xid not in self._settled and is_complete]
        if any(self._judge.verdict(xid) in (Verdict.BEFORE, Verdict.ABORTED) for xid in open_xids):
            return None
        files = {heap.locator: heap for heap in source.heaps}
        if any(files[heap.locator].commands for heap in heaps):
            return None
        return ImagedCatalog(rows, tuple(files[heap.locator] for heap in heaps), is_raw=not is_complete)

    def _is_left(self, heap: CatalogHeap, oid: int) -> bool:
        """Tell whether the catalog lies elsewhere in the eyes of all who can still look, and will not come back."""
        files = self._store.files
        if not files.is_complete:
            return False
        if oid in files.remapped or oid in SHARED_CATALOGS:
            return files.remapped.get(oid, heap.locator) != heap.locator
        rows = filter(self._judge.sees, self._store.tables[PG_CLASS].find("oid", oid))
        places = [self._place.unpack_from(version.data.body) for version in rows]
        locators: set[Locator] = {files.whereabouts.place(spc, filenode) for filenode, spc in places}
        is_mapped = any(filenode == 0 for filenode, _ in places)
        return bool(locators) and not is_mapped and heap.locator not in locators

    def strays(self) -> tuple[Stray, ...]:
        """List files of unknown catalogs that running transactions have written to, as far as NEW_CID records say."""
        redo, heaps, judge = self._store.redo, self._store.files.heaps, self._judge
        return tuple(
            Stray(locator, judge.widened(xid))
            for locator, xid in sorted(redo.strays.items())
            if locator in heaps and heaps[locator].catalog is None
            if judge.verdict(xid) in _UNDECIDED and redo.owner(locator) is None
        )

    def publication_names(self) -> set[bytes]:
        """Return names under which a publication was visible before the horizon."""
        table, fates = self._store.tables[PG_PUBLICATION], self._store.fates
        if not self._store.files.is_complete:
            return set()
        lives = [(version, *fates.lifetime(version)) for version in table.all_versions()]
        names = (table.name_of(version) for version, born, died in lives if born < self._judge.horizon and died > 0)
        return set(names)


def _fates(store: CatalogStore, judge: Judge, catalogs: Iterable[ImagedCatalog]) -> tuple[Int64s, Int64s, Int64s]:
    """List the transactions that versions name or yet may, their commit LSNs, and those that only the backup knows."""
    lately = {judge.widened(xid): store.fates.recorded(xid) or 0 for xid in store.fates.recorded_lately()}
    commits, hinted = {xid: 0 if lsn < judge.horizon else lsn for xid, lsn in lately.items()}, set[int]()
    for catalog in catalogs:
        for xid in catalog.rows.named.tolist():
            low = xid & XID_MASK
            lsn = store.fates.recorded(low)
            if lsn is not None and (lsn >= judge.horizon or not store.files.is_complete):
                commits[xid] = 0 if lsn < judge.horizon else lsn
            elif catalog.is_raw:
                if not store.files.is_complete and store.fates.is_hinted(low):
                    hinted.add(xid)
            elif judge.verdict(low) == Verdict.BEFORE:
                commits[xid] = 0
            elif judge.verdict(low) == Verdict.HINTED:
                hinted.add(xid)
    if not store.files.is_complete:
        # For a version that no page has any more; a record may yet bring another one of the same transaction.
        hinted.update(map(judge.widened, store.fates.hinted_and_open()))
    if store.is_being_made:
        # The template's rows are still to come, with whatever transactions made them.
        all_recorded = {judge.widened(xid): lsn for xid, lsn in store.fates.all_recorded()}
        commits = {xid: 0 if lsn < judge.horizon else lsn for xid, lsn in all_recorded.items()} | commits
    xids = sorted(commits)
    lsns = np.array([commits[xid] for xid in xids], np.int64)
    return np.array(xids, np.int64), lsns, np.array(sorted(hinted), np.int64)


def store_of(image: CatalogImage, before: CatalogStore | None = None) -> CatalogStore:
    """Make the store as it was when an image was made of it.

    Args:
        image: the image.
        before: the store that it was made of, not touched since: the answers that its views remember are taken over.
    """
    transactions = image.commit_log or _Forgotten(image)
    catalogs, major = dict(image.catalogs).keys(), image.origin.major
    with_definitions = len(catalogs) > len(catalog_oids(major))
    store = CatalogStore(
        image.origin,
        transactions,
        image.is_complete,
        fates=_fates_at(image, transactions),
        with_definitions=with_definitions,
        lacking=catalog_oids(major, with_definitions) - catalogs,
    )
    store.source, store.lsn, store.horizon = image, image.lsn, image.horizon
    store.unread = frozenset(image.unread)
    store.publication_names = frozenset(image.publication_names)
    store.redo.strays.update({stray.locator: stray.xid & XID_MASK for stray in image.strays})
    _restore_files(store, image)
    if before is not None:
        store.search_path = before.search_path
        store.cache.take_over(before.cache, image.horizon)
    return store


def _fates_at(image: CatalogImage, transactions: Transactions) -> Fates:
    """Restore the fates of transactions."""
    settled, next_xid = image.settled_before, None if image.commit_log is None else image.origin.next_xid
    fates = Fates(transactions.is_committed, next_xid, trusts_hints=not image.is_complete)
    lsns = zip((image.xids & XID_MASK).tolist(), image.commits.tolist(), strict=True)
    fates.restore(dict(lsns), (image.hinted & XID_MASK).tolist(), None if settled is None else settled & XID_MASK)
    return fates


def _restore_files(store: CatalogStore, image: CatalogImage) -> None:
    """Let a new store have the versions and the files of an image."""
    files = store.files
    files.reach_lsn = image.reach_lsn
    files.mapped.update({(file.is_shared, file.number): (file.oid, file.left_lsn) for file in image.mapped})
    files.places.update(dict(image.places))
    files.remapped.update(dict(image.remapped))
    bases = {oid: VersionBase(rows) for oid, rows in image.catalogs}
    for oid, base in bases.items():
        store.tables[oid].add_base(base)
    for saved in image.heaps:
        files.heaps[saved.locator] = _heap(store, saved, bases)
    restore_place(files, image.database, image.descent, image.copied_to)


def _heap(store: CatalogStore, saved: HeapImage, bases: dict[int, VersionBase]) -> CatalogHeap:
    rows: VersionRows | None = saved.rows
    base = bases[saved.catalog] if rows is None else VersionBase(rows)
    places = HeapPlaces(base, saved.block, saved.offnum, saved.row, saved.lay, saved.page_lsns, saved.provisional)
    heap = CatalogHeap(saved.locator, store.fates, store.transactions.update_xid, places)
    heap.catalog = store.tables[saved.catalog] if saved.catalog else None
    heap.file, heap.is_missing, heap.is_made = saved.file, saved.is_missing, saved.is_made
    heap.blocks, heap.base_lsn, heap.is_extended = saved.blocks, saved.base_lsn, saved.is_extended
    heap.is_rewritten, heap.is_merged = saved.is_rewritten, saved.is_merged
    heap.is_as_of_now = store.files.is_complete and store.origin.is_exported
    for command in saved.commands:
        heap.command_ids[command.block, command.offnum] = command.xid & XID_MASK, command.cmin, command.cmax
    return heap


class _Forgotten:
    """Transactions of which an image says nothing: they still ran, and no page can show older ones."""

    def __init__(self, image: CatalogImage) -> None:
        self._settled = image.settled_before
        self._next_xid = image.next_xid

    def is_committed(self, xid: int, /) -> bool:
        """Return False.

        Raises:
            CatalogError: the transaction had ended before the image.
        """
        wide = self._next_xid - ((self._next_xid - xid) & XID_MASK)
        is_to_come = self._next_xid - wide > 1 << 31
        if self._settled is not None and not is_to_come and wide < self._settled:
            raise CatalogError(f"the fate of transaction {wide} is not known any more, expected one of an image's")
        return False

    def update_xid(self, _multi: int, /) -> int:
        """Return 0."""
        return 0

    def commit_log(self) -> None:
        """Return None."""
