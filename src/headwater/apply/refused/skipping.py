"""The transaction that is skipped: the one whose finish LSN was given; and those that are applied already.

Its changes are passed over, and its end is committed as ever, together with taking back what was given. The first other
transaction that changes anything takes it back, too, with a warning: a wrong LSN does not lie in wait.

Where sessions commit in an order of their own, a kill may leave transactions that are applied, while one before them is
not (:mod:`headwater.apply.progress.applied_ahead`). They are passed over without a word. What notes them is removed in
the first transaction that is committed once all of them have come.

PostgreSQL: worker.c (maybe_start_skipping_changes, stop_skipping_changes, clear_subscription_skip_lsn); 15 to 19. Here
for targets of 14, too.

Known gap: what a table's own worker catches up with is not skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headwater.apply.progress.applied_ahead import forget_applied
from headwater.apply.progress.run_states import clear_skip
from headwater.apply.target.connection import Bound, Outcome
from headwater.pg.lsn import lsn_text
from headwater.pg.version import VERSIONS, Version

Say = Callable[[str], None]
Taken = tuple[Bound, Callable[[Outcome], None]]
"""A statement, and what its outcome goes to."""
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
        self._server, self._has_notes = server, bool(ahead)
        self._is_ahead = self.is_skipping = False

    @property
    def is_set(self) -> bool:
        """Whether a transaction is still to be skipped, or what notes those that were is there."""
        return bool(self._lsn or self._has_notes)

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

    def clear(self, finish_lsn: int) -> Iterator[Taken]:
        """Yield the statements that take back what was given, and that forget what was applied ahead, if all has come.

        Args:
            finish_lsn: of the transaction that ends, and which the statements are in or behind.
        """
        was_ahead, self._is_ahead = self._is_ahead, False
        if self._has_notes and all(lsn <= finish_lsn for lsn in self._ahead):
            self._has_notes, self._ahead = False, frozenset()
            yield forget_applied(self._subscription), lambda _: None
        if self._lsn and not was_ahead:
            yield self._take_back(finish_lsn)

    def _take_back(self, finish_lsn: int) -> Taken:
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
