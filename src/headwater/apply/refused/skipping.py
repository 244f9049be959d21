"""The transaction that is skipped: the one whose finish LSN was given; and those that are applied already.

Its changes are passed over, and its end is committed as ever, together with taking back what was given. The first other
transaction that changes anything takes it back, too, with a warning: a wrong LSN does not lie in wait.

Where sessions commit in an order of their own, a kill may leave transactions that are applied, while one before them is
not (:mod:`headwater.apply.progress.applied_ahead`). They are passed over without a word.

PostgreSQL: worker.c (maybe_start_skipping_changes, stop_skipping_changes, clear_subscription_skip_lsn); 15 to 19. Here
for targets of 14, too.

Known gap: what a table's own worker catches up with is not skipped.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.apply.progress.run_states import clear_skip
from headwater.apply.target.connection import Bound, Outcome
from headwater.pg.lsn import lsn_text
from headwater.pg.version import VERSIONS, Version

Say = Callable[[str], None]
OLDEST = VERSIONS[min(VERSIONS)]


class Skipping:
    """The transaction that is to be skipped, as one session has it.

    Args:
        subscription: its name; lsn: the transaction's finish LSN, 0 for none.
        say: is told of the beginning and the end, in the server's words.
        ahead: finish LSNs of transactions that are applied already.
        server: the target's version, in whose words LSNs are printed.
    """

    def __init__(
        self,
        subscription: str,
        lsn: int,
        say: Say = lambda _: None,
        ahead: frozenset[int] = frozenset(),
        server: Version = OLDEST,
    ) -> None:
        self._subscription, self._lsn, self._say, self._ahead = subscription, lsn, say, ahead
        self._server = server
        self._is_ahead = self.is_skipping = False

    @property
    def is_set(self) -> bool:
        """Whether a transaction is still to be skipped."""
        return bool(self._lsn or self._ahead)

    def begins(self, finish_lsn: int) -> None:
        """Note that a transaction begins, or what its finish LSN is."""
        self._is_ahead = finish_lsn in self._ahead
        if self._ahead:
            self._ahead = frozenset(lsn for lsn in self._ahead if lsn >= finish_lsn)
            self.is_skipping = self.is_skipping or self._is_ahead
        if self._lsn == finish_lsn and not self.is_skipping:
            self.is_skipping = True
            self._say(f"logical replication starts skipping transaction at LSN {self._print(finish_lsn)}")

    def completes(self) -> bool:
        """Note that the transaction that began last ends; tell whether its changes were skipped."""
        if self.is_skipping and not self._is_ahead:
            self._say(f"logical replication completed skipping transaction at LSN {self._print(self._lsn)}")
        was_skipping, self.is_skipping = self.is_skipping, False
        return was_skipping

    def clear(self, finish_lsn: int) -> tuple[Bound, Callable[[Outcome], None]] | None:
        """Return the statement that takes back what was given, and what its outcome goes to; None if nothing was.

        Args:
            finish_lsn: of the transaction that ends.
        """
        was_ahead, self._is_ahead = self._is_ahead, False
        if not self._lsn or was_ahead:
            return None
        lsn, self._lsn = self._lsn, 0

        def cleared(outcome: Outcome) -> None:
            if outcome.count and lsn != finish_lsn:
                self._say(
                    f'skip-LSN of subscription "{self._subscription}" cleared\n'
                    f"DETAIL:  Remote transaction's finish WAL location (LSN) {self._print(finish_lsn)} "
                    f"did not match skip-LSN {self._print(lsn)}."
                )

        return clear_skip(self._subscription, lsn), cleared

    def _print(self, lsn: int) -> str:
        return lsn_text(lsn, self._server)
