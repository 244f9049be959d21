"""The functions, operators and types that are built into the server, as far as expressions may use them.

PostgreSQL: ``pg_proc.dat``, ``pg_operator.dat``, ``pg_type.dat``, ``pg_range.dat``. OIDs of built-in objects are the
same in every major version; a few functions have changed their arguments or came later. Only immutable functions are
known: no others may stand in a publication's row filter, a generated column or an index.

``functions.txt`` is written by ``tools/generate_functions.py`` from the ``postgres.bki`` of 15 to 19.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from headwater.pg.data_files import read_rows

_FILE = "functions.txt"


class BuiltInFunction(NamedTuple):
    """A row of ``pg_proc``.

    Attributes:
        oid: the function's OID.
        name: ``proname``.
        source: the C function, empty for one that is written in SQL.
        arguments: OIDs of the types it takes.
        result: OID of the type it gives.
        is_strict: whether the result is NULL for any NULL.
    """

    oid: int
    name: str
    source: str
    arguments: tuple[int, ...]
    result: int
    is_strict: bool

    @property
    def signature(self) -> str:
        """The function as ``pg_catalog.name(types)``."""
        return f"pg_catalog.{self.name}({', '.join(map(type_name, self.arguments))})"


class BuiltInType(NamedTuple):
    """A row of ``pg_type``.

    Attributes:
        oid: the type's OID.
        name: ``typname``.
        length: ``typlen``.
        align: ``typalign``.
        is_by_value: ``typbyval``.
        element: for an array the OID of its elements' type, else 0.
        kind: ``typtype``.
        subtype: for a range or multirange the OID of its bounds' type, else 0.
    """

    oid: int
    name: str
    length: int
    align: str
    is_by_value: bool
    element: int
    kind: str
    subtype: int


@cache
def built_in_functions(major: int) -> dict[int, BuiltInFunction]:
    """Read the immutable functions of a major version by OID."""
    functions = {}
    for kind, oid, name, *rest in read_rows(_FILE, major):
        if kind == "f":
            source, arguments, result, strict = rest
            types = () if arguments == "-" else tuple(map(int, arguments.split(",")))
            source = "" if source == "-" else source
            functions[int(oid)] = BuiltInFunction(int(oid), name, source, types, int(result), strict == "t")
    return functions


@cache
def operator_functions(major: int) -> dict[int, int]:
    """Read the OIDs of the functions of operators, by the operators' OIDs, of functions that are immutable."""
    return {int(words[1]): int(words[3]) for words in read_rows(_FILE, major) if words[0] == "o"}


@cache
def built_in_types(major: int) -> dict[int, BuiltInType]:
    """Read the types of a major version by OID."""
    types = {}
    for kind, oid, name, *rest in read_rows(_FILE, major):
        if kind == "t":
            length, align, by_value, element, typtype, subtype = rest
            row = BuiltInType(int(oid), name, int(length), align, by_value == "t", int(element), typtype, int(subtype))
            types[row.oid] = row
    return types


@cache
def type_name(oid: int) -> str:
    """Return a built-in type's name in any major version, or its OID."""
    return next((types[oid].name for m in (19, 18, 15) if oid in (types := built_in_types(m))), str(oid))
