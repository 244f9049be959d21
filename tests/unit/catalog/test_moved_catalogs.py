"""Catalogs that lay in several files when they were copied, made by hand: no row is lost, none is there twice."""

from __future__ import annotations

from headwater.base.value_codec import read_value, value_bytes
from headwater.catalog.store.catalog_image import CatalogImage
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.image_io import image_of, store_of
from headwater.pg.catalogs import PG_ATTRIBUTE, PG_CLASS, PG_ENUM, PG_TYPE
from headwater.rmgr.heap import TupleBytes
from unit.catalog.made_catalog import (
    START,
    XMAX_INVALID,
    Log,
    class_row,
    locator,
    make_store,
    page,
    row,
    system_pages,
    tuple_image,
    type_row,
)

T = 16384
OTHER = (1663, 5, 20000)
FUTURE = START + 0x100000


def reopened(store: CatalogStore, log: Log) -> tuple[CatalogStore, Log]:
    """Open the store of an image that was written and read, and its log."""
    image = image_of(store, 0, log.lsn + 0x80, 2000)
    more = Log(store_of(read_value(CatalogImage, value_bytes(image))))
    more.lsn = log.lsn
    return more.store, more


def names(store: CatalogStore, lsn: int) -> list[str]:
    """Return the names of the table in all visible versions of its row."""
    rows = store.rows.classes(v.data for v in store.timeline_of(("pg_class", "oid", T)).rows[-1])
    assert store.fates.commit_lsn(900) < lsn
    return [row.name for row in rows]


def label(oid: int, text: bytes) -> TupleBytes:
    """Make a label of the enum type."""
    return row(PG_ENUM, {"oid": oid, "enumtypid": T, "enumlabel": text, "enumsortorder": b"\0\0\x80\x3f"})


def labels(store: CatalogStore) -> list[str]:
    """Return the labels of the enum type at the end."""
    return [text for _, text in store.view(FUTURE).type_info(T).labels]


def test_an_old_file_that_an_image_has_found_is_joined_once() -> None:
    """The copy has the new file and its map only; NEW_CID records name the old one."""
    first, second = class_row(T, "one"), class_row(T, "two")
    future = page({1: tuple_image(second, 900)}, lsn=FUTURE)
    store = make_store(
        {**system_pages(), PG_CLASS: future}, is_online=True, extra=[locator(PG_CLASS)], places={PG_CLASS: OTHER}
    )
    log = Log(store)
    log.new_cid(900, PG_CLASS, (0, 1), 0)
    log.insert(900, PG_CLASS, (0, 1), first, init=True)
    log.new_cid(900, PG_CLASS, (0, 1), 0, 1)
    log.new_cid(900, PG_CLASS, (0, 2), 1)
    log.update(900, PG_CLASS, (0, 1), (0, 2), second)
    log.commit(900)
    store, log = reopened(store, log)
    log.full_page(OTHER, 0, page({1: tuple_image(second, 900)}))
    store, log = reopened(store, log)
    for number in (PG_TYPE, 20001):
        if number == 20001:
            store.files.add_extra((1663, 5, number))
        log.remap({PG_CLASS: OTHER[2], PG_ATTRIBUTE: PG_ATTRIBUTE, PG_TYPE: number})
        lsn = log.commit(901)
        assert names(store, lsn) == ["two"]
        store, log = reopened(store, log)
    assert [(v.cmin, list(v.deleters)) for v in store.versions(("pg_class", "oid", T))] == [(0, [900]), (1, [])]


def test_an_old_file_is_joined_when_a_record_names_it_and_not_before() -> None:
    """An image is the same whether it was known beforehand which files there will be, or not."""
    table_row = class_row(T, "one")
    future = page({1: tuple_image(table_row, 800)}, lsn=FUTURE)
    store = make_store({**system_pages(), PG_CLASS: future}, is_online=True, places={PG_CLASS: OTHER})
    store.files.add_extra(locator(PG_CLASS), page({1: tuple_image(table_row, 800)}))
    log = Log(store)
    assert [heap.locator for heap in image_of(store, 0, START, 2000).heaps if heap.catalog == PG_CLASS] == [OTHER]
    log.new_cid(900, PG_CLASS, (0, 1), 0xFFFFFFFF, 0)
    places = [heap.locator for heap in image_of(store, 0, log.lsn, 2000).heaps if heap.catalog == PG_CLASS]
    assert places == [locator(PG_CLASS), OTHER]


def test_what_the_copy_has_behind_the_end_of_a_cut_file_is_brought_by_the_log() -> None:
    old = page({1: tuple_image(class_row(T, "one"), 800)})
    late = class_row(T + 1, "late")
    pages = old + page({1: tuple_image(late, 901)}, lsn=FUTURE)
    for is_reopened in (False, True):
        store = make_store({**system_pages(), PG_CLASS: pages}, is_online=True)
        log = Log(store)
        log.truncate(PG_CLASS, 1)
        if is_reopened:
            store, log = reopened(store, log)
        log.insert(901, PG_CLASS, (1, 1), late, init=True)
        log.commit(901)
        assert len(store.versions(("pg_class", "oid", T + 1))) == 1
        assert len(dict(image_of(store, 0, log.lsn + 0x80, 2000).catalogs)[PG_CLASS]) == 2


def moving(new: bytes, is_certain: bool) -> Log:
    """Make a log for a store with two files of pg_enum: the catalog lay in one, and moves, or moved, to the other."""
    types = page({1: tuple_image(type_row(T, "mood", 2200, typtype=b"e"), 1)})
    store = make_store({**system_pages(), PG_TYPE: types}, is_online=True, places={PG_ENUM: OTHER})
    del store.files.heaps[OTHER]
    old = page({1: tuple_image(label(T + 1, b"a"), 800), 2: tuple_image(label(T + 2, b"b"), 800)})
    store.files.add_heap(locator(PG_ENUM), PG_ENUM, old, False)
    store.files.add_heap(OTHER, PG_ENUM, new, False)
    store.files.add_successor(OTHER, is_certain)
    return Log(store)


def test_a_file_that_was_written_before_the_copy_began_holds_copies() -> None:
    new = page({1: tuple_image(label(T + 1, b"a"), 800), 2: tuple_image(label(T + 2, b"b"), 800)})
    log = moving(new, is_certain=True)
    assert labels(log.store) == ["a", "b"]
    assert labels(reopened(log.store, log)[0]) == ["a", "b"]


def test_a_page_from_the_future_holds_copies_once_the_log_has_shown_it() -> None:
    old = {1: tuple_image(label(T + 1, b"a"), 800), 2: tuple_image(label(T + 2, b"b"), 800)}
    added = {3: tuple_image(label(T + 3, b"c"), 902, hints=XMAX_INVALID)}
    more = {4: tuple_image(label(T + 4, b"d"), 903, hints=XMAX_INVALID)}
    for is_reopened in (False, True):
        log = moving(page(old | added | more, lsn=FUTURE), is_certain=True)
        if is_reopened:
            _, log = reopened(log.store, log)
        log.insert(902, PG_ENUM, (0, 3), label(T + 3, b"c"), image=page(old | added), where=OTHER)
        log.commit(902)
        log.store.files.complete()
        assert labels(log.store) == ["a", "b", "c"]
        assert len(log.store.versions(("pg_enum", "enumtypid", T))) == 3


def test_a_move_that_the_copy_knew_of_joins_the_files() -> None:
    new = page({1: tuple_image(label(T + 1, b"a"), 800), 2: tuple_image(label(T + 2, b"b"), 800)}, lsn=START + 0x100)
    log = moving(new, is_certain=False)
    log.full_page(OTHER, 0, new)
    log.insert(901, PG_CLASS, (0, 1), class_row(PG_ENUM, "pg_enum", relfilenode=OTHER[2]), init=True)
    log.commit(901)
    assert labels(log.store) == ["a", "b"]
    assert labels(reopened(log.store, log)[0]) == ["a", "b"]
