"""``headwater serve``: stock clients of replication connect to WAL at hand as to a server."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from headwater.cli.flags import PATH, command, from_flag, from_flags
from headwater.cli.shared_flags import WalFlags, catalog_flag, version_flag


@dataclass(frozen=True, kw_only=True)
class ServeFlags:
    """The flags of ``headwater serve``."""

    place: WalFlags = from_flags(WalFlags)
    catalog: str = catalog_flag()
    server_version: str | None = version_flag()
    slots: str = from_flag(
        "--slots", type=PATH, required=True, metavar="DIR", help="Directory of the slots; made if it is missing."
    )
    listen: Sequence[str] = from_flag(
        "--listen",
        multiple=True,
        metavar="HOST:PORT",
        help="Address that is listened to; port 0: any that is free. Without: localhost:5432, if no socket is named.",
    )
    socket: str | None = from_flag(
        "--socket", type=PATH, metavar="DIR", help="Directory of a Unix socket, .s.PGSQL.PORT, that is listened to."
    )
    socket_port: int = from_flag(
        "--socket-port",
        type=click.IntRange(1, 65535),
        default=5432,
        show_default=True,
        metavar="PORT",
        help="Number in the Unix socket's name.",
    )
    is_verbose: bool = from_flag("-v", "--verbose", is_flag=True, help="Log each command of replication.")


@command("serve", ServeFlags)
def serve_command(flags: ServeFlags) -> None:
    """Serve the replication protocol: stock subscribers and pg_recvlogical connect as to the primary.

    Prints the addresses that it listens to. Goes on until it is interrupted; streams are then finished first. Clients
    are let in from this machine alone.
    """
    from headwater.cli.process.signals import heeding_first
    from headwater.walsender.served import Served
    from headwater.walsender.served_cluster import ClusterSource, ServedCluster
    from headwater.walsender.served_slots import ServedSlots
    from headwater.walsender.service import Address, Service

    logging.basicConfig(
        stream=sys.stderr, level=logging.DEBUG if flags.is_verbose else logging.INFO, format="%(message)s", force=True
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.getLogger("numba").setLevel(logging.WARNING)
    addresses = [Address.parse(text) for text in flags.listen]
    if flags.socket is not None:
        addresses.append(Address("", flags.socket_port, Path(flags.socket)))
    cluster = ServedCluster(ClusterSource(flags.place.source(), flags.catalog, flags.server_version))
    served = Served(cluster, ServedSlots(Path(flags.slots)))
    service = Service(served, addresses or [Address()])

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        await service.begin()
        print("\n".join(map(str, service.listening)), flush=True)

        def stop() -> None:
            loop.call_soon_threadsafe(service.stop)

        with heeding_first(stop):
            await service.run()

    asyncio.run(serve())
