"""Memory that the driver holds while it decodes 1, 4 and 8 GB of WAL: ``make bench-memory``.

Guards the promise that memory does not grow with the WAL. One server writes pgbench's transactions until there is WAL
enough; each size of it is decoded by the command from the same start on, as a user would, into part files. The peak is
what the command says of itself (``peak_memory_bytes`` of ``--stats-json``): its own process, without Spark's Java and
workers. Prints the table of docs/performance.md.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from logs import bench_server, copied, write_until
from our_runs import time_headwater
from server_runs import make_slot
from workloads import prepare_pgbench

GIGABYTES = (1, 4, 8)
TRANSACTIONS_PER_CALL = 20_000
# What pgbench's clients send, without the way there and back: each transaction has an id, and a commit, of its own.
TRANSACTIONS = """
CREATE PROCEDURE transactions(count integer) LANGUAGE plpgsql AS $$
DECLARE
    account integer; delta integer;
BEGIN
    FOR number IN 1..count LOOP
        account := 1 + random() * 999999;
        delta := random() * 10000 - 5000;
        UPDATE pgbench_accounts SET abalance = abalance + delta WHERE aid = account;
        UPDATE pgbench_tellers SET tbalance = tbalance + delta WHERE tid = 1 + account % 100;
        UPDATE pgbench_branches SET bbalance = bbalance + delta WHERE bid = 1 + account % 10;
        INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
            VALUES (1 + account % 100, 1 + account % 10, account, delta, now());
        COMMIT;
    END LOOP;
END $$
"""


@dataclass(frozen=True)
class Measured:
    """One window.

    Attributes:
        wal_bytes, changes: of it.
        peak_bytes: of the driver's memory.
        seconds: of decoding.
    """

    wal_bytes: int
    changes: int
    peak_bytes: int
    seconds: float


def write_transactions(connection: psycopg.Connection[Any]) -> None:
    """Write some transactions."""
    connection.execute(f"CALL transactions({TRANSACTIONS_PER_CALL})".encode())


def measure(sizes: tuple[int, ...], directory: Path, console: Console) -> list[Measured]:
    """Decode each window."""
    with bench_server({"synchronous_commit": "off"}) as server:
        with console.status("write the WAL"):
            prepare_pgbench(server)
            with server.connect() as connection:
                connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
                connection.execute(TRANSACTIONS.encode())
            backup = copied(server, directory / "backup")
            start = make_slot(server)
            ends = write_until(server, [size << 30 for size in sizes], write_transactions)
            server.stop()
        results = []
        for size, end in zip(sizes, ends, strict=True):
            with console.status(f"decode {size} GB"):
                results.append(measured(time_headwater(server.wal_directory, backup, start, directory, end)))
    return results


def measured(figures: dict[str, Any]) -> Measured:
    """Read the figures that the command says of itself."""
    return Measured(figures["wal_bytes"], figures["changes"], figures["peak_memory_bytes"], figures["decode_seconds"])


def main() -> None:
    """Measure the sizes asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("gigabytes", nargs="*", type=int, default=list(GIGABYTES))
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
        results = measure(tuple(parser.parse_args().gigabytes), Path(directory), console)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("WAL", "changes", "driver's peak", "seconds", "MB of WAL a second"):
        table.add_column(heading, justify="right")
    for result in results:
        row = [f"{result.wal_bytes / (1 << 30):.1f} GB", f"{result.changes:,}", f"{result.peak_bytes >> 20} MB"]
        table.add_row(*row, f"{result.seconds:.1f}", f"{(result.wal_bytes >> 20) / result.seconds:.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
