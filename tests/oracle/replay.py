"""A table's rows brought forward by the changes that row frames give, and compared with what the server holds.

A row is a dict of the columns whose values are known: a column that a statement added to rows that were there has a
value that no change tells. Values are compared as they are given, so both sides must be in one form: text for images,
for typed columns what :func:`typed_value` makes of the server's text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from oracle.contents import Row
from oracle.streams import format_lsn


@dataclass(frozen=True)
class RowChange:
    """One change of a row, or a truncate.

    Attributes:
        lsn: its record's.
        operation: ``insert``, ``update``, ``delete`` or ``truncate``.
        before: columns of the old row or of its key, as far as they were logged; None if none were.
        after: known columns of the new row, None for a delete or truncate.
    """

    lsn: int
    operation: str
    before: Row | None
    after: Row | None


class ReplayError(AssertionError):
    """A change does not fit the rows."""


class Replay:
    """A table's rows.

    Args:
        key: columns that tell rows apart; empty where whole rows do.
        rows: those at the start.
    """

    def __init__(self, key: Sequence[str], rows: Iterable[Row]) -> None:
        self._key = tuple(key)
        self._rows: dict[Any, Row] = {}
        self._serial = 0
        for row in rows:
            self._add(row, 0)

    @property
    def rows(self) -> list[Row]:
        """The rows that are there after the changes so far."""
        return list(self._rows.values())

    def apply(self, change: RowChange) -> None:
        """Make one change.

        Raises:
            ReplayError: the row that it changes is not there, or the one that it adds is.
        """
        if change.operation == "truncate":
            self._rows.clear()
        elif change.operation == "insert":
            self._add(_given(change.after), change.lsn)
        else:
            old = self._take(change)
            if change.operation == "update":
                self._add(old | _given(change.after), change.lsn)

    def _add(self, row: Row, lsn: int) -> None:
        self._serial += 1
        place = self._place(row) if self._key else self._serial
        if place in self._rows:
            raise ReplayError(f"{format_lsn(lsn)}: a row with key {place} is there already")
        self._rows[place] = row

    def _take(self, change: RowChange) -> Row:
        if self._key:
            place: Any = self._place(_given(change.before if change.before is not None else change.after))
        else:
            place = self._whole(_given(change.before))
        if place not in self._rows:
            raise ReplayError(
                f"{format_lsn(change.lsn)}: {change.operation} of a row that is not there: {change.before}"
            )
        return self._rows.pop(place)

    def _place(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._key)

    def _whole(self, before: Row) -> int | None:
        """Find the row that agrees with an old one in all that is known of it; of several, the one most is known of."""
        fits = [
            (len(row), place)
            for place, row in self._rows.items()
            if all(before.get(name, value) == value for name, value in row.items())
        ]
        return max(fits)[1] if fits else None


def _given(row: Row | None) -> Row:
    if row is None:
        raise ReplayError("a change without the row that it needs")
    return row


def differences(expected: Iterable[Row], actual: Sequence[Row], names: Sequence[str], key: Sequence[str]) -> list[str]:
    """List what two tables differ in, a line for each row.

    Args:
        expected: the server's rows.
        actual: ours; of a column that is not in a row nothing is known.
        names: columns to compare.
        key: columns that tell rows apart; without any, columns that are unknown in some row are not compared.
    """
    if not key:
        names = [name for name in names if all(name in row for row in actual)]
        wanted, counted = (Counter(tuple(row[n] for n in names) for row in rows) for rows in (expected, actual))
        return [f"{names}: expected {wanted - counted}, found {counted - wanted}"] if wanted != counted else []
    ours = {tuple(row[n] for n in key): row for row in actual}
    lines = []
    for row in expected:
        place = tuple(row[n] for n in key)
        mine = ours.pop(place, None)
        if mine is None:
            lines.append(f"{place}: missing")
        else:
            unequal = [n for n in names if n in mine and mine[n] != row[n]]
            lines += [f"{place}.{n}: expected {row[n]!r}, found {mine[n]!r}" for n in unequal]
    return lines + [f"{place}: not on the server" for place in ours]


def typed_value(text: str | None, type_name: str) -> Any:
    """Convert the server's text to the value that a single table's column has, by the types of docs/reference/types.md.

    None stands for what the column's type cannot hold; numbers that are not whole are text.
    """
    if text is None:
        return None
    if type_name.startswith("numeric(") and not type_name.endswith("[]"):
        return None if text == "NaN" else str(Decimal(text))
    convert = _CONVERTERS.get(type_name.partition("(")[0] + type_name.partition(")")[2])
    try:
        return text if convert is None else convert(text)
    except ValueError:
        return None


def plain(value: Any) -> Any:
    """Return a value of an Arrow column in the form that :func:`typed_value` gives."""
    if isinstance(value, Decimal):
        return str(value)
    return repr(value) if isinstance(value, float) else value


_CONVERTERS: Mapping[str, Any] = {
    "boolean": lambda text: text == "t",
    "smallint": int,
    "integer": int,
    "bigint": int,
    "oid": int,
    "xid": int,
    "cid": int,
    "real": lambda text: repr(float(np.float32(text))),
    "double precision": lambda text: repr(float(text)),
    "date": date.fromisoformat,
    "timestamp without time zone": datetime.fromisoformat,
    "timestamp with time zone": datetime.fromisoformat,
    "bytea": lambda text: bytes.fromhex(text[2:]),
}
"""From the server's text, by the type's name without a modifier; ValueError for what Python's type cannot hold."""
