"""``headwater apply``: changes of a source, applied to the tables of a PostgreSQL target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from headwater.cli.flags import command, from_flag


@dataclass(frozen=True, kw_only=True)
class ApplyFlags:
    """The flags of ``headwater apply``."""

    source: str = from_flag(
        "--from",
        required=True,
        metavar="CONNINFO",
        help="Connection string or URI of the publisher, or of headwater serve; the role needs REPLICATION.",
    )
    target: str = from_flag(
        "--to", required=True, metavar="CONNINFO", help="Connection string or URI of the server to apply to."
    )
    publications: Sequence[str] = from_flag(
        "--publication", multiple=True, required=True, metavar="NAME", help="Publication whose tables are applied."
    )
    subscription: str = from_flag(
        "--subscription",
        default="headwater",
        show_default=True,
        metavar="NAME",
        help="Name of what is applied: of its origin headwater_NAME on the target, and of its slot.",
    )
    slot: str | None = from_flag("--slot", metavar="NAME", help="Slot of the publisher; default: the subscription's.")
    creates_slot: bool = from_flag(
        "--create-slot/--no-create-slot",
        is_flag=True,
        default=True,
        help="Make the slot at the first start; one must not be there.",
    )
    copies_data: bool = from_flag(
        "--copy-data/--no-copy-data",
        is_flag=True,
        default=True,
        help="Copy rows that tables have already, at their first start.",
    )
    refreshes: bool = from_flag(
        "--refresh",
        is_flag=True,
        help="Take the tables that the publications have now, also beside a run, and end. Each start does it, too.",
    )
    max_sync_workers: int = from_flag(
        "--max-sync-workers",
        type=click.IntRange(1),
        default=2,
        show_default=True,
        metavar="N",
        help="Tables that are copied at a time, each by a slot of its own.",
    )
    copy_connections: int = from_flag(
        "--copy-connections",
        type=click.IntRange(1),
        default=2,
        show_default=True,
        metavar="N",
        help="Connections in which a table is copied that has more blocks than a range; each has an origin.",
    )
    range_blocks: int = from_flag(
        "--range-blocks",
        type=click.IntRange(1),
        default=8192,
        show_default=True,
        metavar="N",
        help="Blocks of a table that are copied in one transaction, if it has more.",
    )
    binary: bool = from_flag("--binary", is_flag=True, help="Ask for values in binary form.")
    two_phase: bool = from_flag(
        "--two-phase", is_flag=True, help="Apply prepared transactions at PREPARE; the slot has to be made so, too."
    )
    origin: str = from_flag(
        "--origin",
        type=click.Choice(("any", "none")),
        default="any",
        show_default=True,
        help="none: only changes that were made on the publisher itself.",
    )
    synchronous_commit: str = from_flag(
        "--synchronous-commit",
        type=click.Choice(("off", "local", "on", "remote_write", "remote_apply")),
        default="off",
        show_default=True,
        help="Of the sessions on the target; what is confirmed to the publisher is durable in any case.",
    )
    end: str | None = from_flag("--end", metavar="LSN", help="Stop once all up to there is durable; default: go on.")
    retry_seconds: float = from_flag(
        "--retry-interval",
        type=click.FloatRange(0),
        default=5.0,
        show_default=True,
        metavar="SECONDS",
        help="An attempt begins no sooner after the last one.",
    )
    disables_on_error: bool = from_flag(
        "--disable-on-error", is_flag=True, help="Fail at the first error, do not try again."
    )


@command("apply", ApplyFlags)
def apply_command(flags: ApplyFlags) -> None:
    """Apply what a publisher sends to the tables of a PostgreSQL server, as a subscription does.

    Goes on until it is interrupted; a lost connection is tried again. How far it is the target keeps, in a replication
    origin: nothing is lost and nothing applied twice, whatever is killed.
    """
    from headwater.apply.incoming.requests import ApplyRequest
    from headwater.apply.table_sync.subscribing import refresh_now
    from headwater.apply.worker import ApplyWorker
    from headwater.cli.process.setup import say
    from headwater.cli.process.signals import heeding_first
    from headwater.errors import HeadwaterError
    from headwater.pg.lsn import Lsn
    from headwater.remote_slots.slot_address import SlotAddress

    slot = SlotAddress(
        conninfo=flags.source,
        slot=flags.slot or flags.subscription,
        publications=tuple(dict.fromkeys(flags.publications)),
        creates_slot=flags.creates_slot,
        two_phase=flags.two_phase,
    )
    request = ApplyRequest(
        slot=slot,
        target=flags.target,
        subscription=flags.subscription,
        binary=flags.binary,
        origin=flags.origin,
        synchronous_commit=flags.synchronous_commit,
        end=None if flags.end is None else int(Lsn.parse(flags.end)),
        retry_seconds=flags.retry_seconds,
        disables_on_error=flags.disables_on_error,
        copies_data=flags.copies_data,
        max_sync_workers=flags.max_sync_workers,
        copy_connections=flags.copy_connections,
        range_blocks=flags.range_blocks,
    )

    def failed(error: HeadwaterError) -> None:
        say(f"headwater: {error.one_line()}")

    def note(text: str) -> None:
        say(f"headwater: {text}")

    if flags.refreshes:
        refresh_now(request, note)
        return
    worker = ApplyWorker(request, failed, note)
    with heeding_first(worker.stop):
        worker.run()
