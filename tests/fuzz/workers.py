"""Workers: processes that go through inputs, and the process that watches them.

A worker is forked by a process that holds everything in memory already, and goes through its part of the inputs. It
notes in shared memory which input it has begun, and when. The watcher kills a worker that takes too long over an input.
A crash, an end by the limit on memory, or such a kill is the failure of the input that was noted. Another worker goes
on after it.
"""

from __future__ import annotations

import faulthandler
import gc
import mmap
import os
import pickle
import random
import resource
import signal
import struct
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.kinds import Kind
from headwater.errors import HeadwaterError, HeadwaterWarning

SECONDS = 20.0
"""What an input may take, but for a kernel that is compiled meanwhile."""

FIRST_SECONDS = 60.0
"""What a kind's first input may take: files are read, kernels loaded."""

MEMORY_BYTES = 3 << 30
"""Address space that a worker may add to what it begins with."""

_COMPILER = b"/numba/core/"
_NOTE = struct.Struct("<qqdq")


@dataclass(frozen=True)
class Part:
    """Inputs of one kind, by their numbers.

    Attributes:
        kind: what they are of.
        first, last, step: their numbers, as of a range.
    """

    kind: type[Kind]
    first: int
    last: int
    step: int

    @property
    def count(self) -> int:
        """The number of inputs."""
        return len(range(self.first, self.last, self.step))


@dataclass(frozen=True)
class Failure:
    """An input that did something else than give a result or an error of ours.

    Attributes:
        kind: its kind's name; number: its own.
        what: the exception's type, or how the worker ended.
        where: the last line of ours in the traceback, or nothing.
        text: the traceback.
    """

    kind: str
    number: int
    what: str
    where: str
    text: str


@dataclass
class Told:
    """The results that workers have reported so far.

    Attributes:
        outcomes: of each kind: result, or name of the error, and how often.
        failures: inputs that failed.
    """

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def add(self, kind: str, outcomes: Counter[str], failures: Sequence[Failure]) -> None:
        """Add results of a kind."""
        self.outcomes.setdefault(kind, Counter()).update(outcomes)
        self.failures += failures


def generator(seed: int, kind: str, number: int) -> random.Random:
    """Make the generator of all randomness of an input."""
    return random.Random(f"{seed} {kind} {number}")


def run_input(kind: Kind, seed: int, number: int) -> str | Failure:
    """Have one input read, and return its result."""
    try:
        return kind.run(generator(seed, kind.name, number)) or "done"
    except HeadwaterError as error:
        error.one_line()
        return type(error).__name__
    except Exception as error:
        return Failure(kind.name, number, type(error).__name__, _where(error), traceback.format_exc())


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/headwater/" in frame.filename]
    last = (ours or frames)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


def strict_warnings() -> None:
    """Make NumPy's warnings and the like failures; ours are for users, and what is left open is closed by itself."""
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", HeadwaterWarning)
    warnings.simplefilter("ignore", ResourceWarning)


class Worker:
    """One process.

    Args:
        parts: what it goes through, in order.
        seed: of the run.
        make: makes a kind.
        scratch: directory for files.

    Attributes:
        left: parts that are not done; of the first one, what comes after the noted input.
        done: inputs that it has begun.
    """

    def __init__(self, parts: Sequence[Part], seed: int, make: object, scratch: Path) -> None:
        self._parts, self._seed, self._make, self._scratch = list(parts), seed, make, scratch
        self._memory = mmap.mmap(-1, _NOTE.size)
        self._note(-1, -1)
        self._log = scratch / "worker.log"
        self._pipe, sink = os.pipe()
        os.set_blocking(self._pipe, False)
        self._received = b""
        self._allowed: dict[tuple[int, int], float] = {}
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(self._pipe)
                self._go_through(sink)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        os.close(sink)

    # -- in the worker

    def _note(self, part: int, number: int, untold: int = 0) -> None:
        self._memory[:] = _NOTE.pack(part, number, time.monotonic(), untold)

    def _go_through(self, sink: int) -> None:
        with self._log.open("wb") as log:
            faulthandler.enable(log)
            faulthandler.register(signal.SIGUSR1, log)
            strict_warnings()
            gc.freeze()
            for place, part in enumerate(self._parts):
                self._go_through_part(place, part, sink)

    def _go_through_part(self, place: int, part: Part, sink: int) -> None:
        kind = self._make(part.kind, self._scratch)  # type: ignore[operator]
        outcomes, failures, reported_at = Counter[str](), list[Failure](), time.monotonic()
        for number in range(part.first, part.last, part.step):
            self._note(place, number, outcomes.total())
            result = run_input(kind, self._seed, number)
            if isinstance(result, Failure):
                failures.append(result)
                outcomes["FAILED"] += 1
            else:
                outcomes[result] += 1
            if number == part.first:
                _limit_memory()
            if failures or time.monotonic() - reported_at > 1:
                _send(sink, kind.name, outcomes, failures)
                outcomes, failures, reported_at = Counter(), [], time.monotonic()
        _send(sink, kind.name, outcomes, failures)

    # -- by the watcher

    def take(self, results: Told) -> None:
        """Take what the worker has reported meanwhile."""
        while True:
            try:
                piece = os.read(self._pipe, 1 << 20)
            except BlockingIOError:
                break
            if not piece:
                break
            self._received += piece
        while len(self._received) >= 8:
            size = int.from_bytes(self._received[:8], "little")
            if len(self._received) < 8 + size:
                break
            results.add(*pickle.loads(self._received[8 : 8 + size]))
            self._received = self._received[8 + size :]

    @property
    def noted(self) -> tuple[int, int, float]:
        """Place of the part, number of the input that it is at, and for how many seconds."""
        part, number, since, _ = _NOTE.unpack(self._memory[:])
        return part, number, time.monotonic() - since

    def untold(self) -> tuple[str, Counter[str], list[Failure]]:
        """Return what went well after its last report."""
        part, _, _, count = _NOTE.unpack(self._memory[:])
        return self._parts[part].kind.name, Counter({"done before the worker ended": count} if count else {}), []

    def end_if_late(self) -> bool:
        """Kill it if it takes too long over an input, unless it compiles."""
        part, number, seconds = self.noted
        is_first = part < 0 or number == self._parts[part].first
        if seconds - self._allowed.get((part, number), 0.0) < (FIRST_SECONDS if is_first else SECONDS):
            return False
        if _COMPILER in self._whereabouts():
            self._allowed[part, number] = seconds
            return False
        os.kill(self.pid, signal.SIGKILL)
        return True

    def _whereabouts(self) -> bytes:
        """Return its threads' stacks."""
        before = self._log.stat().st_size if self._log.exists() else 0
        os.kill(self.pid, signal.SIGUSR1)
        time.sleep(0.5)
        return self._log.read_bytes()[before:] if self._log.exists() else b""

    def failure(self, how: str) -> Failure:
        """Return the failure at the input at which it ended."""
        part, number, _ = self.noted
        name = self._parts[part].kind.name if part >= 0 else "none"
        text = self._log.read_text("utf-8", "replace") if self._log.exists() else ""
        return Failure(name, number, how, "", text[-6000:])

    def left(self) -> list[Part]:
        """List the parts that come after the noted input."""
        place, number, _ = self.noted
        if place < 0:
            return []
        part = self._parts[place]
        rest = Part(part.kind, number + part.step, part.last, part.step)
        return [next_part for next_part in (rest, *self._parts[place + 1 :]) if next_part.count]

    def close(self) -> None:
        """Let go of what was shared."""
        os.close(self._pipe)


def _limit_memory() -> None:
    """Limit memory from the first input on, when kernels and libraries are there."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def _send(sink: int, kind: str, outcomes: Counter[str], failures: Sequence[Failure]) -> None:
    data = pickle.dumps((kind, outcomes, failures))
    data = len(data).to_bytes(8, "little") + data
    while data:
        data = data[os.write(sink, data) :]


def watched(parts: Sequence[Sequence[Part]], seed: int, make: object, scratch: Path) -> Iterator[Told]:
    """Have workers go through inputs.

    Args:
        parts: of each worker.
        seed: of the run.
        make: called with (type of a kind, directory) in the worker, makes the kind.
        scratch: directory for files.

    Yields:
        the results so far, a few times a second and once at the end.
    """
    results, workers = Told(), dict[int, Worker]()

    def start(some: Sequence[Part]) -> None:
        if some:
            place = scratch / f"worker{len(list(scratch.iterdir()))}"
            place.mkdir()
            worker = Worker(some, seed, make, place)
            workers[worker.pid] = worker

    for some in parts:
        start(some)
    try:
        while workers:
            time.sleep(0.1)
            for worker in list(workers.values()):
                worker.take(results)
                late = worker.end_if_late()
                pid, status = os.waitpid(worker.pid, 0 if late else os.WNOHANG)
                if pid:
                    worker.take(results)
                    del workers[pid]
                    if status:
                        results.add(*worker.untold())
                        results.failures.append(worker.failure("hang" if late else _how(status)))
                        start(worker.left())
                    worker.close()
            yield results
    finally:
        for worker in workers.values():
            os.kill(worker.pid, signal.SIGKILL)
            os.waitpid(worker.pid, 0)


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended with {os.WEXITSTATUS(status)}"
