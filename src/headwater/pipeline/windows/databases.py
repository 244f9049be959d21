"""Databases of a cluster that a pass over the WAL is for: those that the catalog has, and those that the WAL creates.

In: a request without a database, names. Out: a plan per database, and more of them as records create databases. A
database is known by its OID. It is asked for by the name that it has when the catalog was taken or when it is created.
A rename or a drop inside the window changes nothing of what is decoded of it.

Mirrors createdb (dbcommands.c): with either strategy the new database is a copy of its template as of the record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.rows import DatabaseRow
from headwater.catalog.store.bootstrap import list_databases, open_created_catalog
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.database_location import CreatedDatabase, created_database
from headwater.catalog.versions import NEVER
from headwater.errors import CatalogError, UsageError, WalError, errors_of, errors_of_output, warn
from headwater.option_names import option, ways
from headwater.pg.catalogs import PG_DATABASE
from headwater.pipeline.requests.named_catalog import is_server, state_in_file
from headwater.pipeline.requests.open_output import OpenOutput, scope_of
from headwater.pipeline.requests.open_request import (
    OpenRequest,
    following_definitions,
    open_request,
    open_requests,
    open_store,
)
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.scope import NO_COMMIT, Scope
from headwater.pipeline.windows.database_fold import DatabaseFold, pieces_of
from headwater.pipeline.windows.index_job import IndexTask, cut_runs
from headwater.pipeline.windows.run_index import Run
from headwater.plugins.rows.plugin import RowChanges, TableChoice
from headwater.plugins.table_patterns import EVERY_TABLE
from headwater.rmgr.index.wal_index import Request
from headwater.rmgr.registry import DBASE
from headwater.wal.records.record import parse_record
from headwater.wal.segments.directory import WalDirectory

LONG_SEARCH = 1 << 30
"""Bytes of WAL that are searched for a database without a word."""


@dataclass(frozen=True)
class DatabaseChoice:
    """The databases that are asked for.

    Attributes:
        names: their names; None for all that accept connections and are no templates, as ``vacuumdb --all`` has it.
    """

    names: tuple[str, ...] | None

    def chooses(self, row: DatabaseRow) -> bool:
        """Tell whether a database is asked for that is met with this row."""
        if self.names is None:
            return row.allows_connections and not row.is_template
        return row.name in self.names


@dataclass
class ChosenDatabases:
    """The databases of one pass.

    Attributes:
        requests: what is asked of each, for every output.
        choice: of them.
        plans: of those that are output, in the order in which they were met; more come while the pass goes on.
        guide: plans nothing, where the catalog has none of them: it shows what the WAL creates.
    """

    requests: Sequence[DecodeRequest]
    choice: DatabaseChoice
    plans: list[DatabaseFold] = field(default_factory=list)
    guide: DatabaseFold | None = None
    _there: tuple[DatabaseRow, ...] = ()
    _absent: tuple[DatabaseRow, ...] = ()
    _made: dict[int, CreatedDatabase] = field(default_factory=dict)

    @classmethod
    def open(cls, requests: Sequence[DecodeRequest], choice: DatabaseChoice) -> ChosenDatabases:
        """Open the databases that the catalog has.

        Args:
            requests: each database's request, for every output; they name no database.
            choice: of them.

        Raises:
            HeadwaterError: as :func:`headwater.pipeline.requests.open_request.open_requests`.
        """
        request = requests[0]
        check_whole_cluster(request)
        requests = [following_definitions(asked, "several databases are decoded without them") for asked in requests]
        rows = list_databases(request.catalog)
        absent = absent_databases(request.catalog, rows)
        chosen = cls(requests, choice, _there=tuple(rows), _absent=tuple(filter(choice.chooses, absent)))
        directory = None
        for row in rows:
            if choice.chooses(row) and row not in absent:
                with errors_of(row.name):
                    opened = open_requests(_of_database(requests, row.name), directory=directory)
                directory = opened[0].directory
                outputs = chosen._outputs(opened)
                chosen.plans.append(DatabaseFold(outputs, is_first=not chosen.plans, is_named=True))
        if not chosen.plans:
            guide = open_request(replace(request, database=rows[0].name), make_plugin=_no_rows)
            scope = Scope(guide.directory.segment_size, tables=EVERY_TABLE, commits=NO_COMMIT)
            chosen.guide = DatabaseFold([OpenOutput(guide, scope)])
        return chosen

    @property
    def _catalog(self) -> str:
        """The place where all of it comes from."""
        return self.requests[0].catalog

    @property
    def first(self) -> list[DatabaseFold]:
        """The plans that a pass begins with."""
        return list(self.plans) if self.guide is None else [self.guide]

    def new_plans(self, runs: Sequence[Run], planned: DatabaseFold) -> list[DatabaseFold]:
        """Return the plans of databases that are created in a window; see ``windows.NewPlans``."""
        made = dict(_created(runs, planned.store))
        for database, row in made.items():
            if self.choice.chooses(row) or database.oid in {plan.database for plan in self.plans}:
                before = {*self._made, *(row.oid for row in self._there if runs[0].task.lo > planned.lo)}
                check_oid(database, row, planned.store, before)
        self._made |= {database.oid: database for database in made}
        self._check_absent()
        self._check_complete(planned.store)
        plans = [
            self._plan(database, made[database], planned)
            for database in without_planned(made, self.plans)
            if self.choice.chooses(made[database])
        ]
        self.plans += plans
        return plans

    def check_found(self, last: CatalogStore) -> None:
        """Refuse names that no database has had, and patterns that have matched no table of any.

        Args:
            last: a catalog at the end of the pass.

        Raises:
            CatalogError: there is one.
        """
        for number, request in enumerate(self.requests):
            if request.tables.patterns:
                names = set().union(*(plan.table_names(number) for plan in self.plans))
                with errors_of_output(request.output):
                    request.tables.require_matches(names)
        there = {name for plan in self.plans for name in _names(plan)}
        for name in self.choice.names or ():
            if name not in there:
                raise CatalogError(
                    f'database "{name}" does not exist, and the WAL creates none of that name',
                    file=self._catalog,
                    hint=_renamed(name, last) or f"there are: {', '.join(_open_names(self._catalog))}",
                )

    def _check_complete(self, store: CatalogStore) -> None:
        """Refuse a database that was created across the moment that the catalog is of: neither has it whole."""
        known = {*self._made, *(row.oid for row in self._there)}
        for version in store.tables[PG_DATABASE].all_versions():
            lsn = store.fates.recorded(version.inserter)
            (row,) = store.rows.databases([version.data])
            if lsn not in (None, NEVER) and row.oid not in known and self.choice.chooses(row):
                raise CatalogError(
                    f'database "{row.name}" was being created when the catalog was taken',
                    lsn=lsn,
                    file=self._catalog,
                    hint="give an older or a newer base backup",
                )

    def _check_absent(self) -> None:
        """Refuse databases whose files neither the copy has nor the first window, which goes on to the copy's end."""
        for row in self._absent:
            if row.oid not in self._made:
                raise CatalogError(
                    f'database "{row.name}" has no files in the copy of the catalog, and the WAL does not create it',
                    file=self._catalog,
                    hint="it may have been dropped while the backup was taken: give an older or a newer one",
                )

    def _plan(self, database: CreatedDatabase, row: DatabaseRow, planned: DatabaseFold) -> DatabaseFold:
        line = self._line(database)
        open_again = partial(open_created_catalog, self._catalog, line, row)
        store = open_again()
        with errors_of(row.name):
            opened = open_store(_of_database(self.requests, row.name), store, planned.opened.directory)
        # A copy's files have the numbers of its template's: most likely those that other databases have.
        like = planned.store if line[0].source is None else store
        numbers = [file[2] for file in like.files.heaps if file[1] == like.files.whereabouts.database]
        root = () if line[0].source is None else (line[0].source,)
        return DatabaseFold(
            self._outputs(opened),
            sources=(*root, *(copied.oid for copied in line[:-1])),
            open_store=open_again,
            since={copied.oid: copied.lsn for copied in line},
            expected=frozenset(((copied.tablespace, copied.oid, n), copied.lsn) for copied in line for n in numbers),
            is_first=False,
            is_named=True,
        )

    def _outputs(self, opened: Sequence[OpenRequest]) -> list[OpenOutput]:
        """Return the outputs of a database: it need not have had all that is named, if all databases are asked for."""
        may_lack = self.choice.names is None
        return [OpenOutput(asked, replace(scope_of(asked), may_lack=may_lack)) for asked in opened]

    def _line(self, database: CreatedDatabase) -> tuple[CreatedDatabase, ...]:
        """Return the databases that were copied one of the other, up to this one.

        They begin with the first one that the catalog lacks.
        """
        line = [database]
        while (before := self._made.get(line[0].source or 0)) is not None:
            line.insert(0, before)
        return tuple(line)


def check_oid(database: CreatedDatabase, row: DatabaseRow, store: CatalogStore, before: Collection[int]) -> None:
    """Refuse a database with the OID of one that was there before: nothing else distinguishes the files of the two.

    Args:
        database: what a record made; row: what it was created with.
        store: a catalog at the end of its window.
        before: OIDs of databases of before that.

    Raises:
        CatalogError: there was one.
    """
    if database.lsn < store.origin.consistent_lsn:
        # An exported catalog is as of there, and nothing before it is decoded.
        return
    others = [v for v in store.tables[PG_DATABASE].find("oid", database.oid) if v.xmin != database.xid]
    # One that was altered after the record may be frozen by now; what the WAL says of its transaction holds.
    fates = [(store.fates.recorded(version.xmin), version.inserter) for version in others]
    began = [store.fates.commit_lsn(inserter) if lsn is None else lsn for lsn, inserter in fates]
    if database.oid in before or any(lsn < database.lsn for lsn in began):
        raise CatalogError(
            f'database "{row.name}" was created with OID {database.oid}, which another database had before',
            lsn=database.lsn,
            hint=f"end the window there with {option('end')}, and read what follows with a catalog from behind it",
        )


def absent_databases(catalog: str, rows: Iterable[DatabaseRow]) -> list[DatabaseRow]:
    """Return the databases whose files a copy lacks, as they were created or dropped while it was taken."""
    directory = DataDirectory(catalog)
    return [row for row in rows if not directory.has_database(row.oid, row.tablespace)]


def without_planned(made: Iterable[CreatedDatabase], plans: Sequence[DatabaseFold]) -> Iterator[CreatedDatabase]:
    """Give the databases that the catalog does not have.

    An online backup has one that was being created when it began. If the WAL has all its pages, it is as any other.

    Raises:
        CatalogError: it was copied file by file, and the backup's files of it may be parts.
    """
    planned = {plan.database: plan for plan in plans}
    for database in made:
        if database.oid not in planned:
            yield database
        elif database.source is not None:
            raise CatalogError(
                f'database "{planned[database.oid].opened.store.database_name}" was being copied when the backup began',
                lsn=database.lsn,
                file=planned[database.oid].opened.request.catalog,
                hint="give an older or a newer base backup",
            )


def warn_of_namesakes(runs: Sequence[Run], planned: DatabaseFold) -> list[DatabaseFold]:
    """Warn who asks for one database by its name of others that get this name; none of them is planned."""
    name = planned.opened.store.database_name
    made = dict(_created(runs, planned.store))
    for database, row in made.items():
        if database.oid == planned.database:
            is_later = planned.opened.state is not None or runs[0].task.lo > planned.lo
            check_oid(database, row, planned.store, {database.oid} if is_later else ())
    for database in without_planned(made, [planned]):
        if made[database].name == name:
            warn(
                f'another database "{name}" is created, and not decoded',
                lsn=database.lsn,
                hint=ways(f"with {option('all-databases')}, both are"),
            )
    return []


def may_be_created(request: DecodeRequest) -> bool:
    """Tell whether the catalog lacks a request's database, or its files, and the WAL creates any.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    rows = [row for row in list_databases(request.catalog) if row.name == request.database]
    if len(rows) > len(absent_databases(request.catalog, rows)):
        return False
    try:
        return _creates_any(request)
    except WalError:
        # Who reads it next says what is wrong with it, and after what is wrong with the name.
        return False


def _creates_any(request: DecodeRequest) -> bool:
    directory, lo = WalDirectory.scan(request.source), DataDirectory(request.catalog).start_lsn
    hi = min(directory.stop_lsn, request.end or directory.stop_lsn)
    if hi - lo > LONG_SEARCH:
        warn(f'database "{request.database}" is not in the catalog: {hi - lo >> 20} MB of WAL are searched for it')
    nothing = Request((), (), directory.major)
    for low, high in cut_runs(lo, hi, directory.segment_size, 1):
        runs = [Run(task := IndexTask(directory, low, high, nothing), task.run())]
        if any(_made_directories(runs, directory.major)):
            return True
        if runs[0].is_end:
            break
    return False


def check_whole_cluster(request: DecodeRequest) -> None:
    """Check that a request's catalog is that of a whole cluster.

    Raises:
        UsageError: it is one database's only.
    """
    if is_server(request.catalog) or state_in_file(request.catalog) is not None:
        raise UsageError(
            "an exported catalog is of one database only",
            file=request.catalog,
            hint="give a base backup or data directory to decode several databases",
        )


def label_of(store: CatalogStore, taken: Collection[str]) -> str:
    """Return a database's name beside others: its own, if that has not been taken.

    Args:
        store: its catalog.
        taken: labels of others.
    """
    name = store.database_name
    return name if name not in taken else f"{name}.{store.database_oid}"


def exists(plan: DatabaseFold, last: CatalogStore) -> bool:
    """Tell whether a database has come to be: its creation may have failed after the record that copies its files.

    Args:
        plan: of the database.
        last: a catalog at the end of the pass.
    """
    versions = last.tables[PG_DATABASE].find("oid", plan.database)
    return any(last.fates.commit_lsn(version.inserter) != NEVER for version in versions) or not plan.since


def _of_database(requests: Sequence[DecodeRequest], name: str) -> list[DecodeRequest]:
    return [replace(request, database=name) for request in requests]


def _no_rows(store: CatalogStore) -> RowChanges:
    return RowChanges(TableChoice(EVERY_TABLE), (), store.major)


def _created(runs: Sequence[Run], store: CatalogStore) -> Iterator[tuple[CreatedDatabase, DatabaseRow]]:
    """Give the databases that are created, and the row that each is created with.

    What becomes of a row later is not asked. Where a template has files in several tablespaces, there is a record for
    each; the catalogs lie in the default one.
    """
    for database in _made_directories(runs, store.major):
        for row in _rows(store, database.oid, database.xid):
            if row.tablespace == database.tablespace:
                yield database, row


def _made_directories(runs: Sequence[Run], major: int) -> Iterator[CreatedDatabase]:
    for piece in pieces_of(runs):
        for entry in piece.kept.of_manager(DBASE):
            database = created_database(parse_record(entry.data, entry.lsn, entry.end_lsn, major), major)
            if database is not None:
                yield database


def _rows(store: CatalogStore, oid: int, xid: int | None = None) -> list[DatabaseRow]:
    """Return the versions of a database's row, but for those of aborted transactions; of one transaction, or of all."""
    versions = [v for v in store.tables[PG_DATABASE].find("oid", oid) if xid is None or v.xmin == xid]
    fates = store.fates
    alive = [v for v in versions if not fates.is_settled(v.inserter) or fates.commit_lsn(v.inserter) != NEVER]
    return store.rows.databases(version.data for version in alive)


def _names(plan: DatabaseFold) -> set[str]:
    return {plan.opened.store.database_name, *(row.name for row in _rows(plan.store, plan.database))}


def _renamed(name: str, store: CatalogStore) -> str | None:
    """Suggest a name to ask for instead of one that another database was given later."""
    versions = store.tables[PG_DATABASE].all_versions()
    rows = list(store.rows.databases(version.data for version in versions))
    oid = next((row.oid for row in rows if row.name == name), None)
    before = next((row.name for row in rows if row.oid == oid and row.name != name), None)
    return None if before is None else f'it is what the database "{before}" was renamed to: ask for "{before}"'


def _open_names(catalog: str) -> list[str]:
    return sorted(row.name for row in list_databases(catalog) if row.allows_connections)
