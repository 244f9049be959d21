"""Statements that make, change and drop objects, each with its place among those of a transaction.

In: definitions before and after. Out: :class:`Statement` values, sorted by :class:`Phase`. An object that is dropped,
or changed before the renames, has the name from before; all others have the name from after.

PostgreSQL: ``pg_dump.c`` has the ways to write a definition so that the same one results.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple


class Phase(IntEnum):
    """The phases in which statements are run: an order that works for the statements of one transaction.

    Names are as before in phases up to :attr:`DROP_TABLE`, and as after from :attr:`SCHEMA` on.
    """

    DETACH = 0
    DROP_PUBLICATION = 1
    DROP_FOREIGN_KEY = 2
    DROP_CONSTRAINT = 3
    DROP_DEFAULT = 4
    DROP_COLUMN = 5
    DROP_TABLE = 6
    GIVE_NAME_UP = 7
    SCHEMA = 8
    RENAME = 9
    TYPE = 10
    SEQUENCE = 11
    ALTER_TABLE = 12
    CREATE_TABLE = 13
    INHERIT = 14
    INDEX = 15
    FOREIGN_KEY = 16
    ATTACH = 17
    ATTACH_INDEX = 18
    MARK_INDEX = 19
    PUBLICATION = 20
    COMMENT = 21
    DROP_SEQUENCE = 22
    DROP_TYPE = 23
    DROP_SCHEMA = 24


class Statement(NamedTuple):
    """A statement.

    Attributes:
        phase: the phase in which it is run.
        order: its place among the statements of the phase.
        sql: its text, without a semicolon.
    """

    phase: Phase
    order: int
    sql: str


def statements_of(phase: Phase, statements: Iterable[str], order: int = 0) -> list[Statement]:
    """Make statements of one phase, in their order."""
    return [Statement(phase, order, sql) for sql in statements]
