"""Machines for a test: namespaces of the kernel, each with files, users, processes and an address of its own.

A network of hosts hangs on a bridge that lies in a namespace too, so nothing of this machine's own network is touched.
A host sees this machine's programs, read-only, this project, and only such other directories as it is given. Whatever
runs in a host ends with it: its first process is killed when this process lets go of it, and the kernel does the rest.

Needs root, ``unshare``, ``nsenter``, ``setpriv`` (util-linux) and ``ip`` (iproute2).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt")
TIMEOUT_SECONDS = 60
NETWORK = "10.213.7"

# Runs as the first process of a host: makes the root directory of what it is given, and waits for its end.
FIRST_PROCESS = r"""
set -eu
root=$1 name=$2; shift 2
mount --make-rprivate /
umask 022
mount -t tmpfs -o mode=755 tmpfs "$root"
mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root/home" "$root/old"
chmod 1777 "$root/tmp"
bind() { # SOURCE TARGET [OPTIONS]
    if [ -L "$1" ]; then mkdir -p "$root$(dirname "$2")"; cp -P "$1" "$root$2"; return; fi
    if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$root$(dirname "$2")"; fi
    [ -e "$root$2" ] || touch "$root$2"
    mount --bind "$1" "$root$2"
    [ -z "${3:-}" ] || mount -o "remount,bind,$3" "$root$2"
}
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
for given in "$@"; do
    options=${given%%:*}; paths=${given#*:}
    bind "${paths%%=*}" "${paths#*=}" "$options"
done
mount -t proc proc "$root/proc"
hostname "$name"
cd "$root"
pivot_root . old
umount -l /old
rmdir /old
echo ready
exec sleep infinity
"""


@dataclass(frozen=True)
class User:
    """A user of a host: a name and a number that this machine need not know."""

    name: str
    number: int


@dataclass(frozen=True)
class Mount:
    """A directory of this machine that a host has too, under the same name."""

    path: Path
    is_writable: bool = False

    def words(self) -> str:
        """Return the mount's words for the first process."""
        return f"{'rw' if self.is_writable else 'ro'}:{self.path}={self.path}"


@dataclass
class Host:
    """A machine.

    Attributes:
        name: its own.
        address: its own.
        user: the user that runs everything there.
        process: its first process.
    """

    name: str
    address: str
    user: User
    process: subprocess.Popen[str]

    @property
    def home(self) -> Path:
        """The user's home directory, as the host names it."""
        return Path("/home") / self.user.name

    def outside(self, path: Path) -> Path:
        """Return the path, on this machine, of a file of the host."""
        return Path(f"/proc/{self._first}/root") / path.relative_to("/")

    def start(self, *command: str | Path, log: Path, **environment: str) -> subprocess.Popen[bytes]:
        """Start a program there as its user; what it says goes to a file of this machine."""
        with log.open("wb") as output:
            return subprocess.Popen(
                [*self._enter(), *self._as_user(environment), *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ["PATH"]},
            )

    def run(self, *command: str | Path, timeout: float, **environment: str) -> subprocess.CompletedProcess[bytes]:
        """Run a program there as its user."""
        return subprocess.run(
            [*self._enter(), *self._as_user(environment), *map(str, command)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={"PATH": os.environ["PATH"]},
            timeout=timeout,
            check=False,
        )

    def as_root(self, *command: str | Path) -> None:
        """Run a program there that sets the host up."""
        _check([*self._enter(), *map(str, command)])

    def processes(self, word: str = "") -> list[int]:
        """List the processes that run there beside the first one and have a word in their command line.

        Their numbers are those of this machine.
        """
        lines = {number: _command_line(number) for number in processes_in({self.namespace}) if number != self._first}
        return sorted(number for number, line in lines.items() if line and word.encode() in line)

    def has_open(self, pattern: str) -> bool:
        """Tell whether a process there has a file open whose path matches a pattern."""
        return any(fnmatch(path, pattern) for number in self.processes() for path in _open_files(number))

    @property
    def namespace(self) -> int:
        """Number of the namespace that its processes are in."""
        return os.stat(f"/proc/{self._first}/ns/pid").st_ino

    @property
    def _first(self) -> int:
        """The first process, which ``unshare`` has started."""
        (child,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(child)

    def _enter(self) -> list[str]:
        return ["nsenter", "-t", str(self._first), "-m", "-n", "-u", "-p", "--wdns=/"]

    def _as_user(self, environment: Mapping[str, str]) -> list[str]:
        number = str(self.user.number)
        variables = {"HOME": str(self.home), "USER": self.user.name, "PATH": "/usr/bin:/bin", **environment}
        return [
            *("setpriv", "--reuid", number, "--regid", number, "--clear-groups", "env", "-i", "-C", str(self.home)),
            *(f"{name}={value}" for name, value in variables.items()),
        ]


def processes_in(namespaces: Container[int]) -> list[int]:
    """List the processes in namespaces by their numbers on this machine, also those that nobody has waited for."""
    return [number for number in _numbers() if _namespace(number) in namespaces]


@contextmanager
def network(directory: Path, hosts: Mapping[str, tuple[User, Sequence[Mount]]]) -> Iterator[dict[str, Host]]:
    """Hold hosts that reach each other and nothing else.

    Args:
        directory: for files of theirs.
        hosts: their names, users and mounts.
    """
    _check_machine()
    with ExitStack() as running:
        running_hosts: dict[str, Host] = {}
        switch = running.enter_context(_switch())
        for number, (name, (user, mounts)) in enumerate(hosts.items(), 2):
            place = directory / name
            place.mkdir()
            _users_file(place, hosts)
            process = running.enter_context(_first_process(place, name, mounts))
            running_hosts[name] = Host(name, f"{NETWORK}.{number}", user, process)
            _plug_in(switch, running_hosts[name])
            running_hosts[name].as_root(
                "install", "-d", "-o", str(user.number), "-g", str(user.number), running_hosts[name].home
            )
        yield running_hosts


def _check_machine() -> None:
    """Fail where there cannot be such hosts: a test that is passed over proves nothing."""
    missing = [name for name in ("unshare", "nsenter", "setpriv", "ip") if shutil.which(name) is None]
    assert not missing, f"{', '.join(missing)} missing: run tools/system_package.sh (iproute2, util-linux)"
    assert os.geteuid() == 0, "hosts of their own need namespaces, and these need root: run this test as root"
    tried = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, text=True, check=False)
    assert tried.returncode == 0, f"this machine cannot make namespaces: {tried.stderr.strip()}"


@contextmanager
def _switch() -> Iterator[int]:
    """Hold a namespace with a bridge; gives the number of a process in it."""
    with _held(["unshare", "--net", "--kill-child", "--fork", "sh", "-c", "echo ready; exec sleep infinity"]) as held:
        (number,) = Path(f"/proc/{held.pid}/task/{held.pid}/children").read_text().split()
        _in_network(int(number), "ip", "link", "add", "bridge0", "type", "bridge")
        _in_network(int(number), "ip", "link", "set", "bridge0", "up")
        yield int(number)


@contextmanager
def _first_process(own: Path, name: str, mounts: Sequence[Mount]) -> Iterator[subprocess.Popen[str]]:
    root = own / "root"
    root.mkdir()
    words = [f"ro:{path}={path}" for path in PROGRAMS if os.path.exists(path)]
    words += [f"ro:{own / file}=/etc/{file}" for file in ("passwd", "group", "hosts")]
    programs = {
        Path(sys.base_prefix),
        PROJECT,
        *([] if Path(sys.prefix).is_relative_to(PROJECT) else [Path(sys.prefix)]),
    }
    words += [Mount(path).words() for path in sorted(programs) if not path.is_relative_to("/usr")]
    words += [mount.words() for mount in mounts]
    isolate = ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
    with _held([*isolate, "sh", "-c", FIRST_PROCESS, "first", str(root), name, *words]) as process:
        yield process


@contextmanager
def _held(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Hold a process that reports that it is ready; at the end it is killed, with all that it keeps alive."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line == "ready\n", f"this machine cannot make a host: {line.strip()}"
            yield process
        finally:
            process.kill()


def _users_file(own: Path, hosts: Mapping[str, tuple[User, Sequence[Mount]]]) -> None:
    users = {user for user, _ in hosts.values()}
    root = "root:x:0:0:root:/root:/bin/sh\n"
    lines = [
        f"{user.name}:x:{user.number}:{user.number}::/home/{user.name}:/bin/sh\n" for user in sorted(users, key=str)
    ]
    (own / "passwd").write_text(root + "".join(lines))
    (own / "group").write_text("root:x:0:\n" + "".join(f"{user.name}:x:{user.number}:\n" for user in users))
    addresses = [f"{NETWORK}.{number} {name}\n" for number, name in enumerate(hosts, 2)]
    (own / "hosts").write_text("127.0.0.1 localhost\n" + "".join(addresses))


def _plug_in(switch: int, host: Host) -> None:
    """Plug a cable from the host into the bridge."""
    port, first = f"port-{host.name}"[:15], str(host._first)
    _in_network(switch, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", first)
    _in_network(switch, "ip", "link", "set", port, "master", "bridge0", "up")
    for words in (("addr", "add", f"{host.address}/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
        _in_network(int(first), "ip", *words)
    _in_network(int(first), "ip", "link", "set", "lo", "up")


def _in_network(number: int, *command: str) -> None:
    _check(["nsenter", "-t", str(number), "-n", *command])


def _check(command: list[str]) -> None:
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert run.returncode == 0, f"{' '.join(command)}: {run.stderr.strip()}"


def _numbers() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _namespace(number: int) -> int:
    try:
        return os.stat(f"/proc/{number}/ns/pid").st_ino
    except OSError:
        return 0


def _command_line(number: int) -> bytes:
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return b""


def _open_files(number: int) -> list[str]:
    paths = []
    with suppress(OSError):
        for file in Path(f"/proc/{number}/fd").iterdir():
            with suppress(OSError):
                paths.append(os.readlink(file))
    return paths
