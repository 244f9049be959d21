"""Executors that are processes of their own: what is tried again, what is not, and how kernels come there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1000)]

TIMEOUT_SECONDS = 900
START = """
import os, signal, sys
from pathlib import Path

from headwater.errors import HeadwaterError, WalError
from headwater.spark.session import spark_session, warm_up
from headwater.spark.spark_engine import SparkEngine
marks = Path(sys.argv[1])
spark = spark_session("local-cluster[2,1,1024]")
context = spark.sparkContext
scratch = None if sys.argv[2] == "spark" else sys.argv[2]

def executor():
    "The Java process that this worker was started for."
    number = os.getpid()
    while Path(f"/proc/{number}/comm").read_text().strip() != "java":
        number = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
    return number
"""
LOST = """
def work(task, sink):
    sink.write(bytes([task]) * 3_000_000)
    (marks / f"{task}-{os.getpid()}-{os.urandom(4).hex()}").touch()
    if task == 5 and len(list(marks.glob("5-*"))) == 1:
        os.kill(executor(), signal.SIGKILL)
    return task

with SparkEngine(spark).open_exchange(scratch) as exchange:
    with exchange.run("lose", lambda task: [lambda sink: work(task, sink)], range(8)) as arriving:
        for number, (one,) in enumerate(arriving):
            assert one.summary == number and Path(one.path).read_bytes() == bytes([number]) * 3_000_000
print("done:", len(list(marks.glob("5-*"))))
"""
FAILED = """
def work(task):
    (marks / f"{task}-{os.urandom(4).hex()}").touch()
    if task == 1:
        raise WalError("it would fail alike")

try:
    with SparkEngine(spark).open_exchange(scratch) as exchange, exchange.run("fail", work, range(2)) as arriving:
        list(arriving)
except WalError as error:
    print("done:", error, len(list(marks.glob("1-*"))))
"""
KERNELS = """
from headwater.spark.task_run import run_tasks
warm_up(spark_session())

def call(_):
    from headwater.wal.records._position import lsn_to_payload
    lsn_to_payload(3 * 8192, 1 << 20)
    return sum(lsn_to_payload.stats.cache_hits.values()), sum(lsn_to_payload.stats.cache_misses.values())

print("done:", run_tasks(context, "call", call, range(4), None))
"""


def run(tmp_path: Path, script: str, way: str, **environment: str) -> str:
    """Run a script in a process of its own; return what it says that it has done."""
    (tmp_path / "marks").mkdir()
    (tmp_path / "script.py").write_text(START + script)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py", tmp_path / "marks", way],
        env={**os.environ, "TMPDIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("done: ")]
    return line.removeprefix("done: ")


@pytest.mark.parametrize("way", ["spark", "scratch"])
def test_a_lost_executor_is_no_failure_of_ours(tmp_path: Path, way: str) -> None:
    place = tmp_path / "scratch"
    place.mkdir()
    assert int(run(tmp_path, LOST, "spark" if way == "spark" else str(place))) >= 2
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("way", ["spark", "scratch"])
def test_an_error_of_ours_is_not_tried_again(tmp_path: Path, way: str) -> None:
    place = tmp_path / "scratch"
    place.mkdir()
    assert run(tmp_path, FAILED, "spark" if way == "spark" else str(place)) == "it would fail alike 1"


def test_executors_without_headwater(tmp_path: Path) -> None:
    """One line says so, and what to do."""
    venv.create(tmp_path / "bare", with_pip=False)
    script = "warm_up(spark_session())"
    with pytest.raises(AssertionError, match="no headwater; install it there, or name a Python") as caught:
        run(tmp_path, script, "spark", PYSPARK_PYTHON=str(tmp_path / "bare" / "bin" / "python3"))
    assert "SparkError: the Python of Spark's executors" in str(caught.value)


def test_kernels_come_with_the_application(tmp_path: Path) -> None:
    """The executors' cache is empty; what the driver has compiled is loaded there, and nothing is compiled."""
    from headwater.base.cache_places import kernel_cache
    from headwater.wal.records._position import lsn_to_payload

    lsn_to_payload(3 * 8192, 1 << 20)
    conf = tmp_path / "conf"
    conf.mkdir()
    setting = f"spark.executorEnv.HEADWATER_CACHE_DIR {tmp_path / 'theirs'}\n"
    (conf / "spark-defaults.conf").write_text(setting)
    ours = {"HEADWATER_CACHE_DIR": str(kernel_cache().parent), "SPARK_CONF_DIR": str(conf)}
    assert run(tmp_path, KERNELS, "spark", **ours) == "[(1, 0), (1, 0), (1, 0), (1, 0)]"
    assert list((tmp_path / "theirs").rglob("*.nbc"))
