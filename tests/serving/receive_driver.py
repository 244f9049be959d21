"""A command that receives WAL, and kills itself amid its files: ``receive_driver.py KIND:STEP ARGUMENTS...``.

``files:7`` dies before the seventh call that opens, syncs or renames a file of WAL. ``writes:7`` dies amid the seventh
write, of which half is done.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from typing import Any

from headwater.base import whole_files
from headwater.cli.main import main
from headwater.receiver import received_files

_FILES = ("open", "fsync", "fdatasync", "rename", "close", "replace")


class _DeadlyOs:
    """The module ``os``, whose calls are counted.

    Args:
        kind: of the calls; step: the one that is the last.
    """

    def __init__(self, kind: str, step: int) -> None:
        self._kind, self._step = kind, step
        self._numbers = itertools.count(1)

    def __getattr__(self, name: str) -> Any:
        call = getattr(os, name)
        if self._kind == "files" and name in _FILES:
            return self._counted(call)
        return self._half if self._kind == "writes" and name == "pwrite" else call

    def _counted(self, call: Any) -> Any:
        def counted(*arguments: Any, **named: Any) -> Any:
            if next(self._numbers) == self._step:
                _die()
            return call(*arguments, **named)

        return counted

    def _half(self, descriptor: int, data: memoryview, offset: int) -> int:
        if next(self._numbers) == self._step:
            os.pwrite(descriptor, data[: len(data) // 2], offset)
            _die()
        return os.pwrite(descriptor, data, offset)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    kind, _, step = sys.argv[1].partition(":")
    deadly = _DeadlyOs(kind, int(step))
    for module in (received_files, whole_files) if kind == "files" else (received_files,):
        vars(module)["os"] = deadly
    sys.argv[1:] = sys.argv[2:]
    main()
