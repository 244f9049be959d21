"""``headwater receive``: a server's WAL into a directory, as it is written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from headwater.cli.config_file import config_flag
from headwater.cli.flags import PATH, PLACE, command, from_flag
from headwater.cli.shared_flags import storage_flag, storage_pairs
from headwater.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class ReceiveFlags:
    """The flags of ``headwater receive``."""

    conninfo: str = from_flag(
        "--from",
        required=True,
        metavar="CONNINFO",
        help="Connection string or URI of a primary or a standby, as psql takes it; the role needs REPLICATION.",
    )
    directory: str = from_flag(
        "--to",
        type=PATH,
        required=True,
        metavar="DIR",
        help="Directory of the segments; what it has is gone on with.",
    )
    slot: str | None = from_flag(
        "--slot", metavar="NAME", help="Physical slot: the server keeps WAL until it is synced here."
    )
    creates_slot: bool = from_flag("--create-slot", is_flag=True, help="Make the slot if it is missing.")
    is_synchronous: bool = from_flag(
        "--synchronous", is_flag=True, help="Sync and acknowledge each write at once, for synchronous_standby_names."
    )
    archive: Sequence[str] = from_flag(
        "--archive",
        type=PLACE,
        multiple=True,
        metavar="PATH|ADDRESS",
        help="Archive of WAL, as --wal of other commands reads: has what the server has removed already.",
    )
    storage_options: Sequence[str] = storage_flag()
    end: str | None = from_flag("--end", metavar="LSN", help="Stop there; default: go on.")
    status_seconds: float = from_flag(
        "--status-interval",
        type=click.FloatRange(0.1),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="The server is told at least as often how far all is.",
    )
    timeout_seconds: float = from_flag(
        "--timeout",
        type=click.FloatRange(0),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="A server that says nothing for so long is lost; 0: never.",
    )
    keep: str | None = from_flag(
        "--keep",
        metavar="SIZE|TIME",
        help="Remove segments that are further back than so much WAL, such as 10GB, or older than so long, such as 7d; "
        "default: none.",
    )
    slots: Sequence[str] = from_flag(
        "--slots",
        type=PATH,
        multiple=True,
        metavar="DIR",
        help="With --keep: directory of slots, as of headwater serve; what they need is not removed.",
    )
    no_loop: bool = from_flag("--no-loop", is_flag=True, help="Fail when the connection is lost, do not try again.")
    config: str | None = config_flag()


@command("receive", ReceiveFlags)
def receive_command(flags: ReceiveFlags) -> None:
    """Receive a server's WAL, as it is written, into a directory that --wal reads.

    Goes on until it is interrupted; a lost connection is tried again. Files are named, padded and synced as
    pg_receivewal's. Timelines are followed over promotions. Only what is synced is acknowledged.
    """
    from headwater.cli.process.setup import say
    from headwater.cli.process.signals import heeding_first
    from headwater.pg.lsn import Lsn
    from headwater.receiver.retention import Keeper, Retention
    from headwater.receiver.wal_receiver import Reached, ReceiveRequest, WalReceiver
    from headwater.wal.segments.addresses import wal_source

    if flags.creates_slot and flags.slot is None:
        raise UsageError("--create-slot needs the slot's name", hint="use --slot")
    request = ReceiveRequest(
        conninfo=flags.conninfo,
        directory=Path(flags.directory),
        slot=flags.slot,
        creates_slot=flags.creates_slot,
        is_synchronous=flags.is_synchronous,
        end=None if flags.end is None else int(Lsn.parse(flags.end)),
        status_seconds=flags.status_seconds,
        timeout_seconds=flags.timeout_seconds,
        tries_again=not flags.no_loop,
        archive=wal_source(flags.archive, storage_pairs(flags.storage_options), None) if flags.archive else None,
    )

    if flags.slots and flags.keep is None:
        raise UsageError("--slots is for WAL that is removed", hint="use --keep")
    keeper = None
    if flags.keep is not None:
        keeper = Keeper(request.directory, Retention.parse(flags.keep, [Path(slots) for slots in flags.slots]))

    def show(reached: Reached) -> None:
        if keeper is not None:
            keeper.reached(reached.position.lsn)
        if sys.stderr.isatty():
            position, behind = reached.position, reached.server - reached.position.lsn
            text = f"received to {Lsn(position.lsn)} of timeline {position.timeline}, {behind:,} bytes behind"
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    receiver = WalReceiver(request, show, lambda reason: say(f"headwater: {reason}"))
    with heeding_first(receiver.stop):
        receiver.run()
    if sys.stderr.isatty():
        print(file=sys.stderr)
