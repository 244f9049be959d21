"""Text of values that refer to objects by OID: enum labels, regclass and its kin, aclitem.

PostgreSQL: ``enum.c`` (enum_out), ``regproc.c``, ``acl.c`` (aclitemout). The contract of every kernel is in
``_text.py``. The names are in the tables, as the catalog had them when the value was written.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel
from headwater.rows._text_bytes import Bytes, Int, load_u32, misfits, no_room, write_verbatim
from headwater.rows._text_codes import CORRUPT, NEED_SPACE, UNKNOWN_LABEL
from headwater.rows.text._number import write_int
from headwater.rows.text_tables import TextTables

RIGHTS = np.frombuffer(b"arwdDxtXUCTcsAm", np.uint8)
"""The letters of privileges, by bit (ACL_ALL_RIGHTS_STR of ``utils/acl.h``)."""


@borrowing_kernel
def write_label(tables: TextTables, column: Int, oid: Int, out: Bytes, o: Int) -> Int:
    """Write a label of a column by its OID, UNKNOWN_LABEL if there is none."""
    low, high = tables.enum_lo[column], tables.enum_hi[column]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if np.int64(tables.enum_oid[middle]) < oid:
            low = middle + 1
        else:
            high = middle
    if low >= end or np.int64(tables.enum_oid[low]) != oid:
        return UNKNOWN_LABEL
    start = tables.enum_start[low]
    return write_verbatim(tables.enum_text, start, tables.enum_start[low + 1] - start, out, o)


@borrowing_kernel
def write_object(tables: TextTables, column: Int, oid: Int, out: Bytes, o: Int) -> Int:
    """Write an object's name, or its OID where there is no such object."""
    end = write_label(tables, column, oid, out, o)
    return write_int(oid, out, o) if end == UNKNOWN_LABEL else end


@borrowing_kernel
def write_aclitem(tables: TextTables, column: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write ``grantee=privileges/grantor``; before 16 the two sets of privileges have 16 bits each, then 32."""
    if length not in (12, 16) or misfits(start, length, length):
        return CORRUPT
    grantee = load_u32(src, start)
    if grantee != 0:
        o = write_object(tables, column, grantee, out, o)
        if o < 0:
            return o
    if no_room(out, o, 2 * len(RIGHTS) + 2):
        return NEED_SPACE
    out[o] = 61
    o += 1
    granted = load_u32(src, start + 8)
    options = granted >> 16 if length == 12 else load_u32(src, start + 12)
    for bit in range(len(RIGHTS)):
        if granted >> bit & 1:
            out[o] = RIGHTS[bit]
            o += 1
        if options >> bit & 1:
            out[o] = 42
            o += 1
    out[o] = 47
    return write_object(tables, column, load_u32(src, start + 4), out, o + 1)
