"""A user's request to decode: a window of WAL, and what to make of it; nothing is opened yet."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.catalog.search_path import SearchPath
from headwater.errors import UsageError
from headwater.pipeline.requests.named_catalog import is_server
from headwater.plugins.table_patterns import EVERY_TABLE, TablePatterns
from headwater.rmgr.xlog import WAL_LEVEL_LOGICAL, WAL_LEVEL_REPLICA
from headwater.rows.session import SERVER_VERSION
from headwater.wal.segments.addresses import wal_source
from headwater.wal.segments.local_path import local_path
from headwater.wal.segments.place import WalSource

SKIP_GAP = "skip"
ON_LEVEL_GAP = ("error", SKIP_GAP)
"""What becomes of WAL that was written while wal_level was too low, once decoding has begun."""


@dataclass(frozen=True)
class DecodeRequest:
    """A window of WAL, and what to make of it: one output. Several outputs of one run are requests of one window.

    Attributes:
        wal: where the WAL segments are; an address is taken for the only place.
        catalog: data directory or base backup, a path or a ``file:`` URL; or what else
            :mod:`headwater.pipeline.requests.named_catalog` knows.
        database: name of the database, None for the only one that is no template.
        plugin: name of the output plugin.
        options: its options, (name, value).
        start: transactions whose commit record starts before this LSN are left out.
        end: stop as the server does with ``upto_lsn``.
        settings: session settings that values are printed under, (name, value); TimeZone, DateStyle, ... They override
            those of the catalog's configuration files. ``$user`` in search_path is the user. Among them
            ``server_version``, the release of the server whose words are repeated.
        unknown_types: what becomes of values whose type has no text form here: error, hex or null; see
            :class:`~headwater.rows.session.SessionSettings`.
        tables: patterns of ``schema.table``, of which others' changes are left out; none for all.
        user: the role whose settings (ALTER ROLE ... SET) sessions would have; None for one that has none.
        on_level_gap: one of :data:`ON_LEVEL_GAP`.
        from_replica_level: WAL of wal_level replica is decoded, too, and each row marked as complete or partial.
        two_phase: prepared transactions are decoded at PREPARE, by a plugin that can do it.
        with_ddl: DDL is reported as events; ddl_where_possible: a catalog without definitions of objects is no error,
            but nothing is reported then.
        with_definitions: the definitions of objects are followed, too, which DDL is reported by; None: if DDL is asked
            for, or the plugin asks for them and they are available.
        slot: name of the slot that is decoded for, empty without one; makes_slot: it is being made.
        publish: the user's own publications, in the words of CREATE PUBLICATION ... FOR TABLE; none for everything.
        output: the output's name beside others of the run; None if it is the only one.

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
    ddl_where_possible: bool = False
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
    def server_version(self) -> str | None:
        """The server's release, as the settings have it; None if they do not say."""
        return next((value for name, value in reversed(self.settings) if name.strip().lower() == SERVER_VERSION), None)

    @property
    def needed_level(self) -> int:
        """The lowest wal_level that is decoded."""
        return WAL_LEVEL_REPLICA if self.from_replica_level else WAL_LEVEL_LOGICAL

    @property
    def numbers_commands(self) -> bool:
        """Whether all WAL that is decoded numbers commands; see :class:`headwater.rmgr.index.wal_index.Request`."""
        return self.needed_level >= WAL_LEVEL_LOGICAL

    @property
    def asked(self) -> str:
        """The output's plugin, and what decides which changes it is given, in the command line's words."""
        words = [
            self.plugin,
            *(f"-o {name}" if value is None else f"-o {name}={value}" for name, value in self.options),
        ]
        words += ["--tables " + ",".join(self.tables.patterns)] if self.tables.patterns else []
        words += ["--exclude " + ",".join(self.tables.excluded)] if self.tables.excluded else []
        words += [f"--publish '{table}'" for table in self.publish]
        return " ".join([*words, *(["--two-phase"] if self.two_phase else []), *(["--ddl"] if self.with_ddl else [])])

    @property
    def source(self) -> WalSource:
        """The places of the WAL segments."""
        assert isinstance(self.wal, WalSource)
        return self.wal


def _of_user(user: str, name: str, value: str) -> tuple[str, str]:
    """Return a setting, with ``$user`` of a search path replaced by its name."""
    is_path = name.strip().lower() == "search_path"
    return name, str(SearchPath.parse(value).of_role(user)) if is_path else value
