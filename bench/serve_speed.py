"""``headwater serve`` beside the server's own walsender: how fast a stream is, how many share it, how late it comes.

Clients are pg_recvlogical, which writes to a file, message by message: what it needs itself is in both figures. So
``serve_read`` has a client that only reads the socket. Slots are made before the workload, which then lies behind all
of them: they catch up. Of the fan-out the time counts until the last has all.
"""

from __future__ import annotations

import os
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from headwater.receiver.base_backup import BackupRequest, take_backup
from headwater.receiver.frame_stream import start_frames
from headwater.receiver.replication_connection import ReplicationConnection
from headwater.walsender.access.users import User, Users, write_users
from logs import bench_server
from results import Measurement, Result, Sitting
from server_runs import OPTIONS, RUNS, one_row
from workloads import PGBENCH_CLIENTS, prepare_pgbench, run_pgbench

CHANGES = 2_000_000
KEEPALIVE = struct.Struct(">cIcq8x?")
"""The frame that says how far the stream has come: CopyData, its length, kind, LSN, time, whether to answer."""
READ_BYTES = 1 << 20
ALIKE = 0.001
"""The share by which two streams may differ, which have keepalives at other moments."""
SUBSCRIBERS = 20
PUBLICATIONS = {
    "everything": "ALL TABLES",
    "accounts": "TABLE pgbench_accounts",
    "tellers": "TABLE pgbench_tellers",
    "branches": "TABLE pgbench_branches",
    "history": "TABLE pgbench_history",
}
RATE, SECONDS, WARM_UP_SECONDS = 1000, 30.0, 5.0
CATCHING_UP = {"serve_throughput", "serve_read", "serve_fanout"}
LATENCIES = {"serve_latency_p50_ms": (50, 50.0), "serve_latency_p99_ms": (99, 250.0)}
"""By name: which percentile, and what it may be at most."""


@dataclass(frozen=True)
class Peer:
    """A server that a client streams from.

    Attributes:
        environment: of clients, which leads them to it; program: pg_recvlogical.
        pid: of a service's process.
    """

    environment: Mapping[str, str]
    program: Path
    pid: int | None = None

    @property
    def conninfo(self) -> str:
        """The connection string of a subscription."""
        place = {name: self.environment[f"PG{name.upper()}"] for name in ("host", "port", "user")}
        return " ".join(f"{name}={value}" for name, value in place.items()) + " dbname=postgres"

    def processor_seconds(self) -> float:
        """Return what the service's process has taken so far, of all cores (proc(5): utime and stime)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def make_slot(self, name: str, plugin: str = "pgoutput") -> None:
        """Make a slot at the end of the log."""
        self._run("--slot", name, "--create-slot", "--plugin", plugin)

    def drop_slot(self, name: str) -> None:
        """Drop a slot."""
        self._run("--slot", name, "--drop-slot")

    def stream(self, slot: str, file: Path, end: str, publication: str = "everything") -> subprocess.Popen[bytes]:
        """Begin to stream up to an LSN."""
        options = {**dict(OPTIONS), "publication_names": publication}
        words = ["--slot", slot, "--start", "--endpos", end, "--no-loop", "--file", str(file)]
        words += [part for name, value in options.items() for part in ("--option", f"{name}={value}")]
        return subprocess.Popen(self._command(*words), env=dict(self.environment))

    def read(self, slot: str, end: str) -> tuple[float, int]:
        """Read a stream up to an LSN, and do nothing with it; return the seconds, and the bytes."""
        began, until, tail, size = time.perf_counter(), Lsn.parse(end), b"", 0
        words = ", ".join(f"{name} '{value}'" for name, value in OPTIONS)
        with ReplicationConnection(self.conninfo, "postgres") as connection:
            stream = start_frames(connection, f"START_REPLICATION SLOT {slot} LOGICAL 0/0 ({words})")
            while not _has_come(tail, until):
                stream.wait(1.0)
                data = stream.frames(READ_BYTES)
                size, tail = size + len(data), (tail + data)[-KEEPALIVE.size :]
        return time.perf_counter() - began, size

    def _run(self, *words: str) -> None:
        subprocess.run(self._command(*words), env=dict(self.environment), check=True, capture_output=True)

    def _command(self, *words: str) -> list[str]:
        return [str(self.program), "--dbname", "postgres", *words]


def _has_come(tail: bytes, until: int) -> bool:
    """Tell whether the last frame says that all was sent up to an LSN."""
    if len(tail) < KEEPALIVE.size:
        return False
    kind, size, what, lsn, _ = KEEPALIVE.unpack(tail)
    return bool((kind, size, what) == (b"d", KEEPALIVE.size - 1, b"k") and lsn >= until)


@contextmanager
def serving(server: EmbeddedPostgres, directory: Path) -> Iterator[tuple[Peer, Peer]]:
    """Back a server up, and serve its WAL as it writes it; give the server and the service."""
    backup, rules, users = directory / "serve-base", directory / "hba.conf", directory / "users.toml"
    take_backup(BackupRequest(conninfo=conninfo(server), directory=backup))
    rules.write_text("host all,replication all 127.0.0.1/32 trust\n")
    write_users(users, Users().with_user(User("postgres", may_copy_all=True)))
    command = [sys.executable, "-m", "headwater.cli.main", "serve", "--listen", "127.0.0.1:0"]
    command += ["--wal", str(server.wal_directory), "--catalog", str(backup), "--slots", str(directory / "slots")]
    command += ["--auth", str(rules), "--users", str(users)]
    program = server.programs.program("pg_recvlogical")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        port = service.stdout.readline().rpartition(":")[2].strip()
        ours = {"PGHOST": "127.0.0.1", "PGPORT": port, "PGUSER": "postgres"}
        try:
            environment = server.client_environment()
            yield Peer(environment, program), Peer({**environment, **ours}, program, service.pid)
        finally:
            service.terminate()


def measure(sitting: Sitting, names: Collection[str]) -> list[Result]:
    """Start a server and a service, and stream from both in turns."""
    results: list[Result] = []
    with bench_server({"max_wal_senders": "30"}) as server:
        prepare_pgbench(server)
        with server.connect() as connection:
            for name, tables in PUBLICATIONS.items():
                connection.execute(f"CREATE PUBLICATION {name} FOR {tables}".encode())
        with serving(server, sitting.directory) as (theirs, ours):
            if CATCHING_UP & set(names):
                results += _catching_up(server, theirs, ours, sitting, names)
            if set(LATENCIES) & set(names):
                results += _latency(server, ours, sitting, names)
    return results


def _catching_up(
    server: EmbeddedPostgres, theirs: Peer, ours: Peer, sitting: Sitting, names: Collection[str]
) -> list[Result]:
    runs, changes = sitting.runs or RUNS, sitting.changes or CHANGES
    slots = [f"alone_{number}" for number in range(runs + 1)]
    many = [[f"many_{number}_{turn}" for number in range(SUBSCRIBERS)] for turn in range(runs)]
    for slot in (*slots, "bench", *(name for turn in many for name in turn)):
        ours.make_slot(slot)
    theirs.make_slot("bench")
    with sitting.console.status(f"serve: write {changes:,} changes"):
        run_pgbench(server, changes)
    with server.connect() as connection:
        end = str(one_row(connection, "SELECT pg_current_wal_flush_lsn()::text")[0])
    results = []
    if CATCHING_UP - {"serve_read"} & set(names):
        with sitting.console.status("serve: one subscriber, in turns with the server's"):
            result, alone = _alone(server, theirs, ours, slots, (sitting.directory, end, changes))
        results += [result] if result.name in names else []
    if "serve_read" in names:
        with sitting.console.status("serve: a client that only reads, in turns with the server's"):
            results.append(_read_in_turns(theirs, ours, runs, end, changes))
    if "serve_fanout" in names:
        with sitting.console.status(f"serve: {SUBSCRIBERS} subscribers"):
            results.append(_fanout(ours, many, alone, sitting.directory, end))
    return results


def _alone(
    server: EmbeddedPostgres, theirs: Peer, ours: Peer, slots: Sequence[str], work: tuple[Path, str, int]
) -> tuple[Result, Alone]:
    """Stream to one client at a time, in turns with the server; the first run warms up."""
    directory, end, changes = work
    seconds: dict[str, list[float]] = {"ours": [], "server": []}
    processor, clients = [], []
    for slot in slots:
        before, times = ours.processor_seconds(), os.times()
        seconds["ours"].append(_timed([(ours, slot, "everything")], directory, end))
        processor.append(ours.processor_seconds() - before)
        clients.append(_children_since(times))
        with server.connect() as connection:
            connection.execute("SELECT pg_copy_logical_replication_slot('bench', 'client')")
        seconds["server"].append(_timed([(theirs, "client", "everything")], directory, end))
        theirs.drop_slot("client")
    about = f"pg_recvlogical, {changes:,} changes of pgbench behind"
    rates = {name: tuple(changes / each for each in times[1:]) for name, times in seconds.items()}
    alone = Alone(statistics.median(seconds["ours"][1:]), statistics.median(processor[1:]))
    more = {"service_processor_seconds": alone.processor_seconds, "client_share": _share(clients, seconds["ours"])}
    beside = {"server": rates["server"]}
    return Result("serve_throughput", about, "changes/s", rates["ours"], beside, target=3.0, more=more), alone


def _share(processor: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the share of the time in which a client has worked, but for the first run."""
    return statistics.median(processor[1:]) / statistics.median(seconds[1:])


def _read_in_turns(theirs: Peer, ours: Peer, runs: int, end: str, changes: int) -> Result:
    """Read the same stream of both, and do nothing with it; nothing is confirmed, so a slot gives it again."""
    seconds: dict[str, list[float]] = {"ours": [], "server": []}
    for _ in range(runs + 1):
        (mine, size), (its, its_size) = ours.read("bench", end), theirs.read("bench", end)
        if abs(size - its_size) > ALIKE * its_size:
            raise SystemExit(f"{size} bytes were read from the service, {its_size} from the server")
        seconds["ours"].append(mine)
        seconds["server"].append(its)
    rates = {name: tuple(changes / each for each in times[1:]) for name, times in seconds.items()}
    about = f"a client that only reads, {changes:,} changes of pgbench behind"
    return Result("serve_read", about, "changes/s", rates["ours"], {"server": rates["server"]})


def _children_since(times: os.times_result) -> float:
    """Return what children that have ended since have taken of the processor, in seconds."""
    now = os.times()
    return now.children_user - times.children_user + now.children_system - times.children_system


@dataclass(frozen=True)
class Alone:
    """The cost of one subscriber: seconds, and seconds of the service's processor."""

    seconds: float
    processor_seconds: float


def _fanout(ours: Peer, many: Sequence[Sequence[str]], alone: Alone, directory: Path, end: str) -> Result:
    """Stream to many at once. Their clients need the cores, too: ``more`` tells how much of it is theirs."""
    publications = [list(PUBLICATIONS)[number % len(PUBLICATIONS)] for number in range(SUBSCRIBERS)]
    runs, processor, clients = [], [], []
    for slots in many:
        before, times = ours.processor_seconds(), os.times()
        together = _timed([(ours, *it) for it in zip(slots, publications, strict=True)], directory, end)
        runs.append(together / alone.seconds)
        processor.append((ours.processor_seconds() - before) / alone.processor_seconds)
        clients.append(_children_since(times) / (os.cpu_count() or 1) / alone.seconds)
    about = f"{SUBSCRIBERS} subscribers of {len(PUBLICATIONS)} publications catching up, over one"
    more = {
        "service_processor_times": statistics.median(processor),
        "clients_alone_times_at_least": statistics.median(clients),
    }
    return Result("serve_fanout", about, "times", tuple(runs), is_cost=True, target=2.0, more=more)


def _timed(streams: Sequence[tuple[Peer, str, str]], directory: Path, end: str) -> float:
    """Return the seconds until all have everything."""
    files = [directory / slot for _, slot, _ in streams]
    began = time.perf_counter()
    clients = [
        peer.stream(slot, file, end, publication)
        for (peer, slot, publication), file in zip(streams, files, strict=True)
    ]
    if any(status != 0 for status in [client.wait() for client in clients]):
        raise SystemExit("a client has failed")
    seconds = time.perf_counter() - began
    for file in files:
        file.unlink()
    return seconds


def _latency(server: EmbeddedPostgres, ours: Peer, sitting: Sitting, names: Collection[str]) -> list[Result]:
    """Read what a client prints while pgbench sends transactions at an even rate."""
    seconds = sitting.seconds or SECONDS
    ours.make_slot("late", "test_decoding")
    words = ["--slot", "late", "--start", "--file", "-", "--option", "include-timestamp=1"]
    command = [str(ours.program), "--dbname", "postgres", *words]
    with subprocess.Popen(command, env=dict(ours.environment), stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        arrivals: list[tuple[float, float]] = []
        reading = threading.Thread(target=_read, args=(client.stdout, arrivals))
        reading.start()
        load = [str(server.programs.program("pgbench")), "--no-vacuum", "--protocol", "prepared"]
        load += ["--client", str(PGBENCH_CLIENTS), "--rate", str(RATE), "--time", str(round(seconds + WARM_UP_SECONDS))]
        began = time.time() + WARM_UP_SECONDS
        with sitting.console.status(f"serve: {RATE} transactions a second"):
            subprocess.run(load, env=server.client_environment(), check=True, capture_output=True)
        time.sleep(1)
        client.terminate()
        reading.join()
    late = np.array([arrived - committed for committed, arrived in arrivals if committed > began]) * 1000
    about = f"commit to pg_recvlogical, {RATE:,} transactions/s, p"
    return latencies(LATENCIES, names, about, np.array_split(late, sitting.runs or RUNS), len(late) / seconds)


def latencies(
    figures: Mapping[str, tuple[int, float]],
    names: Collection[str],
    about: str,
    parts: Sequence[NDArray[np.float64]],
    rate: float,
) -> list[Result]:
    """Return figures of how late transactions came.

    Args:
        figures: by name the percentile, and the milliseconds that it may be at most; names: those that are wanted.
        about: for people, up to the percentile.
        parts: milliseconds of the transactions of each part of the time; rate: transactions a second.
    """
    return [
        Result(
            *(name, f"{about}{percentile}", "ms", tuple(float(np.percentile(part, percentile)) for part in parts)),
            is_cost=True,
            target=at_most,
            more={"transactions_per_second": rate},
        )
        for name, (percentile, at_most) in figures.items()
        if name in names
    ]


def _read(stream: Iterator[bytes], arrivals: list[tuple[float, float]]) -> None:
    for line in stream:
        if line.startswith(b"COMMIT"):
            text = line.decode().rpartition("(at ")[2].rstrip(")\n")
            arrivals.append((datetime.fromisoformat(text + ":00" * (text[-3] in "+-")).timestamp(), time.time()))


def conninfo(server: EmbeddedPostgres, database: str = "postgres") -> str:
    """Return the connection string of a server's database."""
    environment = server.client_environment()
    return f"host={environment['PGHOST']} port={environment['PGPORT']} user={environment['PGUSER']} dbname={database}"


MEASUREMENT = Measurement(("serve_throughput", "serve_read", "serve_fanout", *LATENCIES), measure)
