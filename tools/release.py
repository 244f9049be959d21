"""Build the distributions of a release, and try the wheel: ``python tools/release.py DIST``.

The wheel is installed in a new environment. From there it decodes, lands and is read by Spark, on the sample of
``tools/make_sample.py``; what it decodes is compared with what the checkout says. Any difference ends the program.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import headwater

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
EXTRAS = "compression,delta,iceberg,metrics,publish,s3,server"
ORDERS = 2
"""Rows of ``shop.orders`` at the end of the sample."""

LOAD_PLUGINS = """
from importlib.metadata import entry_points
print(*sorted(point.name for point in entry_points(group="headwater.plugins") if point.load()))
"""
READ = """
import sys, headwater
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
headwater.register(spark)
options = {"path": sys.argv[1], "catalog": sys.argv[2], "tables": "shop.orders"}
rows = spark.read.format("headwater").options(**options).load().collect()
print(headwater.__file__, *sorted(row._op for row in rows))
"""


class ReleaseError(Exception):
    """A reason not to release."""


@dataclass(frozen=True)
class Trial:
    """The installed wheel, and a window to try it on.

    Attributes:
        directory: what the trial may write to, and where its programs run.
        programs: those of the environment.
    """

    directory: Path
    programs: Path

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of the environment; returns what it printed."""
        return run([str(self.programs / program), *arguments], self.directory)

    @property
    def window(self) -> tuple[str, str, str, str]:
        """The flags that name the window."""
        return "--wal", str(self.directory / "sample" / "wal"), "--catalog", str(self.directory / "sample" / "backup")


def run(command: Sequence[str], directory: Path = ROOT) -> str:
    """Run a program, of which only what this one says is known; returns what it printed.

    Raises:
        ReleaseError: it failed.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))}
    environment = {**inherited, "PIP_CONSTRAINT": str(CONSTRAINTS), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise ReleaseError(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def expect(what: str, actual: object, expected: object) -> None:
    """See that something is as it should be, and say so.

    Raises:
        ReleaseError: it is not.
    """
    if actual != expected:
        raise ReleaseError(f"{what}: found {actual}, expected {expected}")
    print(f"  {what}: ok", flush=True)


def check_versions() -> str:
    """Return the version, which three files are to agree about."""
    version = str(_project()["version"])
    newest = re.search(r"^## \[(.+?)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    expect("version of the package", headwater.__version__, version)
    expect("newest version of the changelog", newest and newest[1], version)
    files = ROOT / "tests" / "slots" / "releases" / f"{version}.tar.xz"
    expect(f"files for later releases ({files.relative_to(ROOT)})", files.exists(), True)
    return version


def build(dist: Path, version: str) -> tuple[Path, Path]:
    """Build both distributions from what the checkout has; returns the wheel and the source's archive."""
    wheel, source = dist / f"headwater-{version}-py3-none-any.whl", dist / f"headwater-{version}.tar.gz"
    for path in (wheel, source):
        path.unlink(missing_ok=True)
    run([sys.executable, "-m", "build", "--outdir", str(dist)])
    return wheel, source


def check_contents(wheel: Path, source: Path, version: str) -> None:
    """See that both distributions have every file of the package, and the wheel no other."""
    files = set(run(["git", "ls-files", "src/headwater"]).split())
    with zipfile.ZipFile(wheel) as archive:
        packed = {f"src/{name}" for name in archive.namelist() if name.startswith("headwater/")}
    expect("files of the wheel", sorted(packed ^ files), [])
    with tarfile.open(source) as archive:
        packed = {name.removeprefix(f"headwater-{version}/") for name in archive.getnames()}
    expect("files that the source's archive lacks", sorted(files - packed), [])


def install(wheel: Path, directory: Path) -> Trial:
    """Install the wheel with its extras in a new environment, beside a sample."""
    environment = directory / "environment"
    venv.create(environment, with_pip=True)
    trial = Trial(directory, environment / "bin")
    trial.run("pip", "install", "--quiet", f"{wheel}[{EXTRAS}]")
    run([sys.executable, str(ROOT / "tools" / "make_sample.py"), str(directory / "sample")])
    return trial


def try_entry_points(trial: Trial, version: str) -> None:
    """Ask for the command and for every plugin."""
    expect("headwater --version", trial.run("headwater", "--version").split()[-1], version)
    points = _project()["entry-points"]["headwater.plugins"]
    expect("plugins", trial.run("python", "-c", LOAD_PLUGINS).split(), sorted(points))


def try_decode(trial: Trial) -> None:
    """Decode the window on both engines, and compare with what the checkout says."""
    decode = ("decode", *trial.window, "--with-lsn", "--quiet")
    expected = run([str(Path(sys.executable).with_name("headwater")), *decode], trial.directory)
    for engine in ("local", "spark"):
        expect(f"decode, {engine}", trial.run("headwater", *decode, "--engine", engine), expected)


def try_landing(trial: Trial) -> None:
    """Land the window in each format, on one of both engines."""
    for format, engine in (("parquet", "spark"), ("delta", "local"), ("iceberg", "local")):
        lake = f"lake-{format}"
        flags = ("--format", format, "--mode", "current", "--engine", engine, "--quiet")
        trial.run("headwater", "land", *trial.window, "--to", lake, *flags)
        tables = json.loads(trial.run("headwater", "lake", "tables", lake, "--json"))["tables"]
        expect(
            f"rows landed, {format}, {engine}",
            {table["table"]: table["rows"] for table in tables},
            {"shop.orders": ORDERS},
        )


def try_spark(trial: Trial) -> None:
    """Read the window in Spark, with the package of the environment."""
    file, *operations = trial.run("python", "-c", READ, trial.window[1], trial.window[3]).split()
    expect("package that Spark reads with", Path(file).is_relative_to(trial.directory), True)
    expect("rows in Spark", operations, ["delete", "insert", "update", "update"])


def _project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])


def release(dist: Path) -> None:
    """Build the distributions, try the wheel, and print what was made.

    Raises:
        ReleaseError: something is not as it should be.
    """
    version = check_versions()
    wheel, source = build(dist, version)
    check_contents(wheel, source, version)
    with tempfile.TemporaryDirectory(prefix="headwater-release-") as directory:
        trial = install(wheel, Path(directory))
        try_entry_points(trial, version)
        try_decode(trial)
        try_landing(trial)
        try_spark(trial)
    for path in (wheel, source):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path}")
    print(f"headwater {version} is good to release")


if __name__ == "__main__":
    try:
        release(Path(sys.argv[1]).absolute())
    except ReleaseError as error:
        sys.exit(f"no release: {error}")
