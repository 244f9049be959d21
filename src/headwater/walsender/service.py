"""The service: sockets that are listened to, a session for each connection, the end of all of them.

PostgreSQL: postmaster.c.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from headwater.base.system_errors import errors_as, reason_of
from headwater.errors import HeadwaterError, UsageError
from headwater.pipeline.windows.following import Stopping
from headwater.walsender.connection import Connection
from headwater.walsender.operating.limits import MOST_STARTING, allow_open_files
from headwater.walsender.operating.session_log import PID
from headwater.walsender.operating.slot_watch import LOOK_SECONDS, SlotWatch
from headwater.walsender.served import Served
from headwater.walsender.session import Session

log = logging.getLogger("headwater.walsender")

FIRST_PID = 1000
BACKLOG = 1024
"""Connections that wait to be taken, at most."""

SPARE_THREADS = 312
"""Beside one for each session that there may be: one that waits for its client, or a slot, must hold up nobody."""

ACCEPT_AGAIN_SECONDS = 0.1
"""After an error, such as that there are too many files open."""

_TLS_HANDSHAKE = b"\x16"
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
        self._loop = asyncio.get_running_loop()
        self._pids = count(FIRST_PID)
        self._sessions: dict[int, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._acceptors: list[asyncio.Task[None]] = []
        self._listeners: list[socket.socket] = []
        self._stop = asyncio.Event()
        self.listening: list[Address] = []

    async def begin(self) -> None:
        """Listen.

        Raises:
            HeadwaterError: an address cannot be had.
        """
        try:
            for address in self._addresses:
                with errors_as(UsageError, "listen on", str(address)):
                    self._listen(address)
        except BaseException:
            self._close_listeners()
            raise
        self._acceptors = [self._loop.create_task(self._accept(listener)) for listener in self._listeners]
        if self._served.limits.of_slots.are_any:
            self._acceptors.append(self._loop.create_task(self._watch_slots()))

    async def run(self) -> None:
        """Serve until the service is told to end; then streams are finished first."""
        await self._stop.wait()
        log.info("received fast shutdown request")
        self._served.is_ending = True
        for acceptor in self._acceptors:
            acceptor.cancel()
        self._close_listeners()
        self._end_oldest(0)
        for session in self._sessions.values():
            session.end()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def stop(self) -> None:
        """Tell the service to end; called in the loop."""
        self._stop.set()

    def _listen(self, address: Address) -> None:
        if address.directory is not None:
            with suppress(FileNotFoundError):
                Path(str(address)).unlink()
            self._add_listener(socket.AF_UNIX, str(address))
            self.listening.append(address)
            return
        port = address.port
        for family, _, _, _, place in socket.getaddrinfo(
            address.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            listener = self._add_listener(family, (place[0], port, *place[2:]))
            port = listener.getsockname()[1]
            self.listening.append(Address(str(place[0]), port))

    def _add_listener(self, family: int, place: str | tuple[object, ...]) -> socket.socket:
        listener = socket.socket(family, socket.SOCK_STREAM)
        self._listeners.append(listener)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(place)
        listener.listen(BACKLOG)
        listener.setblocking(False)
        return listener

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                accepted, _ = await self._loop.sock_accept(listener)
            except OSError as error:
                log.error("could not accept new connection: %s", reason_of(error))
                self._end_oldest(len(self._served.starting) // 2)
                await asyncio.sleep(ACCEPT_AGAIN_SECONDS)
                continue
            self._end_oldest(MOST_STARTING - 1)
            task = self._loop.create_task(self._serve(accepted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(0)  # So that it begins, and is counted, before the next one comes.

    async def _watch_slots(self) -> None:
        """Look at the slots, again and again: what they keep, and for how long they are idle, has limits."""
        served, cluster = self._served, self._served.cluster
        of_wal = cluster.segment_size, cluster.version, cluster.end
        watch = SlotWatch(served.slots, served.limits.of_slots, *of_wal, self._terminate)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await asyncio.to_thread(watch.look)
            except HeadwaterError as error:
                log.warning("the slots cannot be looked at: %s", error.one_line())

    def _terminate(self, pid: int) -> None:
        """Let a session end; called in any thread."""

        def terminate() -> None:
            if pid in self._sessions:
                self._sessions[pid].terminate()

        self._loop.call_soon_threadsafe(terminate)

    def _end_oldest(self, most: int) -> None:
        """Let connections that have not begun be no more than some; the oldest go."""
        starting = self._served.starting
        while len(starting) > most:
            starting.pop(next(iter(starting)))()

    async def _serve(self, accepted: socket.socket) -> None:
        """Run a session over a connection."""
        connection = Connection()
        session = Session(self._served, connection, next(self._pids))
        PID.set(session.pid)
        if (task := asyncio.current_task()) is not None:
            self._served.starting[session.pid] = task.cancel
        self._sessions[session.pid] = session
        self._served.activities[session.pid] = session.activity
        self._served.counts.connected()
        self._served.sessions[session.pid] = (lambda: session.key), session.cancel
        try:
            if await self._connected(accepted, connection):
                await session.run()
        except Exception:
            log.exception("the session has failed")
            connection.abort()
        finally:
            self._served.starting.pop(session.pid, None)
            del self._sessions[session.pid]
            del self._served.sessions[session.pid]
            del self._served.activities[session.pid]

    async def _connected(self, accepted: socket.socket, connection: Connection) -> bool:
        """Join a socket to its connection, by TLS where the client begins with that; False: it goes."""
        try:
            async with asyncio.timeout(self._served.limits.authentication_seconds):
                context = await self._direct_tls(accepted)
                await self._loop.connect_accepted_socket(lambda: connection, accepted, ssl=context)
            if accepted.family != socket.AF_UNIX:
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            log.debug("a connection has come to nothing: %s", error)
            accepted.close()
            return False
        return True

    async def _direct_tls(self, accepted: socket.socket) -> ssl.SSLContext | None:
        """Return what a client that begins with TLS is answered by; None for any other."""
        encryption = self._served.encryption
        if (
            encryption is None
            or accepted.family == socket.AF_UNIX
            or not self._served.cluster.version.accepts_direct_tls
        ):
            return None
        readable = asyncio.Event()
        self._loop.add_reader(accepted, readable.set)
        try:
            await readable.wait()
        finally:
            self._loop.remove_reader(accepted)
        return encryption.context if accepted.recv(1, socket.MSG_PEEK) == _TLS_HANDSHAKE else None

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
        for address in self.listening:
            if address.directory is not None:
                with suppress(OSError):
                    Path(str(address)).unlink()


def serve_until(
    stopping: Stopping, served: Served, addresses: Sequence[Address], listening: Callable[[Sequence[Address]], None]
) -> None:
    """Serve until told to end; streams are finished first. SIGHUP loads the files of access again.

    Args:
        stopping: tells the end, from any thread.
        served: what is served.
        addresses: that are listened to.
        listening: called with them once they are.

    Raises:
        HeadwaterError: an address cannot be had.
    """

    async def serve() -> None:
        service, loop = Service(served, addresses), asyncio.get_running_loop()
        most = served.limits.connections + served.limits.wal_senders + SPARE_THREADS
        loop.set_default_executor(ThreadPoolExecutor(most, "walsender"))

        def stop() -> None:
            loop.remove_reader(stopping.fileno())
            service.stop()

        loop.add_reader(stopping.fileno(), stop)
        if threading.current_thread() is threading.main_thread():
            loop.add_signal_handler(signal.SIGHUP, served.live_access.reload)
        await service.begin()
        listening(service.listening)
        await service.run()

    allow_open_files()
    asyncio.run(serve())
