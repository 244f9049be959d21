"""jsonb as VARIANT: what Spark reads of it is what it makes of the text."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import VariantVal

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs

pytestmark = [pytest.mark.server, pytest.mark.spark]

NAMES = ["", "a", "b", "ab", "é", "ζ", "long " * 30, "quote\"'", "back\\slash", "𝄞", "1", "10", "9"]
NUMBERS = [
    *("0", "-0.0", "1", "-1", "127", "128", "-128", "-129", "32767", "-32769", "2147483647", "-2147483649"),
    *("9223372036854775807", "-9223372036854775808", "9223372036854775808", "1.5", "-0.25", "1.10", "1e3", "1e-9"),
    *(
        "999999999.9",
        "0.123456789",
        "0.1234567890",
        "123456789012345678.5",
        "1e37",
        "0.00000000000000000000000000000000000001",
    ),
    *(
        "99999999999999999999999999999999999999",
        "-1234567890123456789012345678901234.5678",
        "10000",
        "0.0001",
        "20000.0002",
    ),
]


def some_json(rng: random.Random, depth: int) -> str:
    """Make JSON of any kind, with every number as it is spelled."""
    draw = rng.random()
    if depth == 0 or draw < 0.45:
        word = json.dumps(rng.choice(NAMES) * rng.choice([1, 1, 7]), ensure_ascii=False)
        return rng.choice([word, rng.choice(NUMBERS), "true", "false", "null", str(rng.randint(-(10**9), 10**9))])
    size = rng.choice([0, 1, 2, 5, 5, 12])
    children = [some_json(rng, depth - 1) for _ in range(size)]
    if draw < 0.7:
        return f"[{', '.join(children)}]"
    names = [json.dumps(rng.choice(NAMES) + rng.choice(["", "x", str(i)]), ensure_ascii=False) for i in range(size)]
    return "{" + ", ".join(f"{name}: {child}" for name, child in zip(names, children, strict=True)) + "}"


def wide_json() -> list[str]:
    """Make containers whose counts, ids and places need one, two, three and four bytes."""
    texts = []
    for count in (255, 256, 300, 70_000):
        texts.append("{" + ", ".join(f'"k{i}": {i}' for i in range(count)) + "}")
        texts.append(f"[{', '.join(str(i) for i in range(count))}]")
    texts.append(json.dumps(["x" * 6_000_000]))
    deep = 500  # the server goes as deep as its stack does, Spark to 1,000
    return [*texts, "[" * deep + "]" * deep, '{"a": ' * deep + "1" + "}" * deep]


@dataclass(frozen=True)
class Log:
    """A stopped server's files."""

    backup: Path
    wal: Path

    def read(self, spark: SparkSession, table: str, **options: str) -> DataFrame:
        """Read one table's changes."""
        given = {"path": str(self.wal), "catalog": str(self.backup), "database": "postgres"}
        return spark.read.format("headwater").options(**given, tables=f"public.{table}", **options).load()


SETUP = """
CREATE DOMAIN document AS jsonb;
CREATE TABLE many (id int PRIMARY KEY, v jsonb);
CREATE TABLE wide (id int PRIMARY KEY, v jsonb);
CREATE TABLE nested (id int PRIMARY KEY, v document, l jsonb[]);
CREATE TABLE precise (id int PRIMARY KEY, v jsonb);
ALTER TABLE nested REPLICA IDENTITY FULL;
"""
NESTED = """
INSERT INTO nested VALUES (1, '{"a": [1, {"b": null}]}', ARRAY['1', NULL, '{"x": "y"}']::jsonb[]), (2, NULL, NULL);
UPDATE nested SET v = '[]' WHERE id = 1;
DELETE FROM nested WHERE id = 1;
INSERT INTO precise VALUES (1, '{"a": 1}'), (2, '[123456789012345678901234567890123456789]'), (3, '1e-39');
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    rng = random.Random(7)
    with EmbeddedPostgres(find_programs(16), autovacuum=False) as server:
        with server.connect() as connection:
            run(connection, SETUP)
        server.stop()
        backup = server.copy_data_directory(tmp_path_factory.mktemp("variant") / "backup")
        server.start()
        with server.connect() as connection:
            run(connection, NESTED)
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO many VALUES (%s, %s)", [(i, some_json(rng, 4)) for i in range(600)])
                cursor.executemany("INSERT INTO wide VALUES (%s, %s)", list(enumerate(wide_json())))
        server.stop()
        yield Log(backup, server.wal_directory)


def run(connection: Any, statements: str) -> None:
    for statement in filter(str.strip, statements.split(";\n")):
        connection.execute(statement)


@pytest.mark.parametrize("table", ["many", "wide"])
def test_it_is_what_spark_parses_of_the_text(spark: SparkSession, log: Log, table: str) -> None:
    frame = log.read(spark, table, jsonb="variant")
    assert dict(frame.dtypes)["v"] == "variant"
    ours = frame.selectExpr("id", "to_json(v) AS v", "schema_of_variant(v) AS kind").collect()
    text = log.read(spark, table).selectExpr("id", "parse_json(v) AS v")
    theirs = text.selectExpr("id", "to_json(v) AS v", "schema_of_variant(v) AS kind").collect()
    assert len(ours) >= 11
    assert sorted(ours) == sorted(theirs)


def test_fields_are_found_by_their_names(spark: SparkSession, log: Log) -> None:
    """Spark looks for them by halves where there are many, which asks for their order."""
    paths = [f"variant_get(v, '$.k{i}', 'int')" for i in (0, 7, 99, 250, 254)]
    rows = log.read(spark, "wide", jsonb="variant").where("id IN (0, 2, 4, 6)").selectExpr(*paths).collect()
    assert {tuple(row) for row in rows} == {(0, 7, 99, 250, 254)}


def test_domains_arrays_images_and_nulls(spark: SparkSession, log: Log) -> None:
    frame = log.read(spark, "nested", jsonb="variant")
    assert dict(frame.dtypes)["l"] == "array<variant>"
    rows = frame.selectExpr("_op", "id", "v", "l", "_before.v AS was").collect()
    assert [(row._op, row.id, plain(row.v), plain(row.l), plain(row.was)) for row in rows] == [
        ("insert", 1, {"a": [1, {"b": None}]}, [1, None, {"x": "y"}], None),
        ("insert", 2, None, None, None),
        ("update", 1, [], [1, None, {"x": "y"}], {"a": [1, {"b": None}]}),
        ("delete", 1, [], [1, None, {"x": "y"}], []),
    ]


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(element) for element in value]
    return value.toPython() if isinstance(value, VariantVal) else value


def test_numbers_that_it_does_not_hold(spark: SparkSession, log: Log) -> None:
    with pytest.raises(Exception, match="holds a number of more than 38 digits, which VARIANT cannot hold"):
        log.read(spark, "precise", jsonb="variant").collect()
    some = log.read(spark, "precise", jsonb="variant", onUnrepresentable="null").selectExpr("id", "to_json(v)")
    assert [tuple(row) for row in some.collect()] == [(1, '{"a":1}'), (2, None), (3, None)]
    text = log.read(spark, "precise", jsonb="variant", onUnrepresentable="string")
    assert dict(text.dtypes)["v"] == "string"
