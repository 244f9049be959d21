"""A server's slot in Spark: rows are those that are read of the WAL; a stream confirms what was committed, not more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from landing.slot_sources import PUBLICATION, slot_uri
from serving.service import wait_until

pytestmark = [pytest.mark.server, pytest.mark.spark]

TIMEOUT_SECONDS = 400
SETUP = (
    "CREATE TYPE mood AS ENUM ('calm', 'glad')",
    "CREATE TABLE orders (id int PRIMARY KEY, total numeric(10,2), note text, tags text[], how mood)",
    "CREATE TABLE other (id int PRIMARY KEY, note text)",
    "ALTER TABLE other REPLICA IDENTITY FULL",
    f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES",
)
WORK = (
    "INSERT INTO orders SELECT i, i / 4.0, repeat('x', i), ARRAY[i::text, NULL], 'glad' FROM generate_series(1, 99) i",
    "UPDATE orders SET total = NULL, how = 'calm' WHERE id % 3 = 0",
    "UPDATE orders SET id = id + 1000 WHERE id % 5 = 0",
    "DELETE FROM orders WHERE id % 7 = 0",
    "INSERT INTO other VALUES (1, 'a'), (2, NULL)",
    "UPDATE other SET note = 'b' WHERE id = 1",
    "TRUNCATE other",
)


@dataclass(frozen=True)
class Live:
    """A server that runs, and a copy of it from before all tests."""

    server: EmbeddedPostgres
    backup: Path

    def run(self, *statements: str) -> None:
        with self.server.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def confirmed(self, slot: str) -> int:
        query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
        with self.server.connect() as connection:
            ((lsn,),) = connection.execute(query, [slot]).fetchall()
        return int(Lsn.parse(lsn))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    backup = tmp_path_factory.mktemp("slots") / "backup"
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        made = Live(server, backup)
        made.run(*SETUP)
        server.stop()
        server.copy_data_directory(backup)
        server.start()
        made.run(*(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')" for name in ("read", "streamed")))
        made.run(*WORK)
        yield made


@pytest.mark.parametrize("more", [{}, {"tables": "public.orders"}, {"tables": "public.orders", "images": "true"}])
def test_a_slot_has_the_rows_that_the_wal_has(spark: Any, live: Live, more: dict[str, str]) -> None:
    wal = {"path": str(live.server.wal_directory), "catalog": str(live.backup), "ddl": "false"}
    options = {key: value for key, value in wal.items() if key != "ddl" or "tables" not in more or "images" in more}
    expected = spark.read.format("headwater").options(**options, **more).load()
    for _ in range(2):  # it confirms nothing
        rows = spark.read.format("headwater").options(path=slot_uri(live.server, "read"), **more).load()
        assert rows.schema == expected.schema
        assert _sorted(rows) == _sorted(expected)
    assert len(_sorted(expected)) > 150


def _sorted(frame: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.orderBy("_commit_lsn", "_lsn", "_seq").collect()]


class Taken:
    """The rows of a stream's batches, the last of each; one batch fails when it comes first."""

    def __init__(self, failing: int) -> None:
        self.batches: dict[int, list[tuple[Any, ...]]] = {}
        self.asked: Counter[int] = Counter()
        self._failing = failing

    def __call__(self, batch: Any, number: int) -> None:
        self.asked[number] += 1
        rows = [tuple(row) for row in batch.orderBy("_commit_lsn", "_lsn", "_seq").collect()]
        assert self.batches.setdefault(number, rows) == rows
        if number == self._failing and self.asked[number] == 1:
            raise ValueError("fails once")

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]


def test_a_batch_that_is_asked_for_again_has_the_same_rows(spark: Any, live: Live, tmp_path: Path) -> None:
    expected = spark.read.format("headwater").options(path=slot_uri(live.server, "streamed")).load()
    rows, taken, before = _sorted(expected), Taken(2), live.confirmed("streamed")

    def start(**trigger: Any) -> Any:
        options = {"path": slot_uri(live.server, "streamed"), "maxBytesPerTrigger": "2000"}
        stream = spark.readStream.format("headwater").options(**options).load()
        writer = stream.writeStream.foreachBatch(taken).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(**trigger).start()

    with pytest.raises(Exception, match="fails once"):
        start(availableNow=True).awaitTermination(TIMEOUT_SECONDS)
    assert before <= live.confirmed("streamed")
    assert start(availableNow=True).awaitTermination(TIMEOUT_SECONDS)
    assert taken.asked[2] == 2
    assert len(taken.batches) > 2
    assert taken.rows == rows
    running = start(processingTime="50 milliseconds")
    live.run("INSERT INTO other VALUES (7, 'later')")
    # What the server has not sent yet is not available.
    wait_until(lambda: running.processAllAvailable() or any(row not in rows for row in taken.rows))
    running.stop()
    assert next(row for row in taken.rows if row not in rows)[-1] == {"id": "7", "note": "later"}
    assert live.confirmed("streamed") > before
