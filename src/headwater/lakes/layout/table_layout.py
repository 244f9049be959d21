"""The layout of a table: fields that partition its rows, and the order of rows in each of its files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.errors import LakeError, UsageError
from headwater.lakes.layout.transforms import PartitionField, column_name, written_name

Partition: TypeAlias = "tuple[str | None, ...]"
"""The texts that name a partition, one for each field; none for a table that has no partitions."""

_SORT = re.compile(
    r'(?P<column>"(?:[^"]|"")+"|\S+)(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?', re.IGNORECASE
)


@dataclass(frozen=True)
class SortField:
    """A column that rows are sorted by.

    Attributes:
        column: its name; descending: the greatest value comes first.
        nulls_first: nulls come before all values, else after them.
    """

    column: str
    descending: bool = False
    nulls_first: bool = False

    @classmethod
    def parse(cls, text: str) -> SortField:
        """Read a field as settings write it: as ORDER BY has it, with PostgreSQL's places of nulls.

        Raises:
            UsageError: it is none.
        """
        match = _SORT.fullmatch(text.strip())
        name = None if match is None else column_name(match["column"])
        if match is None or name is None:
            raise UsageError(f'"{text}" is no sort order', hint='expected "COLUMN [asc|desc] [nulls first|last]"')
        descending = (match["way"] or "").lower() == "desc"
        nulls = (match["nulls"] or ("first" if descending else "last")).lower()
        return cls(name, descending, nulls == "first")

    @property
    def text(self) -> str:
        """The field as settings write it: one text of all that mean the same."""
        nulls = "" if self.nulls_first == self.descending else f" nulls {'first' if self.nulls_first else 'last'}"
        return f"{written_name(self.column)}{' desc' if self.descending else ''}{nulls}"

    def of(self, column: str) -> SortField:
        """Return the same order of another column."""
        return replace(self, column=column)

    def takes(self, type: pa.DataType) -> bool:
        """Tell whether values of a type have an order."""
        return type == pa.uuid() or not (
            pa.types.is_nested(type) or pa.types.is_null(type) or isinstance(type, pa.BaseExtensionType)
        )


@dataclass(frozen=True)
class TableLayout:
    """A layout; pickles.

    Attributes:
        partition: fields that partition rows; sort: fields that they are sorted by.
        has_directories: files lie in directories that are called as their partitions are (Hive).
        takes_empty: an empty text is something else than null.
    """

    partition: tuple[PartitionField, ...] = ()
    sort: tuple[SortField, ...] = ()
    has_directories: bool = False
    takes_empty: bool = True

    def __bool__(self) -> bool:
        return bool(self.partition or self.sort)

    def partitions(self, rows: pa.Table) -> Iterator[tuple[Partition, NDArray[np.int64]]]:
        """Yield the partitions that rows are of, each with the numbers of its rows in their order.

        Args:
            rows: of the table; without any nothing is yielded.

        Raises:
            LakeError: a row is of a partition that the table cannot have.
        """
        if not self.partition or not len(rows):
            yield from [((), np.arange(len(rows)))] if len(rows) else []
            return
        encoded = [_encoded(field.texts(_array(rows[field.column]))) for field in self.partition]
        codes = np.zeros(len(rows), np.int64)
        for own in encoded:
            codes = _joined(codes, own.indices.to_numpy().astype(np.int64), len(own.dictionary))
        order = np.argsort(codes, kind="stable")
        bounds = np.flatnonzero(np.diff(codes[order], prepend=-1, append=-1)).tolist() if len(order) else []
        for start, end in pairwise(bounds):
            first = int(order[start])
            texts = tuple(own.dictionary[own.indices[first].as_py()].as_py() for own in encoded)
            if "" in texts and not self.takes_empty:
                raise LakeError(
                    f'a row has the empty text in column "{self.partition[texts.index("")].column}", which partitions '
                    "the table: Delta takes that for null",
                    hint="partition by another column, and headwater lake reload --table-settings FILE; or land to "
                    "Iceberg or Parquet",
                )
            yield texts, order[start:end]

    def apart(self, rows: pa.Table) -> Iterator[tuple[Partition, pa.Table]]:
        """Yield the partitions that rows are of, each with its rows in their order; see :meth:`partitions`."""
        parts = list(self.partitions(rows))
        # At once, not part by part: each time all chunks would be put together.
        together = rows.take(np.concatenate([numbers for _, numbers in parts])) if len(parts) > 1 else rows
        start = 0
        for partition, numbers in parts:
            yield partition, together.slice(start, len(numbers))
            start += len(numbers)

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Return rows in the order of the layout; those that are equal in it stay as they stand."""
        if not self.sort or len(rows) < 2:
            return rows
        columns: dict[str, Any] = {}
        keys: list[Any] = []
        for number, field in enumerate(self.sort):
            values = _comparable(rows[field.column])
            # By names of their own: pyarrow takes one that begins with a dot for a path into structs.
            columns |= {f"class{number}": _classes(values, field), f"value{number}": values}
            keys += [
                (f"class{number}", "ascending"),
                (f"value{number}", "descending" if field.descending else "ascending"),
            ]
        columns["place"] = pa.array(np.arange(len(rows)))
        return rows.take(pc.sort_indices(pa.table(columns), sort_keys=[*keys, ("place", "ascending")]))


NO_LAYOUT = TableLayout()


def _array(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    if isinstance(column.type, pa.DictionaryType):
        column = column.cast(column.type.value_type)
    whole: pa.Array[Any] = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    return whole


def _encoded(texts: pa.Array[Any]) -> Any:
    return texts.dictionary_encode(null_encoding="encode")


def _joined(codes: NDArray[np.int64], more: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return codes of pairs, dense in the order of the codes."""
    _, joined = np.unique(codes * max(count, 1) + more, return_inverse=True)
    dense: NDArray[np.int64] = joined.astype(np.int64)
    return dense


def _comparable(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    if column.type == pa.uuid():
        # The stubs lack this type.
        return pa.chunked_array([chunk.storage for chunk in column.chunks], pa.binary(16))  # type: ignore[attr-defined, call-overload, no-any-return]
    if isinstance(column.type, pa.DictionaryType):
        return column.cast(column.type.value_type)
    return column


def _classes(values: pa.ChunkedArray[Any], field: SortField) -> pa.Array[Any]:
    """Return where nulls and NaN stand, which is greater than all numbers, as it is to PostgreSQL and to Iceberg."""
    classes = np.zeros(len(values), np.int8)
    if pa.types.is_floating(values.type):
        classes[pc.is_nan(values).fill_null(False).to_numpy()] = -1 if field.descending else 1
    classes[values.is_null().to_numpy()] = -2 if field.nulls_first else 2
    array: pa.Array[Any] = pa.array(classes)
    return array
