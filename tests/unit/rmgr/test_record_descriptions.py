"""Descriptions of records that no workload is sure to write; ``tests/records`` has the others, and the server."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import RecordError
from headwater.pg.version import VERSIONS
from headwater.rmgr import registry as r
from headwater.rmgr.description import (
    block_ref,
    blocks_in_detail,
    blocks_in_short,
    description,
    image_bytes,
    kind_name,
    manager_name,
)
from headwater.rmgr.description_parts import Style, file_path, utc_stamp
from headwater.wal.records.record import Block, Image, Record

LSN = 0x3000028
MAJORS = sorted(VERSIONS)


def style(major: int) -> Style:
    return Style(VERSIONS[major], utc_stamp)


def described(major: int, rmid: int, info: int, main: bytes, *block_data: bytes, origin: int = 0) -> str:
    blocks = tuple(Block(i, 0, 1663, 5, 20000, i, data) for i, data in enumerate(block_data))
    record = Record(LSN, LSN + 100, 700, info, rmid, main_data=main, blocks=blocks, origin=origin)
    return description(record, style(major))


@pytest.mark.parametrize(
    ("rmid", "info", "main", "texts"),
    [
        (r.CLOG, 0x00, struct.pack("<q", 3), {15: "page 3", 18: "page 3"}),
        (r.CLOG, 0x10, struct.pack("<iII", 3, 800, 5), {15: "page 3; oldestXact 800"}),
        (r.CLOG, 0x10, struct.pack("<qII", 1 << 33, 800, 5), {17: "page 8589934592; oldestXact 800"}),
        (r.COMMIT_TS, 0x10, struct.pack("<iI", 3, 800), {16: "pageno 3, oldestXid 800"}),
        (r.MULTIXACT, 0x00, struct.pack("<q", 9), {15: "9", 17: "9"}),
        (
            r.MULTIXACT,
            0x20,
            struct.pack("<IIiIIIIII", 7, 30, 3, 801, 1, 802, 5, 803, 6),
            {15: "7 offset 30 nmembers 3: 801 (sh) 802 (upd) 803 (unk) "},
        ),
        (r.MULTIXACT, 0x30, struct.pack("<5I", 5, 1, 2, 3, 4), {18: "offsets [1, 2), members [3, 4)"}),
        (
            r.MULTIXACT,
            0x20,
            struct.pack("<I4xQiII", 7, 1 << 33, 1, 801, 1),
            {19: "7 offset 8589934592 nmembers 1: 801 (sh) "},
        ),
        (r.MULTIXACT, 0x30, struct.pack("<IIQ", 5, 1, 1 << 33), {19: "oldestMulti 1, oldestOffset 8589934592"}),
        (r.TBLSPC, 0x00, struct.pack("<I", 20001) + b"/away\0", {15: '20001 "/away"'}),
        (r.TBLSPC, 0x10, struct.pack("<I", 20001), {15: "20001"}),
        (
            r.GENERIC,
            0x00,
            struct.pack("<HH3sHHs", 8, 3, b"abc", 100, 1, b"d"),
            {15: "offset 8, length 3; offset 100, length 1"},
        ),
        (r.SPGIST, 0x70, struct.pack("<H", 4), {15: "ndelete: 4"}),
        (
            r.SPGIST,
            0x30,
            struct.pack("<HH?bHH", 1, 2, True, -1, 4, 5),
            {15: "off: 1, newoff: 2, parentBlk: -1, parentoff: 4, nodeI: 5 (newpage)"},
        ),
        (r.SPGIST, 0x40, struct.pack("<HH??", 1, 2, True, True), {15: "prefixoff: 1, postfixoff: 2 (newpage) (same)"}),
        (
            r.SPGIST,
            0x80,
            struct.pack("<HHI?", 1, 2, 900, True),
            {
                15: "ntoplaceholder: 1, firstplaceholder: 2, newestredirectxid: 900",
                16: "ntoplaceholder: 1, firstplaceholder: 2, snapshotConflictHorizon: 900",
                17: "ntoplaceholder: 1, firstplaceholder: 2, snapshotConflictHorizon: 900, isCatalogRel: T",
            },
        ),
        (r.GIST, 0x60, struct.pack("<QH", 5 << 32 | 900, 3), {15: "deleteXid 5:900; downlink 3"}),
        (
            r.GIST,
            0x20,
            struct.pack("<IIIIQ?", 1663, 5, 20000, 7, 900, True),
            {
                15: "rel 1663/5/20000; blk 7; latestRemovedXid 0:900",
                16: "rel 1663/5/20000; blk 7; snapshotConflictHorizon 0:900",
                18: "rel 1663/5/20000; blk 7; snapshotConflictHorizon 0:900, isCatalogRel T",
            },
        ),
        (
            r.GIST,
            0x10,
            struct.pack("<IHx?", 900, 3, True),
            {15: "delete: latestRemovedXid 900, nitems: 3", 16: "delete: snapshotConflictHorizon 900, nitems: 3"},
        ),
        (
            r.HASH,
            0x40,
            struct.pack("<IHHB", 3, 1, 2, 2),
            {15: "new_bucket 3, meta_page_masks_updated F, issplitpoint_changed T"},
        ),
        (r.HASH, 0x60, struct.pack("<HH", 1, 2), {15: "old_bucket_flag 1, new_bucket_flag 2"}),
        (r.HASH, 0xC0, struct.pack("<Ii", 900, 70000), {15: "ntuples 70000, latestRemovedXid 900"}),
        (
            r.HASH,
            0xC0,
            struct.pack("<IH?", 900, 7, False),
            {
                16: "ntuples 7, snapshotConflictHorizon 900",
                17: "ntuples 7, snapshotConflictHorizon 900, isCatalogRel F",
            },
        ),
        (r.HASH, 0xB0, struct.pack("<d", 1e6), {15: "ntuples 1e+06"}),
        (r.BRIN, 0x50, struct.pack("<IIH", 128, 256, 9), {15: "pagesPerRange 128, heapBlk 256, page offset 9"}),
        (
            r.BRIN,
            0xA0,
            struct.pack("<HxxIIH", 4, 256, 128, 9),
            {15: "heapBlk 256 pagesPerRange 128 old offnum 4, new offnum 9"},
        ),
        (
            r.BTREE,
            0xB0,
            struct.pack("<HxxIIII", 1, 2, 3, 4, 5),
            {15: "topparent 5; leaf 2; left 3; right 4", 16: "topparent: 5, leaf: 2, left: 3, right: 4"},
        ),
        (
            r.BTREE,
            0x90,
            struct.pack("<IIIxxxxQIII", 1, 2, 3, 1 << 32 | 9, 4, 5, 6),
            {
                15: "left 1; right 2; level 3; safexid 1:9; leafleft 4; leafright 5; leaftopparent 6",
                17: "left: 1, right: 2, level: 3, safexid: 1:9, leafleft: 4, leafright: 5, leaftopparent: 6",
            },
        ),
        (
            r.BTREE,
            0xD0,
            struct.pack("<IIIIQ?", 1663, 5, 20000, 7, 900, True),
            {
                15: "rel 1663/5/20000; latestRemovedXid 0:900",
                16: "rel: 1663/5/20000, snapshotConflictHorizon: 0:900",
                18: "rel: 1663/5/20000, snapshotConflictHorizon: 0:900, isCatalogRel: T",
            },
        ),
        (
            r.HEAP,
            0x30,
            struct.pack("<IIBxxxII", 5, 2, 3, 20000, 20001),
            {
                15: "cascade restart_seqs nrelids 2 relids 20000 20001",
                16: "flags: [CASCADE, RESTART_SEQS], nrelids: 2, relids: [20000, 20001]",
            },
        ),
        (
            r.HEAP,
            0x10,
            struct.pack("<IHBB", 801, 3, 0x1F, 0),
            {
                15: "off 3 flags 0x00 IS_MULTI LOCK_ONLY EXCL_LOCK KEYSHR_LOCK KEYS_UPDATED ",
                16: "xmax: 801, off: 3, infobits: [IS_MULTI, LOCK_ONLY, EXCL_LOCK, KEYSHR_LOCK, KEYS_UPDATED], "
                "flags: 0x00",
            },
        ),
        (
            r.HEAP,
            0x70,
            struct.pack("<HxxII?xxxi", 3, 5, 1663, True, 1) + struct.pack("<bxxxII4x", -2, 5, 1259),
            {17: "off: 3", 18: "off: 3; relcache init file inval dbid 5 tsid 1663; inval msgs: relcache 1259"},
        ),
        (r.HEAP2, 0x00, b"anything", {15: "", 18: ""}),
        (
            r.STANDBY,
            0x10,
            struct.pack("<ii?xxxIII3I", 1, 2, True, 900, 800, 899, 800, 801, 802),
            {
                15: "nextXid 900 latestCompletedXid 899 oldestRunningXid 800; 1 xacts: 800; subxid ovf",
                16: "nextXid 900 latestCompletedXid 899 oldestRunningXid 800; 1 xacts: 800; subxid overflowed; "
                "2 subxacts: 801 802",
            },
        ),
        (r.XLOG, 0x30, struct.pack("<I", 24576), {15: "24576"}),
        (r.XLOG, 0x50, struct.pack("<Q", 1 << 32 | 0x28), {15: "1/28", 19: "1/00000028"}),
        (r.XLOG, 0xF0, b"\1", {19: "true"}),
        (r.XLOG, 0xC0, b"", {19: ""}),
        (
            r.HEAP2,
            0x10,
            struct.pack("<HI", 0x308, 900),
            {19: "snapshotConflictHorizon: 900, isCatalogRel: F, vm_flags: 0x03"},
        ),
        (r.XLOG, 0x80, b"\1", {15: "true"}),
        (
            r.XLOG,
            0x90,
            struct.pack("<qIIi", 1_500_000, 2, 1, 2),
            {
                15: "tli 2; prev tli 1; time 2000-01-01 00:00:01.500000 UTC",
                17: "tli 2; prev tli 1; time 2000-01-01 00:00:01.500000 UTC; wal_level logical",
            },
        ),
        (r.XLOG, 0xE0, struct.pack("<i", 7), {17: "wal_level ?"}),
        (r.XLOG, 0x20, b"", {15: ""}),
        (130, 0xA0, b"what", {15: "rmid: 130"}),
    ],
)
def test_words_of_each_version(rmid: int, info: int, main: bytes, texts: dict[int, str]) -> None:
    assert {major: described(major, rmid, info, main) for major in texts} == texts


def test_the_words_of_a_commit() -> None:
    xinfo = 0x1FF | 7 << 29
    main = struct.pack("<qIII", 0, xinfo, 5, 1663) + struct.pack("<iI", 1, 701) + struct.pack("<iIII", 1, 1664, 0, 1262)
    main += struct.pack("<iiIII", 1, 2, 5, 7, 1) + struct.pack("<i", 1) + struct.pack("<bxxxII4x", 50, 5, 1)
    main += struct.pack("<I", 699) + b"gid\0" + struct.pack("<Qq", 0xABCD, -1)
    assert described(18, r.XACT, 0xB0, main, origin=3) == (
        "699: 2000-01-01 00:00:00.000000 UTC; rels: global/1262; subxacts: 701; dropped stats: 2/5/4294967303; "
        "relcache init file inval dbid 5 tsid 1663; inval msgs: catcache 50; apply_feedback; sync; "
        "origin: node 3, lsn 0/ABCD, at 2000-01-01 00:00:00.-00001 UTC"
    )


def test_14_does_not_tell_where_an_abort_came_from() -> None:
    main = struct.pack("<qI", 0, 1 << 5 | 1 << 29) + struct.pack("<Qq", 0xABCD, 1)
    origin = "; origin: node 3, lsn 0/ABCD, at 2000-01-01 00:00:00.000001 UTC"
    for major, of_abort, feedback in ((14, "", ""), (15, origin, "; apply_feedback")):
        assert described(major, r.XACT, 0xA0, main, origin=3) == f"2000-01-01 00:00:00.000000 UTC{of_abort}"
        assert described(major, r.XACT, 0x80, main, origin=3) == f"2000-01-01 00:00:00.000000 UTC{feedback}{origin}"


def test_pages_of_indexes() -> None:
    """Index records whose words depend on the data of their first block."""
    lists = struct.pack("<2H", 7, 8) + struct.pack("<H", 9) + struct.pack("<H2H", 2, 1, 3)
    expected = ", deleted: [7, 8], updated: [{ off: 9, nptids: 2, ptids: [1, 3] }]"
    assert described(16, r.BTREE, 0xC0, struct.pack("<HH", 2, 1), lists) == f"ndeleted: 2, nupdated: 1{expected}"
    assert described(15, r.BTREE, 0xC0, struct.pack("<HH", 2, 1), lists) == "ndeleted 2; nupdated 1"
    assert described(16, r.BTREE, 0xE0, b"", struct.pack("<6I", 4, 1, 0, 1, 0, 12)) == "last_cleanup_num_delpages: 12"
    actions = struct.pack("<H", 4) + struct.pack("<BBH", 1, 4, 1) + bytes(6) + b"\2\1" + struct.pack("<BB6xH", 3, 2, 3)
    actions += b"abc\0" + struct.pack("<BB", 4, 9)
    shown = " 4 segments: 1 (add 1 items) 2 (delete) 3 (insert) 4 unknown action 9 ???"
    assert described(15, r.GIN, 0x90, b"", actions) == shown
    assert described(15, r.GIN, 0x20, struct.pack("<H", 3), actions) == f"isdata: T isleaf: T{shown}"
    inner = struct.pack("<HHHHHHHH", 1, 0, 5, 0, 6, 7, 0, 0)
    children = struct.pack("<HHHHH", 1, 0, 2, 1, 3)
    assert described(15, r.GIN, 0x20, children, inner) == "isdata: T isleaf: F children: 2/65539 pitem: 5-6/7"
    entry = struct.pack("<HB", 1, 1)
    assert described(15, r.GIN, 0x20, struct.pack("<H", 2), entry) == "isdata: F isleaf: T isdelete: T"
    assert described(15, r.GIN, 0x30, bytes(24) + struct.pack("<H", 7)) == "isrootsplit: T isdata: T isleaf: T"


def test_prunes_of_each_version() -> None:
    lists = struct.pack("<4H", 1, 4, 3, 7)
    old = struct.pack("<IHH?", 900, 1, 1, True)
    assert described(15, r.HEAP2, 0x10, old[:8], lists) == "latestRemovedXid 900 nredirected 1 ndead 1"
    assert described(16, r.HEAP2, 0x10, old, lists) == (
        "snapshotConflictHorizon: 900, nredirected: 1, ndead: 1, nunused: 1, redirected: [1->4], dead: [3], unused: [7]"
    )
    assert described(16, r.HEAP2, 0x10, old) == "snapshotConflictHorizon: 900, nredirected: 1, ndead: 1"
    new = bytes((0, 0x02 | 0x08 | 0x20 | 0x80)) + struct.pack("<I", 900)
    sections = struct.pack("<3H", 1, 1, 4) + struct.pack("<2H", 1, 7)
    assert described(17, r.HEAP2, 0x10, new, sections) == (
        "snapshotConflictHorizon: 900, isCatalogRel: T, nplans: 0, nredirected: 1, ndead: 0, nunused: 1, "
        "redirected: [1->4], unused: [7]"
    )
    assert described(17, r.HEAP2, 0x30, bytes((0, 0x04))) == ", isCatalogRel: F"


def test_blocks() -> None:
    image = Image(b"x" * 100, 24, 8092, 0x03, LSN)
    packed = Image(b"x" * 90, 24, 8000, 0x01 | 0x10, LSN)
    blocks = (Block(1, 0, 1663, 5, 20000, 3, image=image), Block(2, 2, 1663, 5, 20000, 0, image=packed))
    record = Record(LSN, LSN, 0, 0, r.HEAP, blocks=blocks)
    assert blocks_in_short(record) == (
        ", blkref #1: rel 1663/5/20000 blk 3 FPW, blkref #2: rel 1663/5/20000 fork vm blk 0 FPW for WAL verification"
    )
    first, second = blocks_in_detail(record, VERSIONS[16])
    assert first == "blkref #1: rel 1663/5/20000 fork main blk 3 (FPW); hole: offset: 24, length: 8092"
    assert second == (
        "blkref #2: rel 1663/5/20000 fork vm blk 0 (FPW for WAL verification); hole: offset: 24, length: 8000, "
        "compression saved: 102, method: zstd"
    )
    assert block_ref(record, VERSIONS[16]) == f" {first} {second}"
    assert blocks_in_detail(record, VERSIONS[14]) == [first, second.removesuffix(", method: zstd")]
    assert image_bytes(record) == 190


def test_names_and_paths() -> None:
    assert [manager_name(rmid) for rmid in (0, 21, 130)] == ["XLOG", "LogicalMessage", "custom130"]
    assert kind_name(16, r.HEAP, 0x83, LSN) == "INSERT+INIT"
    assert kind_name(16, 200, 0xA3, LSN) == "UNKNOWN (a0)"
    assert file_path((1663, 5, 7), 1, VERSIONS[16]) == "base/5/7_fsm"
    assert file_path((1664, 0, 7), 0, VERSIONS[16]) == "global/7"
    assert file_path((20001, 5, 7), 3, VERSIONS[16]) == "pg_tblspc/20001/PG_16_202307071/5/7_init"
    with pytest.raises(RecordError, match="unknown info code"):
        described(16, r.XLOG, 0xE0, b"")


def test_times() -> None:
    assert [utc_stamp(time) for time in (-1, 0, (1 << 63) - 1)] == [
        "2000-01-01 00:00:00.-00001 UTC",
        "2000-01-01 00:00:00.000000 UTC",
        "294277-01-09 04:00:54.775807 UTC",
    ]


@settings(max_examples=400)
@given(st.data())
def test_odd_bytes_give_words_or_our_error(data: st.DataObject) -> None:
    major = data.draw(st.sampled_from(MAJORS))
    rmid = data.draw(st.integers(0, 21))
    info = data.draw(st.sampled_from(sorted(r.CODES[major][rmid])))
    main, *blocks = data.draw(st.lists(st.binary(max_size=60), min_size=1, max_size=3))
    try:
        described(major, rmid, info, main, *blocks)
    except RecordError as error:
        assert error.lsn == LSN  # noqa: PT017
