"""One table's own columns, through what happens to tables: what comes out is what a real server was told."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from headwater.errors import CatalogError, DecodingError, HeadwaterError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.windows import windows
from headwater.pipeline.windows.index_job import IndexTask, index_in_threads
from headwater.rmgr.index.wal_index import WalIndex
from headwater.source.data_source import HeadwaterDataSource
from headwater.source.options import SourceOptions
from headwater.source.source_plan import plan_source

pytestmark = [pytest.mark.server, pytest.mark.spark]

SETUP = """
CREATE SCHEMA shop;
CREATE TABLE idle (id int PRIMARY KEY, total numeric(6,2));
CREATE TABLE sometimes (id int, note text);
CREATE TABLE doomed (id int, note text);
CREATE TABLE partitioned (id int) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF partitioned FOR VALUES FROM (0) TO (10);
CREATE UNLOGGED TABLE unlogged (id int);
CREATE VIEW view AS SELECT 1 AS id;
CREATE TABLE clash (id int, _Op text);
"""

LONG = "(SELECT string_agg(md5(g::text), '') FROM generate_series(1, 200) g)"

SCENARIOS = {
    "made again": """
        CREATE TABLE t (a int, b int);
        INSERT INTO t (a, b) VALUES (1, 100);
        DROP TABLE t;
        CREATE TABLE t (b int, a int);
        INSERT INTO t (a, b) VALUES (2, 200);
    """,
    "swapped": """
        CREATE TABLE t (a int, b int);
        CREATE TABLE u (b int, a int);
        INSERT INTO t (a, b) VALUES (1, 100);
        INSERT INTO u (a, b) VALUES (2, 200);
        BEGIN; ALTER TABLE t RENAME TO x; ALTER TABLE u RENAME TO t; COMMIT;
        INSERT INTO x (a, b) VALUES (3, 300);
        INSERT INTO t (a, b) VALUES (4, 400);
    """,
    "away and back": """
        CREATE TABLE t (a int);
        INSERT INTO t VALUES (1);
        ALTER TABLE t RENAME TO x;
        INSERT INTO x VALUES (2);
        ALTER TABLE x SET SCHEMA shop;
        INSERT INTO shop.x VALUES (3);
        ALTER TABLE shop.x SET SCHEMA public;
        ALTER TABLE x RENAME TO t;
        INSERT INTO t VALUES (4);
    """,
    "away": """
        CREATE TABLE t (a int);
        INSERT INTO t VALUES (1);
        ALTER TABLE t RENAME TO x;
        ALTER TABLE x RENAME COLUMN a TO z;
        INSERT INTO x VALUES (2);
    """,
    "dropped": "INSERT INTO doomed VALUES (1, 'x'); ALTER TABLE doomed ADD COLUMN late int; DROP TABLE doomed;",
    "one transaction": "BEGIN; CREATE TABLE t (a int); INSERT INTO t VALUES (1); DROP TABLE t; COMMIT;",
    "truncated and made again": "CREATE TABLE t (a int); TRUNCATE t; DROP TABLE t; CREATE TABLE t (a int);",
    "column made again": """
        CREATE TABLE t (id int, v int, w int);
        INSERT INTO t VALUES (1, 10, 100);
        ALTER TABLE t DROP COLUMN v;
        INSERT INTO t VALUES (2, 200);
        ALTER TABLE t ADD COLUMN v int;
        ALTER TABLE t RENAME COLUMN w TO x;
        INSERT INTO t VALUES (3, 300, 30);
    """,
    "wider type": """
        CREATE TABLE t (id int, n int, d numeric(6,2));
        INSERT INTO t VALUES (1, 10, 1.25);
        ALTER TABLE t ALTER n TYPE bigint, ALTER d TYPE numeric(12,4);
        INSERT INTO t VALUES (2, 20000000000, 1.2345);
    """,
    "other type": """
        CREATE TABLE t (id int, v text);
        INSERT INTO t VALUES (1, NULL), (2, 'secret');
        ALTER TABLE t ALTER v TYPE int USING 0;
        INSERT INTO t VALUES (3, 30);
    """,
    "zone": """
        CREATE TABLE t (id int, v timestamp);
        INSERT INTO t VALUES (1, '2024-07-01 12:00:00');
        ALTER TABLE t ALTER v TYPE timestamptz;
    """,
    "large": f"""
        CREATE TABLE t (id int PRIMARY KEY, big text, other text);
        ALTER TABLE t ALTER big SET STORAGE EXTERNAL, ALTER other SET STORAGE EXTERNAL;
        INSERT INTO t VALUES (1, {LONG}, {LONG}), (2, {LONG}, NULL);
        UPDATE t SET id = 3 WHERE id = 1;
        UPDATE t SET big = NULL WHERE id = 3;
        UPDATE t SET other = 'x' WHERE id = 2;
        ALTER TABLE t REPLICA IDENTITY FULL;
        UPDATE t SET id = 4 WHERE id = 3;
        DELETE FROM t WHERE id = 2;
    """,
    "not a number": """
        CREATE TABLE t (id int, v numeric(6,2));
        INSERT INTO t VALUES (1, 1.5), (2, 'NaN'), (3, NULL);
    """,
    "endless": """
        CREATE TABLE t (id int, d date, ts timestamp, tz timestamptz);
        INSERT INTO t VALUES (1, '2024-02-29', '2024-02-29 12:00', '2024-02-29 12:00+00');
        INSERT INTO t VALUES (2, 'infinity', '-infinity', 'infinity');
        INSERT INTO t VALUES (3, '0044-03-15 BC', '10000-01-01', '294276-12-31 23:59:59+00');
        INSERT INTO t VALUES (4, '0001-01-01', '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59.999999+00');
    """,
    "styles": """
        CREATE TABLE t (id int PRIMARY KEY, d date, ts timestamp, tz timestamptz, f float8, g float4, b bytea,
            i interval, m money, p point, a timestamptz[]);
        ALTER TABLE t REPLICA IDENTITY FULL;
        INSERT INTO t VALUES (1, '2024-02-03', '2024-02-03 04:05:06.7', '2024-02-03 04:05:06.7+00', 1.0/3, 1.0/3, 'x',
            '1 year -2 days', 1234.5, '(0.1,0.3)', '{2024-02-03 04:05:06.7+00}');
        UPDATE t SET id = 2;
        ALTER TABLE t ALTER d TYPE text;
        INSERT INTO t (id, d) VALUES (3, 'a text');
    """,
    "sometimes": "ALTER TABLE sometimes ADD COLUMN late int; INSERT INTO part VALUES (1); TRUNCATE partitioned, idle;",
}


@dataclass
class Log:
    """A stopped server's files, and where each scenario begins and ends in its log."""

    wal: Path
    backup: Path
    bounds: dict[str, tuple[str, str]] = field(default_factory=dict)
    window_bytes: str = str(1 << 30)

    def options(self, scenario: str, tables: str, **options: str) -> dict[str, str]:
        start, end = self.bounds[scenario]
        given = {"path": str(self.wal), "catalog": str(self.backup), "startingLsn": start, "endingLsn": end}
        return given | {"tables": tables, "windowBytes": self.window_bytes, "ddl": "false"} | options

    def rows(self, scenario: str, tables: str = "public.t", **options: str) -> list[dict[str, Any]]:
        """Read all rows, as the reader gives them: what Spark does with it, without Spark."""
        reader = HeadwaterDataSource(self.options(scenario, tables, **options)).reader(StructType())
        rows = []
        for partition in reader.partitions():
            copied = pickle.loads(pickle.dumps((reader, partition)))
            for batch in copied[0].read(copied[1]):
                batch.validate(full=True)
                rows += batch.to_pylist()
        return rows

    def values(self, scenario: str, *columns: str, **options: str) -> list[tuple[Any, ...]]:
        """Read some columns of all rows of public.t."""
        return [tuple(row[name] for name in columns) for row in self.rows(scenario, **options)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """Write a log with each statement in a segment of its own."""
    programs = find_programs(16, plugin="test_decoding")
    with EmbeddedPostgres(programs, autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            connection.execute(SETUP)
        server.stop()
        made = Log(server.wal_directory, server.copy_data_directory(tmp_path_factory.mktemp("log") / "backup"))
        server.start()
        with server.connect() as connection:
            for name, statements in SCENARIOS.items():
                start = _flushed(connection)
                for statement in filter(str.strip, statements.split(";")):
                    connection.execute(statement)
                    connection.execute("SELECT pg_switch_wal()")
                made.bounds[name] = start, _flushed(connection)
                connection.execute("DROP TABLE IF EXISTS t, u, x")
        server.stop()
        yield made


@pytest.fixture
def log(request: pytest.FixtureRequest, written: Log, spark: Any) -> Log:  # noqa: ARG001
    """Read where Spark is there, as tasks are."""
    return replace(written, window_bytes="1") if getattr(request, "param", ONE) == MANY else written


ONE, MANY = "one window", "a window for each segment"
however_cut = pytest.mark.parametrize("log", [ONE, MANY], indirect=True)


def _flushed(connection: Any) -> str:
    """Return where the log ends, with nothing running."""
    return str(connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0])


@however_cut
def test_a_table_made_again_is_an_error_that_says_what_to_do(log: Log) -> None:
    with pytest.raises(CatalogError) as caught:
        log.rows("made again")
    (other,) = [
        row for row in log.rows("made again", "public.t", images="true") if row["_after"] == [("a", "1"), ("b", "100")]
    ]
    lsn = f"{other['_lsn'] >> 32:X}/{other['_lsn'] & 0xFFFFFFFF:X}"
    for word in ("public.t", lsn, "OID", "onTableReplaced", "skip", "byName"):
        assert word in caught.value.one_line()


@however_cut
def test_a_table_made_again_has_its_values_under_its_own_columns(log: Log) -> None:
    assert log.values("made again", "a", "b", onTableReplaced="skip") == [(2, 200)]
    assert log.values("made again", "a", "b", onTableReplaced="byName") == [(1, 100), (2, 200)]


@however_cut
def test_a_truncate_of_a_table_made_again_counts(log: Log) -> None:
    with pytest.raises(CatalogError, match="another table"):
        log.rows("truncated and made again")
    assert log.values("truncated and made again", "_op", onTableReplaced="skip") == []
    assert log.values("truncated and made again", "_op", onTableReplaced="byName") == [("truncate",)]


@however_cut
def test_tables_that_swap_names(log: Log) -> None:
    with pytest.raises(CatalogError, match="another table"):
        log.rows("swapped")
    rows = log.values("swapped", "_table", "a", "b", onTableReplaced="skip")
    assert rows == [("u", 2, 200), ("t", 4, 400)]
    rows = log.values("swapped", "_table", "a", "b", onTableReplaced="byName")
    assert rows == [("t", 1, 100), ("u", 2, 200), ("t", 4, 400)]


@however_cut
def test_a_table_that_goes_away_and_comes_back_is_one(log: Log) -> None:
    rows = log.values("away and back", "_schema", "_table", "a")
    assert rows == [("public", "t", 1), ("public", "x", 2), ("shop", "x", 3), ("public", "t", 4)]


@however_cut
def test_a_name_nobody_bears_at_the_end_means_its_last_bearer(log: Log) -> None:
    assert log.values("away", "_table", "z") == [("t", 1), ("x", 2)]
    assert [(row["id"], row["late"]) for row in log.rows("dropped", "public.doomed")] == [(1, None)]
    assert log.values("one transaction", "a") == [(1,)]


def test_a_column_made_again_starts_anew(log: Log) -> None:
    assert log.values("column made again", "id", "v", "x") == [(1, None, 100), (2, None, 200), (3, 30, 300)]


def test_values_of_a_narrower_type(log: Log) -> None:
    rows = log.values("wider type", "n", "d")
    assert rows == [(10, Decimal("1.2500")), (20_000_000_000, Decimal("1.2345"))]


@pytest.mark.parametrize("scenario", ["other type", "zone"])
def test_a_value_that_does_not_fit_the_later_type(log: Log, scenario: str) -> None:
    with pytest.raises(DecodingError, match=r'column "v" of table "public\.t", whose type was') as caught:
        log.rows(scenario)
    images = log.rows(scenario, "public.t", images="true")
    assert caught.value.lsn == next(row["_lsn"] for row in images if dict(row["_after"])["v"])
    assert "secret" not in caught.value.one_line()


def test_values_out_of_line(log: Log) -> None:
    rows = log.rows("large")
    big = rows[0]["big"]
    assert len(big) == 32 * 200
    assert [(row["_op"], row["id"], row["big"], row["other"], row["_unchanged"]) for row in rows] == [
        ("insert", 1, big, big, []),
        ("insert", 2, big, None, []),
        ("update", 3, None, None, ["big", "other"]),
        ("update", 3, None, None, ["other"]),
        ("update", 2, None, "x", ["big"]),
        ("update", 4, None, big, []),
        ("delete", 2, big, "x", []),
    ]
    images = log.rows("large", "public.t", images="true")
    assert [row["_unchanged"] for row in images] == [row["_unchanged"] for row in rows]
    assert images[2]["_after"] == [("id", "3")]
    assert images[3]["_after"] == [("id", "3"), ("big", None)]
    assert dict(images[5]["_after"]) == {"id": "4", "big": None, "other": big}


def test_old_tuples_are_there_and_known_for_keys(log: Log) -> None:
    rows = log.rows("large")
    big = rows[0]["big"]
    assert [(row["_before_is_key"], row["_before"]) for row in rows[2:]] == [
        (True, {"id": 1, "big": None, "other": None}),
        (None, None),
        (None, None),
        (False, {"id": 3, "big": None, "other": big}),
        (False, {"id": 2, "big": big, "other": "x"}),
    ]
    images = log.rows("large", "public.t", images="true")
    assert [row["_before_is_key"] for row in images] == [row["_before_is_key"] for row in rows]
    assert images[2]["_before"] == [("id", "1")]


def test_not_a_number_follows_the_option(log: Log) -> None:
    with pytest.raises(
        DecodingError, match=r'column "v" of table "public\.t" holds NaN, which DECIMAL\(6,2\)'
    ) as caught:
        log.rows("not a number")
    assert caught.value.lsn == log.rows("not a number", "public.t", images="true")[1]["_lsn"]
    assert log.values("not a number", "v", onUnrepresentable="null") == [(Decimal("1.50"),), (None,), (None,)]
    assert log.values("not a number", "v", onUnrepresentable="string") == [("1.50",), ("NaN",), (None,)]


def test_dates_and_times_without_end_follow_the_option(log: Log) -> None:
    with pytest.raises(DecodingError, match=r'column "d" of table "public\.t" holds infinity, which DATE'):
        log.rows("endless")
    day, noon = date(2024, 2, 29), datetime(2024, 2, 29, 12)
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999)
    assert log.values("endless", "d", "ts", "tz", onUnrepresentable="null") == [
        (day, noon, noon.replace(tzinfo=UTC)),
        (None, None, None),
        (None, None, None),
        (date(1, 1, 1), last, last.replace(tzinfo=UTC)),
    ]
    assert log.values("endless", "d", "ts", "tz", onUnrepresentable="string") == [
        ("2024-02-29", "2024-02-29 12:00:00", "2024-02-29 12:00:00+00"),
        ("infinity", "-infinity", "infinity"),
        ("0044-03-15 BC", "10000-01-01 00:00:00", "294276-12-31 23:59:59+00"),
        ("0001-01-01", "9999-12-31 23:59:59.999999", "9999-12-31 23:59:59.999999+00"),
    ]


STYLES = {
    "set.DateStyle": "SQL, DMY",
    "set.IntervalStyle": "sql_standard",
    "set.extra_float_digits": "-12",
    "set.bytea_output": "escape",
    "set.TimeZone": "America/New_York",
    "set.lc_monetary": "C",
}


def test_styles_change_what_is_text_and_nothing_else(log: Log) -> None:
    columns = ("id", "d", "ts", "tz", "f", "g", "b", "i", "m", "p", "a")
    first, second, third = log.values("styles", *columns, **STYLES)
    moment = datetime(2024, 2, 3, 4, 5, 6, 700_000)
    single = struct.unpack("<f", struct.pack("<f", 1 / 3))[0]
    texts = ({"months": 12, "days": -2, "microseconds": 0}, "$1,234.50", "(0.1,0.3)", [moment.replace(tzinfo=UTC)])
    assert first == (1, "03/02/2024", moment, moment.replace(tzinfo=UTC), 1 / 3, single, b"x", *texts)
    assert (second, third) == ((2, *first[1:]), (3, "a text", *[None] * 9))
    before = log.rows("styles", **STYLES)[1]["_before"]
    assert tuple(before.values()) == first
    as_text = log.values("styles", "ts", "tz", onUnrepresentable="string", **STYLES)[0]
    assert as_text == ("03/02/2024 04:05:06.7", "02/02/2024 23:05:06.7 EST")
    image = dict(log.rows("styles", "public.t", images="true", **STYLES)[0]["_after"])
    assert (image["ts"], image["f"], image["g"]) == ("03/02/2024 04:05:06.7", "0.333", "0.3")


def test_what_can_be_held_can_be_collected(spark: Any, log: Log) -> None:
    given = log.options("endless", "public.t", onUnrepresentable="null")
    frame = spark.read.format("headwater").options(**given).load()
    rows = [tuple(row) for row in frame.select("id", "d", "ts", "_before", "_unchanged").orderBy("id").collect()]
    assert [row[0] for row in rows] == [1, 2, 3, 4]
    assert rows[3] == (4, date(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), None, [])


def test_old_tuples_come_through_spark(spark: Any, log: Log) -> None:
    frame = spark.read.format("headwater").options(**log.options("large", "public.t")).load()
    assert dict(frame.dtypes)["_before"] == "struct<id:int,big:string,other:string>"
    rows = frame.where("_op = 'update' AND _before.id <> id").select("_before.id", "id", "_before_is_key").collect()
    assert sorted(tuple(row) for row in rows) == [(1, 3, True), (3, 4, False)]
    images = spark.read.format("headwater").options(**log.options("large", "public.t", images="true")).load()
    assert images.where("_unchanged = array('big', 'other')").first()._after == {"id": "3"}


def test_a_table_without_changes_is_empty_with_its_columns(spark: Any, log: Log) -> None:
    given = log.options("sometimes", "public.sometimes")
    frame = spark.read.format("headwater").options(**given).load()
    assert frame.dtypes[-3:] == [("id", "int"), ("note", "string"), ("late", "int")]
    assert frame.collect() == []


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ("public.nowhere", 'no table matches "public.nowhere"'),
        ("doomed", "there is public.doomed"),
        ("public.Idle", "in the catalog's case"),
        ("public.view", "is a view"),
        ("public.partitioned", "is partitioned"),
        ("public.unlogged", "is an unlogged table"),
        ("nowhere.*", 'no table matches "nowhere.*"'),
        ("public.idle,public.nowhere", 'no table matches "public.nowhere"'),
        ("public.*,shop.*", 'no table matches "shop.*"'),
        ("public.view,public.idle", 'no table matches "public.view"'),
        ("public.clash", "the name of a column that every row has"),
    ],
)
def test_names_and_patterns_that_match_nothing(log: Log, tables: str, words: str) -> None:
    with pytest.raises(HeadwaterError) as caught:
        log.rows("away", tables)
    assert words in caught.value.one_line()
    assert caught.value.lsn is None


@however_cut
def test_what_was_dropped_in_the_window_matches_too(log: Log) -> None:
    assert len(log.rows("dropped", "public.doomed,public.idle")) == 1
    with pytest.raises(CatalogError, match=r'no table matches "public\.doomed"'):
        log.rows("sometimes", "public.doomed,public.idle")
    with pytest.raises(CatalogError, match=r'no table matches "public\.doomed"'):
        log.rows("sometimes", "public.doomed")


@pytest.mark.parametrize(("scenario", "times"), [("away and back", 1), ("swapped", 2)])
def test_the_log_is_gone_through_again_only_if_the_name_changed_hands(
    log: Log, monkeypatch: pytest.MonkeyPatch, scenario: str, times: int
) -> None:
    """From the catalog on; what is indexed again is what a window proved to lack, a few segments."""
    indexed: list[int] = []

    def counting(tasks: Sequence[IndexTask], threads: int) -> AbstractContextManager[Iterator[list[WalIndex]]]:
        indexed.extend(task.lo for task in tasks)
        return index_in_threads(tasks, threads)

    monkeypatch.setattr(windows, "index_in_threads", counting)
    many = replace(log, window_bytes="1")
    plan_source(SourceOptions.parse(many.options(scenario, "public.t", onTableReplaced="skip")))
    assert indexed.count(min(indexed)) == times


def test_partitions_match_a_pattern_and_truncates_name_each_table(log: Log) -> None:
    first, *truncates = [(row["_op"], row["_table"], row["_seq"]) for row in log.rows("sometimes", "public.*")]
    assert first == ("insert", "part", 0)
    assert {(op, table) for op, table, _ in truncates} == {("truncate", t) for t in ("partitioned", "part", "idle")}
    assert [number for _, _, number in truncates] == [0, 1, 2]
