"""The subscriptions of a launcher: what each is to be, what it is, and what its processes have said."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum

from headwater.apply.launcher.back_off import BackOff
from headwater.apply.launcher.launch import Launched
from headwater.apply.launcher.launched_process import LaunchedProcess
from headwater.apply.launcher.run_status import Json, added


class State(StrEnum):
    """The state of a subscription.

    It runs; it is being ended; it waits for its next start; it was paused; it is disabled on the target; it was
    dropped; all that was asked for is applied; or it has failed, and is not to be tried again.
    """

    RUNNING, ENDING, WAITING = "running", "ending", "waiting"
    PAUSED, DISABLED, DROPPED, DONE, FAILED = "paused", "disabled", "dropped", "done", "failed"


class Wish(StrEnum):
    """A wish what a process is ended for."""

    PAUSE, RESTART, REMOVE = "pause", "restart", "remove"


@dataclass
class Member:
    """A subscription of a launcher.

    Attributes:
        launched: as the file has it now; back_off: the pauses of its starts.
        state: of it; wish: what its process is ended for, None if it ends by itself.
        process: None if none runs; pid: of the last one.
        started: when the last one was; due: when the next one is; asked: when it was asked to end.
        starts: how many there were; end: why the run has ended, as its process said last.
        status: what it said last; totals: of the processes before.
    """

    launched: Launched
    back_off: BackOff
    state: State = State.WAITING
    wish: Wish | None = None
    process: LaunchedProcess | None = None
    pid: int | None = None
    started: float = 0.0
    due: float = 0.0
    asked: float = 0.0
    starts: int = 0
    end: str | None = None
    exit_status: int | None = None
    status: Json = field(default_factory=dict)
    totals: Json = field(default_factory=dict)

    def shown(self) -> Json:
        """Return its status, as one of several."""
        now = time.monotonic()
        status = added(self.totals, self.status)
        if self.process is None:
            status["workers"] = []
        return {
            "subname": self.launched.name,
            "state": self.state.value,
            "pid": None if self.process is None else self.process.pid,
            "restarts": max(0, self.starts - 1),
            "exit_status": self.exit_status,
            "next_start_seconds": max(0.0, self.due - now) if self.state == State.WAITING else None,
            **status,
        }
