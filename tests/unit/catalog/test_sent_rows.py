"""Rows as a server sends them in binary COPY, made into tuples that are read like stored ones."""

from __future__ import annotations

import struct

import pytest

from headwater.catalog import fields
from headwater.catalog.rows import CatalogRows
from headwater.catalog.store.rows_over_sql import is_readable, row_key, sent_rows, varlena
from headwater.errors import CatalogError
from headwater.pg.catalogs import PG_ATTRIBUTE, PG_CLASS, PG_INDEX, PG_PUBLICATION_REL, catalog_layout

HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TYPES = {-1: 25, 1: 18, 2: 21, 4: 26, 64: 19}
INT2VECTOR, TEXT_ARRAY, ACL = 22, 1009, 1034


def copy_of(*rows: list[bytes | None]) -> bytes:
    out = HEAD
    for row in rows:
        out += struct.pack(">h", len(row))
        for value in row:
            out += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return out + b"\xff\xff"


def tid(block: int, offnum: int) -> bytes:
    return struct.pack(">IH", block, offnum)


def array(element: int, *values: bytes) -> bytes:
    if not values:
        return struct.pack(">iii", 0, 0, element)
    items = b"".join(struct.pack(">i", len(value)) + value for value in values)
    return struct.pack(">iiiii", 1, 0, element, len(values), 1) + items


def row_of(major: int, catalog: int, /, **values: bytes | None) -> list[bytes | None]:
    """Make a row with these values as sent, and zeros or NULL in the other columns."""
    columns = catalog_layout(major, catalog).columns
    plain = {c.name: b"" if c.length == 64 else bytes(c.length) if c.length > 0 else None for c in columns}
    return [tid(3, 7), (1000).to_bytes(4, "big"), *{**plain, **values}.values()]


def types_of(major: int, oid: int, **special: int) -> dict[str, int]:
    return {column.name: TYPES[column.length] for column in catalog_layout(major, oid).columns} | special


@pytest.mark.parametrize("major", [15, 16, 17, 18, 19])
def test_a_table_with_options(major: int) -> None:
    sent = row_of(
        major,
        PG_CLASS,
        oid=(16384).to_bytes(4, "big"),
        relname=b"t",
        relnatts=(3).to_bytes(2, "big"),
        relkind=b"r",
        reloptions=array(25, b"fillfactor=70", b"user_catalog_table=true"),
    )
    types = types_of(major, PG_CLASS, relacl=ACL, reloptions=TEXT_ARRAY)
    (version,) = sent_rows(copy_of(sent), catalog_layout(major, PG_CLASS), types, {})
    (row,) = CatalogRows(major, "UTF8").classes([version.data])
    assert (version.block, version.offnum, version.xmin) == (3, 7, 1000)
    assert (row.oid, row.name, row.natts, row.kind, row.is_user_catalog) == (16384, "t", 3, "r", True)


def test_vectors_and_trees() -> None:
    layout = catalog_layout(16, PG_INDEX)
    numbers = [n.to_bytes(2, "big", signed=True) for n in (2, 0, 5)]
    sent = row_of(16, PG_INDEX, indkey=array(21, *numbers), indpred=b"{OPEXPR}")
    types = types_of(16, PG_INDEX, indkey=INT2VECTOR)
    (version,) = sent_rows(copy_of(sent), layout, types, {})
    key, tree = (fields.column(layout, version.data, name) for name in ("indkey", "indpred"))
    assert key is not None
    assert fields.int2vector(key) == (2, 0, 5)
    assert fields.payload(tree or b"") == b"{OPEXPR}"
    assert fields.column(layout, version.data, "indexprs") is None


def test_a_value_that_is_stored_already() -> None:
    layout = catalog_layout(18, PG_ATTRIBUTE)
    key = {
        "attrelid": (16384).to_bytes(4, "big"),
        "attnum": (2).to_bytes(2, "big"),
    }
    sent = row_of(
        18,
        PG_ATTRIBUTE,
        attname=b"added",
        atthasmissing=b"\1",
        attlen=b"\0\4",
        attalign=b"i",
        atttypid=b"\0\0\0\x17",
        **key,
    )
    stored = varlena(struct.pack("<5i", 1, 0, 23, 1, 1) + (7).to_bytes(4, "little"))
    types = types_of(18, PG_ATTRIBUTE, attacl=ACL, attoptions=TEXT_ARRAY, attfdwoptions=TEXT_ARRAY)
    assert row_key(layout, sent[2:]) == tuple(key.values())
    (version,) = sent_rows(copy_of(sent), layout, types, {tuple(key.values()): stored})
    (row,) = CatalogRows(18, "UTF8").attributes([version.data])
    assert (row.name, row.number, row.missing) == ("added", 2, b"\7\0\0\0")
    assert fields.column(layout, version.data, "attmissingval") == stored


def test_empty_array() -> None:
    layout = catalog_layout(16, PG_PUBLICATION_REL)
    (version,) = sent_rows(
        copy_of(row_of(16, PG_PUBLICATION_REL, prattrs=array(21))),
        layout,
        types_of(16, PG_PUBLICATION_REL, prattrs=INT2VECTOR),
        {},
    )
    assert fields.int2vector(fields.column(layout, version.data, "prattrs") or b"") == ()


def test_what_cannot_be_stored() -> None:
    column = catalog_layout(16, PG_CLASS).columns[catalog_layout(16, PG_CLASS).number("relacl")]
    assert not is_readable(column, ACL)
    assert is_readable(column, TEXT_ARRAY)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "binary format"),
        (b"PGCOPY?" + bytes(30), "binary format"),
        (copy_of([tid(0, 1)]), "1 fields, expected 8"),
        (copy_of([None, *[b"\0\0\0\0"] * 7]), "without ctid"),
        (copy_of([tid(0, 1), bytes(4), b"\0", *[None] * 5]), "1 bytes for oid, expected 4"),
        (copy_of([tid(0, 1), *[bytes(4)] * 7])[:-20], "end too early"),
        (HEAD, "end too early"),
    ],
)
def test_rows_that_are_none(data: bytes, message: str) -> None:
    layout = catalog_layout(16, PG_PUBLICATION_REL)
    layout = type(layout)(layout.oid, layout.name, (*layout.columns, layout.columns[0]), {}, 0)
    with pytest.raises(CatalogError, match=message):
        list(sent_rows(data, layout, types_of(16, PG_PUBLICATION_REL), {}))
