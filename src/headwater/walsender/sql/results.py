"""Results of queries: columns with the types that a server names, and rows of values in text format.

Values are UTF-8; bytes that are no character of the database's encoding are surrogates, as in
:mod:`headwater.protocol.backend_messages`. Who has promised the client another encoding converts them.

PostgreSQL: adt/arrayfuncs.c (array_out), adt/int.c (int2vectorout), adt/bool.c.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from headwater.protocol.backend_messages import Column, Value

Row = tuple[Value, ...]


@dataclass(frozen=True)
class Result:
    """The answer to a query.

    Attributes:
        columns: what RowDescription says.
        rows: the values, in the order of the columns.
        tag: what CommandComplete says.
        settings: names and values of settings of the session that the query changes.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    tag: str
    settings: tuple[tuple[str, str], ...] = ()


bool_column = partial(Column, type=16, size=1)
char_column = partial(Column, type=18, size=1)
name_column = partial(Column, type=19, size=64)
int2_column = partial(Column, type=21, size=2)
int2vector_column = partial(Column, type=22, size=-1)
int4_column = partial(Column, type=23, size=4)
int8_column = partial(Column, type=20, size=8)
lsn_column = partial(Column, type=3220, size=8)
text_column = partial(Column, type=25, size=-1)
oid_column = partial(Column, type=26, size=4)
name_array_column = partial(Column, type=1003, size=-1)


def selected(columns: Iterable[Column], rows: Iterable[Row]) -> Result:
    """Return the result of a SELECT."""
    rows = tuple(rows)
    return Result(tuple(columns), rows, f"SELECT {len(rows)}")


def distinct(rows: Iterable[Row]) -> list[Row]:
    """Return each row once, in the order of their bytes; NULL comes last."""
    return sorted(set(rows), key=lambda row: [(value is None, value or b"") for value in row])


def text_value(text: str | None) -> Value:
    """Return a text or a name as a value."""
    return None if text is None else text.encode("utf-8", "surrogateescape")


def number_value(number: int) -> Value:
    """Return a number or an OID as a value."""
    return str(number).encode()


def bool_value(value: bool | None) -> Value:
    """Return a boolean as a value."""
    return None if value is None else b"t" if value else b"f"


def vector_value(numbers: Iterable[int] | None) -> Value:
    """Return an int2vector as a value."""
    return None if numbers is None else " ".join(map(str, numbers)).encode()


def name_array_value(names: Iterable[str] | None) -> Value:
    """Return an array of names as a value."""
    return None if names is None else text_value("{" + ",".join(map(_element, names)) + "}")


def _element(name: str) -> str:
    is_plain = name and name.upper() != "NULL" and not any(letter in '"\\{}, \t\n\r\v\f' for letter in name)
    if is_plain:
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
