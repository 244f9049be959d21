"""Rows of a mirror's file on their way to columns that the mirror has now, by another type than the file has.

A rewrite by ALTER TABLE ends the rows of the files. Until then changes identify them by keys that are read in the new
type already. A key that became text is printed here as PostgreSQL has printed it in the changes. A value there has one
text whatever the session's settings are. Of the other types the text may find no row (:func:`unlike_key`), but never
another one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import LakeError
from headwater.lakes.deletes.deleted_rows import DeletedRows
from headwater.lakes.history_rows import schema_of
from headwater.lakes.lake_schema import is_wider
from headwater.lakes.paused import RELOADED
from headwater.landing.mirrors.mirror_form import MirrorForm
from headwater.landing.tables.table_events import says_otherwise
from headwater.rows.columns.arrow import repeated

_PRINTED: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "t" if value else "f",
    uuid.UUID: str,
    bytes: lambda value: f"\\x{value.hex()}",
    float: lambda value: f"\0{value!r}",
}
"""Values as PostgreSQL prints them where Arrow does not, by the type that Python has for them. Bytes are in the default
form, and no value's other form begins so. Floats are like no text of PostgreSQL's: with few ``extra_float_digits`` two
of them have one."""


@dataclass(frozen=True)
class FileRows:
    """Rows of a file.

    Attributes:
        form: of the mirror.
        rows: the rows; path: of the file.
        are_killed: none is left in the end.
        is_told: only the columns that identify them are asked for.
        deleted: rows of the file that are not among them.
    """

    form: MirrorForm
    rows: pa.Table
    path: str
    are_killed: bool
    is_told: bool
    deleted: DeletedRows | None = None

    def column(self, wanted: pa.Field[Any]) -> pa.ChunkedArray[Any]:
        """Return a column of the mirror.

        Raises:
            LakeError: values are not available in its type.
        """
        if wanted.name in self.form.retyped and len(self.rows) and not self.are_killed:
            raise says_otherwise(self.form.column(wanted.name), self.form.retyped[wanted.name])
        if wanted.name in self.rows.column_names and self.form.becomes.get(wanted.name) != wanted.name:
            return self._widened(self.rows[wanted.name], wanted)
        fill, source = self.form.fills.get(wanted.name), self.form.becomes.get(wanted.name)
        if fill is not None:
            return pa.chunked_array([repeated(fill, len(self.rows)).cast(wanted.type)])
        if source is not None and len(self.rows) and self._has(source):
            return self._converted(self._held(source), wanted)
        return pa.chunked_array([pa.nulls(len(self.rows), wanted.type)])

    def _has(self, name: str) -> bool:
        """Tell whether the file has a column: none that came after it."""
        return name in self.rows.column_names or name in schema_of(self.path).names

    def _held(self, name: str) -> pa.ChunkedArray[Any]:
        if name in self.rows.column_names:
            return self.rows[name]
        return self.form.valid(self.path, [name], self.deleted)[name]

    def _widened(self, values: pa.ChunkedArray[Any], wanted: pa.Field[Any]) -> pa.ChunkedArray[Any]:
        """Return a column that has another type now; rows that are there still have not been rewritten."""
        if values.type == wanted.type:
            return values
        is_longer = pa.types.is_decimal(values.type) and pa.types.is_decimal(wanted.type)
        if is_longer or self.are_killed or not len(values):
            return values.cast(wanted.type)
        raise self._cannot_become(values.type, wanted)

    def _converted(self, values: pa.ChunkedArray[Any], wanted: pa.Field[Any]) -> pa.ChunkedArray[Any]:
        """Return values in the type that took them over as they were stored, without a rewrite."""
        if self.are_killed:
            return self._as_key(values, wanted)
        is_moment = pa.types.is_timestamp(values.type) and pa.types.is_timestamp(wanted.type)
        is_number = pa.types.is_decimal(values.type)
        if is_number and pa.types.is_string(wanted.type):
            return _digits(values)
        if is_moment or (is_number and is_wider(values.type, wanted.type)):
            return values.cast(wanted.type)
        raise self._cannot_become(values.type, wanted)

    def _as_key(self, values: pa.ChunkedArray[Any], wanted: pa.Field[Any]) -> pa.ChunkedArray[Any]:
        """Return the values that changes from before a rewrite have in a column that the rewrite gave another type."""
        if not self.is_told:
            return pa.chunked_array([pa.nulls(len(values), wanted.type)])
        try:
            return _printed(values) if pa.types.is_string(wanted.type) else values.cast(wanted.type)
        except pa.ArrowException:
            raise self._cannot_become(values.type, wanted) from None

    def _cannot_become(self, type: pa.DataType, wanted: pa.Field[Any]) -> LakeError:
        return LakeError(
            f"{self.form.column(wanted.name)} has become {wanted.type}, its rows have {type}, and the server has not "
            "written them anew",
            hint=RELOADED,
        )


def _digits(values: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Return decimals as text with all digits: Arrow writes few of them far after the point as 1E-10."""
    texts = values.cast(pa.string())
    is_odd = cast("pa.ChunkedArray[pa.BooleanScalar]", pc.match_substring(texts, "E"))
    if not pc.any(is_odd).as_py():
        return texts
    digits = [None if value is None else f"{value:f}" for value in values.filter(is_odd).to_pylist()]
    printed = pc.replace_with_mask(texts.combine_chunks(), is_odd.combine_chunks(), pa.array(digits, pa.string()))
    return pa.chunked_array([printed])


def _printed(values: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Return values as text."""
    if pa.types.is_decimal(values.type):
        return _digits(values)
    if not _is_printed(values.type):
        return values.cast(pa.string())
    texts = [None if value is None else _PRINTED[type(value)](value) for value in values.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _is_printed(type: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type) or pa.types.is_boolean(type) or type in (pa.uuid(), pa.binary()))


def unlike_key(form: MirrorForm, lsn: int) -> LakeError:
    """Return the error of a change whose row is not found by a key that has another type after it.

    Args:
        form: of the mirror; lsn: of the change.
    """
    names = ", ".join(f'"{form.source_names.get(name, name)}"' for name in form.told_by if name in form.becomes)
    return LakeError(
        f"{form.table}: a row is updated or deleted before the server has written its key anew with another type "
        f"({names}), and by that it cannot be told",
        lsn=lsn,
        hint="end the window before that ALTER TABLE (--end), and go on from there; where both are of one transaction, "
        f"{RELOADED}",
    )
