"""Run the command and say what came of it: here with the shared Spark session, or as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headwater.cli.main import main
from headwater.cli.shared_flags import EngineFlags
from headwater.errors import HeadwaterWarning
from headwater.jobs.engine import Engine
from headwater.jobs.local_engine import LocalEngine
from headwater.pipeline.engines import SPARK, engine_of

COMMAND = Path(sys.executable).with_name("headwater")
TIMEOUT_SECONDS = 300
"""A command that compiles kernels anew, as in a fresh clone, takes minutes beside two others."""

IDLE_WORKER = re.compile(
    r"Traceback \(most recent call last\):\n"
    r'(?:  File "[^"\n]*/pyspark/daemon\.py", line \d+, in \w+\n(?:    [^\n]*\n)*)+'
    r"BrokenPipeError: [^\n]*\n"
)
"""What Spark's own daemon says of a worker that planned for another test, and was let go after an idle minute."""


@dataclass(frozen=True)
class Outcome:
    """The end of a run of the command.

    Attributes:
        status: exit status.
        stdout, stderr: what it wrote.
        begun: it asked for an engine to run tasks on (None: unknown).
        left: files in its output and scratch directories.
    """

    status: int
    stdout: bytes
    stderr: str
    begun: bool | None
    left: tuple[str, ...]

    def check_failed(self, *expected: str, status: int = 1, begun: bool | None = False) -> None:
        """Check that there is one line on standard error that has all these pieces, and nothing else of any kind."""
        assert (status, b"", ()) == (self.status, self.stdout, self.left), self.stderr
        lines = self.stderr.splitlines()
        assert len(lines) == 1, self.stderr
        assert lines[0].startswith("headwater: ")
        assert not re.search(r"Traceback|Error\b|\bat org\.|\bWARN\b", lines[0].split(" (in ")[0]), lines[0]
        assert [piece for piece in expected if piece not in lines[0]] == [], lines[0]
        if None not in (begun, self.begun):
            assert begun == self.begun

    def check_passed(self) -> bytes:
        """Check that the run went well and said nothing else; return its standard output."""
        assert (self.status, self.stderr, self.left) == (0, "", ())
        return self.stdout

    def check_warned(self, *expected: str) -> bytes:
        """Check that the run went well, with one warning that has all these pieces; return its standard output."""
        lines = self.stderr.splitlines()
        assert (self.status, len(lines), self.left) == (0, 1, ()), self.stderr
        assert lines[0].startswith("headwater: warning: ")
        assert [piece for piece in expected if piece not in lines[0]] == [], lines[0]
        return self.stdout


class CommandHere:
    """Runs ``headwater decode`` in this process, through its entry point.

    Args:
        directory: an empty directory for output and scratch files.
        monkeypatch: for the arguments.
        capture: of the file descriptors 1 and 2.
        spark: gives the shared session.
    """

    def __init__(
        self,
        directory: Path,
        monkeypatch: pytest.MonkeyPatch,
        capture: pytest.CaptureFixture[bytes],
        spark: Callable[[], Any],
    ) -> None:
        self.out, self.scratch = directory / "out", directory / "scratch"
        self.out.mkdir()
        self.scratch.mkdir()
        self._monkeypatch, self._capture, self._spark = monkeypatch, capture, spark
        self._begun = False

    def __call__(self, *arguments: object) -> Outcome:
        words = ["headwater", "decode", "--quiet", *map(str, arguments)]
        if "--scratch" not in words:
            words += ["--scratch", str(self.scratch)]
        self._begun = False
        self._monkeypatch.setattr(sys, "argv", words)
        self._monkeypatch.setattr(EngineFlags, "choose", lambda flags, *_: self._engine(flags.engine))
        self._capture.readouterr()
        status = 0
        try:
            # As outside of tests, where a warning is no error.
            with warnings.catch_warnings():
                warnings.simplefilter("always", HeadwaterWarning)
                main()
        except SystemExit as end:
            status = int(end.code or 0)
        written = self._capture.readouterr()
        errors = IDLE_WORKER.sub("", written.err.decode())
        return Outcome(status, written.out, errors, self._begun, self._left())

    def _engine(self, name: str) -> Engine:
        """Give the engine: Spark where it is asked for by name, else this process."""
        self._begun = True
        return engine_of(self._spark()) if name == SPARK else LocalEngine()

    def _left(self) -> tuple[str, ...]:
        return tuple(sorted(path.name for folder in (self.out, self.scratch) for path in folder.iterdir()))


def run_command(*arguments: object, directory: Path | None = None, **options: Any) -> Outcome:
    """Run the installed command, without progress; `directory` must be empty and is where files could be left."""
    environment = {**os.environ, "HEADWATER_DECODE_QUIET": "1", **options.pop("environment", {})}
    words = [str(COMMAND), *map(str, arguments)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    run = subprocess.run(
        words, stdin=subprocess.DEVNULL, env=environment, timeout=TIMEOUT_SECONDS, check=False, **options
    )
    left = tuple(sorted(path.name for path in directory.iterdir())) if directory else ()
    return Outcome(run.returncode, run.stdout or b"", run.stderr.decode(), None, left)
