"""Which text form each type has, and the flat tables from which the kernels print columns.

PostgreSQL: ``pg_type.dat`` (typoutput of the built-in types), ``lsyscache.c`` (getTypeOutputInfo, get_type_io_data).
Types are known by their OID, as built-in OIDs never change; enums, domains and arrays by their shape. A type that is
not known has no text form here: its values are shown as stored bytes, or never printed, as the session wants it.

An array whose elements are of a domain over an array needs an entry for its elements too: such entries come after those
of all columns, so that columns keep their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import TypeInfo
from headwater.errors import UnsupportedTypeError
from headwater.pg.version import VERSIONS
from headwater.rows import _text_codes as codes
from headwater.rows.session import SessionSettings

ALIGNMENT = {"c": 1, "s": 2, "i": 4, "d": 8}

MAX_NESTING = 8
"""How many arrays may lie inside one another, by way of domains. Each level doubles the backslashes in the text."""

_CODES = {
    16: codes.CODE_BOOL,
    17: codes.CODE_BYTEA,
    18: codes.CODE_CHAR,
    19: codes.CODE_NAME,
    20: codes.CODE_INT8,
    21: codes.CODE_INT2,
    22: codes.CODE_INT2VECTOR,
    23: codes.CODE_INT4,
    25: codes.CODE_VERBATIM,
    26: codes.CODE_OID,
    27: codes.CODE_TID,
    28: codes.CODE_OID,
    29: codes.CODE_OID,
    30: codes.CODE_OIDVECTOR,
    114: codes.CODE_VERBATIM,
    600: codes.CODE_POINT,
    601: codes.CODE_LSEG,
    602: codes.CODE_PATH,
    603: codes.CODE_BOX,
    604: codes.CODE_POLYGON,
    628: codes.CODE_LINE,
    650: codes.CODE_CIDR,
    700: codes.CODE_FLOAT4,
    701: codes.CODE_FLOAT8,
    718: codes.CODE_CIRCLE,
    774: codes.CODE_MACADDR8,
    829: codes.CODE_MACADDR,
    869: codes.CODE_INET,
    1042: codes.CODE_VERBATIM,
    1043: codes.CODE_VERBATIM,
    1082: codes.CODE_DATE,
    1083: codes.CODE_TIME,
    1114: codes.CODE_TIMESTAMP,
    1184: codes.CODE_TIMESTAMPTZ,
    1186: codes.CODE_INTERVAL,
    1266: codes.CODE_TIMETZ,
    1560: codes.CODE_BIT,
    1562: codes.CODE_BIT,
    1700: codes.CODE_NUMERIC,
    1790: codes.CODE_VERBATIM,
    2950: codes.CODE_UUID,
    3220: codes.CODE_PG_LSN,
    3802: codes.CODE_JSONB,
    5069: codes.CODE_UINT8,
}


class TextTables(NamedTuple):
    """What :func:`headwater.rows._text.type_text` needs to know of c columns; all arrays are flat.

    Entries for elements that are arrays themselves count as columns here; they lie behind those of the real columns.

    Attributes:
        code: int32[c] type code (``_text_codes``); 0 for a dropped column, CODE_HEX or CODE_UNKNOWN for a type with no
            text form, as the session wants it.
        element_code: int32[c] for an array the code of its elements, else 0.
        element_column: int32[c] for an array of arrays the entry that prints its elements, else -1.
        element_len: int32[c] the elements' typlen.
        element_align: int32[c] the elements' alignment in bytes.
        delimiter: uint8[c] between elements.
        enum_lo: int64[c] an enum's labels (or an enum array's elements' labels) are ``[enum_lo, enum_hi)``.
        enum_hi: int64[c].
        enum_oid: uint32[k] label OIDs, ascending inside each range.
        enum_start: int64[k+1] label i is ``enum_text[enum_start[i]:enum_start[i+1]]``.
        enum_text: uint8[].
        tz_at: int64[n] the session zone's transitions.
        tz_offset: int32[n+1].
        settings: int64[8], slots ``SET_*`` of ``_text_codes``.
    """

    code: NDArray[np.int32]
    element_code: NDArray[np.int32]
    element_column: NDArray[np.int32]
    element_len: NDArray[np.int32]
    element_align: NDArray[np.int32]
    delimiter: NDArray[np.uint8]
    enum_lo: NDArray[np.int64]
    enum_hi: NDArray[np.int64]
    enum_oid: NDArray[np.uint32]
    enum_start: NDArray[np.int64]
    enum_text: NDArray[np.uint8]
    tz_at: NDArray[np.int64]
    tz_offset: NDArray[np.int32]
    settings: NDArray[np.int64]


def base_type(type: TypeInfo) -> TypeInfo:
    """The type itself, or what a domain is over."""
    return type.base if type.base is not None else type


def _code(base: TypeInfo) -> int:
    """The type code by a type's own shape, whatever an array's elements are; CODE_NONE if there is none."""
    if base.oid in _CODES:
        return _CODES[base.oid]
    if base.typtype == "e":
        return codes.CODE_ENUM
    return codes.CODE_ARRAY if base.element is not None else codes.CODE_NONE


def _element(base: TypeInfo | None) -> TypeInfo | None:
    """What an array's elements are, domains looked through; None for any other type."""
    if base is None or base.element is None or _code(base) != codes.CODE_ARRAY:
        return None
    return base_type(base.element)


def unprintable(type: TypeInfo) -> str | None:
    """Why values of a type cannot be printed; None if they can.

    Either the type, or an array's innermost element type, has no text form here, or arrays are nested deeper than
    MAX_NESTING.
    """
    innermost, levels = base_type(type), 0
    while (element := _element(innermost)) is not None:
        innermost, levels = element, levels + 1
        if levels > MAX_NESTING:
            limit = f"more than {MAX_NESTING} arrays lie inside one another"
            return f"values of type {type.display_name} cannot be printed: {limit}"
    if _code(innermost) == codes.CODE_NONE:
        return f"values of type {type.display_name} cannot be printed"
    return None


def text_code(type: TypeInfo) -> int:
    """The type code of a type: which kernel prints it.

    Raises:
        UnsupportedTypeError: none does.
    """
    reason = unprintable(type)
    if reason is not None:
        raise UnsupportedTypeError(reason)
    return _code(base_type(type))


def _code_or_unknown(type: TypeInfo, session: SessionSettings) -> int:
    if unprintable(type) is None:
        return _code(base_type(type))
    return codes.CODE_HEX if session.unknown_types == "hex" else codes.CODE_UNKNOWN


def build_text_tables(types: Sequence[TypeInfo | None], session: SessionSettings) -> TextTables:
    """Tables for columns of the types given, one entry each; None is a dropped column."""
    own_codes = [_code_or_unknown(type, session) if type is not None else codes.CODE_NONE for type in types]
    known = [code not in (codes.CODE_NONE, codes.CODE_HEX, codes.CODE_UNKNOWN) for code in own_codes]
    shaped = [
        base_type(type) if type is not None and is_known else None for type, is_known in zip(types, known, strict=True)
    ]
    bases, element_column = _with_nested(shaped)
    own_codes += [codes.CODE_ARRAY] * (len(bases) - len(types))
    elements = [_element(base) for base in bases]
    zone = session.zone
    enum_lo, enum_hi, labels = _labels([e or base for e, base in zip(elements, bases, strict=True)], session)
    return TextTables(
        code=_int32(own_codes),
        element_code=_int32(_code(e) if e is not None else codes.CODE_NONE for e in elements),
        element_column=_int32(element_column),
        element_len=_int32(e.typlen if e is not None else 0 for e in elements),
        element_align=_int32(ALIGNMENT[e.typalign] if e is not None else 1 for e in elements),
        delimiter=np.array([ord(e.delimiter) if e is not None else 44 for e in elements], dtype=np.uint8),
        enum_lo=enum_lo,
        enum_hi=enum_hi,
        enum_oid=np.array([oid for oid, _ in labels], dtype=np.uint32),
        enum_start=np.cumsum([0] + [len(label) for _, label in labels], dtype=np.int64),
        enum_text=np.frombuffer(b"".join(label for _, label in labels), dtype=np.uint8).copy(),
        tz_at=zone.at,
        tz_offset=zone.offset,
        settings=_settings(session, zone.cycle),
    )


def _with_nested(columns: Sequence[TypeInfo | None]) -> tuple[list[TypeInfo | None], list[int]]:
    """The columns' types and behind them those of elements that are arrays; for each where its elements' entry is."""
    bases, element_column = list(columns), []
    for base in bases:  # grows on the way: a nested array's elements may be arrays again
        element = _element(base)
        element_column.append(len(bases) if _element(element) is not None else -1)
        if element_column[-1] >= 0:
            bases.append(element)
    return bases, element_column


def _int32(values: Iterable[int]) -> NDArray[np.int32]:
    return np.array(list(values), dtype=np.int32)


def _settings(session: SessionSettings, cycle: bool) -> NDArray[np.int64]:
    settings = np.zeros(8, dtype=np.int64)
    settings[codes.SET_INFINITE_INTERVALS] = VERSIONS[session.major].has_infinite_intervals
    settings[codes.SET_NARROW_INTERVALS] = not VERSIONS[session.major].has_wide_intervals
    settings[codes.SET_RAW_CHARS] = not VERSIONS[session.major].escapes_chars
    settings[codes.SET_BYTEA_ESCAPE] = session.bytea_output == "escape"
    settings[codes.SET_TZ_CYCLE] = cycle
    return settings


def _labels(
    types: Sequence[TypeInfo | None], session: SessionSettings
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[tuple[int, bytes]]]:
    """Each column's range of labels, and the labels of each distinct enum once, sorted by OID."""
    ranges: dict[tuple[tuple[int, str], ...], tuple[int, int]] = {}
    labels: list[tuple[int, bytes]] = []
    for type in types:
        if type is not None and type.labels and type.labels not in ranges:
            ordered = sorted((oid, session.encoded(label)) for oid, label in type.labels)
            ranges[type.labels] = (len(labels), len(labels) + len(ordered))
            labels += ordered
    spans = np.array(
        [ranges.get(type.labels, (0, 0)) if type is not None else (0, 0) for type in types], dtype=np.int64
    ).reshape(-1, 2)
    return spans[:, 0].copy(), spans[:, 1].copy(), labels
