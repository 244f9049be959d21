"""The columns of a table in the lake: which of them is which column of the source, and how they follow its changes.

A column is known by its ``attnum``, which PostgreSQL never uses again. So a rename changes nothing in the lake, and a
column that is dropped and made again is another one. A column stays in the lake for ever: what was dropped is null from
then on. A column whose type becomes one that holds all values of the old one is widened, where the lake's tables can
be. With any other type it is a new column, of a name with a number after it. Or it is not changed at all, and a table
of the source whose columns become others has another table there.

Each field of the table says in its metadata whose it is: the source's table and column by their numbers. Parquet files,
manifests and Delta keep that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headwater.errors import LakeError

EVOLVE, FAIL, SPLIT = "evolve", "fail", "split"
SCHEMA_EVOLUTION = (EVOLVE, FAIL, SPLIT)
"""What is done when a table's columns are others than those in the lake: these follow, it is an error, or changes go
to another table of the lake from then on."""

Shape = Mapping[int, pa.DataType]
"""A table's columns: types in the lake, by ``attnum``."""

COLUMN_MARK = b"headwater.column"
"""Metadata of a field: the source's table and column by their numbers, and the column's name if it is another one."""

_INTEGERS = (pa.int16(), pa.int32(), pa.int64())


@dataclass(frozen=True)
class LakeColumn:
    """A column of the source in the lake.

    Attributes:
        name: in the lake.
        number: ``attnum``.
        type: in the lake.
        source: its name in the source when it came, where the lake has had another column of that name.
    """

    name: str
    number: int
    type: pa.DataType
    source: str | None = None


@dataclass(frozen=True)
class LakeSchema:
    """A table of the source in the lake.

    Attributes:
        oid: of the source's table; 0 where it has had no columns, so that none says it.
        columns: its columns, in the lake's order.
    """

    oid: int
    columns: tuple[LakeColumn, ...]

    @property
    def fields(self) -> list[pa.Field[Any]]:
        """The columns as fields of the table, that say whose they are."""
        marks = ({COLUMN_MARK: _mark(self.oid, column)} for column in self.columns)
        return [
            pa.field(column.name, column.type, metadata=mark) for column, mark in zip(self.columns, marks, strict=True)
        ]

    @classmethod
    def of(cls, schema: pa.Schema) -> LakeSchema:
        """Return the source's columns of a table, by what their fields say.

        Raises:
            LakeError: they say something else.
        """
        marks = [(field, (field.metadata or {}).get(COLUMN_MARK)) for field in schema]
        try:
            places = [(field, mark.decode().split(".", 2)) for field, mark in marks if mark is not None]
            columns = tuple(
                LakeColumn(field.name, int(number), field.type, *source) for field, (_, number, *source) in places
            )
            (oid,) = {int(oid) for _, (oid, *_) in places} or {0}
        except ValueError as error:
            raise LakeError(f"the columns of a table in the lake are not as headwater marks them: {error}") from None
        return cls(oid, columns)

    @property
    def renamed(self) -> dict[str, str]:
        """Names in the source of columns that have others in the lake."""
        return {column.name: column.source for column in self.columns if column.source is not None}

    @property
    def shape(self) -> Shape:
        """The columns; of several that were the same one in the source, the last."""
        return {column.number: column.type for column in self.columns}

    @property
    def by_number(self) -> dict[int, list[pa.Field[Any]]]:
        """The columns by their numbers in the source; those that were the same one there in their order."""
        columns: dict[int, list[pa.Field[Any]]] = {}
        for column in self.columns:
            columns.setdefault(column.number, []).append(pa.field(column.name, column.type))
        return columns

    def holding(self, column: LakeColumn) -> LakeColumn:
        """Return the column that holds the values of a column of the source; there is one."""
        return next(known for known in reversed(self.columns) if known.number == column.number and holds(known, column))


def _mark(oid: int, column: LakeColumn) -> bytes:
    """Return ``OID.ATTNUM``, and the name in the source where that is another one."""
    return ".".join([str(oid), str(column.number), *([] if column.source is None else [column.source])]).encode()


def evolved(
    lake: LakeSchema | None,
    oid: int,
    columns: Iterable[LakeColumn],
    reserved: Iterable[str],
    policy: str,
    table: str,
    *,
    widens: bool = True,
    former: frozenset[int] = frozenset(),
    replaces_types: bool = False,
) -> LakeSchema:
    """Return the lake's columns for a table that has certain columns now.

    Args:
        lake: those that there are; None for none.
        oid: of the source's table.
        columns: of the source, as they are.
        reserved: names that columns of the source cannot have there.
        policy: one of :data:`SCHEMA_EVOLUTION`.
        table: what errors call it.
        widens: see :class:`~headwater.rows.columns.column_types.Target`.
        former: OIDs of tables whose place the source's has taken in the lake; the first one's stays with the columns.
        replaces_types: a column gets another type in place, as no row stays that has the older one.

    Raises:
        LakeError: columns differ, and that is not wanted; or it is another table.
    """
    if lake is None:
        return _Evolution([], {name.lower() for name in reserved}, widens, replaces_types).all(oid, columns)
    if lake.oid not in (0, oid, *former):
        raise LakeError(
            f"{table} is another table now: its OID is {oid}, that of the one in the lake {lake.oid}",
            hint="land it to another place, or remove the one in the lake",
        )
    if policy == SPLIT:
        return lake  # chosen because it has them
    taken = {name.lower() for name in reserved} | {column.name.lower() for column in lake.columns}
    schema = _Evolution(list(lake.columns), taken, widens, replaces_types).all(lake.oid or oid, columns)
    if schema != lake and policy == FAIL:
        differing = [column.name for column in schema.columns if column not in lake.columns]
        raise LakeError(
            f"{table} has other columns than in the lake: {', '.join(differing)}",
            hint="--schema-evolution evolve lets the lake's follow, split begins another table",
        )
    return schema


def taken_over(lake: LakeSchema, columns: Iterable[LakeColumn]) -> LakeSchema:
    """Return the lake's columns as those of another table of the source, which takes the place of theirs: by name.

    A column of the lake that the other table has none for belongs to no column of the source any more.

    Args:
        lake: those that there are.
        columns: of the source's other table.
    """
    numbers = {column.name: column.number for column in columns}
    firsts: dict[int, str] = {}
    for column in lake.columns:
        firsts.setdefault(column.number, column.source or column.name)
    free = min([0, *firsts]) - 1
    nobodys = {number: number if number < 0 else free - at for at, number in enumerate(firsts)}
    newer = {number: numbers.get(name, nobodys[number]) for number, name in firsts.items()}
    return replace(lake, columns=tuple(replace(column, number=newer[column.number]) for column in lake.columns))


@dataclass
class _Evolution:
    """One call of :func:`evolved`."""

    columns: list[LakeColumn]
    taken: set[str]
    widens: bool
    replaces_types: bool

    def all(self, oid: int, columns: Iterable[LakeColumn]) -> LakeSchema:
        """Return the schema with all columns of the source."""
        for column in columns:
            self._take(column)
        return LakeSchema(oid, tuple(self.columns))

    def _take(self, column: LakeColumn) -> None:
        known = [at for at, own in enumerate(self.columns) if own.number == column.number]
        if any(holds(self.columns[at], column) for at in known):
            return  # also a type that it had before
        if known and (self.replaces_types or (self.widens and is_wider(self.columns[known[-1]].type, column.type))):
            self.columns[known[-1]] = replace(self.columns[known[-1]], type=column.type)
            return
        name = self._free(column.name)
        self.columns.append(replace(column, name=name, source=None if name == column.name else column.name))

    def _free(self, name: str) -> str:
        """Return a name that no other column has, not even with other cases."""
        free, number = name, 1
        while free.lower() in self.taken:
            number += 1
            free = f"{name}_{number}"
        self.taken.add(free.lower())
        return free


def holds(lake: LakeColumn, column: LakeColumn) -> bool:
    """Tell whether a column of the lake has a type for the values of one of the source."""
    return is_wider(column.type, lake.type)


def has_shape(columns: Shape, shape: Shape) -> bool:
    """Tell whether a table has all columns of a shape, as they are."""
    return shape.items() <= columns.items()


def is_wider(old: pa.DataType, new: pa.DataType) -> bool:
    """Tell whether a type holds all values of another one, by Delta's and Iceberg's type widening, or is the same."""
    if old == new:
        return True
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS.index(new) > _INTEGERS.index(old)
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(old.scale == new.scale and new.precision > old.precision)
    return bool(old == pa.float32() and new == pa.float64())
