"""The dispatcher from a type code to the kernel that prints one value that is made of no others.

One chain of tests, the types met most often first. The contract of every kernel is in ``_text.py``.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import (
    Bytes,
    Int,
    load_i16,
    load_i32,
    load_i64,
    load_u32,
    misfits,
    write_bit,
    write_bytea,
    write_bytea_escape,
    write_char,
    write_name,
    write_uuid,
    write_verbatim,
)
from headwater.rows._text_codes import (
    CODE_ACLITEM,
    CODE_ADDED,
    CODE_BIT,
    CODE_BOOL,
    CODE_BYTEA,
    CODE_CHAR,
    CODE_CIDR,
    CODE_CUBE,
    CODE_DATE,
    CODE_DEPENDENCIES,
    CODE_EAN13,
    CODE_ENUM,
    CODE_FLOAT4,
    CODE_FLOAT8,
    CODE_HALFVEC,
    CODE_HEX,
    CODE_HSTORE,
    CODE_INET,
    CODE_INT2,
    CODE_INT2VECTOR,
    CODE_INT4,
    CODE_INT8,
    CODE_INTERVAL,
    CODE_ISN,
    CODE_JSONB,
    CODE_JSONPATH,
    CODE_LQUERY,
    CODE_LTREE,
    CODE_LTXTQUERY,
    CODE_MACADDR,
    CODE_MACADDR8,
    CODE_MONEY,
    CODE_NAME,
    CODE_NDISTINCT,
    CODE_NUMERIC,
    CODE_OBJECT,
    CODE_OID,
    CODE_OIDVECTOR,
    CODE_PG_LSN,
    CODE_POINT,
    CODE_POLYGON,
    CODE_POSTGIS,
    CODE_QUERY_INT,
    CODE_ROUNDED_FLOAT4,
    CODE_ROUNDED_FLOAT8,
    CODE_SEG,
    CODE_SNAPSHOT,
    CODE_SPARSEVEC,
    CODE_STYLED_DATE,
    CODE_STYLED_TIMESTAMP,
    CODE_STYLED_TIMESTAMPTZ,
    CODE_TID,
    CODE_TIME,
    CODE_TIMESTAMP,
    CODE_TIMESTAMPTZ,
    CODE_TIMETZ,
    CODE_TSQUERY,
    CODE_TSVECTOR,
    CODE_UINT8,
    CODE_UUID,
    CODE_VECTOR,
    CODE_VERBATIM,
    CODE_XML,
    CORRUPT,
    SET_BARE_NUMBERS,
    SET_BYTEA_ESCAPE,
    SET_DATE_STYLE,
    SET_DAY_FIRST,
    SET_FLOAT4_DIGITS,
    SET_FLOAT8_DIGITS,
    SET_JSON_STATISTICS,
    SET_LSN_DIGITS,
    SET_MONEY_DECIMALS,
    SET_MONEY_GROUP,
    SET_RAW_CHARS,
    SET_SEG_BY_LOWER,
    SET_TZ_CYCLE,
)
from headwater.rows.text._datestyle import write_styled_date, write_styled_timestamp, write_styled_timestamptz
from headwater.rows.text._datetime import (
    period_at,
    write_date,
    write_time,
    write_timestamp,
    write_timestamptz,
    write_timetz,
)
from headwater.rows.text._extension import write_cube, write_hstore, write_ltree, write_sparsevec, write_vector
from headwater.rows.text._float import write_float4, write_float8
from headwater.rows.text._geometry import write_geometry
from headwater.rows.text._interval import write_interval
from headwater.rows.text._json import write_jsonb
from headwater.rows.text._jsonpath import write_jsonpath
from headwater.rows.text._money import write_money
from headwater.rows.text._network import write_inet, write_macaddr, write_pg_lsn, write_tid
from headwater.rows.text._number import write_bool, write_int, write_numeric, write_snapshot, write_uint64
from headwater.rows.text._object import write_aclitem, write_label, write_object
from headwater.rows.text._postgis import write_postgis
from headwater.rows.text._query import write_lquery, write_query
from headwater.rows.text._search import write_tsquery, write_tsvector
from headwater.rows.text._seg import write_isn, write_seg
from headwater.rows.text._statistics import write_statistics
from headwater.rows.text._vector import write_integer_vector
from headwater.rows.text._xml import write_xml
from headwater.rows.text_tables import TextTables


@borrowing_kernel
def rare_text(
    tables: TextTables, column: Int, code: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int
) -> Int:
    """Write a value of the types that are seldom met, one by one."""
    if code == CODE_BYTEA:
        if tables.settings[SET_BYTEA_ESCAPE] != 0:
            return write_bytea_escape(src, start, length, out, o)
        return write_bytea(src, start, length, out, o)
    if code == CODE_ENUM:
        return write_label(tables, column, load_u32(src, start), out, o) if length == 4 else CORRUPT
    if code == CODE_OBJECT:
        return write_object(tables, column, load_u32(src, start), out, o) if length == 4 else CORRUPT
    if code == CODE_ACLITEM:
        return write_aclitem(tables, column, src, start, length, out, o)
    if code == CODE_FLOAT4:
        return write_float4(src, start, length, np.int64(0), out, o)
    if code == CODE_OID:
        return write_int(load_u32(src, start), out, o) if length == 4 else CORRUPT
    if code == CODE_NAME:
        return write_name(src, start, length, out, o)
    if code == CODE_CHAR:
        return write_char(src, start, length, tables.settings[SET_RAW_CHARS] != 0, out, o)
    if code == CODE_TIME:
        return write_time(src, start, length, out, o)
    if code == CODE_TIMETZ:
        return write_timetz(src, start, length, out, o)
    if code == CODE_INTERVAL:
        return write_interval(src, start, length, tables.settings, out, o)
    if code == CODE_UINT8:
        return write_uint64(src, start, length, out, o)
    if code == CODE_BIT:
        return write_bit(src, start, length, out, o)
    if code in (CODE_INET, CODE_CIDR):
        return write_inet(src, start, length, code == CODE_CIDR, out, o)
    if code in (CODE_MACADDR, CODE_MACADDR8):
        return write_macaddr(src, start, length, 6 if code == CODE_MACADDR else 8, out, o)
    if code == CODE_PG_LSN:
        return write_pg_lsn(src, start, length, tables.settings[SET_LSN_DIGITS], out, o)
    if code == CODE_TID:
        return write_tid(src, start, length, out, o)
    if code in (CODE_INT2VECTOR, CODE_OIDVECTOR):
        return write_integer_vector(2 if code == CODE_INT2VECTOR else 4, src, start, length, out, o)
    if CODE_POINT <= code <= CODE_POLYGON:
        return write_geometry(code, src, start, length, tables.settings[SET_FLOAT8_DIGITS], out, o)
    if CODE_MONEY <= code <= CODE_ROUNDED_FLOAT4:
        return _styled_text(tables, code, src, start, length, out, o)
    return _extension_text(tables, code, src, start, length, out, o)


@borrowing_kernel
def _styled_text(tables: TextTables, code: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a value of types whose text the session's settings change, under unusual ones; or money."""
    settings = tables.settings
    style, day_first = settings[SET_DATE_STYLE], settings[SET_DAY_FIRST]
    if code == CODE_STYLED_DATE:
        return write_styled_date(src, start, length, style, day_first, out, o)
    if code == CODE_STYLED_TIMESTAMP:
        return write_styled_timestamp(src, start, length, style, day_first, out, o)
    if code == CODE_STYLED_TIMESTAMPTZ:
        if misfits(start, length, 8):
            return CORRUPT
        usec = load_i64(src, start)
        period = period_at(tables.tz_at, settings[SET_TZ_CYCLE] != 0, usec)
        zone = tables.tz_offset, tables.tz_label, tables.tz_labels
        return write_styled_timestamptz(zone, period, usec, style, day_first, out, o)
    if code == CODE_ROUNDED_FLOAT8:
        return write_float8(src, start, length, settings[SET_FLOAT8_DIGITS], out, o)
    if code == CODE_ROUNDED_FLOAT4:
        return write_float4(src, start, length, settings[SET_FLOAT4_DIGITS], out, o)
    decimals, group = settings[SET_MONEY_DECIMALS], settings[SET_MONEY_GROUP]
    return write_money(tables.money_at, tables.money, decimals, group, src, start, length, out, o)


@borrowing_kernel
def _extension_text(tables: TextTables, code: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a value of a language in a column, or of types of extensions."""
    if code == CODE_ADDED:
        return write_verbatim(src, start, length, out, o)
    if code == CODE_TSVECTOR:
        return write_tsvector(src, start, length, out, o)
    if code == CODE_TSQUERY:
        return write_tsquery(src, start, length, out, o)
    if code == CODE_JSONPATH:
        return write_jsonpath(tables.settings[SET_BARE_NUMBERS], src, start, length, out, o)
    if code == CODE_XML:
        return write_xml(tables.encoding, src, start, length, out, o)
    if code == CODE_SNAPSHOT:
        return write_snapshot(src, start, length, out, o)
    if code == CODE_HSTORE:
        return write_hstore(src, start, length, out, o)
    if code == CODE_LTREE:
        return write_ltree(src, start, length, out, o)
    if code == CODE_LQUERY:
        return write_lquery(src, start, length, out, o)
    if code in (CODE_LTXTQUERY, CODE_QUERY_INT):
        return write_query(code, src, start, length, out, o)
    if code == CODE_POSTGIS:
        return write_postgis(src, start, length, out, o)
    if code == CODE_CUBE:
        return write_cube(src, start, length, tables.settings[SET_FLOAT8_DIGITS], out, o)
    if code in (CODE_VECTOR, CODE_HALFVEC):
        return write_vector(np.int64(4 if code == CODE_VECTOR else 2), src, start, length, out, o)
    if code == CODE_SPARSEVEC:
        return write_sparsevec(src, start, length, out, o)
    if code in (CODE_ISN, CODE_EAN13):
        return write_isn(code == CODE_ISN, src, start, length, out, o)
    if code in (CODE_NDISTINCT, CODE_DEPENDENCIES):
        is_json = tables.settings[SET_JSON_STATISTICS] != 0
        return write_statistics(code == CODE_DEPENDENCIES, is_json, src, start, length, out, o)
    if code == CODE_SEG:
        return write_seg(tables.settings[SET_SEG_BY_LOWER] != 0, src, start, length, out, o)
    if code == CODE_HEX:
        return write_bytea(src, start, length, out, o)
    return CORRUPT


@inline_kernel
def scalar_text(
    tables: TextTables, column: Int, code: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int
) -> Int:
    """Write the text of one value that is made of no others; `column` only serves labels and names."""
    if code == CODE_INT4:
        return write_int(load_i32(src, start), out, o) if length == 4 else CORRUPT
    if code == CODE_VERBATIM:
        return write_verbatim(src, start, length, out, o)
    if code == CODE_INT8:
        return write_int(load_i64(src, start), out, o) if length == 8 else CORRUPT
    if code == CODE_NUMERIC:
        return write_numeric(src, start, length, out, o)
    if code == CODE_TIMESTAMPTZ:
        if misfits(start, length, 8):
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
    if code == CODE_FLOAT8:
        return write_float8(src, start, length, np.int64(0), out, o)
    if code == CODE_UUID:
        return write_uuid(src, start, length, out, o)
    if code == CODE_JSONB:
        return write_jsonb(src, start, length, out, o)
    return rare_text(tables, column, code, src, start, length, out, o)
