"""The servers and seeds that the oracle rung runs on, and how the tests that share a run share it."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.jobs.engine import Engine
from headwater.pipeline.engines import engine_of
from oracle import xid_wrap
from oracle.conformance import COMPARED, DIFFERS, GAP, IDENTICAL, Found
from oracle.decoded_run import DecodedRun, kept_on_failure
from oracle.killing import SEGMENT_BYTES
from oracle.oracle import run_alone, run_random, run_scenarios, run_threads, run_wrap
from oracle.scenario_wrap import WITHIN, WRAPS
from oracle.scenarios import SCENARIOS
from oracle.streams import is_said_by
from packaged_servers import is_packaged
from slots.conftest import command as command

MAJORS = (14, 15, 16, 17, 18, 19)

# Of 14 every day, as others of its scenarios say what those of 16 say: what only 14 does, and rows at all.
FEW_OF_14 = (
    "insert_update_delete",
    "checkpoints_and_segments",
    "empty_transactions",
    "partitions_detached_and_attached_while_written",
    "everything_published_as_its_root",
    "delete_without_identity_behind_an_open_transaction",
)

# (major, seed, statements of each writer), each session in a thread of its own
FEW_THREADS = ((15, 1, 200), (18, 3, 200))
MANY_THREADS = ((14, 4, 200), (16, 2, 200), *((major, seed, 500) for major in MAJORS for seed in range(200, 210)))
# Amid these, on the majors of xid_wrap.MAJORS, xids begin again.
WRAP_THREADS = ((15, 231, 300), (16, 232, 300), (18, 230, 300))

# (major, seed) of runs whose decoding is killed
FEW_KILLS = ((16, 1),)
MANY_KILLS = tuple((major, seed) for major in MAJORS for seed in range(300, 320))

# (major, scenario) in which xids begin again
FEW_WRAPS = ((18, WITHIN),)
MANY_WRAPS = tuple((major, name) for major in xid_wrap.MAJORS for name in WRAPS)

# (major, seed, statements of all sessions), driven by one thread
FEW_RUNS = ((16, 1, 1500),)
MANY_RUNS = tuple((major, seed, 3200) for major in MAJORS for seed in range(100, 105))


# Of scenarios whose slots are asked amid the script: their point is the calls.
STREAMS_BESIDE_CALLS = ("test_decoding", "test_decoding, more", "pgoutput, all")

FOUND = pytest.StashKey[list[tuple[Any, str]]]()
"""What was compared, and what was found."""

OF_FIRST_MINORS = frozenset({"Rows", "Transactions", "Definitions", "Publications"})
"""Themes of the scenarios that run on the first minor releases, and on older ones (--first-minors, --older-minors)."""

RUNS = frozenset({"scenario_run", "alone_run", "threaded_run", "random_run", "killed_run", "wrap_run", "publishing"})
"""Fixtures whose parameter is a major, or begins with one."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = metafunc.config.getoption("--all-majors")
    majors = MAJORS if everything else (16, 18)
    if "threaded_run" in metafunc.fixturenames:
        cases = _threads(metafunc.config)
        names = [f"pg{case[0]}-{'wrap' if case in WRAP_THREADS else 'threads'}{case[1]}" for case in cases]
        metafunc.parametrize("threaded_run", cases, indirect=True, ids=names, scope="module")
    if "killed_run" in metafunc.fixturenames:
        killed = [*FEW_KILLS, *MANY_KILLS] if everything else [*FEW_KILLS]
        names = [f"pg{major}-kills{seed}" for major, seed in killed]
        metafunc.parametrize("killed_run", killed, indirect=True, ids=names, scope="module")
    if "wrap_run" in metafunc.fixturenames:
        wraps = MANY_WRAPS if everything else FEW_WRAPS
        names = [f"pg{major}-{name}" for major, name in wraps]
        metafunc.parametrize("wrap_run", wraps, indirect=True, ids=names, scope="module")
    if "random_run" in metafunc.fixturenames:
        cases = [*FEW_RUNS, *MANY_RUNS] if everything else [*FEW_RUNS]
        names = [f"pg{major}-seed{seed}" for major, seed, _ in cases]
        metafunc.parametrize("random_run", cases, indirect=True, ids=names, scope="module")
    if "pgbench_transactions" in metafunc.fixturenames:
        metafunc.parametrize("pgbench_transactions", [5000 if everything else 250])
    if "scenario_run" in metafunc.fixturenames:
        # Of the two only the server's run is shared: what is shared decides in which order tests run.
        servers = majors if everything else (14, *majors)
        metafunc.parametrize("scenario_run", servers, indirect=True, ids=[f"pg{m}" for m in servers], scope="module")
    if "scenario" in metafunc.fixturenames:
        metafunc.parametrize("scenario", [name for name, entry in SCENARIOS.items() if not entry.is_alone])
    if "publishing" in metafunc.fixturenames:
        metafunc.parametrize("publishing", majors, indirect=True, ids=[f"pg{m}" for m in majors], scope="module")
    if "alone_run" in metafunc.fixturenames:
        alone = [(major, name) for major in majors for name, scenario in SCENARIOS.items() if scenario.is_alone]
        names = [f"pg{major}-{name}" for major, name in alone]
        metafunc.parametrize("alone_run", alone, indirect=True, ids=names, scope="module")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    compared = dict(report.user_properties).get(COMPARED)
    if report.when == "call" and compared is not None:
        verdict = IDENTICAL if report.passed else GAP if hasattr(report, "wasxfail") else DIFFERS
        item.session.stash.setdefault(FOUND, []).append((compared, verdict))
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--conformance")
    if path is not None:
        comparisons = Found.read(Path(path))
        for compared, verdict in session.stash.get(FOUND, []):
            comparisons.add(compared, verdict)
        comparisons.write(Path(path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    everything = config.getoption("--all-majors")
    is_of_first = config.getoption("--first-minors") or config.getoption("--older-minors")
    selected = [item for item in items if _belongs(item, everything) and (not is_of_first or _is_of_first_minors(item))]
    chosen = set(selected)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = selected


def _is_of_first_minors(item: pytest.Item) -> bool:
    given: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return "scenario" in given and SCENARIOS[given["scenario"]].theme in OF_FIRST_MINORS


def _belongs(item: pytest.Item, everything: bool) -> bool:
    """Tell whether a scenario's server can do what it shows, and is asked for it every day."""
    given: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    run = next((given[name] for name in given if name in RUNS), None)
    if run is not None and not is_packaged(run if isinstance(run, int) else run[0]):
        return False
    if "scenario_run" in given and "scenario" not in given:
        return is_said_by(given["name"], given["scenario_run"])
    if "scenario_run" in given:
        major, name = given["scenario_run"], given["scenario"]
    elif "alone_run" in given:
        major, name = given["alone_run"]
        is_call = item.name.startswith("test_slots_asked")
        if SCENARIOS[name].takes and not is_call and given["name"] not in STREAMS_BESIDE_CALLS:
            return False
        if is_call and not SCENARIOS[name].takes:
            return False
    else:
        return True
    if not is_said_by(given.get("name", ""), major):
        return False
    is_daily = name in FEW_OF_14 if major == 14 else major in SCENARIOS[name].days
    return SCENARIOS[name].since <= major and (everything or is_daily)


def _threads(config: pytest.Config) -> list[tuple[int, int, int]]:
    seeds = config.getoption("--seeds")
    if seeds:
        first, _, last = seeds.partition("-")
        majors = MAJORS if config.getoption("--all-majors") else (16, 18)
        return [(major, seed, 300) for seed in range(int(first), int(last or first) + 1) for major in majors]
    return [*FEW_THREADS, *MANY_THREADS, *WRAP_THREADS] if config.getoption("--all-majors") else [*FEW_THREADS]


@pytest.fixture(scope="module")
def threaded_run(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Run sessions in threads; decoded on Spark, as all that has size is."""
    major, seed, steps = request.param
    with kept_on_failure(request, tmp_path_factory) as directory:
        xids_left = xid_wrap.AMID_THREADS if request.param in WRAP_THREADS else None
        yield DecodedRun(engine_of(spark), run_threads(major, seed, steps, directory, xids_left=xids_left))


@pytest.fixture(scope="module")
def killed_run(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Run with small segments, of which windows are made, and 2 to 40 calls of the server's slots."""
    major, seed = request.param
    pieces = random.Random(f"pieces {seed}").randint(2, 40)
    with kept_on_failure(request, tmp_path_factory) as directory:
        yield DecodedRun(
            engine, run_threads(major, seed, 150, directory, pieces, segment_megabytes=SEGMENT_BYTES >> 20)
        )


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Return a test's source of choices, the same for the same run of a server."""
    return random.Random(request.node.name)


@pytest.fixture(scope="module")
def random_run(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    major, seed, steps = request.param
    with kept_on_failure(request, tmp_path_factory) as directory:
        yield DecodedRun(engine, run_random(major, seed, steps, directory))


@pytest.fixture(scope="module")
def scenario_run(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Run all scenarios that are selected for a major, on one server."""
    calls = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    chosen = {params.get("scenario") for params in calls if params.get("scenario_run") == request.param}
    names = [name for name in SCENARIOS if name in chosen]
    with kept_on_failure(request, tmp_path_factory) as directory:
        yield DecodedRun(engine, run_scenarios(request.param, names, directory))


@pytest.fixture(scope="module")
def alone_run(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    major, name = request.param
    with kept_on_failure(request, tmp_path_factory) as directory:
        yield DecodedRun(engine, run_alone(major, name, directory))


@pytest.fixture
def alone(request: pytest.FixtureRequest) -> str:
    """Return the scenario of the run that a test asks for."""
    return str(request.node.callspec.params["alone_run"][1])


@pytest.fixture(scope="module")
def wrap_run(request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    major, name = request.param
    with kept_on_failure(request, tmp_path_factory) as directory:
        yield DecodedRun(engine, run_wrap(major, name, directory))


@pytest.fixture
def wrap(request: pytest.FixtureRequest) -> str:
    """Return the scenario of the run that a test asks for."""
    return str(request.node.callspec.params["wrap_run"][1])
