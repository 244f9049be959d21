"""Flags that several commands have, and what is made of their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from headwater.cli.flags import PATH, PLACE, from_choice, from_flag
from headwater.errors import UsageError
from headwater.pg.lsn import Lsn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.apply.incoming.conflict_rules import ConflictRules
    from headwater.apply.incoming.map_rules import MapRules
    from headwater.apply.incoming.parallel_options import ParallelOptions
    from headwater.apply.incoming.refusal_options import RefusalOptions
    from headwater.apply.incoming.requests import DefinitionRequest
    from headwater.jobs.engine import Engine
    from headwater.jobs.outcome import Progress
    from headwater.pipeline.requests.request import DecodeRequest
    from headwater.wal.segments.place import WalSource

Pairs = tuple[tuple[str, str], ...]
"""Names and values."""

# Flags of their own; those that always come together are declared by a dataclass below.

catalog_flag = partial(
    from_flag,
    "--catalog",
    type=PLACE,
    required=True,
    metavar="PATH",
    help="Data directory, or base backup: a directory, or one with base.tar (.gz, .lz4, .zst); or a file of headwater "
    "catalog export.",
)
version_flag = partial(
    from_flag,
    "--server-version",
    metavar="MAJOR.MINOR",
    help="The server's release, as SHOW server_version prints it; default: what the catalog tells, or the newest that "
    "is known. docs/guides/archives-and-stores.md has what depends on it.",
)
start_flag = partial(from_flag, "--start", metavar="LSN", help="Leave out transactions that committed before it.")
end_flag = partial(from_flag, "--end", metavar="LSN", help="Stop there, as the server does with upto_lsn.")
user_flag = partial(
    from_flag, "--user", metavar="ROLE", help="Session settings are this role's, too (ALTER ROLE ... SET)."
)
option_flag = partial(from_flag, "-o", "--option", multiple=True, metavar="NAME=VALUE", help="Option of the plugin.")
two_phase_flag = partial(from_flag, "--two-phase", is_flag=True, help="Decode prepared transactions at PREPARE.")
tables_flag = partial(from_flag, "--tables", multiple=True, metavar="PATTERN[,PATTERN]")
exclude_flag = partial(
    from_flag,
    "--exclude",
    multiple=True,
    metavar="PATTERN[,PATTERN]",
    help="Not these tables, whatever else chooses them; with a partitioned table its partitions.",
)
secret_flag = partial(
    from_flag,
    "--mask-secret-file",
    type=PATH,
    metavar="FILE",
    help="Salt of sha256, key of hmac-sha256; default: $HEADWATER_MASK_SECRET.",
)
window_flag = partial(
    from_flag, "--window-bytes", type=click.IntRange(1), default=1 << 30, show_default=True, metavar="BYTES"
)
storage_flag = partial(
    from_flag,
    "--storage-option",
    multiple=True,
    metavar="NAME=VALUE",
    help="What the store of an address such as s3:// is told: key, secret, endpoint_url, ...",
)


OF_SLOTS = "land"
"""The command that reads a server's slot, which is named where WAL is."""


def _refuse_servers(context: click.Context, _: click.Parameter, places: Sequence[str]) -> Sequence[str]:
    """Refuse a server's address before anything is said about what else is missing."""
    from headwater.wal.segments.addresses import check_no_server

    if context.command.name != OF_SLOTS:
        check_no_server(places)
    return places


@dataclass(frozen=True, kw_only=True)
class WalFlags:
    """The place of the WAL.

    Directories and addresses, in the order in which a segment is looked for; the timeline; options for stores.
    """

    wal: Sequence[str] = from_flag(
        "--wal",
        type=PLACE,
        multiple=True,
        required=True,
        metavar="PATH|ADDRESS",
        callback=_refuse_servers,
        help="Directory of WAL segments: pg_wal, or an archive, compressed or not, of pgBackRest, WAL-G or barman. Of "
        "several, the first that has a segment is read.",
    )
    timeline: int | None = from_flag(
        "--timeline", type=click.IntRange(1, 2**32 - 1), metavar="N", help="Timeline; default: the newest."
    )
    storage_options: Sequence[str] = storage_flag()

    def source(self, others: WalSource | None = None) -> WalSource:
        """Make the source of the WAL.

        Args:
            others: has the places and the timeline that flags do not name.

        Raises:
            UsageError: a flag is malformed.
        """
        from headwater.wal.segments.addresses import wal_source

        addresses, timeline = self.wal, self.timeline
        if others is not None:
            addresses = addresses or [place.address for place in others.places]
            timeline = others.timeline if timeline is None else timeline
        return wal_source(addresses, storage_pairs(self.storage_options), timeline)


@dataclass(frozen=True, kw_only=True)
class SourceFlags(WalFlags):
    """The source of one database: the WAL, the catalog, the server's release, and the window."""

    catalog: str | None = catalog_flag()
    database: str | None = from_flag(
        "--database", once=True, metavar="NAME", help="Database; default: the only one that is no template."
    )
    server_version: str | None = version_flag()
    start: str | None = start_flag()
    end: str | None = end_flag()

    def beside(self, target: object) -> Self:
        """Return the same, without the options for stores where only a target is in one.

        Args:
            target: a place of :mod:`headwater.lakes.stores.places`.
        """
        from headwater.lakes.stores.places import StorePath

        is_in_store = any("://" in place for place in self.wal)
        return self if is_in_store or not isinstance(target, StorePath) else replace(self, storage_options=())

    def request(self, settings: Pairs | None = None, **others: Any) -> DecodeRequest:
        """Make the request.

        Args:
            settings: of the session, with the server's release among them; None for this only.
            others: further attributes of the request.

        Raises:
            UsageError: a flag is malformed.
        """
        from headwater.pipeline.requests.request import DecodeRequest

        return DecodeRequest(
            wal=self.source(),
            catalog=self.catalog or "",
            database=self.database,
            start=parsed_lsn(self.start),
            end=parsed_lsn(self.end),
            settings=session_settings(server_version=self.server_version) if settings is None else settings,
            **others,
        )


@dataclass(frozen=True, kw_only=True)
class SessionFlags:
    """A session of the server: the plugin's options, settings as ``NAME=VALUE``, the encoding."""

    options: Sequence[str] = option_flag()
    settings: Sequence[str] = from_flag(
        "-c", "--set", multiple=True, metavar="NAME=VALUE", help="Session setting (TimeZone, ...)."
    )
    client_encoding: str | None = from_flag(
        "--client-encoding",
        metavar="NAME",
        help="Encoding that text is sent in, by PostgreSQL's names; SQL_ASCII: as it is stored; default: UTF8.",
    )

    @property
    def plugin_options(self) -> Pairs:
        """The plugin's options.

        Raises:
            UsageError: one is no ``NAME=VALUE``.
        """
        return pairs(self.options, "-o")

    def all_settings(self, server_version: str | None) -> Pairs:
        """Return the settings of the session; see :func:`session_settings`."""
        return session_settings(self.settings, self.client_encoding, server_version)


@dataclass(frozen=True, kw_only=True)
class EngineFlags:
    """The engine of tasks: one of :data:`headwater.pipeline.engines.ENGINES`; Spark's master, None for none."""

    engine: str = from_choice(
        "--engine",
        "auto",
        "spark",
        "local",
        help="What tasks run on. auto: this process for up to 64 MB of WAL (apply: 2 GB), without Java; Spark for "
        "more, or if --master is given. serve: this process, unless Spark is asked for. What comes out is the same.",
    )
    master: str | None = from_flag("--master", metavar="MASTER", help="Spark master; default: local[*].")

    @property
    def asks_for_spark(self) -> bool:
        """Whether Spark is asked for by its name, or its master's."""
        from headwater.pipeline.engines import SPARK

        return self.engine == SPARK or self.master is not None

    @property
    def bulk_bytes(self) -> int | None:
        """Bytes of WAL behind which an engine decodes what is applied meanwhile; None: none does."""
        from headwater.pipeline.engines import FAR_BEHIND_BYTES, LOCAL, SMALL_BYTES

        if self.engine == LOCAL:
            return None
        return SMALL_BYTES if self.asks_for_spark else FAR_BEHIND_BYTES

    def check(self) -> None:
        """Check that flags do not contradict each other.

        Raises:
            UsageError: a master is named, and Spark is not to be used.
        """
        from headwater.pipeline.engines import LOCAL

        if self.engine == LOCAL and self.master is not None:
            raise UsageError("--master is Spark's, and --engine local does without", hint="leave one of them out")

    def choose(self, progress: Progress, daemon: str | None = None, load: Callable[[int], int] | None = None) -> Engine:
        """Return the engine that is asked for; who names a master asks for Spark.

        Args:
            progress: called when Spark starts.
            daemon: the module that the session's workers are forked from, None for the usual one.
            load: what warms a worker up, None for the usual.

        Raises:
            UsageError: a master is named, and Spark is not to be used.
        """
        from headwater.pipeline.engines import AUTO, SPARK, chosen_engine

        self.check()

        def start() -> SparkSession:
            from headwater.spark.session import load_kernels, spark_session, warm_up

            progress("start Spark", 0, 1)
            spark = spark_session(self.master, daemon)
            warm_up(spark, load or load_kernels)
            progress("start Spark", 1, 1)
            return spark

        return chosen_engine(SPARK if self.engine == AUTO and self.master is not None else self.engine, start)


@dataclass(frozen=True, kw_only=True)
class ParallelFlags:
    """The flags of applying ordinary transactions at a time."""

    workers: int = from_flag(
        "--workers",
        type=click.IntRange(1, 1000),
        default=1,
        show_default=True,
        metavar="COUNT",
        help="Sessions on the target that apply ordinary transactions at a time; 1: the main one alone.",
    )
    order: str = from_flag(
        "--order",
        type=click.Choice(("commit", "keys")),
        default="commit",
        show_default=True,
        help="With --workers: commits come in the source's order, or only those of transactions with rows in common.",
    )

    def options(self) -> ParallelOptions:
        """Return what is asked for.

        Raises:
            UsageError: there is one session alone, and an order of several.
        """
        from headwater.apply.incoming.parallel_options import ParallelOptions

        return ParallelOptions(self.workers, self.order)


@dataclass(frozen=True, kw_only=True)
class DefinitionFlags:
    """The flags."""

    creates_tables: bool = from_flag(
        "--create-tables",
        is_flag=True,
        help="With --wal: make tables that the target lacks, with all that they need, at the first start.",
    )
    indexes: str = from_flag(
        "--create-indexes",
        type=click.Choice(("before", "after", "none")),
        default="after",
        show_default=True,
        help="Of tables that are made: keys and indexes before or after their rows; none: keys alone, after them.",
    )
    ddl: str = from_flag(
        "--ddl",
        type=click.Choice(("apply", "hold", "ignore")),
        default="ignore",
        show_default=True,
        help="With --wal: DDL of published tables is applied in its place, or holds its table until the target's fits. "
        "With --from: hold holds a table once columns come that the target's does not have.",
    )

    def request(self) -> DefinitionRequest:
        """Return what is asked for."""
        from headwater.apply.incoming.requests import DefinitionRequest

        return DefinitionRequest(creates_tables=self.creates_tables, indexes=self.indexes, ddl=self.ddl)

    def check_of_server(self) -> None:
        """Check that nothing is asked for that a server cannot give.

        Raises:
            UsageError: definitions are wanted.
        """
        if self.creates_tables:
            raise UsageError(
                "--create-tables needs --wal", hint="copy the definitions by pg_dump --schema-only, or give --wal"
            )
        if self.ddl == "apply":
            raise UsageError(
                "--ddl apply needs --wal: a server's slot does not tell DDL, and its catalog is not as of the change",
                hint="--ddl hold holds a table that no longer fits, until the target's is changed",
            )


def parsed_lsn(text: str | None) -> int | None:
    """Return the LSN that a flag gives, None where it is not given.

    Raises:
        UsageError: it is no LSN.
    """
    return None if text is None else Lsn.parse(text)


def pairs(values: Sequence[str], flag: str) -> Pairs:
    """Split texts ``NAME=VALUE``.

    Raises:
        UsageError: one is none.
    """
    split = []
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise UsageError(f'invalid value for {flag}: "{value}", expected NAME=VALUE')
        split.append((name, text))
    return tuple(split)


def session_settings(
    settings: Sequence[str] = (), client_encoding: str | None = None, server_version: str | None = None
) -> Pairs:
    """Return session settings, of which some have flags of their own that go before.

    Raises:
        UsageError: a setting is no ``NAME=VALUE``.
    """
    from headwater.rows.session import SERVER_VERSION

    own = (("client_encoding", client_encoding), (SERVER_VERSION, server_version))
    return (*pairs(settings, "--set"), *((name, value) for name, value in own if value is not None))


def storage_pairs(values: Sequence[str]) -> Pairs:
    """Split options for a store; a value that may be a secret is in no message.

    Raises:
        UsageError: one is no ``NAME=VALUE``.
    """
    for value in values:
        if value.find("=") < 1:
            raise UsageError("invalid value for --storage-option, expected NAME=VALUE")
    return pairs(values, "--storage-option")


@dataclass(frozen=True, kw_only=True)
class RefusalFlags:
    """The flags for what the target refuses."""

    disables_on_error: bool = from_flag(
        "--disable-on-error",
        is_flag=True,
        help="Disable the subscription at the first error, as the target keeps it, and end; do not try again.",
    )
    enables: bool = from_flag("--enable", is_flag=True, help="Enable a subscription that an error has disabled.")
    skip_lsn: str | None = from_flag(
        "--skip-lsn",
        metavar="LSN",
        help="Skip the transaction that is finished there, as its error names it; none takes that back.",
    )

    dead_letters: Sequence[str] = from_flag(
        "--dead-letters",
        multiple=True,
        metavar="PATTERN",
        help="A row of such a table that the target refuses goes to headwater.dead_letters there, and all else goes "
        "on; *.* for all tables.",
    )
    retries: bool = from_flag("--retry-dead-letters", is_flag=True, help="Try to apply dead letters first.")
    pauses: bool = from_flag(
        "--pause-on-error",
        is_flag=True,
        help="Pause a table whose row the target refuses: its changes are kept on the target, others go on.",
    )
    resumes: Sequence[str] = from_flag(
        "--resume-tables",
        multiple=True,
        metavar="PATTERN",
        help="Apply what was kept of such paused tables first, and let them go on.",
    )

    is_dry: bool = from_flag(
        "--dry-run",
        is_flag=True,
        help="Apply what there is and roll it back; report what would be refused. Exit status 3 if there was any.",
    )

    def options(self) -> RefusalOptions:
        """Return the choice.

        Raises:
            HeadwaterError: it is not an LSN.
        """
        from headwater.apply.incoming.refusal_options import RefusalOptions
        from headwater.pg.lsn import Lsn

        skip = (
            None if self.skip_lsn is None else 0 if self.skip_lsn.lower() == "none" else int(Lsn.parse(self.skip_lsn))
        )
        return RefusalOptions(
            enables=self.enables,
            skip_lsn=skip,
            dead_letters=tuple(self.dead_letters),
            retries=self.retries,
            pauses=self.pauses,
            resumes=tuple(self.resumes),
        )


@dataclass(frozen=True, kw_only=True)
class MapFlags:
    """The flags of rules for what comes in."""

    renames: Sequence[str] = from_flag(
        "--rename",
        multiple=True,
        metavar="NAME=NAME",
        help="Other names on the target: schema.table=schema.table, schema.*=schema.*, schema.table.column=name.",
    )
    left_out: Sequence[str] = from_flag(
        "--exclude-table", multiple=True, metavar="PATTERN", help="Leave tables out: schema.table, with * and ?."
    )
    excluded: Sequence[str] = from_flag(
        "--exclude-column", multiple=True, metavar="COLUMN", help="Leave a column out: schema.table.column."
    )
    masks: Sequence[str] = from_flag(
        "--mask",
        multiple=True,
        metavar="COLUMN=ACTION",
        help="Mask values of a column: null, literal:TEXT, sha256, hmac-sha256, keep-first:N or keep-last:N.",
    )
    secret_file: str | None = secret_flag()
    conditions: Sequence[str] = from_flag(
        "--where",
        multiple=True,
        metavar="TABLE: EXPRESSION",
        help="Rows of schema.table that come in, by a condition as in CREATE PUBLICATION.",
    )

    delay: str | None = from_flag(
        "--delay", metavar="TIME", help="Apply a transaction no sooner after its commit, such as 1h, 30min or 90s."
    )

    @property
    def delay_seconds(self) -> float:
        """How long a transaction waits.

        Raises:
            UsageError: it is no time.
        """
        from headwater.apply.mapped.delayed_feed import read_delay

        return 0.0 if self.delay is None else read_delay(self.delay)

    def rules(self) -> MapRules:
        """Return the rules.

        Raises:
            UsageError: one is malformed, two contradict each other, or the secret cannot be read.
        """
        from headwater.apply.incoming.map_rules import read_rules

        return read_rules(
            renames=self.renames,
            left_out=self.left_out,
            excluded=self.excluded,
            masks=self.masks,
            conditions=self.conditions,
            secret=mask_secret(self.secret_file),
        )


@dataclass(frozen=True, kw_only=True)
class ConflictFlags:
    """Flags of what is done about conflicts of ``headwater apply``, and where they are told of."""

    conflicts: Sequence[str] = from_flag(
        "--conflict",
        multiple=True,
        metavar="[TABLE:]KIND=ACTION",
        help="What is done about a kind of conflict: error, apply_remote, keep_local, last_update_wins, "
        "first_update_wins, or python:package.module:function; default: what a subscription does.",
    )
    log_conflicts: str = from_choice(
        "--log-conflicts",
        "log",
        "table",
        "both",
        help="Where conflicts are told of: on standard error, or in headwater.conflicts on the target.",
    )
    retain_deleted: str | None = from_flag(
        "--retain-deleted",
        metavar="TIME",
        help="Keep deletions of the target's rows that long, such as 1h or 30min, by a trigger of each table, and tell "
        "update_deleted from update_missing by them.",
    )

    def rules(self, *, two_phase: bool) -> ConflictRules:
        """Return the rules.

        Args:
            two_phase: transactions are applied at PREPARE.

        Raises:
            UsageError: one is malformed, or two contradict each other.
        """
        from headwater.apply.incoming.conflict_rules import ConflictRules
        from headwater.apply.mapped.delayed_feed import read_delay

        seconds = None if self.retain_deleted is None else read_delay(self.retain_deleted)
        return ConflictRules.parse(
            self.conflicts, log=self.log_conflicts, two_phase=two_phase, keeps_deleted_seconds=seconds
        )


def mask_secret(path: str | None) -> bytes:
    """Return the secret of masks: of a file, or of the environment; empty for none.

    Raises:
        UsageError: the file cannot be read, or is empty.
    """
    if path is None:
        return os.environ.get("HEADWATER_MASK_SECRET", "").encode()
    try:
        secret = Path(path).read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(f"could not read the secret of masks: {error.strerror}", file=path) from None
    if not secret:
        raise UsageError("the secret of masks is empty", file=path)
    return secret
