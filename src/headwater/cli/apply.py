"""``headwater apply``: changes of a source, applied to the tables of a PostgreSQL target."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headwater.cli.flags import PATH, command, from_flag, from_flags
from headwater.cli.shared_flags import ConflictFlags, EngineFlags, SourceFlags
from headwater.errors import UsageError

if TYPE_CHECKING:
    from headwater.apply.incoming.requests import WalSlot
    from headwater.remote_slots.slot_address import SlotAddress


@dataclass(frozen=True, kw_only=True)
class ApplyFlags:
    """The flags of ``headwater apply``."""

    source: str | None = from_flag(
        "--from",
        metavar="CONNINFO",
        help="Connection string or URI of the publisher, or of headwater serve; the role needs REPLICATION.",
    )
    log: SourceFlags = from_flags(SourceFlags, without=("start", "end"), optional=("wal", "catalog"))
    slots: str | None = from_flag(
        "--slots",
        type=PATH,
        metavar="DIR",
        help="With --wal: directory of slots, in which the subscription's is, and is made.",
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
    streaming: str | None = from_flag(
        "--streaming",
        type=click.Choice(("off", "on", "parallel")),
        help="Large transactions are sent before they end, and spooled (on) or applied ahead of their end (parallel); "
        "default: that of CREATE SUBSCRIPTION on the target.",
    )
    parallel_workers: int = from_flag(
        "--max-parallel-apply-workers",
        type=click.IntRange(0, 1024),
        default=2,
        show_default=True,
        metavar="COUNT",
        help="Most sessions on the target for transactions that are applied ahead of their end.",
    )
    scratch: str | None = from_flag(
        "--scratch", type=PATH, metavar="DIR", help="Directory for streamed transactions that do not fit into memory."
    )
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
    batches: bool = from_flag(
        "--batches/--no-batches",
        is_flag=True,
        default=True,
        show_default=True,
        help="Apply several transactions of the source as one, where that comes to the same.",
    )
    tasks: EngineFlags = from_flags(EngineFlags)
    conflict_flags: ConflictFlags = from_flags(ConflictFlags)
    disables_on_error: bool = from_flag(
        "--disable-on-error", is_flag=True, help="Fail at the first error, do not try again."
    )
    run_as_owner: str | None = from_flag(
        "--run-as-owner",
        type=click.Choice(("on", "off")),
        help="on: apply as the role of --to; off: as the owner of each table, by SET ROLE; default: as a subscription "
        "of the target's version does, off from 16 on.",
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
    from headwater.cli.output.message_output import check_scratch
    from headwater.cli.process.setup import say
    from headwater.cli.process.signals import heeding_first
    from headwater.errors import HeadwaterError
    from headwater.pg.lsn import Lsn
    from headwater.remote_slots.slot_address import SlotAddress

    check_scratch(flags.scratch)
    slot = SlotAddress(
        conninfo=flags.source or "",
        slot=flags.slot or flags.subscription,
        publications=tuple(dict.fromkeys(flags.publications)),
        creates_slot=flags.creates_slot,
        two_phase=flags.two_phase,
    )
    request = ApplyRequest(
        slot=slot,
        target=flags.target,
        subscription=flags.subscription,
        wal=_wal_slot(flags, slot),
        binary=flags.binary,
        streaming=flags.streaming,
        parallel_workers=flags.parallel_workers,
        scratch=None if flags.scratch is None else Path(flags.scratch),
        origin=flags.origin,
        synchronous_commit=flags.synchronous_commit,
        end=None if flags.end is None else int(Lsn.parse(flags.end)),
        retry_seconds=flags.retry_seconds,
        disables_on_error=flags.disables_on_error,
        batches=flags.batches,
        run_as_owner=None if flags.run_as_owner is None else flags.run_as_owner == "on",
        copies_data=flags.copies_data,
        max_sync_workers=flags.max_sync_workers,
        copy_connections=flags.copy_connections,
        range_blocks=flags.range_blocks,
        conflicts=flags.conflict_flags.rules(two_phase=flags.two_phase),
    )

    def failed(error: HeadwaterError) -> None:
        say("\n".join([f"headwater: {error.one_line()}", *error.details()]))

    def note(text: str) -> None:
        say(f"headwater: {text}")

    if flags.refreshes:
        refresh_now(request, note)
        return
    worker = ApplyWorker(request, failed, note)
    # What the program consists of stays: the collector need not look through it again and again.
    gc.freeze()
    with heeding_first(worker.stop):
        worker.run()


def _wal_slot(flags: ApplyFlags, slot: SlotAddress) -> WalSlot | None:
    """Return the slot over WAL at hand; None where the source is a server.

    Raises:
        UsageError: flags contradict each other, or one is missing.
    """
    if not flags.log.wal:
        if flags.source is None:
            raise UsageError("the source is missing", hint="give --from, or --wal with --catalog and --slots")
        return None
    if flags.source is not None:
        raise UsageError("--from and --wal are two sources", hint="give one of them")
    if flags.log.catalog is None or flags.slots is None:
        raise UsageError("--wal needs --catalog and --slots")
    if flags.refreshes:
        raise UsageError("--refresh asks a publisher, of which --wal has none")
    if flags.copies_data:
        raise UsageError(
            "--wal does not copy the rows that tables have already", hint="fill the tables, and give --no-copy-data"
        )
    from headwater.apply.incoming.requests import WalSlot
    from headwater.apply.incoming.wal_options import SETTINGS, wal_options
    from headwater.cli.shared_flags import session_settings

    options = wal_options(slot.publications, two_phase=slot.two_phase, binary=flags.binary, origin=flags.origin)
    settings = (*SETTINGS, *session_settings(server_version=flags.log.server_version))
    request = flags.log.request(
        settings, plugin="pgoutput", options=options, two_phase=slot.two_phase, slot=slot.slot, makes_slot=True
    )
    return WalSlot(request, Path(flags.slots), slot.slot, partial(flags.tasks.choose, lambda *_: None))
