"""Records of the GIN resource manager described (PostgreSQL: ``access/ginxlog.h``, ``gindesc.c``)."""

from __future__ import annotations

from headwater.rmgr.description_parts import Style, letter
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

CREATE_PTREE, INSERT, SPLIT, VACUUM_PAGE, DELETE_PAGE, UPDATE_META_PAGE = range(0x10, 0x70, 0x10)
INSERT_LISTPAGE, DELETE_LISTPAGE, VACUUM_DATA_LEAF_PAGE = range(0x70, 0xA0, 0x10)

_IS_DATA, _IS_LEAF, _SPLIT_ROOT = 0x01, 0x02, 0x04
_SEGMENT_WORDS = {1: "delete", 2: "insert", 3: "replace"}
_SEGMENT_INSERT, _SEGMENT_REPLACE, _SEGMENT_ADD_ITEMS = 2, 3, 4
_ITEM_SIZE = 6
_META_PAGE_SIZE = 56
_LOCATOR_SIZE = 16
"""Its size before the 64-bit numbers that follow it, which are aligned."""

_INVALID_BLOCK = 0xFFFFFFFF


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (gin_desc).

    Raises:
        RecordError: malformed.
    """
    p = Payload(record.main_data, "GIN", record.lsn)
    kind = record.kind
    if kind == INSERT:
        return _insert(record, p, style)
    if kind == SPLIT:
        p.take(24)
        flags = p.u16()
        return f"isrootsplit: {letter(flags & _SPLIT_ROOT)} {_page_kind(flags)}"
    if kind == VACUUM_DATA_LEAF_PAGE:
        return _recompression(_page_data(record)) if _has_change(record) else _image(record, style)
    if kind == DELETE_LISTPAGE:
        p.take(_META_PAGE_SIZE)
        return f"ndeleted: {p.i32()}"
    if kind == UPDATE_META_PAGE and style.version.describes_more_of_indexes:
        p.take(_LOCATOR_SIZE + _META_PAGE_SIZE)
        tail, link, tuples = p.u32(), p.u32(), p.i32()
        return f"ntuples: {tuples}{_block('prevTail', tail)}{_block('newRightlink', link)}"
    if kind == INSERT_LISTPAGE and style.version.describes_more_of_indexes:
        link, tuples = p.u32(), p.i32()
        return f"ntuples: {tuples}{_block('rightlink', link)}"
    return ""


def _block(name: str, number: int) -> str:
    return "" if number == _INVALID_BLOCK else f" {name}: {number}"


def _page_kind(flags: int) -> str:
    return f"isdata: {letter(flags & _IS_DATA)} isleaf: {letter(flags & _IS_LEAF)}"


def _page_data(record: Record) -> Payload:
    block = record.block(0)
    return Payload(block.data if block is not None else b"", "GIN", record.lsn)


def _has_change(record: Record) -> bool:
    """Tell whether the record says what is done to the page, which it does unless it has the whole page."""
    block = record.block(0)
    return block is None or block.image is None


def _image(record: Record, style: Style) -> str:
    """Say that the record has the whole page."""
    block = record.block(0)
    if block is None or block.image is None or style.version.describes_more_of_indexes:
        return ""
    return " (full page image)" if block.image.is_applied else " (full page image, for WAL verification)"


def _insert(record: Record, p: Payload, style: Style) -> str:
    flags = p.u16()
    children = "" if flags & _IS_LEAF else f" children: {p.block_id()}/{p.block_id()}"
    change = _inserted(_page_data(record), flags) if _has_change(record) else _image(record, style)
    return f"{_page_kind(flags)}{children}{change}"


def _inserted(p: Payload, flags: int) -> str:
    if not flags & _IS_DATA:
        p.take(2)
        return f" isdelete: {letter(p.flag())}"
    if flags & _IS_LEAF:
        return _recompression(p)
    p.take(2)
    return f" pitem: {p.block_id()}-{p.block_id()}/{p.u16()}"


def _recompression(p: Payload) -> str:
    """Describe what happens to the segments of a leaf page (desc_recompress_leaf)."""
    count = p.u16()
    text = f" {count} segments:"
    for _ in range(count):
        segment, action = p.u8(), p.u8()
        if action in (_SEGMENT_INSERT, _SEGMENT_REPLACE):
            p.take(_ITEM_SIZE)
            length = p.u16()
            p.take(length + (length & 1))
        if action == _SEGMENT_ADD_ITEMS:
            items = p.u16()
            p.take(items * _ITEM_SIZE)
            text += f" {segment} (add {items} items)"
        elif action in _SEGMENT_WORDS:
            text += f" {segment} ({_SEGMENT_WORDS[action]})"
        else:
            return text + f" {segment} unknown action {action} ???"
    return text
