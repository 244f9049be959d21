"""The launcher: a process for each subscription, started again when it ends, as long as it is to run.

One thread, that of :meth:`Launcher.run`, starts and ends processes. Others only note what has come: threads that hear
processes, those that serve the control socket and HTTP, and the one that asks targets of subscriptions that are
disabled there. All of them change members under one lock.

Invariants: a subscription has one process at most. One that was asked to end is waited for before the next is started.

PostgreSQL: launcher.c.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from headwater.apply.launcher.back_off import BackOff
from headwater.apply.launcher.launch import Launch, Launched
from headwater.apply.launcher.launched_process import LaunchedProcess
from headwater.apply.launcher.members import Member, State, Wish
from headwater.apply.launcher.reports import FAILED, End, Report
from headwater.apply.launcher.run_status import COUNTERS, Json, added
from headwater.apply.progress.standing import Standing, read_standing
from headwater.apply.target.connection import TargetConnection
from headwater.errors import HeadwaterError, ServerError, UsageError

WAIT_SECONDS = 0.1
"""How long it waits at a time, between two looks at what is due."""

LOOK_SECONDS = 5.0
"""How often targets are asked whether a subscription that is disabled there is enabled again."""

END_SECONDS = 30.0
"""How long processes may take to end; then they are killed, which loses nothing."""

Read = Callable[[], Launch]
Say = Callable[[str], None]

_STATES = {End.DISABLED: State.DISABLED, End.REMOVED: State.DROPPED, End.DONE: State.DONE}


class Launcher:
    """A launcher.

    Args:
        launch: what is to be run; read: reads the file anew.
        say: is told of what happens.
    """

    def __init__(self, launch: Launch, read: Read, say: Say) -> None:
        self._launch, self._read, self._say = launch, read, say
        self._changed = threading.Condition()
        self._is_ending = self._is_reloading = False
        self._members = {name: _member(launched) for name, launched in launch.subscriptions.items()}

    def end(self) -> None:
        """Tell it to end, from any thread, or a signal's handler."""
        self._is_ending = True

    def reload(self) -> None:
        """Tell it to read its file anew, from any thread, or a signal's handler."""
        self._is_reloading = True

    def run(self) -> None:
        """Run the subscriptions until it is told to end, or all of them are done."""
        watch = threading.Thread(target=self._watch_disabled, name="disabled subscriptions", daemon=True)
        watch.start()
        try:
            while not self._is_ending and not self._are_done():
                if self._is_reloading:
                    self._is_reloading = False
                    self._reload()
                with self._changed:
                    for member in list(self._members.values()):
                        self._tend(member)
                    self._changed.wait(WAIT_SECONDS)
            self._end_all()
        finally:
            self._is_ending = True
            self._kill_all()

    def status(self) -> list[Json]:
        """Look at all subscriptions, from any thread."""
        with self._changed:
            return [member.shown() for member in self._members.values()]

    def pause(self, name: str) -> None:
        """End a subscription's process, and start none until it is resumed.

        Raises:
            ServerError: there is no such subscription.
        """
        with self._changed:
            member = self._member(name)
            if member.process is None:
                member.state = State.PAUSED
            else:
                self._wish(member, Wish.PAUSE)
                self._changed.wait_for(lambda: member.state != State.ENDING)

    def resume(self, name: str) -> None:
        """Start a subscription again that was paused, has failed, waits for its next start, or was disabled.

        Raises:
            ServerError: there is no such subscription.
        """
        with self._changed:
            member = self._member(name)
            if member.process is None:
                _let_start(member)
            elif member.wish == Wish.PAUSE:
                member.wish = Wish.RESTART

    def wake(self, name: str) -> None:
        """Start a subscription again that was disabled, or has failed, as it is enabled now.

        Raises:
            ServerError: there is no such subscription.
        """
        with self._changed:
            member = self._member(name)
            if member.state in (State.DISABLED, State.FAILED):
                _let_start(member)

    def forget(self, name: str) -> None:
        """Start a subscription no more that was dropped while it was paused.

        Raises:
            ServerError: there is no such subscription.
        """
        with self._changed:
            member = self._member(name)
            if member.process is None:
                self._dropped(member)

    def restart(self, name: str) -> None:
        """End a subscription's process, and start the next one at once.

        Raises:
            ServerError: there is no such subscription.
        """
        with self._changed:
            member, starts = self._member(name), self._member(name).starts
            if member.process is None:
                _let_start(member)
            else:
                self._wish(member, Wish.RESTART)
            self._changed.wait_for(lambda: member.starts > starts or self._is_ending)

    def _member(self, name: str) -> Member:
        member = self._members.get(name)
        if member is None or member.state == State.DROPPED:
            raise ServerError(f'subscription "{name}" does not exist', sqlstate="42704")
        return member

    def _are_done(self) -> bool:
        return all(member.state == State.DONE for member in self._members.values())

    def _tend(self, member: Member) -> None:
        now = time.monotonic()
        if member.state == State.WAITING and now >= member.due:
            self._start(member)
        elif member.state == State.ENDING and member.process is not None and now >= member.asked + END_SECONDS:
            member.process.kill()

    def _start(self, member: Member) -> None:
        launched = member.launched
        limits = launched.request.limits
        order = {
            "values": dict(launched.values),
            "limits": {
                "directory": None if limits.directory is None else str(limits.directory),
                "target": limits.target,
                "connections": limits.connections,
                "copies": limits.copies,
            },
        }
        member.started, member.end, member.wish = time.monotonic(), None, None
        member.starts += 1
        try:
            member.process = LaunchedProcess(order, partial(self._heard, member), partial(self._ended, member))
        except OSError as error:
            member.due = member.back_off.ended(member.started, time.monotonic())
            self._tell(member, f"its process cannot be started: {error.strerror}")
        else:
            member.state, member.pid = State.RUNNING, member.process.pid
        self._changed.notify_all()

    def _heard(self, member: Member, report: Report) -> None:
        with self._changed:
            member.status, member.end = report.status, report.end

    def _ended(self, member: Member, status: int) -> None:
        """Note that a process has ended, and what becomes of its subscription."""
        with self._changed:
            member.process, member.exit_status = None, status
            _sum_up(member)
            wish, member.wish = member.wish, None
            if wish == Wish.REMOVE:
                self._members = {name: other for name, other in self._members.items() if other is not member}
                member.state = State.DROPPED
            elif wish == Wish.PAUSE:
                member.state = State.PAUSED
            elif wish == Wish.RESTART:
                _let_start(member)
            else:
                self._ended_by_itself(member, status)
            self._changed.notify_all()

    def _ended_by_itself(self, member: Member, status: int) -> None:
        if self._is_ending:
            member.state = State.DONE
        elif member.end in _STATES and status == 0:
            member.state = _STATES[End(member.end)]
            if member.state == State.DROPPED:
                self._dropped(member)
        elif member.end == FAILED and member.launched.request.disables_on_error:
            member.state = State.FAILED
            self._tell(member, "it has failed, and is not tried again until it is resumed")
        else:
            now = time.monotonic()
            member.state, member.due = State.WAITING, member.back_off.ended(member.started, now)
            after = f"{max(0.0, member.due - now):.1f} s"
            self._tell(member, f"its process has ended {_how(status)}; the next one starts in {after}")

    def _dropped(self, member: Member) -> None:
        member.state = State.DROPPED
        self._tell(member, "it was dropped; a launcher that starts makes it anew, as long as it is in the file")

    def _wish(self, member: Member, wish: Wish) -> None:
        """End a process for a purpose; its end is noted by the thread that hears it."""
        member.wish = wish
        self._ask_to_end(member)

    def _ask_to_end(self, member: Member) -> None:
        """Ask a process to end; once, as it would take a second signal for haste."""
        if member.process is not None and member.state != State.ENDING:
            member.state, member.asked = State.ENDING, time.monotonic()
            member.process.end()

    def _reload(self) -> None:
        self._say("received SIGHUP, reloading configuration files")
        try:
            after = self._read()
        except UsageError as error:
            self._say(f"{error.one_line()}; no changes were applied")
            return
        for name in ("directory", "http"):
            if getattr(after, name) != getattr(self._launch, name):
                self._say(f'parameter "{name}" cannot be changed without restarting the launcher')
        with self._changed:
            for name in self._members.keys() - after.subscriptions.keys():
                self._remove(self._members[name])
            for name, launched in after.subscriptions.items():
                if name not in self._members:
                    self._members[name] = _member(launched)
                else:
                    self._change(self._members[name], launched)

    def _remove(self, member: Member) -> None:
        self._tell(member, "it was removed from the file")
        if member.process is None:
            del self._members[member.launched.name]
        else:
            self._wish(member, Wish.REMOVE)

    def _change(self, member: Member, launched: Launched) -> None:
        before, member.launched = member.launched, launched
        member.back_off.shortest = launched.request.retry_seconds
        if launched == before and launched.request.limits == before.request.limits:
            if member.wish == Wish.REMOVE:
                member.wish = Wish.RESTART
            return
        self._tell(member, "it restarts because of a parameter change")
        if member.process is not None and member.wish != Wish.PAUSE:
            self._wish(member, Wish.RESTART)
        elif member.state in (State.WAITING, State.FAILED, State.DONE):
            _let_start(member)

    def _end_all(self) -> None:
        """Ask all processes to end, and wait for them."""
        with self._changed:
            for member in self._running():
                member.wish = None
                self._ask_to_end(member)
            self._changed.wait_for(lambda: not self._running(), END_SECONDS)

    def _kill_all(self) -> None:
        for member in self._running():
            process = member.process
            if process is not None:
                process.kill()

    def _running(self) -> list[Member]:
        return [member for member in list(self._members.values()) if member.process is not None]

    def _watch_disabled(self) -> None:
        """Let subscriptions start that are enabled again, or there again, whoever has done that."""
        while not self._is_ending:
            until = time.monotonic() + LOOK_SECONDS
            for member in self._disabled():
                standing = _standing_of(member.launched)
                with self._changed:
                    if standing is None or member.state != State.DISABLED:
                        continue
                    if not standing.is_there:
                        self._dropped(member)
                    elif standing.is_enabled:
                        _let_start(member)
            while not self._is_ending and time.monotonic() < until:
                time.sleep(WAIT_SECONDS)

    def _disabled(self) -> list[Member]:
        with self._changed:
            return [member for member in self._members.values() if member.state == State.DISABLED]

    def _tell(self, member: Member, text: str) -> None:
        self._say(f'subscription "{member.launched.name}": {text}')


def _member(launched: Launched) -> Member:
    return Member(launched, BackOff(launched.request.retry_seconds))


def _let_start(member: Member) -> None:
    member.state, member.due = State.WAITING, 0.0
    member.back_off.forget()


def _sum_up(member: Member) -> None:
    """Add what a process has counted to what those before have."""
    whole = added(member.totals, member.status)
    names = (*COUNTERS, "errors")
    member.totals = {name: whole[name] for name in names}
    member.status = {name: value for name, value in whole.items() if name not in names}


def _how(status: int) -> str:
    return f"by signal {-status}" if status < 0 else f"with status {status}"


def _standing_of(launched: Launched) -> Standing | None:
    """Ask the target; None as long as it cannot be asked."""
    try:
        with TargetConnection(launched.request.target, f"headwater apply {launched.name} looks") as connection:
            return read_standing(connection, launched.name)
    except HeadwaterError:
        return None
