"""The catalog rolled forward, against what the server said of its own catalog at many points."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog.recording import Recorder, Rolled, roll_forward, wrong_marks
from catalog.scenarios import SCENARIOS
from catalog.windows import check_windows, cut_at_random
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from packaged_servers import programs_of

SETTINGS: dict[int, dict[str, str]] = {
    14: {"wal_compression": "on", "wal_consistency_checking": "heap,heap2"},
    15: {"full_page_writes": "off"},
    16: {"wal_compression": "pglz"},
    17: {"wal_compression": "off", "wal_log_hints": "on", "wal_consistency_checking": "heap,heap2"},
    18: {"wal_compression": "pglz"},
}


@pytest.fixture(
    scope="module", params=[*(pytest.param(major, marks=pytest.mark.slow) for major in (14, 15, 16, 17)), 18]
)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, ...]]:
    """Give marks of all scenarios run one after the other, the rolled store, and what it was made of."""
    major = request.param
    with EmbeddedPostgres(programs_of(major), settings=SETTINGS[major], autovacuum=False) as server:
        server.stop()
        backup = server.copy_data_directory(tmp_path_factory.mktemp("backup") / "data")
        server.start()
        recorder = Recorder(server)
        for scenario in SCENARIOS:
            recorder.mark(f"before {scenario.__name__}")
            scenario(recorder)
        recorder.close()
        server.stop()
        yield recorder, roll_forward(backup, server.wal_directory), backup, server.wal_directory


@pytest.mark.server
def test_views_equal_the_servers_catalog(recorded: tuple[Recorder, Rolled, Path, Path]) -> None:
    recorder, rolled, _, _ = recorded
    assert len(recorder.marks) > 150
    wrong = wrong_marks(recorder.marks, rolled)
    assert not wrong, wrong[0]


@pytest.mark.server
def test_images_and_views_of_windows_equal_those_of_one_roll_forward(
    recorded: tuple[Recorder, Rolled, Path, Path],
) -> None:
    recorder, rolled, backup, wal = recorded
    windows = cut_at_random(backup, wal, rolled, 12, seed=rolled.store.major)
    wrong = check_windows(windows, recorder.marks)
    assert not wrong, wrong[0]
    assert windows.refetched
