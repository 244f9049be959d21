"""Records as ``pg_waldump`` and ``pg_walinspect`` describe them (PostgreSQL: ``rmgrdesc/*.c``, ``pg_waldump.c``).

In: a parsed record. Out: text, in the words of the major version that wrote it. Bytes that are no UTF-8 are in it as
the error handler ``surrogateescape`` makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headwater.pg.version import Version
from headwater.rmgr import (
    brin,
    btree,
    clog,
    commit_ts,
    dbase,
    generic,
    gin,
    gist,
    hash_index,
    heap,
    heap2,
    logicalmsg,
    multixact,
    relmap,
    replorigin,
    sequence,
    smgr,
    spgist,
    standby,
    xact,
    xlog,
)
from headwater.rmgr.description_parts import FORK_NAMES, Style, locator_text
from headwater.rmgr.registry import FIRST_CUSTOM, RMGR_NAMES, record_name
from headwater.wal.records.record import BLCKSZ, Block, Image, Record

_DESCRIBE: Final[tuple[Callable[[Record, Style], str], ...]] = (
    xlog.describe,
    xact.describe,
    smgr.describe,
    clog.describe,
    dbase.describe,
    dbase.describe_tablespace,
    multixact.describe,
    relmap.describe,
    standby.describe,
    heap2.describe,
    heap.describe,
    btree.describe,
    hash_index.describe,
    gin.describe,
    gist.describe,
    sequence.describe,
    spgist.describe,
    brin.describe,
    commit_ts.describe,
    replorigin.describe,
    generic.describe,
    logicalmsg.describe,
)
"""The functions that describe records, by resource manager id."""


def manager_name(rmid: int) -> str:
    """Name a resource manager; an extension's own has no name here but ``custom`` and its id."""
    return RMGR_NAMES[rmid] if rmid < len(RMGR_NAMES) else f"custom{rmid:03d}"


def kind_name(major: int, rmid: int, info: int, lsn: int) -> str:
    """Name a kind of record, ``UNKNOWN (a0)`` for an extension's.

    Raises:
        RecordError: unknown resource manager or info code.
    """
    return f"UNKNOWN ({info & 0xF0:x})" if rmid >= FIRST_CUSTOM else record_name(major, rmid, info, lsn)


def description(record: Record, style: Style) -> str:
    """Describe a record, without its name and its blocks.

    Raises:
        RecordError: malformed, or of an unknown kind.
    """
    if record.rmid >= FIRST_CUSTOM:
        return f"rmid: {record.rmid}"
    record_name(style.version.major, record.rmid, record.info, record.lsn)
    return _DESCRIBE[record.rmid](record, style)


def image_bytes(record: Record) -> int:
    """Count the bytes of page images in a record."""
    return sum(len(block.image.data) for block in record.blocks if block.image is not None)


def blocks_in_short(record: Record) -> str:
    """List the blocks that a record names, each after a comma."""
    return "".join(f", {_block_text(block, block.fork != 0)}{_image_in_short(block)}" for block in record.blocks)


def blocks_in_detail(record: Record, version: Version) -> list[str]:
    """List the blocks that a record names, with the holes and the compression of their images."""
    return [f"{_block_text(block, True)}{_image_in_detail(block.image, version)}" for block in record.blocks]


def block_ref(record: Record, version: Version) -> str:
    """Make the column ``block_ref`` of ``pg_walinspect``: a blank stands before each block but number 0."""
    texts = zip(record.blocks, blocks_in_detail(record, version), strict=True)
    return "".join(" " * (block.id > 0) + text for block, text in texts)


def _block_text(block: Block, with_fork: bool) -> str:
    name = FORK_NAMES[block.fork] if block.fork < len(FORK_NAMES) else str(block.fork)
    fork = f" fork {name}" if with_fork else ""
    return f"blkref #{block.id}: rel {locator_text(block.locator)}{fork} blk {block.block}"


def _image_in_short(block: Block) -> str:
    if block.image is None:
        return ""
    return " FPW" if block.image.is_applied else " FPW for WAL verification"


def _image_in_detail(image: Image | None, version: Version) -> str:
    if image is None:
        return ""
    purpose = "FPW" if image.is_applied else "FPW for WAL verification"
    text = f" ({purpose}); hole: offset: {image.hole_offset}, length: {image.hole_length}"
    if image.method is None:
        return text
    saved = BLCKSZ - image.hole_length - len(image.data)
    method = f", method: {image.method}" if version.names_image_compression else ""
    return f"{text}, compression saved: {saved}{method}"
