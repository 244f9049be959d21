"""The fence of a target in a store: an object that says who lands, and is written again every few seconds.

No clocks of two machines are compared. Who finds the object watches it: if it changes, somebody lands, and the run is
refused. If it does not change for half a minute, its run is gone. Then the object is taken over, on the condition that
it is still the same. A run of this machine whose process is gone is taken over from at once.

The fence spares two runs from hindering each other. What has landed does not rest on it: commits, notes and states are
written on conditions. So a run that was stopped for an hour and goes on then gets an error, and writes nothing over.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwater.errors import HeadwaterError, LakeConflictError, LakeError
from headwater.lakes.stores.object_store import TakenError
from headwater.lakes.stores.places import StorePath

BEAT_SECONDS, LEASE_SECONDS = 5.0, 30.0
_LOOK_SECONDS = 0.5


class Fence:
    """The right to land to a target, held until it is closed.

    Args:
        place: of the object; target: what errors name.

    Raises:
        LakeConflictError: another run lands there.
        LakeError: the store does not answer.
    """

    def __init__(self, place: StorePath, target: StorePath) -> None:
        self._place, self._target = place, target
        self._own = {"run": secrets.token_hex(16), **_process(os.getpid())}
        self._beats = 0
        self._lost: HeadwaterError | None = None
        self._writing, self._closing = threading.Lock(), threading.Event()
        self._tag = self._taken()
        self._at = _now()
        self._thread = threading.Thread(target=self._beat_on, name="fence of the target", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let others land."""
        self._closing.set()
        self._thread.join()
        if self._lost is None:
            with suppress(LakeError, TakenError):
                self._put({"run": None}, self._tag)

    def require(self) -> None:
        """See that nobody else has begun to land.

        Raises:
            LakeConflictError: somebody has.
            LakeError: that cannot be seen.
        """
        if self._lost is None and _now() - self._at > LEASE_SECONDS / 2:
            self._beat()
        if self._lost is not None:
            raise self._lost

    def _taken(self) -> str:
        """Take the object, once it is nobody's; returns its tag."""
        while True:
            there = self._place.store.get(self._place.key)
            with suppress(TakenError):
                if there is None or _is_free(there[0]) or self._is_still(there[1]):
                    return self._put(self._content, None if there is None else there[1])

    def _is_still(self, tag: str) -> bool:
        """Tell whether an object stays as it is.

        Raises:
            LakeConflictError: it does not.
        """
        until = _now() + LEASE_SECONDS
        while _now() < until:
            time.sleep(_LOOK_SECONDS)
            there = self._place.store.get(self._place.key)
            if there is None or _is_free(there[0]):
                return False  # Its run has ended meanwhile.
            if there[1] != tag:
                raise self._conflict(there[0])
        return True

    def _conflict(self, content: bytes) -> LakeConflictError:
        known = _read(content)
        who = f" (process {known['pid']} of {known['host']})" if {"pid", "host"} <= known.keys() else ""
        return LakeConflictError(
            f"another process lands there{who}", file=str(self._target), hint="end it, or land to another place"
        )

    @property
    def _content(self) -> dict[str, Any]:
        return {**self._own, "beats": self._beats}

    def _put(self, content: dict[str, Any], tag: str | None) -> str:
        return self._place.store.put(self._place.key, json.dumps(content).encode(), tag)

    def _beat_on(self) -> None:
        while not self._closing.wait(BEAT_SECONDS):
            with suppress(LakeError):  # The store may answer next time; who writes meanwhile sees for himself.
                self._beat()
            if self._lost is not None:
                return

    def _beat(self) -> None:
        with self._writing:
            begun = _now()
            self._beats += 1
            try:
                self._tag = self._put(self._content, self._tag)
            except TakenError:
                there = self._place.store.get(self._place.key)
                self._lost = self._conflict(b"{}" if there is None else there[0])
                return
            self._at = begun


def _now() -> float:
    """Return seconds that go on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _read(content: bytes) -> dict[str, Any]:
    """Return what an object says; nothing for one that is damaged."""
    with suppress(ValueError):
        known = json.loads(content)
        if isinstance(known, dict):
            return known
    return {}


def _is_free(content: bytes) -> bool:
    """Tell whether a run has let go of the object, or was one of this machine, and its process is gone."""
    known = _read(content)
    if known.get("run", "") is None:
        return True
    here = _process(os.getpid())
    if any(known.get(name) != here[name] for name in ("host", "boot", "processes")):
        return False
    pid = known.get("pid")
    return isinstance(pid, int) and _started(pid) != known.get("started")


def _process(pid: int) -> dict[str, Any]:
    """Tell which process something is: of which machine, since its start, and among which processes."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return {
        "host": socket.gethostname(),
        "boot": boot.read_text().strip() if boot.exists() else "",
        "processes": _link("/proc/self/ns/pid"),
        "pid": pid,
        "started": _started(pid),
    }


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """Tell when a process of this machine was started, in ticks of its clock; None for one that is gone."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else fields[18]
