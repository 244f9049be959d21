"""The outline kernel against records parsed one by one, and the choice of records."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import RecordError
from headwater.rmgr.outline import EVERY_RECORD, RecordChoice, chosen_records, outline
from headwater.rmgr.record_stats import RecordStats
from headwater.wal.records.record import Record, parse_record
from unit.rmgr import plain_records as plain

SEGMENT = 1 << 20
MAJOR = 16


def with_blocks(xid: int, blocks: list[tuple[int, int, int, bytes, int]], main: bytes) -> bytes:
    """Make a record of blocks (fork, file, number, data, bytes of image)."""
    headers, payload = b"", b""
    for at, (fork, file, number, data, image) in enumerate(blocks):
        flags = fork | (0x20 if data else 0) | (0x10 if image else 0)
        headers += struct.pack("<BBH", at, flags, len(data))
        # Not compressed: the hole is what the image lacks.
        headers += struct.pack("<HHB", image, 24, 0x03) if image else b""
        headers += struct.pack("<IIII", plain.SPC, plain.DATABASE, file, number)
        payload += b"i" * image + data
    headers += struct.pack("<BB", 255, len(main)) if main else b""
    body = headers + payload + main
    return struct.pack("<IIQBBHI", 24 + len(body), xid, 77, 0x00, 10, 0, 0) + body


one_block = st.tuples(
    st.integers(0, 3), st.integers(20000, 20002), st.integers(0, 2), st.binary(max_size=9), st.sampled_from([0, 0, 100])
)
records = st.lists(
    st.one_of(
        st.builds(with_blocks, st.integers(3, 6), st.lists(one_block, max_size=3), st.binary(max_size=20)),
        st.builds(plain.commit, st.integers(3, 6)),
        st.builds(plain.insert, st.integers(3, 6), st.integers(20000, 20002), toplevel=st.just(3)),
        st.builds(plain.record, st.just(150), st.just(0xA0), st.just(0), st.just(b"extension")),
    ),
    min_size=1,
    max_size=12,
)
maybe = st.none
choices = st.builds(
    RecordChoice,
    start=st.sampled_from([0, 0x1000100]),
    end=maybe() | st.integers(0x1000028, 0x1000400),
    managers=st.sampled_from([frozenset(), frozenset({10}), frozenset({1, 150})]),
    xid=maybe() | st.integers(3, 6),
    relation=maybe() | st.just((plain.SPC, plain.DATABASE, 20001)),
    block=maybe() | st.integers(0, 2),
    fork=maybe() | st.integers(0, 3),
    has_image=st.booleans(),
)


def is_chosen(record: Record, length: int, choice: RecordChoice) -> bool:
    asks_blocks = (choice.relation, choice.block, choice.fork) != (None, None, None)
    fits = [
        choice.relation in (None, block.locator)
        and choice.block in (None, block.block)
        and choice.fork in (None, block.fork)
        for block in record.blocks
    ]
    return (
        record.lsn >= choice.start
        and (choice.end is None or record.lsn + length <= choice.end)
        and (not choice.managers or record.rmid in choice.managers)
        and choice.xid in (None, record.xid)
        and (not asks_blocks or any(fits))
        and (not choice.has_image or any(block.image is not None for block in record.blocks))
    )


@given(records, choices)
def test_as_records_parsed_one_by_one(made: list[bytes], choice: RecordChoice) -> None:
    frames = plain.frames(made)
    outlined = outline(frames, SEGMENT, MAJOR, choice)
    parsed = [
        parse_record(frames.record(i), int(frames.lsns[i]), int(frames.end_lsns[i]), MAJOR) for i in range(len(made))
    ]
    images = [sum(len(block.image.data) for block in record.blocks if block.image) for record in parsed]
    assert outlined.xid.tolist() == [record.xid for record in parsed]
    assert outlined.prev.tolist() == [record.prev for record in parsed]
    assert outlined.rmid.tolist() == [record.rmid for record in parsed]
    assert outlined.info.tolist() == [record.info for record in parsed]
    assert outlined.length.tolist() == [len(raw) for raw in made]
    assert outlined.image_bytes.tolist() == images
    expected = [record for record, data in zip(parsed, made, strict=True) if is_chosen(record, len(data), choice)]
    assert expected == list(chosen_records(frames, outlined, MAJOR))


def test_where_a_record_ends() -> None:
    """On the page where its last byte is, before what makes its length a multiple of eight, and after page headers."""
    record = plain.record(10, 0, 3, b"x" * 27)
    for start, end in ((0x1002018, 0x1002018 + len(record)), (0x1003FF0, 0x1004018 + len(record) - 16)):
        outlined = outline(plain.frames([record], start), SEGMENT, MAJOR)
        assert outlined.end.tolist() == [end]
    exact = plain.record(10, 0, 3, b"x" * 38)
    assert len(exact) == 64
    assert outline(plain.frames([exact], 0x1004000 - 64), SEGMENT, MAJOR).end.tolist() == [0x1004000]


def test_a_malformed_record() -> None:
    frames = plain.frames([plain.insert(3, 20000), plain.insert(3, 20000)])
    at = int(frames.positions[1])
    frames.data[at + 26 : at + 28] = 255
    with pytest.raises(RecordError, match="its lengths disagree") as caught:
        outline(frames, SEGMENT, MAJOR)
    assert caught.value.lsn == int(frames.lsns[1])


@given(st.lists(records, min_size=1, max_size=3))
def test_statistics(pieces: list[list[bytes]]) -> None:
    stats = RecordStats(MAJOR)
    outlines = [outline(plain.frames(made), SEGMENT, MAJOR, EVERY_RECORD) for made in pieces]
    for outlined in outlines:
        stats.add(outlined)
    total = sum(len(made) for made in pieces)
    assert stats.total.records == total == sum(row.records for row in stats.by_kind())
    assert stats.total.record_bytes + stats.total.image_bytes == sum(len(data) for made in pieces for data in made)
    by_manager = {row.name: row for row in stats.by_manager()}
    assert sum(row.record_bytes for row in by_manager.values()) == stats.total.record_bytes
    assert by_manager["Heap"].records == sum(int(np.sum(outlined.rmid == 10)) for outlined in outlines)
    customs = sum(int(np.sum(outlined.rmid == 150)) for outlined in outlines)
    assert ("custom150" in by_manager) == (customs > 0)
    assert {row.name: row.records for row in stats.by_kind()}.get("custom150/UNKNOWN (a0)", 0) == customs
