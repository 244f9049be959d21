"""A subscription to apply, as it is asked for, checked.

The names of options, and what they are without being given, are those of CREATE SUBSCRIPTION.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headwater.apply.incoming.conflict_rules import ConflictRules
from headwater.errors import UsageError
from headwater.jobs.engine import Engine
from headwater.pipeline.requests.request import DecodeRequest
from headwater.remote_slots.slot_address import SlotAddress

STREAMING, ORIGINS = ("off", "on", "parallel"), ("none", "any")
_NAME = re.compile(r"[a-z0-9_]{1,40}")


@dataclass(frozen=True)
class WalSlot:
    """A slot over WAL at hand.

    Attributes:
        request: what is decoded: the WAL, the catalog, the database, the plugin's options.
        slots: directory of slots; name: of the slot in it, which is made if it is missing.
        engine: makes what decodes where there is much.
    """

    request: DecodeRequest
    slots: Path
    name: str
    engine: Callable[[], Engine]

    @property
    def path(self) -> Path:
        """The slot's directory."""
        return self.slots / self.name


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
        disables_on_error: it ends at the first error, instead of trying again.
        run_as_owner: changes are applied as the session's role, rather than as the owner of each table; None for what a
            subscription of the target's major does.
        batches: transactions are applied several at a time, where that comes to the same.
        copies_data: rows that tables have already are copied first.
        max_sync_workers: how many tables are copied at a time.
        copy_connections: in how many connections a large table is copied; range_blocks: blocks of a range.
        conflicts: what is done about conflicts.
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
    run_as_owner: bool | None = None
    batches: bool = True
    copies_data: bool = True
    max_sync_workers: int = 2
    copy_connections: int = 2
    range_blocks: int = 8192
    conflicts: ConflictRules = field(default_factory=ConflictRules)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.subscription):
            raise UsageError(
                f'subscription name "{self.subscription}" is invalid',
                hint="names have lower case letters, digits and underscores, 40 at most",
            )
        for name, value, values in (("streaming", self.streaming, STREAMING), ("origin", self.origin, ORIGINS)):
            if value is not None and value not in values:
                raise UsageError(f'unrecognized {name} value: "{value}"', hint=f"expected {', '.join(values)}")
