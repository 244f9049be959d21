"""Records of the BTREE resource manager described (PostgreSQL: ``access/nbtxlog.h``, ``nbtdesc.c``).

Decoding passes over them: they hold no row that is not in the heap.
"""

from __future__ import annotations

from headwater.rmgr.description_parts import Style, catalog_flag, full_xid, joined, locator_text
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

INSERT_LEAF, INSERT_UPPER, INSERT_META, SPLIT_L, SPLIT_R, INSERT_POST, DEDUP, DELETE = range(0x00, 0x80, 0x10)
UNLINK_PAGE, UNLINK_PAGE_META, NEWROOT, MARK_PAGE_HALFDEAD, VACUUM, REUSE_PAGE, META_CLEANUP = range(0x80, 0xF0, 0x10)


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (btree_desc).

    Raises:
        RecordError: malformed.
    """
    p = Payload(record.main_data, "btree", record.lsn)
    text = _describe(record, p, style)
    return text if style.version.describes_with_colons else _without_colons(record.kind, text)


def _describe(record: Record, p: Payload, style: Style) -> str:
    kind = record.kind
    if kind in (INSERT_LEAF, INSERT_UPPER, INSERT_META, INSERT_POST):
        return f"off: {p.u16()}"
    if kind in (SPLIT_L, SPLIT_R):
        return f"level: {p.u32()}, firstrightoff: {p.u16()}, newitemoff: {p.u16()}, postingoff: {p.u16()}"
    if kind == DEDUP:
        return f"nintervals: {p.u16()}"
    if kind == VACUUM:
        deleted, updated = p.u16(), p.u16()
        return f"ndeleted: {deleted}, nupdated: {updated}" + _offsets(record, deleted, updated, style)
    if kind == DELETE:
        return _deletion(record, p, style)
    if kind == MARK_PAGE_HALFDEAD:
        p.take(4)
        leaf, left, right, top = p.u32(), p.u32(), p.u32(), p.u32()
        return f"topparent: {top}, leaf: {leaf}, left: {left}, right: {right}"
    if kind in (UNLINK_PAGE, UNLINK_PAGE_META):
        head = f"left: {p.u32()}, right: {p.u32()}, level: {p.u32()}"
        p.align(8)
        tail = f"safexid: {full_xid(p.u64())}, leafleft: {p.u32()}, leafright: {p.u32()}, leaftopparent: {p.u32()}"
        return f"{head}, {tail}"
    if kind == NEWROOT:
        p.take(4)
        return f"level: {p.u32()}"
    if kind == REUSE_PAGE:
        return _reuse(p, style)
    metadata = Payload(_block_data(record), "btree META_CLEANUP", record.lsn)
    metadata.take(20)
    return f"last_cleanup_num_delpages: {metadata.u32()}"


def _deletion(record: Record, p: Payload, style: Style) -> str:
    horizon, deleted, updated = p.u32(), p.u16(), p.u16()
    counts = f"ndeleted: {deleted}, nupdated: {updated}"
    if not style.version.logs_catalog_flags:
        return f"latestRemovedXid: {horizon}, {counts}"
    offsets = _offsets(record, deleted, updated, style)
    return f"snapshotConflictHorizon: {horizon}, {counts}{catalog_flag(p.flag(), style)}{offsets}"


def _reuse(p: Payload, style: Style) -> str:
    relation, _, horizon = locator_text(p.locator()), p.u32(), full_xid(p.u64())
    if not style.version.logs_catalog_flags:
        return f"rel: {relation}, latestRemovedXid: {horizon}"
    return f"rel: {relation}, snapshotConflictHorizon: {horizon}{catalog_flag(p.flag(), style)}"


def _block_data(record: Record) -> bytes:
    block = record.block(0)
    return block.data if block is not None else b""


def _offsets(record: Record, deleted: int, updated: int, style: Style) -> str:
    """List the items that went, and those that lost some of their posting list (delvacuum_desc)."""
    data = _block_data(record)
    if not data or not style.version.describes_with_colons:
        return ""
    p = Payload(data, "btree", record.lsn)
    gone, changed = p.u16s(deleted), p.u16s(updated)
    updates = []
    for offset in changed:
        tids = p.u16s(p.u16())
        updates.append(f"{{ off: {offset}, nptids: {len(tids)}, ptids: {joined(tids)} }}")
    return f", deleted: {joined(gone)}, updated: {joined(updates)}"


def _without_colons(kind: int, text: str) -> str:
    """Put a description in the words of 14 and 15, where semicolons part the values of some records."""
    plain = text.replace("level: ", "lev: ").replace(": ", " ") if kind == NEWROOT else text.replace(": ", " ")
    parted_by_commas = kind in (SPLIT_L, SPLIT_R)
    return plain if parted_by_commas else plain.replace(", ", "; ")
