"""Records taken apart: every part, every image, and bytes that make no sense."""

from __future__ import annotations

import struct
from typing import Literal

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import RecordError
from headwater.rmgr._record import parse_headers
from headwater.rmgr.header_slots import BLOCKS, DATA_AT, DATA_LENGTH, header_scratch
from headwater.wal.records.record import BLCKSZ, Block, Image, Record, parse_record
from unit.wal.plain_pglz import compress
from unit.wal.plain_wal import main_data, make_record

PAGE_IMAGE = np.random.default_rng(7).integers(0, 9, BLCKSZ, np.uint8).tobytes()
HOLE = (1000, 4000)
HOLED = PAGE_IMAGE[: HOLE[0]] + bytes(HOLE[1]) + PAGE_IMAGE[sum(HOLE) :]
SQUEEZED = HOLED[: HOLE[0]] + HOLED[sum(HOLE) :]


def block(
    block_id: int,
    flags: int,
    data: bytes = b"",
    image: bytes = b"",
    locator: bytes = struct.pack("<III", 1663, 5, 99),
    compressed: int = 0x1C,
) -> tuple[bytes, bytes]:
    """Make header and payload of a block reference; `image` is header and bytes, 5 or 7 bytes of header."""
    header = bytes([block_id, flags]) + struct.pack("<H", len(data))
    size = 0
    if image:
        info = image[4]
        size = 7 if info & 1 and info & compressed else 5
        header += image[:size]
    return header + locator + struct.pack("<I", 42), image[size:] + data


def image(data: bytes, offset: int, info: int, hole: int | None = None) -> bytes:
    header = struct.pack("<HHB", len(data), offset, info)
    return header + (struct.pack("<H", hole) if hole is not None else b"") + data


def assemble(*parts: tuple[bytes, bytes], tail: bytes = b"", main: bytes = b"") -> bytes:
    headers = b"".join(header for header, _ in parts) + tail
    if main:
        announced = main_data(main)
        headers += announced[: len(announced) - len(main)]
    return make_record(10, 0x20, 700, 0x1000, headers + b"".join(payload for _, payload in parts) + main)


def parse(data: bytes, major: int = 16) -> Record:
    return parse_record(data, 0x2000, 0x2000 + len(data), major)


def test_all_parts_of_a_record() -> None:
    data = assemble(
        block(0, 0x20, b"tuple"),
        block(2, 0x21 | 0x80, b"map", locator=b""),
        block(32, 0x40, locator=struct.pack("<III", 1664, 0, 7)),
        tail=b"\xfd\x07\x00" + b"\xfc" + struct.pack("<I", 699),
        main=b"main",
    )
    expected = Record(
        lsn=0x2000,
        end_lsn=0x2000 + len(data),
        xid=700,
        info=0x20,
        rmid=10,
        prev=0x1000,
        toplevel_xid=699,
        origin=7,
        main_data=b"main",
        blocks=(
            Block(0, 0, 1663, 5, 99, 42, b"tuple"),
            Block(2, 1, 1663, 5, 99, 42, b"map"),
            Block(32, 0, 1664, 0, 7, 42, will_init=True),
        ),
    )
    assert expected == parse(data)
    assert expected.blocks[1] == expected.block(2)
    assert expected.block(1) is None
    assert expected.blocks[2].locator == (1664, 0, 7)


def test_long_main_data() -> None:
    assert bytes(70_000) == parse(assemble(main=bytes(70_000))).main_data
    assert parse(make_record(0, 0x40, 0, 0, b"")).main_data == b""


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (image(PAGE_IMAGE, 0, 0x02), PAGE_IMAGE),
        (image(SQUEEZED, HOLE[0], 0x03), HOLED),
        (image(compress(SQUEEZED), HOLE[0], 0x07, HOLE[1]), HOLED),
        (image(compress(bytes(BLCKSZ)), 0, 0x06), bytes(BLCKSZ)),
        (image(pyarrow.compress(SQUEEZED, codec="lz4_raw", asbytes=True), HOLE[0], 0x0B, HOLE[1]), HOLED),
        (image(pyarrow.compress(SQUEEZED, codec="zstd", asbytes=True), HOLE[0], 0x13, HOLE[1]), HOLED),
        (image(SQUEEZED, HOLE[0], 0x01), HOLED),
    ],
    ids=["whole", "hole", "pglz", "pglz, no hole", "lz4", "zstd", "not applied"],
)
def test_images_come_back_whole(encoded: bytes, expected: bytes) -> None:
    parsed = parse(assemble(block(0, 0x10, image=encoded), main=b"x")).blocks[0]
    assert parsed.image is not None
    assert expected == parsed.image.page()
    assert bool(encoded[4] & 2) == parsed.image.is_applied


@pytest.mark.parametrize(
    ("encoded", "expected", "is_applied"),
    [
        (image(PAGE_IMAGE, 0, 0x04), PAGE_IMAGE, True),
        (image(SQUEEZED, HOLE[0], 0x05), HOLED, True),
        (image(compress(SQUEEZED), HOLE[0], 0x07, HOLE[1]), HOLED, True),
        (image(compress(SQUEEZED), HOLE[0], 0x03, HOLE[1]), HOLED, False),
        (image(compress(bytes(BLCKSZ)), 0, 0x06), bytes(BLCKSZ), True),
        (image(SQUEEZED, HOLE[0], 0x01), HOLED, False),
    ],
    ids=["whole", "hole", "compressed", "compressed, not applied", "compressed, no hole", "not applied"],
)
def test_images_of_14_come_back_whole(encoded: bytes, expected: bytes, is_applied: bool) -> None:
    """Other bits say that an image is compressed, and that it is applied; data after it is where the kernel says."""
    data = assemble(block(0, 0x30, b"tuple", encoded, compressed=0x02), main=b"x")
    parsed = parse(data, 14).blocks[0]
    assert parsed.image is not None
    assert (parsed.image.page(), parsed.image.is_applied, parsed.data) == (expected, is_applied, b"tuple")
    headers = header_scratch(14)
    assert parse_headers(np.frombuffer(data, np.uint8), 0, len(data), headers) == 1
    at = int(headers[BLOCKS + DATA_AT])
    assert data[at : at + int(headers[BLOCKS + DATA_LENGTH])] == b"tuple"


@pytest.mark.parametrize("info", [0x06, 0x0A, 0x12])
@given(data=st.binary(min_size=1, max_size=100))
def test_an_image_that_does_not_decompress_is_an_error(info: int, data: bytes) -> None:
    with pytest.raises(RecordError, match=r"could not decompress|wrong size"):
        Image(data, 0, 0, info, 1).page()


@pytest.mark.parametrize("size", [BLCKSZ - 1, BLCKSZ + 1, 0])
@pytest.mark.parametrize(("codec", "info"), [("lz4_raw", 0x0A), ("zstd", 0x12)])
def test_an_image_of_another_length_is_an_error(codec: Literal["lz4_raw", "zstd"], info: int, size: int) -> None:
    data = pyarrow.compress(bytes(size), codec=codec, asbytes=True)
    with pytest.raises(RecordError, match=r"could not decompress|wrong size"):
        Image(data, 0, 0, info, 1).page()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (assemble((b"\x80", b"")), "invalid block_id 128"),
        (assemble(block(1, 0), block(1, 0)), "out-of-order block_id 1"),
        (assemble(block(0, 0x20)), "BKPBLOCK_HAS_DATA"),
        (assemble(block(0, 0x00, b"x")), "BKPBLOCK_HAS_DATA"),
        (assemble(block(0, 0x80, locator=b"")), "no previous rel"),
        (assemble(block(0, 0x10, image=image(b"x", 0, 0x02))), "contradicts its hole"),
        (assemble(block(0, 0x10, image=image(SQUEEZED, 0, 0x03))), "contradicts its hole"),
        (assemble(block(0, 0x10, image=image(SQUEEZED, 8000, 0x03))), "contradicts its hole"),
        (assemble(block(0, 0x10, image=image(bytes(BLCKSZ), 0, 0x06))), "contradicts its hole"),
        (make_record(0, 0, 0, 0, b"\xff\x05abc"), "bytes are announced"),
        (make_record(0, 0, 0, 0, b"\xff\x02abc"), "bytes are announced"),
        (make_record(0, 0, 0, 0, b"\xfe\x02"), "run over its end"),
        (make_record(0, 0, 0, 0, b"x")[:-1], "expected 25"),
        (b"", "expected at least 24"),
    ],
)
def test_malformed_records_are_named(data: bytes, message: str) -> None:
    with pytest.raises(RecordError, match=message) as caught:
        parse(data)
    assert caught.value.lsn == 0x2000


RICH = assemble(
    block(0, 0x30, b"tuple", image(compress(SQUEEZED), HOLE[0], 0x07, HOLE[1])),
    block(1, 0xA0, b"old", locator=b""),
    tail=b"\xfc" + struct.pack("<I", 699),
    main=b"main data",
)


@given(st.lists(st.tuples(st.integers(24, 80), st.integers(0, 255)), min_size=1, max_size=4), st.integers(0, 30))
def test_changed_bytes_parse_or_raise_record_errors(changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(RICH[: len(RICH) - cut])
    for at, value in changes:
        data[at] = value
    struct.pack_into("<I", data, 0, len(data))
    try:
        for parsed in parse(bytes(data)).blocks:
            if parsed.image is not None:
                parsed.image.page()
    except RecordError:
        return


@given(st.binary(max_size=64))
def test_any_body_parses_or_raises_record_errors(body: bytes) -> None:
    try:
        record = parse(make_record(10, 0, 1, 0, body))
    except RecordError:
        return
    empty = Record(0x2000, 0x2000 + 24 + len(body), 1, 0, 10)
    assert record._replace(main_data=b"", blocks=()) == empty._replace(
        toplevel_xid=record.toplevel_xid, origin=record.origin
    )
