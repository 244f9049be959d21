"""A request opened, before any Spark job runs: files that fit each other, a plugin, settings of a session."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.catalog.copy.server_settings import ServerSetting, session_settings_of
from headwater.catalog.search_path import SearchPath
from headwater.catalog.store.bootstrap import open_catalog
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.image_io import store_of
from headwater.errors import CatalogError, UsageError, errors_of_output, warn
from headwater.option_names import option, ways
from headwater.pg.version import VERSIONS
from headwater.pipeline.requests.named_catalog import state_in_file
from headwater.pipeline.requests.plugin_loading import definitions_asked_for, load_plugin
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.request_checks import (
    check_begins,
    check_bounds,
    check_definitions,
    check_fit,
    check_goes_on,
    check_level,
    check_no_user,
    check_one_run,
    check_order,
    check_server,
)
from headwater.plugins.api import PluginContext, SlicePlugin
from headwater.plugins.own_publications import OwnPublication, OwnPublications
from headwater.reorder.commits.state import State
from headwater.rows.session import SERVER_VERSION, SessionSettings, datestyle_over
from headwater.slots.kept_state import KeptState
from headwater.wal.segments.directory import WalDirectory

MakePlugin = Callable[[CatalogStore], SlicePlugin]
"""Makes what takes a plugin's place."""


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
        """The schemas by which the session names types and objects."""
        return SearchPath.parse(self.session.search_path)

    @property
    def is_text(self) -> bool:
        """The plugin's messages can go to a column of strings."""
        return self.plugin.traits.is_text and self.session.is_utf8

    def of_rows(self) -> OpenRequest:
        """Return the same for rows instead of messages: their text is UTF8.

        Raises:
            UsageError: see :meth:`SessionSettings.of_rows`.
        """
        return replace(self, session=self.session.of_rows())


def open_request(
    request: DecodeRequest,
    make_plugin: MakePlugin | None = None,
    kept_state: KeptState | None = None,
    directory: WalDirectory | None = None,
) -> OpenRequest:
    """Open the request of an only output; see :func:`open_requests`."""
    (opened,) = open_requests([request], make_plugin, kept_state, directory)
    return opened


def open_requests(
    requests: Sequence[DecodeRequest],
    make_plugin: MakePlugin | None = None,
    kept_state: KeptState | None = None,
    directory: WalDirectory | None = None,
) -> list[OpenRequest]:
    """Open the files of the requests of a run, once for all, and check that they belong together.

    Args:
        requests: of each output, one at least.
        make_plugin: makes the object that takes the plugin's place, None to load the plugin the request names.
        kept_state: a state to go on from, which takes the catalog's place; None to begin at the catalog.
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
        for output in requests:
            with errors_of_output(output.output):
                load_plugin(output.plugin)
    if kept_state is None:
        kept_state = state_in_file(request.catalog)
        if kept_state is not None:
            check_no_user(request)
            check_begins(kept_state.state, request, request.catalog)
    if kept_state is not None:
        return _open_state(requests, kept_state, directory, make_plugin)
    requests = [following_definitions(asked, "", make_plugin is None) for asked in requests]
    with_definitions = any(asked.with_definitions for asked in requests)
    store = open_catalog(request.catalog, request.database, with_definitions=with_definitions)
    return open_store(requests, store, directory, make_plugin)


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
    of_sessions = session_settings_of(request.catalog, store.database_oid, request.user)
    sessions = []
    for asked in requests:
        server = server_settings(asked, of_sessions, store.major)
        sessions.append((server, *_session_and_plugin(asked, store, server, make_plugin)))
    check_order(request)
    directory = directory or WalDirectory.scan(request.source)
    check_server(directory, store, request)
    check_bounds(store, request)
    check_fit(directory, store, request)
    return [
        OpenRequest(asked, directory, store, plugin, session, server)
        for asked, (server, session, plugin) in zip(requests, sessions, strict=True)
    ]


def _open_state(
    requests: Sequence[DecodeRequest],
    kept_state: KeptState,
    directory: WalDirectory | None,
    make_plugin: MakePlugin | None,
) -> list[OpenRequest]:
    """Open the requests of a run that goes on from a state.

    Raises:
        HeadwaterError: as :func:`open_requests`.
    """
    store = store_of(kept_state.state.catalog)
    missing = "" if store.has_definitions else "the state, or exported catalog, has none"
    requests = [following_definitions(asked, missing, make_plugin is None) for asked in requests]
    for asked in requests:
        check_definitions(store, asked)
    request = requests[0]
    server = _of_version(kept_state.server_settings, request.server_version)
    sessions = [_session_and_plugin(asked, store, server, make_plugin) for asked in requests]
    check_order(request)
    check_level(kept_state.state, request)
    directory = directory or WalDirectory.scan(request.source)
    check_server(directory, store, request)
    check_goes_on(directory, kept_state.state, request)
    state = kept_state.state.going_on([asked.asked for asked in requests])
    return [
        OpenRequest(asked, directory, store, plugin, session, server, state)
        for asked, (session, plugin) in zip(requests, sessions, strict=True)
    ]


def settings_together(outputs: Iterable[OpenRequest]) -> tuple[tuple[str, str], ...]:
    """Join the settings that the server's configuration gave to the outputs of a run, which have one user."""
    return tuple(sorted({name: value for output in outputs for name, value in output.server_settings}.items()))


def _of_version(settings: tuple[tuple[str, str], ...], named: str | None) -> tuple[tuple[str, str], ...]:
    """Return the server's settings, with the release that was named, which is kept with them."""
    return settings if named is None else tuple(sorted({**dict(settings), SERVER_VERSION: named}.items()))


def _session_and_plugin(
    request: DecodeRequest,
    store: CatalogStore,
    server: tuple[tuple[str, str], ...],
    make_plugin: MakePlugin | None,
) -> tuple[SessionSettings, SlicePlugin]:
    with errors_of_output(request.output):
        session, plugin = _of_output(request, store, server, make_plugin)
    # Where each change is streamed at once, nothing depends on what it weighs.
    _warn_of_version(session, plugin.traits.stream_limit > 1 or (plugin.traits.stream_limit > 0 and request.two_phase))
    return session, plugin


def _warn_of_version(session: SessionSettings, depends: bool) -> None:
    """Tell of a release that is not known, and that none was named where transactions in progress depend on it."""
    version = session.version
    if version.is_newer_than_known:
        warn(
            f"PostgreSQL {version} is newer than {VERSIONS[version.major]}, the newest release of its major that is "
            "known here, and is decoded like that one"
        )
    elif not session.server_version and depends and version.streams_by_minor:
        warn(
            "where blocks of transactions in progress end depends on the minor release of the server, which nothing "
            f"tells: they are those of PostgreSQL {version}",
            hint=f"say which it is, as SHOW server_version prints it: {option('server-version', version)}",
        )


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
    if request.with_ddl and not plugin.traits.wants_ddl:
        raise UsageError(f"{request.plugin} does not tell DDL", hint="headwater ddl prints it")
    if request.two_phase and not plugin.traits.two_phase:
        warn(
            f"{request.plugin} of PostgreSQL {store.major} does not decode prepared transactions at PREPARE",
            hint=f"they are decoded at COMMIT PREPARED, as without {option('two-phase')}",
        )
    return session, plugin


def _own_publications(request: DecodeRequest, store: CatalogStore) -> OwnPublications | None:
    """Return the user's own publications, if there are any.

    Raises:
        UsageError: one of them is none.
    """
    if not request.publish:
        return None
    tables = tuple(map(OwnPublication.parse, request.publish))
    return OwnPublications(tables, store.major, store.encoding)


def server_settings(
    request: DecodeRequest, of_sessions: Mapping[str, ServerSetting], major: int
) -> tuple[tuple[str, str], ...]:
    """Return the settings that the server's own sessions print values under, unless the request overrides them.

    Args:
        request: says which ones it overrides.
        of_sessions: what the server's sessions begin with.
        major: PostgreSQL's major version.

    Raises:
        CatalogError: a value is not supported here.
    """
    asked = {name.strip().lower() for name, _ in request.settings}
    settings = []
    for name, setting in of_sessions.items():
        if name in asked:
            continue
        try:
            SessionSettings.from_settings({name: setting.value}, major)
        except UsageError as error:
            raise CatalogError(
                f"{error.message}, set in {setting.origin}",
                file=setting.file,
                hint=ways(
                    f"override it with {option('set', f'{name}=VALUE')}" + (f"; {error.hint}" if error.hint else "")
                ),
            ) from None
        value = datestyle_over(setting.value, setting.over) if name == "datestyle" else setting.value
        settings.append((name, value))
    return _of_version(tuple(sorted(settings)), request.server_version)


def session_settings(
    request: DecodeRequest, server: Iterable[tuple[str, str]], major: int, encoding: str = "UTF8"
) -> SessionSettings:
    """Return the server's settings, overridden by the request's.

    Raises:
        UsageError: the request has a value that is not supported here.
    """
    asked = {name.strip().lower(): value for name, value in request.settings}
    session = SessionSettings.from_settings({**dict(server), **asked}, major, encoding)
    return replace(session, unknown_types=request.unknown_types)


def following_definitions(request: DecodeRequest, missing: str, asks_plugin: bool = True) -> DecodeRequest:
    """Return a request that says whether the definitions of objects are followed; warn of what they are missed for.

    Args:
        request: the user's; as it is, if it says so already.
        missing: why they are not available; empty if they are.
        asks_plugin: its plugin may ask for them, of itself.

    Raises:
        PluginError: there is no such plugin, or an option is wrong.
    """
    if request.with_definitions is not None:
        return request
    if missing and request.with_ddl and request.ddl_where_possible:
        warn(
            f"no DDL is among the rows, which takes the definitions of objects: {missing}",
            hint=ways("begin at a base backup", f"set {option('ddl', 'false')}"),
        )
        request = replace(request, with_ddl=False)
    with errors_of_output(request.output):
        asked = definitions_asked_for(request.plugin, request.options) if asks_plugin else ""
    if asked and missing and not request.with_ddl:
        warn(f"{request.plugin} does not tell {asked}, which takes the definitions of objects: {missing}")
    return replace(request, with_definitions=request.with_ddl or (asked != "" and missing == ""))


def start_of(opened: OpenRequest) -> int:
    """Return the LSN where the first window of a request begins."""
    return opened.store.start_lsn if opened.state is None else opened.state.lsn


def end_of(opened: OpenRequest) -> int:
    """Return the LSN where the WAL of a request ends at the latest."""
    return min(opened.directory.stop_lsn, opened.request.end or sys.maxsize)
