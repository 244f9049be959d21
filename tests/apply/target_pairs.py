"""A publisher, a stock subscriber and ``headwater apply``'s target: databases of one server, and what both targets do.

A case has two slots, made before its work: one is read by a subscription in the database :data:`STOCK`, the other by
an :class:`ApplyWorker` here, for the database :data:`OURS`. What both have then, and the first error, is compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from headwater.apply.incoming.refusal_options import RefusalOptions
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.table_sync.subscribing import subscribe
from headwater.apply.target.session import open_target
from headwater.apply.worker import ApplyWorker
from headwater.errors import ServerError, TargetError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from headwater.remote_slots.slot_address import SlotAddress
from packaged_servers import programs_of
from serving.service import wait_until

SOURCE, STOCK, OURS = "postgres", "stock", "ours"
SETTINGS = {
    "wal_retrieve_retry_interval": "200ms",
    "max_logical_replication_workers": "8",
    "log_line_prefix": "%b|%e|",
    "max_replication_slots": "60",
}
LIMITS_ORIGINS = 18
"""From this major on the number of origins is not that of slots."""
DISABLES = 15
"""From this major on a subscription can be disabled by its first error."""
NAMES_TRANSACTION = 15
"""From this major on a context names the transaction, and where it is finished."""

_ENTRY = re.compile(r"^logical replication (?:apply )?worker\|(\w{5})\|(\w+):  (.*)$")
_ABOUT = re.compile(r'processing remote data for replication origin "[^"]*"(.*)')
_COLUMN = re.compile(r'target relation "([^"]*)"(?: column "([^"]*)")?')


@dataclass(frozen=True)
class Refusal:
    """The first error of a target.

    Attributes:
        sqlstate, message, detail: the server's; column: that its context names, if any.
        context: the last part of it, without the origin's name; empty where majors word it differently.
    """

    sqlstate: str
    message: str
    detail: str | None
    column: str | None
    context: str = ""


@dataclass(frozen=True)
class Result:
    """A target's rows by table, and its first error."""

    rows: dict[str, list[str]]
    refusal: Refusal | None


@dataclass
class Pair:
    """The server of a module's cases."""

    server: EmbeddedPostgres
    numbers: Iterator[int] = field(default_factory=count)

    def run(self, database: str, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, and return the rows of the last one."""
        with self.server.connect(database) as session:
            rows: list[tuple[Any, ...]] = []
            for statement in statements:
                cursor = session.execute(statement.encode())
                rows = cursor.fetchall() if cursor.description else []
            return rows

    def place(self, database: str, user: str = "postgres") -> str:
        """Return the connection string of a database."""
        info = {**self.server.connection_info(database), "user": user}
        return " ".join(f"{name}='{word}'" for name, word in info.items())

    def end(self) -> int:
        """Return where the WAL that is flushed ends: no more is sent."""
        ((lsn,),) = self.run(SOURCE, "SELECT pg_current_wal_flush_lsn()::text")
        return int(Lsn.parse(lsn))

    def slots(self) -> tuple[str, str]:
        """Make a slot for each target."""
        number = next(self.numbers)
        names = (f"stock_{number}", f"ours_{number}")
        for name in names:
            self.run(SOURCE, f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
        return names

    def request(self, slot: str, publication: str, **options: Any) -> ApplyRequest:
        """Return a request to apply to :data:`OURS` all that there is."""
        address = SlotAddress(conninfo=self.place(SOURCE), slot=slot, publications=(publication,))
        asked: dict[str, Any] = {"target": self.place(OURS), "end": self.end(), "disables_on_error": True} | options
        asked.setdefault("refusals", RefusalOptions(enables=True))
        asked["copies_data"] = False
        return ApplyRequest(slot=address, subscription=slot, **asked)

    def compare(
        self,
        source: Sequence[str],
        target: Sequence[str],
        work: Sequence[str],
        binary: bool = False,
        later: Sequence[str] = (),
        **options: Any,
    ) -> Result:
        """Do work on the source, and see that both targets come to the same.

        Args:
            source, target: make schema s there; work: is done on the source; binary: values are sent so.
            later: is done on the targets once the subscription is made, before anything is applied.
            options: of the request.

        Returns:
            What both have.
        """
        for database, statements in ((SOURCE, source), (STOCK, target), (OURS, target)):
            self.run(database, "DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s", *statements)
        publication = f"p_{next(self.numbers)}"
        self.run(SOURCE, f"CREATE PUBLICATION {publication} FOR ALL TABLES WITH (publish_via_partition_root = true)")
        stock, ours = self.slots()
        self.run(SOURCE, *work)
        expected = self.stock(stock, publication, later, binary=binary)
        request = self.request(ours, publication, binary=binary, **options)
        self.subscribe(request)
        self.run(OURS, *later)
        refusal = self.apply(request)
        results = [Result(self.rows(STOCK), expected), Result(self.rows(OURS), refusal)]
        self.run(SOURCE, f"DROP PUBLICATION {publication}", f"SELECT pg_drop_replication_slot('{ours}')")
        assert results[1] == results[0]
        return results[0]

    def subscribe(self, request: ApplyRequest) -> None:
        """Make the subscription of a request, without applying anything."""
        connection, _ = open_target(request.target, "subscribe")
        with connection:
            subscribe(connection, request, lambda _: None)

    def apply(self, request: ApplyRequest) -> Refusal | None:
        """Apply as ``headwater apply`` does; return the first error."""
        try:
            ApplyWorker(request, lambda _: None).run()
        except ServerError as error:
            context = error.context if isinstance(error, TargetError) else None
            detail = error.detail if isinstance(error, TargetError) else None
            major = self.server.programs.major
            return Refusal(
                str(error.sqlstate), error.message, detail, _column(context or ""), _about(context or "", major)
            )
        return None

    def stock(self, slot: str, publication: str, later: Sequence[str], binary: bool = False) -> Refusal | None:
        """Apply as a subscription; return the first error."""
        end = self.end()
        begin = self.server.log_file.stat().st_size
        disables = ", disable_on_error = true" if self.server.programs.major >= DISABLES else ""
        self.run(
            STOCK,
            f"CREATE SUBSCRIPTION {slot} CONNECTION '{self.place(SOURCE).replace(chr(39), '')}' "
            f"PUBLICATION {publication} WITH (enabled = false, create_slot = false, slot_name = {slot}, "
            f"copy_data = false, binary = {binary}{disables})",
            *later,
            f"ALTER SUBSCRIPTION {slot} ENABLE",
        )
        reached = f"SELECT confirmed_flush_lsn >= '{Lsn(end)}' FROM pg_replication_slots WHERE slot_name = '{slot}'"
        refusals: list[Refusal] = []

        def is_done() -> bool:
            log = self.server.log_file.read_bytes()[begin:].decode(errors="replace")
            refusals[:] = _refusals(log, self.server.programs.major)
            return bool(refusals) or session.execute(reached.encode()).fetchall() == [(True,)]

        free = f"SELECT NOT active FROM pg_replication_slots WHERE slot_name = '{slot}'"
        with self.server.connect(SOURCE) as session:
            wait_until(is_done)
            self.run(STOCK, f"ALTER SUBSCRIPTION {slot} DISABLE")
            wait_until(lambda: session.execute(free.encode()).fetchall() == [(True,)])
        self.run(STOCK, f"DROP SUBSCRIPTION {slot}")
        return refusals[0] if refusals else None

    def rows(self, database: str) -> dict[str, list[str]]:
        """Return the rows of each table of schema s, as text."""
        names = (
            "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 's'::regnamespace AND relkind IN ('r', 'p')"
        )
        return {
            name: [row for (row,) in self.run(database, f"SELECT x::text FROM ONLY {name} x ORDER BY 1")]
            for (name,) in self.run(database, names)
        }


@contextmanager
def pair_of(major: int, **settings: str) -> Iterator[Pair]:
    """Start the server of a major, with more settings."""
    programs = programs_of(major, plugin="test_decoding")
    more = {"max_active_replication_origins": "60"} if major >= LIMITS_ORIGINS else {}
    with EmbeddedPostgres(programs, settings={**SETTINGS, **more, **settings}, autovacuum=False) as server:
        pair = Pair(server)
        for database in (STOCK, OURS):
            pair.run(SOURCE, f"CREATE DATABASE {database}")
        yield pair


def _refusals(log: str, major: int) -> list[Refusal]:
    """Read the errors of apply workers in a server's log, each with all its lines."""
    refusals = []
    entries = re.split(r"\n(?!\t)", log)
    for at, entry in enumerate(entries):
        match = _ENTRY.match(entry.partition("\n")[0])
        if match is None or match[2] != "ERROR":
            continue
        parts = _parts(entries[at + 1 :])
        context = parts.get("CONTEXT", "")
        refusals.append(Refusal(match[1], match[3], parts.get("DETAIL"), _column(context), _about(context, major)))
    return refusals


def _parts(entries: Sequence[str]) -> dict[str, str]:
    """Return DETAIL and so on, which follow a message."""
    parts = {}
    for entry in entries:
        match = _ENTRY.match(entry.partition("\n")[0])
        if match is None or match[2] not in ("DETAIL", "HINT", "CONTEXT"):
            break
        parts[match[2]] = entry[match.start(3) :]
    return parts


def _column(context: str) -> str | None:
    """Return the column that a context names."""
    match = _COLUMN.search(context)
    return match[2] if match else None


def _about(context: str, major: int) -> str:
    """Return what a context says of the change, without the origin's name."""
    match = _ABOUT.search(context) if major >= NAMES_TRANSACTION else None
    return match[1] if match else ""
