"""Files that a run of tests writes itself: seconds beside budgets, and texts of failures where files are kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spent_seconds import LEAST, SpentSeconds, budgets_of, read_budgets, rung_of

FAILING = """
import pytest
from failure_texts import FailureTexts, texts_are_kept

@pytest.fixture(scope="module")
def log(request, pytestconfig):
    with texts_are_kept(request, pytestconfig.rootpath / "kept"):
        yield

@pytest.mark.parametrize("how", ["a/b", "good"])
def test_of_log(log, how, pytestconfig):
    print("seed 7")
    assert how == "good" and (pytestconfig.rootpath / "kept" / "test_of_log[a_b].txt").exists()

def test_without(pytestconfig):
    assert False
"""


def _report(file: str, duration: float) -> Any:
    return SimpleNamespace(nodeid=f"{file}::test_it[a::b]", duration=duration)


def _spent(**seconds: float) -> SpentSeconds:
    spent = SpentSeconds()
    for name, duration in seconds.items():
        spent.pytest_runtest_logreport(_report(f"tests/oracle/test_{name}.py", duration / 2))
        spent.pytest_runtest_logreport(_report(f"tests/oracle/test_{name}.py", duration / 2))
    return spent


def test_a_file_that_takes_longer_than_its_budget_is_named(tmp_path: Path) -> None:
    spent = _spent(slow=LEAST + 1, longer=2000, budgeted=2000)
    budgets = {"tests/oracle/test_budgeted.py": 2000, "tests/oracle/test_longer.py": 1999}
    assert spent.excesses(budgets) == [
        "tests/oracle/test_longer.py took 2000 s, its budget is 1999 s",
        f"tests/oracle/test_slow.py took {LEAST + 1} s, its budget is {LEAST} s",
    ]
    spent.write(tmp_path / "seconds.json")
    written = json.loads((tmp_path / "seconds.json").read_text())
    assert written["rungs"] == {"oracle": LEAST + 4001.0}
    assert budgets_of(written)["tests/oracle/test_longer.py"] == 6000


def test_budgets_are_of_files_that_there_are() -> None:
    root = Path(__file__).parents[2]
    assert [file for file in read_budgets() if not (root / file).is_file()] == []


@pytest.mark.parametrize(
    ("file", "rung"),
    [("tests/unit/wal/test_crc.py", "unit"), ("tests/ddl/test_ddl.py", "ddl"), ("tests/test_x.py", "")],
)
def test_a_rung_is_a_folder(file: str, rung: str) -> None:
    assert rung_of(file) == rung


def test_what_a_test_fails_with_is_written_at_once(tmp_path: Path) -> None:
    """It is written where the fixture keeps files, before the next test runs; not for tests without the fixture."""
    (tmp_path / "test_failing.py").write_text(FAILING)
    (tmp_path / "conftest.py").write_text(
        "from failure_texts import FailureTexts\n\n"
        "def pytest_configure(config):\n    config.pluginmanager.register(FailureTexts())\n"
    )
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {Path(__file__).parents[1]}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_failing.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 failed, 1 passed" in run.stdout
    texts = {path.name: path.read_text() for path in (tmp_path / "kept").iterdir()}
    assert set(texts) == {"test_of_log[a_b].txt"}
    assert "assert" in texts["test_of_log[a_b].txt"]
    assert "seed 7" in texts["test_of_log[a_b].txt"]
