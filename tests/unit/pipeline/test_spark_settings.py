"""The master that is meant, and the settings that are ours to make."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.spark.settings import (
    given_settings,
    intended_master,
    is_local,
    missing_settings,
    without_submits_own,
)

VARIABLES = ("SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "MASTER", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
DEFAULTS = """# the cluster of this house
spark.master            spark://file:7077
spark.driver.host=here
spark.one : 1 2
!spark.two 2
spark.empty
"""


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*VARIABLES, "PYSPARK_GATEWAY_PORT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path / "spark-defaults.conf"


def test_the_first_word_on_the_master_counts(configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert intended_master(None) == "local[*]"
    monkeypatch.setenv("MASTER", "spark://variable:7077")
    assert intended_master(None) == "spark://variable:7077"
    configuration.write_text(DEFAULTS)
    assert intended_master(None) == "spark://file:7077"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.master=local[3] --executor-memory 1g pyspark-shell")
    assert intended_master(None) == "local[3]"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.master=local[3] --master yarn pyspark-shell")
    assert intended_master(None) == "yarn"
    assert intended_master("local[1]") == "local[1]"


def test_a_file_of_properties(configuration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration.write_text(DEFAULTS)
    assert given_settings() == {"spark.master": "spark://file:7077", "spark.driver.host": "here", "spark.one": "1 2"}
    (tmp_path / "other").write_text("spark.master local")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {tmp_path / 'other'} -c spark.one=7 pyspark-shell")
    assert given_settings() == {"spark.master": "local", "spark.one": "7"}
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf 'no end")
    assert given_settings() == {"spark.master": "spark://file:7077", "spark.driver.host": "here", "spark.one": "1 2"}


def test_what_runs_in_the_drivers_own_process() -> None:
    masters = ["local", "local[*]", "local[4,2]", "local-cluster[2,1,1024]", "spark://a:1,b:2", "yarn", "k8s://x"]
    assert [is_local(master) for master in masters] == [True, True, True, False, False, False, False]


@pytest.mark.parametrize("named", ["spark.driver.host", "spark.driver.bindAddress"])
def test_the_loopback_address_is_for_what_stays_here(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {"spark.driver.host", "spark.driver.bindAddress"}
    assert addresses <= missing_settings({}, "local[2]").keys()
    assert not addresses & missing_settings({named: "here"}, "local[2]").keys()
    assert not addresses & missing_settings({}, "spark://there:7077").keys()
    monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.1")
    assert not addresses & missing_settings({}, "local[2]").keys()


def test_what_the_user_has_set_stays() -> None:
    everything = missing_settings({}, "yarn")
    assert missing_settings(everything, "yarn") == {}
    assert "spark.ui.enabled" in everything


def test_what_spark_submit_makes_up_is_not_the_users_word(configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"spark.app.name": "PySparkShell", "spark.ui.showConsoleProgress": "true", "spark.one": "1"}
    assert without_submits_own(settings) == {"spark.one": "1"}
    configuration.write_text("spark.ui.showConsoleProgress true")
    assert without_submits_own(settings) == {"spark.ui.showConsoleProgress": "true", "spark.one": "1"}
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert without_submits_own(settings) == settings
