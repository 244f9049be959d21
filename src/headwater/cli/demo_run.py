"""``headwater demo``: run a real server, stop it, decode its WAL, and compare with what the server itself had said.

Everything happens on this machine, in temporary directories that are gone afterwards. The base copy is taken before
the workload's tables exist: what Headwater knows of them, it has read from the WAL.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headwater.base.kernels import is_compiled
from headwater.base.temporary_directories import OwnDirectory
from headwater.demo.change_counts import TableCounts, count_changes
from headwater.demo.shop_workload import SESSIONS, ShopWorkload
from headwater.demo.stream_comparison import first_difference, joined, messages_table
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_errors import LocalServerError
from headwater.local_servers.server_programs import bundled_programs
from headwater.pg.lsn import Lsn
from headwater.pipeline.decode import decode
from headwater.pipeline.requests.request import DecodeRequest
from headwater.spark.session import spark_session, warm_up

PUBLICATION = "everything"
OPTIONS = (("proto_version", "1"), ("publication_names", PUBLICATION), ("messages", "true"))
PGBENCH_CLIENTS = 4
SAMPLE_LINES = 12


def run_demo(seed: int = 1, pgbench_transactions: int = 1000, shop_rounds: int = 150, master: str | None = None) -> int:
    """Run the whole demo, shown on standard output.

    Args:
        seed: of the shop workload.
        pgbench_transactions: per client; there are 4.
        shop_rounds: transactions of each of the shop's 4 sessions.
        master: Spark master, None for all cores of this machine.

    Returns:
        exit status: 0 when the streams are byte-identical, else 1.

    Raises:
        HeadwaterError: the server or the decoding failed.
    """
    console = Console(highlight=False)
    with ExitStack() as stack:
        directory = stack.enter_context(OwnDirectory())
        with _step(console, "start PostgreSQL 16, copy its data directory, create a logical slot"):
            server = stack.enter_context(EmbeddedPostgres(bundled_programs(16)))
            backup = _backup(server, directory)
            start = _make_slot(server)
        shop = ShopWorkload(server.connect, seed)
        with _step(console, f"run pgbench ({PGBENCH_CLIENTS} clients) and a small shop ({SESSIONS} sessions)"):
            _pgbench(server, pgbench_transactions)
            shop.run(shop_rounds)
        with _step(console, "ask the server's own pgoutput for the changes, then stop the server"):
            theirs = _peek(server)
            server.stop()
        with _step(console, "start Spark"):
            spark = spark_session(master)
            warm_up(spark)
        first = "" if is_compiled("headwater.wal.records._frames") else " (and compile its kernels, this once)"
        with _step(console, f"decode the stopped server's WAL with Headwater{first}"):
            files = (str(server.wal_directory), str(backup), start)
            ours, result = _decode(spark, *files, "pgoutput", OPTIONS)
        with _step(console, "decode it once more, as test_decoding"):
            lines, _ = _decode(spark, *files, "test_decoding", (("skip-empty-xacts", "1"),))
    _show(console, ours, lines, result, shop)
    return _verdict(console, theirs, ours)


@dataclass(frozen=True)
class _Figures:
    """The figures that the decoding gives of itself."""

    transactions: int
    changes: int
    wal_bytes: int


@contextmanager
def _step(console: Console, text: str) -> Iterator[None]:
    """Print a line that says what is being done and, at its end, how long it took."""
    began = time.perf_counter()
    with console.status(f"{text} ..."):
        yield
    console.print(f"[dim]{time.perf_counter() - began:6.1f} s[/]  {text}")


def _backup(server: EmbeddedPostgres, directory: Path) -> Path:
    """Make a base copy, with the publication in it and no table."""
    with server.connect() as connection:
        connection.execute(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES")
    server.stop()
    backup = server.copy_data_directory(directory / "backup")
    server.start()
    return backup


def _make_slot(server: EmbeddedPostgres) -> int:
    """Make a logical slot for the server's own decoding, which Headwater needs not; return where its stream begins."""
    with server.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('demo', 'pgoutput')")
        row = connection.execute("SELECT confirmed_flush_lsn::text FROM pg_replication_slots").fetchone()
    assert row is not None
    return int(Lsn.parse(row[0]))


def _pgbench(server: EmbeddedPostgres, transactions: int) -> None:
    """Make pgbench's tables and run its transactions."""
    program = str(server.programs.program("pgbench"))
    clients = ["--client", str(PGBENCH_CLIENTS), "--jobs", "2", "--transactions", str(transactions)]
    for arguments in (["--initialize", "--quiet"], [*clients, "--no-vacuum", "--random-seed", "1"]):
        run = subprocess.run(
            [program, *arguments], env=server.client_environment(), capture_output=True, text=True, check=False
        )
        if run.returncode != 0:
            raise LocalServerError(f"pgbench failed: {run.stderr.strip().splitlines()[-1:]}")


def _peek(server: EmbeddedPostgres) -> pa.Table:
    """Return the server's own messages."""
    arguments = ", ".join(f"'{part}'" for option in OPTIONS for part in option)
    peek = f"pg_logical_slot_peek_binary_changes('demo', NULL, NULL, {arguments})"
    with server.connect() as connection:
        rows = connection.execute(f"SELECT lsn::text, xid::text, data FROM {peek}".encode(), binary=True).fetchall()
    return messages_table((int(Lsn.parse(lsn)), int(xid), data) for lsn, xid, data in rows)


def _decode(
    spark: SparkSession, wal: str, catalog: str, start: int, plugin: str, options: tuple[tuple[str, str], ...]
) -> tuple[pa.Table, _Figures]:
    request = DecodeRequest(wal=wal, catalog=catalog, database="postgres", plugin=plugin, options=options, start=start)
    with decode(spark, request) as result:
        return joined(result.tables()), _Figures(result.transactions, result.changes, result.wal_bytes)


def _show(console: Console, ours: pa.Table, lines: pa.Table, figures: _Figures, shop: ShopWorkload) -> None:
    console.print(Panel(_sample(lines), title="from the change stream, as test_decoding prints it", border_style="dim"))
    console.print(_counts_table(count_changes(ours)))
    decoded = f"{figures.wal_bytes >> 20} MB of WAL, {figures.transactions} transactions, {figures.changes} changes"
    undone = f"{shop.rollbacks} rollbacks and {shop.savepoint_rollbacks} savepoint rollbacks"
    console.print(f"{decoded}; in the shop {shop.definitions} definitions, {undone}")


def _verdict(console: Console, theirs: pa.Table, ours: pa.Table) -> int:
    difference = first_difference(theirs, ours)
    if difference is None:
        console.print(f"[bold green]byte-identical: {len(ours)} messages[/]")
        return 0
    console.print(f"[bold red]not identical:[/] the server said {len(theirs)} messages, Headwater {len(ours)}")
    console.print(Text(str(difference)))
    return 1


def _counts_table(counts: list[TableCounts]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=0)
    table.add_column("table", no_wrap=True, min_width=23)
    for name in ("inserts", "updates", "deletes", "trunc.", "messages", "bytes"):
        table.add_column(name, justify="right")
    for entry in counts:
        figures = (entry.inserts, entry.updates, entry.deletes, entry.truncates, entry.messages, entry.size)
        table.add_row(entry.name, *(f"{figure:,}" if figure else "" for figure in figures))
    table.add_section()
    total = [sum(getattr(entry, name) for entry in counts) for name in ("messages", "size")]
    table.add_row("all", "", "", "", "", *(f"{figure:,}" for figure in total))
    return table


def _sample(lines: pa.Table) -> Text:
    """Return the transaction of the shop that shows most kinds of change, one line each."""
    column = cast("list[bytes]", lines.column("data").to_pylist())
    best, best_kinds = (0, 0), 0
    begins = [at for at, line in enumerate(column) if line.startswith(b"BEGIN")]
    for begin, end in zip(begins, [*begins[1:], len(column)], strict=True):
        if 4 <= end - begin <= SAMPLE_LINES and any(line.startswith(b"table shop.") for line in column[begin:end]):
            kinds = len({tuple(line.split()[1:3]) for line in column[begin:end]})
            kinds += any(b"unchanged-toast" in line for line in column[begin:end])
            best, best_kinds = ((begin, end), kinds) if kinds > best_kinds else (best, best_kinds)
    text = "\n".join(line.decode("utf-8", "replace").replace("\n", "\\n") for line in column[slice(*best)])
    return Text(text, overflow="ellipsis", no_wrap=True)
