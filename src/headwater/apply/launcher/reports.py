"""The reports of a launched process to its launcher: how it is, and why its run has ended; a line of JSON each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from headwater.apply.launcher.run_status import Json

VARIABLE = "HEADWATER_LAUNCHED"
"""Variable that names the descriptor of the socket between both to a process that was launched."""

FAILED = "failed"
"""An end by an error, beside those of :class:`End`."""


class End(StrEnum):
    """The end of a run: all is applied that was asked for; it was told to end; or what the target says."""

    DONE, STOPPED, DISABLED, REMOVED = "done", "stopped", "disabled", "removed"


@dataclass(frozen=True)
class Report:
    """A report.

    Attributes:
        status: as of ``run_status.py``; end: why the run has ended, None as long as it has not.
    """

    status: Json
    end: str | None = None

    def line(self) -> bytes:
        """Return it as a line."""
        return json.dumps({"status": self.status, "end": self.end}).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Report:
        """Read a line."""
        return cls(**json.loads(line))
