"""``headwater land`` that kills itself between steps of its commits: ``spark_catalog_driver.py STEP ARGUMENTS...``.

A step is what is done to a table of a catalog: rows are taken from it, it is made, its columns follow, rows are read
to be written, its place in the log is asked for. The note that all tables have a window is a step, too. Before the
STEP-th step the process kills itself and Java; 0 is never.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from headwater.cli.main import main
from headwater.lakes.landed_progress import LandedProgress
from headwater.lakes.spark_table import SparkTable
from landing.land_driver import kill


class Steps:
    """Counts steps.

    Args:
        last: number of the step that is not done.
    """

    def __init__(self, last: int) -> None:
        self._left = last

    def counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a step so that it is counted."""

        def run(*arguments: Any) -> Any:
            self._left -= 1
            if not self._left:
                kill()
            return step(*arguments)

        return run


if __name__ == "__main__":
    steps = Steps(int(sys.argv[1]))
    of_table = ("concerned", "_make", "_follow", "_rows", "_require")
    for owner, names in ((SparkTable, of_table), (LandedProgress, ("resolve",))):
        for name in names:
            setattr(owner, name, steps.counted(getattr(owner, name)))
    sys.argv = ["headwater", *sys.argv[2:]]
    main()
