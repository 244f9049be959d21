"""Kernel: an outline of framed records from their headers, and the records that are about a chosen relation or block.

PostgreSQL: XLogRecGetLen of ``xlogstats.c``, XLogRecordMatchesRelationBlock and XLogRecordHasFPW of ``pg_waldump.c``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rmgr._record import Int, parse_headers, u32, u64
from headwater.rmgr.header_slots import BLOCK, BLOCKS, DATA_LENGTH, DB, FORK, IMAGE, MAIN_AT, PAYLOAD_AT, REL, SPC
from headwater.wal.layout import INFO_AT, PREV_AT, RMID_AT, XID_AT
from headwater.wal.records._position import lsn_to_payload, payload_to_end_lsn

DONE = -1

Int64s = NDArray[np.int64]
Bytes = NDArray[np.uint8]


class ChosenBlocks(NamedTuple):
    """The blocks of which a record must name one.

    Attributes:
        tablespace, database, number: the blocks' file; number 0 is any file.
        block: block number, -1 any; fork: fork number, -1 any.
        is_any: a record need not name any block.
        has_image: a record must have a page image.
    """

    tablespace: int
    database: int
    number: int
    block: int
    fork: int
    is_any: bool
    has_image: bool


class Outline(NamedTuple):
    """The outline of n records, from their headers.

    Attributes:
        xid, prev: int64[n] ``xl_xid``, ``xl_prev``; rmid, info: uint8[n].
        length: int64[n] ``xl_tot_len``; image_bytes: int64[n] of it page images.
        end: int64[n] LSN of the byte after the record, not aligned.
        is_chosen: bool[n].
    """

    xid: Int64s
    prev: Int64s
    rmid: Bytes
    info: Bytes
    length: Int64s
    image_bytes: Int64s
    end: Int64s
    is_chosen: NDArray[np.bool_]


@inline_kernel
def _matches(headers: Int64s, slot: Int, chosen: ChosenBlocks) -> bool:
    if chosen.fork >= 0 and headers[slot + FORK] != chosen.fork:
        return False
    if chosen.block >= 0 and headers[slot + BLOCK] != chosen.block:
        return False
    if chosen.number == 0:
        return True
    is_here = headers[slot + SPC] == chosen.tablespace and headers[slot + DB] == chosen.database
    return bool(is_here and headers[slot + REL] == chosen.number)


@borrowing_kernel
def outline_records(
    data: Bytes, positions: Int64s, lsns: Int64s, segment_size: Int, chosen: ChosenBlocks, headers: Int64s, to: Outline
) -> Int:
    """Outline framed records.

    Args:
        data: uint8[] record bytes.
        positions: int64[n] offsets of the records.
        lsns: int64[n] the LSNs that the records start at.
        segment_size: bytes.
        chosen: the blocks that are asked for.
        headers: int64[HEADERS_LENGTH] scratch.
        to: the outline, which is written here.

    Returns:
        DONE, or the number of a record that is malformed.
    """
    for i in range(len(positions)):
        at = positions[i]
        length = u32(data, at)
        blocks = parse_headers(data, at, at + length, headers)
        if blocks < 0:
            return i
        image_bytes = headers[MAIN_AT] - headers[PAYLOAD_AT]
        is_chosen, has_image = chosen.is_any, False
        for block in range(blocks):
            slot = BLOCKS + block * 8
            image_bytes -= headers[slot + DATA_LENGTH]
            is_chosen = is_chosen or _matches(headers, slot, chosen)
            has_image = has_image or headers[slot + IMAGE] >= 0
        to.xid[i] = u32(data, at + XID_AT)
        to.prev[i] = u64(data, at + PREV_AT)
        to.info[i] = data[at + INFO_AT]
        to.rmid[i] = data[at + RMID_AT]
        to.length[i] = length
        to.image_bytes[i] = image_bytes
        to.end[i] = payload_to_end_lsn(lsn_to_payload(lsns[i], segment_size) + length, segment_size)
        to.is_chosen[i] = is_chosen and (has_image or not chosen.has_image)
    return DONE
