"""The errors that a user of the data source sees, in a session of their own with Spark's default log."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bad_input.clusters import Cluster, linked_copy
from bad_input.command import TIMEOUT_SECONDS

pytestmark = [pytest.mark.server, pytest.mark.spark]

SCRIPT = """
import json, os, sys
import headwater
from pyspark.sql import SparkSession, functions

wal, catalog = sys.argv[1:]
spark = SparkSession.builder.master("local[2,2]").getOrCreate()
headwater.register(spark)

def read(**options):
    return spark.read.format("headwater").options(path=wal, catalog=catalog, **options).load()

def planned_then_gone():
    frame = read(database="postgres")
    frame._jdf.queryExecution().toRdd().getNumPartitions()
    for name in os.listdir(wal):
        os.rename(os.path.join(wal, name), os.path.join(wal, "gone." + name))
    frame.collect()

@functions.udf("int")
def of_the_user(number):
    raise ValueError("not ours")

PLUGIN = '''
from headwater import OutputPlugin


class Mine(OutputPlugin):
    def begin(self, ctx, txn):
        raise SystemExit("told to end")

    change = commit = begin


'''

def unforeseen():
    with open(catalog + "-plugin.py", "w") as file:
        file.write(PLUGIN)
    read(database="postgres", plugin=catalog + "-plugin.py:Mine").collect()

cases = {
    "unforeseen": unforeseen,
    "schema": lambda: read(database="nowhere", tables="public.item"),
    "options": lambda: read(database="postgres", plugin="test_decoding", nonsense="1"),
    "plan": lambda: read(database="nowhere").collect(),
    "task": lambda: read(database="types").collect(),
    "write": lambda: read(database="types").write.parquet(catalog + "-parquet"),
    "gone": planned_then_gone,
    "user": lambda: spark.range(1).select(of_the_user("id")).collect(),
}
texts = {}
for name, case in cases.items():
    print("case", name, file=sys.stderr, flush=True)
    try:
        case()
    except Exception as error:
        texts[name] = str(error)
print(json.dumps(texts))
"""


@pytest.fixture(scope="module")
def outcomes(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    """Give by case the text of the exception, and what was written on standard error meanwhile."""
    directory = tmp_path_factory.mktemp("told")
    wal, catalog = linked_copy(cluster.wal, directory / "wal"), linked_copy(cluster.backup, directory / "catalog")
    (directory / "script.py").write_text(SCRIPT)
    command: list[str | Path] = [sys.executable, directory / "script.py", wal, catalog]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    run = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=4 * TIMEOUT_SECONDS, check=False
    )
    assert run.returncode == 0, run.stderr
    pieces = re.split(r"^case (\w+)$", run.stderr, flags=re.MULTILINE)[1:]
    return json.loads(run.stdout), dict(zip(pieces[::2], pieces[1::2], strict=True))


PLANNED = "[PYTHON_DATA_SOURCE_ERROR] Failed to "
IN_A_TASK = "An exception was thrown from the Python worker:"


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("schema", 'CatalogError: database "nowhere" does not exist'),
        ("options", 'UsageError: unknown option "nonsense"'),
        ("plan", 'CatalogError: database "nowhere" does not exist'),
    ],
)
def test_of_planning(outcomes: tuple[dict[str, str], dict[str, str]], case: str, words: str) -> None:
    """In the first line of the text, after Spark's own words; the log says nothing."""
    texts, errors = outcomes
    first, *rest = texts[case].splitlines()
    assert first.startswith(PLANNED)
    assert f": headwater.errors.{words}" in first
    assert [line.strip() for line in rest] == ["SQLSTATE: 38000"]
    assert errors[case].strip() == ""


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("task", "UnsupportedTypeError: values of type "),
        ("write", "UnsupportedTypeError: values of type "),
        ("gone", "SegmentGoneError: could not open WAL segment: No such file or directory (at "),
        ("unforeseen", "SparkError: the read failed: SystemExit: told to end (in headwater/"),
    ],
)
def test_of_a_task(outcomes: tuple[dict[str, str], dict[str, str]], case: str, words: str) -> None:
    """In the line under Spark's own; an attempt costs the log two lines, and no stack of Java's or of Python's."""
    texts, errors = outcomes
    heading, line = texts[case].splitlines()
    assert heading == IN_A_TASK
    assert line.startswith(f"headwater.errors.{words}")
    assert "\tat " not in errors[case]
    assert "Traceback" not in errors[case]
    assert len(re.findall("Exception in task|Lost task", errors[case])) >= 2, "the second attempt is there"
    assert line in errors[case]


def test_of_the_user(outcomes: tuple[dict[str, str], dict[str, str]]) -> None:
    """A function of the user's that fails has its traceback and is logged as ever."""
    texts, errors = outcomes
    assert "Traceback" in texts["user"]
    assert "ValueError: not ours" in texts["user"]
    assert "\tat " in errors["user"]
