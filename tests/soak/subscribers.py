"""Twenty subscribers of a service: stock subscriptions, and pg_recvlogical with plugins that write text.

A stock subscription has, in the end, the rows of its publication. A client that writes a file has each transaction, in
the order of their commits. What came again after a lost connection is the same, and is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bad_input.servers import run, value
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import Serving, Streaming, make_slot_by_client, recvlogical
from serving.subscribing import TABLES

MAJOR = 16
BOTH = ("SELECT id, name, price FROM t", "SELECT id, region FROM parts")
PUBLICATIONS = (
    "CREATE PUBLICATION everything FOR ALL TABLES",
    "CREATE PUBLICATION chosen FOR TABLE t",
    "CREATE PUBLICATION rooted FOR TABLE parts WITH (publish_via_partition_root)",
    "CREATE PUBLICATION filtered FOR TABLE t WHERE (id > 100000)",
    "CREATE PUBLICATION columns FOR TABLE t (id, name)",
)


@dataclass(frozen=True)
class Subscription:
    """A stock subscription.

    Attributes:
        publication: its name; options: of the subscription.
        queries: whose rows both sides have.
    """

    publication: str
    queries: tuple[str, ...]
    options: str = "streaming = on"


SUBSCRIPTIONS = (
    Subscription("everything", BOTH),
    Subscription("everything", BOTH, "streaming = parallel"),
    Subscription("everything", BOTH, "two_phase = on"),
    Subscription("chosen", BOTH[:1], "binary = true"),
    Subscription("rooted", BOTH[1:]),
    Subscription("filtered", ("SELECT id, name, price FROM t WHERE id > 100000",)),
    Subscription("filtered", ("SELECT id, name, price FROM t WHERE id > 100000",), "two_phase = on"),
    Subscription("columns", ("SELECT id, name FROM t",)),
)
DIGEST = "SELECT coalesce(md5(string_agg(x::text, ' ' ORDER BY x::text)), '') FROM ({}) x"


class StockSubscribers:
    """The databases of one server, each with a subscription."""

    def __init__(self, publisher: EmbeddedPostgres, subscriber: EmbeddedPostgres, serving: Serving) -> None:
        self._publisher, self._subscriber = publisher, subscriber
        place = f"host=127.0.0.1 port={serving.port} dbname=postgres user=postgres"
        for number, subscription in enumerate(SUBSCRIPTIONS):
            run(subscriber, f"CREATE DATABASE d{number}")
            made = f"CREATE SUBSCRIPTION s{number} CONNECTION '{place}' PUBLICATION {subscription.publication}"
            options = f"copy_data = false, {subscription.options}"
            run(subscriber, *TABLES, f"{made} WITH ({options})", database=f"d{number}")

    def unequal(self) -> list[str]:
        """Name the subscriptions that do not have what the publisher has."""
        return [f"s{number}" for number in range(len(SUBSCRIPTIONS)) if not self._is_equal(number)]

    def drop(self) -> None:
        """Drop all subscriptions, and their slots."""
        for number in range(len(SUBSCRIPTIONS)):
            run(self._subscriber, f"DROP SUBSCRIPTION s{number}", database=f"d{number}")

    def _is_equal(self, number: int) -> bool:
        for query in SUBSCRIPTIONS[number].queries:
            with self._subscriber.connect(f"d{number}") as connection:
                row = connection.execute(DIGEST.format(query).encode()).fetchone()
            if row != (value(self._publisher, DIGEST.format(query)),):
                return False
        return True


@dataclass(frozen=True)
class Kind:
    """A kind of clients that write files.

    Attributes:
        plugin: of their slots; options: of their streams; count: how many there are.
    """

    plugin: str
    options: tuple[str, ...]
    count: int


KINDS = (
    Kind("test_decoding", ("-o", "skip-empty-xacts=1"), 4),
    Kind("test_decoding", ("-o", "include-timestamp=1"), 2),
    Kind("wal2json", ("-o", "format-version=2", "-o", "include-xids=1"), 4),
    Kind("wal2json", ("-o", "format-version=2", "-o", "include-xids=1", "-o", "add-tables=public.t"), 2),
)


class FileClients:
    """The clients that write files, and what their files should have."""

    def __init__(self, publisher: EmbeddedPostgres, serving: Serving, directory: Path) -> None:
        self._publisher, self._serving, self._directory = publisher, serving, directory
        for number, kind in enumerate(KINDS):
            for each in range(kind.count):
                make_slot_by_client(serving.environment(), MAJOR, f"k{number}_{each}", kind.plugin)
            # The server has no wal2json: what a slot says that nobody has used is compared with there.
            environment = serving.environment() if kind.plugin == "wal2json" else publisher.client_environment()
            make_slot_by_client(environment, MAJOR, f"expected{number}", kind.plugin)
        self.running = {name: self._begin(name, kind) for name, kind in self._names()}

    def expected(self, end: str) -> dict[int, list[str]]:
        """Return the transactions up to an LSN, by the number of the kind."""
        transactions = {}
        for number, kind in enumerate(KINDS):
            server = self._serving if kind.plugin == "wal2json" else self._publisher
            environment = server.environment() if isinstance(server, Serving) else server.client_environment()
            file = self._directory / f"expected{number}"
            flags = ("--slot", f"expected{number}", "--start", "--endpos", end, "-f", str(file))
            streamed = recvlogical(environment, MAJOR, *flags, *kind.options)
            assert streamed.returncode == 0, streamed.stderr
            transactions[number] = list(whole_transactions(file))
        return transactions

    def unequal(self, expected: dict[int, list[str]]) -> list[str]:
        """Name the clients whose files do not have just these transactions."""
        number_of = {name: int(name[1 : name.index("_")]) for name, _ in self._names()}
        return [
            name
            for name, number in number_of.items()
            if list(whole_transactions(self._directory / name)) != expected[number]
        ]

    def revive(self) -> int:
        """Start those again that have ended, as they do where a service is killed between two answers; count them."""
        ended = [(name, kind) for name, kind in self._names() if self.running[name].has_ended]
        for name, kind in ended:
            self.running[name].wait()
            self.running[name] = self._begin(name, kind)
        return len(ended)

    def end(self) -> None:
        """Interrupt all."""
        for client in self.running.values():
            client.end()

    def _names(self) -> Iterator[tuple[str, Kind]]:
        for number, kind in enumerate(KINDS):
            for each in range(kind.count):
                yield f"k{number}_{each}", kind

    def _begin(self, name: str, kind: Kind) -> Streaming:
        flags = ("--slot", name, "-f", str(self._directory / name), "--status-interval", "1", "--fsync-interval", "1")
        return Streaming(self._serving.environment(), MAJOR, *flags, *kind.options)


_BEGIN, _END = re.compile(r"BEGIN (\d+)"), re.compile(r"COMMIT (\d+)")


def whole_transactions(file: Path) -> Iterator[str]:
    """Give the transactions of a file that are whole, each once; what comes again is the same, or begins again."""
    seen: dict[str, str] = {}
    lines: list[str] = []
    for line in _lines(file):
        xid, is_begin, is_end = _edges(line)
        lines = [line] if is_begin else [*lines, line]
        if is_end:
            text = "".join(lines)
            if xid not in seen:
                yield text
            assert seen.setdefault(xid, text) == text, f"{file}: transaction {xid} has come again, and otherwise"


def _lines(file: Path) -> Iterable[str]:
    if not file.exists():
        return
    with file.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                yield line


def _edges(line: str) -> tuple[str, bool, bool]:
    """Return the transaction that a line begins or ends, and which of both it does."""
    if line.startswith("{"):
        message = json.loads(line)
        return str(message.get("xid")), message["action"] == "B", message["action"] == "C"
    begin, end = _BEGIN.match(line), _END.match(line)
    match = begin or end
    return "" if match is None else match[1], begin is not None, end is not None
