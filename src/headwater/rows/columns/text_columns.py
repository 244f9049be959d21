"""A column of stored values, printed or made text by a package: for columns that are text, or that a package reads.

The kernels are those of :mod:`headwater.rows.tuples.render`; the text is in the client's encoding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.base.arrow_buffers import binary_array, bitmap, buffer_numbers
from headwater.catalog.relation import TypeInfo
from headwater.errors import DecodingError, UnsupportedTypeError, warn
from headwater.option_names import option, ways
from headwater.rows._text_codes import CODE_ADDED, CODE_UNKNOWN
from headwater.rows.columns._columns import Stored
from headwater.rows.conversion import converted_cells, make_conversion, refusal
from headwater.rows.extension_types import chosen_values, print_added
from headwater.rows.items import NULL, REFUSED, TEXT, Cells
from headwater.rows.session import SessionSettings
from headwater.rows.text_tables import UNKNOWN_TYPES_HINT, build_text_tables, unprintable
from headwater.rows.tuples import _deform
from headwater.rows.tuples.render import LocatedCells, print_all, raise_cell

Where = Callable[[int], tuple[str, int]]
"""Gives the name of a value's column, and the LSN of its change."""


REFUSING, NULLED, ESCAPED = "refusing", "nulled", "escaped"
"""The treatment of text that has no form in the client's encoding: it is an error, null, or as ``encode(…, 'escape')``
has the database's bytes."""


def printed_column(
    stored: Stored,
    type: TypeInfo,
    session: SessionSettings,
    where: Where,
    *,
    exact: bool = False,
    refused: str = REFUSING,
) -> pa.BinaryArray:
    """Print values as text.

    Args:
        stored: n values.
        type: the type of the values, domains looked through.
        session: settings that they are printed under.
        where: gives the column and LSN of value i.
        exact: the text is read back, and so does not depend on the session's styles.
        refused: one of :data:`REFUSING`, :data:`NULLED` and :data:`ESCAPED`.

    Returns:
        binary[n] in the client's encoding, null where there is no value, or none with a text form if the session says
        so.

    Raises:
        RecordError: a value is malformed.
        DecodingError: a text is longer than 1 GB, all are than 2 GB, or one has no form in the client's encoding.
        UnsupportedTypeError: the type has no text form, and the session takes none.
    """
    tables = build_text_tables([type], session, {0} if exact else ())
    kinds = np.choose(stored.kind, [NULL, TEXT, _deform.IN_ARENA]).astype(np.uint8)
    if tables.code[0] == CODE_UNKNOWN:
        _refuse_unknown(kinds, type, session, where)
        kinds[:] = NULL
    cells = LocatedCells(kinds, stored.start.copy(), stored.length.copy(), np.zeros(len(kinds), np.int32))

    def refuse(status: int, cell: int) -> NoReturn:
        place, lsn = where(cell)
        raise_cell(status, lsn, place, None)

    text = print_all(stored.data, stored.arena, tables, cells, refuse)
    if tables.code[0] == CODE_ADDED:
        text = _by_package(cells, text, type, where)
    return _converted(cells, text, session, where, refused)


def _refuse_unknown(kinds: NDArray[np.uint8], type: TypeInfo, session: SessionSettings, where: Where) -> None:
    """Stop at the first value, or warn."""
    present = np.flatnonzero(kinds != NULL)
    if not len(present):
        return
    place, lsn = where(int(present[0]))
    if session.unknown_types == "error":
        raise UnsupportedTypeError(
            f"{unprintable(type)}, needed for {place}",
            lsn=lsn,
            hint=UNKNOWN_TYPES_HINT,
        )
    warn(f"{unprintable(type)}, {place} has NULL instead of them")


def _by_package(cells: LocatedCells, text: NDArray[np.uint8], type: TypeInfo, where: Where) -> NDArray[np.uint8]:
    """Return the texts that a package makes of the values, which `text` has as they are stored."""
    chosen = np.flatnonzero(cells.kinds == TEXT)
    if not len(chosen):
        return text
    values = chosen_values(text, cells.starts[chosen], cells.lengths[chosen].astype(np.int64))
    texts = print_added(type.output, values, where(int(chosen[0]))[0])
    _, ends, data = texts.buffers()
    offsets = buffer_numbers(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    cells.lengths[:] = 0
    cells.lengths[chosen] = np.diff(offsets)
    cells.starts[:] = np.cumsum(cells.lengths, dtype=np.int64) - cells.lengths
    return buffer_numbers(data, np.uint8)[offsets[0] : offsets[-1]].copy()


def _converted(
    cells: LocatedCells, text: NDArray[np.uint8], session: SessionSettings, where: Where, refused: str
) -> pa.BinaryArray:
    none, starts, lengths = np.empty(0, np.int64), cells.starts.copy(), cells.lengths.copy()
    printed = Cells(none, none, cells.kinds, cells.starts, cells.lengths, text)
    printed = converted_cells(printed, make_conversion(session.written_in, session.client_encoding))
    wrong = np.flatnonzero(printed.kind == REFUSED)
    if len(wrong) and refused == REFUSING:
        place, lsn = where(int(wrong[0]))
        rest = printed.text[printed.start[wrong[0]] :][: printed.length[wrong[0]]].tobytes()
        raise refusal(session.written_in, session.client_encoding, rest, lsn, place, _HINT)
    texts = _binary(printed, where)
    if not len(wrong) or refused == NULLED:
        return texts
    at = np.arange(len(printed.kind))
    at[wrong] = len(at) + np.arange(len(wrong))
    return pa.concat_arrays([texts, _escaped(text, starts[wrong], lengths[wrong])]).take(at)


def _binary(printed: Cells, where: Where) -> pa.BinaryArray:
    """Make an array of texts, null where there is none."""
    if len(printed.text) > np.iinfo(np.int32).max:
        raise DecodingError(
            f"{where(0)[0]} has more than 2 GB of values in one slice",
            hint="make slices smaller with partitionBytes",
        )
    offsets = np.append(printed.start, len(printed.text)).astype(np.int32)
    return binary_array(bitmap(printed.kind == TEXT), offsets, np.ascontiguousarray(printed.text))


def _escaped(text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.integer]) -> pa.BinaryArray:
    r"""Print bytes as ``encode(…, 'escape')`` does: those above 127, and 0, as ``\ooo``, a backslash twice."""
    ends = np.cumsum(lengths, dtype=np.int64)
    data = text[np.arange(int(ends[-1])) + np.repeat(starts - (ends - lengths), lengths)]
    is_octal, is_backslash = (data >= 0x80) | (data == 0), data == _BACKSLASH
    sizes = np.where(is_octal, 4, np.where(is_backslash, 2, 1))
    after = np.cumsum(sizes)
    out = np.empty(int(after[-1]), np.uint8)
    out[after - 1] = np.where(is_octal, (data & 7) + _ZERO, data)
    out[(after - sizes)[is_octal | is_backslash]] = _BACKSLASH
    for place, shift in ((-2, 3), (-3, 6)):
        out[after[is_octal] + place] = (data[is_octal] >> shift & 7) + _ZERO
    offsets = np.concatenate([[0], after[ends - 1]]).astype(np.int32)
    return binary_array(None, offsets, out)


_BACKSLASH, _ZERO = 0x5C, 0x30
_HINT = ways(
    f"say which encoding the database's text is in with {option('client-encoding')}",
    f"what becomes of text that is in none with {option('on-unrepresentable')}: null, string or bytes",
)
