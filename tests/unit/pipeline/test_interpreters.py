"""Names of one Python, and the error of an object of ours where there is no Headwater."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark import cloudpickle

from headwater.source.data_source import HeadwaterReader
from headwater.source.options import SourceOptions
from headwater.source.pickled_source import PickledSource
from headwater.source.registration import _is_same_program
from headwater.spark.java_process import _java_environment

READER = HeadwaterReader(SourceOptions.parse({"path": "wal", "catalog": "backup"}))


def _load_elsewhere(pickled: bytes, then: str) -> str:
    """Return the last line of a Python that has PySpark but no Headwater."""
    code = f"import pickle, sys; loaded = pickle.load(sys.stdin.buffer); {then}"
    run = subprocess.run(
        [str(Path(sys.base_prefix) / "bin" / "python3"), "-S", "-c", code],
        input=pickled,
        capture_output=True,
        env={"PYTHONPATH": str(Path(pyspark.__file__).parents[1])},
        check=False,
    )
    return run.stderr.decode().splitlines()[-1]


def test_a_reader_pickles() -> None:
    assert pickle.loads(cloudpickle.dumps(READER)) == READER


def test_a_python_without_headwater_is_named() -> None:
    for pickled, then in ((READER, "pass"), (PickledSource, "loaded(options={})")):
        error = _load_elsewhere(cloudpickle.dumps(pickled), then)
        assert error.startswith("ImportError: headwater cannot be imported by ")
        assert "install it there, or name a Python that has it with PYSPARK_PYTHON" in error


def test_names_of_one_python(tmp_path: Path) -> None:
    here, other = Path(sys.executable), tmp_path / "python"
    other.symlink_to(here)
    assert _is_same_program(str(here), str(here.parent / ".." / here.parent.name / here.name))
    assert not _is_same_program(str(here), str(other)), "an environment's link to the same program is another Python"
    assert not _is_same_program("no-such-python", str(here))


def test_the_java_process_hands_on_no_current_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("", "/mine", "", "/yours", "")))
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with _java_environment(None):
        assert (os.environ["PYTHONPATH"], os.environ["PYTHONSAFEPATH"]) == ("/mine:/yours", "1")
    assert os.environ["PYTHONPATH"] == ":/mine::/yours:"
    assert "PYTHONSAFEPATH" not in os.environ
