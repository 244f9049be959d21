"""Files that lie in the current directory are not programs: none of them is imported by what Headwater starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bad_input.clusters import Cluster
from bad_input.command import TIMEOUT_SECONDS, run_command

pytestmark = [pytest.mark.server, pytest.mark.spark]

TRAPS = ("bisect", "contextlib", "datetime", "heapq", "numpy", "pickle", "pyarrow", "queue", "random", "socket")
SESSION = """
import os, sys
import headwater
from headwater.spark.session import spark_session
os.environ["PYTHONPATH"] = ":"
spark = spark_session("local[2]")
window = dict(path=sys.argv[1], catalog=sys.argv[2], database="postgres")
print("planned and read:", spark.read.format("headwater").options(**window).load().where("_op = 'update'").count())
headwater.register(spark)
print("in tasks:", spark.sparkContext.parallelize([1]).map(lambda _: __import__("random").__file__).collect())
"""


@pytest.fixture
def traps(tmp_path: Path) -> Path:
    """Make a directory of modules that say that they were imported."""
    directory = tmp_path / "traps"
    directory.mkdir()
    for name in TRAPS:
        (directory / f"{name}.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'a').write('{name} ')\n")
    return directory


def _sprung(traps: Path) -> str:
    marks = traps.with_name("sprung")
    return marks.read_text() if marks.exists() else ""


def test_command(cluster: Cluster, traps: Path, whole: bytes) -> None:
    arguments = ("decode", "--wal", cluster.wal, "--catalog", cluster.backup, "--database", "postgres")
    run = run_command(*arguments, cwd=traps)
    assert (run.status, run.stdout, run.stderr, _sprung(traps)) == (0, whole, "", "")


@pytest.mark.slow
def test_session_of_ours(cluster: Cluster, traps: Path, tmp_path: Path) -> None:
    """Spark's own processes too: the lookup of data sources, planning, reading, tasks."""
    script = tmp_path / "script.py"
    script.write_text(SESSION)
    run = subprocess.run(
        [sys.executable, script, cluster.wal, cluster.backup],
        capture_output=True,
        text=True,
        cwd=traps,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        timeout=3 * TIMEOUT_SECONDS,
        check=False,
    )
    assert "planned and read: 200" in run.stdout, run.stderr
    assert "in tasks: [" in run.stdout
    assert _sprung(traps) == ""
