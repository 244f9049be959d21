"""Relations as flat arrays, so that kernels can walk their tuples.

One :class:`SliceLayouts` holds every relation version that a slice's items refer to; ``Items.layout`` indexes it.
Mirrors what ``CompactAttribute`` and ``AttrMissing`` of ``access/tupdesc.h`` hold.

Known gap: cstring columns (attlen -2), which no table can have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import Column, RelationSchema
from headwater.errors import CatalogError, UnsupportedTypeError
from headwater.rows.session import SessionSettings
from headwater.rows.text_tables import TextTables, build_text_tables, text_code

_ALIGN_MASK = {"c": 0, "s": 1, "i": 3, "d": 7}


class SliceLayouts(NamedTuple):
    """l relation versions with c columns in all, dropped ones included.

    Attributes:
        first_column: int64[l+1] columns of layout i are ``[first_column[i], first_column[i+1])``.
        length: int32[c] ``attlen``, -1 varlena.
        align_mask: int64[c] alignment in bytes, less one.
        dropped: uint8[c].
        missing_at: int64[c] offset of the fast default's datum in missing, -1 none (then NULL).
        missing_end: int64[c] end of it.
        missing: uint8[] data of fast defaults.
        texts: how each column's values become text.
        name_at: int64[c+1] offsets into names.
        names: uint8[] ``column "x" of table "s.t"`` per column, for errors.
    """

    first_column: NDArray[np.int64]
    length: NDArray[np.int32]
    align_mask: NDArray[np.int64]
    dropped: NDArray[np.uint8]
    missing_at: NDArray[np.int64]
    missing_end: NDArray[np.int64]
    missing: NDArray[np.uint8]
    texts: TextTables
    name_at: NDArray[np.int64]
    names: NDArray[np.uint8]


def compile_layouts(schemas: Sequence[RelationSchema], session: SessionSettings) -> SliceLayouts:
    """Lay out relation versions for the kernels.

    Args:
        schemas: relation versions, in the order that ``Items.layout`` counts them.
        session: the settings that values are printed under.

    Raises:
        UnsupportedTypeError: a column that is not dropped has a type without a text form here; names type, column and
            table.
        CatalogError: a column that no relation could have.
    """
    labels = [_label(schema, column) for schema in schemas for column in schema.columns]
    for schema in schemas:
        _check(schema)
    columns = [column for schema in schemas for column in schema.columns]
    missing = [b"" if column.is_dropped else column.missing or b"" for column in columns]
    missing_end = _running(missing)
    return SliceLayouts(
        first_column=np.cumsum([0, *(len(schema.columns) for schema in schemas)], dtype=np.int64),
        length=np.array([column.attlen for column in columns], dtype=np.int32),
        align_mask=np.array([_ALIGN_MASK[column.attalign] for column in columns], dtype=np.int64),
        dropped=np.array([column.is_dropped for column in columns], dtype=np.uint8),
        missing_at=np.where(missing_end[1:] > missing_end[:-1], missing_end[:-1], -1),
        missing_end=missing_end[1:],
        missing=_bytes(missing),
        texts=build_text_tables([None if column.is_dropped else column.type for column in columns], session),
        name_at=_running(labels),
        names=_bytes(labels),
    )


def column_label(layouts: SliceLayouts, column: int) -> str:
    """``column "x" of table "s.t"`` of a column of the slice."""
    start, end = layouts.name_at[column], layouts.name_at[column + 1]
    return layouts.names[start:end].tobytes().decode()


def _label(schema: RelationSchema, column: Column) -> bytes:
    return f'column "{column.name}" of table "{schema.namespace}.{schema.name}"'.encode(errors="replace")


def _check(schema: RelationSchema) -> None:
    """Refuse what the kernels could not walk or print."""
    for number, column in enumerate(schema.columns, start=1):
        place = _label(schema, column).decode()
        if column.number != number:
            raise CatalogError(f"{place} has attnum {column.number}, expected {number}")
        if column.attalign not in _ALIGN_MASK or (column.attlen <= 0 and column.attlen != -1):
            raise CatalogError(f"{place} has attlen {column.attlen} and attalign {column.attalign!r}")
        if not column.is_dropped:
            _check_value(column, place)


def _check_value(column: Column, place: str) -> None:
    if column.type is None:
        raise CatalogError(f"{place} has no type")
    if column.missing is not None and (
        not column.missing or (column.attlen > 0 and len(column.missing) != column.attlen)
    ):
        raise CatalogError(f"{place} has a missing value of {len(column.missing)} bytes, attlen {column.attlen}")
    try:
        text_code(column.type)
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(f"{error.message}, needed for {place}", hint=error.hint) from None


def _running(pieces: Sequence[bytes]) -> NDArray[np.int64]:
    """Offsets of pieces put one after the other, int64[n+1]."""
    return np.cumsum([0, *(len(piece) for piece in pieces)], dtype=np.int64)


def _bytes(pieces: Sequence[bytes]) -> NDArray[np.uint8]:
    """The pieces one after the other, in an array that may be written to (read-only ones are another kernel type)."""
    return np.frombuffer(bytearray(b"".join(pieces)), dtype=np.uint8)
