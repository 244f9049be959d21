"""Options of applying ordinary transactions in several sessions of the target at a time."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import UsageError

COMMIT, KEYS = "commit", "keys"
ORDERS = (COMMIT, KEYS)


@dataclass(frozen=True)
class ParallelOptions:
    """The options.

    Attributes:
        workers: sessions that apply ordinary transactions; 1 for the main one alone.
        order: ``commit`` for the source's order of commits; ``keys`` for that only where transactions have rows in
            common.
    """

    workers: int = 1
    order: str = COMMIT

    def __post_init__(self) -> None:
        if self.order == KEYS and self.workers < 2:
            raise UsageError("--order keys is of transactions that are applied at a time", hint="give --workers")

    @property
    def keeps_order(self) -> bool:
        """Whether transactions are committed in the source's order."""
        return self.order == COMMIT
