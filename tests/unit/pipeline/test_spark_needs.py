"""Needs of Spark that are looked at before its Java process is started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark
import pytest

from headwater.errors import SparkError
from headwater.spark.needs import prepare_spark


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def make_spark(home: Path, version: str) -> None:
    for name in ("bin/spark-submit", f"jars/spark-core_2.12-{version}.jar"):
        (home / name).parent.mkdir()
        (home / name).write_text("")


def test_spark_home_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SparkError, match="where there is no bin/spark-submit") as caught:
        prepare_spark("local[*]")
    assert str(tmp_path) in caught.value.message
    assert "unset SPARK_HOME" in str(caught.value.hint)


def test_spark_home_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_spark(tmp_path, "3.5.1")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SparkError, match=r"Spark 3\.5\.1, expected"):
        prepare_spark("local[*]")


def test_spark_home_of_this_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_spark(tmp_path, pyspark.__version__)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    prepare_spark("local[*]")


@pytest.mark.parametrize(
    ("master", "is_ours"),
    [
        ("local[*]", True),
        ("local[2]", True),
        ("local", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://there:7077", False),
        ("yarn", False),
    ],
)
def test_workers_of_this_machine_run_this_python(monkeypatch: pytest.MonkeyPatch, master: str, is_ours: bool) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/there/python")
    prepare_spark(master)
    assert os.environ["PYSPARK_PYTHON"] == (sys.executable if is_ours else "/there/python")


def test_workers_of_other_machines_run_the_python_that_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.pyspark.python  /their/python\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    prepare_spark("spark://there:7077")
    assert os.environ["PYSPARK_PYTHON"] == "/their/python"
