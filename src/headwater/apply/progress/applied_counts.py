"""Counts of what a subscription has applied since its process began, and why it failed; written by its threads."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np

from headwater.errors import ConnectionLostError, HeadwaterError, ServerError
from headwater.remote_slots.framed_messages import find_messages

_CHANGES = np.frombuffer(b"IUDT", np.uint8)
_ENDS = np.frombuffer(b"CPKrcp", np.uint8)
"""Messages that are changes; and those that end a transaction, or a part of one that is prepared."""

_LOST, _UNNAMED = "08006", "XX000"
"""A connection that is lost, and an error, which no server has named."""


class AppliedCounts:
    """The counts.

    Attributes:
        transactions, changes, bytes: that came from the source, and were applied or passed over.
        sessions: that were begun; last_error: None for none yet.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.transactions = self.changes = self.bytes = self.sessions = 0
        self._errors: Counter[str] = Counter()
        self.last_error: str | None = None

    def applied(self, data: bytes) -> None:
        """Count the messages of a piece of the stream."""
        if data:
            counts = np.bincount(find_messages(np.frombuffer(data, np.uint8)).kind, minlength=256)
            self.transactions += int(counts[_ENDS].sum())
            self.changes += int(counts[_CHANGES].sum())
            self.bytes += len(data)

    def failed(self, error: HeadwaterError) -> None:
        """Count an error."""
        sqlstate = error.sqlstate if isinstance(error, ServerError) else None
        unnamed = _LOST if isinstance(error, ConnectionLostError) else _UNNAMED
        with self._lock:
            self._errors[sqlstate or unnamed] += 1
            self.last_error = error.one_line()

    @property
    def errors(self) -> dict[str, int]:
        """Errors by SQLSTATE."""
        with self._lock:
            return dict(self._errors)
