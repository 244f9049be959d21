"""The command is told to end, or is killed, at some moments: what it says, and that nothing stays.

Standard output is a pipe that nobody reads, too small for the messages: a command that has gone further than the
moment by the time the signal comes waits there at the latest.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bad_input.clusters import Cluster
from bad_input.running_command import Running, running, wait_for_end

pytestmark = [pytest.mark.server]

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}


def _window(cluster: Cluster, engine: str = "spark") -> list[str | Path]:
    return ["decode", "--wal", cluster.wal, "--catalog", cluster.backup, "--database", "postgres", "--engine", engine]


def _spark_starts(run: Running) -> None:
    run.until(run.has_java)


def _index_or_later(run: Running) -> None:
    run.until(run.exists("headwater-*/files/*"))


def _write(run: Running) -> None:
    assert run.process.stdout is not None
    assert run.process.stdout.read(1)


MOMENTS = [
    ("spark", _spark_starts, signal.SIGTERM),
    ("spark", _index_or_later, signal.SIGHUP),
    ("spark", _write, signal.SIGINT),
    ("local", _write, signal.SIGTERM),
]


def _said(run: Running) -> str:
    """Read standard error without the lines of progress that a busy machine's long work has."""
    return re.sub(r"(?m)^headwater: [A-Za-z ]+: \d+ of \d+ tasks, [0-9hms]+\n", "", run.standard_error())


def _check_ended(run: Running, family: set[int], *numbers: signal.Signals) -> None:
    """Check that the run has ended by one of these signals."""
    ended = (_said(run), run.process.wait())
    assert ended in [(f"headwater: {WORDS[number]}\n", 128 + number) for number in numbers]
    assert run.left() == []
    wait_for_end(family)


@pytest.mark.parametrize(("runs_on", "moment", "number"), MOMENTS)
def test_told_to_end(
    cluster: Cluster, tmp_path: Path, runs_on: str, moment: Callable[[Running], None], number: signal.Signals
) -> None:
    with running(*_window(cluster, runs_on), directory=tmp_path) as run:
        moment(run)
        family = run.family()
        run.process.send_signal(number)
        _check_ended(run, family, number)


def test_told_together_with_all_that_it_started(cluster: Cluster, tmp_path: Path) -> None:
    """As a terminal or a service manager does it; then again, and interrupted, whichever reaches it first."""
    with running(*_window(cluster), "--out", tmp_path / "lines", directory=tmp_path) as run:
        run.until(run.exists(".headwater-*/lines"))
        family = run.family()
        os.killpg(run.process.pid, signal.SIGHUP)
        run.process.send_signal(signal.SIGTERM)
        run.process.send_signal(signal.SIGINT)
        _check_ended(run, family, signal.SIGHUP, signal.SIGTERM, signal.SIGINT)


def test_what_a_killed_command_left_is_removed_by_the_next(cluster: Cluster, tmp_path: Path, whole: bytes) -> None:
    """Scratch and unfinished output; what is no leftover stays. A signal that is ignored, by ``nohup``, stays so."""
    (tmp_path / "headwater-notours1").mkdir()
    out = tmp_path / "lines"
    with running(*_window(cluster), "--out", out, directory=tmp_path) as run:
        run.until(run.exists(".headwater-*/lines"))
        _index_or_later(run)
        family = run.family()
        run.process.kill()
        run.process.wait()
        wait_for_end(family)
        assert run.exists("headwater-*/*")()
        assert run.exists(".headwater-*/lines")()
    with running(*_window(cluster), "--out", out, directory=tmp_path, ignored=(signal.SIGHUP,)) as run:
        run.until(run.exists(".headwater-*/lines"))
        run.process.send_signal(signal.SIGHUP)
        assert (_said(run), run.process.wait(), run.left()) == ("", 0, ["headwater-notours1", "lines"])
    assert out.read_bytes() == whole


@pytest.fixture
def server_place() -> Iterator[Path]:
    """Make a short path that the server's user can pass through."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def test_demo(server_place: Path) -> None:
    """Its server stops, and its directories go: when the next server is made, or at once."""
    with running("demo", directory=server_place) as run:
        run.until(run.exists("headwater-*/data/postmaster.pid"))
        family = run.family()
        run.process.kill()
        run.process.wait()
        wait_for_end(family)
        left = set(server_place.iterdir())
    assert len(left) == 2
    with running("demo", directory=server_place) as run:
        run.until(lambda: not left & set(server_place.iterdir()))
        run.until(run.exists("headwater-*/data/postmaster.pid"))
        family = run.family()
        run.process.send_signal(signal.SIGTERM)
        _check_ended(run, family, signal.SIGTERM)
