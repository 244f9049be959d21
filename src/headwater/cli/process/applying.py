"""The processes of ``headwater apply``: one that applies, one that a launcher has started, and the launcher's own.

A launcher does without what applies: its processes import that.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.apply.incoming.limits import WorkerLimits
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.launcher.control_socket import launcher_directory, serve_control
from headwater.apply.launcher.launch import Launch
from headwater.apply.launcher.launcher import Launcher
from headwater.apply.launcher.reports import VARIABLE
from headwater.apply.progress.standing import Parameters
from headwater.cli.process.apply_metrics import ApplyMetrics, status_json
from headwater.cli.process.setup import say
from headwater.cli.process.signals import heeding_first
from headwater.cli.process.status_server import Shown, serve_status
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.apply.launcher.child import LaunchedRun

RequestOf = Callable[[Parameters], ApplyRequest]


def saying(name: str | None = None) -> Callable[[str], None]:
    """Return what writes a line to standard error; of one of several subscriptions with its name."""
    before = "headwater: " if name is None else f'headwater: subscription "{name}": '
    return lambda text: say(before + text)


def failing(name: str | None = None) -> Callable[[HeadwaterError], None]:
    """Return what writes an error after which it goes on to standard error; see :func:`saying`."""
    note = saying(name)
    return lambda error: note("\n".join([error.one_line(), *error.details()]))


def run_alone(request_of: RequestOf, http: str | None) -> None:
    """Apply one subscription in this process.

    Args:
        request_of: makes the request of parameters that were set; http: where the status is shown, None for nowhere.

    Raises:
        HeadwaterError: it fails, and that is not tried again; or it is disabled.
    """
    from headwater.apply.launcher.subscription_run import SubscriptionRun

    run = SubscriptionRun(request_of, failing(), saying())
    with heeding_first(run.stop), serve_status(http) as server:
        if server is not None:

            def look() -> list[dict[str, object]]:
                return [{"subname": run.name, "state": "running", "pid": os.getpid(), **run.status()}]

            server.shown = Shown(lambda: status_json(look()), ApplyMetrics(look))
        run.run()
    if run.refusal is not None:
        raise run.refusal


def launched_run() -> LaunchedRun | None:
    """Return what a launcher has said to this process; None if none has started it."""
    from headwater.apply.launcher.child import LaunchedRun

    descriptor = os.environ.pop(VARIABLE, None)
    return None if descriptor is None else LaunchedRun(int(descriptor))


def run_launched(launched: LaunchedRun, request_of: RequestOf) -> None:
    """Apply the subscription that a launcher has started this process for.

    Raises:
        HeadwaterError: it fails, and that is not tried again.
    """
    from headwater.apply.launcher.subscription_run import SubscriptionRun

    order = launched.order
    name, places = str(order["values"]["subscription"]), dict(order["limits"])
    limits = WorkerLimits(**{**places, "directory": Path(places["directory"])})

    def limited(parameters: Parameters) -> ApplyRequest:
        return replace(request_of(parameters), limits=limits)

    run = SubscriptionRun(limited, failing(name), saying(name))
    with heeding_first(run.stop):
        launched.run(run)


def run_launcher(read: Callable[[], Launch], launch: Launch) -> None:
    """Apply many subscriptions, each in a process of its own.

    Args:
        read: reads the file anew; launch: what it has now.

    Raises:
        UsageError: the launcher's directory or address cannot be used.
    """
    launcher = Launcher(launch, read, saying())
    with ExitStack() as stack:
        stack.enter_context(launcher_directory(launch.directory))
        stack.enter_context(heeding_first(launcher.end))
        stack.enter_context(_hearing_hangup(launcher.reload))
        server = stack.enter_context(serve_status(launch.http))
        if server is not None:
            server.shown = Shown(lambda: status_json(launcher.status()), ApplyMetrics(launcher.status))
        stack.enter_context(serve_control(launch.directory, launcher))
        launcher.run()


@contextmanager
def _hearing_hangup(tell: Callable[[], None]) -> Iterator[None]:
    """Let SIGHUP inside the ``with`` block only tell."""
    before = signal.signal(signal.SIGHUP, lambda _number, _frame: tell())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
