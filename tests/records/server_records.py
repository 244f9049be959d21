"""Records as PostgreSQL's own readers list them: pg_walinspect in the server, pg_waldump beside it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_client
from headwater.pg.lsn import Lsn

_LINE = re.compile(
    r"rmgr: (?P<rmgr>\S+)\s+len \(rec/tot\):\s*(?P<rec>\d+)/\s*(?P<tot>\d+), tx:\s*(?P<tx>\d+), "
    r"lsn: (?P<lsn>\S+), prev (?P<prev>\S+), desc: (?P<name>\S+) ?(?P<text>.*)"
)


@dataclass(frozen=True)
class ServerRecord:
    """One record; ``end_lsn``, ``main_length`` are None where the reader does not tell them.

    ``text`` is what follows the name in its description, ``block_ref`` the blocks as pg_walinspect shows them.
    """

    lsn: int
    prev: int
    xid: int
    rmgr: str
    name: str
    length: int
    fpi_length: int
    end_lsn: int | None = None
    main_length: int | None = None
    text: str = field(default="", compare=False)
    block_ref: str = field(default="", compare=False)


@dataclass(frozen=True)
class RecordedWal:
    """A stopped server's WAL and what the server's own readers say of it.

    Attributes:
        major: PostgreSQL's major version.
        data_directory: of the stopped server.
        start: LSN where the workload began.
        end: LSN up to which ``inspected`` goes.
        inspected: pg_walinspect's records.
        blocks: pg_walinspect's block references with data and restored images (16 and newer).
        dumped: pg_waldump's records from the first segment on, None without that program.
    """

    major: int
    data_directory: Path
    start: int
    end: int
    inspected: list[ServerRecord]
    blocks: list[tuple[object, ...]]
    dumped: list[ServerRecord] | None

    @property
    def wal(self) -> Path:
        """Its ``pg_wal``."""
        return self.data_directory / "pg_wal"


def _lsn(text: str) -> Lsn:
    """Read an LSN that a server has written: a million of them, of which Lsn.parse would check each."""
    high, _, low = text.partition("/")
    return Lsn(int(high, 16) << 32 | int(low, 16))


def waldump_records(major: int, wal: Path) -> list[ServerRecord] | None:
    """Run pg_waldump from the first segment on to the end; None if there is no such program."""
    program = find_client("pg_waldump", major)
    if program is None:
        return None
    names = sorted(path.name for path in wal.iterdir() if re.fullmatch("[0-9A-F]{24}", path.name))
    timeline = int(names[-1][:8], 16)
    first = next(name for name in names if int(name[:8], 16) == timeline)
    return run_waldump(program, wal, timeline, first)


def run_waldump(program: Path, wal: Path, timeline: int, first: str) -> list[ServerRecord]:
    """Run pg_waldump, and read its lines from the segment named on."""
    # Segments here have 1 MB, 4096 of them to a "log".
    start = Lsn((int(first[8:16], 16) * 4096 + int(first[16:], 16)) << 20)
    run = subprocess.run(
        [str(program), "-p", str(wal), "-t", str(timeline), "-s", str(start)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    lines = [match for line in run.stdout.splitlines() if (match := _LINE.match(line))]
    return [
        ServerRecord(
            lsn=_lsn(m["lsn"]),
            prev=_lsn(m["prev"]),
            xid=int(m["tx"]),
            rmgr=m["rmgr"],
            name=m["name"],
            length=int(m["tot"]),
            fpi_length=int(m["tot"]) - int(m["rec"]),
            text=m["text"],
        )
        for m in lines
    ]


def inspect_records(server: EmbeddedPostgres, start: int, end: int) -> list[ServerRecord]:
    """Read pg_walinspect's records that start in [start, end); empty if the extension is not there."""
    with server.connect() as connection:
        if not connection.execute("select from pg_available_extensions where name = 'pg_walinspect'").fetchall():
            return []
        connection.execute("create extension if not exists pg_walinspect")
        connection.execute("set timezone = 'UTC'")
        rows = connection.execute(
            "select start_lsn, prev_lsn, xid, resource_manager, record_type, record_length, fpi_length, end_lsn,"
            " main_data_length, coalesce(description, ''), coalesce(block_ref, '')"
            " from pg_get_wal_records_info(%s, %s)",
            (str(Lsn(start)), str(Lsn(end))),
        ).fetchall()
    return [
        ServerRecord(
            _lsn(row[0]),
            _lsn(row[1]),
            int(row[2]),
            row[3],
            row[4],
            row[5],
            row[6],
            _lsn(row[7]),
            row[8],
            row[9],
            row[10],
        )
        for row in rows
    ]


def block_rows(server: EmbeddedPostgres, start: int, end: int) -> list[tuple[object, ...]]:
    """Read pg_walinspect's block references.

    LSN, id, locator, fork, block, data and the restored image (16 and newer).
    """
    with server.connect() as connection:
        if not connection.execute("select from pg_available_extensions where name = 'pg_walinspect'").fetchall():
            return []
        rows = connection.execute(
            "select start_lsn, block_id, reltablespace, reldatabase, relfilenode, relforknumber, relblocknumber,"
            " block_data, block_fpi_data, block_fpi_info from pg_get_wal_block_info(%s, %s)",
            (str(Lsn(start)), str(Lsn(end))),
        ).fetchall()
    return [(int(_lsn(row[0])), *row[1:]) for row in rows]
