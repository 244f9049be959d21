"""The user that a server runs as, and what that user may reach.

Invariants:

- A server never runs as root: if this process is root, it runs as ``nobody``. That user owns the data directory. Root
  does not write to files of ``nobody``.
- It is given a clean environment.

Known gap: Windows.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from headwater.base.temporary_directories import OwnDirectory
from headwater.local_servers.server_errors import LocalServerError

SERVER_USER = "nobody"


def server_home() -> OwnDirectory:
    """Make a temporary directory that the server's user can pass through.

    Its path is short, as that of a Unix socket has at most 107 bytes, and open to the server's user from the root down.

    Raises:
        LocalServerError: no such place exists.
    """
    for base in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):
        if os.path.isdir(base) and len(base) < 60 and reachable(Path(base)):
            home = OwnDirectory(base)
            if os.geteuid() == 0:
                home.path.chmod(0o711)
            return home
    raise LocalServerError("no temporary directory is open to the server's user", hint="set TMPDIR")


def give_to_server(path: Path) -> None:
    """Give a file or a directory to the server's user, if that is another one."""
    if os.geteuid() == 0:
        account = pwd.getpwnam(SERVER_USER)
        os.chown(path, account.pw_uid, account.pw_gid)


def reachable(path: Path) -> bool:
    """Tell whether everyone may pass through a directory and all those above it."""
    if os.geteuid() != 0:
        return os.access(path, os.X_OK)
    resolved = path.resolve()
    return all(directory.stat().st_mode & 0o005 == 0o005 for directory in (resolved, *resolved.parents))


def as_server_user() -> dict[str, Any]:
    """Return arguments for subprocess that drop root's rights; none if this process is not root."""
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam(SERVER_USER)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def run_as_server_user(command: list[str], text: bytes = b"") -> None:
    """Run a program to its end.

    Raises:
        LocalServerError: the program failed; the message ends with the last line that it wrote.
    """
    run = subprocess.run(
        command,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        env=server_environment(),
        check=False,
        **as_server_user(),
    )
    if run.returncode != 0:
        output = run.stdout.decode(errors="replace").strip().splitlines()
        raise LocalServerError(f"{Path(command[0]).name} failed: {output[-1] if output else run.returncode}")


def tied_to_parent() -> list[str]:
    """Return command words that make the server stop at once when this process ends, where the system has them."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "SIGQUIT"] if setpriv else []


def server_environment() -> dict[str, str]:
    """Return a clean environment: no PG* variable, no locale, no library path of the caller's.

    Only ``LOCPATH`` is the caller's, so that server and caller use the same locales.
    """
    clean = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": "/nonexistent"}
    return clean | {name: os.environ[name] for name in ("LOCPATH",) if name in os.environ}
