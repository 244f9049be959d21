"""The operators and casts that are built into the server, and the facts that its parser chooses among them by.

PostgreSQL: ``pg_operator.dat``, ``pg_cast.dat``, ``pg_type.dat``. OIDs of built-in objects are the same in every major
version. ``operators.txt`` is written by ``tools/generate_operators.py`` from the ``postgres.bki`` of 15 to 19; 14 has
what 15 has as far as it is used here.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from headwater.pg.data_files import read_rows

_FIRST = 15


class BuiltInOperator(NamedTuple):
    """A row of ``pg_operator``.

    Attributes:
        oid: the operator's OID.
        name: ``oprname``.
        left, right: OIDs of the types it takes; left is 0 for a prefix operator.
        result: OID of the type it gives.
        function: OID of its function if that is immutable, else 0.
    """

    oid: int
    name: str
    left: int
    right: int
    result: int
    function: int


class BuiltInCast(NamedTuple):
    """A row of ``pg_cast``.

    Attributes:
        function: OID of its function if that is immutable, else 0.
        context: ``e`` explicit, ``a`` assignment, ``i`` implicit.
        method: ``f`` a function, ``b`` binary coercible, ``i`` by way of text.
    """

    function: int
    context: str
    method: str


class TypeCategory(NamedTuple):
    """A type's ``typcategory`` and ``typispreferred``, by which the parser chooses; its array type's OID, or 0."""

    category: str
    is_preferred: bool
    array: int


def _rows(major: int) -> tuple[tuple[str, ...], ...]:
    """Read the rows of a major version; 14 is given those of 15."""
    return read_rows("operators.txt", max(major, _FIRST))


@cache
def operators_named(name: str, major: int) -> tuple[BuiltInOperator, ...]:
    """List the operators of a name, also those that are not immutable."""
    return tuple(
        BuiltInOperator(int(words[1]), words[2], *map(int, words[3:]))
        for words in _rows(major)
        if words[0] == "o" and words[2] == name
    )


@cache
def casts(major: int) -> dict[tuple[int, int], BuiltInCast]:
    """Read all casts by the OIDs of source and target."""
    return {
        (int(words[1]), int(words[2])): BuiltInCast(int(words[3]), words[4], words[5])
        for words in _rows(major)
        if words[0] == "c"
    }


@cache
def type_categories(major: int) -> dict[int, TypeCategory]:
    """Read the categories of types by OID."""
    return {
        int(words[1]): TypeCategory(words[2], words[3] == "t", int(words[4]))
        for words in _rows(major)
        if words[0] == "y"
    }
