"""Redo of catalog records on catalogs made by hand."""

from __future__ import annotations

import pytest

from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.versions import OwnCommands
from headwater.errors import CatalogError
from headwater.pg.catalogs import PG_ATTRIBUTE, PG_CLASS, PG_ENUM, PG_TYPE
from headwater.rmgr.heap import TupleBytes
from unit.catalog.made_catalog import (
    MAJOR,
    START,
    XMAX_INVALID,
    XMIN_COMMITTED,
    XMIN_INVALID,
    Log,
    attribute_row,
    class_row,
    make_store,
    page,
    row,
    system_pages,
    tuple_image,
    type_row,
)

T = 16384


def started(major: int = MAJOR) -> tuple[CatalogStore, Log]:
    """Make a store with schemas and types, and a log."""
    store = make_store(system_pages(), major)
    return store, Log(store)


def name_at(store: CatalogStore, lsn: int, own: OwnCommands | None = None) -> str | None:
    """Return the name of the table at an LSN."""
    schema = store.view(lsn, own).relation(T)
    return schema.name if schema else None


def test_row_is_seen_from_its_commit_on() -> None:
    store, log = started()
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "t"), init=True)
    commit = log.commit(900)
    assert [name_at(store, commit), name_at(store, commit + 1)] == [None, "t"]


def test_update_shares_bytes_with_the_old_row() -> None:
    store, log = started()
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "before"), init=True)
    first = log.commit(900)
    log.update(901, PG_CLASS, (0, 1), (0, 2), class_row(T, "after"), shared=(4, 60))
    second = log.commit(901)
    log.update(902, PG_CLASS, (0, 2), (1, 1), class_row(T, "elsewhere"))
    third = log.commit(902)
    names = [name_at(store, lsn + 1) for lsn in (first, second, third)]
    assert names == ["before", "after", "elsewhere"]
    assert name_at(store, second) == "before"


def test_aborted_changes_leave_no_trace() -> None:
    store, log = started()
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "t"), init=True)
    log.commit(900)
    log.update(901, PG_CLASS, (0, 1), (0, 2), class_row(T, "never"))
    store.abort([901])
    log.delete(902, PG_CLASS, (0, 1))
    gone = log.commit(902)
    assert [name_at(store, gone), name_at(store, gone + 1)] == ["t", None]


def test_own_changes_are_seen_by_command() -> None:
    store, log = started()
    log.new_cid(900, PG_CLASS, (0, 1), 3)
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "one"), init=True)
    log.new_cid(900, PG_CLASS, (0, 1), 3, 5)
    log.new_cid(900, PG_CLASS, (0, 2), 5)
    lsn = log.update(900, PG_CLASS, (0, 1), (0, 2), class_row(T, "two"))
    seen = [name_at(store, lsn + 1, OwnCommands(frozenset({900}), cid)) for cid in (3, 4, 5, 6)]
    assert seen == [None, "one", "one", "two"]
    assert name_at(store, lsn + 1) is None
    assert name_at(store, lsn + 1, OwnCommands(frozenset({901}), 9)) is None


def test_multi_insert_and_column_order() -> None:
    store, log = started()
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "t", 2), init=True)
    log.multi_insert(900, PG_ATTRIBUTE, 0, {1: attribute_row(T, 2, "b"), 2: attribute_row(T, 1, "a")}, init=True)
    log.multi_insert(900, PG_ATTRIBUTE, 0, {7: attribute_row(T, -1, "ctid")})
    lsn = log.commit(900)
    schema = store.view(lsn + 1).relation(T)
    assert schema is not None
    assert [(c.number, c.name, c.type and c.type.display_name) for c in schema.columns] == [
        (1, "a", "integer"),
        (2, "b", "integer"),
    ]


def test_missing_attribute_is_an_error() -> None:
    store, log = started()
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "t", 2), init=True)
    log.insert(900, PG_ATTRIBUTE, (0, 1), attribute_row(T, 1, "a"), init=True)
    lsn = log.commit(900)
    with pytest.raises(CatalogError, match="1 attributes of relation 16384, expected 2"):
        store.view(lsn + 1).relation(T)


def test_page_image_brings_rows_that_the_record_lacks() -> None:
    store, log = started()
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "old"), init=True)
    first = log.commit(900)
    image = page(
        {
            1: tuple_image(class_row(T, "old"), 900, 901, 0),
            2: tuple_image(class_row(T, "new"), 901, hints=XMAX_INVALID),
        }
    )
    log.insert(901, PG_CLASS, (0, 2), class_row(T, "new"), image=image)
    log.delete(901, PG_CLASS, (0, 1))
    second = log.commit(901)
    assert [name_at(store, first + 1), name_at(store, second), name_at(store, second + 1)] == ["old", "old", "new"]


@pytest.mark.parametrize("major", [14, 15, 16, 17, 18, 19])
def test_pruned_rows_stay_in_history(major: int) -> None:
    store, log = started(major)

    def make(name: str) -> TupleBytes:
        return class_row(T, name, major=major)

    log.insert(900, PG_CLASS, (0, 1), make("one"), init=True)
    first = log.commit(900)
    log.update(901, PG_CLASS, (0, 1), (0, 2), make("two"))
    second = log.commit(901)
    log.prune(PG_CLASS, 0, {1: 2}, [3])
    log.insert(902, PG_CLASS, (0, 1), class_row(T + 1, "other", major=major))
    log.commit(902)
    log.update(903, PG_CLASS, (0, 2), (0, 3), make("three"), shared=(4, 40))
    third = log.commit(903)
    assert [name_at(store, lsn + 1) for lsn in (first, second, third)] == ["one", "two", "three"]


@pytest.mark.parametrize("major", [17, 18])
def test_in_place_update_needs_no_commit(major: int) -> None:
    store, log = started(major)
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "t", major=major), init=True)
    log.commit(900)
    changed = class_row(T, "t", major=major, reltuples=7)
    lsn = log.inplace(PG_CLASS, (0, 1), changed)
    assert store.versions(("pg_class", "oid", T))[0].data.tail == changed.tail
    # The row's new bytes are what a later update shares.
    log.update(901, PG_CLASS, (0, 1), (0, 2), class_row(T, "u", major=major, reltuples=7), shared=(4, 60))
    log.commit(901)
    assert [name_at(store, lsn + 1), name_at(store, log.lsn + 1)] == ["t", "u"]
    assert store.versions(("pg_class", "oid", T))[1].data == class_row(T, "u", major=major, reltuples=7)


def test_change_of_an_unknown_row_is_an_error() -> None:
    _, log = started()
    with pytest.raises(CatalogError, match=r"has no tuple at \(0,1\) to delete") as caught:
        log.delete(900, PG_CLASS, (0, 1))
    assert caught.value.lsn == log.lsn
    with pytest.raises(CatalogError, match="has no tuple"):
        log.update(900, PG_CLASS, (0, 1), (0, 2), class_row(T, "t"), shared=(4, 0))
    with pytest.raises(CatalogError, match="has no tuple of 140 bytes"):
        log.inplace(PG_CLASS, (0, 9), class_row(T, "t"))


def test_cut_file() -> None:
    store, log = started()
    log.insert(900, PG_CLASS, (1, 1), class_row(T, "t"), init=True)
    lsn = log.commit(900)
    log.truncate(PG_CLASS, 1)
    log.insert(901, PG_CLASS, (1, 1), class_row(T + 1, "u"), init=True)
    log.commit(901)
    assert name_at(store, lsn + 1) == "t"


def test_provisional_page_of_an_online_backup() -> None:
    """The backup's page is younger than the start: it has rows that come in the WAL again."""
    future = page(
        {
            1: tuple_image(class_row(T, "old"), 800, 901, XMIN_COMMITTED),
            2: tuple_image(class_row(T, "new"), 901),
            3: tuple_image(class_row(T + 1, "gone"), 902, hints=XMIN_INVALID | XMAX_INVALID),
        },
        lsn=START + 0x10000,
    )
    store = make_store({**system_pages(), PG_CLASS: future}, is_online=True)
    log = Log(store)
    assert name_at(store, START + 1) is not None
    image = page(
        {1: tuple_image(class_row(T, "old"), 800, 901, XMIN_COMMITTED), 2: tuple_image(class_row(T, "new"), 901)}
    )
    log.new_cid(901, PG_CLASS, (0, 2), 0)
    log.insert(901, PG_CLASS, (0, 2), class_row(T, "new"), image=image)
    log.delete(901, PG_CLASS, (0, 1))
    lsn = log.commit(901)
    log.insert(902, PG_CLASS, (0, 3), class_row(T + 1, "gone"))
    store.abort([902])
    assert [name_at(store, START + 1), name_at(store, lsn), name_at(store, lsn + 1)] == ["old", "old", "new"]
    assert [len(store.versions(("pg_class", "oid", oid))) for oid in (T, T + 1)] == [2, 1]


def test_page_ahead_of_the_log_is_refused() -> None:
    future = page({1: tuple_image(class_row(T, "t"), 800)}, lsn=START + 0x10000)
    log = Log(make_store({**system_pages(), PG_CLASS: future}, is_online=True))
    with pytest.raises(CatalogError, match="younger than the WAL's first change"):
        log.insert(901, PG_CLASS, (0, 2), class_row(T + 1, "u"))


def rewritten(extra: frozenset[tuple[int, int, int]]) -> tuple[CatalogStore, int]:
    """Have a row changed there and back by one transaction, then its catalog rewritten; LSN of the commit."""
    store = make_store(system_pages(), extra=extra)
    log = Log(store)
    log.new_cid(900, PG_CLASS, (0, 1), 1)
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "a"), init=True)
    for offnum, name in ((2, "b"), (3, "a")):
        log.new_cid(900, PG_CLASS, (0, offnum - 1), offnum - 1, offnum)
        log.new_cid(900, PG_CLASS, (0, offnum), offnum)
        log.update(900, PG_CLASS, (0, offnum - 1), (0, offnum), class_row(T, name))
    commit = log.commit(900)
    log.full_page((1663, 5, 20000), 0, page({1: tuple_image(class_row(T, "a"), 900)}))
    log.remap({PG_CLASS: 20000, PG_ATTRIBUTE: PG_ATTRIBUTE, PG_TYPE: PG_TYPE})
    return store, commit


def test_rewritten_catalog_keeps_its_history() -> None:
    """Two versions are alike to the byte: the copy is that of the last one."""
    store, _ = rewritten(frozenset())
    missing = store.redo.missing_locators()
    assert missing == {(1663, 5, 20000)}
    store, commit = rewritten(missing)
    assert store.redo.missing_locators() == frozenset()
    versions = store.versions(("pg_class", "oid", T))
    assert [(v.cmin, list(v.deleters)) for v in versions] == [(1, [900]), (2, [900]), (3, [])]
    assert [name_at(store, commit), name_at(store, commit + 1)] == [None, "a"]


def test_fast_default_is_read() -> None:
    store, log = started()
    value = (24 + 4) * 4
    array = value.to_bytes(4, "little") + b"".join(n.to_bytes(4, "little") for n in (1, 0, 23, 1, 1, 42))
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "t", 1), init=True)
    attribute = attribute_row(T, 1, "a", atthasmissing=1, attmissingval=array)
    log.insert(900, PG_ATTRIBUTE, (0, 1), attribute, init=True)
    lsn = log.commit(900)
    schema = store.view(lsn + 1).relation(T)
    assert schema is not None
    assert schema.columns[0].missing == (42).to_bytes(4, "little")


def test_enum_labels_in_sort_order_and_type_names() -> None:
    store, log = started()
    log.insert(900, PG_TYPE, (1, 1), type_row(T, "Mood", 2200, typtype=b"e"), init=True)
    log.insert(900, PG_TYPE, (1, 2), type_row(T + 1, "int4", 2200, typtype=b"d", typbasetype=T))
    orders = {"one": b"\0\0\x80\x3f", "two": b"\0\0\0\x40", "half": b"\0\0\0\x3f"}
    for offnum, (label, order) in enumerate(orders.items(), 1):
        data = row(
            PG_ENUM, {"oid": T + 10 + offnum, "enumtypid": T, "enumlabel": label.encode(), "enumsortorder": order}
        )
        log.insert(900, PG_ENUM, (0, offnum), data, init=offnum == 1)
    view = store.view(log.commit(900) + 1)
    mood, hidden = view.type_info(T), view.type_info(T + 1)
    assert mood.labels == ((T + 13, "half"), (T + 11, "one"), (T + 12, "two"))
    assert (mood.display_name, hidden.display_name, hidden.base) == ('"Mood"', "public.int4", mood)
    assert view.type_info(23).display_name == "integer"
