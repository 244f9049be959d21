"""The start of Spark's Java process, such that standard error belongs to the command.

Java and Spark greet with warnings of their own. Here Spark logs errors only (``log4j2.properties`` beside this file,
unless the user has another). What the process writes is held back until the session stands: if it does not, one error
says why; if it does, everything but the greeting is passed on, as it comes.

A process that is left while it starts would stay for ever, as it has nobody yet whose end it could notice. So a signal
that comes meanwhile takes effect when it stands; the second one does at once. Signals for the command's group, as a
terminal sends them, do not reach the process: it ends when the command does, and has nothing to say of its own.

Where tasks run on this machine the process only orchestrates, no row passes through it: it compiles quickly rather than
well, does not collect garbage because classes were loaded, and maps the classes that an earlier one has loaded
(:mod:`headwater.spark.java_classes`). Otherwise it takes as much of two cores as a short decoding does itself. A
cluster's driver has the flags that the user gave it and no others.

Spark starts Python as ``python -m``, which imports from the current directory before anything else, and so does an
empty entry of ``PYTHONPATH``: a ``random.py`` that lies there would run in every worker. The process and all that it
starts get an environment without either; modules that workers need come by ``PYTHONPATH`` or ``addPyFile``.

In a locale of ASCII only, as cron and containers have it, Java does not start where the current directory's name has
other characters. So it gets the same locale with UTF-8.
"""

from __future__ import annotations

import atexit
import locale
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from headwater.errors import SparkError
from headwater.spark.java_classes import ClassArchive
from headwater.spark.settings import configuration_directory, given_settings

_GREETINGS = (b"WARNING: Using incubator modules", b"Setting default log level to", b"To adjust logging level use")
_BEFORE_THE_REASON = re.compile(r'^(Exception in thread "main" (\S+Exception: )?|\S+: line \d+: )')
_OPTIONS = "SPARK_SUBMIT_OPTS"
_LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
_SMALL_PROCESS = "-XX:TieredStopAtLevel=1 -XX:MetaspaceSize=256m"
_LAUNCHER_OPTIONS, _LAUNCHER_PROCESS = "SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1"
_ASCII, _UTF8_LOCALE = "ANSI_X3.4-1968", "C.UTF-8"
_STANDARD_ERROR = 2
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LAST_WORDS_SECONDS = 5.0


@contextmanager
def java_gateway(master: str | None, is_small: bool) -> Iterator[Any]:
    """Open a gateway to a new Java process; inside the ``with`` block a session is made of it.

    Args:
        master: the master for spark-submit; None to leave it to the user's configuration.
        is_small: the process only orchestrates, on the machine where the tasks run.

    Yields:
        the gateway; None if this process has one, which is used then.

    Raises:
        SparkError: the process ended before it could be talked to.
    """
    if SparkContext._gateway is not None:
        yield None
        return
    errors = _JavaErrors()
    conf = SparkConf(loadDefaults=False)
    if master is not None:
        conf.setMaster(master)
    archive = ClassArchive(_flags()) if is_small else None
    with _java_environment(archive), _signals_held():
        try:
            gateway = launch_gateway(conf, {"stderr": errors.descriptor, "start_new_session": True})
        except PySparkException as error:
            raise SparkError(
                f"could not start Spark: {errors.reason()}",
                hint="Spark needs Java 17 (JAVA_HOME says which) and a --master it knows",
            ) from error
        finally:
            errors.close()
    yield gateway
    errors.pass_on()
    if archive is not None:
        atexit.register(archive.keep, gateway.proc)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Call Python's handlers of the first signal that comes inside the ``with`` block only after it."""
    held: list[int] = []
    before: dict[int, Callable[[int, FrameType | None], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: handler for number in _ENDING if callable(handler := signal.getsignal(number))}

    def hold(number: int, frame: FrameType | None) -> None:
        if held:
            before[number](number, frame)
        held.append(number)

    try:
        for number in before:
            signal.signal(number, hold)
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is hold:
                signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


class _JavaErrors:
    """The standard error of the Java process, read by a thread.

    Attributes:
        descriptor: what the process writes to.
    """

    def __init__(self) -> None:
        source, self.descriptor = os.pipe()
        self._held: list[bytes] | None = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, args=(source,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the writing to the process."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def reason(self) -> str:
        """Return the first thing that a process said that has ended."""
        self.close()
        self._thread.join(_LAST_WORDS_SECONDS)
        lines = [line.decode(errors="replace") for line in self._held or ()]
        first = next((line.strip() for line in lines if line.strip()), "Java ended without a word")
        return _BEFORE_THE_REASON.sub("", first)

    def pass_on(self) -> None:
        """Write what came so far, and from now on what comes, to our own standard error."""
        with self._lock:
            held, self._held = self._held or [], None
            for line in held:
                _write(line)

    def _read(self, source: int) -> None:
        with os.fdopen(source, "rb") as lines:
            for line in lines:
                with self._lock:
                    if line.startswith(_GREETINGS):
                        continue
                    if self._held is None:
                        _write(line)
                    else:
                        self._held.append(line)


def _write(line: bytes) -> None:
    try:
        os.write(_STANDARD_ERROR, line)
    except OSError:
        return


@contextmanager
def _java_environment(archive: ClassArchive | None) -> Iterator[None]:
    """Keep what the process is to inherit in this process's environment while the other one starts."""
    changes = {_OPTIONS: _java_options(archive), "PYTHONSAFEPATH": "1"}
    if archive is not None:
        changes[_LAUNCHER_OPTIONS] = f"{_LAUNCHER_PROCESS} {os.environ.get(_LAUNCHER_OPTIONS, '')}"
    if locale.nl_langinfo(locale.CODESET) == _ASCII:
        changes["LC_ALL" if os.environ.get("LC_ALL") else "LC_CTYPE"] = _UTF8_LOCALE
    if "PYTHONPATH" in os.environ:
        changes["PYTHONPATH"] = os.pathsep.join(filter(None, os.environ["PYTHONPATH"].split(os.pathsep)))
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _flags() -> str:
    """Return all flags that a small process is started with, ours and the user's."""
    given = os.environ.get(_OPTIONS, ""), given_settings().get("spark.driver.extraJavaOptions", "")
    return " ".join((_SMALL_PROCESS, *given))


def _java_options(archive: ClassArchive | None) -> str:
    """Return Java's options, ours before the user's; a small process has an archive of its classes."""
    given = os.environ.get(_OPTIONS, "")
    options = [given] if archive is None else [_SMALL_PROCESS, *archive.options, given]
    if "log4j2.configurationFile" not in given and not _has_log_configuration():
        options.append(f'"-Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()}"')
    return " ".join(filter(None, options))


def _has_log_configuration() -> bool:
    """Tell whether the user's Spark configuration says what is logged."""
    return any(configuration_directory().glob("log4j2*.*"))
