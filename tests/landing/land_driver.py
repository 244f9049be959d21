"""``headwater land`` as a process that kills itself: ``land_driver.py PLACE STEP ARGUMENTS...``.

A step is whatever this process is about to do to a file below PLACE: make, write, rename, link or remove it, as Python
tells its audit hooks. At the STEP-th one it kills itself and Java with SIGKILL: the step is not done, and nothing
is cleaned up. What a library of another language does to files is between two steps.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from headwater.cli.main import main
from headwater.landing.mirrors import deletes_beside

_STEPS = {"open": 0, "os.rename": 1, "os.link": 1, "os.remove": 0, "os.mkdir": 0}
"""Events, and which of their arguments is the file that comes of it, or goes."""
_READS = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Steps:
    """Counts steps.

    Args:
        place: below which files count.
        last: number of the step that is not done.
    """

    def __init__(self, place: str, last: int) -> None:
        self._place, self._left = place, last

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        at = _STEPS.get(event)
        if at is None or not isinstance(arguments[at], str | Path) or not str(arguments[at]).startswith(self._place):
            return
        if event == "open" and not arguments[2] & _READS:
            return
        self._left -= 1
        if not self._left:
            kill()


def kill() -> None:
    """Kill this process, and Java first: it would else notice, and end in order."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and _is_own_java(path):
            os.kill(int(path.name), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _is_own_java(process: Path) -> bool:
    try:
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        return parent == os.getpid() and (process / "comm").read_text().strip() == "java"
    except OSError:
        return False


if __name__ == "__main__":
    deletes_beside._FEWEST = 0  # rows are deleted beside files of tables however small, if that is asked for
    sys.addaudithook(Steps(sys.argv[1], int(sys.argv[2])))
    sys.argv = ["headwater", *sys.argv[3:]]
    main()
