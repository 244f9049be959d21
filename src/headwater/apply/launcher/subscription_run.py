"""The run of one subscription: it applies as long as the target says that it is enabled, with the parameters set there.

Once a second, between transactions, the target is asked. A subscription that was disabled or dropped ends the run; one
of which parameters were changed goes on with them, from where it was.

PostgreSQL: worker.c (maybe_reread_subscription, InitializeLogRepWorker): the words are the server's.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.launcher.reports import End
from headwater.apply.launcher.run_status import Json, added, status_of
from headwater.apply.progress.run_states import read_run_state
from headwater.apply.progress.standing import Parameters, Standing, read_standing
from headwater.apply.refused.run_control import disabled
from headwater.apply.target.connection import TargetConnection
from headwater.apply.worker import WAIT_SECONDS, ApplyWorker, Log, Say
from headwater.errors import HeadwaterError, ServerError, UsageError
from headwater.pg.version import VERSIONS

LOOK_SECONDS = 1.0
"""How often the target is asked."""


class SubscriptionRun:
    """A run.

    Args:
        request_of: makes the request of the parameters that were set.
        failed: is told of an error after which it tries again.
        say: is told of slots, tables, and why it ends, in the server's words.

    Attributes:
        refusal: the error that it was disabled from the beginning.
    """

    def __init__(
        self, request_of: Callable[[Parameters], ApplyRequest], failed: Log, say: Say = lambda _: None
    ) -> None:
        self._request_of, self._say = request_of, say
        self._request = request_of(())
        self._log = failed
        self.refusal: UsageError | None = None
        self._totals: Json = {}
        self._is_ending = self._has_stood = self._is_restarting = False
        self._standing, self._end = Standing(), End.DONE
        self._looked_at = 0.0
        self._worker = ApplyWorker(self._request, self._failed, say)

    @property
    def name(self) -> str:
        """The subscription's name."""
        return self._request.subscription

    def stop(self) -> None:
        """Tell it to end, from any thread."""
        self._is_ending = True
        self._worker.stop()

    def status(self) -> Json:
        """Look at it, from any thread."""
        parameters = {name: list(values) for name, values in self._standing.parameters}
        return {**added(self._totals, status_of(self._worker, self.name)), "parameters": parameters}

    def run(self) -> End:
        """Apply until the end that was asked for, or that the target asks for.

        Raises:
            HeadwaterError: something fails, and that is not tried again.
        """
        is_first = True
        while not self._is_ending:
            began = time.monotonic()
            try:
                self._begin(is_first=is_first)
            except ServerError as error:
                if self._request.disables_on_error:
                    raise
                self._failed(error)
                self._wait(began + self._request.retry_seconds)
                continue
            is_first = False
            if self._end != End.DONE or self._is_ending:
                break
            self._worker.run()
            if not self._is_restarting:
                break
        return End.STOPPED if self._end == End.DONE and self._is_ending else self._end

    def _failed(self, error: HeadwaterError) -> None:
        self._worker.counts.failed(error)
        self._log(error)

    def _begin(self, *, is_first: bool) -> None:
        """Make the worker, with the parameters as they are now."""
        with TargetConnection(self._request.target, f"headwater apply {self.name} begins") as connection:
            connection.ends = lambda: self._is_ending
            self._standing = read_standing(connection, self.name)
            state = read_run_state(connection, self.name)
            server = VERSIONS[connection.major]
        self._has_stood = self._standing.is_there
        self._is_restarting = False
        may_enable = is_first and self._request.refusals.enables
        if not self._standing.is_enabled and not may_enable:
            self._end = End.DISABLED
            self.refusal = disabled(self.name, state, server) if is_first else None
            why = "the subscription was disabled during startup" if is_first else "the subscription was disabled"
            self._say(f'logical replication worker for subscription "{self.name}" will not start because {why}')
            return
        self._request = self._request_of(self._standing.parameters)
        self._totals = self.status()
        self._worker = ApplyWorker(self._request, self._failed, self._say)
        self._worker.between = self._look
        if self._is_ending:
            self._worker.stop()

    def _wait(self, until: float) -> None:
        while not self._is_ending and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, WAIT_SECONDS))

    def _look(self, connection: TargetConnection) -> None:
        """Look how the target has it, if it is time, and end the worker if that has changed."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        standing = read_standing(connection, self.name)
        if self._has_stood and not standing.is_there:
            self._leave(End.REMOVED, "stop because the subscription was removed")
        elif not standing.is_enabled:
            self._leave(End.DISABLED, "stop because the subscription was disabled")
        elif standing.parameters != self._standing.parameters:
            self._is_restarting = True
            self._leave(End.DONE, "restart because of a parameter change")
        self._has_stood = self._has_stood or standing.is_there

    def _leave(self, end: End, why: str) -> None:
        self._end = end
        self._say(f'logical replication worker for subscription "{self.name}" will {why}')
        self._worker.stop()
