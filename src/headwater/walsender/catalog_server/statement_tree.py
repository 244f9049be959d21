"""The objects that a statement is about, by their OIDs, from its tree as the server prints it before it plans.

Only numbers in fields are read, wherever in the tree they are. A name or a text cannot look like one: its blanks,
colons and brackets have backslashes before them. So a field is never overlooked, whatever nests.

Invariant: an OID of a user's object is never passed over because of a field that is not known here: it counts as one
of :attr:`StatementTree.others`.

PostgreSQL: outfuncs.c, print.c (format_node_dump), primnodes.h, parsenodes.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID

_FIELD = re.compile(r"(?<=\s):(\w+)\s+(?:(\d+)(?=[\s)}])|\(o((?:\s+\d+)+)\))")
_OID_LIST = re.compile(r"\(o((?:\s+\d+)+)\)")
_HARMLESS = re.compile(
    r".*coll.*|\w*location|\w*typmods?|stmt_len|queryId|constlen|constvalue|resorigtbl|checkAsUser|requiredPerms|frameOptions"
    r"|list_(?:start|end)",
    re.I,
)
"""Collations, places in texts, lengths, modifiers; the table that a column comes from, which is read or it is not."""

_FUNCTION = re.compile(r"\w*funcid|aggfnoid|winfnoid|(?:start|end)InRangeFunc|tsmhandler")
_TYPE = re.compile(r"\w*type(?:s|id)?|typid", re.I)
_ALIASES = re.compile(r":joinaliasvars\s+\((?:\s*\{VAR\s[^{}]*\})*\s*\)")
_WHOLE_ROW = re.compile(r"\{VAR\s+:varno\s+\d+\s+:varattno\s+0\s+:vartype\s+(\d+)\s")
_WHO = re.compile(r"\{SQLVALUEFUNCTION\s+:op\s+(\d+)\s")
_CALL = re.compile(
    r"\{FUNCEXPR\s+:funcid\s+(\d+)\s[^{}]*?:args\s+<>\s+:location\s+(\d+)\s*\}",
)
_WITHOUT_FUNCTION = re.compile(r"\{(?:MINMAX|JSON)")
_QUERY = re.compile(r"\{QUERY\s+:commandType\s+(\d+)\s")

_SELECT = "1"
_ANYARRAY = 2277
_ARRAY_EQUALS, _RECORD_EQUALS = 1070, 2988
_USERS = {9: "current_role", 10: "current_user", 11: "user", 12: "session_user", 14: "current_schema"}


@dataclass(frozen=True)
class StatementTree:
    """The objects of a statement, and of the views that it reads.

    Attributes:
        functions: OIDs of functions, aggregates among them.
        relations: of those that are read. types: of users' types. others: of anything else that users have made.
        words: of the language that say who asks.
        calls: of functions without arguments: OID, offset in the statement in bytes.
        rows: types of whole rows. has_any_array: it reads arrays of which only their own bytes tell the type.
        sorts_by_elements: it compares arrays, rows or any values in ways that name no function, or makes JSON of them.
        is_select: it is nothing but SELECT.
    """

    functions: frozenset[int]
    relations: frozenset[int]
    types: frozenset[int]
    others: frozenset[int]
    words: frozenset[str]
    calls: tuple[tuple[int, int], ...]
    rows: frozenset[int]
    has_any_array: bool
    sorts_by_elements: bool
    is_select: bool


def statement_tree(text: str) -> StatementTree:
    """Read a tree."""
    text = _ALIASES.sub("", text)  # What a join could give of columns is there for each, whether it is used or not.
    fields = list(_oids(text))
    asked = {int(op) for op in _WHO.findall(text)}
    return StatementTree(
        functions=frozenset(oid for name, oid in fields if _FUNCTION.fullmatch(name)),
        relations=frozenset(oid for name, oid in fields if name == "relid"),
        types=_of_users(fields, is_type=True),
        others=_of_users(fields, is_type=False),
        words=frozenset(word for op, word in _USERS.items() if op in asked),
        calls=tuple((int(oid), int(place)) for oid, place in _CALL.findall(text)),
        rows=frozenset(map(int, _WHOLE_ROW.findall(text))),
        has_any_array=any(oid == _ANYARRAY and _TYPE.fullmatch(name) for name, oid in fields),
        sorts_by_elements=_WITHOUT_FUNCTION.search(text) is not None
        or any(name == "eqop" and oid in (_ARRAY_EQUALS, _RECORD_EQUALS) for name, oid in fields),
        is_select=set(_QUERY.findall(text)) == {_SELECT},
    )


def _of_users(fields: list[tuple[str, int]], *, is_type: bool) -> frozenset[int]:
    """Return the users' types, or all of the users' that is none, nor a function, nor a relation."""
    named = ((name, oid) for name, oid in fields if oid >= FIRST_NORMAL_OBJECT_ID)
    return frozenset(
        oid
        for name, oid in named
        if name != "relid" and not _FUNCTION.fullmatch(name) and bool(_TYPE.fullmatch(name)) is is_type
    )


def _oids(text: str) -> Iterator[tuple[str, int]]:
    """Give the names of fields and the numbers in them, but for what is harmless; zeros are none."""
    for name, number, numbers in _FIELD.findall(text):
        if _HARMLESS.fullmatch(name) is None:
            yield from ((name, int(oid)) for oid in (number or numbers).split() if int(oid))
    for numbers in _OID_LIST.findall(_FIELD.sub("", text)):
        yield from (("", int(oid)) for oid in numbers.split())
