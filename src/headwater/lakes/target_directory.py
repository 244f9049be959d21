"""The directory of a target: its tables, and how far all of them have come.

::

    shop/_headwater/target.json       what the tables are made of, in what format, and which of the source's land
    shop/_headwater/tables.json       which table is which of the source's (headwater.lakes.bound_names)
    shop/_headwater/detached.json     OIDs of partitions that took rows with them
    shop/_headwater/paused.json       tables that land no further while the others do
    shop/_headwater/resolved.jsonl    how far all tables have come together, and in which versions
    shop/_headwater/states/….state    the state behind the last window that all tables have
    shop/_headwater/staged/0-1/       changes of a table that mirrors the source's, until they are merged: turn, number
    shop/_headwater/keys/public.orders/   where its rows lie by their keys, if rows are deleted beside files
    shop/_headwater/lock              held by who lands
    shop/public.orders/               a table

In a store it is the same, under keys. What a run needs meanwhile (staged, scratch) is in a directory of this machine
then, which goes with the run; keys in one that stays (:mod:`headwater.lakes.stores.near_indexes`). The lock is an
object (:mod:`headwater.lakes.stores.fence`), and resolved.jsonl several (:mod:`headwater.lakes.stores.log_lines`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

from headwater.lakes.bound_names import BoundNames
from headwater.lakes.lake_schema import LakeSchema
from headwater.lakes.lake_table import Expired, LakeTable, errors_at, lock_alone
from headwater.lakes.landed_progress import LandedProgress
from headwater.lakes.landing_target import SPARK_IMPL, LandingTarget, numbers_taken, own_directory, require_possible
from headwater.lakes.open_tables import OpenTables
from headwater.lakes.paused import PausedTables
from headwater.lakes.resolved_log import ResolvedLog, resolved_states
from headwater.lakes.settings.bound_layouts import bound_layout
from headwater.lakes.settings.table_settings import TableSettings
from headwater.lakes.stores.fence import Fence
from headwater.lakes.stores.near_indexes import directory_of_indexes
from headwater.lakes.stores.places import StorePath, Where, remove_file
from headwater.lakes.target_registry import TargetRegistry


class Lake:
    """A target that is landed in; a context manager. It is held alone: another process is refused.

    Args:
        target: where to land.

    Attributes:
        registry: what the target notes of itself.
        names: which table is which of the source's; paused: those that land no further.
        tables: those that this run has open; progress: how far all of them have come.
        staging: where tasks write what is merged later.

    Raises:
        LakeConflictError: another process lands there.
        LakeError: it cannot be made or read, or its tables have another format.
    """

    def __init__(self, target: LandingTarget) -> None:
        self.target = target
        with ExitStack() as stack:
            self._near = self._held(target.where, stack)
            self._open()
            self._held_by = stack.pop_all()

    def _held(self, place: Where, stack: ExitStack) -> Path:
        """Hold the target alone; returns a directory for what a run needs meanwhile."""
        if isinstance(place, StorePath):
            require_possible(self.target)
            store, own = place.store, own_directory(place)
            store.require_conditions(own.key)
            fence = Fence(own / "lock", place)
            stack.callback(fence.close)
            store.guard = fence.require
            stack.callback(setattr, store, "guard", lambda: None)
            near = Path(stack.enter_context(TemporaryDirectory(prefix="headwater-lake-")))
            self._indexes = directory_of_indexes(place, near, stack)
            return near
        near = own_directory(place)
        self._indexes = near / "keys"
        with errors_at(place):
            (near / "states").mkdir(parents=True, exist_ok=True)
        stack.callback(os.close, lock_alone(near / "lock", place))
        return near

    def _open(self) -> None:
        """Open the parts, once the target is held alone."""
        target = self.target
        self._own = own_directory(target.where)
        self.registry = TargetRegistry(target)
        self.registry.require_settings()
        self.staging = StagingAreas(self._near, target.where)
        self.staging.clear()
        self._log = ResolvedLog(self._own)
        self.paused = PausedTables(self._own)
        format = target.open_format()
        self.names = BoundNames(self._own, target.where, format.identifier, numbers_taken=numbers_taken(target))
        self.tables = OpenTables(target, format, self.registry, self.names)
        self.progress = LandedProgress(self._states, self._log, self.tables, self.paused)

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.tables.close()
        self._held_by.close()

    @property
    def scratch(self) -> Path:
        """A directory for what a run needs meanwhile, which may not be there; all machines share it."""
        return self._near / "scratch"

    @property
    def indexes(self) -> Path:
        """A directory for indexes of keys, which may not be there: each is made again when it is lost."""
        return self._indexes

    @property
    def replacing(self) -> Where:
        """A note of tables that are taking the place of others; see :mod:`headwater.landing.replaced_tables`."""
        return self._own / "replacing.json"

    @property
    def replaced(self) -> Path:
        """A directory for rows that these tables bring, which may not be there; all machines share it."""
        return self._near / "replaced"

    def forget_replacing(self) -> None:
        """Remove the note of these tables, and the rows that they bring.

        Raises:
            OSError: it cannot be removed.
            LakeError: likewise, in a store.
        """
        remove_file(self.replacing)
        rmtree(self.replaced, ignore_errors=True)

    @property
    def _states(self) -> Where:
        return self._own / "states"

    def lay_out(self, name: str, table: LakeTable) -> None:
        """Let files that come to a table have the layout that it has landed with.

        Args:
            name: of the table; table: it, in which something has landed.

        Raises:
            LakeError: its note is damaged.
        """
        oid = self.names.holder(name)
        note = None if oid is None else self.registry.table_note(oid)
        if note is not None and table.landed.schema is not None:
            settings = TableSettings.of_object({"tables": "*", **note.settings})
            columns = LakeSchema.of(table.landed.schema).by_number
            table.layout = bound_layout(settings, note.arranging, columns, self.target.format)

    def require_files(self) -> None:
        """See that the tables' files are kept here.

        Raises:
            LakeError: they are a catalog's of Spark's.
        """
        if self.target.catalog_impl == SPARK_IMPL:
            from headwater.lakes.spark_table import files_are_sparks

            raise files_are_sparks(self.target.place)

    def expire(self, older_than: datetime) -> dict[str, Expired]:
        """Remove what belongs to versions that are older, and have been followed by others.

        Args:
            older_than: what was so at any time since then can still be read; with a time zone.

        Returns:
            what was removed, by table.

        Raises:
            LakeError: it cannot be removed.
        """
        return dict(self.expiring(older_than))

    def expiring(self, older_than: datetime) -> Iterator[tuple[str, Expired]]:
        """Remove the same, table by table; others may land between, and what they leave is newer."""
        self.require_files()
        self._log.forget(older_than)
        versions_kept = [resolved.tables for resolved in resolved_states(self._own)]
        self.tables.forget_versions({version for tables in versions_kept for version in tables.values()}, older_than)
        for name, table in list(self.tables.landed()):
            versions = {tables[name] for tables in versions_kept if name in tables} | {table.version}
            yield name, self.tables.expire(name, versions, older_than)


class StagingAreas:
    """Directories for changes that are not committed as they are.

    A window's lie apart from those of the one before, which may not be merged yet.

    Args:
        own: the directory of what is the target's own; place: the target's, which errors name.
    """

    def __init__(self, own: Path, place: Where) -> None:
        self._own, self._place = own, place
        self._turn = 0

    def next_turn(self) -> int:
        """Begin a window; gives its turn."""
        self._turn = 1 - self._turn
        return self._turn

    def of_table(self, number: int) -> str:
        """Return the directory into which tasks write changes of a table in this turn.

        Args:
            number: of the table, in the window.
        """
        area = self._own / "staged" / f"{self._turn}-{number}"
        with errors_at(self._place):
            area.mkdir(parents=True, exist_ok=True)
        return str(area)

    def clear(self, turn: int | None = None) -> None:
        """Remove what is there: a run that ended has left it, or it is merged.

        Args:
            turn: in which it was staged; None for any.
        """
        areas = "*" if turn is None else f"{turn}-*"
        with errors_at(self._place):
            for path in self._own.glob(f"staged/{areas}/*"):
                path.unlink(missing_ok=True)
