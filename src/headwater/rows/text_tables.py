"""The flat tables from which the kernels print columns; ``type_forms.py`` has the form of each type.

With `binary`, values of types that have a send function are given codes of binary forms instead of text forms.

The tables have an entry for each column, and after those one for each type that the columns' types are made of. Under
settings that make another text of a common type than the usual one, that type has another code: the kernels of the
usual text need not ask. A column that is to be read back (``exact``) has the usual code whatever the settings are.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import ObjectNames, TypeInfo
from headwater.errors import UnsupportedTypeError
from headwater.option_names import option, ways
from headwater.pg.version import VERSIONS
from headwater.rows import _text_codes as codes
from headwater.rows._conversion import Conversion
from headwater.rows.conversion import NO_CONVERSION, make_conversion
from headwater.rows.missing_values import joined, missing_payload
from headwater.rows.money_format import MoneyFormat
from headwater.rows.session import SessionSettings
from headwater.rows.type_forms import form_code, has_send_function, is_built_in, lacks_names, send_code

ALIGNMENT = {"c": 1, "s": 2, "i": 4, "d": 8}

_FLT_DIG, _DBL_DIG = 6, 15

MAX_NESTING = 32
"""Depth to which arrays, composites, ranges and multiranges may lie inside one another."""

_UNTOLD = ("UTF8", "SQL_ASCII")
"""Encodings of which xml's declaration says nothing (print_xml_decl)."""


class TextTables(NamedTuple):
    """The tables that :func:`headwater.rows.text._text.type_text` needs of c columns, in e entries; arrays are flat.

    Attributes:
        code: int32[e] type code (``_text_codes``, or ``_send_codes`` for what is sent in binary form); 0 for a dropped
            column or attribute, CODE_HEX or CODE_UNKNOWN for a type whose form is not known, as the session wants it.
        oid: uint32[e] the type's OID, as values of composites and ranges hold it.
        length: int32[e] its typlen (a dropped attribute's attlen).
        align: int32[e] its alignment in bytes.
        delimiter: uint8[e] between an array's elements.
        first_child: int64[e+1] the parts of entry i are ``[first_child[i], first_child[i+1])``: an array's elements,
            a range's or a multirange's bounds, a composite's attributes.
        child: int32[k] entries.
        child_oid: uint32[k] OIDs of a composite's attributes' types as declared, be they domains; 0 for a dropped one.
        missing_at: int64[k] where the payload of an attribute's fast default begins, -1 for none (then NULL).
        missing_end: int64[k] where it ends.
        missing: uint8[] payloads, without varlena headers.
        enum_lo: int64[e] labels are ``[enum_lo, enum_hi)``: an enum's, or the names of objects that regclass and its
            kin, and aclitem, are printed with.
        enum_hi: int64[e].
        enum_oid: uint32[k] label OIDs, ascending inside each range.
        enum_start: int64[k+1] label i is ``enum_text[enum_start[i]:enum_start[i+1]]``.
        enum_text: uint8[].
        encoding: uint8[] the client's, by name, which xml in binary form states; empty where it does not.
        conversion: of text in values that are sent in binary form; empty where there is none to do.
        tz_at: int64[n] the session zone's transitions.
        tz_offset: int32[n+1].
        tz_label: int32[n+1] the numbers of the abbreviations before, between and after them.
        tz_labels: uint8[k * LABEL_SIZE] abbreviations.
        money_at: int64[MONEY_PIECES + 1] where each piece ``MONEY_*`` begins in money; zeros if no column holds any.
        money: uint8[] the bytes around and between the digits of an amount.
        settings: int64[SETTINGS], slots ``SET_*`` of ``_text_codes``.
    """

    code: NDArray[np.int32]
    oid: NDArray[np.uint32]
    length: NDArray[np.int32]
    align: NDArray[np.int32]
    delimiter: NDArray[np.uint8]
    first_child: NDArray[np.int64]
    child: NDArray[np.int32]
    child_oid: NDArray[np.uint32]
    missing_at: NDArray[np.int64]
    missing_end: NDArray[np.int64]
    missing: NDArray[np.uint8]
    enum_lo: NDArray[np.int64]
    enum_hi: NDArray[np.int64]
    enum_oid: NDArray[np.uint32]
    enum_start: NDArray[np.int64]
    enum_text: NDArray[np.uint8]
    encoding: NDArray[np.uint8]
    conversion: Conversion
    tz_at: NDArray[np.int64]
    tz_offset: NDArray[np.int32]
    tz_label: NDArray[np.int32]
    tz_labels: NDArray[np.uint8]
    money_at: NDArray[np.int64]
    money: NDArray[np.uint8]
    settings: NDArray[np.int64]


def base_type(type: TypeInfo) -> TypeInfo:
    """Return the type itself, or the one that a domain is over."""
    return type.base if type.base is not None else type


@dataclass(frozen=True, slots=True)
class _Part:
    """A type as a part of a column: itself with domains looked through, None for a dropped one.

    Attributes:
        type: the type.
        length: typlen or attlen.
        align: typalign or attalign.
        missing: payload of an attribute's fast default.
        declared: OID of an attribute's type, domains not looked through.
    """

    type: TypeInfo | None
    length: int
    align: str
    missing: bytes | None = None
    declared: int = 0


def _whole(type: TypeInfo | None) -> _Part:
    """Return a column's own type, or that of elements or bounds, as a part."""
    if type is None:
        return _Part(None, 0, "c")
    base = base_type(type)
    return _Part(base, base.typlen, base.typalign)


def _parts(base: TypeInfo | None) -> list[_Part]:
    """List the parts that a type is made of."""
    if base is None or is_built_in(base):
        return []
    if base.attributes:
        return [
            _Part(
                None if column.is_dropped or column.type is None else base_type(column.type),
                column.attlen,
                column.attalign,
                missing_payload(column, f'attribute "{column.name}" of type {base.display_name}'),
                0 if column.is_dropped or column.type is None else column.type.oid,
            )
            for column in base.attributes
        ]
    inner = base.element or base.subtype
    return [_whole(inner)] if inner is not None else []


UNKNOWN_TYPES_HINT = ways(
    f"{option('unknown-types', 'hex')} or null lets them pass", f"choose other tables with {option('tables')}"
)


def unprintable(type: TypeInfo) -> str | None:
    """Say why values of a type cannot be printed; None if they can.

    Either the type, or one that it is made of, has no text form here, or they are nested deeper than MAX_NESTING.
    """
    reason = _lacking(base_type(type), 0, form_code)
    return None if reason is None else f"values of type {type.display_name} cannot be printed{reason}"


def unsendable(type: TypeInfo) -> str | None:
    """Say why values of a type cannot be made in the form that is sent in binary mode; None if they can."""
    if not has_send_function(base_type(type)):
        return unprintable(type)
    reason = _lacking(base_type(type), 0, send_code)
    return None if reason is None else f"values of type {type.display_name} cannot be sent in binary form{reason}"


def _lacking(base: TypeInfo, depth: int, code_of: Callable[[TypeInfo], int]) -> str | None:
    """Say what stands in the way of printing or sending a type that lies so deep in another; None for nothing."""
    if depth > MAX_NESTING:
        return f": more than {MAX_NESTING} types lie inside one another"
    if code_of is form_code and lacks_names(base):
        return f": the catalog that was exported lacks the names that {base.display_name} is printed with"
    if code_of(base) == codes.CODE_NONE:
        return f": they hold {base.display_name}" if depth else ""
    if depth and form_code(base) == codes.CODE_ADDED:
        return f": they hold {base.display_name}, which is printed by a package, and as a column's own type only"
    parts = [part.type for part in _parts(base) if part.type is not None]
    return next((why for part in parts if (why := _lacking(part, depth + 1, code_of)) is not None), None)


def without_send_function(type: TypeInfo) -> str | None:
    """Find the first type without a send function that a type is made of: its name; None if all have one."""
    base = base_type(type)
    if not has_send_function(base):
        return base.display_name
    parts = [part.type for part in _parts(base) if part.type is not None]
    return next((name for part in parts if (name := without_send_function(part)) is not None), None)


def text_code(type: TypeInfo) -> int:
    """Return the type code of a type: the kernel that prints it.

    Raises:
        UnsupportedTypeError: none prints it.
    """
    reason = unprintable(type)
    if reason is not None:
        raise UnsupportedTypeError(reason)
    return form_code(base_type(type))


def _code_or_unknown(type: TypeInfo, session: SessionSettings, binary: bool) -> int:
    if (unsendable(type) if binary else unprintable(type)) is None:
        base = base_type(type)
        return send_code(base) if binary and has_send_function(base) else form_code(base)
    return codes.CODE_HEX if session.unknown_types == "hex" else codes.CODE_UNKNOWN


def build_text_tables(
    types: Sequence[TypeInfo | None],
    session: SessionSettings,
    exact: Container[int] = (),
    *,
    binary: bool = False,
) -> TextTables:
    """Build the tables for columns of the types given, one entry each.

    Args:
        types: the columns'; None is a dropped column.
        session: the settings that values are printed under.
        exact: places of columns of scalar types whose text is read back: dates and timestamps are in ISO style, floats
            in their shortest exact form.
        binary: columns whose type has a send function have codes of binary forms; others are printed.

    Raises:
        CatalogError: a composite's fast default is malformed.
        UsageError: a column holds money, and this machine does not have its locale.
    """
    own_codes = [_code_or_unknown(type, session, binary) if type is not None else codes.CODE_NONE for type in types]
    is_known = [code not in (codes.CODE_NONE, codes.CODE_HEX, codes.CODE_UNKNOWN) for code in own_codes]
    columns = [_whole(type if known else None) for type, known in zip(types, is_known, strict=True)]
    entries, children = _with_parts(columns)
    own_codes = _styled(own_codes + _codes_of(entries[len(types) :], binary), exact, session)
    money = session.money if codes.CODE_MONEY in own_codes else None
    pieces = money.pieces if money is not None else (b"",) * codes.MONEY_PIECES
    bases = [part.type for part in entries]
    missing = _missing_values([part for parts in children for part, _ in parts])
    zone, client = session.zone, session.client_encoding
    enum_lo, enum_hi, labels = _labels(bases, session)
    return TextTables(
        code=_int32(own_codes),
        oid=np.array([base.oid if base is not None else 0 for base in bases], dtype=np.uint32),
        length=_int32(part.length for part in entries),
        align=_int32(ALIGNMENT[part.align] for part in entries),
        delimiter=np.array([_delimiter(base) for base in bases], dtype=np.uint8),
        first_child=np.cumsum([0] + [len(parts) for parts in children], dtype=np.int64),
        child=_int32(entry for parts in children for _, entry in parts),
        child_oid=np.array([part.declared for parts in children for part, _ in parts], dtype=np.uint32),
        missing_at=missing.at,
        missing_end=missing.end,
        missing=missing.payloads,
        enum_lo=enum_lo,
        enum_hi=enum_hi,
        enum_oid=labels.oid,
        enum_start=np.cumsum([0] + [len(label) for label in labels.texts], dtype=np.int64),
        enum_text=joined(labels.texts),
        encoding=joined([client.encode()] if binary and client not in _UNTOLD else []),
        conversion=make_conversion(session.encoding, client) if binary else NO_CONVERSION,
        tz_at=zone.at,
        tz_offset=zone.offset,
        tz_label=zone.label,
        tz_labels=zone.labels,
        money_at=np.cumsum([0] + [len(piece) for piece in pieces], dtype=np.int64),
        money=joined(list(pieces)),
        settings=_settings(session, zone.cycle, money),
    )


def _codes_of(parts: Sequence[_Part], binary: bool) -> list[int]:
    """Return the codes of the parts of columns."""
    code_of = send_code if binary else form_code
    return [code_of(part.type) if part.type is not None else codes.CODE_NONE for part in parts]


def _with_parts(columns: Sequence[_Part]) -> tuple[list[_Part], list[list[tuple[_Part, int]]]]:
    """Return the columns followed by their parts, equal parts once; and for each its parts and their entries."""
    entries, children = list(columns), []
    known: dict[tuple[TypeInfo | None, int, str], int] = {}
    for entry in entries:  # grows on the way: parts have parts again
        numbered = []
        for part in _parts(entry.type):
            key = part.type, part.length, part.align
            if key not in known:
                known[key] = len(entries)
                entries.append(part)
            numbered.append((part, known[key]))
        children.append(numbered)
    return entries, children


def _delimiter(base: TypeInfo | None) -> int:
    """Return the character between an array's elements; a comma for a type that is no array."""
    return ord(base.element.delimiter) if base is not None and base.element is not None else ord(",")


def _int32(values: Iterable[int]) -> NDArray[np.int32]:
    return np.array(list(values), dtype=np.int32)


class _Missing(NamedTuple):
    """Fast defaults of attributes, one after the other: where each lies, -1 and on if there is none."""

    at: NDArray[np.int64]
    end: NDArray[np.int64]
    payloads: NDArray[np.uint8]


def _missing_values(parts: Sequence[_Part]) -> _Missing:
    payloads = [part.missing or b"" for part in parts]
    ends = np.cumsum([0] + [len(payload) for payload in payloads], dtype=np.int64)
    return _Missing(np.where([part.missing is None for part in parts], -1, ends[:-1]), ends[1:], joined(payloads))


def _styled(own_codes: Sequence[int], exact: Container[int], session: SessionSettings) -> list[int]:
    """Return the codes as the session's settings want them; those of `exact` stay."""
    styled = _styled_codes(session)
    return [code if i in exact else styled.get(code, code) for i, code in enumerate(own_codes)]


def _styled_codes(session: SessionSettings) -> dict[int, int]:
    """Return the codes that common types have under unusual settings, by their usual ones."""
    styled = {}
    if session.date_style != codes.DATES_ISO:
        styled[codes.CODE_DATE] = codes.CODE_STYLED_DATE
        styled[codes.CODE_TIMESTAMP] = codes.CODE_STYLED_TIMESTAMP
        styled[codes.CODE_TIMESTAMPTZ] = codes.CODE_STYLED_TIMESTAMPTZ
    if session.float_digits(_DBL_DIG) != 0:
        styled[codes.CODE_FLOAT8] = codes.CODE_ROUNDED_FLOAT8
        styled[codes.CODE_FLOAT4] = codes.CODE_ROUNDED_FLOAT4
    return styled


def _settings(session: SessionSettings, cycle: bool, money: MoneyFormat | None) -> NDArray[np.int64]:
    settings = np.zeros(codes.SETTINGS, dtype=np.int64)
    settings[codes.SET_INFINITE_INTERVALS] = VERSIONS[session.major].has_infinite_intervals
    settings[codes.SET_NARROW_INTERVALS] = not VERSIONS[session.major].has_wide_intervals
    settings[codes.SET_BARE_NUMBERS] = not VERSIONS[session.major].encloses_jsonpath_numbers
    settings[codes.SET_JSON_STATISTICS] = VERSIONS[session.major].prints_statistics_as_json
    settings[codes.SET_SEG_BY_LOWER] = not session.version.signs_upper_seg_bounds
    settings[codes.SET_LSN_DIGITS] = VERSIONS[session.major].lsn_digits
    settings[codes.SET_RAW_CHARS] = not VERSIONS[session.major].escapes_chars
    settings[codes.SET_BYTEA_ESCAPE] = session.bytea_output == "escape"
    settings[codes.SET_TZ_CYCLE] = cycle
    settings[codes.SET_DATE_STYLE] = session.date_style
    settings[codes.SET_DAY_FIRST] = session.is_day_first
    settings[codes.SET_INTERVAL_STYLE] = session.interval_style
    settings[codes.SET_FLOAT8_DIGITS] = session.float_digits(_DBL_DIG)
    settings[codes.SET_FLOAT4_DIGITS] = session.float_digits(_FLT_DIG)
    if money is not None:
        settings[codes.SET_MONEY_DECIMALS] = money.decimals
        settings[codes.SET_MONEY_GROUP] = money.group
    return settings


class _Labels(NamedTuple):
    """Texts by OID."""

    oid: NDArray[np.uint32]
    texts: list[bytes]


def _labels(
    types: Sequence[TypeInfo | None], session: SessionSettings
) -> tuple[NDArray[np.int64], NDArray[np.int64], _Labels]:
    """Return each column's range of labels, and the labels of each distinct enum or kind of objects once, by OID."""
    ranges: dict[tuple[tuple[int, str], ...] | ObjectNames | None, tuple[int, int]] = {(): (0, 0), None: (0, 0)}
    oids, texts = [np.empty(0, np.uint32)], list[bytes]()
    spans = np.zeros((len(types), 2), dtype=np.int64)
    for i, type in enumerate(types):
        source = None if type is None else type.names or type.labels
        if source not in ranges:
            labels = _labels_of(source, session)
            ranges[source] = len(texts), len(texts) + len(labels.texts)
            oids.append(labels.oid)
            texts += labels.texts
        spans[i] = ranges[source]
    return spans[:, 0].copy(), spans[:, 1].copy(), _Labels(np.concatenate(oids), texts)


def _labels_of(source: tuple[tuple[int, str], ...] | ObjectNames | None, session: SessionSettings) -> _Labels:
    """Return the labels of an enum, or the names of objects."""
    if isinstance(source, ObjectNames):
        oids = np.frombuffer(source.oids, "<u4").astype(np.uint32)
        return _Labels(oids, session.encoded(source.texts).split(b"\0") if len(oids) else [])
    ordered = sorted((oid, session.encoded(label)) for oid, label in source or ())
    return _Labels(np.array([oid for oid, _ in ordered], np.uint32), [label for _, label in ordered])
