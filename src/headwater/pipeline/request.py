"""What a user asks to be decoded, checked and opened before any Spark job runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.catalog.bootstrap import open_catalog
from headwater.catalog.search_path import SearchPath
from headwater.catalog.server_settings import ServerSetting, session_settings_of
from headwater.catalog.store import CatalogStore
from headwater.errors import (
    AwaitedCatalogError,
    AwaitedSegmentError,
    CatalogError,
    SegmentError,
    UsageError,
    errors_of_output,
    warn,
)
from headwater.pg.lsn import Lsn
from headwater.pipeline.named_catalog import is_server, state_in_file
from headwater.plugins.api import PluginContext, SlicePlugin
from headwater.plugins.loading import definitions_asked_for, load_plugin
from headwater.plugins.own_publications import OwnPublication, OwnPublications
from headwater.plugins.table_patterns import EVERY_TABLE, TablePatterns
from headwater.reorder.state import State
from headwater.rmgr.xlog import WAL_LEVEL_LOGICAL, WAL_LEVEL_REPLICA
from headwater.rows.session import SessionSettings, datestyle_over
from headwater.slots.kept_state import KeptState
from headwater.wal.addresses import wal_source
from headwater.wal.directory import WalDirectory
from headwater.wal.frames import read_frames
from headwater.wal.local_path import local_path
from headwater.wal.place import WalSource

MakePlugin = Callable[[CatalogStore], SlicePlugin]
"""Makes what takes a plugin's place."""

SKIP_GAP = "skip"
ON_LEVEL_GAP = ("error", SKIP_GAP)
"""What becomes of WAL that was written while wal_level was too low, once decoding has begun."""

OF_THE_RUN = (
    *("wal", "catalog", "database", "start", "end", "user", "on_level_gap", "from_replica_level"),
    *("slot", "makes_slot"),
)
"""What requests have in common that are outputs of one run; the rest is each one's own."""


@dataclass(frozen=True)
class DecodeRequest:
    """A window of WAL, and what to make of it: one output. Several outputs of one run are requests of one window.

    Attributes:
        wal: where the WAL segments are; an address is taken for the only place.
        catalog: data directory or base backup, a path or a ``file:`` URL; or what else
            :mod:`headwater.pipeline.named_catalog` knows.
        database: name of the database, None for the only one that is no template.
        plugin: name of the output plugin.
        options: its options, (name, value).
        start: transactions whose commit record starts before this LSN are left out.
        end: stop as the server does with ``upto_lsn``.
        settings: session settings that values are printed under, (name, value); TimeZone, DateStyle, ... They override
            those of the catalog's configuration files. ``$user`` in search_path is the user.
        unknown_types: what becomes of values whose type has no text form here: error, hex or null; see
            :class:`~headwater.rows.session.SessionSettings`.
        tables: patterns of ``schema.table``, of which others' changes are left out; none for all.
        user: the role whose settings (ALTER ROLE ... SET) sessions would have; None for one that has none.
        on_level_gap: one of :data:`ON_LEVEL_GAP`.
        from_replica_level: WAL of wal_level replica is decoded, too, and each row marked as complete or partial.
        two_phase: prepared transactions are decoded at PREPARE, by a plugin that can do it.
        with_ddl: DDL is told as events.
        with_definitions: the definitions of objects are followed, too, which DDL is told by; None: if DDL is asked
            for, or the plugin asks for them and they can be had.
        slot: name of the slot that is decoded for, empty without one; makes_slot: it is being made.
        publish: the user's own publications, in the words of CREATE PUBLICATION ... FOR TABLE; none for everything.
        output: what the output is called beside others of the run; None if it is the only one.

    Raises:
        UsageError: wal or catalog is an address that is not supported, settings have no list of schemas, or DDL is
            asked for with two-phase decoding.
    """

    wal: WalSource | str
    catalog: str
    database: str | None = None
    plugin: str = "test_decoding"
    options: tuple[tuple[str, str | None], ...] = ()
    start: int | None = None
    end: int | None = None
    settings: tuple[tuple[str, str], ...] = ()
    unknown_types: str = "error"
    tables: TablePatterns = EVERY_TABLE
    user: str | None = None
    on_level_gap: str = "error"
    from_replica_level: bool = False
    two_phase: bool = False
    with_ddl: bool = False
    with_definitions: bool | None = None
    slot: str = ""
    makes_slot: bool = False
    publish: tuple[str, ...] = ()
    output: str | None = None

    def __post_init__(self) -> None:
        if self.with_ddl and self.two_phase:
            raise UsageError("DDL is told at commits, and cannot be had with two-phase decoding")
        if isinstance(self.wal, str):
            object.__setattr__(self, "wal", wal_source(self.wal))
        if not is_server(self.catalog):
            object.__setattr__(self, "catalog", local_path(self.catalog))
        if self.user is not None:
            object.__setattr__(self, "settings", tuple(_of_user(self.user, *pair) for pair in self.settings))

    @property
    def needed_level(self) -> int:
        """The lowest wal_level that is decoded."""
        return WAL_LEVEL_REPLICA if self.from_replica_level else WAL_LEVEL_LOGICAL

    @property
    def numbers_commands(self) -> bool:
        """All WAL that is decoded numbers commands; see :class:`headwater.rmgr.index.Request`."""
        return self.needed_level >= WAL_LEVEL_LOGICAL

    @property
    def asked(self) -> str:
        """What the output is: its plugin, and what decides which changes it is given, in the command line's words."""
        words = [
            self.plugin,
            *(f"-o {name}" if value is None else f"-o {name}={value}" for name, value in self.options),
        ]
        words += ["--tables " + ",".join(self.tables.patterns)] if self.tables.patterns else []
        words += [f"--publish '{table}'" for table in self.publish]
        return " ".join([*words, *(["--two-phase"] if self.two_phase else []), *(["--ddl"] if self.with_ddl else [])])

    @property
    def source(self) -> WalSource:
        """Where the WAL segments are."""
        assert isinstance(self.wal, WalSource)
        return self.wal


@dataclass(frozen=True)
class OpenRequest:
    """A request whose files have been opened and found to fit.

    Attributes:
        request: what was asked.
        directory: the WAL; outputs of one run share it.
        store: the catalog at its own LSN; rolled forward once at most. Outputs of one run share it, too.
        plugin: the plugin, its options checked.
        session: the settings.
        server_settings: those of them that the server's configuration gave, (name, value).
        state: where decoding goes on; None for the catalog's own LSN. It has the outputs of the run, in their order.
    """

    request: DecodeRequest
    directory: WalDirectory
    store: CatalogStore
    plugin: SlicePlugin
    session: SessionSettings
    server_settings: tuple[tuple[str, str], ...] = ()
    state: State | None = None

    @property
    def search_path(self) -> SearchPath:
        """By which the session names types and objects."""
        return SearchPath.parse(self.session.search_path)

    @property
    def is_text(self) -> bool:
        """The plugin's messages can go to a column of strings."""
        return self.plugin.is_text and self.session.is_utf8


def open_request(
    request: DecodeRequest,
    make_plugin: MakePlugin | None = None,
    kept: KeptState | None = None,
    directory: WalDirectory | None = None,
) -> OpenRequest:
    """Open the request of an only output; see :func:`open_requests`."""
    (opened,) = open_requests([request], make_plugin, kept, directory)
    return opened


def open_requests(
    requests: Sequence[DecodeRequest],
    make_plugin: MakePlugin | None = None,
    kept: KeptState | None = None,
    directory: WalDirectory | None = None,
) -> list[OpenRequest]:
    """Open the files of the requests of a run, once for all, and check that they belong together.

    Args:
        requests: of each output, one at least.
        make_plugin: makes what takes the plugin's place, None to load the plugin the request names.
        kept: a state to go on from, which takes the catalog's place; None to begin at the catalog.
        directory: the WAL as it was just found; None to look.

    Raises:
        PluginError: unknown plugin, or an option it refuses.
        CatalogError: not a data directory, an unknown database, or a catalog from after the WAL.
        SegmentError: segments are missing, damaged or of another server.
        UsageError: requests are not of one window, or have one name.
    """
    check_one_run(requests)
    request = requests[0]
    if make_plugin is None:
        for one in requests:
            with errors_of_output(one.output):
                load_plugin(one.plugin)
    if kept is None:
        kept = state_in_file(request.catalog)
        if kept is not None:
            check_no_user(request)
            check_begins(kept.state, request, request.catalog)
    store = None if kept is None else CatalogStore.of_image(kept.state.catalog)
    missing = "" if store is None or store.has_definitions else "the state, or exported catalog, has none"
    requests = [following_definitions(one, missing, make_plugin is None) for one in requests]
    if kept is None or store is None:
        with_definitions = any(one.with_definitions for one in requests)
        store = open_catalog(request.catalog, request.database, with_definitions=with_definitions)
        return open_store(requests, store, directory, make_plugin)
    for one in requests:
        check_definitions(store, one)
    sessions = [_session_and_plugin(one, store, kept.server_settings, make_plugin) for one in requests]
    check_order(request)
    if kept.state.control.needed != request.needed_level:
        words = ("with", "without") if request.from_replica_level else ("without", "with")
        raise UsageError(
            f"asked for {words[0]} --from-replica-level, the state is of a session {words[1]} it",
            hint="begin at a catalog, or with another state",
        )
    directory = directory or WalDirectory.scan(request.source)
    check_server(directory, store, request)
    check_goes_on(directory, kept.state, request)
    state = kept.state.going_on([one.asked for one in requests])
    return [
        OpenRequest(one, directory, store, plugin, session, kept.server_settings, state)
        for one, (session, plugin) in zip(requests, sessions, strict=True)
    ]


def check_one_run(requests: Sequence[DecodeRequest]) -> None:
    """Whether requests can be outputs of one run.

    Raises:
        UsageError: they cannot: they are not of one window, or not told apart by their names.
    """
    first = requests[0]
    for one in requests[1:]:
        for name in OF_THE_RUN:
            if getattr(one, name) != getattr(first, name):
                raise UsageError(f"outputs of one run have one {name}, found another for {one.output!r}")
    names = [one.output for one in requests]
    if len(names) > 1 and (None in names or len(set(names)) < len(names)):
        raise UsageError(f"outputs of one run have names of their own, found {names}")


def open_store(
    requests: Sequence[DecodeRequest],
    store: CatalogStore,
    directory: WalDirectory | None = None,
    make_plugin: MakePlugin | None = None,
) -> list[OpenRequest]:
    """Open the requests of a run whose catalog was read, and check that its files belong together.

    Args:
        requests: of each output.
        store: the catalog, not rolled forward.
        directory, make_plugin: as those of :func:`open_requests`.

    Raises:
        HeadwaterError: as :func:`open_requests`.
    """
    request = requests[0]
    found = session_settings_of(request.catalog, store.database_oid, request.user)
    sessions = []
    for one in requests:
        server = server_settings(one, found, store.major)
        sessions.append((server, *_session_and_plugin(one, store, server, make_plugin)))
    check_order(request)
    directory = directory or WalDirectory.scan(request.source)
    check_server(directory, store, request)
    check_bounds(store, request)
    check_fit(directory, store, request)
    return [
        OpenRequest(one, directory, store, plugin, session, server)
        for one, (server, session, plugin) in zip(requests, sessions, strict=True)
    ]


def settings_together(outputs: Iterable[OpenRequest]) -> tuple[tuple[str, str], ...]:
    """What the server's configuration gave to any of the outputs of a run, which have one user."""
    return tuple(sorted({name: value for one in outputs for name, value in one.server_settings}.items()))


def _session_and_plugin(
    request: DecodeRequest,
    store: CatalogStore,
    server: tuple[tuple[str, str], ...],
    make_plugin: MakePlugin | None,
) -> tuple[SessionSettings, SlicePlugin]:
    with errors_of_output(request.output):
        return _of_output(request, store, server, make_plugin)


def _of_output(
    request: DecodeRequest,
    store: CatalogStore,
    server: tuple[tuple[str, str], ...],
    make_plugin: MakePlugin | None,
) -> tuple[SessionSettings, SlicePlugin]:
    session = session_settings(request, server, store.major, store.encoding)
    store.name_by(SearchPath.parse(session.search_path))
    if make_plugin is not None:
        made = make_plugin(store)
        made.chosen = _own_publications(request, store)
        return session, made
    context = PluginContext(
        major=store.major,
        session=session,
        marks_rows=request.from_replica_level,
        two_phase=request.two_phase,
        with_ddl=request.with_ddl,
        with_definitions=store.has_definitions and bool(request.with_definitions),
        slot=request.slot,
        is_init=request.makes_slot,
        database=store.database_name,
    )
    plugin = load_plugin(request.plugin)(request.options, context)
    plugin.chosen = _own_publications(request, store)
    if request.with_ddl and not plugin.wants_ddl:
        raise UsageError(f"{request.plugin} does not tell DDL", hint="headwater ddl prints it")
    if request.two_phase and not plugin.two_phase:
        warn(
            f"{request.plugin} of PostgreSQL {store.major} does not decode prepared transactions at PREPARE",
            hint="they are decoded at COMMIT PREPARED, as without --two-phase",
        )
    return session, plugin


def _own_publications(request: DecodeRequest, store: CatalogStore) -> OwnPublications | None:
    """The user's own, if there are any.

    Raises:
        UsageError: one of them is none.
    """
    if not request.publish:
        return None
    tables = tuple(map(OwnPublication.parse, request.publish))
    return OwnPublications(tables, store.major, store.encoding)


def server_settings(
    request: DecodeRequest, found: Mapping[str, ServerSetting], major: int
) -> tuple[tuple[str, str], ...]:
    """What the server's own sessions would print values under, as far as the request does not override it.

    Args:
        request: it.
        found: what the server's sessions begin with.
        major: PostgreSQL's major version.

    Raises:
        CatalogError: a value is not supported here.
    """
    asked = {name.strip().lower() for name, _ in request.settings}
    settings = []
    for name, setting in found.items():
        if name in asked:
            continue
        try:
            SessionSettings.from_settings({name: setting.value}, major)
        except UsageError as error:
            raise CatalogError(
                f"{error.message}, set in {setting.origin}",
                file=setting.file,
                hint=f"override it with --set {name}=VALUE (in the data source, the option set.{name})"
                + (f"; {error.hint}" if error.hint else ""),
            ) from None
        value = datestyle_over(setting.value, setting.over) if name == "datestyle" else setting.value
        settings.append((name, value))
    return tuple(sorted(settings))


def session_settings(
    request: DecodeRequest, server: Iterable[tuple[str, str]], major: int, encoding: str = "UTF8"
) -> SessionSettings:
    """The server's settings, overridden by the request's.

    Raises:
        UsageError: the request has a value that is not supported here.
    """
    asked = {name.strip().lower(): value for name, value in request.settings}
    session = SessionSettings.from_settings({**dict(server), **asked}, major, encoding)
    return replace(session, unknown_types=request.unknown_types)


def _of_user(user: str, name: str, value: str) -> tuple[str, str]:
    """A setting, with ``$user`` of a search path by its name."""
    is_path = name.strip().lower() == "search_path"
    return name, str(SearchPath.parse(value).of_role(user)) if is_path else value


def check_order(request: DecodeRequest) -> None:
    """Whether a request's start lies before its end.

    Raises:
        UsageError: it does not.
    """
    start, end = request.start, request.end
    if start is not None and end is not None and start > end:
        raise UsageError(f"the start {Lsn(start)} lies behind the end {Lsn(end)}", hint="swap them")


def check_bounds(store: CatalogStore, request: DecodeRequest) -> None:
    """Whether a request's start and end can be meant.

    Raises:
        UsageError: one of them lies before the catalog.
    """
    for name, lsn in (("start", request.start), ("end", request.end)):
        if lsn is not None and lsn < store.start_lsn:
            raise UsageError(
                f"the {name} {Lsn(lsn)} lies before the backup, expected {Lsn(store.start_lsn)} or later",
                file=request.catalog,
                hint="give an older backup, or a later LSN",
            )


def check_no_user(request: DecodeRequest) -> None:
    """Whether a request asks for a role's settings where those of the state hold.

    Raises:
        UsageError: it does.
    """
    if request.user is not None:
        raise UsageError(
            "a role's settings cannot be had with a state: it has those of its sessions",
            hint="give settings with --set NAME=VALUE (in the data source, the options set.NAME)",
        )


def following_definitions(request: DecodeRequest, missing: str, asks_plugin: bool = True) -> DecodeRequest:
    """A request that says whether the definitions of objects are followed; warns of what they are missed for.

    Args:
        request: it; as it is, if it says so already.
        missing: why they cannot be had; empty if they can be.
        asks_plugin: its plugin may ask for them, of itself.

    Raises:
        PluginError: there is no such plugin, or an option is wrong.
    """
    if request.with_definitions is not None:
        return request
    with errors_of_output(request.output):
        asked = definitions_asked_for(request.plugin, request.options) if asks_plugin else ""
    if asked and missing and not request.with_ddl:
        warn(f"{request.plugin} does not tell {asked}, which takes the definitions of objects: {missing}")
    return replace(request, with_definitions=request.with_ddl or (asked != "" and missing == ""))


def check_definitions(store: CatalogStore, request: DecodeRequest) -> None:
    """Whether DDL can be told, if it is asked for, with a state, which has the catalogs that its session asked for.

    Raises:
        UsageError: it cannot.
    """
    if request.with_ddl and not store.has_definitions:
        raise UsageError(
            "DDL is asked for, and the state, or exported catalog, does not have the definitions of objects",
            hint="begin at a base backup, or with a state that such a session has kept",
        )


def check_database(state: State, request: DecodeRequest, file: str) -> None:
    """Whether a state is of the database that a request names.

    Args:
        state: it; file: where it is, for the error.
        request: the request.

    Raises:
        UsageError: it is of another.
    """
    name = state.catalog.origin.database_name
    if request.database not in (None, name):
        raise UsageError(f'the state is of database "{name}", not of "{request.database}"', file=file)


def check_begins(state: State, request: DecodeRequest, file: str) -> None:
    """Whether a request can begin with a state.

    Args:
        state: it.
        request: the request.
        file: the state's, for the error.

    Raises:
        UsageError: the state is of another database, or the request's start or end lies before it.
    """
    check_database(state, request, file)
    first = max(state.lsn, state.catalog.origin.consistent_lsn)
    for word, lsn in (("start", request.start), ("end", request.end)):
        if lsn is not None and lsn < first:
            raise UsageError(
                f"the {word} {Lsn(lsn)} lies before the state, expected {Lsn(first)} or later",
                file=file,
                hint="give an older state, or a later LSN",
            )


def check_server(directory: WalDirectory, store: CatalogStore, request: DecodeRequest) -> None:
    """Whether WAL and catalog are of one server.

    Raises:
        SegmentError: another version or system identifier.
    """
    if directory.major != store.major:
        raise SegmentError(
            f"the WAL is of PostgreSQL {directory.major}, the catalog of {store.major}", file=request.source.address
        )
    if directory.system_identifier != store.system_identifier:
        raise SegmentError(
            f"the WAL is of system {directory.system_identifier}, expected {store.system_identifier}",
            file=request.source.address,
            hint=f"give the WAL of the server that {request.catalog or 'the state'} was taken from",
        )


def check_goes_on(directory: WalDirectory, state: State, request: DecodeRequest) -> None:
    """Whether the WAL goes on where a state was left, and has all that the state still needs.

    Raises:
        SegmentError: it has a gap, begins too late, or ends too early.
        CatalogError: it is of a timeline that has left the state's before.
    """
    lineage = dict(directory.lineage)
    switch = lineage.get(state.timeline, 0)
    if state.timeline not in lineage or (switch is not None and state.lsn > switch):
        raise CatalogError(
            f"the state is of timeline {state.timeline} at {Lsn(state.lsn)}, which is not in the history of the WAL's "
            f"timeline {directory.lineage[-1][0]}",
            file=request.source.address,
            hint="give the WAL of the server that the slot followed, with its .history files",
        )
    last = directory.segments[-1].start_lsn + directory.segment_size
    if state.lsn > last:
        raise AwaitedSegmentError(
            f"the WAL ends before {Lsn(last)}, expected it up to {Lsn(state.lsn)}", file=request.source.address
        )
    if state.restart_lsn < last:
        end = None if request.end is None else max(request.end, state.lsn)
        directory.covering(state.restart_lsn, end)


def check_fit(directory: WalDirectory, store: CatalogStore, request: DecodeRequest) -> None:
    """Whether the WAL covers the catalog's LSN.

    Raises:
        SegmentError: the WAL begins later than the catalog, or has a gap.
        RecordError, PageError: the record at the catalog's LSN is damaged.
        CatalogError: the catalog is newer than the WAL, or of a timeline that the WAL's history has left.
    """
    _check_timeline(directory, store, request)
    last = directory.segments[-1].start_lsn + directory.segment_size
    if store.start_lsn >= last:
        raise AwaitedCatalogError(
            f"the catalog is of {Lsn(store.start_lsn)}, newer than the WAL, which ends before {Lsn(last)}",
            file=request.catalog,
            hint="give a base backup from before the WAL, or later WAL",
        )
    directory.covering(store.start_lsn, None if request.end is None else max(request.end, store.start_lsn + 1))
    first = read_frames(directory, store.start_lsn, store.start_lsn + 1)
    if len(first.lsns) == 0:
        reason = f": {first.end.reason}" if first.end is not None else ""
        raise AwaitedCatalogError(
            f"the catalog is newer than the WAL, which has no record at the catalog's position{reason}",
            lsn=store.start_lsn,
            file=request.catalog,
            hint="give a base backup from before the WAL, or later WAL",
        )


def _check_timeline(directory: WalDirectory, store: CatalogStore, request: DecodeRequest) -> None:
    """Whether all that the catalog holds is part of the WAL's history.

    Raises:
        CatalogError: it is not.
    """
    lineage = dict(directory.lineage)
    newest = directory.lineage[-1][0]
    origin = store.origin
    for timeline, lsn in ((origin.timeline, origin.start_lsn + 1), (origin.reach_timeline, store.reach_lsn)):
        if timeline not in lineage:
            raise CatalogError(
                f"the catalog is of timeline {timeline}, which is not in the history of the WAL's timeline {newest}",
                file=request.catalog,
                hint=f"give WAL of timeline {timeline}, or the file {newest:08X}.history if it is missing",
            )
        switch = lineage[timeline]
        if switch is not None and lsn > switch:
            raise CatalogError(
                f"the catalog is of timeline {timeline} from behind {Lsn(switch)}, where the WAL's history left it",
                file=request.catalog,
                hint=f"give a base backup from before that, or of timeline {newest}; or leave the WAL of newer "
                "timelines away",
            )
