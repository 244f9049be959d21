"""The SQL of random DDL makes a copy that ``pg_dump --schema-only`` cannot tell from the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddl.copying import copied, recorded
from ddl.random_definitions import SETUP, RandomDefinitions
from headwater.pipeline.windows.run_index import WindowBounds

pytestmark = pytest.mark.server

TRANSACTIONS = 250
FUNCTION = SETUP[2]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a seed to each major, or those of ``--seeds``."""
    seeds = metafunc.config.getoption("--seeds")
    first, _, last = (seeds or "1").partition("-")
    numbers = range(int(first), int(last or first) + 1)
    slow = () if seeds else (pytest.mark.slow,)
    cases = [
        pytest.param(major, seed, marks=() if major in (14, 18) else slow)
        for major in (14, 15, 16, 17, 18, 19)
        for seed in numbers
    ]
    metafunc.parametrize(("major", "seed"), cases)


def test_random_definitions(major: int, seed: int, tmp_path: Path) -> None:
    done = 0

    def work(session: Any) -> None:
        nonlocal done
        workload = RandomDefinitions(session, seed, major)
        workload.set_up()
        for _ in range(TRANSACTIONS):
            workload.transaction()
        done = workload.done

    with recorded(major, tmp_path, work) as server:
        events = server.events()
        assert done > TRANSACTIONS / 3
        assert [(placed.event.kind, placed.event.unsupported) for placed in events if placed.event.unsupported] == [
            ("function", "a function is not told in SQL")
        ]
        assert [placed.event.structure() for placed in server.events(WindowBounds(1))] == [
            placed.event.structure() for placed in events
        ]
        assert copied(server, events, [FUNCTION]) == []
