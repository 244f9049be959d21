"""The service: sockets that are listened to, a session for each connection, the end of all of them.

PostgreSQL: postmaster.c.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from headwater.base.system_errors import system_error
from headwater.errors import UsageError
from headwater.pipeline.windows.following import Stopping
from headwater.walsender.connection import Connection
from headwater.walsender.served import Served
from headwater.walsender.served_cluster import ServedCluster
from headwater.walsender.served_slots import ServedSlots
from headwater.walsender.session import Session

log = logging.getLogger("headwater.walsender")

FIRST_PID = 1000
DEFAULT_PORT = 5432


@dataclass(frozen=True)
class Address:
    """An address that is listened to.

    Attributes:
        host: a name or an address; port: 0 for any that is free.
        directory: of the Unix socket, instead of a host; None for TCP.
    """

    host: str = "localhost"
    port: int = DEFAULT_PORT
    directory: Path | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``HOST:PORT``, ``[HOST]:PORT``, ``HOST`` or ``:PORT``.

        Raises:
            UsageError: it is none of these.
        """
        host, is_given, port = text.rpartition(":")
        if not is_given or (":" in host and not host.startswith("[")):
            host, port = text, str(DEFAULT_PORT)
        if not port.isdecimal() or int(port) > 65535:
            raise UsageError(f'invalid address "{text}", expected HOST:PORT')
        return cls(host.strip("[]") or "localhost", int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.directory is None else f"{self.directory}/.s.PGSQL.{self.port}"


class Service:
    """The service.

    Args:
        served: what is served.
        addresses: that are listened to.

    Attributes:
        listening: the addresses, with the ports that were free.
    """

    def __init__(self, served: Served, addresses: Sequence[Address]) -> None:
        self._served, self._addresses = served, addresses
        self._pids = count(FIRST_PID)
        self._sessions: dict[int, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._stop = asyncio.Event()
        self._sockets: list[Path] = []
        self.listening: list[Address] = []

    async def begin(self) -> None:
        """Listen.

        Raises:
            HeadwaterError: an address cannot be had.
        """
        loop = asyncio.get_running_loop()
        for address in self._addresses:
            try:
                if address.directory is not None:
                    path = Path(str(address))
                    with suppress(FileNotFoundError):
                        path.unlink()
                    server = await loop.create_unix_server(self._connected, path)
                    self._sockets.append(path)
                else:
                    server = await loop.create_server(self._connected, address.host, address.port)
            except OSError as error:
                await self._close_all()
                raise system_error(f"listen on {address}", error) from None
            self._servers.append(server)
            self.listening += [address if address.directory else _bound(each) for each in server.sockets]

    async def run(self) -> None:
        """Serve until the service is told to end; then streams are finished first."""
        await self._stop.wait()
        log.info("received fast shutdown request")
        self._served.is_ending = True
        for server in self._servers:
            server.close()
        for session in self._sessions.values():
            session.end()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._close_all()

    def stop(self) -> None:
        """Tell the service to end; called in the loop."""
        self._stop.set()

    def _connected(self) -> Connection:
        connection = Connection()
        pid = next(self._pids)
        session = Session(self._served, connection, pid)
        self._sessions[pid] = session
        self._served.sessions[pid] = (lambda: session.key), session.cancel
        task = asyncio.get_running_loop().create_task(self._run(session, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return connection

    async def _run(self, session: Session, connection: Connection) -> None:
        try:
            await session.run()
        except Exception:
            log.exception("session %d has failed", session.pid)
            connection.abort()
        finally:
            del self._sessions[session.pid]
            del self._served.sessions[session.pid]

    async def _close_all(self) -> None:
        for server in self._servers:
            server.close()
        for path in self._sockets:
            with suppress(OSError):
                os.unlink(path)


def _bound(sock: socket.socket) -> Address:
    host, port = sock.getsockname()[:2]
    return Address(str(host), int(port))


def serve_until(
    stopping: Stopping,
    cluster: ServedCluster,
    slots: Path,
    addresses: Sequence[Address],
    listening: Callable[[Sequence[Address]], None],
) -> None:
    """Serve until told to end; streams are finished first.

    Args:
        stopping: tells the end, from any thread.
        cluster: what is served; slots: the directory of its slots.
        addresses: that are listened to.
        listening: called with them once they are.

    Raises:
        HeadwaterError: an address cannot be had, or the directory.
    """

    async def serve() -> None:
        service, loop = Service(Served(cluster, ServedSlots(slots)), addresses), asyncio.get_running_loop()

        def stop() -> None:
            loop.remove_reader(stopping.fileno())
            service.stop()

        loop.add_reader(stopping.fileno(), stop)
        await service.begin()
        listening(service.listening)
        await service.run()

    asyncio.run(serve())
