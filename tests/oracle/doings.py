"""Acts of a random workload's statements on tables that the changes of their rows do not tell.

Rows are followed only where changes tell all: not through a time without WAL or without a replica identity, and not in
columns whose type was altered. Names that renames connect count as one table's, so that nothing is missed; schemas that
are renamed are known by the part of their name that stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from oracle.initial_schema import ASIDE

_PART = r'(?:"[^"]*"|[\w]+)'
_NAME = rf"({_PART}(?:\.{_PART})?)"
_RENAME = re.compile(rf"ALTER TABLE {_NAME} RENAME TO {_NAME}$")
_TYPE = re.compile(rf"ALTER TABLE {_NAME} ALTER (?:COLUMN )?({_PART}) TYPE")
_PARTITIONS = (
    re.compile(rf"CREATE TABLE (?:IF NOT EXISTS )?(?P<child>{_NAME}) PARTITION OF (?P<parent>{_NAME})"),
    re.compile(rf"ALTER TABLE (?P<parent>{_NAME}) ATTACH PARTITION (?P<child>{_NAME})"),
)
_KINDS = (
    ("unlogged", re.compile(rf"ALTER TABLE {_NAME} SET (?:UN)?LOGGED")),
    ("dropped", re.compile(rf"DROP TABLE {_NAME}")),
    ("identity NOTHING", re.compile(rf"ALTER TABLE {_NAME} REPLICA IDENTITY NOTHING")),
    ("identity DEFAULT", re.compile(rf"ALTER TABLE {_NAME} REPLICA IDENTITY DEFAULT")),
    ("identity USING", re.compile(rf"ALTER TABLE {_NAME} REPLICA IDENTITY USING")),
    ("without its id", re.compile(rf'ALTER TABLE {_NAME} DROP COLUMN "id"')),
)


def lasting_name(name: str) -> str:
    """Return a table's qualified name, without the part of its schema's that changes."""
    qualified = name if "." in name else f"public.{name}"
    return re.sub(rf"^({ASIDE}\d)_\d+", r"\1", qualified)


class Doings:
    """The acts on tables, by the lasting names of tables.

    Args:
        statements: those that succeeded, whether their transactions committed or not; of each session in its order.
    """

    def __init__(self, statements: Iterable[str]) -> None:
        self._one: dict[str, set[str]] = {}
        self._done: dict[str, set[str]] = {}
        self._retyped: dict[str, set[str]] = {}
        self._parents: dict[str, set[str]] = {}
        for statement in statements:
            self._note(statement)

    def done(self, name: str) -> set[str]:
        """List the acts on a table: ``renamed``, ``retyped``, ``unlogged``, ``dropped``, ``identity NOTHING``, ..."""
        names = self._names(lasting_name(name))
        kinds = {kind for alias in names for kind in self._done.get(alias, ())}
        if any("dropped" in self._done.get(ancestor, ()) for ancestor in self._ancestors(names)):
            kinds.add("dropped")
        return kinds | ({"renamed"} if len(names) > 1 else set())

    def _names(self, name: str) -> set[str]:
        return self._one.get(name, {name})

    def _ancestors(self, names: set[str]) -> set[str]:
        """Find all that these tables were partitions of at some time: partitions are dropped with them."""
        ancestors = set[str]()
        left = set(names)
        while left:
            parents = {
                alias for name in left for parent in self._parents.get(name, ()) for alias in self._names(parent)
            }
            left = parents - ancestors
            ancestors |= left
        return ancestors

    def retyped(self, name: str) -> set[str]:
        """Return columns whose type was altered, of a table that was not renamed."""
        return self._retyped.get(lasting_name(name), set())

    def _note(self, statement: str) -> None:
        if match := _RENAME.match(statement):
            old = lasting_name(match[1])
            self._join(old, f"{old.partition('.')[0]}.{match[2]}")
        if match := _TYPE.match(statement):
            self._retyped.setdefault(lasting_name(match[1]), set()).add(match[2].strip('"'))
            self._done.setdefault(lasting_name(match[1]), set()).add("retyped")
        for pattern in _PARTITIONS:
            if match := pattern.match(statement):
                self._parents.setdefault(lasting_name(match["child"]), set()).add(lasting_name(match["parent"]))
        for kind, pattern in _KINDS:
            if match := pattern.match(statement):
                self._done.setdefault(lasting_name(match[1]), set()).add(kind)

    def _join(self, first: str, other: str) -> None:
        both = self._one.get(first, {first}) | self._one.get(other, {other})
        for name in both:
            self._one[name] = both
