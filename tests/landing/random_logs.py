"""Random work on a server: two copies of its files, its log, and at moments between what its tables held.

One copy is of the stopped server; the other one was taken while all sessions wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from landing.mirrors import HeldColumn, Rows, held_columns, server_rows
from landing.online_backups import back_up
from landing.threaded_work import SETTINGS, ThreadedWork, set_up

ROUNDS, STEPS = 8, 45
BACKUP_ROUND = 2
"""In which the server is copied while it works."""

STOPPED, ONLINE = "stopped", "online"
PAGE = 8192
HEADERS = (24, 40)
"""Bytes of a page's header, and of a segment's (SizeOfXLogShortPHD, SizeOfXLogLongPHD)."""

_TABLES = """
SELECT quote_ident(relname) FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND relpersistence = 'p'
"""


@dataclass(frozen=True)
class Held:
    """The columns and rows that a table held.

    Attributes:
        columns: that are stored; rows: by them.
    """

    columns: tuple[HeldColumn, ...]
    rows: Rows


@dataclass(frozen=True)
class Moment:
    """The rows that all tables held at once.

    Attributes:
        lsn: before which everything had committed that they held; tables: by their names, quoted where need be.
        relations: names of all of them, partitions, too.
    """

    lsn: int
    tables: dict[str, Held]
    relations: frozenset[str]


@dataclass(frozen=True)
class RandomLog:
    """A stopped server's files.

    Attributes:
        major, seed: of what.
        copies: STOPPED and ONLINE; since: LSN from which on what follows each of them is whole.
        wal: directory.
        moments: in order.
    """

    major: int
    seed: int
    copies: dict[str, Path]
    since: dict[str, int]
    wal: Path
    moments: tuple[Moment, ...]

    def moments_of(self, copy: str) -> list[Moment]:
        """List the moments that can be seen after a copy."""
        return [moment for moment in self.moments if moment.lsn >= self.since[copy]]


@contextmanager
def random_log(major: int, seed: int, place: Path) -> Iterator[RandomLog]:
    """Let a server work.

    Args:
        major: its version; seed: says what is done.
        place: for the copies.
    """
    server = EmbeddedPostgres(find_programs(major), settings=SETTINGS, wal_segment_megabytes=1, data_checksums=True)
    with server:
        with server.connect() as connection:
            set_up(connection)
        before = ThreadedWork(server.connect, seed, 0)
        before.round(STEPS)
        before.close()
        server.stop()
        copies = {STOPPED: server.copy_data_directory(place / STOPPED), ONLINE: place / ONLINE}
        server.start()
        with server.connect() as connection:
            moments = [_moment(connection)]
            since = {STOPPED: moments[0].lsn}
            work = ThreadedWork(server.connect, seed, 1)
            for number in range(ROUNDS):
                if number == BACKUP_ROUND:
                    since[ONLINE] = _copied(server, work, copies[ONLINE])
                else:
                    work.round(STEPS)
                moments.append(_seen(connection, work))
            work.close()
            moments.append(_moment(connection))
        server.stop()
        yield RandomLog(major, seed, copies, since, server.wal_directory, tuple(moments))


def _copied(server: EmbeddedPostgres, work: ThreadedWork, target: Path) -> int:
    """Copy a server's files while it works; an LSN behind which decoding has begun that begins with the copy.

    The server is told to begin where nothing of the sessions is open any more. Autovacuum may have a transaction, for
    which it waits, as who has begun earlier need not.
    """
    copying = Thread(target=back_up, args=(server, target))
    copying.start()
    while copying.is_alive():
        work.round(STEPS // 3)
    copying.join()
    work.round(STEPS // 3)
    work.settle()
    with server.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('begun', 'test_decoding', true)")
        return _lsn(connection)


def _seen(connection: psycopg.Connection[Any], work: ThreadedWork) -> Moment:
    """Read what tables hold; locks that are in the way are let go first."""
    connection.execute("SET lock_timeout = '100ms'")
    try:
        return _moment(connection)
    except psycopg.errors.LockNotAvailable:
        work.settle()
        return _moment(connection)


def _moment(connection: psycopg.Connection[Any]) -> Moment:
    lsn = _lsn(connection)
    names = [str(name) for (name,) in connection.execute(_TABLES).fetchall()]
    tables = {name: Held(tuple(held_columns(connection, name)), server_rows(connection, name)[1]) for name in names}
    relations = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    ).fetchall()
    return Moment(lsn, tables, frozenset(str(name) for (name,) in relations))


def _lsn(connection: psycopg.Connection[Any]) -> int:
    """Find the end of the WAL: before the header of a page that has nothing else, as whoever stops there has read."""
    row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    lsn = int(Lsn.parse(row[0]))
    return lsn - lsn % PAGE if lsn % PAGE in HEADERS else lsn
