"""Requests that have failed by themselves, such as for a publication that is missing, and where.

Their clients try again, every few seconds. Until they have come over the place they are decoded for alone, so that no
company of theirs begins a window anew each time.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from headwater.pipeline.requests.request import DecodeRequest

MOST = 256
"""Requests that are known, at most; the oldest are forgotten."""


class Faults:
    """The requests; any thread asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[DecodeRequest, int] = {}

    def note(self, request: DecodeRequest, lsn: int) -> None:
        """Note that a request has failed before an LSN."""
        with self._lock:
            self._until.pop(_key(request), None)
            self._until[_key(request)] = lsn
            while len(self._until) > MOST:
                del self._until[next(iter(self._until))]

    def until(self, request: DecodeRequest) -> int:
        """Return the LSN before which a request is decoded for alone; 0 for nowhere."""
        with self._lock:
            return self._until.get(_key(request), 0)


def _key(request: DecodeRequest) -> DecodeRequest:
    return replace(request, start=None, slot="")
