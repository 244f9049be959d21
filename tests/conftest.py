"""The rule that every rung runs, on every major, and the one Spark session: what all rungs share.

A rung is a folder right below ``tests`` with tests in it. With ``--all-rungs``, a run fails in which some rung passed
no test, or the oracle none on a major under test: an oracle that was skipped proves nothing.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from copied_clusters import CopiedClusters
from failure_texts import FailureTexts
from files_in_memory import FilesInMemory, has_room
from headwater import option_names
from headwater.base.cache_places import SERVER_CACHE_VARIABLE, server_cache
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import ServerPrograms
from left_to_test_all import LIST, mark_left_tests, read_list
from packaged_servers import is_packaged
from run_directory import run_directory
from shared_sessions import SharedSessions, in_order
from spent_seconds import SPENT, SpentSeconds, read_budgets, rung_of

# A kernel is compiled by the first example that calls it, which takes as long as it takes.
hypothesis.settings.register_profile("headwater", deadline=None)
hypothesis.settings.register_profile("everyday", deadline=None, max_examples=25)
hypothesis.settings.load_profile("headwater")

TESTS = Path(__file__).parent
REQUIRED_RUNGS = frozenset({"unit", "oracle"})
SLOW_RUNGS = frozenset({"cluster"})
"""Rungs whose tests are all left to make test-all."""

MINORS = {"--first-minors": "first", "--older-minors": "older", "--newest-minors": "newest"}
"""Options that take the servers of a folder of their cache; none of them has a major that is not released yet."""

RUNG_PASSES: Counter[str] = Counter()
SECONDS = pytest.StashKey[SpentSeconds]()

ORACLE = "oracle"
MAJOR_IN_NAME = re.compile(r"\[pg(\d+)-")
"""How the tests of the oracle that run on several majors are called."""
MAJOR_PASSES: Counter[int] = Counter()


@pytest.fixture(autouse=True)
def options_have_flags_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the options' names that a test, by a command or the data source, has set in this process."""
    monkeypatch.setattr(option_names, "_flags", None)
    monkeypatch.setattr(option_names, "_is_data_source", False)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("headwater")
    group.addoption("--all-rungs", action="store_true", help="fail when a rung passed no test")
    group.addoption("--in-memory", action="store_true", help="keep files of tests in memory, if there is room")
    group.addoption("--all-majors", action="store_true", help="every supported PostgreSQL and many seeds")
    group.addoption(
        "--first-minors", action="store_true", help="servers are the earliest minor releases that there are packages of"
    )
    group.addoption("--older-minors", action="store_true", help="servers are minor releases of before the newest")
    group.addoption(
        "--newest-minors", action="store_true", help="servers are the newest minor releases that any registry has"
    )
    group.addoption(
        "--conformance", metavar="FILE", help="note there, beside what it holds, what the oracle finds of scenarios"
    )
    group.addoption(
        "--seeds", metavar="FROM-TO", help="seeds of the oracle's threaded workloads, on each major under test"
    )
    group.addoption(
        "--values",
        metavar="COUNT",
        type=int,
        help="values of the value oracle on each major under test",
    )
    group.addoption(
        "--expressions",
        metavar="COUNT",
        type=int,
        help="row filters that are compared on each major under test",
    )
    group.addoption(
        "--connector", metavar="DIR", help="jars of a lake's connector, whose tables Spark's own writers land in"
    )
    group.addoption(
        "--peers", action="store_true", help="compare with Debezium's connector, which make build/peers brings"
    )
    group.addoption("--wal2json", metavar="DIR", help="PostgreSQL 15 that has wal2json, as Debian installs it")
    group.addoption("--postgis", metavar="DIR", help="PostgreSQL 15 that has PostGIS, as Debian installs it")
    group.addoption("--kills", metavar="COUNT", type=int, help="how often landing is killed, at steps and at moments")


def pytest_configure(config: pytest.Config) -> None:
    # What is collected stays: to look for garbage in it again and again is a fifth of the work.
    gc.disable()
    # A shell that starts a run beside itself has SIGINT ignored: commands that tests interrupt would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    folders = [folder for option, folder in MINORS.items() if config.getoption(option)]
    if len(folders) > 1:
        raise pytest.UsageError(f"one of {' and '.join(MINORS)} at a time")
    if folders and not hasattr(config, "workerinput"):
        os.environ[SERVER_CACHE_VARIABLE] = str(server_cache() / folders[0])
    if config.getoption("--in-memory") and not hasattr(config, "workerinput") and has_room():
        config.pluginmanager.register(FilesInMemory(config))
    config.pluginmanager.register(FailureTexts())
    config.stash[SECONDS] = SpentSeconds()
    config.pluginmanager.register(config.stash[SECONDS])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that are left to the long run before pytest deselects by marks."""
    items[:] = in_order(items)
    unused = mark_left_tests(items, read_list())
    if unused and config.getoption("--all-rungs") and not config.getoption("--all-majors"):
        raise pytest.UsageError(f"{LIST.name} names tests that are not there: {', '.join(unused)}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedSessions | None:
    """Hand out files, and those that use a session of Spark to one process."""
    return SharedSessions(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Spare the garbage collector what stays until the end: modules and tests; it took an eighth of a run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def rungs() -> set[str]:
    """Return the folders of ``tests`` that hold tests, and those that always must."""
    return {path.name for path in TESTS.iterdir() if path.is_dir() and any(path.rglob("test_*.py"))} | REQUIRED_RUNGS


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        rung = rung_of(report.nodeid.partition("::")[0])
        RUNG_PASSES[rung] += 1
        major = MAJOR_IN_NAME.search(report.nodeid)
        if rung == ORACLE and major is not None:
            MAJOR_PASSES[int(major[1])] += 1


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    is_part = hasattr(session.config, "workerinput")
    is_whole = session.config.getoption("--all-rungs") and not is_part and not session.config.getoption("collectonly")
    if is_whole:
        session.config.stash[SECONDS].write(SPENT)
    failures = is_whole and (_idle_rungs(session.config) or _idle_majors(session.config) or _excesses(session.config))
    if failures and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.getoption("--all-rungs"):
        ran = ", ".join(f"{rung} {RUNG_PASSES[rung]}" for rung in sorted(rungs()))
        terminalreporter.write_line(f"tests passed by rung: {ran}")
        for rung in _idle_rungs(config):
            terminalreporter.write_line(f"rung {rung} ran no test", red=True)
        on = ", ".join(f"{major} {MAJOR_PASSES[major]}" for major in sorted(majors_under_test(config)))
        terminalreporter.write_line(f"tests of the oracle passed by major: {on}")
        for major in _idle_majors(config):
            terminalreporter.write_line(f"the oracle ran no test on PostgreSQL {major}", red=True)
        spent = config.stash[SECONDS].rungs
        seconds = ", ".join(f"{rung} {spent[rung]:.0f}" for rung in sorted(rungs()))
        terminalreporter.write_line(f"seconds of tests by rung, in all processes: {seconds} ({SPENT})")
        for excess in _excesses(config):
            terminalreporter.write_line(f"{excess} (tests/spent_seconds.py)", red=True)


def majors_under_test(config: pytest.Config) -> tuple[int, ...]:
    """Return the majors on which the oracle must have run."""
    majors = (14, 15, 16, 17, 18, 19) if config.getoption("--all-majors") else (14, 15, 16, 18)
    return tuple(major for major in majors if is_packaged(major))


def _idle_majors(config: pytest.Config) -> list[int]:
    return [major for major in majors_under_test(config) if not MAJOR_PASSES[major]]


def _excesses(config: pytest.Config) -> list[str]:
    """List what exceeds the budgets, which are of what ``make test`` runs."""
    return [] if config.getoption("--all-majors") else config.stash[SECONDS].excesses(read_budgets())


def _idle_rungs(config: pytest.Config) -> list[str]:
    wanted = rungs() if config.getoption("--all-majors") else rungs() - SLOW_RUNGS
    return sorted(rung for rung in wanted if not RUNG_PASSES[rung])


@pytest.fixture(scope="session", autouse=True)
def clusters_are_copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have ``initdb`` make one cluster of each kind, for all processes of the run."""
    place = run_directory(tmp_path_factory) / "clusters"
    place.mkdir(exist_ok=True)
    clusters = CopiedClusters(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedPostgres, "initdb", lambda server: clusters.make(server))
        yield


@pytest.fixture(scope="session")
def with_wal2json(request: pytest.FixtureRequest) -> ServerPrograms:
    """Return PostgreSQL 15 with wal2json."""
    return _named_programs(request.config, "wal2json")


@pytest.fixture(scope="session")
def with_postgis(request: pytest.FixtureRequest) -> ServerPrograms:
    """Return PostgreSQL 15 with PostGIS."""
    return _named_programs(request.config, "postgis")


def _named_programs(config: pytest.Config, name: str) -> ServerPrograms:
    """Return the programs that an option names; that they are on the machine is no reason to run them."""
    directory = config.getoption(f"--{name}")
    if directory is None:
        pytest.skip(f"part of make {name}")
    return ServerPrograms(Path(directory).absolute(), 15)


@pytest.fixture(scope="session", autouse=True)
def kernels_get_whole_arrays() -> Iterator[None]:
    """Check that no kernel is handed an array with gaps.

    Another version would be compiled for it, in the middle of the work.
    """
    yield
    if "numba" in sys.modules:
        from headwater.spark.kernel_loading import task_kernels

        assert [kernel.__name__ for kernel in task_kernels() if _is_for_gaps(kernel)] == []


def _is_for_gaps(kernel: Any) -> bool:
    """Tell whether a version of a kernel was compiled, or loaded, for other arrays than those that lie in one piece."""
    types = (kind for signature in kernel.overloads for kind in signature)
    return any(getattr(part, "layout", "C") != "C" for kind in types for part in (kind, *getattr(kind, "types", ())))


@pytest.fixture(scope="session")
def engine() -> Any:
    """Return the engine of tests whose subject is not Spark: this process.

    That Spark gives the same bytes is shown by tests/oracle/test_random.py and tests/landing/test_engines.py.
    """
    from headwater import LocalEngine

    return LocalEngine()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Hold one local Spark session for the whole run, built as the product builds its own."""
    from headwater.spark.session import spark_session, warm_up

    session = spark_session("local[2]")
    warm_up(session)
    yield session
    session.stop()
