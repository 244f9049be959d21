"""Processes that are killed while they decode a server's run: calls of the command, and the driver of a query.

Nothing sleeps. When to kill is known by what a process leaves, such as a kept state or a batch that has begun; or it is
a time within that which a process took before.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bad_input.command import COMMAND
from bad_input.running_command import Running, running, wait_for_end
from headwater.demo.stream_comparison import joined
from headwater.pg.lsn import Lsn
from headwater.slots.slot_directory import read_slot
from headwater.wal.segments.segment_files import segment_name
from oracle.oracle import OracleRun
from oracle.streams import Stream
from slots.conftest import Command, done

SEGMENT_BYTES = 1 << 20
"""Of a file of WAL, of the runs whose decoding is killed."""
DRIVER = Path(__file__).parents[1] / "spark" / "stream_driver.py"
Moment = Callable[[Running], bool]
"""Whether it is time to kill."""


@dataclass
class Killer:
    """Starts processes and kills them.

    Attributes:
        directory: for their temporary files.
        began: when the last one was started; seconds: how long the one before it ran.
        left: processes that those have started, and that may not have ended yet.
    """

    directory: Path
    began: float = 0.0
    seconds: float = 0.0
    left: set[int] = field(default_factory=set)

    def kills(self, moment: Moment, *arguments: str | Path) -> bool:
        """Run the command until a moment or its end; whether it was killed."""
        with self.process(*arguments) as process:
            is_reached = process.reaches(lambda: moment(process))
            if is_reached:
                self.kill(process)
            else:
                assert process.process.returncode == 0, process.standard_error()
        return is_reached

    def kill(self, process: Running) -> None:
        """Kill a process and its group."""
        self.left |= process.kill()

    @contextmanager
    def query(self, options: Mapping[str, str]) -> Iterator[Running]:
        """Start a query that goes on until it is killed; it has the directory for its files, too."""
        arguments = DRIVER, json.dumps(dict(options)), self.directory, "never"
        with self.process(*arguments, program=sys.executable) as process:
            yield process

    @contextmanager
    def process(self, *arguments: str | Path, program: str | Path = COMMAND) -> Iterator[Running]:
        """Start one."""
        self.began = time.monotonic()
        with running(*arguments, directory=self.directory, program=program) as process:
            yield process
        self.seconds = time.monotonic() - self.began

    def after(self, share: float) -> Moment:
        """Make the moment after a share of the time for which the process before ran."""
        return lambda _process: time.monotonic() - self.began > share * self.seconds

    def wait(self) -> None:
        """Wait until nothing is left."""
        wait_for_end(self.left)


def has(count: int, pattern: str) -> Moment:
    """Make the moment when a directory has so many of a kind of files."""
    return lambda process: sum(1 for _ in process.directory.glob(pattern)) >= count


@dataclass(frozen=True)
class GrowingLog:
    """A directory of WAL that grows byte by byte, as a server's does.

    Attributes:
        source: all of it, on one timeline.
        target: what grows.
    """

    source: Path
    target: Path

    def grow(self, lsn: int) -> None:
        """Let it have what lies before an LSN, behind which there are zeros."""
        last = segment_name(1, lsn // SEGMENT_BYTES, SEGMENT_BYTES)
        for path in sorted(self.source.iterdir()):
            if len(path.name) == len(last) and path.name <= last:
                self._write(path, lsn % SEGMENT_BYTES if path.name == last else SEGMENT_BYTES)

    def _write(self, path: Path, size: int) -> None:
        made, target = path.read_bytes()[:size], self.target / path.name
        if target.exists():
            with target.open("r+b") as file:
                file.write(made)
            return
        part = target.with_suffix(".part")
        part.write_bytes(made + bytes(SEGMENT_BYTES - size))
        part.rename(target)


@dataclass
class QuerySink:
    """The messages that a query of the driver has delivered, in Spark's own exactly-once files.

    Attributes:
        directory: the driver's.
    """

    directory: Path
    _counted: tuple[list[str], int] = field(default_factory=lambda: ([], 0))

    def is_amid(self, batches: int, rows: int) -> bool:
        """Tell whether after so many batches another one has begun and is not over, or there are so many messages."""
        return self.batches > max(batches, len(self._logs("checkpoint/commits"))) or self.has(rows)

    def has(self, rows: int) -> bool:
        """Tell whether at least so many messages have been delivered."""
        return self.rows >= rows

    @property
    def batches(self) -> int:
        """The number of batches that have begun."""
        return len(self._logs("checkpoint/offsets"))

    @property
    def rows(self) -> int:
        """The number of messages that have been delivered."""
        logs = [path.name for path in self._logs("out/_spark_metadata")]
        if logs != self._counted[0]:
            self._counted = logs, sum(pq.read_metadata(path).num_rows for path in self.files())
        return self._counted[1]

    def messages(self) -> pa.Table:
        """Read all that was delivered, batch by batch."""
        return joined(pq.read_table(path) for path in self.files())

    def files(self) -> list[Path]:
        """List the files of all batches, in order."""
        logs = self._logs("out/_spark_metadata")
        whole = max((number for number, log in enumerate(logs) if log.suffix), default=0)
        entries = [json.loads(line) for log in logs[whole:] for line in log.read_text().splitlines()[1:]]
        return [Path(entry["path"].removeprefix("file://")) for entry in entries]

    def _logs(self, name: str) -> list[Path]:
        """List the files of one of Spark's logs, a number each; one with a suffix holds those before it, too."""
        directory = self.directory / name
        paths = list(directory.iterdir()) if directory.is_dir() else []
        return sorted((path for path in paths if path.name[0].isdigit()), key=lambda path: int(path.stem))


def make_slot(
    command: Command, run: OracleRun, stream: Stream, start: int, directory: Path, wal: Path | None = None
) -> Path:
    """Make a slot for what a stream asks for.

    Args:
        command: runs the command.
        run: has the files.
        stream: says plugin and options.
        start: where the slot is to stand, which the server's stood at.
        directory: where it is made.
        wal: in the place of the run's.
    """
    path = directory / "slot"
    files = ("--wal", wal or run.wal, "--catalog", run.backup, "--database", run.database)
    options = (word for name, value in stream.options for word in ("-o", f"{name}={value}"))
    done(command, "slot", "create", path, *files, "--plugin", stream.plugin, *options)
    done(command, "slot", "advance", path, str(Lsn(start)))
    assert read_slot(path).confirmed_lsn == start
    return path


def end_of(stream: Stream) -> int:
    """Return where a stream ends, of a run whose streams all end somewhere."""
    assert stream.end is not None
    return stream.end
