"""Values between driver and tasks, on each way: in order, once, and nothing left."""

from __future__ import annotations

import importlib
import os
import signal
import stat
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from headwater.errors import HeadwaterError, HeadwaterWarning, SparkError, WalError, warn
from headwater.jobs.exchange import Exchange, Handed
from headwater.jobs.local_engine import LocalExchange
from headwater.jobs.value_files import store_value
from headwater.rows.items import Messages
from headwater.spark import spark_exchange
from headwater.spark.file_exchange import FileExchange
from headwater.spark.spark_engine import SparkEngine
from headwater.spark.spark_exchange import SparkExchange
from headwater.spark.task_run import run_tasks

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])
TASKS = 7


@pytest.fixture(params=["private", "shared", "spark", "here"])
def exchange(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Iterator[Exchange]:
    """Open an exchange of one of the ways; nothing of it is left in its directory."""
    made: dict[str, Any] = {
        "private": lambda: FileExchange(spark.sparkContext, str(tmp_path), is_shared=False),
        "shared": lambda: FileExchange(spark.sparkContext, str(tmp_path), is_shared=True),
        "spark": lambda: SparkExchange(spark.sparkContext, str(tmp_path)),
        "here": lambda: LocalExchange(str(tmp_path)),
    }
    with made[request.param]() as opened:
        yield opened
    assert list(tmp_path.iterdir()) == []
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()


def writing(function: Callable[[Any, BinaryIO], int], files: int = 1) -> Callable[[Any], Iterator[Any]]:
    """Make a task that writes files, all alike."""

    def work(task: Any) -> Iterator[Any]:
        for _ in range(files):
            yield partial(function, task)

    return work


def square(handed: Handed[Messages], sink: BinaryIO) -> int:
    value = handed.load()
    value.lsn[:] **= 2
    store_value(sink, value)
    return len(value.lsn)


def numbers(count: int) -> Messages:
    """Make a value that has arrays."""
    return Messages(np.arange(count), np.arange(count) + 7, np.zeros(count + 1, np.int64), np.zeros(0, np.uint8))


def test_values_go_and_come_in_order(exchange: Exchange) -> None:
    handed = [exchange.hand(numbers(1000 * n)) for n in range(TASKS)]
    progress: list[tuple[str, int, int]] = []
    with exchange.run("square", writing(square), handed, lambda *words: progress.append(words)) as arriving:
        for number, (file,) in enumerate(arriving):
            messages = file.take(Messages)
            assert len(messages.lsn) == file.summary == number * 1000
            assert (messages.lsn == np.arange(number * 1000) ** 2).all()
            assert not os.path.exists(file.path)
    assert number == TASKS - 1
    assert progress[0] == ("square", 0, TASKS)
    assert progress[-1] == ("square", TASKS, TASKS)


def write(task: int, sink: BinaryIO) -> int:
    sink.write(bytes([task]) * task * 1_000_003)
    return task


def test_files_stay_until_the_end_unless_they_are_removed(exchange: Exchange) -> None:
    with exchange.run("write", writing(write), range(3)) as arriving:
        made = [file for (file,) in arriving]
    made[1].remove()
    assert [os.path.exists(file.path) for file in made] == [True, False, True]
    assert Path(made[2].path).read_bytes() == bytes([2]) * 2_000_006


def test_two_runs_side_by_side(exchange: Exchange) -> None:
    work = writing(write)
    with exchange.run("first", work, range(3)) as first, exchange.run("second", work, range(3)) as second:
        assert [file.summary for (file,) in second] == [file.summary for (file,) in first] == [0, 1, 2]


def wait_for_ever(task: int, _sink: BinaryIO) -> int:
    threading.Event().wait()
    return task


def test_what_runs_can_be_ended_from_elsewhere(exchange: Exchange) -> None:
    """Whoever waits gets an error, and nothing more begins."""
    if isinstance(exchange, LocalExchange):
        pytest.skip("who waits is who works")
    with exchange.run("endless", writing(wait_for_ever), range(3)) as arriving:
        threading.Thread(target=exchange.stop).start()
        with pytest.raises(SparkError, match="step endless was ended"):
            next(arriving)
    with pytest.raises(SparkError, match="no more jobs"), exchange.run("later", writing(write), range(3)):
        pytest.fail("it began")


def test_a_run_without_tasks(exchange: Exchange) -> None:
    with exchange.run("nothing", writing(write), []) as arriving:
        assert list(arriving) == []


def fail(task: int, sink: BinaryIO) -> int:
    sink.write(b"unfinished")
    warn("some are odd" if task % 2 else "some are even")
    if task > 1:
        raise WalError(f"task {task} failed", lsn=task)
    return task


def test_the_first_error_in_order_is_raised_where_its_turn_is(exchange: Exchange) -> None:
    taken = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", HeadwaterWarning)
        with exchange.run("fail", writing(fail), range(TASKS)) as arriving:
            taken.append(next(arriving)[0].summary)
            taken.append(next(arriving)[0].summary)
            with pytest.raises(WalError, match="task 2 failed"):
                next(arriving)
    assert taken == [0, 1]
    messages = [str(warning.message) for warning in caught]
    assert (messages[:2] if isinstance(exchange, LocalExchange) else messages) == ["some are even", "some are odd"]


def raising(function: Callable[[], Any]) -> Callable[[Any, BinaryIO], int]:
    """Make a task that writes a file first, and does what goes wrong the second time."""

    def write(task: int, _sink: BinaryIO) -> int:
        if task == 1:
            function()
        return task

    return write


def miss_a_key() -> None:
    raise KeyError("no error of ours")


def overflow() -> None:
    pa.array([1 << 40]).cast(pa.int8())


def run_out_of_memory() -> None:
    np.zeros(1 << 60, np.uint8)


def import_nothing() -> None:
    importlib.import_module("headwater_has_no_such_module")


UNFORESEEN = {
    miss_a_key: ("KeyError: 'no error of ours'", "HEADWATER_TRACEBACK=1 in the environment shows the traceback"),
    overflow: ("pyarrow.lib.ArrowInvalid: Integer value 1099511627776 not in range", "HEADWATER_TRACEBACK=1"),
    run_out_of_memory: ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate", "give it more memory"),
    import_nothing: ("ModuleNotFoundError: No module named 'headwater_has_no_such_module'", sys.executable),
}


@pytest.mark.parametrize("function", UNFORESEEN, ids=lambda function: function.__name__)
def test_what_nobody_foresaw_is_a_sentence(exchange: Exchange, function: Callable[[], Any]) -> None:
    """With the exception's type and message, the step, and the line of the program; its traceback goes along."""
    what, advice = UNFORESEEN[function]
    with (
        pytest.raises(SparkError) as caught,
        exchange.run("stop", writing(raising(function)), range(2)) as arriving,
    ):
        list(arriving)
    assert caught.value.one_line().startswith(f"step stop failed: {what}")
    assert advice in caught.value.one_line()
    assert (caught.value.file or "").startswith("headwater/")
    trace = caught.value.__cause__
    assert f"in {function.__name__}" in "".join(traceback.format_exception(trace))


def exit_with_a_status() -> None:
    sys.exit(3)


def interrupt() -> None:
    raise KeyboardInterrupt


KILLED = "a Python process of step stop crashed, or was killed; where memory ran out, as the system's log tells then"


def kill(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (exit_with_a_status, "step stop failed: SystemExit: 3"),
        (interrupt, "step stop failed: KeyboardInterrupt"),
        (partial(kill, signal.SIGINT), "step stop failed: KeyboardInterrupt"),
        (partial(kill, signal.SIGKILL), KILLED),
        (partial(kill, signal.SIGSEGV), KILLED),
        (partial(kill, signal.SIGTERM), KILLED),
        (partial(os._exit, 7), KILLED),
    ],
    ids=["exit", "interrupt", "SIGINT", "SIGKILL", "SIGSEGV", "SIGTERM", "_exit"],
)
def test_a_process_that_ends_is_a_sentence(exchange: Exchange, function: Callable[[], Any], words: str) -> None:
    if isinstance(exchange, LocalExchange):
        pytest.skip("that process is this one")
    with (
        pytest.raises(SparkError) as caught,
        exchange.run("stop", writing(raising(function)), range(2)) as arriving,
    ):
        list(arriving)
    assert caught.value.one_line().startswith(words)


class NotThere:
    """Unpickles where there is a module that is nowhere."""

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, ("headwater_has_no_such_module",)


def test_a_task_that_cannot_be_read_is_a_sentence(spark: Any) -> None:
    with pytest.raises(SparkError) as caught:
        run_tasks(spark.sparkContext, "stop", str, [NotThere()], None)
    words = "Spark could not run the tasks of step stop: ModuleNotFoundError: No module named"
    assert caught.value.one_line().startswith(words)


def test_nothing_begins_here_once_it_was_ended(tmp_path: Path) -> None:
    with LocalExchange(str(tmp_path)) as near:
        with near.run("write", writing(write), range(3)) as arriving:
            assert next(arriving)[0].summary == 0
            near.stop()
            with pytest.raises(SparkError, match="step write was ended"):
                next(arriving)
        with pytest.raises(SparkError, match="no more jobs"), near.run("later", writing(write), range(3)):
            pytest.fail("it began")


def test_a_run_that_is_left_early_ends(exchange: Exchange) -> None:
    with exchange.run("write", writing(write), range(TASKS)) as arriving:
        assert next(arriving)[0].summary == 0


def test_a_task_that_writes_several_files(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_exchange, "CHUNKS_PER_JOB", 1)
    with exchange.run("write", writing(write, 3), [5, 0, 1]) as arriving:
        for task, files in zip([5, 0, 1], arriving, strict=True):
            assert [file.summary for file in files] == [task] * 3
            assert {Path(file.path).read_bytes() for file in files} == {bytes([task]) * task * 1_000_003}
            assert len({file.path for file in files}) == 3


def test_what_is_large_comes_in_pieces(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few chunks a job; the last is shorter."""
    monkeypatch.setattr(spark_exchange, "CHUNKS_PER_JOB", 1)
    with (
        SparkExchange(spark.sparkContext, str(tmp_path)) as exchange,
        exchange.run("w", writing(write), [0, 4, 9]) as arriving,
    ):
        for (file,) in arriving:
            assert Path(file.path).read_bytes() == bytes([file.summary]) * file.summary * 1_000_003


def test_who_may_enter(spark: Any, tmp_path: Path) -> None:
    """Others may pass to a name that they must know, and read what is there; or nobody may."""
    modes = {}
    for is_shared in (False, True):
        with FileExchange(spark.sparkContext, str(tmp_path), is_shared) as exchange:
            exchange.hand(numbers(2))
            (top,) = tmp_path.iterdir()
            (inner,) = (path for path in top.iterdir() if path.is_dir())
            (value,) = inner.iterdir()
            modes[is_shared] = [stat.S_IMODE(path.stat().st_mode) for path in (top, inner, value)]
            assert (len(inner.name) == 32) is is_shared
    assert modes == {False: [0o700, 0o700, 0o600], True: [0o711, 0o1777, 0o644]}


def test_a_local_master_needs_no_shared_directory(spark: Any, tmp_path: Path) -> None:
    with SparkEngine(spark).open_exchange(None, str(tmp_path)) as exchange:
        assert isinstance(exchange, FileExchange)
        assert stat.S_IMODE(next(tmp_path.iterdir()).stat().st_mode) == 0o700
    with pytest.raises(HeadwaterError, match=r"could not make a directory: .* \(in .*nowhere"):
        SparkEngine(spark).open_exchange(str(tmp_path / "nowhere"))
