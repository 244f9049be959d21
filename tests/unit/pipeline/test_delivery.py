"""Files handed over in order while the job that makes them still runs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError
from headwater.pipeline.delivery import deliver_while_running

PATIENCE = 30.0


def write(path: str) -> None:
    part = Path(f"{path}.part")
    part.write_text(path)
    part.rename(path)


def never() -> None:
    raise AssertionError("the job was to end by itself")


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return [str(tmp_path / str(number)) for number in range(4)]


def test_files_come_in_order_and_before_the_job_ends(paths) -> None:
    first_is_taken, taken = threading.Event(), []

    def job() -> str:
        for path in (paths[2], paths[0]):
            write(path)
        assert first_is_taken.wait(PATIENCE)
        assert taken == paths[:1]
        for path in (paths[3], paths[1]):
            write(path)
        return "done"

    def deliver(path: str) -> None:
        taken.append(Path(path).read_text())
        first_is_taken.set()

    assert deliver_while_running(job, never, paths, deliver) == "done"
    assert taken == paths
    assert not any(Path(path).exists() for path in paths)


def test_an_error_of_the_job_ends_the_delivery(paths) -> None:
    taken: list[str] = []

    def job() -> None:
        write(paths[0])
        raise HeadwaterError("no more")

    with pytest.raises(HeadwaterError, match="no more"):
        deliver_while_running(job, never, paths, taken.append)
    assert taken in ([], paths[:1])


def test_a_file_that_cannot_be_delivered_ends_the_job(paths) -> None:
    cancelled = threading.Event()

    def job() -> bool:
        write(paths[0])
        return cancelled.wait(PATIENCE)

    def deliver(_: str) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        deliver_while_running(job, cancelled.set, paths, deliver)
    assert cancelled.is_set()


def test_nothing_to_deliver(paths) -> None:
    assert deliver_while_running(lambda: 7, never, [], never) == 7
