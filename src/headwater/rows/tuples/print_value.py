"""One value as text, by the kernels that print the columns of slices.

In: a type and a datum as a node tree or a catalog has it. Out: the text of the type's output function. For values that
are met one by one, such as constants of expressions: a call costs as much as printing some hundred values of a column.
"""

from __future__ import annotations

import numpy as np

from headwater.catalog.relation import TypeInfo
from headwater.errors import CatalogError, UnsupportedTypeError
from headwater.pg.encodings import decode_name
from headwater.rows._text_codes import CODE_ADDED, NEED_SPACE
from headwater.rows.missing_values import varlena_payload
from headwater.rows.session import SessionSettings
from headwater.rows.text_tables import ALIGNMENT, base_type, build_text_tables, text_code
from headwater.rows.tuples import _print
from headwater.rows.tuples._deform import IN_ARENA

_LONGEST = 1 << 30


def value_text(type: TypeInfo, datum: bytes, session: SessionSettings) -> str:
    """Print a value.

    Args:
        type: its type.
        datum: as it is stored, a varlena with its header; bytes after a value of fixed length do not count.
        session: the settings that it is printed under, and the database's encoding.

    Raises:
        UnsupportedTypeError: its type has no text form here.
        CatalogError: it is malformed.
    """
    if text_code(type) == CODE_ADDED:
        raise UnsupportedTypeError(f"values of type {type.display_name} are printed by a package, in tables only")
    _check(type)
    payload = _payload(base_type(type), datum)
    tables = build_text_tables([type], session)
    is_common = bool(np.isin(tables.code, _print.COMMON).all())
    print_cells = _print.print_common if is_common else _print.print_any
    arena = np.frombuffer(bytearray(payload or b"\0"), np.uint8)
    text = np.empty(4 * len(payload) + 64, np.uint8)
    while True:
        cells = (
            np.array([IN_ARENA], np.uint8),
            np.zeros(1, np.int64),
            np.array([len(payload)], np.int32),
            np.zeros(1, np.int32),
        )
        state = np.zeros(_print.STATE_SIZE, np.int64)
        status = print_cells(arena, arena, tables, cells, text, state)
        if status != NEED_SPACE or len(text) > _LONGEST:
            break
        text = np.empty(4 * len(text), np.uint8)
    if status:
        raise CatalogError(f"malformed value of type {type.display_name}")
    return decode_name(text[: state[_print.TEXT_END]].tobytes(), session.encoding)


def _check(type: TypeInfo) -> None:
    """Check that a type, and its parts, are as types are: nobody has checked it as a table's column."""
    base = base_type(type)
    if base.typalign not in ALIGNMENT:
        raise CatalogError(f"type {base.display_name} has typalign {base.typalign!r}")
    parts = (base.element, base.subtype, *(column.type for column in base.attributes))
    for part in parts:
        if part is not None:
            _check(part)


def _payload(base: TypeInfo, datum: bytes) -> bytes:
    """Return a value as heap tuples store it, without a header."""
    payload: bytes | None
    if base.typlen == -1:
        payload = varlena_payload(datum)
    elif base.typlen == -2:
        payload = datum.partition(b"\0")[0]
    else:
        payload = datum[: base.typlen] if len(datum) >= base.typlen else None
    if payload is None:
        raise CatalogError(f"malformed value of type {base.display_name}, {len(datum)} bytes")
    return payload
