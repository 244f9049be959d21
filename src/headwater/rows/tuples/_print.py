"""Located payloads printed one after the other: cells' payload offsets become text offsets, in place.

``_deform`` has left a payload's offset, length and place (slice's data or arena) in every cell. Three kernels print
them: one knows only the types that most tables are made of, and compiles and runs fast; the second knows all; the third
also makes the binary forms. Statuses are those of ``_text`` and ``_send``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel, kernel
from headwater.rows._conversion import REFUSES
from headwater.rows._copy import copy
from headwater.rows._send_codes import NUMBER, SEND_BYTES, SEND_FIELDS, SEND_OWN, SEND_TEXT, SENT
from headwater.rows._text_bytes import Bytes, Int, load_i16, load_i32, load_i64, write_uuid
from headwater.rows._text_codes import (
    CODE_BOOL,
    CODE_DATE,
    CODE_INT2,
    CODE_INT4,
    CODE_INT8,
    CODE_NONE,
    CODE_NUMERIC,
    CODE_TIMESTAMP,
    CODE_TIMESTAMPTZ,
    CODE_UNKNOWN,
    CODE_UUID,
    CODE_VERBATIM,
    CORRUPT,
    NEED_SPACE,
    SET_TZ_CYCLE,
)
from headwater.rows.items import BINARY, REFUSED, TEXT
from headwater.rows.send._bytes import send_bool, send_fields, send_numeric
from headwater.rows.send._send import type_send
from headwater.rows.text._datetime import write_date, write_timestamp, write_timestamptz
from headwater.rows.text._number import write_bool, write_int, write_numeric
from headwater.rows.text._text import type_text
from headwater.rows.text_tables import TextTables
from headwater.rows.tuples._deform import IN_ARENA, CellArrays

DONE, TOO_LONG = 0, -14

CELL, TEXT_END, STATE_SIZE = 0, 1, 2
"""Indexes into the state: next cell, end of the text."""

COMMON = (
    CODE_NONE,
    CODE_VERBATIM,
    CODE_INT4,
    CODE_INT8,
    CODE_INT2,
    CODE_BOOL,
    CODE_TIMESTAMP,
    CODE_TIMESTAMPTZ,
    CODE_NUMERIC,
    CODE_DATE,
    CODE_UUID,
    CODE_UNKNOWN,
)
"""Codes that :func:`print_common` knows; those of dropped and unknown columns have no value to print."""

_NOT_COMMON = -1000

# MaxAllocSize (utils/memutils.h): the server cannot make a longer text.
_MAX_TEXT = 0x3FFFFFFF


@inline_kernel
def _common_text(
    code: Int,
    tz_at: NDArray[np.int64],
    tz_offset: NDArray[np.int32],
    cycle: bool,
    src: Bytes,
    start: Int,
    length: Int,
    out: Bytes,
    o: Int,
) -> Int:
    """Write the text of a value of a common type, or return _NOT_COMMON; contract as of ``type_text``."""
    if code == CODE_VERBATIM:
        return copy(src, start, out, o, length) if o + length <= len(out) else NEED_SPACE
    if code == CODE_INT4 and length == 4:
        return write_int(load_i32(src, start), out, o)
    if code == CODE_INT8 and length == 8:
        return write_int(load_i64(src, start), out, o)
    if code == CODE_TIMESTAMPTZ and length == 8:
        return write_timestamptz(tz_at, tz_offset, cycle, load_i64(src, start), out, o)
    if code == CODE_TIMESTAMP and length == 8:
        return write_timestamp(load_i64(src, start), out, o)
    if code == CODE_BOOL:
        return write_bool(src, start, length, out, o)
    if code == CODE_NUMERIC:
        return write_numeric(src, start, length, out, o)
    if code == CODE_INT2 and length == 2:
        return write_int(load_i16(src, start), out, o)
    if code == CODE_DATE:
        return write_date(src, start, length, out, o)
    if code == CODE_UUID:
        return write_uuid(src, start, length, out, o)
    return _NOT_COMMON


@inline_kernel
def _done(
    kinds: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int32], cell: Int, o: Int, end: Int
) -> Int:
    """Enter a printed cell; the end of its text, or a status."""
    if end == _NOT_COMMON:
        return CORRUPT
    if end < 0 or end - o > _MAX_TEXT:
        return TOO_LONG if end > 0 else end
    if kinds[cell] == IN_ARENA:
        kinds[cell] = TEXT
    starts[cell], lengths[cell] = o, end - o
    return end


@borrowing_kernel
def print_common(
    data: Bytes,
    arena: Bytes,
    tables: TextTables,
    cells: CellArrays,
    text: Bytes,
    state: NDArray[np.int64],
) -> Int:
    """Print the cells from ``state[CELL]`` on, all of them of COMMON codes.

    Args:
        data: uint8[].
        arena: uint8[].
        tables: of the slice's columns.
        cells: as ``_deform.locate`` leaves them; offsets and lengths are replaced by those of the text.
        text: uint8[].
        state: int64[STATE_SIZE] zeros for the first call.

    Returns:
        DONE, NEED_SPACE (make text longer and call again), or the status of an error at cell ``state[CELL]``.
    """
    kinds, starts, lengths, owners = cells
    codes, o = tables.code, state[TEXT_END]
    tz_at, tz_offset, cycle = tables.tz_at, tables.tz_offset, tables.settings[SET_TZ_CYCLE] != 0
    for cell in range(state[CELL], len(kinds)):
        kind, start, length, end = kinds[cell], starts[cell], np.int64(lengths[cell]), o
        if kind == TEXT:
            end = _common_text(codes[owners[cell]], tz_at, tz_offset, cycle, data, start, length, text, o)
        elif kind == IN_ARENA:
            end = _common_text(codes[owners[cell]], tz_at, tz_offset, cycle, arena, start, length, text, o)
        end = _done(kinds, starts, lengths, cell, o, end)
        if end < 0:
            state[CELL], state[TEXT_END] = cell, o
            return end
        o = end
    state[CELL], state[TEXT_END] = len(kinds), o
    return DONE


@kernel
def print_any(
    data: Bytes,
    arena: Bytes,
    tables: TextTables,
    cells: CellArrays,
    text: Bytes,
    state: NDArray[np.int64],
) -> Int:
    """Print cells of any code; else as :func:`print_common`."""
    kinds, starts, lengths, owners = cells
    codes, o = tables.code, state[TEXT_END]
    tz_at, tz_offset, cycle = tables.tz_at, tables.tz_offset, tables.settings[SET_TZ_CYCLE] != 0
    for cell in range(state[CELL], len(kinds)):
        kind, start, length, end = kinds[cell], starts[cell], np.int64(lengths[cell]), o
        column = np.int64(owners[cell])
        if kind == TEXT:
            end = _common_text(codes[column], tz_at, tz_offset, cycle, data, start, length, text, o)
            if end == _NOT_COMMON:
                end = type_text(tables, column, data, start, length, text, o)
        elif kind == IN_ARENA:
            end = type_text(tables, column, arena, start, length, text, o)
        end = _done(kinds, starts, lengths, cell, o, end)
        if end < 0:
            state[CELL], state[TEXT_END] = cell, o
            return end
        o = end
    state[CELL], state[TEXT_END] = len(kinds), o
    return DONE


@borrowing_kernel
def _form(tables: TextTables, column: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a value in the form that its column's code says, binary or text."""
    if tables.code[column] >= SENT:
        return type_send(tables, column, src, start, length, out, o)
    return type_text(tables, column, src, start, length, out, o)


@inline_kernel
def _common_form(
    code: Int,
    tz_at: NDArray[np.int64],
    tz_offset: NDArray[np.int32],
    cycle: bool,
    is_converted: bool,
    src: Bytes,
    start: Int,
    length: Int,
    out: Bytes,
    o: Int,
) -> Int:
    """Write a value of a common type as :func:`_form` does, without all tables at hand, or return _NOT_COMMON."""
    if code < SENT:
        return _common_text(code, tz_at, tz_offset, cycle, src, start, length, out, o)
    if start < 0 or length < 0 or start + length > len(src):
        return CORRUPT
    if code == SEND_BYTES | CODE_VERBATIM or (code == SEND_TEXT | CODE_VERBATIM and not is_converted):
        return copy(src, start, out, o, length) if o + length <= len(out) else NEED_SPACE
    if code & ~NUMBER == SEND_FIELDS:
        return send_fields(code & NUMBER, src, start, length, out, o)
    if code == SEND_OWN | CODE_NUMERIC:
        return send_numeric(src, start, length, out, o)
    if code == SEND_OWN | CODE_BOOL:
        return send_bool(src, start, length, out, o)
    return _NOT_COMMON


@inline_kernel
def _keep_refused(kinds: NDArray[np.uint8], cell: Int, text: Bytes, o: Int, at: Int) -> Int:
    """Make a cell REFUSED: the bytes that cannot be sent are at ``text[at]``, after their length; the end of them."""
    kinds[cell] = REFUSED
    size = np.int64(text[at])
    for i in range(size):
        text[o + i] = text[at + 1 + i]
    return o + size


@kernel
def print_forms(
    data: Bytes,
    arena: Bytes,
    tables: TextTables,
    cells: CellArrays,
    text: Bytes,
    state: NDArray[np.int64],
) -> Int:
    """Print cells of any code as :func:`print_any` does; those with codes of binary forms become BINARY, or REFUSED."""
    kinds, starts, lengths, owners = cells
    codes, o, is_converted = tables.code, state[TEXT_END], len(tables.conversion.nodes) != 0
    tz_at, tz_offset, cycle = tables.tz_at, tables.tz_offset, tables.settings[SET_TZ_CYCLE] != 0
    for cell in range(state[CELL], len(kinds)):
        kind, start, length, end = kinds[cell], starts[cell], np.int64(lengths[cell]), o
        column = np.int64(owners[cell])
        code = np.int64(codes[column])
        if kind == TEXT:
            end = _common_form(code, tz_at, tz_offset, cycle, is_converted, data, start, length, text, o)
            if end == _NOT_COMMON:
                end = _form(tables, column, data, start, length, text, o)
        elif kind == IN_ARENA:
            end = _form(tables, column, arena, start, length, text, o)
        if end <= REFUSES:
            end = _keep_refused(kinds, cell, text, o, REFUSES - end)
        end = _done(kinds, starts, lengths, cell, o, end)
        if end < 0:
            state[CELL], state[TEXT_END] = cell, o
            return end
        if code >= SENT and kinds[cell] == TEXT:
            kinds[cell] = BINARY
        o = end
    state[CELL], state[TEXT_END] = len(kinds), o
    return DONE
