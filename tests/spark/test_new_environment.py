"""The README's lines for Spark, as written, in a new environment that is not activated.

Headwater is built and installed there by pip; of the environment of the tests only the libraries are lent. ``python3``
of ``PATH`` has no Headwater, as on the machine of somebody who did not activate anything. Kernels run interpreted: the
new environment has none compiled, and the window is small.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

pytestmark = [pytest.mark.server, pytest.mark.spark]

PROJECT = Path(__file__).parents[2]
SPARK_PROGRAMS = Path(pyspark.__file__).parent / "bin"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
TIMEOUT_SECONDS = 500
README = (PROJECT / "README.md").read_text()
SHOWN = README[README.index("| 736|") : README.index("\n```\n\n**2.")]
"""What the README's lines show."""
SESSION = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.master('local[2]').getOrCreate()\n"
REGISTER = "import headwater\nheadwater.register(spark)\n"
CHECK = """
import headwater, sys
print("headwater of", headwater.__file__)
print("rows:", orders.count(), spark.sparkContext.master)
"""


@dataclass(frozen=True)
class NewEnvironment:
    """A virtual environment and a window to read in it.

    Attributes:
        root: the environment.
        python: its interpreter.
        path: ``PATH`` for a shell that has not activated it.
        readme: the README's lines, about the window.
    """

    root: Path
    python: Path
    path: str
    readme: str

    def run(self, directory: Path, *command: str | Path, text: str = "", **environment: str) -> str:
        """Run a program in `directory`; returns its standard output."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
        changes = {"PATH": self.path, "NUMBA_DISABLE_JIT": "1", **environment}
        run = subprocess.run(
            list(map(str, command)),
            input=text.encode(),
            capture_output=True,
            cwd=directory,
            env={**inherited, **changes},
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert run.returncode == 0, run.stdout.decode() + run.stderr.decode()
        return run.stdout.decode()

    def check(self, output: str) -> None:
        """Check that the lines did what the README says, with the package of this environment."""
        assert f"headwater of {self.root}" in output
        assert "rows: 4 local[" in output
        assert SHOWN in output


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> NewEnvironment:
    directory = tmp_path_factory.mktemp("environment")
    root = directory / "new"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    python = root / "bin" / "python"
    subprocess.run([*PIP, "--python", python, "install", "--no-index", "--no-deps", _wheel(directory)], check=True)
    _lend_libraries(python)
    return NewEnvironment(root, python, _path_without(directory), _readme(_window(directory)))


def _wheel(directory: Path) -> Path:
    """Build Headwater's wheel from a copy of the sources, so that nothing built before gets in."""
    source, wheels = directory / "source", directory / "wheels"
    source.mkdir()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(PROJECT / name, source)
    shutil.copytree(PROJECT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, source], check=True)
    return next(wheels.glob("headwater-*.whl"))


def _lend_libraries(python: Path) -> None:
    """Lend libraries of this environment, after the new one's own; its editable Headwater is not among them."""
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()
    Path(site, "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")


def _path_without(directory: Path) -> str:
    """Make a ``PATH`` whose ``python3`` is the one the environments were made of."""
    programs = directory / "programs"
    programs.mkdir()
    for name in ("python", "python3"):
        (programs / name).symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    return f"{programs}{os.pathsep}{os.environ['PATH']}"


def _window(directory: Path) -> tuple[Path, Path]:
    """Return a directory of WAL and a backup: those of ``make sample``."""
    run = [sys.executable, str(PROJECT / "tools" / "make_sample.py"), str(directory / "sample")]
    subprocess.run(run, check=True, timeout=TIMEOUT_SECONDS)
    return directory / "sample" / "wal", directory / "sample" / "backup"


def _readme(window: tuple[Path, Path]) -> str:
    """Return the README's block, with these places for its own."""
    wal, backup = map(str, window)
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert "build/sample/wal" in block
    assert "build/sample/backup" in block
    assert isinstance(block, str)
    return block.replace("build/sample/wal", wal).replace("build/sample/backup", backup)


@pytest.mark.slow
def test_script(environment: NewEnvironment, tmp_path: Path) -> None:
    """The session is made first."""
    script = tmp_path / "script.py"
    script.write_text(SESSION + environment.readme + CHECK)
    environment.check(environment.run(tmp_path, environment.python, script))


@pytest.mark.slow
def test_spark_submit_in_an_activated_environment(environment: NewEnvironment, tmp_path: Path) -> None:
    """The package is there first."""
    script = tmp_path / "script.py"
    script.write_text("import headwater\n" + SESSION + environment.readme + CHECK)
    path = f"{environment.root / 'bin'}{os.pathsep}{environment.path}"
    environment.check(environment.run(tmp_path, SPARK_PROGRAMS / "spark-submit", script, PATH=path))


@pytest.mark.slow
def test_pyspark_shell(environment: NewEnvironment, tmp_path: Path) -> None:
    """Only the shell's own Python is named; its workers' would be ``python3``. With ``-i`` a pipe is a terminal."""
    shell = (SPARK_PROGRAMS / "pyspark", "--master", "local[2]")
    named = {"PYSPARK_DRIVER_PYTHON": str(environment.python), "PYSPARK_DRIVER_PYTHON_OPTS": "-i"}
    environment.check(environment.run(tmp_path, *shell, text=environment.readme + CHECK, **named))


@pytest.mark.slow
def test_notebook_where_another_python_is_named(environment: NewEnvironment, tmp_path: Path) -> None:
    """A notebook's kernel is a process of the environment's Python. To register twice does no harm."""
    lines = f"{SESSION}{REGISTER}{environment.readme}\nprint('rows:', orders.count())"
    other = shutil.which("python3", path=environment.path)
    assert "rows: 4" in environment.run(tmp_path, environment.python, "-c", lines, PYSPARK_PYTHON=str(other))
