"""The directory of a target: its tables, and how far all of them have come.

::

    shop/_headwater/target.json       what the tables are made of, in what format, and which of the source's land
    shop/_headwater/tables.json       which table is which of the source's (headwater.lakes.bound_names)
    shop/_headwater/detached.json     OIDs of partitions that took rows with them
    shop/_headwater/paused.json       tables that land no further while the others do
    shop/_headwater/resolved.jsonl    how far all tables have come together, and in which versions
    shop/_headwater/states/….state    the state behind the last window that all tables have
    shop/_headwater/staged/0/         changes of a table that mirrors the source's, until they are merged
    shop/_headwater/lock              held by who lands
    shop/public.orders/               a table
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError
from headwater.lakes.bound_names import BoundNames, save_object
from headwater.lakes.lake_schema import LakeSchema, Shape, has_shape
from headwater.lakes.lake_table import Expired, LakeTable, TableCommit, errors_at, lock_alone
from headwater.lakes.landing_target import (
    ITS_OWN,
    NEVER,
    PYTHON_IMPL,
    SPARK_IMPL,
    LandingTarget,
    load_object,
    numbers_taken,
    own_directory,
)
from headwater.lakes.paused import PausedTables, stand_at
from headwater.lakes.resolved_log import ResolvedLog, resolved_states
from headwater.pg.lsn import Lsn
from headwater.plugins.table_patterns import TablePatterns
from headwater.rows.columns.column_types import AS_STRING
from headwater.slots.kept_state import KeptState, find_state, keep_state

_NEWEST = (1 << 63) - 1
_TABLES, _ADDING = "tables", "adding"

_STATE_BYTES = 1 << 20
"""No segment of WAL is smaller."""


@dataclass(frozen=True)
class Adding:
    """Tables that are being added to those of a target.

    Attributes:
        tables: which land then.
        lsn: where the target has come to; their rows are those that they had there.
    """

    tables: TablePatterns
    lsn: int


class Lake:
    """A target that is landed in; a context manager. It is held alone: another process is refused.

    Args:
        target: it.

    Attributes:
        paused: tables that land no further.

    Raises:
        LakeConflictError: another process lands there.
        LakeError: it cannot be made or read, or its tables have another format.
    """

    def __init__(self, target: LandingTarget) -> None:
        self.target = target
        self._own = own_directory(target.place)
        self._tables: dict[str, tuple[str, LakeTable]] = {}
        self._claimed: dict[str, Shape] = {}
        self._turn = 0
        self._unwritten: KeptState | None = None
        self._latest: datetime | None = None
        self._written, self._has_committed = -1, True
        with errors_at(target.place):
            self._states.mkdir(parents=True, exist_ok=True)
        self._lock = lock_alone(self._own / "lock", target.place)
        try:
            self._open()
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self) -> None:
        """What is done once it is held alone."""
        target = self.target
        with errors_at(target.place):
            self._require("format", target.format)
            self._require("mode", target.mode, "changelog")
            for what, value in (("catalog", target.iceberg_catalog), ("namespace", target.namespace)):
                self._require(what, value or ITS_OWN, ITS_OWN)
            self._require("catalog-impl", target.catalog_impl, PYTHON_IMPL)
            self._require("snapshot", target.snapshot, NEVER)
            self._require("jsonb", target.jsonb, AS_STRING)
            self.clear_staging()
            self._resolved = ResolvedLog(self._own)
        self.paused = PausedTables(self._own)
        self._format = target.open_format()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        for _name, table in self._tables.values():
            table.close()
        self._format.close()
        os.close(self._lock)

    @property
    def scratch(self) -> Path:
        """A directory for what a run needs meanwhile, which may not be there; all machines share it."""
        return self._own / "scratch"

    @property
    def replacing(self) -> Path:
        """A note of tables that are taking the place of others; see :mod:`headwater.landing.replaced_tables`."""
        return self._own / "replacing.json"

    @property
    def replaced(self) -> Path:
        """A directory for rows that these tables bring, which may not be there; all machines share it."""
        return self._own / "replaced"

    @property
    def _states(self) -> Path:
        return self._own / "states"

    def next_turn(self) -> int:
        """Begin a window, whose staged files lie apart from those of the one before; gives its turn."""
        self._turn = 1 - self._turn
        return self._turn

    def staging(self, number: int) -> str:
        """Where tasks write changes of a table that are not committed as they are, in this turn.

        Args:
            number: of the table, in the window.
        """
        place = self._own / "staged" / f"{self._turn}-{number}"
        with errors_at(self.target.place):
            place.mkdir(parents=True, exist_ok=True)
        return str(place)

    def clear_staging(self, turn: int | None = None) -> None:
        """Remove what is there: a run that ended has left it, or it is merged.

        Args:
            turn: in which it was staged; None for any, as where no window is staged before the last one is committed.
        """
        some = "*" if turn is None or not self.stages_ahead else f"{turn}-*"
        with errors_at(self.target.place):
            for path in self._own.glob(f"staged/{some}/*"):
                path.unlink(missing_ok=True)

    def has(self, schema: RelationSchema) -> bool:
        """Whether a relation has a table."""
        with errors_at(self.target.place):
            return str(schema.oid) in self.names.by_key

    @property
    def stages_ahead(self) -> bool:
        return self._format.stages_ahead

    def is_open(self, schema: RelationSchema, shape: Shape | None = None) -> bool:
        """Whether this run has a relation's table open; of those that it has, one of a shape."""
        return all(key in self._tables for key in self._keys(schema)) and self._chosen(schema, shape) is not None

    def note_detached(self, oids: Iterable[int]) -> None:
        """These were partitions of tables that are mirrored, and have taken rows with them."""
        with errors_at(self.target.place):
            known = self._load("detached.json")
            added = {str(oid): True for oid in oids if str(oid) not in known}
            if added:
                self._save("detached.json", known | added)

    def forget_detached(self, oid: int) -> None:
        """The rows that a former partition has are in a mirror of its own by now."""
        with errors_at(self.target.place):
            known = self._load("detached.json")
            if known.pop(str(oid), None) is not None:
                self._save("detached.json", known)

    def is_detached(self, schema: RelationSchema) -> bool:
        """Whether a relation is one of :meth:`note_detached`."""
        with errors_at(self.target.place):
            return str(schema.oid) in self._load("detached.json")

    def require_source(self, source: str) -> None:
        """See that the target's tables are of this database of this cluster.

        Raises:
            LakeError: they are of another.
        """
        with errors_at(self.target.place):
            self._require("source", source)

    @property
    def chosen(self) -> TablePatterns | None:
        """Which tables land; None where nothing has landed yet.

        Raises:
            LakeError: it cannot be read.
        """
        with errors_at(self.target.place):
            known = self._load("target.json").get(_TABLES)
        return None if known is None else TablePatterns.of_text(str(known))

    @property
    def adding(self) -> Adding | None:
        """What a run has begun to add; None for nothing.

        Raises:
            LakeError: it cannot be read.
        """
        with errors_at(self.target.place):
            known = self._load("target.json").get(_ADDING)
        return None if known is None else Adding(TablePatterns.of_text(known["tables"]), int(Lsn.parse(known["lsn"])))

    def choose(self, tables: TablePatterns) -> None:
        """These tables land from here on; whatever was being added is there.

        Raises:
            LakeError: it cannot be written.
        """
        self._note_choice({_TABLES: tables.as_text})

    def note_adding(self, adding: Adding) -> None:
        """Other tables are about to be added: until they are there, nothing else lands.

        Raises:
            LakeError: it cannot be written.
        """
        self._note_choice({_ADDING: {"tables": adding.tables.as_text, "lsn": str(Lsn(adding.lsn))}})

    def _note_choice(self, found: dict[str, Any]) -> None:
        with errors_at(self.target.place):
            known = self._load("target.json")
            rest = {name: value for name, value in known.items() if name != _ADDING}
            if {**rest, **found} != known:
                self._save("target.json", {**rest, **found})

    @cached_property
    def names(self) -> BoundNames:
        """Which table of the source lands under which name."""
        identifier, numbers = self._format.identifier, numbers_taken(self.target)
        return BoundNames(self._own, self.target.place, identifier, numbers_taken=numbers)

    def kept(self) -> KeptState | None:
        """The state where the last run has come to; None for none.

        Raises:
            SlotError: it is damaged.
        """
        return find_state(self._states, _NEWEST) if any(self._states.glob("*.state")) else None

    def resolve(self, kept: KeptState, commit_time: datetime | None) -> None:
        """All tables have everything up to a state.

        It is written if any table has got something since the one that was written, or when it is a little further on:
        so a run that is begun again finds no table that is further than one window, and needs no WAL of long ago.

        Where one has more, which an earlier run has landed that was to go further and was ended, they do not belong
        together yet: that is told of a later window.

        Args:
            kept: it; commit_time: the latest since the call before, if that is known.

        Raises:
            SlotError: it cannot be written.
            LakeError: likewise.
        """
        self._unwritten = kept
        self._latest = max((one for one in (self._latest, commit_time) if one is not None), default=None)
        if self._has_committed or kept.state.lsn // _STATE_BYTES != self._written // _STATE_BYTES:
            self.write_state()

    def write_state(self) -> None:
        """Write the state where the run has come to, unless it is written.

        Raises:
            SlotError: it cannot be written.
            LakeError: likewise.
        """
        if self._unwritten is None:
            return
        kept = self._unwritten
        self._note(kept.state.lsn, self._latest)
        path = keep_state(self._states, kept)
        self._written, self._unwritten, self._has_committed = kept.state.lsn, None, False
        with errors_at(self.target.place):
            for other in self._states.glob("*.state"):
                if other != path:
                    other.unlink(missing_ok=True)

    def require_files(self) -> None:
        """See that the tables' files are kept here.

        Raises:
            LakeError: they are a catalog's of Spark's.
        """
        if self.target.catalog_impl == SPARK_IMPL:
            from headwater.lakes.spark_table import files_are_sparks

            raise files_are_sparks(self.target.place)

    def note_versions(self) -> None:
        """The open tables have other versions, of what they had: their files were rewritten.

        Raises:
            LakeError: it cannot be written.
        """
        if self._resolved.last.tables:
            self._note(self._resolved.last.lsn, None)

    def is_together(self, lsn: int) -> bool:
        """Whether no table has landed further than to an LSN, as it may where a run was killed.

        Raises:
            LakeError: one cannot be read.
        """
        return all(table.landed.commit_lsn < lsn for _name, table in list(self.tables()))

    def note_added(self, lsn: int) -> None:
        """Tables were added as they were at an LSN, to where all others have come.

        Raises:
            LakeError: it cannot be written.
        """
        self._note(lsn, None)

    def note_resumed(self, lsn: int, oids: Iterable[int]) -> None:
        """Paused tables have come to an LSN, to where all others have come: they land again.

        Raises:
            LakeError: it cannot be written.
        """
        gone = set(oids)
        left = (one for oid, one in self.paused.tables.items() if oid not in gone)
        self._note(lsn, None, stand_at(left))
        self.paused.remove(gone)

    def _note(self, lsn: int, commit_time: datetime | None, paused: Mapping[str, int] | None = None) -> None:
        tables = self._tables.values()
        if all(table.landed.commit_lsn < lsn for _name, table in tables):
            versions = {name: table.version for name, table in tables if table.version >= 0}
            self._resolved.add(lsn, commit_time, versions, self.paused.stand_at if paused is None else paused)

    def expire(self, older_than: datetime) -> dict[str, Expired]:
        """Remove what belongs to versions that are older, and have been followed by others.

        Args:
            older_than: what was so at any time since then can still be read; with a time zone.

        Returns:
            what was removed, by table.

        Raises:
            LakeError: it cannot be removed.
        """
        self.require_files()
        self._resolved.forget(older_than)
        kept = [one.tables for one in resolved_states(self._own)]
        found = {}
        for name, table in list(self.tables()):
            versions = {tables[name] for tables in kept if name in tables} | {table.version}
            found[name] = self._format.expire(self.target.place / name, name, versions, older_than)
        return found

    def tables(self) -> Iterator[tuple[str, LakeTable]]:
        """All tables in which anything has landed, opened, by their names.

        Raises:
            LakeError: one cannot be read.
        """
        with errors_at(self.target.place):
            keys, source = list(self.names.by_key), str(self._load("target.json").get("source", ""))
        for key in keys:
            if self._opened(key, source).version >= 0:
                yield self._tables[key]

    def table(
        self, schema: RelationSchema, source: str, begins_at: int, shape: Shape | None = None
    ) -> tuple[str, LakeTable]:
        """The table of a relation, by its OID, and its name, which it keeps from when it landed first.

        Args:
            schema: the relation.
            source: see :class:`~headwater.lakes.lake_table.Landed`.
            begins_at: LSN before which this run has nothing, 0 where it goes on from a state.
            shape: columns that it must have, of the several tables that the relation may have; None for the last one.

        Raises:
            LakeError: its name is another one's; or changes between what it has and this run may be missing.
        """
        for known in self._keys(schema):
            self._opened(known, source)
        key = self._chosen(schema, shape) or self._named(schema)
        name, table = self.names.by_key[key], self._opened(key, source)
        if shape is not None:
            self._claimed[key] = shape
        if -1 < table.landed.commit_lsn < begins_at:
            raise LakeError(
                f"table {name} has landed up to {Lsn(table.landed.commit_lsn)}, this run begins at "
                f"{Lsn(begins_at)}: what is between may be missing",
                file=str(self.target.place),
                hint="the target has lost its state; begin with an older backup",
            )
        return name, table

    def commit(self, commits: Sequence[TableCommit]) -> None:
        """Commit to the tables of a window, together as far as the format can.

        Raises:
            LakeConflictError: somebody else has written to one.
            LakeError: one cannot be written.
        """
        self._has_committed |= bool(commits)
        self._format.commit(commits)

    def _keys(self, schema: RelationSchema) -> list[str]:
        """Of the tables that a relation has."""
        with errors_at(self.target.place):
            return self.names.keys(schema.oid)

    def _named(self, schema: RelationSchema) -> str:
        """Name a table of a relation; gives its key."""
        with errors_at(self.target.place):
            return self.names.give(schema)

    def _opened(self, key: str, source: str) -> LakeTable:
        if key not in self._tables:
            name = self.names.by_key[key]
            self._tables[key] = name, self._format.table(self.target.place / name, source, name)
        return self._tables[key][1]

    def _chosen(self, schema: RelationSchema, shape: Shape | None) -> str | None:
        """The last of a relation's tables, which are open, that has a shape, or the first without columns yet."""
        keys = self._keys(schema)
        if shape is None:
            return keys[-1] if keys else None
        columns = {key: self._columns(key) for key in keys}
        having = [key for key, found in columns.items() if found is not None and has_shape(found, shape)]
        return having[-1] if having else next((key for key, found in columns.items() if found is None), None)

    def _columns(self, key: str) -> Shape | None:
        """Of an open table, or those that it is to have; None for none yet."""
        schema = self._tables[key][1].landed.schema
        return self._claimed.get(key) if schema is None else LakeSchema.of(schema).shape

    def bind(self, bindings: Mapping[str, int]) -> None:
        """Let tables of the source land under names that others may have had; see :meth:`BoundNames.bind`.

        Raises:
            LakeError: it cannot be written.
        """
        with errors_at(self.target.place):
            others = self.names.bind(bindings)
        opened = {key: self._tables.pop(older) for key, older in others.items() if older in self._tables}
        self._tables.update(opened)

    def bind_again(self, known: Mapping[str, str]) -> None:
        """Let names be bound as they were; see :meth:`BoundNames.bind_again`.

        Raises:
            LakeError: it cannot be written.
        """
        with errors_at(self.target.place):
            self.names.bind_again(known)
        opened = dict(self._tables.values())
        self._tables = {key: (name, opened[name]) for key, name in known.items() if name in opened}

    def landed(self, name: str) -> LakeTable | None:
        """The open table of a name; None for none.

        Raises:
            LakeError: it cannot be read.
        """
        with errors_at(self.target.place):
            key = next((key for key, known in self.names.by_key.items() if known == name), None)
            source = str(self._load("target.json").get("source", ""))
        return None if key is None else self._opened(key, source)

    def _require(self, what: str, value: str, unless_said: str | None = None) -> None:
        """See that something is as it was, or note it; a target from before that was noted has `unless_said`."""
        known = self._load("target.json")
        if unless_said is not None and "source" in known:
            known.setdefault(what, unless_said)
        if known.get(what, value) != value:
            raise LakeError(
                f"the tables have {what} {known[what]}, not {value}",
                file=str(self.target.place),
                hint="land to another place",
            )
        if what not in known:
            self._save("target.json", {**known, what: value})

    def _load(self, name: str) -> dict[str, Any]:
        return load_object(self._own / name)

    def _save(self, name: str, value: dict[str, Any]) -> None:
        save_object(self._own / name, value)
