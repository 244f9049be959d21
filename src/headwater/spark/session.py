"""The Spark session Headwater runs in.

Workers run the driver's interpreter and are forked from a daemon that has loaded the kernels already
(:mod:`headwater.spark.worker_daemon`), so that a task starts in milliseconds. A session made here is quiet: Spark
logs errors only (:mod:`headwater.spark.java_process`). What the user has set stays as it is
(:mod:`headwater.spark.settings`), and a session that is active already is used as it is.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import headwater
from headwater.base.temporary_directories import OwnDirectory
from headwater.errors import HeadwaterError, SparkError
from headwater.spark import kernel_loading
from headwater.spark.java_process import java_gateway
from headwater.spark.kernel_travel import send_kernels
from headwater.spark.needs import prepare_spark
from headwater.spark.settings import DAEMON, intended_master, is_local, missing_settings, without_submits_own
from headwater.spark.task_run import reason, run_tasks

WARM_UP_JOBS = 4

_SOCKETS, _SOCKET_DIRECTORY = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"
_SOCKET_PATH_BYTES, _SOCKET_NAME_BYTES = 107, len("/.01234567-89ab-cdef-0123-456789abcdef.sock")


def spark_session(master: str | None = None, daemon: str | None = None) -> SparkSession:
    """Return the active session, or a new one set up for Headwater.

    Args:
        master: as for spark-submit; None for what the user's configuration says, and ``local[*]`` without any.
        daemon: the module that a new session's workers are forked from; None for
            :mod:`headwater.spark.worker_daemon`.

    Raises:
        SparkError: there is no Java, or another need is not met, or Spark refuses the master or its configuration.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if SparkContext._active_spark_context is None:
        _start(master, daemon)
    return SparkSession.builder.getOrCreate()


def _start(flag: str | None, daemon: str | None) -> None:
    """Make the Spark context of this process."""
    master = intended_master(flag)
    prepare_spark(master)
    ahead = threading.Thread(target=_import_ahead, daemon=True, name="headwater-import")
    ahead.start()
    with java_gateway(flag, is_small=is_local(master)) as gateway, _own_interrupt_handler():
        ahead.join()
        try:
            SparkContext._ensure_initialized(gateway=gateway)
            SparkContext(conf=_configuration(flag, daemon), gateway=gateway)
        except (Py4JError, PySparkException) as error:
            raise SparkError(f"could not start Spark: {reason(error)}") from error


def _import_ahead() -> None:
    """Import while Java starts what PySpark imports when it calls Java first: pandas and all take as long as a job.

    The first window's planning is imported also. What goes wrong here does so again where it is needed.
    """
    with suppress(ImportError):
        importlib.import_module("pyspark.testing.utils")
    with suppress(ImportError, OSError, HeadwaterError):
        for module in ("numpy.ma", "headwater.pipeline.decode"):
            importlib.import_module(module)
        kernel_loading.prepare_values()
        kernel_loading.load_kernels("headwater.reorder.")


def _configuration(flag: str | None, daemon: str | None) -> SparkConf:
    """Return the settings that the Java process found, and ours where it found nothing."""
    conf = SparkConf(_jvm=SparkContext._jvm)
    given = without_submits_own(dict(conf.getAll()))
    master = flag or given.get("spark.master") or intended_master(None)
    conf.setMaster(master)
    ours = missing_settings(given, master)
    if daemon is not None and DAEMON in ours:
        ours[DAEMON] = daemon
    for name, value in ours.items():
        conf.set(name, value)
    if is_local(master) and _SOCKET_DIRECTORY not in given:
        _keep_sockets_together(conf)
    return conf


def _keep_sockets_together(conf: SparkConf) -> None:
    """Let sockets go with this process: Spark leaves those of a session that was not stopped where temporary files go.

    A socket's path is short (sockaddr_un): where temporary files lie too deep for it, there are none.
    """
    directory = _socket_directory()
    if len(os.fsencode(directory)) + _SOCKET_NAME_BYTES > _SOCKET_PATH_BYTES:
        conf.set(_SOCKETS, "false")
    else:
        conf.set(_SOCKET_DIRECTORY, directory)


@cache
def _socket_directory() -> str:
    directory = OwnDirectory()
    atexit.register(directory.close)
    return str(directory.path)


@contextmanager
def _own_interrupt_handler() -> Iterator[None]:
    """Keep Python's handler of SIGINT, in whose place Spark's context puts its own; one that is not Python's stays."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if before is not signal.default_int_handler and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def load_kernels(_: int) -> int:
    """Load what the daemon has not: it has, if it is ours; a cluster's own workers may have another."""
    from headwater.spark import worker_daemon

    return worker_daemon.preload()


def warm_up(spark: SparkSession, load: Callable[[int], int] = load_kernels) -> None:
    """Start the Python workers and let Spark run a few jobs, so that the first real one does not pay for it.

    Args:
        spark: their session.
        load: what each of these tasks does, in a worker; pickles.

    Raises:
        SparkError: executors have another Headwater.
    """
    context = spark.sparkContext
    send_kernels(context)
    tasks = range(context.defaultParallelism)
    if not is_local(str(context.master)):
        check_same_program(run_tasks(context, "start", _program_digest_there, tasks, None))
    for _ in range(WARM_UP_JOBS):
        run_tasks(context, "start", load, tasks, None)


def _program_digest_there(_: int) -> str:
    return program_digest()


def check_same_program(digests: Iterable[str]) -> None:
    """Check that driver and executors have one Headwater.

    Args:
        digests: of :func:`program_digest` in tasks.

    Raises:
        SparkError: one has another.
    """
    expected = program_digest()
    others = set(digests) - {expected}
    if others:
        raise SparkError(
            f"executors have another Headwater than the driver: found {min(others)}, expected {expected}",
            hint="install the same version everywhere, or name a Python that has it with PYSPARK_PYTHON",
        )


@cache
def program_digest() -> str:
    """Return the version of this process's Headwater, and a digest of its text."""
    package = Path(headwater.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)} ".encode() + path.read_bytes())
    return f"{headwater.__version__} ({digest.hexdigest()[:12]})"
