"""WAL of wal_level replica: rows marked complete are those that a twin says which runs with wal_level logical.

Both servers do the same in one session; the twin's tables have REPLICA IDENTITY FULL, so its slot says all of each row.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bad_input.servers import copy_running, copy_wal, make_slot, peek, run, small_server
from headwater.catalog.store.bootstrap import open_catalog
from headwater.errors import PluginError, UsageError, WalError, held_warnings
from headwater.pipeline.requests.request import DecodeRequest
from headwater.source.options import SourceOptions
from headwater.source.source_plan import plan_source
from oracle.calls import record_ends
from oracle.folding import Piece, differing, folded, one_window

pytestmark = [pytest.mark.server, pytest.mark.spark]

slow = pytest.mark.slow
SERVERS = [
    pytest.param((18, {"wal_compression": "on"}), id="pg18-pglz"),
    pytest.param((14, {"wal_compression": "on"}), id="pg14-pglz", marks=slow),
    pytest.param((15, {"wal_consistency_checking": "heap,heap2"}), id="pg15-images", marks=slow),
    pytest.param((16, {"full_page_writes": "off"}), id="pg16-no-images", marks=slow),
    pytest.param((17, {}), id="pg17", marks=slow),
]
CUTS = 10

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, a text, b text)",
    "ALTER TABLE t ALTER b SET STORAGE EXTERNAL",
    "CREATE TABLE f (id int PRIMARY KEY, small smallint, big bigint, flag bool, amount numeric)",
    "CREATE TABLE part (id int, a text) PARTITION BY RANGE (id)",
    "CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (100) TO (200)",
    "CREATE TABLE wide (id int PRIMARY KEY, a text)",
    *(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in ("t", "f", "part_1", "part_2", "wide")),
)
COPY = "COPY t FROM PROGRAM 'for i in 1 2 3; do echo \"{}$i\tcopied\tvalue $i\"; done'"
STATEMENTS = (
    "INSERT INTO t VALUES (1, 'x', 'y'), (2, 'y', NULL)",
    "INSERT INTO t SELECT g, 'm' || g, repeat('p', g) FROM generate_series(3, 9) g",
    COPY.format("10"),
    "UPDATE t SET a = 'changed' WHERE id = 1",
    "UPDATE t SET id = 99 WHERE id = 2",
    "UPDATE t SET a = repeat('long', 1500), b = repeat('b', 3000) WHERE id = 3",
    "DELETE FROM t WHERE id = 4",
    "CHECKPOINT",
    "DELETE FROM t WHERE id = 5",
    "UPDATE t SET b = 'bb' WHERE id = 6",
    "CHECKPOINT",
    "UPDATE t SET b = 'bb' WHERE id = 7",
    "CHECKPOINT",
    COPY.format("20"),
    "INSERT INTO t VALUES (12, 'z', repeat('k', 5000)), (13, repeat('compressible', 900), 'b')",
    "UPDATE t SET a = 'zz' WHERE id = 12",
    "CHECKPOINT",
    "UPDATE t SET a = 'zzz' WHERE id = 12",
    "CHECKPOINT",
    "DELETE FROM t WHERE id = 12",
    "INSERT INTO t VALUES (1, 'x') ON CONFLICT DO NOTHING",
    "INSERT INTO t VALUES (14, 'x') ON CONFLICT DO NOTHING",
    "CHECKPOINT",
    "INSERT INTO t VALUES (15, 'x', 'image of a speculative insert') ON CONFLICT DO NOTHING",
    "INSERT INTO f SELECT g, g, g, g % 2 = 0, g / 7.0 FROM generate_series(1, 9) g",
    "UPDATE f SET big = 1234567890123456789 WHERE id = 1",
    "UPDATE f SET amount = NULL, flag = NOT flag WHERE id = 2",
    "UPDATE f SET small = NULL WHERE id = 3",
    "UPDATE f SET amount = 3.14159 WHERE id = 4",
    # new rows on other pages than the old ones
    "INSERT INTO wide SELECT g, repeat(chr(64 + g), 1500) FROM generate_series(1, 6) g",
    "UPDATE wide SET a = a || 'new' WHERE id = 1",
    "CHECKPOINT",
    "UPDATE wide SET a = a || 'newer' WHERE id = 2",
    "INSERT INTO part VALUES (1, 'moves'), (2, 'stays')",
    "UPDATE part SET id = id + 100 WHERE id = 1",
    # subtransactions, of which no record names the transaction, and the transaction's own changes of the catalog
    "BEGIN",
    "INSERT INTO t VALUES (30, 's')",
    "SAVEPOINT a",
    "INSERT INTO t VALUES (31, 's')",
    "ALTER TABLE t ADD COLUMN c int DEFAULT 5",
    "INSERT INTO t VALUES (32, 's')",
    "SAVEPOINT b",
    "INSERT INTO t VALUES (33, 'gone')",
    "ALTER TABLE t RENAME COLUMN c TO gone",
    "ROLLBACK TO b",
    "INSERT INTO t VALUES (34, 's')",
    "COMMIT",
    "SELECT pg_logical_emit_message(true, 'p', 'said')",
    "BEGIN",
    "CREATE TABLE u (id int, s text)",
    "ALTER TABLE u REPLICA IDENTITY FULL",
    "INSERT INTO u SELECT g, 'u' FROM generate_series(1, 3) g",
    "ALTER TABLE u ALTER id TYPE bigint",
    "INSERT INTO u VALUES (4, 'u')",
    "COMMIT",
    # without a TOAST table, so that the last that is done to the catalogs is to insert several rows at once
    "BEGIN",
    "CREATE TABLE bare (id int, n int)",
    "INSERT INTO bare SELECT g, g FROM generate_series(1, 3) g",
    "COMMIT",
    "ALTER TABLE bare ALTER n TYPE bigint",
    "INSERT INTO bare VALUES (4, 1234567890123)",
    "ALTER TABLE t DROP COLUMN a",
    "UPDATE t SET c = 6 WHERE id = 9",
    "INSERT INTO t VALUES (40, 'b', 7)",
    # catalogs move, and get rows that no flag tells from others
    "VACUUM FULL pg_class",
    "VACUUM FULL pg_proc",
    "VACUUM FULL t",
    "DO $do$ BEGIN EXECUTE 'CREATE FUNCTION long() RETURNS text LANGUAGE sql AS $$ SELECT ''' || "
    "(SELECT string_agg(md5(g::text), '') FROM generate_series(1, 500) g) || '''$$'; END $do$",
    "BEGIN",
    "INSERT INTO t VALUES (41, 'prepared', 8)",
    "PREPARE TRANSACTION 'p'",
    "INSERT INTO t VALUES (42, 'meanwhile', 9)",
    "COMMIT PREPARED 'p'",
    "BEGIN",
    "INSERT INTO t VALUES (43, 'rolled back', 9)",
    "ROLLBACK",
    *(f"UPDATE t SET c = {number} WHERE id = 40" for number in range(3)),
)


@dataclass(frozen=True)
class Twins:
    """The things that the two servers left.

    Attributes:
        catalog: of the one with wal_level replica, taken before the statements, while it was down.
        wal: its ``pg_wal`` at the end.
        rows: what the slot of the other one says, without BEGIN and COMMIT.
        images: which records come with images of their pages: none, some or all.
    """

    catalog: Path
    wal: Path
    rows: tuple[str, ...]
    images: str

    @property
    def request(self) -> DecodeRequest:
        return DecodeRequest(str(self.wal), str(self.catalog), "postgres", from_replica_level=True)


@pytest.fixture(scope="module", params=SERVERS)
def twins(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Twins:
    major, settings = request.param
    directory = tmp_path_factory.mktemp("twins")
    with small_server(major, wal_level="replica", **settings) as server:
        run(server, *TABLES)
        server.stop()
        catalog = server.copy_data_directory(directory / "catalog")
        server.start()
        run(server, *STATEMENTS)
        server.stop()
        wal = copy_wal(server, directory / "wal")
    with small_server(major) as server:
        run(server, *TABLES)
        make_slot(server, "s")
        run(server, *STATEMENTS)
        rows = tuple(_rows(line.split("\t")[2] for line in peek(server, "s").decode().splitlines()))
    images = "all" if "wal_consistency_checking" in settings else "none" if "full_page_writes" in settings else "some"
    return Twins(catalog, wal, rows, images)


def _rows(lines: Iterator[str]) -> Iterator[str]:
    return (line for line in lines if not line.startswith(("BEGIN", "COMMIT")))


def _lines(*pieces: Piece) -> list[str]:
    return [row["data"] for piece in pieces for row in piece.messages.to_pylist()]


def _decoded(request: DecodeRequest) -> tuple[list[str], list[str]]:
    with held_warnings() as warned:
        lines = _lines(one_window(request, None))
    return list(_rows(iter(lines))), [str(warning) for warning in warned]


MARK = re.compile(r" \((partial|complete|no-tuple-data)\)$")
VALUE = re.compile(r" (\w+)\[[^]]*(?:\[\])?\]:((?:'(?:[^']|'')*'|[^ ']+))")


def _values(text: str) -> dict[str, str]:
    return {name: value for name, value in VALUE.findall(text) if value != "unchanged-toast-datum"}


def _new_row(line: str) -> dict[str, str]:
    """Return columns of the new row, of a delete the old one; with the old one's values that were not written again."""
    old, _, new = MARK.sub("", line).partition(" new-tuple:")
    if not new:
        return _values(old)
    unchanged = [name for name, value in VALUE.findall(new) if value == "unchanged-toast-datum"]
    return _values(new) | {name: value for name, value in _values(old).items() if name in unchanged}


def test_complete_rows_are_those_of_the_twin(twins: Twins) -> None:
    lines, warned = _decoded(twins.request)
    marks: Counter[str] = Counter()
    assert len(lines) == len(twins.rows)
    for line, expected in zip(lines, twins.rows, strict=True):
        head = " ".join(expected.split(" ")[:3])
        assert line.startswith(head)
        if line.startswith("message"):
            assert line == expected
            continue
        mark = MARK.search(line)
        assert mark is not None, line
        operation = head.split(" ")[2].strip(":")
        marks[f"{operation} {mark[1]}"] += 1
        row, true = _new_row(line), _new_row(expected)
        assert true
        assert row.items() <= true.items(), (line, expected)
        assert (row == true) == (mark[1] == "complete"), (line, expected)
        assert (mark[1] == "no-tuple-data") == line.endswith(f"{operation}: (no-tuple-data)")
    assert marks["INSERT complete"] == sum(": INSERT:" in line for line in twins.rows)
    assert marks["UPDATE complete"] >= (1 if twins.images == "none" else 2)
    assert marks["UPDATE partial"] > (0 if twins.images == "all" else 5)
    assert (marks["DELETE no-tuple-data"] > 0) == (twins.images != "all")
    assert (marks["DELETE complete"] > 0) == (twins.images != "none")
    (warning,) = warned
    assert "was written with wal_level = replica" in warning
    assert "a TRUNCATE cannot be told" in warning


def test_partial_rows_name_what_is_known(twins: Twins) -> None:
    """Values are known that the bytes of an update hold as a whole, though the rest is shared with the old row."""
    if twins.images == "all":
        return
    lines, _ = _decoded(replace(twins.request, options=(("include-xids", "0"),)))
    partial = [line for line in lines if line.endswith("UPDATE: a[text]:'changed' b[text]:'y' (partial)")]
    assert len(partial) == 1
    flag = [line for line in lines if line.startswith("table public.f: UPDATE") and "amount[numeric]:null" in line]
    assert flag
    assert all(line.endswith(" (partial)") for line in flag)


def test_windows_are_cut_anywhere(twins: Twins) -> None:
    start = open_catalog(str(twins.catalog), "postgres").start_lsn
    inside = [end for end in record_ends(twins.wal).tolist() if end > start]
    ends = [*sorted(random.Random(2).sample(inside[:-1], CUTS)), inside[-1]]
    with held_warnings():
        whole = _lines(one_window(twins.request, None))
        pieces = list(folded(twins.request, ends))
        assert _lines(*pieces) == whole
        for end, piece in list(zip(ends, pieces, strict=True))[:3]:
            at_once = one_window(replace(twins.request, end=end), None, goes_on=True).state
            assert at_once == piece.state, differing(at_once, piece.state)


def test_rows_say_how_complete_they_are(twins: Twins) -> None:
    """In the data source; a delete of which nothing is known is a row all the same."""
    options = {"path": str(twins.wal), "catalog": str(twins.catalog), "database": "postgres"}
    with held_warnings():
        plan = plan_source(SourceOptions.parse({**options, "fromReplicaLevel": "true", "ddl": "false"}))
    rows = [row for part in plan.slices for row in plan.form.batch(plan.decoder.located(part)).to_pylist()]
    assert "_completeness STRING" in plan.form.spark_columns
    lines = [line for line in _decoded(twins.request)[0] if not line.startswith("message")]
    words = {"complete": "complete", "partial": "partial", "no-tuple-data": "absent"}
    marks = [MARK.search(line) for line in lines]
    assert [row["_completeness"] for row in rows] == [words[mark[1]] for mark in marks if mark is not None]
    if twins.images == "all":
        return
    partial = next(row for row in rows if row["_completeness"] == "partial" and row["_op"] == "update")
    assert dict(partial["_after"]) == {"a": "changed", "b": "y"}
    assert partial["_unchanged"] == ["id"]


@pytest.mark.slow
def test_reads_and_streams_of_spark(twins: Twins, spark: Any, tmp_path: Path) -> None:
    """A stream that begins at the backup says what a read does, in batches of a few kilobytes of WAL."""
    options = {
        "path": str(twins.wal),
        "catalog": str(twins.catalog),
        "database": "postgres",
        "fromReplicaLevel": "true",
    }
    columns = ["_lsn", "_op", "_completeness", "_after"]
    read = spark.read.format("headwater").options(**options).load().select(*columns).collect()
    assert {row["_completeness"] for row in read} >= {"complete"}
    batches = []
    stream = spark.readStream.format("headwater").options(**options, maxBytesPerTrigger="20000").load().select(*columns)
    writer = stream.writeStream.foreachBatch(lambda frame, _: batches.append(frame.collect()))
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(100)
    assert [row for batch in batches for row in batch] == read
    assert len(batches) > 1


def test_a_single_table_has_its_own_columns(twins: Twins) -> None:
    options = {"path": str(twins.wal), "catalog": str(twins.catalog), "database": "postgres", "tables": "public.f"}
    with held_warnings():
        plan = plan_source(SourceOptions.parse({**options, "fromReplicaLevel": "true"}))
    rows = [row for part in plan.slices for row in plan.form.batch(plan.decoder.located(part)).to_pylist()]
    inserted = [(row["id"], row["small"], row["big"], row["flag"]) for row in rows if row["_op"] == "insert"]
    assert inserted == [(number, number, number, number % 2 == 0) for number in range(1, 10)]
    for row in rows:
        names = [name for name in ("id", "small", "big", "flag", "amount") if name in row["_unchanged"]]
        assert (row["_completeness"] == "partial") == bool(names)
        assert [row[name] for name in names] == [None] * len(names)


def test_what_is_not_asked_for_is_refused(twins: Twins) -> None:
    with pytest.raises(PluginError, match="pgoutput cannot mark rows"):
        one_window(replace(twins.request, plugin="pgoutput", options=(("proto_version", "1"),)), None)
    with pytest.raises(WalError, match="wal_level = replica, expected logical"):
        one_window(replace(twins.request, from_replica_level=False), None)
    with held_warnings():
        piece = one_window(twins.request, None)
    with pytest.raises(UsageError, match="without --from-replica-level, the state is of a session with it"):
        one_window(replace(twins.request, from_replica_level=False), piece.value)


def test_transactions_of_other_databases_are_not_shown(tmp_path: Path) -> None:
    """Below logical most commits do not say of which database they are."""
    with small_server(18, wal_level="replica") as server:
        run(server, "CREATE TABLE t (id int)", "CREATE DATABASE other")
        run(server, "CREATE TABLE t (id int)", database="other")
        server.stop()
        catalog = server.copy_data_directory(tmp_path / "catalog")
        server.start()
        run(server, "INSERT INTO t VALUES (1)", database="other")
        run(server, "INSERT INTO t VALUES (2)", "SELECT pg_logical_emit_message(true, 'p', 'said')")
        server.stop()
        request = DecodeRequest(str(server.wal_directory), str(catalog), "postgres", from_replica_level=True)
        with held_warnings():
            lines = _lines(one_window(request, None))
    assert [line.split(" ")[0] for line in lines] == ["BEGIN", "table", "COMMIT", "BEGIN", "message:", "COMMIT"]


def test_a_window_in_which_decoding_cannot_begin(tmp_path: Path) -> None:
    """The level is not what is wrong."""
    with small_server(18, wal_level="replica") as server, server.connect() as older:
        run(server, "CREATE TABLE t (id int)")
        older.execute("BEGIN")
        older.execute("INSERT INTO t VALUES (1)")
        run(server, "CHECKPOINT")
        backup = copy_running(server, tmp_path / "backup")
        run(server, "INSERT INTO t VALUES (2)", "CHECKPOINT")
        wal = copy_wal(server, tmp_path / "wal")
    request = DecodeRequest(str(wal), str(backup), "postgres", from_replica_level=True)
    with pytest.raises(WalError, match=r"no consistent point between .* transactions that ran when the catalog"):
        one_window(request, None)
