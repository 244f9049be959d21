"""The dispatcher from a column's type code to the kernel that prints its values.

Contract of every kernel here: the payload of one datum (varlena header stripped, decompressed; fixed-length raw bytes)
at ``src[start:start+length]`` is printed at ``out[o:]``; the end of the text is returned, or NEED_SPACE (`out` too
short; what lies past `o` is undefined), CORRUPT (bytes no server writes) or UNKNOWN_LABEL. Nothing is written past
``len(out)``, nothing read outside the payload, nothing raised.
"""

from __future__ import annotations

import numpy as np

from headwater.kernels import kernel
from headwater.rows._text_bytes import (
    Bytes,
    Int,
    load_i16,
    load_i32,
    load_i64,
    load_u32,
    write_bit,
    write_bytea,
    write_bytea_escape,
    write_char,
    write_name,
    write_uuid,
    write_verbatim,
)
from headwater.rows._text_codes import (
    CODE_BIT,
    CODE_BOOL,
    CODE_BYTEA,
    CODE_CHAR,
    CODE_DATE,
    CODE_ENUM,
    CODE_INT2,
    CODE_INT4,
    CODE_INT8,
    CODE_INTERVAL,
    CODE_NAME,
    CODE_NUMERIC,
    CODE_OID,
    CODE_TIME,
    CODE_TIMESTAMP,
    CODE_TIMESTAMPTZ,
    CODE_TIMETZ,
    CODE_UINT8,
    CODE_UUID,
    CODE_VERBATIM,
    CORRUPT,
    SET_BYTEA_ESCAPE,
    SET_MAJOR,
    SET_TZ_CYCLE,
    UNKNOWN_LABEL,
)
from headwater.rows._text_datetime import (
    write_date,
    write_interval,
    write_time,
    write_timestamp,
    write_timestamptz,
    write_timetz,
)
from headwater.rows._text_number import write_bool, write_int, write_numeric, write_uint64
from headwater.rows.text_tables import TextTables


@kernel
def _write_label(tables: TextTables, column: Int, oid: Int, out: Bytes, o: Int) -> Int:
    """An enum's label by its OID (enum_out)."""
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


@kernel
def _rare_text(
    tables: TextTables, column: Int, code: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int
) -> Int:
    """The types that are seldom met, one by one."""
    if code == CODE_BYTEA:
        if tables.settings[SET_BYTEA_ESCAPE] != 0:
            return write_bytea_escape(src, start, length, out, o)
        return write_bytea(src, start, length, out, o)
    if code == CODE_ENUM:
        return _write_label(tables, column, load_u32(src, start), out, o) if length == 4 else CORRUPT
    if code == CODE_OID:
        return write_int(load_u32(src, start), out, o) if length == 4 else CORRUPT
    if code == CODE_NAME:
        return write_name(src, start, length, out, o)
    if code == CODE_CHAR:
        return write_char(src, start, length, out, o)
    if code == CODE_TIME:
        return write_time(src, start, length, out, o)
    if code == CODE_TIMETZ:
        return write_timetz(src, start, length, out, o)
    if code == CODE_INTERVAL:
        return write_interval(src, start, length, tables.settings[SET_MAJOR] >= 17, out, o)
    if code == CODE_UINT8:
        return write_uint64(src, start, length, out, o)
    if code == CODE_BIT:
        return write_bit(src, start, length, out, o)
    return CORRUPT


@kernel
def scalar_text(
    tables: TextTables, column: Int, code: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int
) -> Int:
    """Text of one value that is not an array; `column` only serves enum labels."""
    if code == CODE_INT4:
        return write_int(load_i32(src, start), out, o) if length == 4 else CORRUPT
    if code == CODE_VERBATIM:
        return write_verbatim(src, start, length, out, o)
    if code == CODE_INT8:
        return write_int(load_i64(src, start), out, o) if length == 8 else CORRUPT
    if code == CODE_NUMERIC:
        return write_numeric(src, start, length, out, o)
    if code == CODE_TIMESTAMPTZ:
        if length != 8:
            return CORRUPT
        cycle = tables.settings[SET_TZ_CYCLE] != 0
        return write_timestamptz(tables.tz_at, tables.tz_offset, cycle, load_i64(src, start), out, o)
    if code == CODE_TIMESTAMP:
        return write_timestamp(load_i64(src, start), out, o) if length == 8 else CORRUPT
    if code == CODE_BOOL:
        return write_bool(src, start, length, out, o)
    if code == CODE_DATE:
        return write_date(src, start, length, out, o)
    if code == CODE_INT2:
        return write_int(load_i16(src, start), out, o) if length == 2 else CORRUPT
    if code == CODE_UUID:
        return write_uuid(src, start, length, out, o)
    return _rare_text(tables, column, code, src, start, length, out, o)


@kernel
def type_text(tables: TextTables, column: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Text of one value of a column.

    Args:
        tables: see :class:`headwater.rows.text_tables.TextTables`.
        column: the value's column in `tables`.
        src: uint8[] the payload is ``src[start:start+length]``.
        start: where it begins.
        length: its bytes.
        out: uint8[] the text is written at `o`.
        o: where.

    Returns:
        The end of the text in `out`, NEED_SPACE (-1), CORRUPT (-2) or UNKNOWN_LABEL (-3).
    """
    if start < 0 or length < 0 or start + length > len(src):
        return CORRUPT
    return scalar_text(tables, column, tables.code[column], src, start, length, out, o)
