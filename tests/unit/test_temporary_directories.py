"""Directories that are removed by their process, or by the process that comes next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.base.temporary_directories import OwnDirectory

HOLD = """
import sys
from headwater.base.temporary_directories import OwnDirectory
own = OwnDirectory(sys.argv[1], hidden=True)
(own.path / "file").write_text("x")
(own.path / "folder").mkdir()
(own.path / "folder" / "file").write_text("x")
print(own.path, flush=True)
sys.stdin.read()
"""

FORK = """
import os, sys
from headwater.base.temporary_directories import OwnDirectory
own = OwnDirectory(sys.argv[1])
child = os.fork()
if child == 0:
    own.close()
    os._exit(0)
os.waitpid(child, 0)
print("still there" if own.path.exists() else "gone")
own.close()
"""


def holder(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that has such a directory, and return the directory, too."""
    command = [sys.executable, "-c", HOLD, str(parent)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_it_is_private_and_goes(tmp_path: Path) -> None:
    own = OwnDirectory(tmp_path)
    assert own.path.parent == tmp_path
    assert own.path.stat().st_mode & 0o777 == 0o700
    (own.path / "file").write_text("x")
    own.close()
    own.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    process, left = holder(tmp_path)
    with OwnDirectory(tmp_path):
        assert (left / "folder" / "file").exists()
    process.kill()
    process.wait()
    with OwnDirectory(tmp_path) as own:
        assert list(tmp_path.iterdir()) == [own]


def test_one_that_is_in_use_by_this_process_stays(tmp_path: Path) -> None:
    with OwnDirectory(tmp_path) as first, OwnDirectory(tmp_path) as second:
        assert set(tmp_path.iterdir()) == {first, second}


def test_a_forked_process_does_not_remove_it(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", FORK, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout == "still there\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lock", [None, b"", b"another-machine"])
def test_what_may_be_in_use_elsewhere_stays(tmp_path: Path, lock: bytes | None) -> None:
    """A directory of that name without our lock, or one that another machine made where locks may not be seen."""
    other = tmp_path / "headwater-abcdefgh"
    other.mkdir(mode=0o700)
    if lock is not None:
        (other / "headwater.lock").write_bytes(lock)
    with OwnDirectory(tmp_path):
        assert other.exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "kept"
    target.mkdir(mode=0o700)
    (target / "headwater.lock").write_bytes(os.uname().nodename.encode())
    (tmp_path / "headwater-abcdefgh").symlink_to(target)
    with OwnDirectory(tmp_path):
        assert (target / "headwater.lock").exists()


def test_what_others_can_write_to_stays(tmp_path: Path) -> None:
    other = tmp_path / "headwater-abcdefgh"
    other.mkdir()
    (other / "headwater.lock").write_bytes(os.uname().nodename.encode())
    other.chmod(0o777)
    with OwnDirectory(tmp_path):
        assert other.exists()
