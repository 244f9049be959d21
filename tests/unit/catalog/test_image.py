"""Images of catalogs made by hand: what is left out, what stays, and that they are the same however they came about."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.base.value_codec import same
from headwater.catalog.store.catalog_image import CatalogImage
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.copied_files import check_files
from headwater.catalog.store.image_io import image_of, store_of
from headwater.catalog.store.version_rows import VersionRows
from headwater.catalog.versions import NEVER, OwnCommands, visible_to
from headwater.errors import CatalogError
from headwater.pg.catalogs import (
    PG_ATTRIBUTE,
    PG_CLASS,
    PG_ENUM,
    PG_NAMESPACE,
    PG_PUBLICATION,
    PG_SEQUENCE,
    PG_TYPE,
)
from unit.catalog.made_catalog import (
    START,
    XMAX_INVALID,
    Log,
    attribute_row,
    class_row,
    locator,
    make_store,
    page,
    row,
    system_pages,
    tuple_image,
)
from unit.catalog.made_history import STEPS, History
from unit.catalog.reopened_images import reopened

T = 16384


def started() -> tuple[CatalogStore, Log]:
    """Make a store with schemas and types, and a log."""
    store = make_store(system_pages())
    return store, Log(store)


def rows_of(image: CatalogImage, oid: int) -> VersionRows:
    """Return the versions of a catalog."""
    return dict(image.catalogs)[oid]


def name_at(store: CatalogStore, lsn: int, own: OwnCommands | None = None) -> str | None:
    """Return the name of the table at an LSN."""
    schema = store.view(lsn, own).relation(T)
    return schema.name if schema else None


def renamed() -> tuple[CatalogStore, Log, list[int]]:
    """Make a table, renamed, and renamed again; LSNs of the commits."""
    store, log = started()
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "one"), init=True)
    commits = [log.commit(900)]
    for number, name in enumerate(("two", "three"), 1):
        log.update(900 + number, PG_CLASS, (0, number), (0, number + 1), class_row(T, name))
        commits.append(log.commit(900 + number))
    return store, log, commits


def without_sequences(store: CatalogStore, lsn: int) -> CatalogImage:
    """Return the image that a release made that did not follow sequences."""
    image = image_of(store, lsn, lsn, 2000)
    catalogs = tuple((oid, rows) for oid, rows in image.catalogs if oid != PG_SEQUENCE)
    return replace(image, catalogs=catalogs, heaps=tuple(heap for heap in image.heaps if heap.catalog != PG_SEQUENCE))


def test_images_of_19_that_do_not_have_sequences_go_on_without_them() -> None:
    store = make_store(system_pages(), 19)
    log = Log(store)
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "one", major=19), init=True)
    lsn = log.commit(900)
    assert store.follows("pg_sequence")
    image = without_sequences(store, log.lsn)
    image.check_parts()
    opened = store_of(image)
    assert not opened.follows("pg_sequence")
    assert name_at(opened, lsn + 1) == "one"
    assert same(image_of(opened, log.lsn, log.lsn, 2000), image)
    assert not make_store(system_pages()).follows("pg_sequence")


def test_views_from_the_horizon_on_are_the_same() -> None:
    store, log, commits = renamed()
    opened, _ = reopened(store, log, commits[1] + 1)
    assert [name_at(opened, lsn) for lsn in (commits[1] + 1, commits[2], commits[2] + 1)] == ["two", "two", "three"]
    with pytest.raises(CatalogError, match="the catalog is known from"):
        opened.view(commits[1])


def test_a_row_that_no_one_sees_stays_while_it_lies_on_a_page() -> None:
    store, log, commits = renamed()
    horizon = commits[2] + 1
    assert len(rows_of(image_of(store, horizon, log.lsn, 2000), PG_CLASS)) == 3
    opened, log = reopened(store, log, horizon)
    image = page(
        {
            1: tuple_image(class_row(T, "one"), 900, 901, 0),
            2: tuple_image(class_row(T, "two"), 901, 902, 0),
            3: tuple_image(class_row(T, "three"), 902, hints=XMAX_INVALID),
            4: tuple_image(class_row(T + 1, "more"), 903, hints=XMAX_INVALID),
        }
    )
    log.insert(903, PG_CLASS, (0, 4), class_row(T + 1, "more"), image=image)
    lsn = log.commit(903)
    assert name_at(opened, lsn + 1) == "three"
    assert [v.data.body[4:9].rstrip(b"\0") for v in opened.timeline_of(("pg_class", "oid", T)).rows[-1]] == [b"three"]
    log.prune(PG_CLASS, 0, {1: 3}, [2])
    assert rows_of(image_of(opened, lsn + 1, log.lsn, 2000), PG_CLASS).inserter.tolist() == [2, 2]


def test_what_was_pruned_stays_until_the_horizon_has_passed() -> None:
    store, log, commits = renamed()
    log.prune(PG_CLASS, 0, {1: 3}, [2])
    counts = [len(rows_of(image_of(store, lsn + 1, log.lsn, 2000), PG_CLASS)) for lsn in commits]
    assert counts == [3, 2, 1]
    opened, log = reopened(store, log, commits[0] + 1)
    opened, log = reopened(opened, log, commits[1])
    assert [name_at(opened, lsn) for lsn in (commits[1], commits[1] + 1, commits[2] + 1)] == ["one", "two", "three"]


def test_aborted_rows_go_with_their_places() -> None:
    store, log = started()
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "one"), init=True)
    first = log.commit(900)
    log.update(901, PG_CLASS, (0, 1), (0, 2), class_row(T, "never"))
    store.abort([901])
    image = image_of(store, first, log.lsn, 2000)
    versions = rows_of(image, PG_CLASS)
    assert (versions.xmin.tolist(), versions.inserter.tolist()) == ([900, 901], [900, 0])
    assert (versions.deleter_xid.tolist(), image.xids.tolist(), image.commits.tolist()) == (
        [],
        [900, 901],
        [first, NEVER],
    )
    log.prune(PG_CLASS, 0, {}, [2])
    assert rows_of(image_of(store, first, log.lsn, 2000), PG_CLASS).xmin.tolist() == [900]


def test_a_copy_may_name_who_had_just_ended() -> None:
    """VACUUM FULL copies a row as being deleted while its deleter, whose abort is in the WAL, is leaving."""
    copied = page({1: tuple_image(class_row(T, "one"), 900, 901, 0)})
    images = []
    for is_cut in (False, True):
        store, log = started()
        log.insert(900, PG_CLASS, (0, 1), class_row(T, "one"), init=True)
        first = log.commit(900)
        log.delete(901, PG_CLASS, (0, 1))
        store.abort([901])
        if is_cut:
            store, log = reopened(store, log, first + 1)
        log.prune(PG_CLASS, 0, {}, [1])
        log.full_page(locator(PG_CLASS), 0, copied)
        assert name_at(store, log.lsn) == "one"
        images.append(image_of(store, first + 1, log.lsn, 2000))
        store.settle_before(950)
        late = image_of(store, first + 1, log.lsn, 2000)
        assert (rows_of(late, PG_CLASS).deleter_xid.tolist(), 901 in late.xids) == ([], False)
    assert same(*images)
    assert rows_of(images[0], PG_CLASS).deleter_xid.tolist() == []


def test_a_transaction_goes_on_behind_an_image() -> None:
    store, log = started()
    log.new_cid(900, PG_CLASS, (0, 1), 0)
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "one"), init=True)
    log.new_cid(900, PG_CLASS, (0, 1), 0, 1)
    store, log = reopened(store, log, log.lsn)
    log.new_cid(900, PG_CLASS, (0, 2), 1)
    store, log = reopened(store, log, log.lsn)
    lsn = log.update(900, PG_CLASS, (0, 1), (0, 2), class_row(T, "two"))
    store, log = reopened(store, log, START)
    seen = [name_at(store, lsn + 1, OwnCommands(frozenset({900}), cid)) for cid in (0, 1, 2)]
    assert (seen, name_at(store, lsn + 1)) == ([None, "one", "two"], None)
    assert name_at(store, log.commit(900) + 1) == "two"


def test_command_ids_of_another_transaction_are_void() -> None:
    store, log = started()
    log.new_cid(900, PG_CLASS, (0, 1), 5)
    store.abort([900])
    image = image_of(store, START, log.lsn, 2000)
    assert not any(heap.commands for heap in image.heaps)
    lsn = log.insert(901, PG_CLASS, (0, 1), class_row(T, "one"), init=True)
    assert name_at(store, lsn + 1, OwnCommands(frozenset({901}), 9)) is None


def test_what_a_crash_left_behind_goes_when_all_older_transactions_have_ended() -> None:
    store, log = started()
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "lost"), init=True)
    log.prune(PG_CLASS, 0, {}, [1])
    store, log = reopened(store, log, log.lsn)
    assert len(rows_of(image_of(store, log.lsn, log.lsn, 2000), PG_CLASS)) == 1
    store.settle_before(900)
    assert len(rows_of(image_of(store, log.lsn, log.lsn, 2000), PG_CLASS)) == 1
    store.settle_before(901)
    assert len(rows_of(image_of(store, log.lsn, log.lsn, 2000), PG_CLASS)) == 0
    assert image_of(store, log.lsn, log.lsn, 2000).settled_before == 901


def test_xids_outlive_two_to_the_32() -> None:
    store, log = started()
    last, wrapped = (1 << 32) - 1, 5
    log.insert(last - 1, PG_CLASS, (0, 1), class_row(T, "one"), init=True)
    first = log.commit(last - 1)
    log.update(last, PG_CLASS, (0, 1), (0, 2), class_row(T, "two"))
    log.insert(wrapped, PG_CLASS, (0, 3), class_row(T + 1, "other"))
    image = image_of(store, first, log.lsn, (7 << 32) + 10)
    versions = rows_of(image, PG_CLASS)
    assert versions.inserter.tolist() == [(7 << 32) - 2, (7 << 32) - 1, (7 << 32) + 5]
    assert versions.deleter_xid.tolist() == [(7 << 32) - 1]
    assert image.xids.tolist() == [(7 << 32) - 2]
    store, log = reopened(store, log, first, (7 << 32) + 10)
    second = log.commit(last)
    store, log = reopened(store, log, first, (7 << 32) + 11)
    third = log.commit(wrapped)
    assert [name_at(store, lsn + 1) for lsn in (first, second)] == ["one", "two"]
    assert [store.view(lsn).relation(T + 1) is None for lsn in (third, third + 1)] == [True, False]
    store.settle_before(8)
    store, log = reopened(store, log, third + 1, (7 << 32) + 12)
    assert rows_of(image_of(store, 0, log.lsn, (7 << 32) + 12), PG_CLASS).inserter.tolist() == [2, 2, 2]
    log.prune(PG_CLASS, 0, {1: 2}, [])
    for quarter in range(1, 4):
        store.settle_before(quarter << 30)
        store, log = reopened(store, log, log.lsn, (7 << 32) + (quarter << 30) + 13)
    # 2^32 transactions later the same low halves are those of others.
    log.insert(last, PG_CLASS, (0, 4), class_row(T + 2, "late"))
    late = log.lsn
    store, log = reopened(store, log, late, (8 << 32) + 3)
    assert rows_of(image_of(store, 0, log.lsn, (8 << 32) + 3), PG_CLASS).inserter.tolist() == [2, 2, (8 << 32) - 1]
    assert store.view(late + 1).relation(T + 2) is None
    assert store.view(log.commit(last) + 1).relation(T + 2) is not None


def test_the_fate_of_a_forgotten_transaction_is_not_guessed() -> None:
    store, log, commits = renamed()
    store.settle_before(1500)
    store, log = reopened(store, log, commits[2] + 1)
    store.files.heaps[locator(PG_ENUM)].catalog = None
    strange = row(PG_ENUM, {"oid": T + 9, "enumtypid": T, "enumlabel": b"x"})
    log.full_page(locator(PG_ENUM), 0, page({1: tuple_image(strange, 900)}))
    store.files.heaps[locator(PG_ENUM)].merge(store.tables[PG_ENUM])
    with pytest.raises(CatalogError, match="fate of transaction 900 is not known any more"):
        store.timeline_of(("pg_enum", "enumtypid", T))


def test_a_publication_that_has_been_is_remembered() -> None:
    store, log = started()
    log.insert(900, PG_PUBLICATION, (0, 1), row(PG_PUBLICATION, {"oid": T, "pubname": b"pub"}), init=True)
    made = log.commit(900)
    log.delete(901, PG_PUBLICATION, (0, 1))
    gone = log.commit(901)
    log.prune(PG_PUBLICATION, 0, {}, [1])
    log.insert(902, PG_PUBLICATION, (0, 2), row(PG_PUBLICATION, {"oid": T + 1, "pubname": b"never"}))
    store.abort([902])
    assert [store.view(lsn).has_had_publication("pub") for lsn in (made, made + 1, gone + 1)] == [False, True, True]
    image = image_of(store, gone + 1, log.lsn, 2000)
    assert len(rows_of(image, PG_PUBLICATION)) == 1
    assert image.publication_names == (b"pub",)
    store, log = reopened(store, log, gone + 1)
    store, log = reopened(store, log, gone + 2)
    view = store.view(gone + 2)
    assert (view.has_had_publication("pub"), view.publication("pub")) == (True, None)
    assert not view.has_had_publication("never")


def test_a_missing_file_is_missed_until_the_log_makes_it_anew() -> None:
    store = make_store(system_pages(), is_online=True)
    store.files.add_heap(locator(PG_ENUM), PG_ENUM, None, False, "base/5/3501")
    store.files.add_heap(locator(PG_CLASS), PG_CLASS, page({1: tuple_image(class_row(PG_ENUM, "pg_enum"), 1)}), False)
    log = Log(store)
    store, log = reopened(store, log, log.lsn)
    with pytest.raises(CatalogError, match=r"pg_enum has no file \(in base/5/3501\)"):
        check_files(store)
    log.truncate(PG_ENUM, 0)
    log.create(PG_ENUM)
    store, log = reopened(store, log, log.lsn)
    check_files(store)
    assert store.files.youngest_page() == 0x1000


def test_a_provisional_page_stays_one_until_its_image() -> None:
    future = page(
        {1: tuple_image(class_row(T, "old"), 800, 901, 0x0100), 2: tuple_image(class_row(T, "new"), 901)},
        lsn=START + 0x10000,
    )
    store = make_store({**system_pages(), PG_CLASS: future}, is_online=True)
    store, log = reopened(store, Log(store), START)
    heaps = image_of(store, 0, START, 2000).heaps
    assert [heap.provisional.tolist() for heap in heaps if heap.catalog == PG_CLASS] == [[0]]
    image = page({1: tuple_image(class_row(T, "old"), 800, 901, 0x0100)})
    log.delete(901, PG_CLASS, (0, 1), image=image)
    assert len(store.versions(("pg_class", "oid", T))) == 1
    store, log = reopened(store, log, START)
    log.insert(901, PG_CLASS, (0, 2), class_row(T, "new"))
    lsn = log.commit(901)
    store.files.complete()
    store, log = reopened(store, log, lsn)
    assert [name_at(store, at) for at in (lsn, lsn + 1)] == ["old", "new"]


def test_unchanged_catalogs_go_into_the_next_image_as_they_are() -> None:
    store, log, commits = renamed()
    store, log = reopened(store, log, commits[0])
    first = image_of(store, commits[0], log.lsn, 2000)
    name_at(store, commits[2] + 1)
    again = image_of(store, commits[0], log.lsn, 2000)
    assert all(a is b for (_, a), (_, b) in zip(first.catalogs, again.catalogs, strict=True))
    assert all(a is b for a, b in zip(first.heaps, again.heaps, strict=True))
    later = image_of(store, commits[1] + 1, log.lsn, 2000)
    assert [oid for (oid, a), (_, b) in zip(first.catalogs, later.catalogs, strict=True) if a is not b] == [PG_CLASS]
    log.insert(910, PG_NAMESPACE, (1, 1), row(PG_NAMESPACE, {"oid": T, "nspname": b"s"}), init=True)
    later = image_of(store, commits[0], log.lsn, 2000)
    changed = [oid for (oid, a), (_, b) in zip(first.catalogs, later.catalogs, strict=True) if a is not b]
    assert changed == [PG_NAMESPACE]


def test_views_forget_only_what_changes() -> None:
    store, log, commits = renamed()
    log.insert(910, PG_CLASS, (0, 9), class_row(T + 1, "other"))
    lsn = log.commit(910)
    cached = store.view(lsn + 1).relation(T)
    other = store.view(lsn + 1).relation(T + 1)
    log.update(911, PG_CLASS, (0, 9), (0, 10), class_row(T + 1, "another"))
    lsn = log.commit(911)
    assert store.view(lsn + 1).relation(T) is cached
    renamed_relation = store.view(lsn + 1).relation(T + 1)
    assert other is not None
    assert renamed_relation is not None
    assert (other.name, renamed_relation.name) == ("other", "another")
    image = image_of(store, lsn + 1, log.lsn, 2000)
    store = store_of(image, store)
    assert store.view(lsn + 1).relation(T) is cached
    # What nobody asks for between two images is forgotten.
    store = store_of(image_of(store, lsn + 1, log.lsn, 2000), store)
    store = store_of(image_of(store, lsn + 1, log.lsn, 2000), store)
    assert store.view(lsn + 1).relation(T) == cached
    assert store.view(lsn + 1).relation(T) is not cached
    assert name_at(store, lsn + 1) == "three"
    assert commits[2] < lsn


def test_a_fate_told_behind_an_image_is_seen_by_views_that_remember() -> None:
    store, log = started()
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "one"), init=True)
    store, log = reopened(store, log, log.lsn)
    assert name_at(store, log.lsn + 0x1000) is None
    lsn = log.commit(900)
    assert [name_at(store, at) for at in (lsn, lsn + 1)] == [None, "one"]


def rewritten(named_early: bool) -> tuple[CatalogStore, int]:
    """Have a catalog written to another file by a transaction that runs across an image; LSN of its commit."""
    store, log = started()
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "one"), init=True)
    log.commit(900)
    other = (1663, 5, 20000)
    new = page({1: tuple_image(class_row(T, "one"), 900)})
    if named_early:
        store.files.add_extra(other)
    log.create(PG_CLASS, other)
    log.full_page(other, 0, new)
    begin = log.lsn
    store, log = reopened(store, log, begin)
    if not named_early:
        store.files.add_extra(other)
        earlier = Log(store, earlier=True)
        earlier.create(PG_CLASS, other)
        earlier.full_page(other, 0, new)
        earlier.flush()
    log.lsn = begin
    log.remap({PG_CLASS: 20000, PG_ATTRIBUTE: PG_ATTRIBUTE, PG_TYPE: PG_TYPE})
    lsn = log.commit(901)
    return store, lsn


def test_a_file_that_turns_out_later_to_be_a_catalogs() -> None:
    store, lsn = rewritten(named_early=False)
    assert store.redo.missing_locators() == frozenset()
    assert name_at(store, lsn + 1) == "one"
    assert len(store.versions(("pg_class", "oid", T))) == 1
    image = image_of(store, lsn + 1, lsn + 0x80, 2000)
    assert [heap.locator[2] for heap in image.heaps if heap.catalog == PG_CLASS] == [20000]
    assert {mapped.number: mapped.left_lsn for mapped in image.mapped if mapped.oid == PG_CLASS} == {20000: NEVER}


def test_earlier_records_change_only_the_files_that_were_added() -> None:
    store, log = started()
    known, other = (1663, 5, 20000), (1663, 5, 20001)
    store.files.add_extra(known)
    old = page({1: tuple_image(class_row(T, "one"), 900)})
    log.full_page(known, 0, old)
    log.new_cid(900, PG_CLASS, (0, 2), 1, where=known)
    log.insert(900, PG_CLASS, (0, 2), class_row(T + 1, "two"), where=known)
    store, log = reopened(store, log, log.lsn)
    assert known in store.files.locators()
    for locator_ in (known, other):
        store.files.add_extra(locator_)
    earlier = Log(store, earlier=True)
    earlier.full_page(known, 0, old)
    earlier.full_page(other, 0, old)
    earlier.flush()
    assert [sorted(store.files.heaps[place].page(0).slots) for place in (known, other)] == [[1, 2], [1]]


def test_a_file_that_no_record_names_yet_is_not_in_an_image() -> None:
    store, _ = rewritten(named_early=True)
    assert store.redo.missing_locators() == {(1663, 5, 20000)}
    with pytest.raises(CatalogError, match=r"1 files of catalogs have not been read, first \(1663, 5, 20000\)"):
        image_of(store, 0, START, 2000)


def rows_at(store: CatalogStore, lsn: int, oid: int, own: OwnCommands | None = None) -> list[bytes]:
    """Return the names of the visible versions of a row."""
    versions = store.versions(("pg_class", "oid", oid))
    seen = own or OwnCommands(frozenset(), 0)
    return sorted(v.data.body[4:68].rstrip(b"\0") for v in versions if visible_to(v, lsn, seen, store.fates))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=60), st.randoms(use_true_random=False))
def test_images_do_not_depend_on_those_made_on_the_way(steps: list[str], choose: Random) -> None:
    """One store goes all the way, one is saved and opened again and again, with horizons of its own."""
    (once, log), (often, its) = started(), started()
    history, horizon = History((log, its), choose), START
    for step in steps:
        if step == "cut":
            horizon = choose.randint(horizon, log.lsn + 1)
            often, its = reopened(often, its, horizon, history.next_xid)
            history.logs[1] = its
        else:
            history.step(step)
    end = choose.randint(horizon, log.lsn + 1)
    expected, actual = (image_of(store_, end, log.lsn + 0x80, history.next_xid) for store_ in (once, often))
    assert same(actual, expected)
    assert same(image_of(store_of(actual), end, log.lsn + 0x80, history.next_xid), expected)
    last = store_of(actual)
    for lsn, seen in history.seen:
        for oid, names in seen.items() if lsn >= end else ():
            for store in (once, often, last):
                assert rows_at(store, lsn, oid) == sorted(name.encode() for name in names), (lsn, oid)
    for oid in history.oids:
        for actor in history.running:
            for command in range(actor.command + 1):
                own = OwnCommands(actor.own.xids, command)
                rows = [rows_at(store, log.lsn + 1, oid, own) for store in (once, often, last)]
                assert rows[0] == rows[1] == rows[2]


def test_arrays_of_an_image_are_canonical() -> None:
    store, log, commits = renamed()
    image = image_of(store, commits[0], log.lsn, 2000)
    for _, rows in image.catalogs:
        assert (np.diff(rows.at) == rows.length[:-1]).all()
        assert int(rows.length.sum()) == len(rows.data)
    log.insert(905, PG_ATTRIBUTE, (0, 1), attribute_row(T, 1, "a"), init=True)
    assert not same(image, image_of(store, commits[0], log.lsn, 2000))
