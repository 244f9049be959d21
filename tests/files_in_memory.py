"""A place in memory for the files of tests: clusters, base backups, and what tests write.

A cluster and a base backup are more than a thousand files each, and each backup is synced. A disk takes ten times as
long for that as memory does. Nothing is proved by it: a test kills processes, not the machine.

``make test`` asks for this by ``--in-memory``. Temporary files of all processes of a run then go to a directory of
:data:`MEMORY`, unless memory is short there. It is removed at the end, also of a run with failures.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from headwater.base.temporary_directories import OwnDirectory

MEMORY = Path("/dev/shm")
NEEDED_BYTES, NEEDED_MEMORY = 8 << 30, 18 << 30
"""Free for files, and of memory in all. At the end of a run files take 5.5 GB of it, its four processes 8, Spark 3."""


class FilesInMemory:
    """A plugin of pytest: the directory of a run, until it ends.

    Args:
        config: of the process that hands tests out.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._directory = OwnDirectory(MEMORY)
        # Open to the user that servers run as, who else would keep their clusters on the disk (server_user.reachable).
        self._directory.path.chmod(0o755)
        # As short as /tmp/pytest-of-root/pytest-0: paths of sockets are limited.
        place = self._directory.path / "t"
        place.mkdir()
        place.chmod(0o1777)
        os.environ["TMPDIR"] = tempfile.tempdir = str(place)
        config.option.basetemp = str(place / "p")

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Remove the directory."""
        self._directory.close()


def has_room() -> bool:
    """Tell whether files can be kept in memory, beside the processes of a run."""
    if not MEMORY.is_dir():
        return False
    return shutil.disk_usage(MEMORY).free >= NEEDED_BYTES and _available_bytes() >= NEEDED_MEMORY


def _available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("MemAvailable:"))
    return int(line.split()[1]) << 10
