"""An applier that looks at the results of what was sent, and applies again, with checks, what has met a conflict.

Invariants: what is applied again is what was sent, in its order; what was committed is never. What cannot be sent again
from here is asked of the source again.

PostgreSQL: no counterpart: the apply worker looks at each row before it changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from headwater.apply.refused.set_aside import AppliedAgainError
from headwater.apply.serial.row_applier import RowApplier
from headwater.apply.serial.sent_transactions import Place, SentTransaction
from headwater.apply.target.connection import Bound, Statement, TargetConnection
from headwater.apply.target.refusals import changed_meanwhile, in_words_of_worker, name_grant
from headwater.apply.target.relation_map import MappingChangedError
from headwater.apply.target.relations import MappedRelation
from headwater.errors import TargetError

UNDO = "ROLLBACK TO SAVEPOINT headwater_row"
_ROLLBACK = Bound(Statement("ROLLBACK"))
_BEGIN_RUN, _END_RUN, _UNDO_RUN = (
    Bound(Statement(f"{command} headwater_run")) for command in ("SAVEPOINT", "RELEASE", "ROLLBACK TO")
)
_UNIQUE_VIOLATION = "23505"


class TakenAgainError(Exception):
    """A change was about to be sent when its transaction was applied again: it has to be taken as those before it."""


class CheckedApplier(RowApplier):
    """The applier; see :class:`headwater.apply.serial.target_transaction.TargetTransaction`."""

    def flush(self) -> None:
        """Wait until all that was sent is applied.

        Raises:
            TargetError: something of it is refused.
            MappingChangedError: it is refused, or was undone, as a table has changed meanwhile.
            ConnectionLostError: the target is lost.
        """
        while True:
            try:
                self._settle()
            except TargetError as error:
                # Its result may have come before, when too many were waited for.
                failed, self._failed = self._failed, None
                self._recover(error, failed)
                continue
            self._failed = None
            if self._to_check is None:
                break
            self._check_again(self._to_check)
        self._statements = 0
        self._report()
        if not self._is_resending:
            has_resent, self._has_resent = self._has_resent, False
            if has_resent and self._is_taking and not self._aside.is_idle:
                raise TakenAgainError

    def open_tables(self, oids: Iterable[int]) -> None:
        """Map relations that changes of the transaction are about, which begins with them; the role is the session's.

        Raises:
            TargetError, DecodingError, ConnectionLostError: see :meth:`apply`.
        """
        for oid in oids:
            self._opened(oid, "INSERT")
        self._as(None)

    def attempt(self, send: Callable[[TargetConnection], bool], count: int, size: int) -> bool:
        """Let something send statements of the transaction's behind a savepoint; false if it failed, and is undone.

        All that was sent before has been applied then.

        Args:
            send: sends them; count: of the changes that they make; size: about how many bytes these have.

        Raises:
            TargetError: something that was sent before is refused.
            ConnectionLostError: the target is lost.
        """
        self._ensure_open()
        self._as(None)
        self.flush()
        self._connection.send(_BEGIN_RUN)
        try:
            is_done = send(self._connection)
        except TargetError:
            is_done = False
            with suppress(TargetError):
                self._settle()
        for command in (_END_RUN,) if is_done else (_UNDO_RUN, _END_RUN):
            self._connection.send(command)
        self._settle()
        if is_done:
            self._size = size
            self._keep(partial(self._attempt_again, send, (self._number, count, size), dict(self._used)))
            self._number += count
        return is_done

    def _attempt_again(
        self, send: Callable[[TargetConnection], bool], counts: tuple[int, int, int], used: dict[int, MappedRelation]
    ) -> None:
        """Have done again what had succeeded before all was rolled back.

        Raises:
            TargetError: it does not now; the source has to send the transaction again.
        """
        self._used.update(used)
        self._number, count, size = counts
        if not self.attempt(send, count, size):
            raise AppliedAgainError("what was applied before was refused when it was applied again", sqlstate="40001")

    def look_closely(self) -> None:
        """Apply each change of the transaction by itself from here on, but for those that are applied together.

        So nothing of it has to be applied again, whatever else is refused, or meets a conflict.
        """
        self._is_close = True
        self._aside.look_closely()
        # What is looked at so is not kept.
        self._lose()

    def _recover(self, error: TargetError, failed: Place | None) -> None:
        """Apply again, with checks, what has met a conflict; or without a row that can be set aside what was refused.

        Raises:
            TargetError: it is neither, or it is a conflict that is an error.
        """
        conflicts = self._conflicts
        is_conflict = conflicts is not None and failed is not None and error.sqlstate == _UNIQUE_VIOLATION
        if not self._is_guarded and is_conflict and conflicts is not None and conflicts.resends:
            assert failed is not None
            self._check_again(self._to_check or failed)
            return
        refusal = self._refused_with(error)
        if not isinstance(refusal, AppliedAgainError) or failed is None or not self._apply_again(failed):
            raise refusal from None

    def _apply_again(self, place: Place) -> bool:
        """Apply again what was rolled back, with a savepoint before each row; false if that is not at hand any more."""
        remote, number, sent = self._remote, self._number, self._sent.clear()
        if place.transaction not in sent or not all(transaction.is_whole for transaction in sent):
            return False
        self._send_aside(sent[sent.index(place.transaction) :])
        self._remote, self._number = remote, number
        return True

    def _send_aside(self, sent: list[SentTransaction]) -> None:
        """Send again what of transactions is not committed, with a savepoint before each row that can be set aside."""
        self._sent.clear()
        self._to_check = self._failed = None
        self._undo()
        if self._conflicts is not None:
            self._conflicts.forget([transaction.remote for transaction in sent])
        self._aside.begin(self._connection)
        self._send_again([each for each in sent if (each.remote.finish_lsn or 0) > self._ended_at], None)

    def _check_again(self, place: Place) -> None:
        """Roll back, and apply again, with checks from a step on.

        Raises:
            TargetError: the target refuses something, or a conflict is an error.
            CheckedAnewError: the source has to send it again.
        """
        conflicts, remote, number = self._conflicts, self._remote, self._number
        assert conflicts is not None
        self._to_check, sent = None, self._sent.clear()
        self._undo()
        conflicts.forget([place.transaction.remote, *(transaction.remote for transaction in sent)])
        self._report()
        if self._relations.has_changed():
            raise MappingChangedError("a table has changed meanwhile", sqlstate="55000")
        if place.transaction not in sent or not all(transaction.is_whole for transaction in sent):
            raise conflicts.checked_anew(place.transaction.remote)
        again = sent[sent.index(place.transaction) :]
        try:
            self._send_again(again, place)
        except AppliedAgainError:
            self._send_aside(again)
        self._remote, self._number = remote, number

    def _send_again(self, sent: list[SentTransaction], place: Place | None) -> None:
        """Send transactions again, with checks from a step on to the end of its transaction."""
        was_resending, self._is_resending, self._has_resent = self._is_resending, True, True
        try:
            for transaction in sent:
                self._begins(transaction.remote)
                for at, step in enumerate(transaction.steps):
                    self._is_careful = place is not None and transaction is place.transaction and at >= place.number
                    self._repeat(step)
                # Up to its end, as what is applied with checks cannot be sent again without.
                if transaction.end is not None:
                    transaction.end()
                    self._is_careful = False
        finally:
            self._is_resending = was_resending

    def _undo(self) -> None:
        self._connection.send(_ROLLBACK)
        self._settle()
        self._is_open, self._role = False, None
        self._used.clear()

    def _report(self) -> None:
        """Tell of the conflicts that were met.

        Raises:
            TargetError: the target refuses what would have been stored.
        """
        if self._conflicts is None:
            return
        try:
            self._conflicts.report()
        except TargetError as error:
            raise self._judged(error) from None
        if not self._is_open:
            self._conflicts.write_down()

    def _refused_with(self, error: TargetError) -> TargetError:
        """Return an error in the apply worker's words; what was met before it is told of, as all is rolled back.

        One that is behind a savepoint of its own ends nothing.
        """
        judged = self._judged(error)
        if not self._is_guarded and self._conflicts is not None:
            self._is_open = False
            self._report()
        return judged

    def _judged(self, error: TargetError) -> TargetError:
        """Return the error of what was refused, in the apply worker's words; its transaction is rolled back."""
        if self._refused is not None:
            in_words_of_worker(self._connection, error, self._refused, UNDO if self._is_guarded else "ROLLBACK")
        if self._is_guarded:
            return error
        name_grant(error)
        sent, remote = self._refused, self._refused_in
        judged = changed_meanwhile(self._connection, self._relations, error)
        if judged is error and sent is not None and remote is not None:
            name = (sent.mapped.namespace, sent.mapped.name)
            if self._aside.applies_again(name, remote.finish_lsn, error):
                return AppliedAgainError(error.message, sqlstate=error.sqlstate, context=error.context)
        return judged

    def _has_refused_row(self) -> bool:
        return self._refused is not None
