"""Changes a second that current Delta tables take while the server works: ``land --follow --mode current``.

A session of the server inserts, updates and deletes, 60/30/10, in transactions of ten changes: new rows at the end of
a table of a million, updates anywhere in it, deletes of the oldest. It writes as fast as it can, but waits while it is
more than 64 MB of WAL ahead of what has landed: so the lag has a bound, and the rate is one that can go on. It is that
behind the first third of the time, which does not count; its range is that of five parts of the rest. In the end the
mirror must have the server's rows.
"""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow.compute as pc
from deltalake import DeltaTable

from headwater.pg.lsn import Lsn
from logs import INSERT_LSN, bench_server, copied
from our_runs import COMMAND
from results import Measurement, Result, Runs, Sitting
from server_runs import RUNS, one_row
from workloads import SALE, prepare_inserts, run_inserts

ROWS = 1_000_000
SECONDS, PATIENCE_SECONDS = 90.0, 600.0
LEAD_BYTES = 64 << 20
TRANSACTIONS_PER_CALL = 500
INSERTED, UPDATED, DELETED = 6, 3, 1
WORK = f"""
CREATE PROCEDURE work(transactions integer, oldest bigint, newest bigint) LANGUAGE plpgsql AS $$
DECLARE
    first bigint; second bigint; third bigint;
BEGIN
    FOR number IN 1..transactions LOOP
        INSERT INTO sales SELECT {SALE} FROM generate_series(newest + 1, newest + {INSERTED}) g;
        first := oldest + 1 + floor(random() * (newest - oldest));
        second := oldest + 1 + floor(random() * (newest - oldest));
        third := oldest + 1 + floor(random() * (newest - oldest));
        UPDATE sales SET amount = amount + 1, paid = NOT paid WHERE id IN (first, second, third);
        DELETE FROM sales WHERE id = oldest;
        newest := newest + {INSERTED};
        oldest := oldest + {DELETED};
        COMMIT;
    END LOOP;
END $$
"""


@dataclass(frozen=True)
class Window:
    """A window that has landed, as the run reports it.

    Attributes:
        time: when, in seconds since 1970; resolved: LSN up to which all is there; rows: that have landed so far.
        delay: seconds since its last commit; None without one.
    """

    time: float
    resolved: int
    rows: int
    delay: float | None


@dataclass
class Windows:
    """The windows that a run which follows reports, as they come."""

    so_far: list[Window] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _has_ended: bool = False

    def read(self, lines: Any) -> None:
        """Read the lines of standard error, in a thread of its own."""
        for line in lines:
            if line.startswith("{"):
                self._take(json.loads(line))
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "window":
            window = Window(event["time"], Lsn.parse(event["resolved_lsn"]), event["rows"], event["delay_seconds"])
            with self._changed:
                self.so_far.append(window)
                self._changed.notify_all()

    def wait_for(self, lsn: int) -> None:
        """Wait until all up to an LSN has landed.

        Raises:
            SystemExit: it does not come.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._has_ended or self._resolved >= lsn, PATIENCE_SECONDS)
            if self._resolved < lsn:
                raise SystemExit(f"landing has come to {Lsn(self._resolved)} and not to {Lsn(lsn)}")

    @property
    def _resolved(self) -> int:
        return self.so_far[-1].resolved if self.so_far else 0


def measure(sitting: Sitting, _names: Collection[str]) -> list[Result]:
    """Follow a server that works."""
    seconds, target = sitting.seconds or SECONDS, sitting.directory / "live"
    with bench_server() as server, sitting.console.status("live: inserts, updates and deletes into current tables"):
        prepare_inserts(server)
        run_inserts(server, sitting.changes or ROWS)
        with server.connect() as connection:
            connection.execute(WORK.encode())
        backup = copied(server, sitting.directory / "live-backup")
        with server.connect() as connection, following(server.wal_directory, backup, target) as windows:
            windows.wait_for(_reached(connection))
            began = time.time()
            work(connection, windows, began + seconds)
            ended = time.time()
            windows.wait_for(_reached(connection))
            check_same(connection, target / "public.sales")
    return [_result(windows.so_far, began + seconds / 3, ended)]


def _result(windows: list[Window], began: float, ended: float) -> Result:
    times, rows = [window.time for window in windows], [window.rows for window in windows]
    edges = np.linspace(began, ended, RUNS + 1)
    parts = np.diff(np.interp(edges, times, rows)) / np.diff(edges)
    counted = [window for window in windows if began <= window.time <= ended]
    delays = [window.delay for window in counted if window.delay is not None]
    more = {"windows": float(len(counted)), "delay_p50_seconds": statistics.median(delays) if delays else 0.0}
    rates: Runs = tuple(map(float, parts))
    return Result("live_cdc", "60/30/10 into current Delta tables, live", "changes/s", rates, more=more)


@contextmanager
def following(wal: Path, backup: Path, target: Path) -> Iterator[Windows]:
    """Run ``headwater land`` that follows a log until the block ends."""
    command = [COMMAND, "land", "--wal", str(wal), "--catalog", str(backup), "--database", "postgres", "--to"]
    command += [str(target), "--mode", "current", "--format", "delta", "--follow", "--progress", "json"]
    command += ["--commit-every", "0"]
    windows = Windows()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        reader = threading.Thread(target=windows.read, args=(process.stderr,))
        reader.start()
        try:
            yield windows
            process.send_signal(signal.SIGTERM)
            if process.wait(PATIENCE_SECONDS):
                raise SystemExit(f"headwater land ended with status {process.returncode}")
        finally:
            process.kill()
            reader.join()


def work(connection: psycopg.Connection[Any], windows: Windows, until: float) -> None:
    """Write until a moment, no further ahead than may be."""
    oldest, newest = one_row(connection, "SELECT min(id), max(id) FROM sales")
    while time.time() < until:
        connection.execute(f"CALL work({TRANSACTIONS_PER_CALL}, {oldest}, {newest})".encode())
        oldest, newest = oldest + DELETED * TRANSACTIONS_PER_CALL, newest + INSERTED * TRANSACTIONS_PER_CALL
        windows.wait_for(Lsn.parse(one_row(connection, INSERT_LSN)[0]) - LEAD_BYTES)


def _reached(connection: psycopg.Connection[Any]) -> int:
    """Return an LSN that is there when all before it is: a message after it is longer than what a page begins with."""
    reached = Lsn.parse(one_row(connection, INSERT_LSN)[0])
    connection.execute("SELECT pg_logical_emit_message(false, 'end', repeat('x', 200))")
    return reached


def check_same(connection: psycopg.Connection[Any], place: Path) -> None:
    """Check that the mirror has the table's rows, as far as counts and sums tell.

    Raises:
        SystemExit: it has others.
    """
    theirs = one_row(connection, "SELECT count(*), sum(id)::bigint, sum(amount) FROM sales")
    rows = DeltaTable(str(place)).to_pyarrow_table(columns=["id", "amount"])
    ours = (len(rows), pc.sum(rows["id"]).as_py(), pc.sum(rows["amount"]).as_py())
    if theirs != ours:
        raise SystemExit(f"the server has (rows, sum of ids, sum of amounts) {theirs}, the mirror {ours}")


MEASUREMENT = Measurement(("live_cdc",), measure)
