"""Columns after the fixed part of catalog rows, and pages that make no sense."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.catalog import fields
from headwater.catalog.pages import page_tuples, scan_heap
from headwater.catalog.rows import CatalogRows, looks_like
from headwater.catalog.store.version_rows import rows_of_scan
from headwater.catalog.versions import Fates
from headwater.errors import CatalogError
from headwater.pg.catalogs import PG_ATTRIBUTE, PG_CLASS, PG_TYPE, catalog_layout
from headwater.rmgr.heap import TupleBytes
from unit.catalog.made_catalog import attribute_row, class_row, page, row, tuple_image

ATTRIBUTE = catalog_layout(16, PG_ATTRIBUTE)


def long_varlena(content: bytes) -> bytes:
    return ((len(content) + 4) << 2).to_bytes(4, "little") + content


def short_varlena(content: bytes) -> bytes:
    return bytes([(len(content) + 1) << 1 | 1]) + content


def array(element_type: int, *elements: bytes) -> bytes:
    content = struct.pack("<iiIii", 1, 0, element_type, len(elements), 1)
    for element in elements:
        content += b"\0" * (-len(content) % 4) + element
    return content


@pytest.mark.parametrize("make", [long_varlena, short_varlena])
@pytest.mark.parametrize(
    ("attlen", "element"),
    [(4, b"\x2a\0\0\0"), (1, b"x"), (8, bytes(range(8))), (-1, long_varlena(b"hello")), (-2, b"text\0")],
)
def test_missing_value(make: object, attlen: int, element: bytes) -> None:
    assert callable(make)
    value = make(array(0, element))
    rows = CatalogRows(16, "UTF8")
    (present,) = rows.attributes([attribute_row(1, 1, "a", attlen=attlen, atthasmissing=1, attmissingval=value)])
    assert present.missing == element
    (absent,) = rows.attributes([attribute_row(1, 1, "a", attlen=attlen, attmissingval=value)])
    assert absent.missing is None


def test_compressed_missing_value() -> None:
    element = long_varlena(b"long " * 500)
    content = array(25, element)
    packed = pyarrow.compress(content, codec="lz4_raw", asbytes=True)
    value = struct.pack("<II", (len(packed) + 8) << 2 | 2, len(content) | 1 << 30) + packed
    assert fields.single_element(value, -1) == element
    with pytest.raises(CatalogError, match="cannot be decompressed"):
        fields.single_element(value[:4] + b"\xff\xff\0\x40" + value[8:], -1)


def test_options_and_vectors() -> None:
    options = long_varlena(array(25, long_varlena(b"fillfactor=50"), long_varlena(b"user_catalog_table=ON")))
    rows = CatalogRows(16, "UTF8")
    entries = rows.classes([class_row(1, "a", reloptions=options), class_row(2, "b")])
    assert [entry.is_user_catalog for entry in entries] == [True, False]
    numbers = b"".join(n.to_bytes(2, "little") for n in (3, 1))
    assert fields.int2vector(long_varlena(struct.pack("<iiIii", 1, 0, 21, 2, 0) + numbers)) == (3, 1)
    assert fields.int2vector(long_varlena(struct.pack("<iiI", 0, 0, 21))) == ()


def test_toasted_values_are_passed_over() -> None:
    pointer = b"\x01\x12" + bytes(16)
    assert fields.payload(pointer) is None
    assert fields.text_array(pointer) == ()
    with pytest.raises(CatalogError, match="out of line"):
        fields.int2vector(pointer)


@pytest.mark.parametrize("oid", [PG_CLASS, PG_ATTRIBUTE, PG_TYPE])
@pytest.mark.parametrize("major", [14, 15, 16, 17, 18, 19])
def test_rows_of_the_big_catalogs_are_told_apart(oid: int, major: int) -> None:
    good: dict[int, dict[str, int | bytes]] = {
        PG_CLASS: {"relkind": b"r", "relpersistence": b"p", "relreplident": b"n"},
        PG_ATTRIBUTE: {"attalign": b"i", "attstorage": b"p"},
        PG_TYPE: {"typalign": b"i", "typstorage": b"p", "typtype": b"b"},
    }
    assert [other for other in good if looks_like(catalog_layout(major, other), row(oid, good[oid], major))] == [oid]


@given(st.binary(max_size=300), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.integers(23, 255))
def test_broken_rows_raise_our_errors_only(tail: bytes, infomask2: int, infomask: int, hoff: int) -> None:
    if hoff - 23 > len(tail):
        return
    data = TupleBytes(infomask2, infomask, hoff, tail)
    for name in ("attname", "attmissingval"):
        try:
            value = fields.column(ATTRIBUTE, data, name)
            if value:
                fields.single_element(value, -1)
                fields.text_array(value)
                fields.int2vector(value)
        except CatalogError:
            pass


@given(st.binary(min_size=40, max_size=400), st.integers(0, 8000))
def test_broken_pages_are_read_without_an_error(noise: bytes, at: int) -> None:
    good = page({n: tuple_image(class_row(n, "t"), 5) for n in range(1, 30)})
    broken = (good[:at] + noise + good[at + len(noise) :])[:8192]
    tuples = dict(page_tuples(broken))
    scan = scan_heap(broken + good, ATTRIBUTE.fixed_length)
    assert len(tuples) < 2050
    assert (scan.block == 1).sum() == 29
    assert (scan.start + scan.length <= 2 * 8192).all()


def test_scan_finds_what_the_page_holds() -> None:
    layout = catalog_layout(16, PG_CLASS)
    tuples = {n: tuple_image(class_row(100 + n, f"t{n}"), 5) for n in (1, 2, 5, 30)}
    scan = scan_heap(bytes(8192) + page(tuples), layout.fixed_length)
    assert scan.bad_block == -1
    assert scan.block.tolist() == [1, 1, 1, 1]
    assert scan.offnum.tolist() == [1, 2, 5, 30]
    assert scan.xmin.tolist() == [5, 5, 5, 5]
    rows, multis = rows_of_scan(scan, np.zeros(4, np.bool_), Fates(lambda _xid: False))
    assert not multis
    assert rows.column(0, 4).tolist() == [101, 102, 105, 130]
    assert rows.column(4, 64).tolist() == [b"t1", b"t2", b"t5", b"t30"]
    short = page({1: tuple_image(class_row(1, "t"), 5)[:100]})
    assert scan_heap(short, layout.fixed_length).bad_block == 0
