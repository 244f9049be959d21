"""A subscription to apply, as it is asked for, checked.

The names of options, and what they are without being given, are those of CREATE SUBSCRIPTION.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.apply.incoming.conflict_rules import ConflictRules
from headwater.apply.incoming.limits import WorkerLimits
from headwater.apply.incoming.map_rules import MapRules
from headwater.apply.incoming.parallel_options import ParallelOptions
from headwater.apply.incoming.refusal_options import RefusalOptions
from headwater.apply.incoming.wal_cluster import WalCluster
from headwater.errors import UsageError
from headwater.pg.version import VERSIONS
from headwater.remote_slots.slot_address import SlotAddress

if TYPE_CHECKING:
    from headwater.jobs.engine import Engine
    from headwater.pipeline.requests.request import DecodeRequest

STREAMING, ORIGINS = ("off", "on", "parallel"), ("none", "any")
_NAME = re.compile(r"[a-z0-9_]{1,40}")


@dataclass(frozen=True)
class WalSlot:
    """A slot over WAL at hand.

    Attributes:
        request: what is decoded: the WAL, the catalog, the database, the plugin's options.
        slots: directory of slots; name: of the slot in it, which is made if it is missing.
        engine: makes what decodes where there is much.
        bulk_bytes: of WAL behind which that is used; None: never.
        cluster: the log and the catalog, as all threads of this process share them.
    """

    request: DecodeRequest
    slots: Path
    name: str
    engine: Callable[[], Engine]
    bulk_bytes: int | None
    cluster: WalCluster = field(default_factory=WalCluster, compare=False)

    @property
    def path(self) -> Path:
        """The slot's directory."""
        return self.slots / self.name


CREATES_INDEXES, DDL = ("before", "after", "none"), ("apply", "hold", "ignore")


@dataclass(frozen=True, kw_only=True)
class DefinitionRequest:
    """The choices of what becomes of definitions.

    Attributes:
        creates_tables: tables that the target does not have are made at the first start.
        indexes: when their keys and indexes are: ``before`` or ``after`` the rows; ``none``: keys alone, after them.
        ddl: ``apply``, ``hold`` or ``ignore``: what becomes of DDL that comes.
    """

    creates_tables: bool = False
    indexes: str = "after"
    ddl: str = "ignore"

    @property
    def are_followed(self) -> bool:
        """Whether the definitions of objects are needed."""
        return self.creates_tables or self.ddl != "ignore"


@dataclass(frozen=True, kw_only=True)
class ApplyRequest:
    """A subscription to apply.

    Attributes:
        slot: of the source, with its publications.
        wal: the log that is decoded here; None where the source is a server.
        target: libpq's connection string of the target.
        subscription: its name, which names the origin, and the slot where that has no name of its own.
        binary: values are asked for in their types' binary forms.
        streaming: large transactions are sent before they end: ``off``, ``on`` (spooled here) or ``parallel``; None for
            what a subscription of the target's version has by default.
        parallel_workers: most sessions for streamed transactions, ``max_parallel_apply_workers_per_subscription``.
        scratch: directory for streamed transactions that do not fit into memory; None for where temporary files go.
        origin: ``any``, or ``none`` for changes that were made on the source itself alone.
        synchronous_commit: of the sessions on the target.
        end: LSN of the source behind whose transactions it ends; None to go on.
        retry_seconds: how long to wait at least between two attempts, ``wal_retrieve_retry_interval``.
        disables_on_error: it ends at the first error, and is disabled, instead of trying again.
        refusals: what becomes of changes that the target refuses.
        run_as_owner: changes are applied as the session's role, rather than as the owner of each table; None for what a
            subscription of the target's major does.
        batches: transactions are applied several at a time, where that comes to the same.
        fails_over: the slots are synchronized to the source's standbys, or are not; None for as the slot is.
        accepts_divergence: it goes on where the target has what the source, which has failed over, has not.
        copies_data: rows that tables have already are copied first.
        max_sync_workers: how many tables are copied at a time.
        copy_connections: in how many connections a large table is copied; range_blocks: blocks of a range.
        definitions: what becomes of the definitions of tables.
        limits: that are shared with other subscriptions.
        maps: rules for what comes in.
        delay_seconds: a transaction is applied no sooner after its commit.
        conflicts: what is done about conflicts.
        parallel: how ordinary transactions are applied at a time.
    """

    slot: SlotAddress
    target: str
    subscription: str
    wal: WalSlot | None = None
    binary: bool = False
    streaming: str | None = None
    parallel_workers: int = 2
    scratch: Path | None = None
    origin: str = "any"
    synchronous_commit: str = "off"
    end: int | None = None
    retry_seconds: float = 5.0
    disables_on_error: bool = False
    refusals: RefusalOptions = field(default_factory=RefusalOptions)
    run_as_owner: bool | None = None
    batches: bool = True
    fails_over: bool | None = None
    accepts_divergence: bool = False
    copies_data: bool = True
    max_sync_workers: int = 2
    copy_connections: int = 2
    range_blocks: int = 8192
    definitions: DefinitionRequest = DefinitionRequest()
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    maps: MapRules = field(default_factory=MapRules)
    delay_seconds: float = 0.0
    conflicts: ConflictRules = field(default_factory=ConflictRules)
    parallel: ParallelOptions = field(default_factory=ParallelOptions)

    @property
    def source(self) -> SlotAddress:
        """The slot, with a session in which nothing of the publisher's users is called by a name without a schema.

        Values that are names, such as those of regclass, are printed whole in it. It has the subscription's name, by
        which it may be a synchronous standby.
        """
        return replace(self.slot, search_path="", application=self.slot.application or self.subscription)

    def __post_init__(self) -> None:
        if self.maps and (self.definitions.creates_tables or self.definitions.ddl != "ignore"):
            raise UsageError("--create-tables and --ddl make tables as the source has them, not as rules have them")
        if not _NAME.fullmatch(self.subscription):
            raise UsageError(
                f'subscription name "{self.subscription}" is invalid',
                hint="names have lower case letters, digits and underscores, 40 at most",
            )
        if self.delay_seconds and self.streaming == "parallel":
            raise UsageError(
                "what is applied ahead of its commit would hold its locks for as long as it is delayed",
                hint="with --delay, have --streaming on or off",
            )
        self._check_holding()
        if self.binary and self.maps.needs_text:
            raise UsageError("masks and conditions look at values as text", hint="leave --binary out")
        for name, value, values in (("streaming", self.streaming, STREAMING), ("origin", self.origin, ORIGINS)):
            if value is not None and value not in values:
                raise UsageError(f'unrecognized {name} value: "{value}"', hint=f"expected {', '.join(values)}")

    def runs_as_owner(self, major: int) -> bool:
        """Tell whether changes are applied as the session's role on a target of a major."""
        return not VERSIONS[major].applies_as_table_owner if self.run_as_owner is None else self.run_as_owner

    @property
    def runs_behind_commits(self) -> bool:
        """Whether nothing is applied before its commit has come."""
        return bool(self.delay_seconds) or (self.wal is None and self.definitions.ddl == "hold")

    def _check_holding(self) -> None:
        """See that a table of a server's slot can be held: from the beginning of a transaction that was committed."""
        if self.wal is not None or self.definitions.ddl != "hold":
            return
        if self.streaming == "parallel":
            raise UsageError(
                "of what is applied ahead of its commit it is not known from where on a table is to be held",
                hint="with --ddl hold, have --streaming on or off",
            )
        if self.slot.two_phase:
            raise UsageError("--ddl hold with --two-phase needs --wal")
