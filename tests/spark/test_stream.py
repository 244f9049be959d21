"""The data source as a stream on a log that grows: batch after batch what the server's own slot gives in one call."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql.types import StructType

from arrow_types import values_of
from headwater.cli.shared_flags import SessionFlags, SourceFlags
from headwater.cli.slot import AdvanceFlags, CreateFlags, advance_command, create_command, described
from headwater.errors import SegmentError, SlotError, UsageError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_client, find_programs
from headwater.pg.lsn import Lsn
from headwater.pipeline.decode import decode
from headwater.pipeline.requests.slot_request import kept_in_slot, request_of_slot
from headwater.slots.slot_directory import read_slot
from headwater.source.data_source import HeadwaterDataSource
from headwater.source.stream_reader import HeadwaterStreamReader
from headwater.wal.segments.segment_files import segment_name

pytestmark = [pytest.mark.server, pytest.mark.spark]

KNOWS_BOUNDS = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether Spark knows bounds of ``Trigger.AvailableNow``: 4.1 does not."""

SEGMENT = 1 << 20
TIMEOUT_SECONDS = 400
DRIVER = Path(__file__).with_name("stream_driver.py")
SETUP = """
CREATE TABLE orders (id int PRIMARY KEY, total numeric(10,2), note text);
CREATE TABLE other (id int PRIMARY KEY, note text);
CREATE PUBLICATION everything FOR ALL TABLES;
"""
PLUGIN = {"proto_version": "1", "publication_names": '"everything"'}
Message = tuple[int, int, bytes]


@dataclass(frozen=True)
class Live:
    """A server that runs, and a copy of it from before all tests."""

    server: EmbeddedPostgres
    backup: Path

    @property
    def wal(self) -> Path:
        return self.server.wal_directory

    def options(self, **more: str) -> dict[str, str]:
        return {"path": str(self.wal), "catalog": str(self.backup), **more}

    def messages(self, **more: str) -> dict[str, str]:
        return self.options(plugin="pgoutput", publication="everything", **more)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    backup = tmp_path_factory.mktemp("stream") / "backup"
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            connection.execute(SETUP)
        server.stop()
        server.copy_data_directory(backup)
        server.start()
        yield Live(server, backup)


class Session:
    """A connection with a slot of the server's that begins here."""

    def __init__(self, live: Live, name: str) -> None:
        self.connection: psycopg.Connection[Any] = live.server.connect()
        self.name = name
        made = "SELECT lsn FROM pg_create_logical_replication_slot(%s, 'pgoutput')"
        self.start = str(self.value(made, name))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.execute("SELECT pg_drop_replication_slot(%s)", [self.name])
        self.connection.execute("TRUNCATE orders, other")
        self.connection.close()

    def value(self, query: str, *parameters: object) -> Any:
        row = self.connection.execute(query, parameters).fetchone()
        assert row is not None
        return row[0]

    def insert(self, first: int, last: int, note: str = "note", table: str = "orders") -> None:
        """Insert some rows in a transaction."""
        columns = "id, note" if table == "other" else "id, total, note"
        total = "" if table == "other" else "1.25,"
        made = f"INSERT INTO {table} ({columns}) SELECT g, {total} %s || g FROM generate_series(%s::int, %s::int) g"
        self.connection.execute(made, [note, first, last])

    def expected(self) -> list[Message]:
        """Read what the server's slot gives for all of the session, in one call."""
        rows = self.connection.execute(
            "SELECT lsn::text, xid::text, data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, "
            "'proto_version', '1', 'publication_names', '\"everything\"')",
            [self.name],
        )
        return [(int(Lsn.parse(lsn)), int(xid), bytes(data)) for lsn, xid, data in rows]


class Collected:
    """The messages that come of a query, batch by batch."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []

    def __call__(self, batch: Any, _: int) -> None:
        self.batches.append(batch.collect())

    @property
    def rows(self) -> list[Any]:
        return [row for batch in self.batches for row in batch]

    @property
    def messages(self) -> list[Message]:
        return [(row.lsn, row.xid, bytes(row.data)) for row in self.rows]


def query(spark: Any, options: dict[str, str], checkpoint: Path, take: Collected, **trigger: Any) -> Any:
    writer = spark.readStream.format("headwater").options(**options).load().writeStream.foreachBatch(take)
    return (
        writer.option("checkpointLocation", str(checkpoint))
        .trigger(**trigger or {"processingTime": "100 milliseconds"})
        .start()
    )


def make_slot(live: Live, path: Path, wal: Path | None = None, plugin: str = "pgoutput") -> str:
    source = SourceFlags(wal=[str(wal or live.wal)], catalog=str(live.backup))
    options = [f"{name}={value}" for name, value in PLUGIN.items()] if plugin == "pgoutput" else []
    session = SessionFlags(options=options)
    create_command.run(CreateFlags(path=path, source=source, plugin=plugin, session=session))
    return str(described(path)["confirmed_flush_lsn"])


def test_what_is_written_while_a_query_runs(spark: Any, live: Live, tmp_path: Path) -> None:
    take = Collected()
    with Session(live, "runs") as session:
        running = query(spark, live.messages(startingLsn=session.start), tmp_path / "checkpoint", take)
        session.insert(1, 10)
        running.processAllAvailable()
        seen = len(take.messages)
        assert seen == 13

        def write() -> None:
            with live.server.connect() as connection:
                for number in range(100, 160):
                    connection.execute("INSERT INTO other VALUES (%s, repeat('x', 2000))", [number])

        writer = threading.Thread(target=write)
        writer.start()
        for number in range(20):
            session.insert(1000 + 10 * number, 1009 + 10 * number)
            if number == 10:
                session.connection.execute("ALTER TABLE orders ADD COLUMN extra int")
        writer.join()
        running.processAllAvailable()
        batches = len(take.batches)
        session.value("SELECT pg_current_wal_flush_lsn()")
        running.processAllAvailable()
        running.stop()
        session.connection.execute("ALTER TABLE orders DROP COLUMN extra")
        expected = session.expected()[: len(take.messages)]
    assert expected == take.messages
    assert len(take.messages) == seen + 60 * 3 + 20 * 12 + 2
    assert batches == len(take.batches)


def test_available_now_in_batches_of_bounded_size(spark: Any, live: Live, tmp_path: Path) -> None:
    take = Collected()
    with Session(live, "bounded") as session:
        for number in range(20):
            session.insert(100 * number, 100 * number + 99, "a longer note " * 5)
        options = live.messages(startingLsn=session.start, maxBytesPerTrigger="65536")
        running = query(spark, options, tmp_path / "checkpoint", take, availableNow=True)
        assert running.awaitTermination(TIMEOUT_SECONDS)
        assert session.expected() == take.messages
        assert len(take.batches) > 3 if KNOWS_BOUNDS else len(take.batches) == 1
        session.insert(9000, 9001)
        running = query(spark, options, tmp_path / "checkpoint", take, availableNow=True)
        assert running.awaitTermination(TIMEOUT_SECONDS)
        assert session.expected() == take.messages


def drive(tmp_path: Path, slot: Path, ending: str) -> int:
    """Run the driver of a query in a process of its own; its exit status."""
    options = json.dumps({"slot": str(slot), "maxBytesPerTrigger": "65536"})
    done = subprocess.run(
        [sys.executable, DRIVER, options, tmp_path, ending],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    return done.returncode


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_killed_driver_loses_and_doubles_nothing(spark: Any, live: Live, tmp_path: Path) -> None:
    slot = tmp_path / "slot"
    make_slot(live, slot)
    with Session(live, "killed") as session:
        advance_command.run(AdvanceFlags(slot, session.start))
        for number in range(12):
            session.insert(100 * number, 100 * number + 99, "deadly" if number == 5 else "a longer note " * 5)
        assert drive(tmp_path, slot, "finished") == -9
        assert drive(tmp_path, slot, "killed") == -9
        session.connection.execute("ALTER TABLE orders ALTER note TYPE varchar(500)")
        session.insert(5000, 5099)
        session.insert(1, 10, table="other")
        assert drive(tmp_path, slot, "finished") == 0
        session.connection.execute("ALTER TABLE orders ALTER note TYPE text")
        expected = session.expected()
    rows = [(row.lsn, row.xid, bytes(row.data)) for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    commits = len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")))
    assert commits > 3 if KNOWS_BOUNDS else commits > 1
    assert Counter(rows) == Counter(expected)
    assert sum(data.startswith(b"R") for _, _, data in rows) == 3


def archive(live: Live, session: Session, directory: Path, seen: set[str]) -> None:
    """Put finished segments into an archive, each once."""
    now = session.value("SELECT pg_walfile_name(pg_switch_wal())")
    session.value("SELECT txid_current()")
    for path in sorted(live.wal.iterdir()):
        if len(path.name) == 24 and path.name <= now and path.name not in seen:
            shutil.copy(path, directory / f"{path.name}.tmp")
            os.replace(directory / f"{path.name}.tmp", directory / path.name)
            seen.add(path.name)


def test_wal_before_a_slots_restart_lsn_may_go(spark: Any, live: Live, tmp_path: Path) -> None:
    directory, slot, take = tmp_path / "archive", tmp_path / "slot", Collected()
    directory.mkdir()
    seen: set[str] = set()
    with Session(live, "archived") as session:
        archive(live, session, directory, seen)
        begun = make_slot(live, slot, directory)
        advance_command.run(AdvanceFlags(slot, session.start))
        session.insert(1, 100)
        archive(live, session, directory, seen)
        running = query(spark, {"slot": str(slot)}, tmp_path / "checkpoint", take)
        restarts, removed = [Lsn.parse(begun)], 0
        for number in range(4):
            session.insert(1000 * number + 1000, 1000 * number + 1999, "a longer note " * 60)
            archive(live, session, directory, seen)
            running.processAllAvailable()
            restarts.append(Lsn.parse(str(described(slot)["restart_lsn"])))
            needed = segment_name(1, restarts[-1] // SEGMENT, SEGMENT)
            for path in directory.iterdir():
                if path.name < needed:
                    path.unlink()
                    removed += 1
        with pytest.raises(SlotError, match="is active for PID"):
            advance_command.run(AdvanceFlags(slot, str(Lsn(restarts[-1]))))
        running.stop()
        expected = session.expected()
        stands = read_slot(slot)
        session.value("SELECT pg_replication_slot_advance(%s, %s)", session.name, str(Lsn(stands.confirmed_lsn)))
        with decode(spark, request_of_slot(stands), kept_state=kept_in_slot(stands)) as result:
            rows = [row for table in result.tables() for row in table.to_pylist()]
        assert session.expected() == [(row["lsn"], row["xid"], row["data"]) for row in rows]
        assert rows
    assert sorted(restarts) == restarts
    assert restarts[-1] > restarts[0]
    assert removed > 2
    assert expected == take.messages
    assert described(slot)["active"] is False


def test_one_table_with_its_columns_through_a_change_of_schema(spark: Any, live: Live, tmp_path: Path) -> None:
    take = Collected()
    with Session(live, "table") as session:
        session.connection.execute("CREATE TABLE mine (id int PRIMARY KEY, total numeric(6,2), note text)")
        session.connection.execute("INSERT INTO mine VALUES (1, 1.5, 'first')")
        options = live.options(tables="public.mine", startingLsn=session.start)
        running = query(spark, options, tmp_path / "checkpoint", take)
        running.processAllAvailable()
        session.connection.execute("ALTER TABLE mine ADD COLUMN late int DEFAULT 7")
        session.connection.execute("ALTER TABLE mine RENAME TO yours")
        session.connection.execute("ALTER TABLE yours DROP COLUMN note")
        session.connection.execute("INSERT INTO yours VALUES (2, 2.5, 8)")
        session.connection.execute("UPDATE yours SET total = 3 WHERE id = 1")
        running.processAllAvailable()
        rows = [(row._op, row._table, row.id, str(row.total), row.note) for row in take.rows]
        assert rows == [
            ("insert", "mine", 1, "1.50", "first"),
            ("insert", "yours", 2, "2.50", None),
            ("update", "yours", 1, "3.00", None),
        ]
        session.connection.execute("CREATE TABLE mine (id int PRIMARY KEY, total text)")
        session.connection.execute("INSERT INTO mine VALUES (9, 'another table')")
        with pytest.raises(Exception, match="is the name of another table at"):
            running.processAllAvailable()
        running.stop()
        session.connection.execute("DROP TABLE mine, yours")


def reader(**options: str) -> HeadwaterStreamReader:
    made = HeadwaterDataSource(options).streamReader(StructType())
    assert isinstance(made, HeadwaterStreamReader)
    return made


def data_of(made: HeadwaterStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    batches = [batch for partition in made.partitions(start, end) for batch in made.read(partition)]
    return [bytes(data) for batch in batches for data in values_of(batch.column("data"))]


def is_still(latest: dict[str, Any], offset: dict[str, Any]) -> bool:
    """Tell whether an offset stands still, but for what a server's background writer has logged since."""
    same = {**latest, "lsn": ""} == {**offset, "lsn": ""}
    return same and Lsn.parse(offset["lsn"]) <= Lsn.parse(latest["lsn"]) < Lsn.parse(offset["lsn"]) + 1024


def test_a_batch_that_is_repeated_has_the_same_bytes(live: Live, tmp_path: Path) -> None:
    """Also where Spark does not say where the stream stands, and without a slot, from the catalog again."""
    slot = tmp_path / "slot"
    with Session(live, "repeated") as session:
        make_slot(live, slot)
        advance_command.run(AdvanceFlags(slot, session.start))
        inserted = 0
        for options in (live.messages(startingLsn=session.start), {"slot": str(slot)}):
            made = reader(**options)
            offsets, first = [made.initialOffset()], []
            for number in range(3):
                session.insert(inserted, inserted + 9)
                session.insert(inserted, inserted + 9, table="other")
                inserted += 10
                offsets.append(made.latestOffset(offsets[-1]))
                assert is_still(made.latestOffset(), offsets[-1])
                first.append(data_of(made, *offsets[-2:]))
                reported = made.reportLatestOffset()
                assert reported is not None
                assert is_still(reported, offsets[-1])
                if number:
                    made.commit(offsets[number])
            made.stop()
            again = reader(**options)
            assert data_of(again, *offsets[2:]) == first[2]
            assert is_still(again.latestOffset(offsets[3]), offsets[3])
            assert is_still(again.latestOffset(), offsets[3])
            again.stop()
            untold = reader(**options)
            end = untold.latestOffset()
            assert Lsn.parse(end["lsn"]) >= Lsn.parse(offsets[3]["lsn"])
            assert data_of(untold, offsets[2], end) == first[2]
            assert is_still(untold.latestOffset(), end)
            untold.stop()
            assert [data for batch in first for data in batch] == [data for *_, data in session.expected()]


def test_a_checkpoint_that_a_slot_has_left_behind(live: Live, tmp_path: Path) -> None:
    slot = tmp_path / "slot"
    make_slot(live, slot)
    with Session(live, "behind") as session:
        advance_command.run(AdvanceFlags(slot, session.start))
        made = reader(slot=str(slot))
        start = made.initialOffset()
        session.insert(1, 10)
        end = made.latestOffset(start)
        with pytest.raises(SlotError, match="active for PID"):
            advance_command.run(AdvanceFlags(slot, end["lsn"]))
        made.stop()
        session.insert(11, 20)
        advance_command.run(AdvanceFlags(slot, str(Lsn(Lsn.parse(end["lsn"]) + 8))))
        again = reader(slot=str(slot))
        with pytest.raises(SlotError, match="behind the slot's confirmed LSN"):
            again.latestOffset(start)
        with pytest.raises(SlotError, match="has no state at the checkpoint's"):
            again.latestOffset({**end, "lsn": str(Lsn(Lsn.parse(end["lsn"]) + (1 << 30)))})
        again.stop()


def test_wal_that_is_gone_is_named(live: Live, tmp_path: Path) -> None:
    directory = tmp_path / "archive"
    directory.mkdir()
    seen: set[str] = set()
    with Session(live, "gone") as session:
        session.insert(1, 10)
        archive(live, session, directory, seen)
        made = reader(**live.messages(path=str(directory), startingLsn=session.start))
        at = made.latestOffset(made.initialOffset())
        session.insert(1000, 3999, "a longer note " * 60)
        archive(live, session, directory, seen)
        number = Lsn.parse(at["lsn"]) // SEGMENT + 1
        (directory / segment_name(1, number, SEGMENT)).unlink()
        with pytest.raises(SegmentError, match=segment_name(1, number, SEGMENT)):
            made.latestOffset(at)
        made.stop()


def test_rows_of_one_table_from_a_slot(live: Live, tmp_path: Path) -> None:
    slot = tmp_path / "slot"
    with Session(live, "rows") as session:
        session.insert(1, 10)
        make_slot(live, slot, plugin="rows")
        advance_command.run(AdvanceFlags(slot, session.start))
        session.insert(11, 20)
        source = HeadwaterDataSource({"slot": str(slot), "tables": "public.orders"})
        assert "`total` DECIMAL(10,2)" in source.schema()
        made = source.streamReader(StructType())
        start = made.initialOffset()
        session.insert(21, 30)
        session.insert(21, 30, table="other")
        end = made.latestOffset(start)
        ids = [
            id
            for partition in made.partitions(start, end)
            for batch in made.read(partition)
            for id in batch["id"].to_pylist()
        ]
        assert ids == list(range(1, 31))
        made.stop()
        others = HeadwaterDataSource({"slot": str(slot), "tables": "public.other"})
        others.schema()
        again = others.streamReader(StructType())
        with pytest.raises(UsageError, match="the checkpoint is of the table of OID"):
            again.latestOffset(end)
        again.stop()


def test_wal_without_output_makes_no_batch_but_frees_segments(live: Live, tmp_path: Path) -> None:
    slot = tmp_path / "slot"
    make_slot(live, slot)
    with Session(live, "idle") as session:
        advance_command.run(AdvanceFlags(slot, session.start))
        held, free = reader(slot=str(slot)), reader(**live.messages(startingLsn=session.start))
        for made, is_moved in ((held, True), (free, False)):
            start = made.latestOffset(made.initialOffset())
            for _ in range(3):
                session.value("SELECT length(pg_logical_emit_message(true, '', repeat('x', 900000))::text)")
            end = made.latestOffset(start)
            assert (end != start) is is_moved
            assert made.partitions(start, end) == []
            made.commit(end)
            assert is_still(made.latestOffset(end), end)
            session.insert(1 + is_moved, 1 + is_moved)
            assert len(data_of(made, end, made.latestOffset(end))) == (4 if is_moved else 3)
            made.stop()
        assert described(slot)["restart_lsn"] == described(slot)["confirmed_flush_lsn"] != session.start


def test_a_backup_of_a_server_that_runs(live: Live, tmp_path: Path) -> None:
    """The first batch has at least what makes the copy whole, whatever its bound."""
    backup = tmp_path / "backup"
    with Session(live, "backup") as session:
        session.insert(1, 1000)
        program = find_client("pg_basebackup", 16)
        command = [str(program), "-D", str(backup), "-X", "none", "-c", "fast", "--no-sync"]
        subprocess.run(command, check=True, env=live.server.client_environment(), capture_output=True)
        session.insert(2000, 2009)
        made = reader(**live.messages(catalog=str(backup), maxBytesPerTrigger="4096"))
        offsets, changes = [made.initialOffset()], []
        for number in range(4):
            session.insert(3000 + 100 * number, 3009 + 100 * number, table="other")
            offsets.append(made.latestOffset(offsets[-1]))
            changes += [data for data in data_of(made, *offsets[-2:]) if data[:1] != b"R"]
        expected = [data for *_, data in session.expected() if data[:1] != b"R"]
        assert len(set(map(str, offsets))) == 5
        assert changes == expected[-5 * 12 :][: len(changes)]
        assert len(changes) >= 4 * 12
        made.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"failOnDataLoss": "false"}, "failOnDataLoss"),
        ({"endingLsn": "0/5000000"}, "endingLsn"),
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger"),
        ({"pushFilters": "true"}, "pushFilters"),
    ],
)
def test_options_that_make_no_sense_for_a_stream(live: Live, options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        reader(**live.messages(**options))


def test_options_that_are_not_as_the_slot_has_them(live: Live, tmp_path: Path) -> None:
    slot = tmp_path / "slot"
    make_slot(live, slot)
    reader(slot=str(slot), plugin="pgoutput", publication="everything", database="postgres", path=str(live.wal))
    for name, value in {
        "plugin": "test_decoding",
        "publication": "another",
        "database": "another",
        "startingLsn": "0/1",
        "catalog": "/nowhere",
        "tables": "public.orders",
        "set.timezone": "UTC",
        "plugin.binary": "true",
    }.items():
        with pytest.raises(UsageError, match={"publication": "publication_names"}.get(name, name)):
            reader(slot=str(slot), **{name: value})
    with pytest.raises(UsageError, match="slot is an option of streams"):
        HeadwaterDataSource({"slot": str(slot)}).reader(StructType())
