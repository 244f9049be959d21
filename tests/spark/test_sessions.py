"""Sessions that Headwater starts: the user's settings win, wherever he made them, and only what stays here is tuned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest

pytestmark = pytest.mark.spark

SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
TIMEOUT_SECONDS = 300
SMALL = "-XX:TieredStopAtLevel=1"
SCRIPT = """
import json, sys
{before}
from headwater.spark.session import spark_session
master = sys.argv[1] if len(sys.argv) > 1 else None
context = spark_session(master).sparkContext
machine = context._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
conf, java = dict(context.getConf().getAll()), list(machine.getInputArguments())
said = {{"conf": conf, "java": java, "python": context.pythonExec}}
print("said:" + json.dumps(said))
"""
ACTIVE = """
from pyspark.sql import SparkSession
SparkSession.builder.master("local[1]").config("spark.sql.session.timeZone", "America/St_Johns").getOrCreate()
"""


@dataclass(frozen=True)
class Session:
    """The report of a session on itself."""

    conf: dict[str, str]
    java: list[str]
    python: str

    @property
    def address(self) -> tuple[str | None, str | None]:
        """The address that the driver listens at, and the name that it gives to others."""
        return self.conf.get("spark.driver.bindAddress"), self.conf.get("spark.driver.host")


def start(
    directory: Path, *words: str, program: tuple[str, ...] = (sys.executable,), before: str = "", **more: str
) -> Session:
    """Run a session in a process of its own."""
    script = directory / "script.py"
    script.write_text(SCRIPT.format(before=before))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "MASTER"))
    }
    run = subprocess.run(
        [*program, str(script), *words],
        env={**environment, "PYSPARK_PYTHON": sys.executable, **more},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("said:")]
    report: dict[str, Any] = json.loads(line.removeprefix("said:"))
    return Session(**report)


def test_without_a_word_of_the_user(tmp_path: Path) -> None:
    session = start(tmp_path)
    assert session.conf["spark.master"] == "local[*]"
    assert session.address == ("127.0.0.1", "127.0.0.1")
    assert (session.conf["spark.app.name"], session.conf["spark.ui.showConsoleProgress"]) == ("headwater", "false")
    assert session.conf["spark.python.daemon.module"] == "headwater.spark.worker_daemon"
    assert SMALL in session.java
    assert any("spark/log4j2.properties" in word for word in session.java)


@pytest.mark.slow
def test_a_file_of_defaults(tmp_path: Path) -> None:
    lines = [
        "spark.master local[3]",
        "spark.driver.host localhost",
        "spark.sql.session.timeZone Asia/Tokyo",
        "spark.app.name nightly",
        "spark.ui.showConsoleProgress true",
        "spark.python.daemon.module pyspark.daemon",
    ]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
    (tmp_path / "log4j2.properties").write_text("rootLogger.level = error\n")
    session = start(tmp_path, SPARK_CONF_DIR=str(tmp_path))
    assert session.conf.items() >= dict(line.split(" ") for line in lines).items()
    assert session.conf["spark.ui.enabled"] == "false", "nobody said anything of that"
    assert session.address == (None, "localhost")
    assert not any("spark/log4j2.properties" in word for word in session.java)
    assert start(tmp_path, "local[2]", SPARK_CONF_DIR=str(tmp_path)).conf["spark.master"] == "local[2]"


def test_the_environment(tmp_path: Path) -> None:
    arguments = "--master local[2] --conf spark.sql.session.timeZone=Asia/Tokyo pyspark-shell"
    session = start(tmp_path, PYSPARK_SUBMIT_ARGS=arguments, SPARK_LOCAL_IP="127.0.0.1", MASTER="local[4]")
    assert (session.conf["spark.master"], session.conf["spark.sql.session.timeZone"]) == ("local[2]", "Asia/Tokyo")
    assert "spark.driver.bindAddress" not in session.conf
    assert start(tmp_path, MASTER="local[4]").conf["spark.master"] == "local[4]"


@pytest.mark.slow
def test_spark_submit(tmp_path: Path) -> None:
    """Its Java process is there already; ours are added to what it has."""
    words = ("--master", "local[2]", "--conf", "spark.sql.session.timeZone=Asia/Tokyo", "--name", "nightly")
    session = start(tmp_path, program=(str(SPARK_SUBMIT), *words))
    expected = {"spark.master": "local[2]", "spark.sql.session.timeZone": "Asia/Tokyo", "spark.app.name": "nightly"}
    assert session.conf.items() >= expected.items()
    assert session.conf["spark.python.daemon.module"] == "headwater.spark.worker_daemon"
    assert SMALL not in session.java


@pytest.mark.slow
def test_an_active_session_is_used_as_it_is(tmp_path: Path) -> None:
    session = start(tmp_path, "local[2]", before=ACTIVE)
    assert (session.conf["spark.master"], session.conf["spark.sql.session.timeZone"]) == (
        "local[1]",
        "America/St_Johns",
    )
    assert "spark.python.daemon.module" not in session.conf
    assert "spark.driver.bindAddress" not in session.conf


@pytest.mark.slow
def test_a_cluster(tmp_path: Path) -> None:
    """Executors must reach the driver, which is no small process; its workers' Python may be another."""
    (tmp_path / "spark-defaults.conf").write_text("spark.pyspark.python python3\n")
    session = start(tmp_path, "local-cluster[1,1,1024]", SPARK_CONF_DIR=str(tmp_path), PYSPARK_PYTHON=sys.executable)
    assert session.address[0] is None
    assert session.address[1] != "127.0.0.1"
    assert SMALL not in session.java
    assert session.python == sys.executable


@pytest.mark.slow
def test_a_session_keeps_javas_classes_for_the_next_one(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = start(tmp_path, HEADWATER_CACHE_DIR=str(cache))
    assert any("ArchiveClassesAtExit" in word for word in first.java)
    (archive,) = (cache / "java").iterdir()
    assert archive.suffix == ".jsa"
    assert archive.stat().st_mode & 0o022 == 0
    second = start(tmp_path, HEADWATER_CACHE_DIR=str(cache))
    assert f"-XX:SharedArchiveFile={archive}" in second.java
    assert list((cache / "java").iterdir()) == [archive]


@pytest.mark.slow
def test_where_others_can_write_no_classes_are_kept(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "java").mkdir(parents=True)
    os.chmod(cache / "java", 0o777)
    session = start(tmp_path, HEADWATER_CACHE_DIR=str(cache))
    assert not any("Archive" in word for word in session.java)
    assert list((cache / "java").iterdir()) == []


@pytest.mark.slow
def test_a_collector_of_the_users_choice(tmp_path: Path) -> None:
    """Java refuses to start with two."""
    session = start(
        tmp_path, PYSPARK_SUBMIT_ARGS="--conf spark.driver.extraJavaOptions=-XX:+UseParallelGC pyspark-shell"
    )
    assert "-XX:+UseParallelGC" in session.java
