"""The operators and casts that are built into the server, and what its parser goes by when it chooses among them.

PostgreSQL: ``pg_operator.dat``, ``pg_cast.dat``, ``pg_type.dat``. OIDs of built-in objects are the same in every major
version. ``operators.txt`` is written by ``tools/generate_operators.py`` from the ``postgres.bki`` of 15 to 19; 14 has
what 15 has as far as it is used here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).with_name("operators.txt")
_FIRST = 15
_WORDS = {"o": 7, "c": 6, "y": 5}


class BuiltInOperator(NamedTuple):
    """One row of ``pg_operator``.

    Attributes:
        oid: its OID.
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
    """One row of ``pg_cast``.

    Attributes:
        function: OID of its function if that is immutable, else 0.
        context: ``e`` explicit, ``a`` assignment, ``i`` implicit.
        method: ``f`` a function, ``b`` binary coercible, ``i`` by way of text.
    """

    function: int
    context: str
    method: str


class TypeCategory(NamedTuple):
    """What the parser goes by: ``typcategory``, ``typispreferred``; and the OID of the array type, 0 for none."""

    category: str
    is_preferred: bool
    array: int


@cache
def _lines(major: int) -> tuple[list[str], ...]:
    found, asked = [], max(major, _FIRST)
    for line in _FILE.read_text().splitlines():
        words = line.split(" ")
        if line[0] == "#":
            continue
        if len(words) > _WORDS[words[0]]:
            first, _, last = words.pop().partition("-")
            if not int(first) <= asked <= int(last):
                continue
        found.append(words)
    return tuple(found)


@cache
def operators_named(name: str, major: int) -> tuple[BuiltInOperator, ...]:
    """The operators of a name, those that are not immutable among them."""
    return tuple(
        BuiltInOperator(int(words[1]), words[2], *map(int, words[3:]))
        for words in _lines(major)
        if words[0] == "o" and words[2] == name
    )


@cache
def casts(major: int) -> dict[tuple[int, int], BuiltInCast]:
    """All casts by the OIDs of source and target."""
    return {
        (int(words[1]), int(words[2])): BuiltInCast(int(words[3]), words[4], words[5])
        for words in _lines(major)
        if words[0] == "c"
    }


@cache
def type_categories(major: int) -> dict[int, TypeCategory]:
    """Of types by OID."""
    return {
        int(words[1]): TypeCategory(words[2], words[3] == "t", int(words[4]))
        for words in _lines(major)
        if words[0] == "y"
    }
