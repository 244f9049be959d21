"""Tables that take the place of others in the lake, as the source gives them the others' names.

::

    names that mean another table from a commit on     in the thread that plans     landing/tables/name_changes.py
      -> what the lake makes of each (:func:`arrivals`)  its tables' names are known here
      -> the window is cut there, so that it begins with the commit
      -> names are bound anew, rows of a table's own mirror staged, and that noted: a run that is killed does the same
      -> the window lands: the older table's rows end before its first change, the newer one's come

A mirror is what ``SELECT * FROM name`` says. So it follows the name: a table that gets it brings its rows, whatever its
name was before. In the lake it is found under its new name only, and what has its old name stays as it was. A table of
changes goes on under a name that another table gets, after a row that says so; where no other one does, it follows the
table. With ``--follow-oid`` a mirror does that, too.

Known gaps: what a transaction does to a table before it gives its name to another one is in no table of changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from shutil import rmtree
from typing import Any

import pyarrow as pa

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError, errors_of_table, warn
from headwater.lakes.bound_names import save_object
from headwater.lakes.data_files import write_laid_out
from headwater.lakes.lake_schema import LakeSchema
from headwater.lakes.lake_table import DataFile, LakeTable, Sought, errors_at, file_name
from headwater.lakes.landing_target import SPARK_IMPL, STOP, load_object, numbers_taken
from headwater.lakes.stores.places import remove_file, require_local
from headwater.lakes.target_directory import Lake
from headwater.landing.mirrors.landed_files import Landing, Written
from headwater.landing.mirrors.merge_plan import is_closed
from headwater.landing.mirrors.merge_task import Merged
from headwater.landing.mirrors.mirror_form import PARTITION
from headwater.landing.mirrors.replaced_rows import RowsOfMirror
from headwater.landing.tables.attached_rows import Arrival as Moving
from headwater.landing.tables.attached_rows import Departure, Handover, changes_besides, commit_times
from headwater.landing.tables.change_rows import REPLACE, StagedChanges, framed
from headwater.landing.tables.name_changes import NameChange
from headwater.landing.tables.renamed_tables import ChoiceChange
from headwater.landing.tables.source_tables import SourceTable
from headwater.landing.tables.table_events import TableStory, identity_of
from headwater.landing.tables.window_cuts import CrowdedWindowError
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.scope import Scope
from headwater.rows.columns.arrow import NAMES


@dataclass(frozen=True)
class Arrival:
    """A table that lands under a name from a commit on.

    Attributes:
        change: what the source has done; table: what has the name then.
        giver: the name that it has landed under; None where it has not.
        replaces: something of another table has landed under the name.
    """

    change: NameChange
    table: RelationSchema
    giver: str | None = None
    replaces: bool = False

    @property
    def lacks_rows(self) -> bool:
        """Rows that it had before are in no table of the lake."""
        return self.giver is None and not self.change.was_known

    @property
    def departure(self) -> Departure:
        """The departure that ends the rows that are there."""
        return Departure(self.table.oid, self.change.lsn, self.change.time)


@dataclass(frozen=True)
class Naming:
    """The names that tables land under.

    Attributes:
        lake: where they land.
        is_mirror: rows are kept, not changes.
        living: OIDs of the tables that there are.
        left_out: OIDs of paused tables.
    """

    lake: Lake
    is_mirror: bool
    living: Container[int]
    left_out: Container[int] = ()

    def arrivals(self, changes: Iterable[NameChange]) -> list[Arrival]:
        """Return the tables that land under other names than before, in the order of the commits.

        Args:
            changes: what the source does with names.

        Raises:
            LakeError: a table takes another one's place, and that is not wanted.
        """
        chosen = [change for change in changes if change.after is not None and change.is_chosen]
        return [arrival for change in chosen if (arrival := self._arrival(change, change.after)) is not None]

    def _arrival(self, change: NameChange, table: RelationSchema | None) -> Arrival | None:
        assert table is not None
        names, target = self.lake.names, self.lake.target
        giver, holder = names.name_of(table.oid), names.holder(change.name)
        if names.has(change.name) and holder != table.oid:
            with errors_of_table(table.oid, change.name):
                self._require_landing(change, holder)
            if not numbers_taken(target) or (target.follows_oid and holder not in self.living):
                with errors_of_table(table.oid, change.name):
                    self._require_python(change)
                return Arrival(change, table, giver if change.was_known else None, replaces=True)
            return None
        if not self.is_mirror or target.follows_oid:
            return None
        return self._renamed(change, table, giver)

    def _renamed(self, change: NameChange, table: RelationSchema, giver: str | None) -> Arrival | None:
        """Return the arrival of a mirror whose table got a name that no other one has in the lake; None for none."""
        if not change.was_known:  # rows and changes of it are in no mirror, or are missing in its own
            return Arrival(change, table, None, replaces=giver == change.name)
        if giver is None:
            return Arrival(change, table) if change.has_passed_over else None
        return Arrival(change, table, giver) if giver != change.name else None

    def _require_python(self, change: NameChange) -> None:
        """See that the versions of a history that have ended stay when another table takes over."""
        if self.lake.target.catalog_impl == SPARK_IMPL and self.lake.target.mode == "history":
            raise LakeError(
                f'table "{change.name}" is another table from there on, which a history of Spark\'s own writers cannot '
                "go on with",
                lsn=change.lsn,
                hint="land the newer one beside the older one (--on-table-replaced new)",
            )

    def _require_landing(self, change: NameChange, holder: int | None) -> None:
        """See that a table takes the place of one that lands, and may.

        Raises:
            LakeError: that one is paused, and what it has had until then would be missing; or it is not to go on so.
        """
        if self.lake.target.on_table_replaced == STOP:
            raise self._unwanted(change)
        if holder in self.left_out and not numbers_taken(self.lake.target):
            raise LakeError(
                f'table "{change.name}" takes the place of one that is paused',
                lsn=change.lsn,
                hint="headwater lake resume lands both, headwater lake reload takes its rows from a backup",
            )

    def _unwanted(self, change: NameChange) -> LakeError:
        return LakeError(
            f'table "{change.name}" is another table from there on',
            lsn=change.lsn,
            hint="go on with the rows of the newer one (--on-table-replaced follow), or land it beside the older one "
            "(--on-table-replaced new)",
        )


@dataclass(frozen=True)
class Replacing:
    """The beginning of a window in which tables take the place of others.

    Attributes:
        lake: where it lands; is_mirror: rows are kept, not changes.
        arrivals: the tables that land under other names from its first commit on.
    """

    lake: Lake
    is_mirror: bool
    arrivals: Sequence[Arrival]

    @property
    def lsn(self) -> int:
        """START of the commit's record."""
        return self.arrivals[0].change.lsn

    def bind(self) -> None:
        """Let the tables land under these names, in this run and in the one that follows if it is killed.

        Raises:
            LakeError: it cannot be written, or rows would move between mirrors in a store.
        """
        if self.is_mirror:
            name = self.arrivals[0].change.name
            require_local(
                self.lake.target.where,
                f'a mirror whose table takes another one\'s name ("{name}", at {Lsn(self.lsn)})',
                "leave the table out (--exclude), land changes (--mode changelog), or land to a directory",
            )
        if _Note.read(self.lake) is None:
            bound = {new.change.name: Bound(new.table.oid, new.giver, new.replaces) for new in self.arrivals}
            _Note(self.lsn, bound, None, dict(self.lake.names.by_key)).write(self.lake)
        self.lake.tables.bind({arrival.change.name: arrival.table.oid for arrival in self.arrivals})

    def sources(self, tables: Iterable[SourceTable]) -> list[SourceTable]:
        """Return the tables of the window as they land now, those that another one has taken the place of left out."""
        due = {arrival.table.oid: arrival for arrival in self.arrivals}
        befores = (arrival.change.before for arrival in self.arrivals)
        gone = {before.oid for before in befores if before is not None} - due.keys()
        sources = {table.last.oid: table for table in tables if not self._has_left(table, gone)}
        for oid, arrival in due.items():
            table = sources.get(oid) or _quiet(arrival.table, is_mirror=self.is_mirror)
            sources[oid] = replace(table, replaces=arrival.departure) if self._is_due(arrival) else table
        return list(sources.values())

    def not_chosen_again(self, changes: Iterable[ChoiceChange]) -> list[ChoiceChange]:
        """Return the changes of the choice of tables that are no tables of these."""
        own = {arrival.table.oid for arrival in self.arrivals}
        for arrival in self.arrivals if not self.is_mirror else ():
            if arrival.lacks_rows:
                warn(f'table "{arrival.change.name}": what it had under another name has not landed', lsn=self.lsn)
        return [
            change
            for change in changes
            if not (change.is_chosen and change.lsn == self.lsn and change.after.oid in own)
        ]

    def _has_left(self, table: SourceTable, gone: Container[int]) -> bool:
        return table.last.oid in gone and self.lake.names.name_of(table.last.oid) is None

    def _is_due(self, arrival: Arrival) -> bool:
        """Tell whether rows of another table are there still: nothing has been committed since."""
        landed = self._landed(arrival)
        return arrival.replaces and -1 < landed < arrival.change.lsn

    def _landed(self, arrival: Arrival) -> int:
        """Tell how far the table of a name has come."""
        table = self.lake.tables.of_name(arrival.change.name)
        return -1 if table is None else table.landed.commit_lsn

    def rows(
        self,
        landings: Sequence[Landing],
        run: Callable[[Sequence[RowsOfMirror]], list[Merged]],
        load: Callable[[Arrival, Landing], list[DataFile]],
    ) -> Bringing:
        """Stage the rows that tables bring, from where they have landed before; once, whenever the run is killed.

        Args:
            landings: the tables of the window; run: runs tasks.
            load: stages rows that a table had before, of a base backup.

        Returns:
            by the number of the table, files that come before those of the window's changes.

        Raises:
            LakeError: they cannot be read or written, or columns are others by the window's end.
        """
        if not self.is_mirror:
            return {
                landing.number: [replace_marker(landing)] for landing in landings if landing.source.replaces is not None
            }
        note = _Note.read(self.lake)
        assert note is not None
        by_oid = {landing.source.last.oid: landing for landing in landings}
        coming = [(arrival, by_oid[arrival.table.oid]) for arrival in self.arrivals if arrival.table.oid in by_oid]
        coming = [(arrival, landing) for arrival, landing in coming if self._landed(arrival) < self.lsn]
        if note.staged is None:
            with errors_at(self.lake.replaced):
                rmtree(self.lake.replaced, ignore_errors=True)
                self.lake.replaced.mkdir(parents=True)
            tasks = [task for arrival, landing in coming for task in self._tasks(arrival, landing)]
            staged: dict[str, list[DataFile]] = {}
            for merged in run(tasks) if tasks else ():
                for moved in merged.moved:
                    staged.setdefault(landings[moved.table].name, []).append(moved.file)
            staged |= {arrival.change.name: load(arrival, landing) for arrival, landing in coming if arrival.lacks_rows}
            note = replace(note, staged=staged)
            note.write(self.lake)
        assert note.staged is not None
        return {
            landing.number: [self._written(landing, file) for file in note.staged.get(arrival.change.name, ())]
            for arrival, landing in coming
        }

    def _written(self, landing: Landing, file: DataFile) -> Written:
        place = os.path.relpath(self.lake.replaced, landing.changes.staging)
        return Written(landing.number, replace(file, path=f"{place}/{file.path}"), self.lsn)

    def _tasks(self, arrival: Arrival, landing: Landing) -> Iterator[RowsOfMirror]:
        giver = None if arrival.giver is None else self.lake.tables.of_name(arrival.giver)
        if giver is None or giver.landed.schema is None:
            return
        handover = self._handover(arrival, landing, giver)
        has_history = landing.mirror is not None and landing.mirror.has_history
        for path, file in giver.concerned(Sought((), (), True, has_history)).items():
            if not (has_history and is_closed(file)):
                yield RowsOfMirror(giver.locate(path), file.size, handover, has_history, file.deleted)

    def _handover(self, arrival: Arrival, landing: Landing, giver: LakeTable) -> Handover:
        """Tell how rows of a mirror become those of another one of the same table of the source."""
        assert isinstance(landing.changes, StagedChanges)
        assert giver.landed.schema is not None
        columns = LakeSchema.of(giver.landed.schema).columns
        here = {column.number: column for column in columns}
        changes, names = landing.changes, []
        there = dict(zip([column.number for column in changes.table.columns], changes.names, strict=True))
        for number, name in there.items():
            column = here.get(number)
            if column is not None:
                if column.type != changes.schema.field(name).type:
                    raise changes_besides(str(arrival.giver), landing.name, self.lsn)
                names.append((column.name, name))
        held = {name for _, name in names}
        fills = {there[number]: fill for number, fill in changes.fills.items() if there[number] not in held}
        moving = Moving(arrival.table.oid, arrival.table.oid, (), self.lsn, arrival.change.time)
        schema, place = changes.schema, str(self.lake.replaced)
        relations = PARTITION.name if arrival.table.kind == "p" else ""
        return Handover(
            arrival=moving,
            table=landing.number,
            names=tuple(names),
            fills=fills,
            schema=schema,
            staging=place,
            relations=relations,
        )

    def is_over(self) -> None:
        """Forget the note: the window has landed in all tables, and where a run would go on is after it.

        Raises:
            LakeError: what is not needed any more cannot be removed.
        """
        with errors_at(self.lake.replaced):
            self.lake.forget_replacing()


def replace_marker(landing: Landing) -> Written:
    """Return a row of a table of changes: those after it are of another table of the source."""
    source, gone = landing.source, landing.source.replaces
    assert gone is not None
    columns: dict[str, pa.Array[Any]] = {
        "_change_type": pa.array([REPLACE]),
        "_commit_lsn": pa.array([gone.lsn]),
        "_lsn": pa.array([min(source.first, gone.lsn)]),
        "_seq": pa.array([-1]),
        "_commit_time": commit_times([gone]),
        "_schema": pa.array([source.last.namespace]),
        "_table": pa.array([source.last.name]),
        "_is_key": pa.array([False]),
        "_unchanged": pa.array([[]], NAMES),
        "_relation_oid": pa.array([source.last.oid]),
    }
    rows = framed(columns, 1, landing.schema)
    name = partial(file_name, gone.lsn)
    (file,) = write_laid_out(rows, landing.changes.layout, landing.table.staging, name, landing.schema)
    return Written(landing.number, file, gone.lsn)


Bringing = Mapping[int, Sequence[Written]]
"""By the number of a table in the window, files of rows that come before those of the window's changes."""


def replacing_at(
    naming: Naming, changes: Sequence[NameChange], lo: int, scope: Scope, ready: Callable[[], None]
) -> Replacing | None:
    """Bind the names that a window begins with; None if no table lands under another name in it.

    Args:
        naming: says which table lands under which name.
        changes: what the source does with names in the window.
        lo: LSN where it begins.
        scope: the scope of what is landed.
        ready: called before anything is noted; a run that is killed begins with the window from then on.

    Raises:
        CrowdedWindowError: the window is to be cut, as that is not its first commit, or there are more.
        LakeError: it is not wanted, or cannot be noted.
    """
    lake, note = naming.lake, _Note.read(naming.lake)
    begins = [change for change in changes if scope.end_before(change.lsn) <= lo]
    if note is not None and any(change.lsn == note.lsn for change in begins):
        due = note.arrivals(begins)
    else:
        arrivals = naming.arrivals(changes)
        if not arrivals:
            return None
        first = arrivals[0].change.lsn
        if scope.end_before(first) > lo:
            raise _too_much(arrivals[0])
        ready()
        if note is not None:  # of a window that has landed
            remove_file(lake.replacing)
        due = [arrival for arrival in arrivals if arrival.change.lsn == first]
    begun = Replacing(lake, naming.is_mirror, due)
    begun.bind()
    if naming.is_mirror:
        _require_changes(due)
    for later in naming.arrivals(change for change in changes if change.lsn > begun.lsn):
        raise _too_much(later)
    return begun


def require_names(naming: Naming, changes: Sequence[NameChange]) -> None:
    """See that no table lands under another name, where tables are kept in several modes.

    Raises:
        LakeError: one does.
    """
    for arrival in naming.arrivals(changes):
        raise LakeError(
            f'table "{arrival.change.name}" is another table from there on, or has got that name, and tables are kept '
            "in several modes here",
            lsn=arrival.change.lsn,
            hint="let mirrors stay with tables that are renamed (--follow-oid), or land tables of each mode to a place "
            "of their own",
        )


def warn_of_names_without_table(changes: Sequence[NameChange], lake: Lake, *, is_mirror: bool) -> None:
    """Warn of tables that have landed, and whose names mean no table any more by the window's end.

    Args:
        changes: what the source does with names in a window.
        lake: where tables land; is_mirror: rows are kept, not changes.
    """
    last = {change.name: change for change in changes}
    newer = {change.after.oid: change for change in changes if change.after is not None}
    for change in last.values():
        if change.after is not None or change.before is None or lake.names.holder(change.name) != change.before.oid:
            continue
        renamed = newer.get(change.before.oid)
        if renamed is None:
            warn(f'table "{change.name}" is dropped: its table in the lake stays as it is', lsn=change.lsn)
        elif renamed.is_chosen:
            where = "as before" if not is_mirror or lake.target.follows_oid else "under that name from there on"
            warn(f'table "{change.name}" is called "{renamed.name}" now, and lands {where}', lsn=change.lsn)


def take_back(lake: Lake, oid: int, lo: int) -> None:
    """Undo what a window has begun with that is to land without a table, if the table was to land under another name.

    Nothing of the table has been committed with the window: whenever it is resumed, it begins so again.

    Args:
        lake: where it lands; oid: of the table.
        lo: LSN where the window begins.

    Raises:
        LakeError: it cannot be written.
    """
    note = _Note.read(lake)
    if note is None or not note.before or note.lsn < lo or all(bound.oid != oid for bound in note.bound.values()):
        return
    lake.tables.bind_again(note.before)
    with errors_at(lake.replaced):
        lake.forget_replacing()


def _require_changes(arrivals: Iterable[Arrival]) -> None:
    """See that the window has the changes that the tables got before they were called so."""
    lacking = [arrival for arrival in arrivals if arrival.change.has_passed_over]
    if lacking:
        (first, *_) = lacking
        cause = LakeError(f'table "{first.change.name}" has changes under another name', lsn=first.change.lsn)
        raise CrowdedWindowError(cause, None, frozenset(arrival.table.oid for arrival in lacking))


def _too_much(arrival: Arrival) -> CrowdedWindowError:
    cause = LakeError(f'table "{arrival.change.name}" is another table from there on', lsn=arrival.change.lsn)
    return CrowdedWindowError(cause, arrival.change.lsn)


@dataclass(frozen=True)
class Bound:
    """A table that lands under a name from the window on.

    Attributes:
        oid: the table's; giver, replaces: see :class:`Arrival`.
    """

    oid: int
    giver: str | None
    replaces: bool


@dataclass(frozen=True)
class _Note:
    """The work that a run that is killed has to do again: ``_headwater/replacing.json``.

    Attributes:
        lsn: START of the commit's record; bound: tables, by their names.
        staged: by name, files that have a table's rows; None before they were staged.
        before: names by their keys, as they were bound until then.
    """

    lsn: int
    bound: Mapping[str, Bound]
    staged: Mapping[str, list[DataFile]] | None
    before: Mapping[str, str]

    @classmethod
    def read(cls, lake: Lake) -> _Note | None:
        """Read it; None for none."""
        with errors_at(lake.target.where):
            known = load_object(lake.replacing)
        if not known:
            return None
        bound = {name: Bound(**fields) for name, fields in known["bound"].items()}
        staged = known["staged"]
        files = (
            None if staged is None else {name: [DataFile(**fields) for fields in own] for name, own in staged.items()}
        )
        return cls(int(Lsn.parse(known["lsn"])), bound, files, known.get("before", {}))

    def write(self, lake: Lake) -> None:
        """Write it."""
        staged = self.staged
        files = None if staged is None else {name: [_shown(file) for file in own] for name, own in staged.items()}
        bound = {name: asdict(table) for name, table in self.bound.items()}
        with errors_at(lake.target.where):
            note = {"lsn": str(Lsn(self.lsn)), "bound": bound, "staged": files, "before": dict(self.before)}
            save_object(lake.replacing, note)

    def arrivals(self, changes: Iterable[NameChange]) -> list[Arrival]:
        """Return the tables, with what the source has done."""
        return [
            Arrival(change, change.after, bound.giver, bound.replaces)
            for change in changes
            if change.lsn == self.lsn
            and change.after is not None
            and (bound := self.bound.get(change.name)) is not None
        ]


def _shown(file: DataFile) -> dict[str, str | int]:
    return {"path": file.path, "rows": file.rows, "size": file.size}


def _quiet(table: RelationSchema, *, is_mirror: bool) -> SourceTable:
    """Return a table of which the window has no changes."""
    story = TableStory(identity_of((), table), frozenset({table.oid})) if is_mirror else None
    return SourceTable(table, (), story)
