"""Records that make no sense: only our own errors, and the catalog can still be asked."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import CatalogError, HeadwaterError
from headwater.pg.catalogs import PG_ATTRIBUTE, PG_CLASS, PG_TYPE
from headwater.rmgr.heap import TupleBytes
from headwater.wal.records.record import Block, Image, Record
from unit.catalog.made_catalog import (
    START,
    Log,
    attribute_row,
    class_row,
    header,
    locator,
    make_store,
    page,
    system_pages,
    tuple_image,
)

T = 16384
ROW = class_row(T, "t", 1)
MAINS = st.one_of(
    st.binary(max_size=60),
    st.builds(lambda n, f: struct.pack("<HB", n, f), st.integers(0, 400), st.integers(0, 255)),
    st.builds(lambda n, f: struct.pack("<IHBB", 901, n, 0, f), st.integers(0, 9), st.integers(0, 255)),
    st.builds(
        lambda old, f, new: struct.pack("<IHBBIH", 901, old, 0, f, 0, new),
        st.integers(0, 9),
        st.sampled_from((0, 0x20, 0x40, 0x60)),
        st.integers(0, 9),
    ),
)
DATA = st.one_of(
    st.binary(max_size=100),
    st.integers(0, 200).map(lambda n: (header(ROW) + ROW.tail)[:n]),
    st.just(header(ROW) + ROW.tail),
)
IMAGES = st.one_of(
    st.none(),
    st.builds(
        lambda data, hole, info: Image(data, 24, hole, info, START),
        st.binary(max_size=300),
        st.integers(0, 8192),
        st.sampled_from((0x02, 0x03, 0x06, 0x0A, 0x12)),
    ),
    st.binary(min_size=64, max_size=64).map(lambda noise: Image(noise * 128, 0, 0, 0x02, START)),
)
BLOCKS = st.builds(
    lambda id_, fork, oid, number, data, image, init: Block(id_, fork, *locator(oid), number, data, image, init),
    st.sampled_from((0, 0, 1)),
    st.sampled_from((0, 0, 0, 2)),
    st.sampled_from((PG_CLASS, PG_ATTRIBUTE, PG_TYPE)),
    st.integers(0, 2),
    DATA,
    IMAGES,
    st.booleans(),
)
RECORDS = st.tuples(
    st.sampled_from((0, 2, 7, 9, 9, 10, 10, 10)), st.integers(0, 15), MAINS, st.lists(BLOCKS, max_size=2)
)


@settings(max_examples=300, deadline=None)
@given(st.lists(RECORDS, max_size=6), st.sampled_from((14, 15, 16, 17, 18, 19)))
def test_nonsense_raises_our_errors_only(records: list[tuple[int, int, bytes, list[Block]]], major: int) -> None:
    store = make_store(system_pages(), major)
    log = Log(store)
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "t", 1, major), init=True)
    log.insert(900, PG_ATTRIBUTE, (0, 1), attribute_row(T, 1, "a", major=major), init=True)
    log.commit(900)
    lsn = log.lsn
    for rmid, info, main, blocks in records:
        lsn += 0x100
        record = Record(lsn, lsn + 0x80, 901, info << 4, rmid, main_data=main, blocks=tuple(blocks))
        try:
            store.apply(record)
        except HeadwaterError:
            continue
    store.commit([901], lsn + 0x100)
    for position in (log.lsn + 1, lsn + 0x101):
        try:
            store.view(position).relation_by_filenode(1663, T)
        except HeadwaterError:
            continue


@pytest.mark.parametrize("init", [False, True])
@pytest.mark.parametrize("block", [1 << 24, 4_015_289_828, 0xFFFFFFFE])
def test_a_block_that_no_catalog_has_is_refused(block: int, init: bool) -> None:
    """Else the image of the catalog would have a number for each block before it."""
    log = Log(make_store(system_pages()))
    with pytest.raises(
        CatalogError, match=f"page {block} of catalog file 1663/.*, expected one before 16777216"
    ) as caught:
        log.insert(900, PG_CLASS, (block, 1), ROW, init=init)
    assert caught.value.lsn == log.lsn


def test_a_page_image_that_cuts_a_known_row_short_is_refused() -> None:
    log = Log(make_store({**system_pages(), PG_CLASS: page({1: tuple_image(ROW, 3)})}))
    assert log.store.view(START + 1).class_rows(T)
    short = TupleBytes(ROW.infomask2, ROW.infomask, ROW.hoff, ROW.tail[:12])
    with pytest.raises(CatalogError, match="row of pg_class has 3 bytes, expected at least") as caught:
        log.full_page(locator(PG_CLASS), 0, page({1: tuple_image(short, 3)}))
    assert caught.value.lsn == log.lsn
