"""The directory of a target: its tables, and how far all of them have come.

::

    shop/_headwater/target.json       what the tables are made of, and in what format
    shop/_headwater/tables.json       the tables' names, by the OIDs of the source's
    shop/_headwater/detached.json     OIDs of partitions that took rows with them
    shop/_headwater/states/….state    the state behind the last window that all tables have
    shop/_headwater/staged/0/         changes of a table that mirrors the source's, until they are merged
    shop/_headwater/lock              held by who lands
    shop/public.orders/               a table
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError
from headwater.pg.lsn import Lsn
from headwater.rows.column_types import DELTA, ERROR, PARQUET, Target
from headwater.sinks.delta_table import DeltaLakeTable
from headwater.sinks.lake_schema import EVOLVE
from headwater.sinks.lake_table import LakeTable, errors_at, lock_alone
from headwater.sinks.parquet_table import ParquetTable
from headwater.slots.kept_state import KeptState, find_state, keep_state
from headwater.slots.value_file import sync_directory

MAKERS: dict[str, Callable[[Path, str, str], LakeTable]] = {
    "parquet": lambda place, source, name: ParquetTable(place, source),
    "delta": DeltaLakeTable,
}
TYPES: dict[str, Target] = {"parquet": PARQUET, "delta": DELTA}
FORMATS = tuple(MAKERS)
_NEWEST = (1 << 63) - 1


@dataclass(frozen=True)
class LandingTarget:
    """Where changes land.

    Attributes:
        place: a directory, which is made; each table has one in it.
        format: one of FORMATS.
        on_unrepresentable: see :data:`headwater.rows.column_types.ON_UNREPRESENTABLE`.
        schema_evolution: see :data:`headwater.sinks.lake_schema.SCHEMA_EVOLUTION`.
        mode: what is kept, one of :data:`headwater.sinks.modes.MODES`.
    """

    place: Path
    format: str = "parquet"
    on_unrepresentable: str = ERROR
    schema_evolution: str = EVOLVE
    mode: str = "changelog"


class Lake:
    """A target that is landed in; a context manager. It is held alone: another process is refused.

    Args:
        target: it.

    Raises:
        LakeConflictError: another process lands there.
        LakeError: it cannot be made or read, or its tables have another format.
    """

    def __init__(self, target: LandingTarget) -> None:
        self.target = target
        self._own = target.place / "_headwater"
        self._tables: dict[int, tuple[str, LakeTable]] = {}
        with errors_at(target.place):
            self._states.mkdir(parents=True, exist_ok=True)
            self._lock = lock_alone(self._own / "lock", target.place)
            self._require("format", target.format)
            self._require("mode", target.mode, "changelog")
            self.clear_staging()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        for _name, table in self._tables.values():
            table.close()
        os.close(self._lock)

    @property
    def _states(self) -> Path:
        return self._own / "states"

    def staging(self, number: int) -> str:
        """Where tasks write changes of a table that are not committed as they are.

        Args:
            number: of the table, in the window.
        """
        place = self._own / "staged" / str(number)
        with errors_at(self.target.place):
            place.mkdir(parents=True, exist_ok=True)
        return str(place)

    def clear_staging(self) -> None:
        """Remove what is there: a run that ended has left it, or it is merged."""
        with errors_at(self.target.place):
            for path in self._own.glob("staged/*/*"):
                path.unlink(missing_ok=True)

    def has(self, schema: RelationSchema) -> bool:
        """Whether a relation has a table."""
        with errors_at(self.target.place):
            return str(schema.oid) in self._load("tables.json")

    def note_detached(self, oids: Iterable[int]) -> None:
        """These were partitions of tables that are mirrored, and have taken rows with them."""
        with errors_at(self.target.place):
            known = self._load("detached.json")
            added = {str(oid): True for oid in oids if str(oid) not in known}
            if added:
                self._save("detached.json", known | added)

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

    def kept(self) -> KeptState | None:
        """The state where the last run has come to; None for none.

        Raises:
            SlotError: it is damaged.
        """
        return find_state(self._states, _NEWEST) if any(self._states.glob("*.state")) else None

    def resolve(self, kept: KeptState) -> None:
        """All tables have everything up to a state.

        Raises:
            SlotError: it cannot be written.
        """
        path = keep_state(self._states, kept)
        with errors_at(self.target.place):
            for other in self._states.glob("*.state"):
                if other != path:
                    other.unlink(missing_ok=True)

    def table(self, schema: RelationSchema, source: str, begins_at: int) -> tuple[str, LakeTable]:
        """The table of a relation, by its OID, and its name, which it keeps from when it landed first.

        Args:
            schema: the relation.
            source: see :class:`~headwater.sinks.lake_table.Landed`.
            begins_at: LSN before which this run has nothing, 0 where it goes on from a state.

        Raises:
            LakeError: its name is another one's; or changes between what it has and this run may be missing.
        """
        if schema.oid not in self._tables:
            name = self._name(schema)
            table = MAKERS[self.target.format](self.target.place / name, source, name)
            self._tables[schema.oid] = name, table
            if -1 < table.landed.commit_lsn < begins_at:
                raise LakeError(
                    f"table {name} has landed up to {Lsn(table.landed.commit_lsn)}, this run begins at "
                    f"{Lsn(begins_at)}: what is between may be missing",
                    file=str(self.target.place),
                    hint="the target has lost its state; begin with an older backup",
                )
        return self._tables[schema.oid]

    def _name(self, schema: RelationSchema) -> str:
        with errors_at(self.target.place):
            names = self._load("tables.json")
            found = names.get(str(schema.oid))
            if found is None:
                found = f"{schema.namespace}.{schema.name}"
                if found in names.values() or "/" in found:
                    raise LakeError(
                        f'"{found}" is another table now, of OID {schema.oid}, or no name of a directory',
                        hint="land it to another place, or leave it out (--tables)",
                    )
                self._save("tables.json", {**names, str(schema.oid): found})
        return str(found)

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
        path = self._own / name
        try:
            found = json.loads(path.read_text()) if path.exists() else {}
        except ValueError as error:
            raise LakeError(f"damaged: {error}", file=str(path)) from None
        if not isinstance(found, dict):
            raise LakeError("damaged: no object of JSON", file=str(path))
        return found

    def _save(self, name: str, value: dict[str, Any]) -> None:
        path = self._own / name
        part = path.with_suffix(".part")
        with part.open("w") as sink:
            json.dump(value, sink)
            sink.flush()
            os.fsync(sink.fileno())
        os.replace(part, path)
        sync_directory(path.parent)
