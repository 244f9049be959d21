"""Counts of what was answered, by whom, and of what was refused; written by several threads."""

from __future__ import annotations

import threading
from collections import Counter
from enum import Enum


class Layer(Enum):
    """The layers that answer: of commands of replication, of SQL about catalogs, of rows, and what is behind them."""

    COMMANDS = "commands"
    CATALOG = "catalog"
    VIEWS = "views"
    ROWS = "rows"
    UPSTREAM = "upstream"
    ELSEWHERE = "elsewhere"


class AnswerCounts:
    """The counts of a service."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: Counter[str] = Counter({layer.value: 0 for layer in Layer})
        self._errors: Counter[str] = Counter()
        self._connections = 0

    def answered(self, layer: Layer) -> None:
        """Count an answer of a layer."""
        with self._lock:
            self._answers[layer.value] += 1

    def failed(self, sqlstate: str) -> None:
        """Count an error that a client was told of."""
        with self._lock:
            self._errors[sqlstate] += 1

    def connected(self) -> None:
        """Count a connection."""
        with self._lock:
            self._connections += 1

    @property
    def answers(self) -> dict[str, int]:
        """Answers by layer."""
        with self._lock:
            return dict(self._answers)

    @property
    def errors(self) -> dict[str, int]:
        """Errors by SQLSTATE."""
        with self._lock:
            return dict(self._errors)

    @property
    def connections(self) -> int:
        """Connections that came."""
        return self._connections
