"""The examples, as the user runs them, on a server's backup and WAL."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs

pytestmark = [pytest.mark.server, pytest.mark.spark]

EXAMPLES = Path(__file__).parents[2] / "examples"
SETUP = """
CREATE TABLE account (id int PRIMARY KEY, name text, euros numeric(12,2));
CREATE TABLE note (id int, words text);
ALTER TABLE account REPLICA IDENTITY FULL;
"""
WORK = """
INSERT INTO account SELECT i, 'a' || i, 100 FROM generate_series(1, 20) i;
BEGIN; UPDATE account SET euros = euros - 30 WHERE id = 7; INSERT INTO note VALUES (1, 'done by ada'); COMMIT;
UPDATE account SET euros = 0 WHERE id = 8;
UPDATE account SET id = 21 WHERE id = 9;
DELETE FROM account WHERE id = 10;
INSERT INTO account VALUES (10, 'again', 1);
"""


@dataclass(frozen=True)
class Log:
    """Files of a stopped server, and what its table held."""

    wal: Path
    backup: Path
    rows: list[tuple[int, str, float]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False) as server:
        run(server, SETUP)
        server.stop()
        backup = server.copy_data_directory(tmp_path_factory.mktemp("examples") / "backup")
        server.start()
        run(server, WORK)
        with server.connect() as connection:
            rows = connection.execute("SELECT id, name, euros::float8 FROM account ORDER BY id").fetchall()
        server.stop()
        yield Log(server.wal_directory, backup, rows)


def run(server: EmbeddedPostgres, statements: str) -> None:
    with server.connect() as connection:
        for statement in filter(str.strip, statements.split(";\n")):
            connection.execute(statement.encode())


def example(*arguments: str | Path, directory: Path) -> str:
    """Run an example that ends well, and return its standard output."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_who_changed_it(log: Log, tmp_path: Path) -> None:
    chart = tmp_path / "changes.svg"
    place = (log.wal, log.backup, "public.account", "id = 7", chart)
    output = example(EXAMPLES / "who_changed_it.py", *place, directory=tmp_path)
    assert re.search(r"\|update.*\|\{7, a7, 100\.00\} *\|7 *\|a7 *\|70\.00 *\|", output), output
    assert re.search(r"\|public *\|note *\|insert\|NULL *\|\{id -> 1, words -> done by ada\}", output), output
    assert "26 changes of 2 tables" in output
    assert chart.read_text().startswith("<?xml")


def test_a_stream_of_changes(log: Log, tmp_path: Path) -> None:
    arguments = (EXAMPLES / "stream_of_changes.py", log.wal, log.backup, "public.account", tmp_path / "lake")
    output = example(*arguments, directory=tmp_path)
    again = example(*arguments, directory=tmp_path)
    assert 'headwater_stream_rows_total{query="changes"} 25.0' in output
    assert 'headwater_stream_lag_bytes{query="counts"} 0.0' in output
    assert "headwater_stream_errors_total{" not in output + again
    counts = [json.loads(line) for path in tmp_path.glob("lake/counts/*/*.json") for line in path.open()]
    assert {count["_op"]: count["count"] for count in counts} == {"insert": 21, "update": 3, "delete": 1}
    assert pq.read_table(tmp_path / "lake" / "changes").num_rows == 25


VERSIONS = {number: [(f"a{number}", 100, False)] for number in range(1, 21)} | {
    7: [("a7", 100, True), ("a7", 70, False)],
    8: [("a8", 100, True), ("a8", 0, False)],
    9: [("a9", 100, True)],
    10: [("a10", 100, True), ("again", 1, False)],
    21: [("a9", 100, False)],
}
"""By key: name and euros of each version, and whether it has ended."""


def versions(history: list[dict[str, Any]]) -> dict[int, list[tuple[str, float, bool]]]:
    """List the versions of rows, each key's in their order."""
    versions_by_key: dict[int, list[tuple[str, float, bool]]] = {}
    for row in sorted(history, key=lambda row: (row["id"], *row["__START_AT"].values())):
        version = row["name"], float(row["euros"]), row["__END_AT"] is not None
        versions_by_key.setdefault(row["id"], []).append(version)
    return versions_by_key


SPARK_TESTS = "org.apache.spark:spark-catalyst_2.13:4.2.0:jar:tests"
CATALOG = "org.apache.spark.sql.connector.catalog.SharedTablesInMemoryRowLevelOperationTableCatalog"
SEEN = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

for name in ("account", "account_history"):
    def seen(name=name):
        return SparkSession.active().read.table(f"lake.shop.{name}")
    dp.materialized_view(name=f"seen_{name}", format="parquet")(seen)
"""


@pytest.fixture(scope="session")
def tables_that_merge() -> Path:
    """Return the jar of Spark's own tests of AUTO CDC, which have a catalog in memory.

    Its classes are on Maven Central up to 4.2.0.
    """
    import pyspark

    if not pyspark.__version__.startswith("4.3"):
        pytest.skip("AUTO CDC of type 2 came with Spark 4.3")
    place = Path(__file__).parents[2] / "build" / "spark-tests"
    jar = place / "spark-catalyst_2.13-4.2.0-tests.jar"
    if not jar.exists():
        if shutil.which("mvn") is None:
            pytest.skip("no tables for AUTO CDC: Maven copies them, and is not here (mvn)")
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={SPARK_TESTS}", f"-DoutputDirectory={place}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no tables for AUTO CDC: {done.stdout[-300:]}")
    return jar


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_auto_cdc(log: Log, tmp_path: Path, tables_that_merge: Path) -> None:
    """In memory tables live as long as the run: views of it write what they had."""
    project = shutil.copytree(EXAMPLES / "auto_cdc", tmp_path / "auto_cdc")
    spec = project / "spark-pipeline.yml"
    text = spec.read_text().replace("file:///STORAGE", f"file://{tmp_path / 'storage'}")
    for name, value in (("WAL", log.wal), ("BACKUP", log.backup), ("CATALOG.SCHEMA", "lake.shop")):
        text = text.replace(f": {name}\n", f": {value}\n")
    spec.write_text(text)
    (project / "transformations" / "seen.py").write_text(SEEN)
    command = [Path(sys.executable).with_name("spark-pipelines"), "--jars", tables_that_merge]
    command += ["--conf", f"spark.sql.catalog.lake={CATALOG}", "run", "--spec", spec]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=project, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = pq.read_table(project / "spark-warehouse" / "seen_account").sort_by("id").to_pylist()
    assert [(row["id"], row["name"], float(row["euros"])) for row in rows] == log.rows
    history = pq.read_table(project / "spark-warehouse" / "seen_account_history").to_pylist()
    assert versions(history) == VERSIONS
    of_7 = sorted((row for row in history if row["id"] == 7), key=lambda row: tuple(row["__START_AT"].values()))
    assert of_7[0]["__END_AT"] == of_7[1]["__START_AT"]
    current = [(row["id"], row["name"], float(row["euros"])) for row in history if row["__END_AT"] is None]
    assert sorted(current) == log.rows
