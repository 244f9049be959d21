"""``headwater serve``: stock clients of replication connect to WAL at hand as to a server."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.config_file import config_flag
from headwater.cli.flags import PATH, command, from_flag, from_flags
from headwater.cli.shared_flags import WalFlags, catalog_flag, version_flag
from headwater.errors import HeadwaterWarning, UsageError

if TYPE_CHECKING:
    from headwater.receiver.wal_receiver import Reached
    from headwater.walsender.access.access_files import AccessFiles
    from headwater.walsender.operating.limits import Limits
    from headwater.walsender.service import Address


def _count_flag(name: str, default: int, text: str) -> Any:
    attributes = {"type": click.IntRange(1), "default": default, "show_default": True, "metavar": "N"}
    return from_flag(name, help=text, **attributes)


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

    def limits(self) -> Limits:
        """Return the limits."""
        from headwater.walsender.operating.limits import Limits

        return Limits(self.max_connections, self.max_wal_senders, self.max_slots, self.authentication_seconds)


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
    server: str | None = from_flag(
        "--from",
        metavar="CONNINFO",
        help="Receive WAL of this server, primary or standby, into the first --wal, which is made if it is missing.",
    )
    receive_slot: str | None = from_flag(
        "--receive-slot", metavar="NAME", help="Physical slot of that server, made if it is missing."
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
    from headwater.cli.process.signals import heeding_first
    from headwater.cli.process.status_server import serve_status
    from headwater.pipeline.requests.received_wal import receive_request
    from headwater.pipeline.windows.following import Following, Stopping
    from headwater.receiver.received_beside import received_beside
    from headwater.walsender.access.live_access import LiveAccess
    from headwater.walsender.catalog_layer.joined import catalog_answers
    from headwater.walsender.operating.limits import shown_setting
    from headwater.walsender.served import Served
    from headwater.walsender.served_cluster import ClusterSource, ServedCluster
    from headwater.walsender.served_slots import ServedSlots
    from headwater.walsender.service import serve_until
    from headwater.walsender.service_status import status_of

    if find_spec("pgparse") is None:
        raise UsageError("serve needs pgparse", hint="run: pip install 'headwater[serve]'")
    if flags.receive_slot is not None and flags.server is None:
        raise UsageError("--receive-slot is of the server that --from names")
    _begin_log(flags.is_verbose)
    source = ClusterSource(flags.place.source(), flags.catalog, flags.server_version, flags.upstream)
    addresses = flags.addresses()
    stopping = Stopping()
    with ExitStack() as stack:
        stack.enter_context(heeding_first(stopping.tell))
        shown, received = stack.enter_context(serve_status(flags.http)), _Received()
        if flags.server is not None:
            request = receive_request(flags.server, source.wal, source.catalog, flags.receive_slot)
            stack.enter_context(received_beside(request, stopping.tell, received.report))
        with Following(source.wal, stopping) as following:
            cluster = following.when_there(lambda: ServedCluster(source))
        if cluster is not None:
            access = LiveAccess(flags.access_files(), cluster.version)
            limits = flags.limits.limits()
            setting = shown_setting("max_replication_slots", cluster.version)
            slots = ServedSlots(Path(flags.slots), limits.slots, setting)
            answers = stack.enter_context(closing(catalog_answers(cluster, flags.postgres_bin)))
            served = Served(cluster, slots, access, answers, limits=limits)

            def listening(addresses: Sequence[Address]) -> None:
                _print_addresses(addresses)
                if shown is not None:
                    shown.status = lambda: status_of(served, received.lsn)

            serve_until(stopping, served, addresses, listening)


class _Received:
    """The place up to which WAL was received; None while none was."""

    def __init__(self) -> None:
        self.lsn: int | None = None

    def report(self, reached: Reached) -> None:
        """Note how far it is."""
        self.lsn = reached.position.lsn


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
