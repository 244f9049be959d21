"""The command as a process that is watched, told to end, or killed while it works."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bad_input.command import COMMAND, TIMEOUT_SECONDS

POLL_SECONDS = 0.005


@dataclass
class Running:
    """A command that runs in a process group of its own.

    Attributes:
        process: its process, with pipes for standard output and error.
        directory: where it may leave something: temporary files, scratch, output.
    """

    process: subprocess.Popen[bytes]
    directory: Path

    def until(self, reached: Callable[[], Any]) -> None:
        """Wait until something is so while the command runs."""
        assert self.reaches(reached), self.standard_error()

    def reaches(self, reached: Callable[[], Any]) -> bool:
        """Wait until something is so, or the command has ended; whether it still ran."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            asked = time.monotonic()
            if reached():
                return True
            if self.process.poll() is not None:
                return False
            assert asked < deadline
            # To ask for processes takes long: the command needs the core more.
            time.sleep(max(POLL_SECONDS, 2 * (time.monotonic() - asked)))

    def kill(self) -> set[int]:
        """Kill its process group; what else it has started may take a while to notice, and is returned."""
        family = self.family()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return family

    def exists(self, pattern: str) -> Callable[[], bool]:
        """Make a condition that tells whether a file is there."""
        return lambda: any(self.directory.glob(pattern))

    def standard_error(self) -> str:
        """Read all of standard error; ends when the command and all that it started have closed theirs."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def left(self) -> list[str]:
        """List what is in the directory."""
        return sorted(str(path.relative_to(self.directory)) for path in self.directory.rglob("*"))

    def family(self) -> set[int]:
        """Find the processes that the command has started, and those that they have."""
        parents = {int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
        family: set[int] = set()
        newer = {self.process.pid}
        while newer:
            newer = {child for child, parent in parents.items() if parent in newer}
            family |= newer
        return family

    def has_java(self) -> bool:
        """Tell whether Spark's Java process is there."""
        return any(_name(number) == "java" for number in self.family())


@contextmanager
def running(
    *arguments: object,
    directory: Path,
    ignored: tuple[signal.Signals, ...] = (),
    program: str | Path = COMMAND,
) -> Iterator[Running]:
    """Start the command, or another program.

    Args:
        arguments: its.
        directory: where its temporary files go.
        ignored: signals that it ignores when it begins.
        program: what is started.
    """

    def set_signals() -> None:
        """Handle signals by default, whatever the tests were started with; a shell's background job ignores SIGINT."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    process = subprocess.Popen(
        [str(program), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(directory)},
        start_new_session=True,
        preexec_fn=set_signals,
    )
    with process:
        try:
            yield Running(process, directory)
        finally:
            process.kill()


def wait_for_end(processes: set[int]) -> None:
    """Wait until processes are gone."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while any(_parent(Path(f"/proc/{number}")) for number in processes):
        assert time.monotonic() < deadline, [(number, _name(number)) for number in processes]
        time.sleep(POLL_SECONDS)


def _parent(process: Path) -> int:
    """Read the number of the process that started a process; 0 if it has ended."""
    try:
        state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return 0
    return 0 if state == "Z" else int(parent)


def _name(number: int) -> str:
    try:
        return Path(f"/proc/{number}/comm").read_text().strip()
    except OSError:
        return ""
