"""One WAL record taken apart, in plain Python (PostgreSQL: DecodeXLogRecord and RestoreBlockImage).

For the records that are kept whole: catalog changes, transaction control, full pages. Bulk data goes through kernels.
Layouts: ``access/xlogrecord.h``; the flags of images become those of 15 and newer.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow

from headwater.errors import RecordError
from headwater.pg.version import VERSIONS
from headwater.wal.compression import decompressed
from headwater.wal.layout import (
    BKPBLOCK_FORK_MASK,
    BKPBLOCK_HAS_DATA,
    BKPBLOCK_HAS_IMAGE,
    BKPBLOCK_SAME_REL,
    BKPBLOCK_WILL_INIT,
    BKPIMAGE_APPLY,
    BKPIMAGE_COMPRESS_LZ4,
    BKPIMAGE_COMPRESS_PGLZ,
    BKPIMAGE_COMPRESS_ZSTD,
    BKPIMAGE_COMPRESSED,
    BKPIMAGE_HAS_HOLE,
    XLR_BLOCK_ID_DATA_LONG,
    XLR_BLOCK_ID_DATA_SHORT,
    XLR_BLOCK_ID_ORIGIN,
    XLR_BLOCK_ID_TOPLEVEL_XID,
    XLR_MAX_BLOCK_ID,
    XLR_RMGR_INFO_MASK,
    image_flags,
)

BLCKSZ: Final = 8192

_METHODS: Final = {BKPIMAGE_COMPRESS_PGLZ: "pglz", BKPIMAGE_COMPRESS_LZ4: "lz4", BKPIMAGE_COMPRESS_ZSTD: "zstd"}

RECORD_HEADER: Final = struct.Struct("<IIQBBHI")
"""xl_tot_len, xl_xid, xl_prev, xl_info, xl_rmid, padding, xl_crc."""

_SHORT_HEADERS: Final = RECORD_HEADER.size + 2
"""Bytes before the main data of a record that has nothing else, and little of it."""

_ONE_BLOCK: Final = struct.Struct("<BBHIIIIBB")
"""Header of a block without image and of the main data after it, if that is short and nothing else is announced."""

_ONE_BLOCK_HEADERS: Final = RECORD_HEADER.size + _ONE_BLOCK.size


@dataclass(frozen=True, slots=True)
class Image:
    """A page image as it was logged.

    Attributes:
        data: the bytes in the record, perhaps compressed, without the hole.
        hole_offset: bytes before the hole.
        hole_length: zero bytes left out.
        info: ``bimg_info``, with the flags of 15 and newer.
        lsn: of the record, for errors.
    """

    data: bytes
    hole_offset: int
    hole_length: int
    info: int
    lsn: int

    @property
    def is_applied(self) -> bool:
        """Redo restores it; False for the extra images of ``wal_consistency_checking``."""
        return bool(self.info & BKPIMAGE_APPLY)

    @property
    def method(self) -> str | None:
        """The method it is compressed with: pglz, lz4, zstd; None if it is not."""
        return next((name for bit, name in _METHODS.items() if self.info & bit), None)

    def page(self) -> bytes:
        """Return the whole page, 8192 bytes.

        Raises:
            RecordError: the image cannot be decompressed.
        """
        body = self._decompressed()
        if len(body) != BLCKSZ - self.hole_length or self.hole_offset > len(body):
            raise RecordError(
                f"page image has a wrong size, found {len(body)} bytes, expected {BLCKSZ - self.hole_length}",
                lsn=self.lsn,
            )
        return body[: self.hole_offset] + bytes(self.hole_length) + body[self.hole_offset :]

    def _decompressed(self) -> bytes:
        method, size = self.method, BLCKSZ - self.hole_length
        if method is None:
            return self.data
        if method != "zstd":
            return self._decompressed_by(method, size)
        try:
            # One byte more than wanted, to notice an image that is too long.
            with pyarrow.CompressedInputStream(pyarrow.BufferReader(self.data), "zstd") as stream:
                body: bytes = stream.read(size + 1)
        except (OSError, ValueError, pyarrow.ArrowException):
            raise RecordError("could not decompress page image, method zstd", lsn=self.lsn) from None
        return body

    def _decompressed_by(self, method: str, size: int) -> bytes:
        body = decompressed(method, self.data, size)
        if body is None:
            raise RecordError(f"could not decompress page image, method {method}", lsn=self.lsn)
        return body


class Block(NamedTuple):
    """A block reference of a record.

    Attributes:
        id: block id, 0 to 32.
        fork: 0 main, 1 free space map, 2 visibility map, 3 init.
        spc: tablespace OID.
        db: database OID, 0 shared.
        rel: relfilenumber.
        block: block number.
        data: data registered with the block.
        image: page image, or None.
        will_init: redo makes the page again from nothing.
    """

    id: int
    fork: int
    spc: int
    db: int
    rel: int
    block: int
    data: bytes = b""
    image: Image | None = None
    will_init: bool = False

    @property
    def locator(self) -> tuple[int, int, int]:
        """(spc, db, rel)."""
        return self.spc, self.db, self.rel


class Record(NamedTuple):
    """A WAL record.

    Attributes:
        lsn: its start.
        end_lsn: its end, aligned.
        xid: ``xl_xid``, 0 none; may be a subtransaction's.
        info: ``xl_info``, all eight bits.
        rmid: resource manager.
        prev: ``xl_prev``.
        toplevel_xid: set in the first record of a subtransaction, else 0.
        origin: replication origin, else 0.
        main_data: the record's own data.
        blocks: block references in ascending order of their id.
    """

    lsn: int
    end_lsn: int
    xid: int
    info: int
    rmid: int
    prev: int = 0
    toplevel_xid: int = 0
    origin: int = 0
    main_data: bytes = b""
    blocks: tuple[Block, ...] = ()

    @property
    def kind(self) -> int:
        """The bits of ``xl_info`` that are the resource manager's."""
        return self.info & XLR_RMGR_INFO_MASK

    def block(self, block_id: int) -> Block | None:
        """Return the block reference with this id, None if there is none."""
        for block in self.blocks:
            if block.id == block_id:
                return block
        return None


class _ImageHeader(NamedTuple):
    length: int
    hole_offset: int
    hole_length: int
    info: int


class _BlockHeader(NamedTuple):
    id: int
    flags: int
    locator: tuple[int, int, int]
    block: int
    data_length: int
    image: _ImageHeader | None


def parse_record(data: bytes, lsn: int, end_lsn: int, major: int) -> Record:
    """Take a record apart.

    Args:
        data: the whole record, ``xl_tot_len`` bytes; its checksum has been verified.
        lsn: its start.
        end_lsn: its end.
        major: PostgreSQL's major version, 14 to 19 (the flags of images differ).

    Raises:
        RecordError: the parts do not fit the length, or a flag contradicts another.
    """
    if len(data) < RECORD_HEADER.size:
        raise RecordError(f"record has {len(data)} bytes, expected at least {RECORD_HEADER.size}", lsn=lsn)
    total, xid, prev, info, rmid, _, _ = RECORD_HEADER.unpack_from(data)
    if total != len(data):
        raise RecordError(f"record has {len(data)} bytes, expected {total}", lsn=lsn)
    # Most records of the catalogs have nothing but short main data, such as NEW_CID, or that and a block's data.
    if total >= _SHORT_HEADERS and data[_SHORT_HEADERS - 2] == XLR_BLOCK_ID_DATA_SHORT:
        main_data = data[_SHORT_HEADERS:]
        if len(main_data) == data[_SHORT_HEADERS - 1]:
            return Record(lsn, end_lsn, xid, info, rmid, prev, 0, 0, main_data)
    if total >= _ONE_BLOCK_HEADERS:
        block_id, flags, length, spc, db, rel, number, last_id, main_length = _ONE_BLOCK.unpack_from(
            data, RECORD_HEADER.size
        )
        is_plain = block_id <= XLR_MAX_BLOCK_ID and not flags & (BKPBLOCK_HAS_IMAGE | BKPBLOCK_SAME_REL)
        has_data = bool(flags & BKPBLOCK_HAS_DATA) == (length > 0)
        if is_plain and has_data and last_id == XLR_BLOCK_ID_DATA_SHORT:
            main = _ONE_BLOCK_HEADERS + length
            if main + main_length == total:
                fork, will_init = flags & BKPBLOCK_FORK_MASK, bool(flags & BKPBLOCK_WILL_INIT)
                block = Block(block_id, fork, spc, db, rel, number, data[_ONE_BLOCK_HEADERS:main], None, will_init)
                return Record(lsn, end_lsn, xid, info, rmid, prev, 0, 0, data[main:], (block,))
    parser = _Parser(data, lsn, VERSIONS[major].names_image_compression)
    main_data, blocks = parser.parse()
    return Record(lsn, end_lsn, xid, info, rmid, prev, parser.toplevel_xid, parser.origin, main_data, blocks)


class _Parser:
    """A cursor over one record's bytes."""

    def __init__(self, data: bytes, lsn: int, images_name_method: bool) -> None:
        self._data = data
        self._lsn = lsn
        self._images_name_method = images_name_method
        self._at = RECORD_HEADER.size
        self._announced = 0
        self._main_length = 0
        self.toplevel_xid = 0
        self.origin = 0
        self._headers: list[_BlockHeader] = []
        self._locator: tuple[int, int, int] | None = None

    def parse(self) -> tuple[bytes, tuple[Block, ...]]:
        """Return main data and blocks; everything else in the headers is left in the attributes."""
        self._parse_headers()
        if len(self._data) - self._at != self._announced:
            raise self._error(f"{self._announced} bytes are announced, found {len(self._data) - self._at}")
        blocks = tuple([self._finish_block(header) for header in self._headers])
        return self._take(self._main_length), blocks

    def _parse_headers(self) -> None:
        while len(self._data) - self._at > self._announced:
            block_id = self._number(1)
            if block_id <= XLR_MAX_BLOCK_ID:
                self._parse_block(block_id)
            elif block_id == XLR_BLOCK_ID_ORIGIN:
                self.origin = self._number(2)
            elif block_id == XLR_BLOCK_ID_TOPLEVEL_XID:
                self.toplevel_xid = self._number(4)
            elif block_id in (XLR_BLOCK_ID_DATA_SHORT, XLR_BLOCK_ID_DATA_LONG):
                self._main_length = self._number(1 if block_id == XLR_BLOCK_ID_DATA_SHORT else 4)
                self._announced += self._main_length
                # By convention the main data header is the last one.
                return
            else:
                raise self._error(f"invalid block_id {block_id}")

    def _parse_block(self, block_id: int) -> None:
        if self._headers and block_id <= self._headers[-1].id:
            raise self._error(f"out-of-order block_id {block_id}")
        flags = self._number(1)
        data_length = self._number(2)
        if bool(flags & BKPBLOCK_HAS_DATA) != (data_length > 0):
            raise self._error(f"BKPBLOCK_HAS_DATA contradicts the data length {data_length}")
        image = self._parse_image() if flags & BKPBLOCK_HAS_IMAGE else None
        if not flags & BKPBLOCK_SAME_REL:
            self._locator = (self._number(4), self._number(4), self._number(4))
        if self._locator is None:
            raise self._error("BKPBLOCK_SAME_REL set but no previous rel")
        self._headers.append(_BlockHeader(block_id, flags, self._locator, self._number(4), data_length, image))
        self._announced += data_length + (image.length if image is not None else 0)

    def _parse_image(self) -> _ImageHeader:
        length, offset = self._number(2), self._number(2)
        info = image_flags(self._number(1), self._images_name_method)
        if info & BKPIMAGE_COMPRESSED:
            hole = self._number(2) if info & BKPIMAGE_HAS_HOLE else 0
        else:
            hole = BLCKSZ - length
        has_hole = bool(info & BKPIMAGE_HAS_HOLE)
        good = (
            (offset > 0 and hole > 0 and length < BLCKSZ and offset + hole <= BLCKSZ)
            if has_hole
            else (offset == 0 and hole == 0)
        )
        if not good or (info & BKPIMAGE_COMPRESSED and length >= BLCKSZ):
            raise self._error(f"page image of {length} bytes contradicts its hole of {hole} bytes at {offset}")
        return _ImageHeader(length, offset, hole, info)

    def _finish_block(self, header: _BlockHeader) -> Block:
        image, head = None, header.image
        if head is not None:
            image = Image(self._take(head.length), head.hole_offset, head.hole_length, head.info, self._lsn)
        fork, will_init = header.flags & BKPBLOCK_FORK_MASK, bool(header.flags & BKPBLOCK_WILL_INIT)
        data = self._take(header.data_length)
        return Block(header.id, fork, *header.locator, header.block, data, image, will_init)

    def _take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        self._at += length
        return taken

    def _number(self, size: int) -> int:
        """Read the next little-endian number of so many bytes."""
        at = self._at
        self._at = at + size
        if self._at > len(self._data):
            raise self._error("its headers run over its end")
        return int.from_bytes(self._data[at : self._at], "little")

    def _error(self, what: str) -> RecordError:
        return RecordError(f"malformed record: {what}", lsn=self._lsn)
