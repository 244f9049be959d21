"""pgoutput under random combinations of its options, against walsenders that decode while transactions are open."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from oracle.option_matrix import draw, named
from oracle.streamed_runs import AT_ONCE, AT_ONCE_SINCE, check, run_live
from oracle.streamed_workload import StreamedWorkload, publications, statements
from oracle.streams import STREAMED_LIMIT, Options

pytestmark = pytest.mark.server

MAJORS = (14, 15, 16, 17, 18, 19)
STREAMS = 6
FILTERS_SINCE = 15
DAILY = ((18, 1),)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize by seeds of each major; few of them every day."""
    first, _, last = (metafunc.config.getoption("--seeds") or "1-20").partition("-")
    cases = [(major, seed) for seed in range(int(first), int(last or first) + 1) for major in MAJORS]
    marked = [
        pytest.param(*case, id=f"pg{case[0]}-{case[1]}", marks=() if case in DAILY else pytest.mark.slow)
        for case in cases
    ]
    metafunc.parametrize(("major", "seed"), marked)


def test_options_drawn(engine: Engine, major: int, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"run {major} {seed}")
    prepares = rng.random() < 0.7
    filters = major >= FILTERS_SINCE and rng.random() < 0.5
    names = publications(major, filters)
    drawn = named(draw(rng, major, names, streams=True, prepares=prepares) for _ in range(STREAMS))
    streams = {name: ("pgoutput", options) for name, options in drawn.items()}

    def work(server: EmbeddedPostgres, catch_up: Callable[[], object]) -> None:
        StreamedWorkload(server.connect, seed, catch_up, prepares=prepares, filters=filters).run(100)

    check(engine, run_live(major, tmp_path, statements(major, filters), streams, work, _settings(rng, major)))


def _settings(rng: random.Random, major: int) -> Options:
    """Draw settings of the walsenders' sessions: mostly a limit that is reached soon."""
    limits: list[Options] = [STREAMED_LIMIT, STREAMED_LIMIT, (("logical_decoding_work_mem", "256kB"),)]
    if major >= AT_ONCE_SINCE:
        limits.append(AT_ONCE)
    return rng.choice(limits)
