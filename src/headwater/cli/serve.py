"""``headwater serve``: stock clients of replication connect to WAL at hand as to a server."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.config_file import config_flag
from headwater.cli.flags import PATH, command, from_flag, from_flags
from headwater.cli.shared_flags import EngineFlags, WalFlags, catalog_flag, version_flag
from headwater.errors import HeadwaterWarning, UsageError

log = logging.getLogger("headwater.walsender")

if TYPE_CHECKING:
    from headwater.receiver.retention import Keeper
    from headwater.receiver.wal_receiver import Reached
    from headwater.slots.shelf_budget import ShelfBudget
    from headwater.walsender.access.access_files import AccessFiles
    from headwater.walsender.folds.bulk import Bulk
    from headwater.walsender.operating.limits import Limits
    from headwater.walsender.served_cluster import ServedCluster
    from headwater.walsender.service import Address


def _count_flag(name: str, default: int, text: str) -> Any:
    attributes = {"type": click.IntRange(1), "default": default, "show_default": True, "metavar": "N"}
    return from_flag(name, help=text, **attributes)


def _no_quantity(flag: str, text: str, hint: str) -> UsageError:
    return UsageError(f'invalid value for {flag}: "{text}"', hint=hint)


@dataclass(frozen=True, kw_only=True)
class LimitFlags:
    """The limits of a service, as PostgreSQL's settings of these names."""

    max_connections: int = _count_flag("--max-connections", 100, "Sessions at most that are not of replication.")
    max_wal_senders: int = _count_flag("--max-wal-senders", 100, "Sessions of replication at most.")
    max_slots: int = _count_flag("--max-replication-slots", 100, "Slots at most.")
    authentication_seconds: float = from_flag(
        "--authentication-timeout",
        type=click.FloatRange(1, 600),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="A client that has not come in by then is sent away.",
    )

    slot_kept: str | None = from_flag(
        "--max-slot-wal-keep-size",
        metavar="SIZE",
        help="A slot that needs WAL from further back is invalidated; default: none is.",
    )
    slot_idle: str | None = from_flag(
        "--idle-replication-slot-timeout",
        metavar="TIME",
        help="A slot that nobody has used for longer is invalidated, from PostgreSQL 18 on; default: none is.",
    )

    def limits(self) -> Limits:
        """Return the limits.

        Raises:
            UsageError: one is no size, or no span of time.
        """
        from headwater.base.quantities import bytes_of, seconds_of
        from headwater.walsender.operating.limits import Limits
        from headwater.walsender.operating.slot_limits import SlotLimits

        size = None if self.slot_kept is None else bytes_of(self.slot_kept)
        idle = 0 if self.slot_idle is None else seconds_of(self.slot_idle)
        if self.slot_kept is not None and (size is None or size % (1 << 20)):
            raise _no_quantity("--max-slot-wal-keep-size", self.slot_kept, "whole megabytes, such as 512MB or 10GB")
        if idle is None:
            raise _no_quantity("--idle-replication-slot-timeout", str(self.slot_idle), "such as 12h or 7d")
        counts = self.max_connections, self.max_wal_senders, self.max_slots
        return Limits(*counts, self.authentication_seconds, SlotLimits(size, idle))


@dataclass(frozen=True, kw_only=True)
class ShelfFlags:
    """The room of the states that outlive a service."""

    size: str = from_flag(
        "--shelf-size",
        default="1GB",
        show_default=True,
        metavar="SIZE",
        help="Room of the states below --slots, from which a restart goes on; of each database the newest is kept in "
        "any case.",
    )
    age: str = from_flag(
        "--shelf-age", default="7d", show_default=True, metavar="TIME", help="States that are older are removed."
    )

    def budget(self) -> ShelfBudget:
        """Return the room.

        Raises:
            UsageError: it is no size, or no span of time.
        """
        from headwater.base.quantities import bytes_of, seconds_of
        from headwater.slots.shelf_budget import ShelfBudget

        size, seconds = bytes_of(self.size), seconds_of(self.age)
        if size is None:
            raise _no_quantity("--shelf-size", self.size, "such as 500MB or 10GB")
        if seconds is None:
            raise _no_quantity("--shelf-age", self.age, "such as 12h or 7d")
        return ShelfBudget(size, seconds)


@dataclass(frozen=True, kw_only=True)
class ServeFlags:
    """The flags of ``headwater serve``."""

    place: WalFlags = from_flags(WalFlags)
    catalog: str = catalog_flag()
    server_version: str | None = version_flag()
    databases: Sequence[str] = from_flag(
        "--database",
        multiple=True,
        metavar="NAME",
        help="Serve this database alone, or these; default: all. To clients there are no others.",
    )
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
    server: str | None = from_flag(
        "--from",
        metavar="CONNINFO",
        help="Receive WAL of this server, primary or standby, into the first --wal, which is made if it is missing.",
    )
    receive_slot: str | None = from_flag(
        "--receive-slot", metavar="NAME", help="Physical slot of that server, made if it is missing."
    )
    keep: str | None = from_flag(
        "--keep",
        metavar="SIZE|TIME",
        help="With --from: remove segments that are further back than so much WAL, such as 10GB, or older than so "
        "long, such as 7d, and that neither slots nor kept states need; default: none.",
    )
    upstream: str | None = from_flag(
        "--upstream",
        metavar="CONNINFO",
        help="Primary that has the rows of initial copies, which are taken in snapshots of the slots' places.",
    )
    postgres_bin: str | None = from_flag(
        "--postgres-bin",
        type=PATH,
        metavar="DIR",
        help="Programs of a PostgreSQL of the primary's major version, which answers SQL about the catalogs. Default: "
        "those that are installed for Headwater.",
    )
    auth: str | None = from_flag(
        "--auth",
        type=PATH,
        metavar="FILE",
        help="Rules of who may connect from where, in the form of pg_hba.conf. Default: from this machine, users with "
        "a password, and by the socket whoever has a user's name.",
    )
    users: str | None = from_flag(
        "--users",
        type=PATH,
        metavar="FILE",
        help="Users, as headwater user add makes them; default: whoever runs this.",
    )
    tls_cert: str | None = from_flag(
        "--tls-cert", type=PATH, metavar="FILE", help="Certificate of the service, in PEM."
    )
    tls_key: str | None = from_flag("--tls-key", type=PATH, metavar="FILE", help="Its private key, in PEM.")
    tls_client_ca: str | None = from_flag(
        "--tls-client-ca", type=PATH, metavar="FILE", help="Authority of clients' certificates, in PEM."
    )
    http: str | None = from_flag(
        "--http",
        metavar="HOST:PORT",
        help="Show the status there: /status as JSON, /healthz, and /metrics for Prometheus, with headwater[metrics].",
    )
    tasks: EngineFlags = from_flags(EngineFlags)
    shelf: ShelfFlags = from_flags(ShelfFlags)
    limits: LimitFlags = from_flags(LimitFlags)
    config: str | None = config_flag()
    is_verbose: bool = from_flag(
        "-v", "--verbose", is_flag=True, help="Log each command of replication, and each statement."
    )

    def addresses(self) -> list[Address]:
        """Return the addresses that are listened to.

        Raises:
            UsageError: one of them is malformed.
        """
        from headwater.walsender.service import Address

        addresses = [Address.parse(text) for text in self.listen]
        if self.socket is not None:
            addresses.append(Address("", self.socket_port, Path(self.socket)))
        return addresses or [Address()]

    def access_files(self) -> AccessFiles:
        """Return the files that say who may connect."""
        from headwater.walsender.access.access_files import AccessFiles

        names = (self.users, self.auth, self.tls_cert, self.tls_key, self.tls_client_ca)
        users, rules, certificate, key, authority = (None if name is None else Path(name) for name in names)
        return AccessFiles(users=users, host_rules=rules, certificate=certificate, key=key, client_authority=authority)


@command("serve", ServeFlags)
def serve_command(flags: ServeFlags) -> None:
    """Serve the replication protocol: stock subscribers and pg_recvlogical connect as to the primary.

    Prints the addresses that it listens to. Goes on until it is interrupted; streams are then finished first.
    """
    from headwater.cli.process.serve_metrics import ServeMetrics, status_json
    from headwater.cli.process.signals import heeding_first
    from headwater.cli.process.status_server import Shown, serve_status
    from headwater.pipeline.requests.received_wal import receive_request
    from headwater.pipeline.windows.following import Following, Stopping
    from headwater.receiver.received_beside import received_beside
    from headwater.walsender.access.live_access import LiveAccess
    from headwater.walsender.catalog_layer.joined import catalog_answers
    from headwater.walsender.operating.limits import shown_setting
    from headwater.walsender.served import Served
    from headwater.walsender.served_cluster import WHERE_WAL_IS_MISSING, ClusterSource, ServedCluster
    from headwater.walsender.served_slots import ServedSlots
    from headwater.walsender.service import serve_until
    from headwater.walsender.service_status import ServiceStatus, status_of

    _check(flags)
    _begin_log(flags.is_verbose)
    slots_directory, budget, limits = Path(flags.slots), flags.shelf.budget(), flags.limits.limits()
    source = ClusterSource(
        *(flags.place.source(), flags.catalog, flags.server_version, flags.upstream, slots_directory, budget),
        tuple(flags.databases),
    )
    addresses = flags.addresses()
    stopping = Stopping()
    with ExitStack() as stack:
        stack.enter_context(heeding_first(stopping.tell))
        shown, received = stack.enter_context(serve_status(flags.http)), _Received(flags.keep)
        if flags.server is not None:
            request = receive_request(flags.server, source.wal, source.catalog, flags.receive_slot)
            stack.enter_context(received_beside(request, stopping.tell, received.report))
        with Following(source.wal, stopping) as following:
            cluster = following.when_there(lambda: ServedCluster(source))
        if cluster is not None:
            stack.callback(cluster.close)
            for database in cluster.uncovered():
                log.warning('database "%s" cannot be followed: %s', database, WHERE_WAL_IS_MISSING)
            received.keep_for(cluster)
            limits.check(cluster.version)
            access = LiveAccess(flags.access_files(), cluster.version)
            setting = shown_setting("max_replication_slots", cluster.version)
            slots = ServedSlots(slots_directory, limits.slots, setting)
            answers = stack.enter_context(closing(catalog_answers(cluster, flags.postgres_bin)))
            served = Served(cluster, slots, access, answers, limits=limits, bulk=_bulk(flags.tasks))

            def look() -> ServiceStatus:
                return status_of(served, received.lsn)

            def listening(addresses: Sequence[Address]) -> None:
                if shown is not None:
                    shown.shown = Shown(lambda: status_json(look()), ServeMetrics(look))
                _print_addresses(addresses)

            serve_until(stopping, served, addresses, listening)


def _bulk(flags: EngineFlags) -> Bulk | None:
    """Return the engine of sessions that are far behind: Spark, if it is asked for, started on first need."""
    from headwater.walsender.folds.bulk import Bulk

    flags.check()
    least = flags.bulk_bytes if flags.asks_for_spark else None
    return None if least is None else Bulk(cache(lambda: flags.choose(lambda *_: None)), least)


def _check(flags: ServeFlags) -> None:
    """See that what is needed is there, and that flags do not contradict each other."""
    if find_spec("pgparse") is None:
        raise UsageError("serve needs pgparse", hint="run: pip install 'headwater[serve]'")
    if flags.receive_slot is not None and flags.server is None:
        raise UsageError("--receive-slot is of the server that --from names")
    if flags.keep is not None and flags.server is None:
        raise UsageError("--keep is for WAL that --from receives", hint="headwater receive has --keep, too")


class _Received:
    """The WAL that is received: the place up to which it was, None while none was, and what is kept of it.

    Args:
        keep: as ``--keep``.

    Raises:
        UsageError: it is neither a size nor a time.
    """

    def __init__(self, keep: str | None) -> None:
        from headwater.receiver.retention import Retention

        self.lsn: int | None = None
        self._retention = None if keep is None else Retention.parse(keep, [])
        self._keeper: Keeper | None = None

    def report(self, reached: Reached) -> None:
        """Note how far it is."""
        self.lsn = reached.position.lsn
        if self._keeper is not None:
            self._keeper.reached(self.lsn)

    def keep_for(self, cluster: ServedCluster) -> None:
        """Remove from now on what neither the slots of a cluster nor its states need."""
        from headwater.receiver.retention import Keeper

        source = cluster.source
        if self._retention is not None and source.slots is not None:
            retention = replace(self._retention, slots=(source.slots,), states=cluster.needed_wal)
            self._keeper = Keeper(Path(source.wal.places[0].address), retention)


def _begin_log(is_verbose: bool) -> None:
    from headwater.walsender.operating.session_log import LogLines

    _warn_in_log()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("headwater").setLevel(logging.DEBUG if is_verbose else logging.INFO)


def _warn_in_log() -> None:
    """Let warnings go into the log, in its form; others than Headwater's as they go else."""
    show = warnings.showwarning

    def show_ours(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, HeadwaterWarning):
            logging.getLogger("headwater").warning("%s", " ".join(str(message).split()))
        else:
            show(message, category, *place, **more)

    warnings.showwarning = show_ours


def _print_addresses(addresses: Sequence[Address]) -> None:
    print("\n".join(map(str, addresses)), flush=True)
