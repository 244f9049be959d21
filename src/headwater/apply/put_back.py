"""Changes that were set aside, applied after all: those of paused tables in order, and dead letters one by one.

A paused table is brought up in one transaction: all of its changes in order, and then it is paused no longer. If one
of them is refused still, it stays paused, and nothing has changed. Dead letters are transactions of their own; what is
refused again stays.

Invariants: what is applied leaves the table of dead letters in the same transaction. It is done before the stream goes
on, so a table that goes on has all that came before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headwater.apply.incoming.messages import Relation
from headwater.apply.incoming.refusal_options import RefusalOptions
from headwater.apply.incoming.remote_transaction import RemoteTransaction
from headwater.apply.progress.origins import Origin
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.refused.dead_letters import Letter, first_letters, paused_tables, tables_of_letters
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.relation_map import RelationMap
from headwater.errors import TargetError
from headwater.plugins.table_patterns import TablePatterns

_DELETE = "DELETE FROM headwater.dead_letters WHERE id = ANY ('{{{}}}')"
_GO_ON = "DELETE FROM headwater.paused_tables WHERE subname = '{}' AND nspname = {} AND relname = {}"

Say = Callable[[str], None]


@dataclass(frozen=True)
class PutBack:
    """The way back for what was set aside.

    Attributes:
        connection: the target's, whose session has the origin; relations: makes a map of the source's relations.
        origin: the session's; subscription: its name; say: is told what becomes of it.
    """

    connection: TargetConnection
    relations: Callable[[], RelationMap]
    origin: Origin
    subscription: str
    say: Say

    def run(self, options: RefusalOptions) -> None:
        """Resume tables, and try dead letters again, as far as that is asked for.

        Raises:
            ConnectionLostError: the target is lost.
        """
        patterns = TablePatterns.parse(options.resumes) if options.resumes else None
        for table in paused_tables(self.connection, self.subscription):
            if patterns is not None and patterns.matches(".".join(table)):
                self._resume(table)
        if options.retries:
            self._retry()

    def _resume(self, table: tuple[str, str]) -> None:
        serial, name, count = self._serial(), ".".join(table), 0
        try:
            last: Letter | None = None
            while letters := first_letters(self.connection, self.subscription, table, is_of_pause=True):
                self._apply(serial, letters)
                count, last = count + len(letters), letters[-1]
            if last is not None:
                words = (_literal(word) for word in table)
                serial.command(_GO_ON.format(self.subscription, *words), "RESUME")
                self._commit(serial, last)
        except TargetError as error:
            self._refused(f'table "{name}" stays paused', error)
        else:
            self.say(f'table "{name}" goes on: {count} changes applied')

    def _retry(self) -> None:
        for table in tables_of_letters(self.connection, self.subscription):
            first, applied, left = 0, 0, 0
            while letters := self._letters(table, first):
                for letter in letters:
                    is_applied = self._try(letter)
                    applied, left = applied + is_applied, left + (not is_applied)
                first = letters[-1].id
            self.say(f'dead letters of table "{".".join(table)}": {applied} applied, {left} refused still')

    def _letters(self, table: tuple[str, str], first: int) -> list[Letter]:
        return first_letters(self.connection, self.subscription, table, is_of_pause=False, behind=first)

    def _try(self, letter: Letter) -> bool:
        serial = self._serial()
        try:
            self._apply(serial, [letter])
            self._commit(serial, letter)
        except TargetError as error:
            self._refused(f"dead letter {letter.id} is refused still", error)
            return False
        return True

    def _apply(self, serial: SerialApplier, letters: list[Letter]) -> None:
        relation = None
        for letter in letters:
            serial.begin(RemoteTransaction(letter.place.xid, letter.place.finish_lsn, letter.place.time))
            if letter.relation != relation:
                relation = letter.relation
                serial.flush()
                serial.change(Relation(0, relation))
            serial.change(letter.change)
        serial.command(_DELETE.format(",".join(str(letter.id) for letter in letters)), "RESUME")
        serial.flush()

    def _commit(self, serial: SerialApplier, letter: Letter) -> None:
        serial.commit(letter.place.finish_lsn, letter.place.time or 0, "RESUME")
        serial.flush()

    def _serial(self) -> SerialApplier:
        return SerialApplier(self.connection, self.relations(), self.origin, FlushPositions(0))

    def _refused(self, text: str, error: TargetError) -> None:
        self.connection.rows("ROLLBACK")
        self.say("\n".join([f"warning: {text}: {error.message} (SQLSTATE {error.sqlstate})", *error.details()]))


def _literal(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"
