"""The control of a run by the subscription's fate: it is refused while disabled, and disabled by an error if asked to.

PostgreSQL: worker.c (start_apply, DisableSubscriptionAndExit).
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.progress.applied_ahead import read_applied, tidy_applied
from headwater.apply.progress.installation import install
from headwater.apply.progress.run_states import Failure, RunState, disable, enable, read_run_state, set_skip
from headwater.apply.refused.skipping import Skipping
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.session import open_target
from headwater.errors import ConnectionLostError, ServerError, UsageError
from headwater.pg.lsn import lsn_text
from headwater.pg.version import VERSIONS, Version

Say = Callable[[str], None]


class RunControl:
    """The control of one run.

    Args:
        request: what is asked for; say: is told what is done, in the server's words.
    """

    def __init__(self, request: ApplyRequest, say: Say) -> None:
        self._request, self._say = request, say
        self._has_begun = False

    def begin(self, connection: TargetConnection) -> None:
        """See that the subscription is enabled, or enable it if that is asked for.

        Raises:
            UsageError: it is disabled.
            ServerError: the target refuses, or is lost.
        """
        name, options = self._request.subscription, self._request.refusals
        state = read_run_state(connection, name)
        if not state.is_enabled and options.enables and not self._has_begun:
            enable(connection, name)
            self._say(f'subscription "{name}" has been enabled')
        elif not state.is_enabled:
            raise disabled(name, state, VERSIONS[connection.major])

    def skipping(self, connection: TargetConnection, reached: int) -> Skipping:
        """Return what is to be skipped; what is asked for is set once a run.

        Args:
            connection: the target's; reached: LSN of the source before which all is applied.

        Raises:
            ServerError: the target refuses, or is lost; the transaction is applied already.
        """
        name, lsn = self._request.subscription, self._request.refusals.skip_lsn
        if self._request.refusals.sets_aside or lsn is not None or not self._request.parallel.keeps_order:
            install(connection)
        if lsn is not None and not self._has_begun:
            set_skip(connection, name, lsn, reached)
        self._has_begun = True
        tidy_applied(connection, name, reached)
        ahead = read_applied(connection, name, reached)
        return Skipping(name, read_run_state(connection, name).skip_lsn, self._say, ahead, VERSIONS[connection.major])

    def failed(self, error: ServerError) -> None:
        """Disable the subscription, if it was asked for, unless a connection is lost, which tells nothing of it.

        Raises:
            ServerError: the target refuses, or is lost.
        """
        request = self._request
        if not request.disables_on_error or isinstance(error, ConnectionLostError) or not self._has_begun:
            return
        connection, _ = open_target(request.target, f"headwater apply {request.subscription}")
        with connection:
            install(connection)
            disable(connection, request.subscription, Failure.of(error))
        self._say(f'subscription "{request.subscription}" has been disabled because of an error')


def disabled(name: str, state: RunState, server: Version) -> UsageError:
    """Return the error that a subscription is disabled, with what has disabled it, and what to do.

    Args:
        name: the subscription's; state: its fate; server: the target's version, in whose words LSNs are printed.
    """
    failure = state.failure
    if failure is None:
        return UsageError(f'subscription "{name}" is disabled', hint=_hint(None))
    lsn = None if failure.finish_lsn is None else lsn_text(failure.finish_lsn, server)
    return UsageError(_disabled(name, failure, lsn), hint=_hint(lsn))


def _disabled(name: str, failure: Failure, lsn: str | None) -> str:
    place = "" if lsn is None else f" in transaction {failure.xid}, finished at {lsn}"
    return f'subscription "{name}" is disabled since {failure.at} because of an error{place}: {failure.message}'


def _hint(lsn: str | None) -> str:
    skip = "" if lsn is None else f", --skip-lsn {lsn} skips it"
    return f"--enable goes on once the cause is mended{skip}"
