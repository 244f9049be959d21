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


def as_server_user(command: list[str], *, tied: bool = False) -> dict[str, Any]:
    """Return arguments for subprocess that run a program without root's rights.

    They are dropped by ``setpriv``, where the system has it: subprocess itself copies the memory of this process first,
    to drop them in the copy.

    Args:
        command: the program and its arguments.
        tied: the program gets SIGQUIT when this process ends, where the system can do that.
    """
    setpriv = shutil.which("setpriv")
    account = pwd.getpwnam(SERVER_USER) if os.geteuid() == 0 else None
    if setpriv is None:
        rights = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
        return {"args": command, **rights}
    # Two of them: who becomes another user is no longer told of its parent's end.
    user = [setpriv, f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"] if account else []
    end = [setpriv, "--pdeathsig", "SIGQUIT"] if tied else []
    return {"args": [*user, *end, *command]}


def run_as_server_user(command: list[str], text: bytes = b"") -> None:
    """Run a program to its end.

    Raises:
        LocalServerError: the program failed; the message ends with the last line that it wrote.
    """
    run = subprocess.run(
        **as_server_user(command),
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        env=server_environment(),
        check=False,
    )
    if run.returncode != 0:
        output = run.stdout.decode(errors="replace").strip().splitlines()
        raise LocalServerError(f"{Path(command[0]).name} failed: {output[-1] if output else run.returncode}")


def server_environment() -> dict[str, str]:
    """Return a clean environment: no PG* variable, no locale, no library path of the caller's.

    Only ``LOCPATH`` is the caller's, so that server and caller use the same locales.
    """
    clean = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": "/nonexistent"}
    return clean | {name: os.environ[name] for name in ("LOCPATH",) if name in os.environ}
