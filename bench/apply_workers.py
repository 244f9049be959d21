"""``headwater apply`` with several sessions on the target, beside one: seconds to catch up, and its processor.

Run by itself, as ``python bench/apply_workers.py [CHANGES [NAMES]]``. The target is at hand, or behind a relay that
lets each byte take some time, as a network does; or its rows take time. Each kind is run in turns, on a database of its
own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from apply_speed import Ends, applying, await_mark, ends
from workloads import PGBENCH

TURNS = 3
DELAY_SECONDS = 0.0025
"""How long a byte takes each way."""


@dataclass(frozen=True)
class Kind:
    """A kind of run: flags of the command, and whether the target is far, or its rows take time."""

    name: str
    flags: tuple[str, ...] = ()
    is_far: bool = False
    is_slow: bool = False


_ORDERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("one session", ()),
    ("2 workers", ("--workers", "2")),
    ("3 workers", ("--workers", "3")),
    ("3 workers, --order keys", ("--workers", "3", "--order", "keys")),
)
SLOW = (
    """CREATE FUNCTION slow(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
       $$ BEGIN PERFORM pg_catalog.pg_sleep(0.0001); RETURN $1; END $$""",
    "CREATE INDEX ON pgbench_history (slow(aid))",
)
"""Lets each row that is inserted take some time of the target's, but none of this machine's processor."""

KINDS = [
    Kind(f"{name}{where}{more}", (*flags, *sync), where == ", far", where == ", slow rows")
    for where in ("", ", far", ", slow rows")
    for more, sync in (("", ()), (", synchronous", ("--synchronous-commit", "on")))
    for name, flags in _ORDERS
]


class Relay:
    """A relay to a server's socket; a context manager that ends it.

    Args:
        path: of the socket.

    Attributes:
        port: where it listens, on the loopback.
    """

    def __init__(self, path: str) -> None:
        self._path, self.port = path, 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Relay:
        self._thread.start()
        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1"), self._loop).result()
        self.port = server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(self._path)
        await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 18):
            self._loop.call_later(DELAY_SECONDS, writer.write, data)
        self._loop.call_later(DELAY_SECONDS, writer.close)


@contextmanager
def _place(place: str, *, is_far: bool) -> Iterator[str]:
    """Give the connection string of the target, through a relay if it is to be far."""
    if not is_far:
        yield place
        return
    info = dict(part.split("=", 1) for part in place.replace("'", "").split())
    with Relay(f"{info['host']}/.s.PGSQL.{info['port']}") as relay:
        yield f"host=127.0.0.1 port={relay.port} user={info['user']} dbname={info['dbname']} sslmode=disable"


def main(changes: int, names: Sequence[str]) -> None:
    """Measure, and print."""
    kinds = [kind for kind in KINDS if not names or any(name in kind.name for name in names)]
    with tempfile.TemporaryDirectory() as directory, ends(PGBENCH, Path(directory)) as pair:
        PGBENCH.run(pair.source, changes)
        pair.mark(0)
        for turn in range(TURNS):
            for number, kind in enumerate(kinds):
                wall, spent = _run(pair, f"run_{turn}_{number}", kind)
                print(f"{kind.name}: {wall:.2f} s, processor {spent:.2f} s", flush=True)


def _run(pair: Ends, name: str, kind: Kind) -> tuple[float, float]:
    with pair.database(name) as own, _place(own, is_far=kind.is_far) as place:
        if kind.is_slow:
            with psycopg.connect(own, autocommit=True) as connection:
                for statement in SLOW:
                    connection.execute(statement.encode())
        began, spent = time.perf_counter(), os.times()
        with applying(pair, name, place, *kind.flags) as process:
            await_mark(own, 0, process)
            wall = time.perf_counter() - began
        after = os.times()
    return wall, after.children_user + after.children_system - spent.children_user - spent.children_system


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400_000, sys.argv[2:])
