"""What a transaction, or a part of one, has changed: definitions before and behind, by object.

In: both readers and the objects whose rows were touched. Out: pairs of definitions, those that are alike left out, and
what statements have to know of each other: what else is dropped or made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from headwater.definitions.objects import (
    ConstraintDefinition,
    Definition,
    IndexDefinition,
    OtherDefinition,
    TableDefinition,
)
from headwater.definitions.reader import DefinitionReader, ObjectKey
from headwater.pg.identifiers import quote_identifier


class Change(NamedTuple):
    """An object that was made (before is None), dropped (after is None), or changed."""

    key: ObjectKey
    before: Definition | None
    after: Definition | None

    @property
    def either(self) -> Definition:
        """The definition behind, or before."""
        found = self.after or self.before
        assert found is not None
        return found


@dataclass(frozen=True)
class Step:
    """The changes between two views.

    Attributes:
        before, after: readers of both.
        changes: by object, in the order of their OIDs.
    """

    before: DefinitionReader
    after: DefinitionReader
    changes: tuple[Change, ...]

    @property
    def major(self) -> int:
        """PostgreSQL's major version."""
        return self.after.major

    @cached_property
    def dropped_tables(self) -> frozenset[int]:
        """OIDs of tables that are there no more."""
        return frozenset(oid for oid, pair in self._tables.items() if pair[1] is None)

    @cached_property
    def _tables(self) -> dict[int, tuple[TableDefinition | None, TableDefinition | None]]:
        found = {}
        for change in self.changes:
            if isinstance(change.either, TableDefinition):
                before, after = change.before, change.after
                assert before is None or isinstance(before, TableDefinition)
                assert after is None or isinstance(after, TableDefinition)
                found[change.key.oid] = before, after
        return found

    def table_before(self, oid: int) -> TableDefinition | None:
        """A table that was changed, as it was."""
        return self._tables.get(oid, (None, None))[0]

    def table_after(self, oid: int) -> TableDefinition | None:
        """A table that was changed, as it is."""
        return self._tables.get(oid, (None, None))[1]

    def has_typed_tables(self, type: int) -> bool:
        """Whether tables that stay are of a composite type, so that their columns change with its attributes."""
        pairs = ((before, after) for before, after in self._tables.values() if before is not None and after is not None)
        return any(before.of_type_oid == type and before.is_of_same_type(after) for before, after in pairs)

    def depth(self, oid: int) -> int:
        """How many tables of the step stand above a table; parents come before their children."""
        seen, level, above = {oid}, 0, [oid]
        while above:
            pairs = [self._tables.get(one, (None, None)) for one in above]
            parents = {parent for pair in pairs for one in pair if one is not None for parent in one.parent_oids}
            above = sorted(parents - seen)
            seen.update(above)
            level += bool(above)
        return level

    def is_attached(self, table: int) -> bool:
        """Whether a table becomes a partition of another one in this step."""
        before, after = self.table_before(table), self.table_after(table)
        if after is None or not after.is_partition:
            return False
        return before is None or not before.is_partition or before.parent_oids != after.parent_oids

    def is_named_as_parent(self, constraint: ConstraintDefinition) -> bool:
        """Whether a partition's constraint has the name that it is given when the partition is attached."""
        return self.after.constraint_name(constraint.parent_oid) == constraint.name

    def is_partitioned(self, table: int) -> bool:
        """Whether a table is partitioned, behind the step."""
        return self.after.is_partitioned(table)

    def quoted(self, name: str) -> str:
        """An identifier."""
        return quote_identifier(name, self.major)

    def late_name(self, definition: Definition) -> str:
        """What an object that is dropped at the end is called by then: its schema may have another name."""
        schema = self.after.schema_name(definition.schema_oid) if definition.schema_oid else None
        if schema is None:
            return definition.sql_name
        name = self.spare_name(definition) if self.is_name_taken(definition, schema) else definition.name
        return f"{self.quoted(schema)}.{self.quoted(name)}"

    def is_name_taken(self, definition: Definition, schema: str | None = None) -> bool:
        """Whether another object is made, or renamed, to be called as one that is dropped at the end."""
        schema = schema or self.after.schema_name(definition.schema_oid)
        name = None if schema is None else f"{self.quoted(schema)}.{self.quoted(definition.name)}"
        return name in self._names_behind

    def is_name_given_up(self, before: Definition, after: Definition) -> bool:
        """Whether a name must be free before the object that leaves it has its new one, which another one has yet."""
        had = self._names_before.get(after.sql_name, set()) | self._names_before.get(before.sql_name, set())
        return bool(had - {id(before)}) or bool(self._names_behind.get(before.sql_name, set()) - {id(after)})

    @cached_property
    def _names_before(self) -> dict[str, set[int]]:
        return _by_name(change.before for change in self.changes)

    @cached_property
    def _names_behind(self) -> dict[str, set[int]]:
        return _by_name(change.after for change in self.changes)

    def spare_name(self, definition: Definition) -> str:
        """A name that nobody has, for an object on its way."""
        return f"headwater_{definition.oid}"


def _by_name(definitions: Iterable[Definition | None]) -> dict[str, set[int]]:
    """Which of these objects have a name in SQL; constraints have theirs within their tables."""
    found: dict[str, set[int]] = {}
    for one in definitions:
        if one is not None and not isinstance(one, ConstraintDefinition | OtherDefinition):
            found.setdefault(one.sql_name, set()).add(id(one))
    return found


def changes_of(before: DefinitionReader, after: DefinitionReader, keys: Iterable[ObjectKey]) -> tuple[Change, ...]:
    """What became of the objects whose rows were touched.

    Raises:
        CatalogError: the catalog is inconsistent.
    """
    ordered = sorted(keys)
    found = [Change(key, before.read(key), after.read(key)) for key in ordered]
    differing = _without_rebuilt([change for change in found if _differs(change)])
    granted = (Change(key, before.privileges(key), after.privileges(key)) for key in ordered)
    # Of what is made or dropped, privileges are made and dropped with it.
    return *differing, *(one for one in granted if one.before is not None and one.after is not None and _differs(one))


def _differs(change: Change) -> bool:
    old, new = change.before, change.after
    return old is not new if old is None or new is None else not old.is_same(new)


def _without_rebuilt(changes: list[Change]) -> Iterator[Change]:
    """Leave out indexes and constraints that were made anew as they were, which ALTER COLUMN TYPE does by itself."""
    made = {_place(change.after): change for change in changes if change.before is None and _place(change.after)}
    dropped = {_place(change.before): change for change in changes if change.after is None and _place(change.before)}
    rebuilt = {place for place, change in dropped.items() if place in made and _is_alike(change, made[place])}
    yield from (
        one for one in changes if not (one.before is None or one.after is None) or _place(one.either) not in rebuilt
    )


def _place(definition: Definition | None) -> tuple[str, int, str] | None:
    if isinstance(definition, ConstraintDefinition | IndexDefinition):
        return definition.kind, definition.table_oid, definition.name
    return None


def _is_alike(dropped: Change, made: Change) -> bool:
    before, after = dropped.before, made.after
    if isinstance(before, IndexDefinition) and isinstance(after, IndexDefinition):
        return (before.definition, before.parent, before.options) == (after.definition, after.parent, after.options)
    assert isinstance(before, ConstraintDefinition)
    assert isinstance(after, ConstraintDefinition)
    flags = [(one.definition, one.index_parent, one.is_local, one.parents, one.is_valid) for one in (before, after)]
    return flags[0] == flags[1]
