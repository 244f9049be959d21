"""Relations as flat arrays, so that kernels can walk their tuples.

One :class:`SliceLayouts` holds every relation version that a slice's items refer to; ``Items.layout`` indexes it.
Mirrors ``CompactAttribute`` and ``AttrMissing`` of ``access/tupdesc.h``.

Known gap: cstring columns (attlen -2), which no table can have.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.errors import CatalogError
from headwater.rows._conversion import Conversion
from headwater.rows._send_codes import SEND_BYTES, SENT
from headwater.rows._text_codes import CODE_ADDED, CODE_UNKNOWN
from headwater.rows.conversion import make_conversion
from headwater.rows.missing_values import joined, missing_payload
from headwater.rows.session import SessionSettings
from headwater.rows.text_tables import (
    TextTables,
    base_type,
    build_text_tables,
    unprintable,
    unsendable,
    without_send_function,
)
from headwater.rows.tuples._deform import ALIGN_MASK, COLUMN_FIELDS, DROPPED, LENGTH, MISSING_AT, MISSING_END

_ALIGN_MASK = {"c": 0, "s": 1, "i": 3, "d": 7}


class SliceLayouts(NamedTuple):
    """l relation versions with c columns in all, dropped ones included.

    Attributes:
        first_column: int64[l+1] columns of layout i are ``[first_column[i], first_column[i+1])``.
        columns: int64[c, COLUMN_FIELDS] by the names in ``_deform``: ``attlen`` (-1 varlena), alignment in bytes less
            one, and whether it is dropped or not shown; then where its fast default's payload lies in missing (-1 none,
            then NULL).
        missing: uint8[] payloads of fast defaults, decompressed and without varlena headers.
        texts: the tables by which each column's values become text.
        conversion: of that text to the client's encoding.
        name_at: int64[c+1] offsets into names.
        names: uint8[] ``column "x" of table "s.t"`` per column, for errors.
        unknown: by column the fault of its type, for those whose values cannot be printed (or sent).
        refuses_unknown: a value of such a column is an error; otherwise NULL takes its place.
        added: by column of those that another package prints, the output function that it is known by.
        unsent: by column of those that are sent in binary form, the type inside its own that has no send function.
    """

    first_column: NDArray[np.int64]
    columns: NDArray[np.int64]
    missing: NDArray[np.uint8]
    texts: TextTables
    conversion: Conversion
    name_at: NDArray[np.int64]
    names: NDArray[np.uint8]
    unknown: Mapping[int, str]
    refuses_unknown: bool
    added: Mapping[int, str]
    unsent: Mapping[int, str]


def compile_layouts(
    schemas: Sequence[RelationSchema],
    session: SessionSettings,
    shown: Sequence[Container[int] | None] | None = None,
    *,
    binary: bool = False,
) -> SliceLayouts:
    """Lay out relation versions for the kernels.

    Args:
        schemas: relation versions, in the order that ``Items.layout`` counts them.
        session: the settings that values are printed under.
        shown: for each version the numbers of the columns that anybody looks at (None: all); others are passed over
            like dropped ones.
        binary: cells are BINARY, as the type's send function makes them; those of a type that has none stay TEXT.

    Raises:
        CatalogError: a column that no relation could have.
        UsageError: a column holds money, and this machine does not have the locale lc_monetary.
    """
    for schema in schemas:
        _check(schema)
    wanted = zip(schemas, shown or [None] * len(schemas), strict=True)
    columns = [_as_shown(column, numbers) for schema, numbers in wanted for column in schema.columns]
    labels = [_label(schema, column) for schema in schemas for column in schema.columns]
    payloads = [missing_payload(column, label.decode()) for column, label in zip(columns, labels, strict=True)]
    types = [None if column.is_dropped else column.type for column in columns]
    texts = build_text_tables(types, session, binary=binary)
    return SliceLayouts(
        first_column=np.cumsum([0, *(len(schema.columns) for schema in schemas)], dtype=np.int64),
        columns=_columns(columns, payloads),
        missing=joined([payload or b"" for payload in payloads]),
        texts=texts,
        conversion=make_conversion(session.written_in, session.client_encoding),
        name_at=_running(labels),
        names=joined(labels),
        unknown=_unknown(types, texts, binary),
        refuses_unknown=session.unknown_types == "error",
        added=_added(types, texts),
        unsent=_unsent(types, texts),
    )


def column_label(layouts: SliceLayouts, column: int) -> str:
    """Name a column of the slice: ``column "x" of table "s.t"``."""
    start, end = layouts.name_at[column], layouts.name_at[column + 1]
    return layouts.names[start:end].tobytes().decode()


def _as_shown(column: Column, numbers: Container[int] | None) -> Column:
    """Return a column, or one that is dropped where nobody looks at it."""
    if column.is_dropped or numbers is None or column.number in numbers:
        return column
    return replace(column, type=None, is_dropped=True)


def _columns(columns: Sequence[Column], payloads: Sequence[bytes | None]) -> NDArray[np.int64]:
    fields = np.zeros((len(columns), COLUMN_FIELDS), dtype=np.int64)
    ends = _running([payload or b"" for payload in payloads])
    fields[:, LENGTH] = [column.attlen for column in columns]
    fields[:, ALIGN_MASK] = [_ALIGN_MASK[column.attalign] for column in columns]
    fields[:, DROPPED] = [column.is_dropped for column in columns]
    fields[:, MISSING_AT] = np.where([payload is None for payload in payloads], -1, ends[:-1])
    fields[:, MISSING_END] = ends[1:]
    return fields


def _label(schema: RelationSchema, column: Column) -> bytes:
    return f'column "{column.name}" of table "{schema.namespace}.{schema.name}"'.encode(errors="replace")


def _check(schema: RelationSchema) -> None:
    """Refuse columns that the kernels could not walk or print."""
    for number, column in enumerate(schema.columns, start=1):
        place = _label(schema, column).decode()
        if column.number != number:
            raise CatalogError(f"{place} has attnum {column.number}, expected {number}")
        if column.attalign not in _ALIGN_MASK or (column.attlen <= 0 and column.attlen != -1):
            raise CatalogError(f"{place} has attlen {column.attlen} and attalign {column.attalign!r}")
        if not column.is_dropped and column.type is None:
            raise CatalogError(f"{place} has no type")


def _unknown(types: Sequence[TypeInfo | None], texts: TextTables, binary: bool) -> dict[int, str]:
    """Say why the values of columns cannot be printed or sent whose form is not known."""
    numbers = np.flatnonzero(texts.code[: len(types)] == CODE_UNKNOWN).tolist()
    reasons = {}
    for number in numbers:
        type = types[number]
        if type is not None:
            reasons[number] = (unsendable(type) if binary else unprintable(type)) or ""
    return reasons


def _added(types: Sequence[TypeInfo | None], texts: TextTables) -> dict[int, str]:
    """Return the output functions of columns that another package prints."""
    numbers = np.flatnonzero(np.isin(texts.code[: len(types)], (CODE_ADDED, SEND_BYTES | CODE_ADDED))).tolist()
    return {number: base_type(type).output for number in numbers if (type := types[number]) is not None}


def _unsent(types: Sequence[TypeInfo | None], texts: TextTables) -> dict[int, str]:
    """Return the types without a send function inside those of columns that are sent in binary form."""
    numbers = np.flatnonzero(texts.code[: len(types)] >= SENT).tolist()
    named = {number: without_send_function(type) for number in numbers if (type := types[number]) is not None}
    return {number: name for number, name in named.items() if name is not None}


def _running(pieces: Sequence[bytes]) -> NDArray[np.int64]:
    """Return the offsets of pieces put one after the other, int64[n+1]."""
    return np.cumsum([0, *(len(piece) for piece in pieces)], dtype=np.int64)
