"""Catalogs made by hand: rows, pages, records and a store, byte by byte as a server would write them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from headwater.catalog.copy.taken_at import CatalogOrigin
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.pg.catalogs import (
    PG_ATTRIBUTE,
    PG_CLASS,
    PG_NAMESPACE,
    PG_TYPE,
    SHARED_CATALOGS,
    align_up,
    catalog_layout,
    catalog_oids,
)
from headwater.rmgr import heap, heap2
from headwater.rmgr.heap import HEADER_SIZE, TupleBytes
from headwater.wal.records.record import Block, Image, Record

MAJOR = 16
DATABASE = 5
START = 0x1000000
XMAX_INVALID, XMIN_COMMITTED, XMIN_INVALID = 0x0800, 0x0100, 0x0200
BITMAP_BYTES = 8

Values = dict[str, int | bytes]


def locator(oid: int) -> tuple[int, int, int]:
    """Return the place of a catalog in the store of :func:`make_store`."""
    return (1664, 0, oid) if oid in SHARED_CATALOGS else (1663, DATABASE, oid)


def row(oid: int, values: Mapping[str, int | bytes], major: int = MAJOR) -> TupleBytes:
    """Make a row of a catalog: columns not named are zero, or NULL after the fixed part."""
    layout = catalog_layout(major, oid)
    body, bitmap = b"", 0
    for number, column in enumerate(layout.columns):
        value = values.get(column.name, 0 if column.name in layout.offsets else None)
        if value is None:
            continue
        bitmap |= 1 << number
        if isinstance(value, int):
            value = value.to_bytes(column.length, "little", signed=value < 0)
        is_short = column.length < 0 and value[0] & 1
        body = body if is_short else body.ljust(align_up(len(body), column.align), b"\0")
        body += value.ljust(column.length, b"\0") if column.length > 0 else value
    hoff = (HEADER_SIZE + BITMAP_BYTES + 7) // 8 * 8
    tail = bitmap.to_bytes(BITMAP_BYTES, "little").ljust(hoff - HEADER_SIZE, b"\0") + body
    return TupleBytes(len(layout.columns), 0x0001, hoff, tail)


def class_row(oid: int, name: str, natts: int = 0, major: int = MAJOR, **more: int | bytes) -> TupleBytes:
    """Make a row of ``pg_class`` in schema ``public``."""
    fixed: Values = {"relkind": b"r", "relpersistence": b"p", "relreplident": b"d", "relnamespace": 2200}
    values: Values = {"oid": oid, "relname": name.encode(), "relfilenode": oid, "relnatts": natts}
    return row(PG_CLASS, {**fixed, **values, **more}, major)


def attribute_row(
    relation: int, number: int, name: str, kind: int = 23, major: int = MAJOR, **more: int | bytes
) -> TupleBytes:
    """Make a row of ``pg_attribute``: an int4 column."""
    fixed: Values = {"attlen": 4, "attalign": b"i", "atttypmod": -1}
    values: Values = {"attrelid": relation, "attname": name.encode(), "atttypid": kind, "attnum": number}
    return row(PG_ATTRIBUTE, {**fixed, **values, **more}, major)


def type_row(oid: int, name: str, namespace: int = 11, **more: int | bytes) -> TupleBytes:
    """Make a row of ``pg_type``."""
    values: Values = {"oid": oid, "typname": name.encode(), "typnamespace": namespace, "typlen": 4}
    return row(PG_TYPE, {**values, "typtype": b"b", "typalign": b"i", "typdelim": b",", "typstorage": b"p", **more})


def namespace_row(oid: int, name: str) -> TupleBytes:
    """Make a row of ``pg_namespace``."""
    return row(PG_NAMESPACE, {"oid": oid, "nspname": name.encode()})


def tuple_image(data: TupleBytes, xmin: int, xmax: int = 0, hints: int = XMIN_COMMITTED | XMAX_INVALID) -> bytes:
    """Make a tuple as it lies on a page."""
    head = struct.pack("<III6xHHB", xmin, xmax, 0, data.infomask2, data.infomask | hints, data.hoff)
    return head + data.tail


def page(tuples: Mapping[int, bytes], lsn: int = 0x1000) -> bytes:
    """Make a heap page with tuples at offset numbers."""
    lines = bytearray(4 * max(tuples, default=0))
    upper, body = 8192, b""
    for offnum, image in tuples.items():
        space = (len(image) + 7) // 8 * 8
        upper -= space
        body = image.ljust(space, b"\0") + body
        struct.pack_into("<I", lines, 4 * (offnum - 1), upper | 1 << 15 | len(image) << 17)
    lower = 24 + len(lines)
    head = struct.pack("<IIHHHHHHI", lsn >> 32, lsn & 0xFFFFFFFF, 0, 0, lower, upper, 8192, 0x2004, 0)
    return (head + bytes(lines)).ljust(upper, b"\0") + body


class NoTransactions:
    """Transactions of before the WAL: there are none."""

    def is_committed(self, _xid: int, /) -> bool:
        return False

    def update_xid(self, _multi: int, /) -> int:
        return 0

    def commit_log(self) -> None: ...


def make_store(
    bases: Mapping[int, bytes],
    major: int = MAJOR,
    is_online: bool = False,
    extra: Iterable[tuple[int, int, int]] = (),
    places: Mapping[int, tuple[int, int, int]] | None = None,
) -> CatalogStore:
    """Make a store whose catalogs have these pages; catalogs not named are empty.

    Args:
        bases: pages by catalog.
        major: PostgreSQL's.
        is_online: it was copied while a server wrote.
        extra: files that will turn out to be catalogs'.
        places: where catalogs lie that do not lie at :func:`locator`.
    """
    origin = CatalogOrigin(major, 1, 1, START, not is_online, DATABASE, "db", 1663, "UTF8", 2, 1000)
    store = CatalogStore(origin, NoTransactions(), not is_online)
    for where in extra:
        store.files.add_extra(where)
    for oid in catalog_oids(major):
        store.files.add_heap((places or {}).get(oid, locator(oid)), oid, bases.get(oid, b""), not is_online)
    return store


def system_pages() -> dict[int, bytes]:
    """Make pages of two schemas and a type, from initdb."""
    schemas = {1: namespace_row(11, "pg_catalog"), 2: namespace_row(2200, "public")}
    types = {1: type_row(23, "int4"), 2: type_row(25, "text", typlen=-1)}
    return {
        PG_NAMESPACE: page({offnum: tuple_image(data, 1) for offnum, data in schemas.items()}),
        PG_TYPE: page({offnum: tuple_image(data, 1) for offnum, data in types.items()}),
    }


class Log:
    """A log of records, made one after the other, each of 256 bytes.

    Args:
        store: it applies them.
        earlier: the records lie before the store's LSN: it gets them together, by :meth:`flush`.

    Attributes:
        store: the store.
        lsn: of the last record.
    """

    def __init__(self, store: CatalogStore, earlier: bool = False) -> None:
        self.store = store
        self._earlier: list[Record] | None = [] if earlier else None
        self.lsn = START

    def flush(self) -> None:
        """Give the store the records of before its LSN."""
        self.store.redo.apply_earlier(self._earlier or ())

    def _apply(self, xid: int, rmid: int, info: int, main: bytes, blocks: Sequence[Block] = ()) -> int:
        self.lsn += 0x100
        record = Record(self.lsn, self.lsn + 0x80, xid, info, rmid, main_data=main, blocks=tuple(blocks))
        if self._earlier is None:
            self.store.apply(record)
        else:
            self._earlier.append(record)
        return self.lsn

    def commit(self, *xids: int) -> int:
        """Commit these transactions; returns the LSN."""
        self.lsn += 0x100
        self.store.commit(xids, self.lsn)
        return self.lsn

    def new_cid(
        self,
        xid: int,
        oid: int,
        tid: tuple[int, int],
        cmin: int,
        cmax: int = 0xFFFFFFFF,
        where: tuple[int, int, int] | None = None,
    ) -> int:
        """Write that the next change at ``tid`` is made by these commands."""
        block, offnum = tid
        main = struct.pack("<IIII", xid, cmin, cmax, 0xFFFFFFFF) + struct.pack("<III", *(where or locator(oid)))
        return self._apply(xid, 9, heap2.NEW_CID, main + struct.pack("<HHH", block >> 16, block & 0xFFFF, offnum))

    def insert(
        self,
        xid: int,
        oid: int,
        tid: tuple[int, int],
        data: TupleBytes,
        init: bool = False,
        image: bytes | None = None,
        where: tuple[int, int, int] | None = None,
    ) -> int:
        """Write an insert, with the tuple, or with a page image only."""
        content = b"" if image else header(data) + data.tail
        block = Block(0, 0, *(where or locator(oid)), tid[0], content, full_image(image), init)
        main = struct.pack("<HB", tid[1], 0)
        return self._apply(xid, 10, heap.INSERT | (heap.INIT_PAGE if init else 0), main, [block])

    def delete(self, xid: int, oid: int, tid: tuple[int, int], image: bytes | None = None) -> int:
        """Write a delete."""
        block = Block(0, 0, *locator(oid), tid[0], b"", full_image(image))
        return self._apply(xid, 10, heap.DELETE, struct.pack("<IHBB", xid, tid[1], 0, 0), [block])

    def update(
        self,
        xid: int,
        oid: int,
        old: tuple[int, int],
        new: tuple[int, int],
        data: TupleBytes,
        shared: tuple[int, int] = (0, 0),
    ) -> int:
        """Write an update; ``shared`` bytes at either end of the columns are left to the old tuple."""
        prefix, suffix = shared
        flags = (heap.UPDATE_PREFIX_FROM_OLD if prefix else 0) | (heap.UPDATE_SUFFIX_FROM_OLD if suffix else 0)
        content = b"".join(length.to_bytes(2, "little") for length in shared if length) + header(data)
        bitmap = data.hoff - HEADER_SIZE
        content += data.tail[:bitmap] + data.tail[bitmap + prefix : len(data.tail) - suffix]
        blocks = [Block(0, 0, *locator(oid), new[0], content)]
        if old[0] != new[0]:
            blocks.append(Block(1, 0, *locator(oid), old[0]))
        main = struct.pack("<IHBBIH", xid, old[1], 0, flags, 0, new[1])
        return self._apply(xid, 10, heap.HOT_UPDATE if len(blocks) == 1 else heap.UPDATE, main, blocks)

    def multi_insert(self, xid: int, oid: int, block: int, rows: Mapping[int, TupleBytes], init: bool = False) -> int:
        """Write a multi-insert."""
        content = b""
        for data in rows.values():
            content += b"\0" * (len(content) & 1)
            content += struct.pack("<HHHB", len(data.tail), data.infomask2, data.infomask, data.hoff) + data.tail
        main = struct.pack("<BxH", 0, len(rows)) + (b"" if init else struct.pack(f"<{len(rows)}H", *rows))
        info = heap2.MULTI_INSERT | (heap.INIT_PAGE if init else 0)
        return self._apply(xid, 9, info, main, [Block(0, 0, *locator(oid), block, content, None, init)])

    def prune(self, oid: int, block: int, redirected: Mapping[int, int], unused: Sequence[int]) -> int:
        """Write a prune, in the form of the store's major version."""
        pairs = [offnum for pair in redirected.items() for offnum in pair]
        if self.store.major >= 17:
            main = bytes((0, (0x20 if pairs else 0) | (0x80 if unused else 0)))
            content = struct.pack(f"<{1 + len(pairs)}H", len(redirected), *pairs) if pairs else b""
            content += struct.pack(f"<{1 + len(unused)}H", len(unused), *unused) if unused else b""
        else:
            main = struct.pack("<IHH", 0, len(redirected), 0) + (b"\1" if self.store.major == 16 else b"")
            content = struct.pack(f"<{len(pairs) + len(unused)}H", *pairs, *unused)
        return self._apply(0, 9, heap2.PRUNE, main, [Block(0, 0, *locator(oid), block, content)])

    def inplace(self, oid: int, tid: tuple[int, int], data: TupleBytes) -> int:
        """Write an in-place update, in the form of the store's major version."""
        main = struct.pack("<H", tid[1])
        if self.store.major >= 18:
            main += struct.pack("<2xII?3xi", DATABASE, 1663, False, 0)
        return self._apply(0, 10, heap.INPLACE, main, [Block(0, 0, *locator(oid), tid[0], data.body)])

    def full_page(self, where: tuple[int, int, int], block: int, image: bytes) -> int:
        """Write a page as a whole (XLOG_FPI)."""
        return self._apply(0, 0, 0xB0, b"", [Block(0, 0, *where, block, b"", full_image(image))])

    def truncate(self, oid: int, blocks: int) -> int:
        """Write that the file is cut."""
        return self._apply(0, 2, 0x20, struct.pack("<IIIIi", blocks, *locator(oid), 7))

    def create(self, oid: int, where: tuple[int, int, int] | None = None) -> int:
        """Write that the file is made."""
        return self._apply(0, 2, 0x10, struct.pack("<IIIi", *(where or locator(oid)), 0))

    def copy_database(self, source: tuple[int, int], target: tuple[int, int]) -> int:
        """Write that a database's directory is copied; both are (database, tablespace)."""
        return self._apply(0, 4, 0x00, struct.pack("<IIII", *target, *source))

    def remap(self, mappings: Mapping[int, int]) -> int:
        """Write that the database's relation map changes."""
        pairs = b"".join(struct.pack("<II", oid, number) for oid, number in mappings.items())
        content = (struct.pack("<ii", 0x592717, len(mappings)) + pairs).ljust(524, b"\0")
        return self._apply(0, 7, 0, struct.pack("<IIi", DATABASE, 1663, len(content)) + content)


def header(data: TupleBytes) -> bytes:
    """Pack the ``xl_heap_header``."""
    return struct.pack("<HHB", data.infomask2, data.infomask, data.hoff)


def full_image(content: bytes | None) -> Image | None:
    """Make an image without a hole that redo applies."""
    return None if content is None else Image(content, 0, 0, 0x02, 0)
