"""Type output: the one kernel that prints any value of any column.

Contract of every kernel here: the payload of one datum (varlena header stripped, decompressed; fixed-length raw bytes)
at ``src[start:start+length]`` is printed at ``out[o:]``; the end of the text is returned, or NEED_SPACE (`out` too
short; what lies past `o` is undefined), CORRUPT (bytes no server writes) or UNKNOWN_LABEL. Nothing is written past
``len(out)``, nothing read outside the payload, nothing raised.
"""

from __future__ import annotations

from headwater.kernels import inline_kernel
from headwater.rows._text_array import write_array
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows._text_codes import CODE_ARRAY, CORRUPT
from headwater.rows._text_scalar import scalar_text
from headwater.rows.text_tables import TextTables


@inline_kernel
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
    code = tables.code[column]
    if code == CODE_ARRAY:
        return write_array(tables, column, src, start, length, out, o)
    return scalar_text(tables, column, code, src, start, length, out, o)
