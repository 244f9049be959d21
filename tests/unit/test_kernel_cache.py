"""The place of compiled kernels: only this user can write it; for one run if need be, and never in the package."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import headwater
from headwater.base.kernels import _closure, _source

PACKAGE = Path(headwater.__file__).parent

# A process calls a kernel and says where it is kept and how often it was found there; then it starts another.
PROCESS = """
import subprocess, sys
from headwater.wal.records._position import lsn_to_payload
lsn_to_payload(3 * 8192, 1 << 20)
print(lsn_to_payload.stats.cache_path, sum(lsn_to_payload.stats.cache_hits.values()), flush=True)
if sys.argv[1] == "first":
    subprocess.run([sys.executable, "-c", sys.argv[2], "second"], check=True)
"""

# A process packs what its cache has; another takes it, says how many files were new, and calls the kernel.
PACK = """
import sys
from pathlib import Path
from headwater.spark.kernel_travel import pack_kernels
from headwater.wal.records._position import lsn_to_payload
lsn_to_payload(3 * 8192, 1 << 20)
print(pack_kernels(Path(sys.argv[1])))
"""
UNPACK = """
import sys
from pathlib import Path
from headwater.spark.kernel_travel import unpack_kernels
from headwater.wal.records._position import lsn_to_payload
new = [unpack_kernels(Path(sys.argv[1])) for _ in range(2)]
lsn_to_payload(3 * 8192, 1 << 20)
print(*new, sum(lsn_to_payload.stats.cache_hits.values()))
"""

# Numba's users in the same process: what they had before, and what they declare later.
HOST = """
import numba
@numba.njit(cache=True)
def before(x):
    return x + 1
settings = {name: getattr(numba.config, name) for name in dir(numba.config) if name.isupper()}
import headwater.wal.records._frames
@numba.njit(cache=True)
def after(x):
    return x + 2
assert before(1) + after(1) == 5
changed = [name for name, value in settings.items() if getattr(numba.config, name) is not value]
print(before.stats.cache_path, after.stats.cache_path, changed)
"""


def _environment(directory: Path, **more: str) -> dict[str, str]:
    dropped = ("NUMBA_", "HEADWATER_", "XDG_CACHE")
    rest = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    (directory / "tmp").mkdir(exist_ok=True)
    return {**rest, "TMPDIR": str(directory / "tmp"), "HOME": str(directory), **more}


def _run(environment: dict[str, str]) -> tuple[list[tuple[Path, int]], list[str]]:
    """Cache directory and hits of the first process and of the second, and the warnings."""
    command = [sys.executable, "-c", PROCESS, "first", PROCESS]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = [line.rsplit(" ", 1) for line in run.stdout.splitlines()]
    warnings = [line for line in run.stderr.splitlines() if not line.startswith(" ")]
    return [(Path(path), int(hits)) for path, hits in lines], warnings


def _machine_code(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*.nb[ci]*") if path.is_file()}


def _beneath_a_file(directory: Path) -> dict[str, str]:
    (directory / "file").write_text("")
    return {"XDG_CACHE_HOME": str(directory / "file" / "cache")}


def _no_home(_directory: Path) -> dict[str, str]:
    return {"HOME": "/proc/nonexistent"}


def _open_to_all(directory: Path) -> dict[str, str]:
    (directory / "open").mkdir()
    (directory / "open").chmod(0o777)
    return {"HEADWATER_CACHE_DIR": str(directory / "open")}


def _read_only(directory: Path) -> dict[str, str]:
    (directory / ".cache").mkdir(mode=0o500)
    return {}


# Root can write to what is read-only.
UNUSABLE = [_beneath_a_file, _no_home, _open_to_all, *([] if os.geteuid() == 0 else [_read_only])]


@pytest.mark.parametrize("unusable", UNUSABLE)
def test_a_cache_that_cannot_be_used(tmp_path: Path, unusable: Callable[[Path], dict[str, str]]) -> None:
    """One warning in each run, one private directory for its processes, which is gone afterwards."""
    environment = _environment(tmp_path, **unusable(tmp_path))
    before = _machine_code(PACKAGE)
    for _ in range(2 if unusable is _no_home else 1):
        processes, warnings = _run(environment)
        assert len(warnings) == 1, warnings
        assert "HeadwaterWarning: compiled kernels cannot be kept (" in warnings[0]
        assert "set HEADWATER_CACHE_DIR to a directory" in warnings[0]
        assert [hits for _, hits in processes] == [0, 1]
        assert processes[0][0] == processes[1][0]
        assert processes[0][0].is_relative_to(tmp_path / "tmp")
        assert list((tmp_path / "tmp").iterdir()) == []
    assert _machine_code(PACKAGE) == before
    assert _machine_code(tmp_path) == set()


@pytest.mark.parametrize("variable", ["HOME", "HEADWATER_CACHE_DIR"])
def test_a_cache_of_ones_own(tmp_path: Path, variable: str) -> None:
    """It is made, private, and used by the next run."""
    environment = _environment(tmp_path, **{variable: str(tmp_path / "own")})
    for hits in (0, 1):
        processes, warnings = _run(environment)
        assert warnings == []
        assert [count for _, count in processes] == [hits, 1]
        assert processes[0][0].is_relative_to(tmp_path / "own")
    assert {path.stat().st_mode & 0o777 for path in processes[0][0].parents[:3]} == {0o700}


def test_the_same_sources_elsewhere_share_it(tmp_path: Path) -> None:
    """As those of another environment or another clone, whatever the age of their files."""
    copy = tmp_path / "elsewhere" / "headwater"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile)
    first, _ = _run(_environment(tmp_path))
    second, warnings = _run(_environment(tmp_path, PYTHONPATH=str(copy.parent)))
    assert warnings == []
    assert [hits for _, hits in second] == [1, 1]
    assert {path for path, _ in second} == {path for path, _ in first}


def test_the_name_of_a_cache_covers_what_machine_code_is_made_of() -> None:
    """Kernels and what they call, and how they are compiled; not errors, nor where the cache is."""
    names = {os.path.relpath(path, PACKAGE) for path in _closure("headwater.wal.records._frames")}
    assert {"wal/records/_frames.py", "wal/records/_position.py", "base/kernels.py"} <= names
    assert names.isdisjoint({"errors.py", "caches.py", "trusted_paths.py", "temporary_directories.py"})


@pytest.mark.parametrize(
    "given", [{}, {"NUMBA_CACHE_DIR": "numba"}, {"NUMBA_CACHE_LOCATOR_CLASSES": "UserWideCacheLocator"}]
)
def test_other_users_of_numba_keep_their_settings(tmp_path: Path, given: dict[str, str]) -> None:
    """And ours go where ours go, whatever theirs are."""
    named = {name: str(tmp_path / value) if name.endswith("DIR") else value for name, value in given.items()}
    (tmp_path / "host.py").write_text(HOST)
    command = [sys.executable, str(tmp_path / "host.py")]
    run = subprocess.run(command, env=_environment(tmp_path, **named), capture_output=True, text=True, check=True)
    before, after, changed = run.stdout.split(" ", 2)
    assert (before, changed) == (after, "[]\n")
    assert "headwater" not in Path(before).name
    assert _machine_code(PACKAGE) == set()
    ours = _machine_code(tmp_path / ".cache" / "headwater")
    assert {path for path in _machine_code(tmp_path) - ours if not path.is_relative_to(before)} == set()


def test_processes_that_begin_together_compile_a_kernel_once(tmp_path: Path) -> None:
    environment = _environment(tmp_path, HEADWATER_CACHE_DIR=str(tmp_path / "own"))
    words = [sys.executable, "-c", PROCESS, "alone"]
    started = [subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate()[0] for process in started]
    assert sorted(int(line.split()[-1]) for line in outputs) == [0, 1, 1]


def _of_a_machine(directory: Path, script: str, *words: object, **more: str) -> str:
    """Return what a process prints whose cache is a machine's own."""
    directory.mkdir(exist_ok=True)
    command = [sys.executable, "-c", script, *map(str, words)]
    environment = _environment(directory, HEADWATER_CACHE_DIR=str(directory / "own"), **more)
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_compiled_kernels_travel(tmp_path: Path) -> None:
    """To a machine that has none; where there is one already it stays."""
    archive = _of_a_machine(tmp_path / "here", PACK, tmp_path)
    new, again, hits = map(int, _of_a_machine(tmp_path / "there", UNPACK, archive).split())
    assert new >= 2
    assert (again, hits) == (0, 1)


def test_kernels_of_another_kind_are_left_out(tmp_path: Path) -> None:
    """Compiled with other settings, or for another text, they have another directory."""
    archive = _of_a_machine(tmp_path / "here", PACK, tmp_path)
    assert _of_a_machine(tmp_path / "there", UNPACK, archive, NUMBA_BOUNDSCHECK="1") == "0 0 0"


def test_kernels_that_anybody_could_have_written_are_left_out(tmp_path: Path) -> None:
    archive = Path(_of_a_machine(tmp_path / "here", PACK, tmp_path))
    archive.chmod(0o666)
    assert _of_a_machine(tmp_path / "there", UNPACK, archive) == "0 0 0"


def test_imports_of_a_file_are_found() -> None:
    """The imports are those that Python's own parser finds."""
    for path in PACKAGE.rglob("*.py"):
        expected = set[Path]()
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headwater."):
                module = str(node.module).split(".")[1:]
                names = [module, *([*module, alias.name] for alias in node.names)]
                expected |= {PACKAGE.joinpath(*name).with_suffix(".py") for name in names}
        assert set(map(Path, _source(str(path)).imported)) == {
            imported for imported in expected if imported.is_file()
        }, path
