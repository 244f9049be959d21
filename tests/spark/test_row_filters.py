"""Row filters of publications in Spark: rows, a plugin's messages over many slices, and what is not read or printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from arrow_types import values_of
from headwater import DecodeRequest, decode
from headwater.demo.stream_comparison import first_difference, joined, messages_table
from headwater.errors import HeadwaterError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.reorder.slices import cutting
from headwater.source.options import SourceOptions
from headwater.source.source_plan import plan_source

pytestmark = [pytest.mark.server, pytest.mark.spark]

SETUP = """
CREATE TABLE wanted (id int PRIMARY KEY, total int, note text);
ALTER TABLE wanted REPLICA IDENTITY FULL;
CREATE TABLE unwanted (id int, filler text);
CREATE PUBLICATION some_rows FOR TABLE wanted WHERE (total > 100);
"""
WORK = """
INSERT INTO unwanted SELECT i, repeat('x', 500) FROM generate_series(1, 20000) i;
INSERT INTO wanted SELECT i, i, 'first' FROM generate_series(1, 200) i;
INSERT INTO wanted SELECT -i, -i, 'none' FROM generate_series(1, 3000) i;
UPDATE wanted SET total = total + 50 WHERE id BETWEEN 41 AND 60;
UPDATE wanted SET total = total - 50 WHERE id BETWEEN 141 AND 160;
BEGIN; INSERT INTO wanted VALUES (1001, 1, 'no'); INSERT INTO wanted VALUES (1002, 1002, 'yes'); COMMIT;
DELETE FROM wanted WHERE id > 190 OR id < -2990;
INSERT INTO wanted SELECT i, CASE i WHEN 9000 THEN 101 ELSE 0 END, 'last one' FROM generate_series(5000, 9000) i;
"""
COUNTS = {"insert": 100 + 10 + 1 + 1, "update": 10, "delete": 10 + 10 + 1}
WANTED = 200 + 3000 + 2 + 4001 + 2 * 20 + 10 + 2 + 10
"""Changes of the table."""


@dataclass(frozen=True)
class Log:
    """A stopped server's files, and what it says of the publication."""

    wal: Path
    backup: Path
    start: int
    expected: pa.Table

    def rows(self, spark: Any, **options: str) -> Any:
        given = {"path": str(self.wal), "catalog": str(self.backup), **options}
        return spark.read.format("headwater").options(**given).load()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False) as server:
        with server.connect() as connection:
            _run(connection, SETUP)
        server.stop()
        backup = server.copy_data_directory(tmp_path_factory.mktemp("log") / "backup")
        server.start()
        with server.connect() as connection:
            query = "SELECT (lsn - '0/0')::int8 FROM pg_create_logical_replication_slot('s', 'pgoutput')"
            [(start,)] = connection.execute(query).fetchall()
            _run(connection, WORK)
            rows = connection.execute(
                "SELECT (lsn - '0/0')::int8, xid::text::int8, data FROM pg_logical_slot_peek_binary_changes('s', NULL, "
                "NULL, 'proto_version', '1', 'publication_names', 'some_rows')"
            ).fetchall()
        server.stop()
        expected = messages_table((lsn, xid, bytes(data)) for lsn, xid, data in rows)
        yield Log(server.wal_directory, backup, start, expected)


def _run(connection: Any, statements: str) -> None:
    for statement in filter(str.strip, statements.split(";\n")):
        connection.execute(statement)


def _counts(rows: Any) -> dict[str, int]:
    return {row["_op"]: row["count"] for row in rows.groupBy("_op").count().collect()}


def test_rows_of_a_publication(spark: Any, log: Log) -> None:
    assert _counts(log.rows(spark, publication="some_rows")) == COUNTS
    inserted = log.rows(spark, publication="some_rows", tables="public.wanted").where("_op = 'insert' AND id = 55")
    assert [(row.total, row._before) for row in inserted.collect()] == [(105, None)]


def test_operations_are_those_behind_the_filter(spark: Any, log: Log) -> None:
    """Spark asks for an INSERT or DELETE that was an UPDATE in the log."""
    for options in ({"publication": "some_rows"}, {"publish": "wanted WHERE total > 100"}):
        for operation, count in COUNTS.items():
            rows = log.rows(spark, pushFilters="true", images="true", **options).where(f"_op = '{operation}'")
            assert rows.count() == count, (options, operation)


def test_messages_over_many_slices(spark: Any, log: Log) -> None:
    options = {"plugin": "pgoutput", "publication": "some_rows", "startingLsn": f"0/{log.start:X}"}
    rows = log.rows(spark, partitionBytes="1", **options)
    messages = messages_table((row.lsn, row.xid, bytes(row.data)) for row in rows.collect())
    assert first_difference(log.expected, messages) is None, first_difference(log.expected, messages)


def test_files_of_many_slices(spark: Any, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "SMALLEST_SLICE", 1 << 15)
    monkeypatch.setattr(cutting, "SLICE_BYTES", 1 << 15)
    options = (("proto_version", "1"), ("publication_names", "some_rows"))
    request = DecodeRequest(str(log.wal), str(log.backup), plugin="pgoutput", options=options, start=log.start)
    with decode(spark, request) as result:
        messages = joined(result.tables())
        assert len(result.files) > 3
    assert first_difference(log.expected, messages) is None, first_difference(log.expected, messages)
    changes = sum(COUNTS.values())
    assert (result.messages, result.bytes) == (len(messages), sum(map(len, values_of(messages.column("data")))))
    assert (result.changes, result.filtered) == (changes, WANTED - changes)


def test_what_nobody_wants_is_not_read_again(spark: Any, log: Log) -> None:
    options = (("proto_version", "1"), ("publication_names", "some_rows"))
    request = DecodeRequest(str(log.wal), str(log.backup), plugin="pgoutput", options=options, start=log.start)
    with decode(spark, request) as result:
        assert result.passed_over >= 20000
        assert result.read_again < result.wal_bytes / 3


def test_a_column_list_takes_only_its_columns_apart(log: Log) -> None:
    """Nothing is printed of other columns."""
    given = {"path": str(log.wal), "catalog": str(log.backup), "publish": "wanted(id) WITH (publish = 'insert')"}
    plan = plan_source(SourceOptions.parse(given))
    decoder: SliceDecoder = plan.decoder
    cells = [decoder.cells(piece).cells for piece in plan.slices]
    texts = b"".join(part.text.tobytes() for part in cells)
    assert b"last one" not in texts
    assert b"9000" in texts


def test_refusals(spark: Any, log: Log) -> None:
    with pytest.raises(HeadwaterError, match="publish cannot be given with a single table"):
        SourceOptions.parse({"path": "x", "catalog": "y", "tables": "a.b", "publish": "a.b"})
    with pytest.raises(Exception, match="no table of a publication"):
        log.rows(spark, publish="wanted WHERE").count()
