"""The workloads that ``make bench`` decodes and lands: tables, and what is done to them while the log is written."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from headwater.local_servers.embedded_postgres import EmbeddedPostgres

INSERT_TRANSACTIONS = 4
TABLES = 50
ROWS_A_TRANSACTION = 1000
PGBENCH_CLIENTS = 4
CHANGES_PER_PGBENCH_TRANSACTION = 4
SALES = "id bigint PRIMARY KEY, customer integer, name text, amount numeric(12,2), at timestamptz, paid boolean"
SALE = "g, g % 1000, 'customer number ' || g, (g % 99999) / 100.0, '2024-01-01 00:00+00'::timestamptz, g % 3 = 0"
"""A row of number ``g``."""


@dataclass(frozen=True)
class Workload:
    """A workload that is decoded.

    Attributes:
        name: of what is kept of it meanwhile.
        about: for people.
        changes: how many, unless another number is asked for.
        prepare: makes tables, before the base copy.
        run: writes at least this many changes.
        published: what is in the publication.
    """

    name: str
    about: str
    changes: int
    prepare: Callable[[EmbeddedPostgres], None]
    run: Callable[[EmbeddedPostgres, int], None]
    published: str = "FOR ALL TABLES"


def prepare_inserts(server: EmbeddedPostgres) -> None:
    """Create a table of six columns."""
    with server.connect() as connection:
        connection.execute(f"CREATE TABLE sales ({SALES})".encode())


def run_inserts(server: EmbeddedPostgres, changes: int) -> None:
    """Insert rows in a few transactions."""
    with server.connect() as connection:
        for statement in inserts(changes, INSERT_TRANSACTIONS):
            connection.execute(statement.encode())


def inserts(rows: int, transactions: int, first: int = 1) -> list[str]:
    """Write statements that make so many rows, or a few more, in so many transactions."""
    share = -(-rows // transactions)
    spans = ((first + part * share, first + (part + 1) * share - 1) for part in range(transactions))
    return [f"INSERT INTO sales SELECT {SALE} FROM generate_series({low}, {high}) g" for low, high in spans]


def prepare_tables(server: EmbeddedPostgres) -> None:
    """Create tables of three columns."""
    with server.connect() as connection:
        for number in range(TABLES):
            columns = "id bigint PRIMARY KEY, name text, amount numeric(12,2)"
            connection.execute(f"CREATE TABLE sales_{number} ({columns})".encode())


def run_tables(server: EmbeddedPostgres, changes: int) -> None:
    """Insert rows into all tables, in transactions of a thousand rows a table."""
    rounds = -(-changes // (TABLES * ROWS_A_TRANSACTION))
    with server.connect() as connection:
        for turn in range(rounds):
            first, last = turn * ROWS_A_TRANSACTION, (turn + 1) * ROWS_A_TRANSACTION - 1
            rows = f"SELECT g, 'customer ' || g, g / 100.0 FROM generate_series({first}, {last}) g"
            statements = (f"INSERT INTO sales_{number} {rows}" for number in range(TABLES))
            connection.execute(f"BEGIN; {'; '.join(statements)}; COMMIT".encode())


def prepare_pgbench(server: EmbeddedPostgres) -> None:
    """Create and fill pgbench's tables."""
    pgbench(server, "--initialize", "--quiet", "--scale", "10")


def run_pgbench(server: EmbeddedPostgres, changes: int) -> None:
    """Run pgbench's default transactions: three updates and an insert each."""
    each = -(-changes // (PGBENCH_CLIENTS * CHANGES_PER_PGBENCH_TRANSACTION))
    clients = ("--client", str(PGBENCH_CLIENTS), "--jobs", "2", "--transactions", str(each))
    pgbench(server, "--no-vacuum", "--protocol", "prepared", *clients)


def pgbench(server: EmbeddedPostgres, *arguments: str) -> None:
    """Run the bundled pgbench."""
    command = [str(server.programs.program("pgbench")), *arguments]
    subprocess.run(command, env=server.client_environment(), check=True, capture_output=True)


INSERTS = Workload("inserts", "six-column inserts", 8_000_000, prepare_inserts, run_inserts)
PGBENCH = Workload("pgbench", "pgbench, 4 clients", 3_000_000, prepare_pgbench, run_pgbench)
TABLE_OF_MANY = Workload("filtered", "one table of 50", 8_000_000, prepare_tables, run_tables, "FOR TABLE sales_7")
