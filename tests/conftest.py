"""What all rungs share: the rule that every rung runs, the majors under test, and one Spark session.

A rung is a folder right below ``tests`` with tests in it. With ``--all-rungs``, a run in which some rung passed no
test fails: an oracle that was skipped proves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# A kernel is compiled by the first example that calls it, which takes as long as it takes.
hypothesis.settings.register_profile("headwater", deadline=None)
hypothesis.settings.load_profile("headwater")

TESTS = Path(__file__).parent
REQUIRED_RUNGS = frozenset({"unit", "oracle"})
RUNG_PASSES: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("headwater")
    group.addoption("--all-rungs", action="store_true", help="fail when a rung passed no test")
    group.addoption("--all-majors", action="store_true", help="every supported PostgreSQL and many seeds")
    group.addoption("--seeds", metavar="FROM-TO", help="seeds of the oracle's threaded workloads, each on every major")


def rungs() -> set[str]:
    """Folders of ``tests`` that hold tests, and those that always must."""
    return {path.name for path in TESTS.iterdir() if path.is_dir() and any(path.rglob("test_*.py"))} | REQUIRED_RUNGS


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        parts = Path(report.nodeid.split("::")[0]).parts
        RUNG_PASSES[parts[1] if len(parts) > 2 else ""] += 1


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    is_part = hasattr(session.config, "workerinput")
    if session.config.getoption("--all-rungs") and not is_part and _idle_rungs() and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.getoption("--all-rungs"):
        ran = ", ".join(f"{rung} {RUNG_PASSES[rung]}" for rung in sorted(rungs()))
        terminalreporter.write_line(f"tests passed by rung: {ran}")
        for rung in _idle_rungs():
            terminalreporter.write_line(f"rung {rung} ran no test", red=True)


def _idle_rungs() -> list[str]:
    return sorted(rung for rung in rungs() if not RUNG_PASSES[rung])


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One local Spark session for the whole run, built as the product builds its own."""
    from headwater.pipeline.spark import spark_session, warm_up

    session = spark_session("local[2]")
    warm_up(session)
    yield session
    session.stop()
