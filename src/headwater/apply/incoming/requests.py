"""A subscription to apply, as it is asked for, checked.

The names of options, and what they are without being given, are those of CREATE SUBSCRIPTION.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.errors import UsageError
from headwater.remote_slots.slot_address import SlotAddress

STREAMING, ORIGINS = ("off", "on", "parallel"), ("none", "any")
_NAME = re.compile(r"[a-z0-9_]{1,40}")


@dataclass(frozen=True, kw_only=True)
class ApplyRequest:
    """A subscription to apply.

    Attributes:
        slot: of the source, with its publications.
        target: libpq's connection string of the target.
        subscription: its name, which names the origin, and the slot where that has no name of its own.
        binary: values are asked for in their types' binary forms.
        streaming: large transactions are sent before they end: ``off``, ``on`` (spooled here) or ``parallel``.
        origin: ``any``, or ``none`` for changes that were made on the source itself alone.
        synchronous_commit: of the sessions on the target.
        end: LSN of the source behind whose transactions it ends; None to go on.
        retry_seconds: how long to wait at least between two attempts, ``wal_retrieve_retry_interval``.
        disables_on_error: it ends at the first error, instead of trying again.
        copies_data: rows that tables have already are copied first.
        max_sync_workers: how many tables are copied at a time.
        copy_connections: in how many connections a large table is copied; range_blocks: blocks of a range.
    """

    slot: SlotAddress
    target: str
    subscription: str
    binary: bool = False
    streaming: str = "off"
    origin: str = "any"
    synchronous_commit: str = "off"
    end: int | None = None
    retry_seconds: float = 5.0
    disables_on_error: bool = False
    copies_data: bool = True
    max_sync_workers: int = 2
    copy_connections: int = 2
    range_blocks: int = 8192

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.subscription):
            raise UsageError(
                f'subscription name "{self.subscription}" is invalid',
                hint="names have lower case letters, digits and underscores, 40 at most",
            )
        for name, value, values in (("streaming", self.streaming, STREAMING), ("origin", self.origin, ORIGINS)):
            if value not in values:
                raise UsageError(f'unrecognized {name} value: "{value}"', hint=f"expected {', '.join(values)}")
