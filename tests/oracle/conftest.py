"""Which servers and seeds the oracle rung runs on, and how the tests that share a run share it.

Directories of runs in which a test failed are kept; the failure says how to decode them by hand.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.demo.stream_comparison import first_difference, joined
from headwater.errors import HeadwaterError
from headwater.pg.lsn import Lsn
from headwater.pipeline import DecodeRequest, decode
from oracle.oracle import OracleRun, Stream, run_alone, run_random, run_scenarios, run_threads
from oracle.scenarios import SCENARIOS

# (major, seed, steps)
FEW_RUNS = ((16, 1, 1500), (18, 2, 1500), (15, 3, 1500))
MANY_RUNS = tuple((major, seed, 3200) for major in (15, 16, 17, 18) for seed in range(100, 120))

# (major, seed, statements of each session), each session in a thread of its own
FEW_THREADS = ((15, 1, 130), (16, 2, 130), (18, 3, 130))
MANY_THREADS = tuple((major, seed, 500) for major in (15, 16, 17, 18) for seed in range(200, 205))


class DecodedRun:
    """A server's run, and our decoding of its streams, each made when it is first asked for."""

    def __init__(self, spark: Any, run: OracleRun) -> None:
        self.spark = spark
        self.run = run
        self._decoded: dict[str, pa.Table | HeadwaterError] = {}

    def decoded(self, stream: Stream) -> pa.Table:
        """Our messages of a stream.

        Raises:
            HeadwaterError: decoding failed, now or when it was first tried.
        """
        if stream.name not in self._decoded:
            try:
                with decode(self.spark, self._request(stream)) as result:
                    self._decoded[stream.name] = joined(result.tables())
            except HeadwaterError as error:
                self._decoded[stream.name] = error
        found = self._decoded[stream.name]
        if isinstance(found, HeadwaterError):
            pytest.fail(f"{found}\n{self.by_hand(stream)}", pytrace=False)
        return found

    def check(self, stream: Stream, expected: pa.Table, actual: pa.Table) -> None:
        """Fail with the first difference, if there is one."""
        difference = first_difference(expected, actual)
        if difference is not None:
            text = f"{stream.name} on {self.run.major}: {len(expected)} messages expected, {len(actual)} found"
            pytest.fail(f"{text}\n{difference}\n{self.by_hand(stream)}", pytrace=False)

    def by_hand(self, stream: Stream) -> str:
        """The command that decodes the stream."""
        words = [
            "headwater decode",
            f"--wal {self.run.wal}",
            f"--catalog {self.run.backup}",
            f"--plugin {stream.plugin}",
        ]
        words += [f"--database {self.run.database}", f"--start {Lsn(stream.start)}"]
        words += [f"--end {Lsn(stream.end)}"] if stream.end is not None else []
        words += [f"-o '{name}={value}'" for name, value in stream.options]
        words += [f"--set '{name}={value}'" for name, value in stream.settings]
        words += ["--with-lsn" if stream.plugin == "test_decoding" else "--out x.parquet"]
        return " ".join(words) + (f"\nstatements: {self.run.log}" if self.run.log else "")

    def _request(self, stream: Stream) -> DecodeRequest:
        return DecodeRequest(
            wal=str(self.run.wal),
            catalog=str(self.run.backup),
            database=self.run.database,
            plugin=stream.plugin,
            options=stream.options,
            start=stream.start,
            end=stream.end,
            settings=stream.settings,
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = metafunc.config.getoption("--all-majors")
    majors = (15, 16, 17, 18) if everything else (16, 18)
    if "random_run" in metafunc.fixturenames:
        cases = [*FEW_RUNS, *MANY_RUNS] if everything else FEW_RUNS
        names = [f"pg{major}-seed{seed}" for major, seed, _ in cases]
        metafunc.parametrize("random_run", cases, indirect=True, ids=names, scope="module")
    if "threaded_run" in metafunc.fixturenames:
        cases = [*FEW_THREADS, *MANY_THREADS] if everything else FEW_THREADS
        names = [f"pg{major}-threads{seed}" for major, seed, _ in cases]
        metafunc.parametrize("threaded_run", cases, indirect=True, ids=names, scope="module")
    if "pgbench_transactions" in metafunc.fixturenames:
        metafunc.parametrize("pgbench_transactions", [5000 if everything else 250])
    if "scenario_run" in metafunc.fixturenames:
        metafunc.parametrize("scenario_run", majors, indirect=True, ids=[f"pg{m}" for m in majors], scope="module")
        metafunc.parametrize("scenario", [name for name, scenario in SCENARIOS.items() if not scenario.is_alone])
    if "publishing" in metafunc.fixturenames:
        metafunc.parametrize("publishing", majors, indirect=True, ids=[f"pg{m}" for m in majors], scope="module")
    if "alone_run" in metafunc.fixturenames:
        alone = [(major, name) for major in majors for name, scenario in SCENARIOS.items() if scenario.is_alone]
        names = [f"pg{major}-{name}" for major, name in alone]
        metafunc.parametrize("alone_run", alone, indirect=True, ids=names, scope="module")


@pytest.fixture(scope="module")
def random_run(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    major, seed, steps = request.param
    with _kept_on_failure(request, tmp_path_factory) as directory:
        yield DecodedRun(spark, run_random(major, seed, steps, directory))


@pytest.fixture(scope="module")
def threaded_run(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    major, seed, steps = request.param
    with _kept_on_failure(request, tmp_path_factory) as directory:
        yield DecodedRun(spark, run_threads(major, seed, steps, directory))


@pytest.fixture(scope="module")
def scenario_run(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """All scenarios that are selected, on one server."""
    chosen = {item.callspec.params.get("scenario") for item in request.session.items if hasattr(item, "callspec")}
    names = [name for name in SCENARIOS if name in chosen]
    with _kept_on_failure(request, tmp_path_factory) as directory:
        yield DecodedRun(spark, run_scenarios(request.param, names, directory))


@pytest.fixture(scope="module")
def alone_run(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    major, name = request.param
    with _kept_on_failure(request, tmp_path_factory) as directory:
        yield DecodedRun(spark, run_alone(major, name, directory))


class _kept_on_failure:
    """A directory that is removed unless a test has failed since it was made."""

    def __init__(self, request: pytest.FixtureRequest, factory: pytest.TempPathFactory) -> None:
        self.session = request.session
        self.directory = factory.mktemp("oracle")
        self.failed_before = self.session.testsfailed

    def __enter__(self) -> Path:
        return self.directory

    def __exit__(self, *_: object) -> None:
        if self.session.testsfailed == self.failed_before:
            shutil.rmtree(self.directory, ignore_errors=True)
