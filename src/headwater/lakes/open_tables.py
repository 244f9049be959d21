"""The tables of a target that a run has open: which is which relation's, and commits to several of them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError
from headwater.lakes.bound_names import BoundNames
from headwater.lakes.lake_schema import LakeSchema, Shape, has_shape
from headwater.lakes.lake_table import Expired, LakeFormat, LakeTable, TableCommit
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.target_registry import TargetRegistry
from headwater.pg.lsn import Lsn


class OpenTables:
    """Tables in the lake, each opened when a run first needs it, and held until the end.

    Methods raise LakeError where a table cannot be read, or a name not be written.

    Args:
        target: where they are; format: theirs, open.
        registry: says of which source they are; names: which is which.

    Attributes:
        commits: how many commits this run has made.
    """

    def __init__(
        self, target: LandingTarget, format: LakeFormat[Any], registry: TargetRegistry, names: BoundNames
    ) -> None:
        self._place, self._format, self._registry, self._names = target.where, format, registry, names
        self._tables: dict[str, tuple[str, LakeTable]] = {}
        self._claimed: dict[str, Shape] = {}
        self.commits = 0

    def close(self) -> None:
        """Let others write to them."""
        for _name, table in self._tables.values():
            table.close()
        self._format.close()

    @property
    def stages_ahead(self) -> bool:
        """Whether a window is staged before the last one is committed."""
        return self._format.stages_ahead

    def is_open(self, schema: RelationSchema, shape: Shape | None = None) -> bool:
        """Tell whether this run has a relation's table open; of those that it has, one of a shape."""
        keys = self._names.keys(schema.oid)
        return all(key in self._tables for key in keys) and self._chosen(schema, shape) is not None

    def landed(self) -> Iterator[tuple[str, LakeTable]]:
        """Open all tables in which anything has landed; yields their names, too."""
        for key in list(self._names.by_key):
            if self._opened(key).version >= 0:
                yield self._tables[key]

    def of_name(self, name: str) -> LakeTable | None:
        """Open the table of a name; gives None where there is none."""
        key = next((key for key, known in self._names.by_key.items() if known == name), None)
        return None if key is None else self._opened(key)

    def of_relation(self, schema: RelationSchema, begins_at: int, shape: Shape | None = None) -> tuple[str, LakeTable]:
        """Open the table of a relation, by its OID; gives its name, too, which it keeps from when it landed first.

        Args:
            schema: the relation.
            begins_at: LSN before which this run has nothing, 0 where it goes on from a state.
            shape: columns that it must have, of the several tables that the relation may have; None for the last one.

        Raises:
            LakeError: its name is another one's; or changes between what it has and this run may be missing.
        """
        for key in self._names.keys(schema.oid):
            self._opened(key)
        key = self._chosen(schema, shape) or self._names.give(schema)
        name, table = self._names.by_key[key], self._opened(key)
        if shape is not None:
            self._claimed[key] = shape
        if -1 < table.landed.commit_lsn < begins_at:
            raise LakeError(
                f"table {name} has landed up to {Lsn(table.landed.commit_lsn)}, this run begins at "
                f"{Lsn(begins_at)}: what is between may be missing",
                file=str(self._place),
                hint="the target has lost its state; begin with an older backup",
            )
        return name, table

    def name_each(self, schemas: Iterable[RelationSchema]) -> None:
        """Name the tables of relations at a time; one by one, names are written as often as there are tables."""
        self._names.give_each(schemas)

    def commit(self, commits: Sequence[TableCommit]) -> None:
        """Commit to the tables of a window, together as far as the format can.

        Raises:
            LakeConflictError: somebody else has written to one.
            LakeError: one cannot be written.
        """
        self.commits += len(commits)  # counted before: one that fails may have been made
        self._format.commit(commits)

    def is_together(self, lsn: int) -> bool:
        """Tell whether no table has landed further than to an LSN, as it may where a run was killed."""
        return all(table.landed.commit_lsn < lsn for _name, table in list(self.landed()))

    def versions_at(self, lsn: int) -> dict[str, int] | None:
        """Return the versions of the open tables, by names; None where one has landed further than to an LSN."""
        tables = self._tables.values()
        if any(table.landed.commit_lsn >= lsn for _name, table in tables):
            return None
        return {name: table.version for name, table in tables if table.version >= 0}

    def expire(self, name: str, kept_versions: Container[int], older_than: datetime) -> Expired:
        """Remove old versions of a table; see :meth:`~headwater.lakes.lake_table.LakeFormat.expire`."""
        return self._format.expire(self._place / name, name, kept_versions, older_than)

    def forget_versions(self, kept_versions: Container[int], older_than: datetime) -> None:
        """Forget old versions of all tables; see :meth:`~headwater.lakes.lake_table.LakeFormat.forget_versions`."""
        self._format.forget_versions(kept_versions, older_than)

    def bind(self, bindings: Mapping[str, int]) -> None:
        """Let tables of the source land under names that others may have had; see :meth:`BoundNames.bind`."""
        former = self._names.bind(bindings)
        moved = {key: self._tables.pop(older) for key, older in former.items() if older in self._tables}
        self._tables.update(moved)

    def bind_again(self, names: Mapping[str, str]) -> None:
        """Let names be bound as they were; see :meth:`BoundNames.bind_again`."""
        self._names.bind_again(names)
        tables = dict(self._tables.values())
        self._tables = {key: (name, tables[name]) for key, name in names.items() if name in tables}

    def _opened(self, key: str) -> LakeTable:
        if key not in self._tables:
            name = self._names.by_key[key]
            self._tables[key] = name, self._format.table(self._place / name, self._registry.source, name)
        return self._tables[key][1]

    def _chosen(self, schema: RelationSchema, shape: Shape | None) -> str | None:
        """Find the last of a relation's tables, which are open, that has a shape, or the first without columns yet."""
        keys = self._names.keys(schema.oid)
        if shape is None:
            return keys[-1] if keys else None
        shapes = {key: self._shape(key) for key in keys}
        fitting = [key for key, known in shapes.items() if known is not None and has_shape(known, shape)]
        return fitting[-1] if fitting else next((key for key, known in shapes.items() if known is None), None)

    def _shape(self, key: str) -> Shape | None:
        """Return the columns of an open table, or those that it is to have; None for none yet."""
        schema = self._tables[key][1].landed.schema
        return self._claimed.get(key) if schema is None else LakeSchema.of(schema).shape
