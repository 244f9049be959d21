"""Functions that a query can call, and views that it can read: what is known of them before they are called.

PostgreSQL: pg_proc, parser/parse_func.c (func_select_candidate). Known gap: of several functions of one name the first
one is taken that the arguments fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.walsender.queries.value_types import ValueType

REQUIRED = object()
"""The default of an argument that has none."""


@dataclass(frozen=True)
class Argument:
    """An argument of a function.

    Attributes:
        name: by which it may be given; type: of its values.
        default: its value where it is left out, :data:`REQUIRED` for none.
        is_variadic: it is an array, whose elements may be given one by one.
    """

    name: str
    type: ValueType
    default: Any = REQUIRED
    is_variadic: bool = False


@dataclass(frozen=True)
class Function:
    """A function.

    Attributes:
        name: in the schema pg_catalog.
        arguments: in their order.
        type: of what it returns; RECORD where it has columns.
        call: gives the value; of a set a sequence of values. A record is a tuple of values.
        columns: names and types of the columns of what it returns, if it has several.
        returns_set: it gives rows.
        is_strict: it is not called where an argument is NULL: it is NULL.
        is_immutable: it gives the same for the same arguments: of constants the planner takes what it gives.
    """

    name: str
    arguments: tuple[Argument, ...]
    type: ValueType
    call: Callable[..., Any]
    columns: tuple[tuple[str, ValueType], ...] = ()
    returns_set: bool = False
    is_strict: bool = True
    is_immutable: bool = False


@dataclass(frozen=True)
class ViewColumn:
    """A column of a view: its name, its type, its number in the view."""

    name: str
    type: ValueType
    number: int


@dataclass(frozen=True)
class View:
    """A view.

    Attributes:
        name: in the schema pg_catalog; oid: its OID.
        columns: in their order.
        rows: gives the rows, by names of columns.
    """

    name: str
    oid: int
    columns: tuple[ViewColumn, ...]
    rows: Callable[[], Iterable[Mapping[str, Any]]]


@dataclass(frozen=True)
class Known:
    """The things that queries of a session can ask for.

    Attributes:
        functions: by name; view: gives a view by its name, None if there is none.
        written: prints a value of a type, as the session's settings say.
        user: what ``current_user`` is; database: what ``current_catalog`` is.
        now: microseconds since 2000-01-01 when the transaction began.
        boolean_name: what the column of a constant true or false is called; empty for nothing.
        check: raises what the statement is to end with; called now and then while rows are gone through.
    """

    functions: Mapping[str, Sequence[Function]]
    view: Callable[[str], View | None]
    written: Callable[[ValueType, Any], str]
    user: str = ""
    database: str = ""
    now: Callable[[], int] = field(default=lambda: 0)
    boolean_name: str = ""
    check: Callable[[], None] = field(default=lambda: None)
