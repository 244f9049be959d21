"""Landing that is killed, at any step of its commits or any moment, and a worker of it: nothing lost, nothing twice.

After each kill a reader finds whole transactions from the first one on, each once; in the end everything. The kills of
``make kills`` are spread over all formats and modes.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from bad_input.running_command import Running, running, wait_for_end
from headwater.lakes.landing_target import COPY_ON_WRITE, FORMATS, MERGE_ON_READ, LandingTarget
from headwater.landing.landing_modes import CHANGELOG, CURRENT, HISTORY, MODES
from landing.iceberg_lakes import ICEBERG_3, target_of
from landing.killed_landing import DRIVER, MOST_STEPS, NEVER
from landing.work import Work

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(3600)]

KINDS = [(form, mode, COPY_ON_WRITE) for form in FORMATS for mode in MODES]
KINDS += [(form, mode, MERGE_ON_READ) for form in FORMATS for mode in (CURRENT, HISTORY)]
KINDS += [(ICEBERG_3, CURRENT, MERGE_ON_READ)]

FEW_KILLS = 3
WAYS = 2
"""To be killed: at steps, and at moments."""


def share_of(kills: int) -> int:
    """Return how often each kind is killed in each way."""
    return -(-kills // (WAYS * len(KINDS)))


@pytest.mark.parametrize(("form", "mode", "write_mode"), KINDS)
def test_killed_at_steps_of_commits(
    work: Work, tmp_path: Path, request: pytest.FixtureRequest, form: str, mode: str, write_mode: str
) -> None:
    kills = request.config.getoption("--kills")
    seed, asked = random.randrange(1 << 30), FEW_KILLS if kills is None else share_of(kills)
    print(f"seed {seed}")
    rng, done, number = random.Random(seed), 0, 0
    while done < asked:
        target = target_of(tmp_path / f"lake-{number}", form, mode=mode, write_mode=write_mode)
        was_killed = True
        while was_killed and done < asked:
            was_killed = is_killed(work, target, tmp_path, rng.randint(1, MOST_STEPS))
            done += was_killed
            work.check_so_far(target)
        assert not is_killed(work, target, tmp_path, NEVER)
        work.check_whole(target)
        number += 1


LAID_OUT = """
[[land.table]]
tables = "public.a"
partition = ["truncate(1, t)", "bucket(2, id)"]
sort = ["t desc"]
"""
LAID_OUT_BY_COLUMNS = """
[[land.table]]
tables = "public.c"
partition = ["x"]
"""


@pytest.mark.parametrize(
    ("form", "mode", "write_mode"),
    [("parquet", CURRENT, COPY_ON_WRITE), ("delta", CHANGELOG, COPY_ON_WRITE), ("iceberg", HISTORY, MERGE_ON_READ)],
)
def test_killed_while_partitions_land(work: Work, tmp_path: Path, form: str, mode: str, write_mode: str) -> None:
    """As above, where a table has many files in a commit, of Parquet in directories of their own."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng, target = random.Random(seed), LandingTarget(tmp_path / "lake", form, mode=mode, write_mode=write_mode)
    settings = tmp_path / "headwater.toml"
    settings.write_text(LAID_OUT_BY_COLUMNS if form == "delta" else LAID_OUT)
    for kills in range(FEW_KILLS):
        assert is_killed(work, target, tmp_path, rng.randint(1, MOST_STEPS), "--config", settings) or kills
        work.check_so_far(target)
    assert not is_killed(work, target, tmp_path, NEVER, "--config", settings)
    work.check_whole(target)
    folders = {path.name for path in target.place.rglob("*") if path.is_dir()}
    assert form != "parquet" or "id_bucket=1" in folders


def is_killed(work: Work, target: LandingTarget, directory: Path, step: int, *more: str | Path) -> bool:
    """Land until a step; tell whether there were as many."""
    arguments = [str(DRIVER), str(target.place), str(step), *work.arguments(target), *map(str, more)]
    with running(*arguments, directory=directory, program=sys.executable) as process:
        output = process.standard_error()
        status = process.process.wait()
    assert status in (0, -signal.SIGKILL), output
    return status != 0


@pytest.mark.parametrize(("form", "mode", "write_mode"), KINDS)
def test_killed_at_any_moment(
    work: Work, tmp_path: Path, request: pytest.FixtureRequest, form: str, mode: str, write_mode: str
) -> None:
    kills = request.config.getoption("--kills")
    if kills is None:
        pytest.skip("part of make kills")
    rng, done, number, asked = random.Random(f"{kills} {form} {mode} {write_mode}"), 0, 0, share_of(kills)
    while done < asked:
        target = target_of(tmp_path / f"lake-{number}", form, mode=mode, write_mode=write_mode)
        was_killed = True
        while was_killed and done < asked:
            was_killed = is_killed_after(rng.uniform(0, 2.0), work, target, tmp_path)
            done += was_killed
            work.check_so_far(target)
        assert not is_killed(work, target, tmp_path, NEVER)
        work.check_whole(target)
        number += 1


def is_killed_after(seconds: float, work: Work, target: LandingTarget, directory: Path) -> bool:
    """Kill it and all that it has started so long after it has begun to land, unless it has ended."""
    with running(*work.arguments(target), directory=directory) as process:
        before = files(target)
        if not process.reaches(lambda: files(target) != before):
            assert process.process.returncode == 0, process.standard_error()
            return False
        began = time.monotonic()
        if not process.reaches(lambda: time.monotonic() - began > seconds):
            return False
        left = process.kill()
    wait_for_end(left)
    return True


def files(target: LandingTarget) -> set[str]:
    return {path.name for path in target.place.rglob("*")}


@pytest.mark.parametrize(("form", "mode", "write_mode"), KINDS)
def test_a_worker_is_killed(work: Work, tmp_path: Path, form: str, mode: str, write_mode: str) -> None:
    """Its task fails, so the run does, with an error; the next one goes on."""
    target = target_of(tmp_path / "lake", form, mode=mode, write_mode=write_mode)
    with running(*work.arguments(target), directory=tmp_path) as process:
        process.until(lambda: any(target.place.glob("public.*")))
        for number in workers(process):
            os.kill(number, signal.SIGKILL)
        output, status = process.standard_error(), process.process.wait()
    assert status in (0, 1), output
    assert "Traceback" not in output
    if status == 1:
        assert output.splitlines()[-1].startswith("headwater: "), output
    work.check_so_far(target)
    assert not is_killed(work, target, tmp_path, NEVER)
    work.check_whole(target)


def workers(process: Running) -> list[int]:
    """List the Python processes that Spark has started for tasks."""
    return [number for number in process.family() if is_worker(number)]


def is_worker(number: int) -> bool:
    try:
        return b"worker_daemon" in Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return False
