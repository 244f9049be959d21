"""Places of a store's catalog files when a database moves to another tablespace, or is a copy of another."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.database_location import Whereabouts
from headwater.errors import CatalogError
from headwater.pg.catalogs import PG_CLASS, PG_DATABASE, SHARED_CATALOGS, catalog_oids
from headwater.rmgr.heap import TupleBytes
from unit.catalog.made_catalog import (
    DATABASE,
    Log,
    class_row,
    locator,
    make_store,
    page,
    row,
    system_pages,
    tuple_image,
)
from unit.catalog.reopened_images import reopened

HERE, THERE, NEW = 1663, 20000, 17000
T = 16384
MAJOR = 16
LOCAL = sorted(catalog_oids(MAJOR) - SHARED_CATALOGS)
FILES_THERE = [(THERE, DATABASE, oid) for oid in LOCAL]


def database_row(tablespace: int, oid: int = DATABASE) -> TupleBytes:
    return row(PG_DATABASE, {"oid": oid, "datname": b"db", "dattablespace": tablespace})


def started(extra: Sequence[tuple[int, int, int]] = FILES_THERE) -> tuple[CatalogStore, Log]:
    bases = system_pages() | {
        PG_CLASS: page({1: tuple_image(class_row(T, "t", relfilenode=T), 1)}),
        PG_DATABASE: page({1: tuple_image(database_row(HERE), 1)}),
    }
    store = make_store(bases, extra=extra)
    return store, Log(store)


def page_with(name: str, xid: int, lsn: int) -> bytes:
    """Make the page of pg_class with a second table."""
    made = tuple_image(class_row(T + 1, name, relfilenode=T + 1), xid, hints=0)
    return page({1: tuple_image(class_row(T, "t", relfilenode=T), 1), 2: made}, lsn)


def place_of(store: CatalogStore, lsn: int, filenode: int = T) -> list[int]:
    """List the tablespaces in which a relation that names none is found."""
    view = store.view(lsn)
    return [spc for spc in (HERE, THERE) if view.relation_by_filenode(spc, filenode) is not None]


def cut(store: CatalogStore, log: Log, is_cut: bool) -> tuple[CatalogStore, Log]:
    """Put now and then an image in the store's place; its horizon is the beginning of the log."""
    if is_cut:
        known = [*store.files.heaps]
        store, log = reopened(store, log, 0)
        for file in known:
            store.files.add_extra(file)
    return store, log


@pytest.mark.parametrize("cuts", range(8))
def test_a_database_that_moves(cuts: int) -> None:
    store, log = started()
    before = log.lsn
    log.copy_database((DATABASE, HERE), (DATABASE, THERE))
    store, log = cut(store, log, bool(cuts & 1))
    log.update(900, PG_DATABASE, (0, 1), (0, 2), database_row(THERE))
    store, log = cut(store, log, bool(cuts & 2))
    moved = log.commit(900)
    store, log = cut(store, log, bool(cuts & 4))
    log.full_page((THERE, DATABASE, PG_CLASS), 0, page_with("there", 901, log.lsn))
    made = log.commit(901)
    store, log = reopened(store, log, 0)
    assert store.redo.missing_locators() == frozenset()
    assert store.files.places[PG_CLASS] == (THERE, DATABASE, PG_CLASS)
    assert {file[0] for file in store.files.heaps if file[1]} == {THERE}
    assert [place_of(store, lsn) for lsn in (before, moved, moved + 1)] == [[HERE], [HERE], [THERE]]
    assert [place_of(store, lsn, T + 1) for lsn in (made, made + 1)] == [[], [THERE]]


@pytest.mark.parametrize("cuts", range(4))
def test_a_move_that_fails(cuts: int) -> None:
    """The server is down, or the copy in vain: the files stay where they were, until another move succeeds."""
    store, log = started()
    log.copy_database((DATABASE, HERE), (DATABASE, THERE))
    log.update(900, PG_DATABASE, (0, 1), (0, 2), database_row(THERE))
    store, log = cut(store, log, bool(cuts & 1))
    store.abort([900])
    log.full_page(locator(PG_CLASS), 0, page_with("here", 901, log.lsn))
    made = log.commit(901)
    store, log = cut(store, log, bool(cuts & 2))
    assert place_of(store, made + 1, T + 1) == [HERE]
    log.copy_database((DATABASE, HERE), (DATABASE, THERE))
    log.update(902, PG_DATABASE, (0, 1), (0, 3), database_row(THERE))
    log.commit(902)
    log.full_page((THERE, DATABASE, PG_CLASS), 0, page_with("here", 901, log.lsn))
    store, log = reopened(store, log, 0)
    assert {file[0] for file in store.files.heaps if file[1]} == {THERE}
    assert place_of(store, log.lsn + 1, T + 1) == [THERE]


def test_there_and_back() -> None:
    store, log = started()
    log.copy_database((DATABASE, HERE), (DATABASE, THERE))
    log.update(900, PG_DATABASE, (0, 1), (0, 2), database_row(THERE))
    log.commit(900)
    log.copy_database((DATABASE, THERE), (DATABASE, HERE))
    log.update(901, PG_DATABASE, (0, 2), (0, 3), database_row(HERE))
    back = log.commit(901)
    log.full_page(locator(PG_CLASS), 0, page_with("back", 902, log.lsn))
    log.commit(902)
    store, log = reopened(store, log, 0)
    assert {file[0] for file in store.files.heaps if file[1]} == {HERE}
    assert [place_of(store, lsn) for lsn in (back, back + 1)] == [[THERE], [HERE]]
    assert place_of(store, log.lsn + 1, T + 1) == [HERE]


def test_files_that_nobody_knew_of_are_missing() -> None:
    store, log = started(extra=())
    log.copy_database((DATABASE, HERE), (DATABASE, THERE))
    assert store.redo.missing_locators() == set(FILES_THERE)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_copy_of_another_database(is_cut: bool) -> None:
    """Later changes of the other database are nothing to the copy, nor are copies of other databases."""
    store, log = started(extra=[(THERE, NEW, oid) for oid in LOCAL])
    store.files.whereabouts = Whereabouts(DATABASE, HERE, (NEW,))
    log.copy_database((4, HERE), (NEW + 1, HERE))
    log.full_page(locator(PG_CLASS), 0, page_with("before", 900, log.lsn))
    log.commit(900)
    store, log = cut(store, log, is_cut)
    log.copy_database((DATABASE, HERE), (NEW, THERE))
    store, log = cut(store, log, is_cut)
    log.full_page(locator(PG_CLASS), 0, page_with("not copied", 901, log.lsn))
    log.full_page((THERE, NEW, PG_CLASS), 0, page_with("before", 900, log.lsn))
    log.commit(901)
    store, log = reopened(store, log, 0)
    assert {file[:2] for file in store.files.heaps if file[1]} == {(THERE, NEW)}
    names = [relation.name for relation in store.view(log.lsn + 1).class_rows(T + 1)]
    assert names == ["before"]


def test_a_copy_before_the_catalogs_own_copy_was_complete() -> None:
    store = make_store(system_pages(), is_online=True)
    with pytest.raises(CatalogError, match=f"database {DATABASE} moves to another tablespace before the copy of the"):
        Log(store).copy_database((DATABASE, HERE), (DATABASE, THERE))
