"""Windows of a mirror, and their cost over the size of its table: ``make bench-mirrors``.

A table is filled, copied with its server, and landed as Delta and Iceberg, merge-on-read. Then rows all over it are
updated, and each time landed as one window: the bytes of files that came with it, and the seconds without the start of
the program. Last a window is landed copy-on-write. DuckDB's own extensions scan the table when it is new and after all
windows of merge-on-read; what they sum up must be what the server says. The server writes no full pages to its WAL, as
between two checkpoints of a busy one: else most of a window would be these.

Figures go to ``build/bench-mirrors.json``, a chart of them beside it. 50 million rows need 30 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from logs import bench_server, copied
from mirror_charts import write_mirror_charts
from our_runs import land
from results import MEGABYTE
from server_runs import one_row
from snapshot import SMALL_LOG

BUILD = Path(__file__).resolve().parent.parent / "build"
MILLIONS = (0.5, 5.0, 50.0)
FORMATS = ("delta", "iceberg")
UPDATES = (100, 10_000, 100_000)
SCANS = 3
EXTENSIONS = ("avro", "httpfs", "iceberg", "delta")
SETTINGS = {**SMALL_LOG, "full_page_writes": "off", "maintenance_work_mem": "512MB"}

TABLE = "CREATE TABLE accounts (id bigint PRIMARY KEY, n integer, body text)"
FILL = "INSERT INTO accounts SELECT g, g % 1000, left(md5(g::text), 24) FROM generate_series({low}, {high}) g"
ROWS_AT_ONCE = 5_000_000
UPDATE = """
    UPDATE accounts SET n = n + 1
    WHERE id IN (SELECT 1 + floor(random() * {rows})::bigint FROM generate_series(1, {updates}))
"""
SUMS = "SELECT count(*), sum(n), sum(length(body)) FROM "


@dataclass(frozen=True)
class Window:
    """A window's cost.

    Attributes:
        write_mode: of the run; updates: rows that it updated.
        written: bytes of files that came with it; seconds: without the start of the program.
    """

    write_mode: str
    updates: int
    written: int
    seconds: float


@dataclass(frozen=True)
class Mirror:
    """The figures of one table in one format.

    Attributes:
        rows: that it has; format: its format.
        bytes_new: of its files when it was new; load_seconds: that took.
        first_seconds: of the first window, which makes the index of keys.
        scan_new, scan_after: seconds of DuckDB's scan of the new table, and after all windows.
        windows: each.
    """

    rows: int
    format: str
    bytes_new: int
    load_seconds: float
    first_seconds: float
    scan_new: float
    scan_after: float
    windows: tuple[Window, ...]


def measure(millions: float, formats: Sequence[str], directory: Path, console: Console) -> Iterator[Mirror]:
    """Measure one size, in each format."""
    rows = round(millions * 1_000_000)
    with bench_server(SETTINGS) as server:
        with console.status(f"{rows:,} rows: write them"):
            backup = _filled(server, rows, directory / "base")
        for name in formats:
            with console.status(f"{rows:,} rows: {name}"):
                yield _measured(server, backup, directory / name, name, rows)
            shutil.rmtree(directory / name)


def _filled(server: EmbeddedPostgres, rows: int, place: Path) -> Path:
    with server.connect() as connection:
        connection.execute(TABLE)
        for low in range(1, rows + 1, ROWS_AT_ONCE):
            connection.execute(FILL.format(low=low, high=min(low + ROWS_AT_ONCE - 1, rows)).encode())
        connection.execute("CHECKPOINT")
        connection.execute("SELECT pg_create_physical_replication_slot('bench', true)")
    return copied(server, place)


def _measured(server: EmbeddedPostgres, backup: Path, target: Path, name: str, rows: int) -> Mirror:
    run = _Runs(server, backup, target, name, rows)
    loaded = run.land("merge-on-read")
    bytes_new, scan_new = _size(target), run.scan()
    first = run.window("merge-on-read", 1)
    windows = [run.window("merge-on-read", updates) for updates in UPDATES]
    scan_after = run.scan()
    windows.append(run.window("copy-on-write", UPDATES[0]))
    run.scan()
    return Mirror(rows, name, bytes_new, loaded, first.seconds, scan_new, scan_after, tuple(windows))


@dataclass(frozen=True)
class _Runs:
    """The runs that land one table.

    Attributes:
        server: whose table it is; backup: with its rows; target: where it lands; format: as what; rows: that it has.
    """

    server: EmbeddedPostgres
    backup: Path
    target: Path
    format: str
    rows: int

    def land(self, write_mode: str) -> float:
        """Land what there is; return the seconds."""
        flags = [
            "--format",
            self.format,
            "--mode",
            "current",
            "--write-mode",
            write_mode,
            "--tables",
            "public.accounts",
        ]
        return float(land(self.server.wal_directory, self.backup, self.target, *flags)["land_seconds"])

    def window(self, write_mode: str, updates: int) -> Window:
        """Update rows, and land them."""
        with self.server.connect() as connection:
            connection.execute(UPDATE.format(rows=self.rows, updates=updates).encode())
        before = set(_files(self.target))
        seconds = self.land(write_mode)
        written = sum(path.stat().st_size for path in set(_files(self.target)) - before)
        return Window(write_mode, updates, written, seconds)

    def scan(self) -> float:
        """Return the median seconds of a scan.

        Raises:
            SystemExit: it does not say what the server says.
        """
        with self.server.connect() as connection:
            expected = one_row(connection, SUMS + "accounts")
        seconds = []
        with _duckdb() as connection:
            for _ in range(SCANS + 1):
                began = time.perf_counter()
                actual = connection.execute(SUMS + self._scanned()).fetchone()
                seconds.append(time.perf_counter() - began)
                if actual != tuple(expected):
                    raise SystemExit(f"{self.format}: DuckDB says {actual}, the server {expected}")
        return statistics.median(seconds[1:])

    def _scanned(self) -> str:
        if self.format == "delta":
            return f"delta_scan('{self.target / 'public.accounts'}')"
        newest = max(self.target.glob("**/metadata/*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
        return f"iceberg_scan('{newest}')"


@contextmanager
def _duckdb() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name in EXTENSIONS:
            spec = find_spec(f"duckdb_extension_{name}")
            if spec is None or spec.origin is None:
                raise SystemExit(f"DuckDB's extension {name} is not installed: make bench-mirrors installs it")
            (path,) = Path(spec.origin).parent.glob(f"extensions/*/{name}.duckdb_extension")
            connection.execute(f"LOAD '{path}'")
        yield connection


def _files(target: Path) -> Iterator[Path]:
    """Give the files of a target, without what is Headwater's own beside it: its index of keys, and states."""
    return (path for path in target.rglob("*") if path.is_file() and "_headwater" not in path.parts)


def _size(target: Path) -> int:
    return sum(path.stat().st_size for path in _files(target))


def main() -> None:
    """Measure the sizes asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("millions", nargs="*", type=float, default=MILLIONS, help="of rows")
    parser.add_argument("--format", action="append", choices=FORMATS, help="default: all")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=160)
    mirrors: list[dict[str, Any]] = []
    for millions in arguments.millions:
        with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
            Path(directory).chmod(0o755)
            for mirror in measure(millions, arguments.format or FORMATS, Path(directory), console):
                mirrors.append(asdict(mirror))
                _show(console, mirror)
    place = BUILD / "bench-mirrors.json"
    place.write_text(json.dumps({"mirrors": mirrors}, indent=1) + "\n")
    console.print("written to " + ", ".join(map(str, [place, *write_mirror_charts(place, BUILD)])))


def _show(console: Console, mirror: Mirror) -> None:
    console.print(
        f"{mirror.rows:,} rows, {mirror.format}: {mirror.bytes_new / MEGABYTE:.0f} MB in {mirror.load_seconds:.1f} s; "
        f"first window {mirror.first_seconds:.1f} s; scans {mirror.scan_new:.2f} s and {mirror.scan_after:.2f} s"
    )
    for window in mirror.windows:
        cost = f"{window.written / MEGABYTE:.2f} MB, {window.seconds:.1f} s"
        console.print(f"  {window.updates:,} updates, {window.write_mode}: {cost}")


if __name__ == "__main__":
    main()
