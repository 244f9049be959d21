"""The command as its users run it: a process of its own, standard output and error of its own, a Spark of its own."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from bad_input.clusters import Cluster, own_file
from bad_input.command import run_command
from bad_input.damage import flip, middle

pytestmark = [pytest.mark.server]

NO_JAVA = {"JAVA_HOME": "/nowhere"}
LARGEST_FILE = 400_000


def _window(cluster: Cluster, wal: Path | None = None) -> list[str | Path]:
    return ["decode", "--wal", wal or cluster.wal, "--catalog", cluster.backup, "--database", "postgres"]


def _empty(tmp_path: Path) -> Path:
    directory = tmp_path / "empty"
    directory.mkdir()
    return directory


@pytest.mark.parametrize("runs_on", ["spark", "local"])
def test_good_run_says_nothing_of_its_own(cluster: Cluster, tmp_path: Path, whole: bytes, runs_on: str) -> None:
    """Not a line of Java's or Spark's greetings."""
    run = run_command(
        *_window(cluster),
        "--engine",
        runs_on,
        directory=_empty(tmp_path),
        environment={"TMPDIR": str(tmp_path / "empty")},
    )
    assert (run.status, run.stderr) == (0, "")
    assert run.stdout == whole
    assert [name for name in run.left if name.startswith(("headwater", "."))] == []


def test_damage_found_by_a_task(cluster: Cluster, wal: Path, tmp_path: Path) -> None:
    place = middle(wal, cluster.backup)
    flip(place.file, place.lsn % (1 << 20) + 40)
    out = _empty(tmp_path)
    run = run_command(*_window(cluster, wal), "--out", out / "messages.parquet", "--engine", "spark", directory=out)
    run.check_failed("checksum in record", f"at {place.text}", f"in {place.file}")


@pytest.mark.parametrize("runs_on", ["spark", "local"])
def test_disk_full_in_a_task(cluster: Cluster, tmp_path: Path, runs_on: str) -> None:
    """A limit on the size of files stands for it."""

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, resource.RLIM_INFINITY))

    out = _empty(tmp_path)
    words = (*_window(cluster), "--out", out / "lines", "--engine", runs_on)
    run = run_command(*words, directory=out, preexec_fn=limit_files)
    run.check_failed("could not write output: File too large (in ", str(out))


def test_full_standard_output(cluster: Cluster, tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        run = run_command(*_window(cluster), "--scratch", _empty(tmp_path), directory=tmp_path / "empty", stdout=full)
    run.check_failed("could not write output: No space left on device (in standard output)")


def test_reader_that_goes_away(cluster: Cluster, tmp_path: Path) -> None:
    """As under ``| head``: it ends without a word."""
    source, sink = os.pipe()
    os.close(source)
    try:
        run = run_command(*_window(cluster), "--scratch", _empty(tmp_path), directory=tmp_path / "empty", stdout=sink)
    finally:
        os.close(sink)
    assert (run.status, run.stderr, run.left) == (1, "", ())


def test_no_java(cluster: Cluster, tmp_path: Path) -> None:
    out = _empty(tmp_path)
    words = (*_window(cluster), "--out", out / "lines", "--engine", "spark")
    run = run_command(*words, directory=out, environment=NO_JAVA)
    run.check_failed("could not start Spark: /nowhere/bin/java: No such file", "Spark needs Java 17")


def test_what_is_small_needs_no_java(cluster: Cluster, whole: bytes) -> None:
    """Up to 64 MB of WAL are decoded by the command itself, unless Spark's master is named."""
    assert run_command(*_window(cluster), environment=NO_JAVA).check_passed() == whole
    run = run_command(*_window(cluster), "--master", "local[1]", environment=NO_JAVA)
    run.check_failed("could not start Spark: /nowhere/bin/java: No such file", "Spark needs Java 17")
    run = run_command(*_window(cluster), "--master", "local[1]", "--engine", "local")
    run.check_failed("--master is Spark's, and --engine local does without", status=2)


@pytest.mark.parametrize("master", ["nonsense", "local[many]"])
def test_master_that_spark_does_not_know(cluster: Cluster, tmp_path: Path, master: str) -> None:
    run = run_command(*_window(cluster), "--master", master, directory=_empty(tmp_path))
    run.check_failed("could not start Spark: ", "aster")


def test_bad_files_are_found_without_spark(cluster: Cluster, catalog: Path) -> None:
    flip(own_file(catalog / "global" / "pg_control"), 40)
    arguments = ["decode", "--wal", cluster.wal, "--catalog", catalog]
    run = run_command(*arguments, environment=NO_JAVA)
    run.check_failed("incorrect checksum in control file, found", "expected", f"in {catalog / 'global/pg_control'}")


def test_usage(cluster: Cluster) -> None:
    run = run_command(*_window(cluster), "--start", "soon", environment=NO_JAVA)
    run.check_failed('invalid LSN "soon"', status=2)
    run_command("decode", "--wal", cluster.wal).check_failed("Missing option '--catalog'", status=2)
    run_command("melt").check_failed("No such command 'melt'", status=2)
