"""The changes of a transaction, or a part of one: definitions before and after, by object.

In: both readers and the objects whose rows were touched. Out: pairs of definitions, without those that are equal. Also
the facts that a statement needs of other objects: which ones are dropped or made.
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
        """The definition after, or before if the object was dropped."""
        definition = self.after or self.before
        assert definition is not None
        return definition


@dataclass(frozen=True)
class Step:
    """The changes between two views.

    Attributes:
        before, after: readers of both.
        changes: the changes by object, in the order of their OIDs.
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
        """The OIDs of the tables that were dropped."""
        return frozenset(oid for oid, pair in self._tables.items() if pair[1] is None)

    @cached_property
    def _tables(self) -> dict[int, tuple[TableDefinition | None, TableDefinition | None]]:
        tables = {}
        for change in self.changes:
            if isinstance(change.either, TableDefinition):
                before, after = change.before, change.after
                assert before is None or isinstance(before, TableDefinition)
                assert after is None or isinstance(after, TableDefinition)
                tables[change.key.oid] = before, after
        return tables

    def table_before(self, oid: int) -> TableDefinition | None:
        """Return a changed table as of before; None if it did not exist, or was not changed."""
        return self._tables.get(oid, (None, None))[0]

    def table_after(self, oid: int) -> TableDefinition | None:
        """Return a changed table as of after; None if it was dropped, or not changed."""
        return self._tables.get(oid, (None, None))[1]

    def has_typed_tables(self, type: int) -> bool:
        """Tell whether remaining tables are of a composite type, so that their columns change with its attributes."""
        pairs = ((before, after) for before, after in self._tables.values() if before is not None and after is not None)
        return any(before.of_type_oid == type and before.is_of_same_type(after) for before, after in pairs)

    def depth(self, oid: int) -> int:
        """Count the levels of parents above a table, among tables of the step; parents come before their children."""
        seen, level, above = {oid}, 0, [oid]
        while above:
            pairs = [self._tables.get(child, (None, None)) for child in above]
            parents = {parent for pair in pairs for table in pair if table is not None for parent in table.parent_oids}
            above = sorted(parents - seen)
            seen.update(above)
            level += bool(above)
        return level

    def is_attached(self, table: int) -> bool:
        """Tell whether a table becomes a partition of another one in this step."""
        before, after = self.table_before(table), self.table_after(table)
        if after is None or not after.is_partition:
            return False
        return before is None or not before.is_partition or before.parent_oids != after.parent_oids

    def is_named_as_parent(self, constraint: ConstraintDefinition) -> bool:
        """Tell whether a partition's constraint has the name that it gets when the partition is attached."""
        return self.after.constraint_name(constraint.parent_oid) == constraint.name

    def is_partitioned(self, table: int) -> bool:
        """Tell whether a table is partitioned, as of after the step."""
        return self.after.is_partitioned(table)

    def quoted(self, name: str) -> str:
        """Quote an identifier, if it needs quotes."""
        return quote_identifier(name, self.major)

    def late_name(self, definition: Definition) -> str:
        """Return the name of an object that is dropped at the end, as of then: its schema may have another name."""
        schema = self.after.schema_name(definition.schema_oid) if definition.schema_oid else None
        if schema is None:
            return definition.sql_name
        name = self.spare_name(definition) if self.is_name_taken(definition, schema) else definition.name
        return f"{self.quoted(schema)}.{self.quoted(name)}"

    def is_name_taken(self, definition: Definition, schema: str | None = None) -> bool:
        """Tell whether another object gets the name of one that is dropped at the end."""
        schema = schema or self.after.schema_name(definition.schema_oid)
        name = None if schema is None else f"{self.quoted(schema)}.{self.quoted(definition.name)}"
        return name in self._names_behind

    def is_name_given_up(self, before: Definition, after: Definition) -> bool:
        """Tell whether an object needs a spare name first: another one still has its new name, or gets its old one."""
        owners = self._names_before.get(after.sql_name, set()) | self._names_before.get(before.sql_name, set())
        return bool(owners - {id(before)}) or bool(self._names_behind.get(before.sql_name, set()) - {id(after)})

    @cached_property
    def _names_before(self) -> dict[str, set[int]]:
        return _by_name(change.before for change in self.changes)

    @cached_property
    def _names_behind(self) -> dict[str, set[int]]:
        return _by_name(change.after for change in self.changes)

    def spare_name(self, definition: Definition) -> str:
        """Return a spare name that no other object has."""
        return f"headwater_{definition.oid}"


def _by_name(definitions: Iterable[Definition | None]) -> dict[str, set[int]]:
    """Group these objects by their name in SQL; constraints are omitted, as their names are within their tables."""
    names: dict[str, set[int]] = {}
    for definition in definitions:
        if definition is not None and not isinstance(definition, ConstraintDefinition | OtherDefinition):
            names.setdefault(definition.sql_name, set()).add(id(definition))
    return names


def changes_of(before: DefinitionReader, after: DefinitionReader, keys: Iterable[ObjectKey]) -> tuple[Change, ...]:
    """Return the changes of the objects whose rows were touched.

    Raises:
        CatalogError: the catalog is inconsistent.
    """
    ordered = sorted(keys)
    pairs = [Change(key, before.read(key), after.read(key)) for key in ordered]
    differing = _without_rebuilt([change for change in pairs if _differs(change)])
    granted = (Change(key, before.privileges(key), after.privileges(key)) for key in ordered)
    # Privileges are made and dropped with their object.
    return *differing, *(
        grant for grant in granted if grant.before is not None and grant.after is not None and _differs(grant)
    )


def _differs(change: Change) -> bool:
    old, new = change.before, change.after
    return old is not new if old is None or new is None else not old.is_same(new)


def _without_rebuilt(changes: list[Change]) -> Iterator[Change]:
    """Give the changes without indexes and constraints that were rebuilt as they were, as ALTER COLUMN TYPE does."""
    created = {_place(change.after): change for change in changes if change.before is None and _place(change.after)}
    dropped = {_place(change.before): change for change in changes if change.after is None and _place(change.before)}
    rebuilt = {place for place, change in dropped.items() if place in created and _is_alike(change, created[place])}
    yield from (
        candidate
        for candidate in changes
        if not (candidate.before is None or candidate.after is None) or _place(candidate.either) not in rebuilt
    )


def _place(definition: Definition | None) -> tuple[str, int, str] | None:
    if isinstance(definition, ConstraintDefinition | IndexDefinition):
        return definition.kind, definition.table_oid, definition.name
    return None


def _is_alike(dropped: Change, created: Change) -> bool:
    before, after = dropped.before, created.after
    if isinstance(before, IndexDefinition) and isinstance(after, IndexDefinition):
        return (before.definition, before.parent, before.options) == (after.definition, after.parent, after.options)
    assert isinstance(before, ConstraintDefinition)
    assert isinstance(after, ConstraintDefinition)
    flags = [
        (definition.definition, definition.index_parent, definition.is_local, definition.parents, definition.is_valid)
        for definition in (before, after)
    ]
    return flags[0] == flags[1]
