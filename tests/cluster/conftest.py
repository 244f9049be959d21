"""A server's window and its own word on it, and a Spark cluster to decode it on."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest

from cluster.hosts import Host, Mount, User, network, processes_in
from headwater.base.kernels import cache_directory
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.spark.kernel_loading import import_rooms, task_kernels

COMMAND = Path(sys.executable).with_name("headwater")
SPARK_HOME = Path(pyspark.__file__).parent
MASTER_PORT = 7077
START_SECONDS, DECODE_SECONDS, END_SECONDS, POLL_SECONDS = 180, 500, 60, 0.005
DRIVER, WORKER = User("driver", 61001), User("worker", 61002)
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
EXECUTOR_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"

SETUP = "CREATE TABLE parts (id int PRIMARY KEY, note text, total numeric(12,2))"
INSERT = """INSERT INTO parts SELECT g, repeat(md5(g::text), 12), g / 7.0 FROM generate_series({first}, {last}) g"""
WORK = [INSERT.format(first=first, last=first + 5999) for first in range(0, 180_000, 6000)]
WORK += ["UPDATE parts SET total = total + 1 WHERE id % 5 = 0", "DELETE FROM parts WHERE id % 11 = 3"]


@dataclass(frozen=True)
class Window:
    """The files that a stopped server has left, readable by every user.

    Attributes:
        wal: ``pg_wal``.
        backup: a base backup from before.
        start: where the slot began.
        expected: what the server's plugin says, as lines with LSN and xid.
    """

    wal: Path
    backup: Path
    start: str
    expected: bytes


@pytest.fixture(scope="package")
def window(tmp_path_factory: pytest.TempPathFactory) -> Window:
    directory = tmp_path_factory.mktemp("window")
    with EmbeddedPostgres(find_programs(16, plugin="test_decoding"), autovacuum=False) as server:
        with server.connect() as connection:
            connection.execute(SETUP)
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        with server.connect() as connection:
            made = "SELECT lsn::text FROM pg_create_logical_replication_slot('word', 'test_decoding')"
            (start,) = connection.execute(made).fetchone() or ("",)
            for statement in WORK:
                connection.execute(statement.encode())
            asked = "SELECT lsn, xid, data FROM pg_logical_slot_peek_changes('word', NULL, NULL)"
            with connection.cursor().copy(f"COPY ({asked}) TO STDOUT".encode()) as rows:
                expected = b"".join(map(bytes, rows))
        server.stop()
        wal = Path(shutil.copytree(server.wal_directory, directory / "wal"))
    _let_all_read(directory)
    return Window(wal, backup, start, expected)


def _let_all_read(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.fixture(scope="package")
def compiled(window: Window) -> None:
    """Decode on this machine, so that its cache has the kernels; and the server's word is ours there too."""
    words = [COMMAND, "decode", *words_for(window), "--master", "local[2]"]
    run = subprocess.run(words, capture_output=True, timeout=DECODE_SECONDS, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
    assert run.stdout == window.expected


def words_for(window: Window) -> list[str | Path]:
    """Return the command's words for the window."""
    return ["--wal", window.wal, "--catalog", window.backup, "--start", window.start, "--with-lsn", "--quiet"]


@dataclass
class Cluster:
    """A driver, and Spark's master and two workers, each on a host of its own.

    Attributes:
        hosts: ``driver``, ``master``, ``one`` and ``two``.
        directory: of this machine, for what hosts write outside of themselves.
        window: what is decoded.
    """

    hosts: dict[str, Host]
    directory: Path
    window: Window

    @property
    def out(self) -> Path:
        """The place of the driver's output; the driver alone has it."""
        return self.directory / "out"

    @property
    def scratch(self) -> Path:
        """The directory that driver and workers share, in one of the runs; in the other it is nowhere."""
        return self.directory / "scratch"

    @contextmanager
    def decoding(self, *words: str | Path) -> Iterator[Decoding]:
        """Hold the command, running on the driver."""
        log, driver = self.directory / "driver.log", self.hosts["driver"]
        master = f"spark://{self.hosts['master'].address}:{MASTER_PORT}"
        arguments = ["decode", *words_for(self.window), "--master", master, "--out", self.out / "lines", *words]
        configuration = {"SPARK_CONF_DIR": str(self.directory / "conf")}
        process = driver.start(COMMAND, *arguments, log=log, **configuration, **java_variables())
        with process:
            try:
                yield Decoding(process, log, self.out)
            finally:
                process.kill()

    def kill_worker(self, name: str) -> None:
        """Kill a host's worker by its number, and nothing else: its executor, and what that has started, end by it."""
        host = self.hosts[name]
        (worker,) = host.processes(WORKER_CLASS)
        assert len(host.processes(EXECUTOR_CLASS)) == 1
        os.kill(worker, signal.SIGKILL)
        self._wait_for_rest(host, [])

    def check_left(self, killed: str, alive: str) -> None:
        """Wait until nothing runs on the one host, and the worker only on the other; no host has files of ours."""
        self._wait_for_rest(self.hosts[killed], [])
        self._wait_for_rest(self.hosts[alive], self.hosts[alive].processes(WORKER_CLASS))
        for host in self.hosts.values():
            assert list(host.outside(Path("/tmp")).glob("headwater-*")) == []

    def _wait_for_rest(self, host: Host, rest: list[int]) -> None:
        wait_until(lambda: host.processes() == rest, END_SECONDS, lambda: True, lambda: f"left: {host.processes()}")

    def said_by_executors(self) -> str:
        """Read all that executors have logged."""
        places = [self.hosts[name].outside(self.hosts[name].home / "work") for name in ("one", "two")]
        return "".join(path.read_text() for place in places for path in place.glob("app-*/*/stderr"))


@dataclass
class Decoding:
    """A command that runs on the driver."""

    process: subprocess.Popen[bytes]
    log: Path
    out: Path

    def until(self, reached: Callable[[], Any]) -> Any:
        """Wait until something is so while it runs."""
        return wait_until(reached, DECODE_SECONDS, lambda: self.process.poll() is None, self.said)

    def check_done(self) -> None:
        """Check that it ends well: Spark reports the loss of an executor, Headwater has nothing to report."""
        status = self.process.wait(DECODE_SECONDS)
        output = self.said()
        assert (status, "headwater: " in output, "Traceback" in output) == (0, False, False), output

    def said(self) -> str:
        """Read standard output and error."""
        return self.log.read_text()

    def events(self) -> str:
        """Read Spark's log of the application's events, as far as it is written."""
        return "".join(path.read_text() for path in (self.out / "events").rglob("events_*"))

    def decodes(self) -> bool:
        """Tell whether the decode step has begun."""
        return '"spark.job.description":"headwater decode"' in self.events()


def wait_until(
    reached: Callable[[], Any], seconds: float, goes_on: Callable[[], bool], output: Callable[[], str]
) -> Any:
    """Wait until something is so, and give it."""
    deadline = time.monotonic() + seconds
    while not (result := reached()):
        assert goes_on(), output()
        assert time.monotonic() < deadline, output()
        time.sleep(POLL_SECONDS)
    return result


def java_variables() -> dict[str, str]:
    """Return the places of Java and Spark; the same on every host."""
    java = {"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}
    return {"SPARK_HOME": str(SPARK_HOME), **java}


@pytest.fixture
def cluster_with_scratch(window: Window, compiled: None, tmp_path: Path) -> Iterator[Cluster]:  # noqa: ARG001
    """Hold a cluster whose driver and workers share the WAL and a directory for files."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    scratch.chmod(0o1777)
    with _cluster(window, tmp_path, [Mount(window.wal), Mount(scratch, is_writable=True)]) as cluster:
        yield cluster


@pytest.fixture
def cluster_without_scratch(window: Window, compiled: None, tmp_path: Path) -> Iterator[Cluster]:  # noqa: ARG001
    """Hold a cluster whose driver and workers share the WAL only."""
    with _cluster(window, tmp_path, [Mount(window.wal)]) as cluster:
        yield cluster


@contextmanager
def _cluster(window: Window, directory: Path, shared: Sequence[Mount]) -> Iterator[Cluster]:
    """Hold a cluster that has decoded nothing yet; nothing of it runs at the end."""
    _make_places(directory)
    drivers = [Mount(window.backup), Mount(directory / "conf"), Mount(directory / "out", is_writable=True)]
    hosts = {
        "master": (WORKER, []),
        "driver": (DRIVER, [*shared, *drivers]),
        "one": (WORKER, shared),
        "two": (WORKER, shared),
    }
    with ExitStack() as running:
        cluster = Cluster(running.enter_context(network(directory, hosts)), directory, window)
        namespaces = {host.namespace for host in cluster.hosts.values()}
        _give_kernels(cluster.hosts["driver"])
        for process in _start_spark(cluster):
            running.callback(process.wait)
            running.callback(process.kill)
        yield cluster
        ran = set(processes_in(namespaces))
    wait_until(lambda: ran.isdisjoint(processes_in(namespaces)), END_SECONDS, lambda: True, lambda: f"ran: {ran}")


def _make_places(directory: Path) -> None:
    directory.chmod(0o755)
    for name in ("conf", "out", "out/events"):
        (directory / name).mkdir()
    for name in ("out", "out/events"):
        os.chown(directory / name, DRIVER.number, DRIVER.number)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (directory / "out" / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.executor.memory": "700m",
        # Whatever takes longer than most is tried on the other host too.
        "spark.speculation": "true",
        "spark.speculation.interval": "20ms",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.multiplier": "1",
        "spark.speculation.minTaskRuntime": "0ms",
    }
    lines = "".join(f"{name} {value}\n" for name, value in settings.items())
    (directory / "conf" / "spark-defaults.conf").write_text(lines)


def _give_kernels(driver: Host) -> None:
    """Give the driver the kernels: its user has run Headwater before, nobody has on the workers."""
    import_rooms()
    caches = {cache_directory(kernel.py_func.__module__) for kernel in task_kernels()}
    place = driver.outside(driver.home) / ".cache" / "headwater" / "kernels"
    for cache in caches:
        shutil.copytree(cache, place / cache.name)
    for path in (driver.outside(driver.home) / ".cache", *place.parents[1].rglob("*")):
        os.chown(path, DRIVER.number, DRIVER.number)
        path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o700)


def _start_spark(cluster: Cluster) -> Iterator[subprocess.Popen[bytes]]:
    """Start master and workers; give each once it is ready."""
    hosts, spark = cluster.hosts, SPARK_HOME / "bin" / "spark-class"
    url = f"spark://{hosts['master'].address}:{MASTER_PORT}"
    shared = {"SPARK_NO_DAEMONIZE": "1", "PYSPARK_PYTHON": sys.executable, **java_variables()}
    words = {name: ["worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", "work"] for name in ("one", "two")}
    words["master"] = ["master.Master", "--port", str(MASTER_PORT)]
    for name in ("master", "one", "two"):
        program, *more = words[name]
        log = cluster.directory / f"{name}.log"
        arguments = [f"org.apache.spark.deploy.{program}", "--host", hosts[name].address, "--webui-port", "0", *more]
        arguments += [] if name == "master" else [url]
        process = hosts[name].start(spark, *arguments, log=log, **shared)
        yield process
        ready = "New state: ALIVE" if name == "master" else "Successfully registered with master"
        wait_until(lambda: ready in log.read_text(), START_SECONDS, lambda: process.poll() is None, log.read_text)  # noqa: B023
