"""A run that leaves nothing: what is there to apply is applied and rolled back, and what would be refused is reported.

All is done in one transaction of the target, with a savepoint for each of the source's: what comes later sees what came
before. A transaction that something of is refused is done again, change by change, and what is refused is left out. The
source is told nothing, so its slot stays where it is; a slot over WAL is read as a copy of it.

Invariants: neither schema nor origin are made; all that was done is rolled back. Deferred constraints are checked at
the end of each transaction.

Known gaps: what sequences have given stays given. A transaction that is prepared comes when it is committed. Changes of
tables that are being copied, or are paused, are passed over.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.apply.batches.batch import Messages
from headwater.apply.incoming.feeds import Feed
from headwater.apply.incoming.messages import Delete, Insert, Message, Truncate, Update
from headwater.apply.incoming.pieces import messages_of
from headwater.apply.incoming.requests import ApplyRequest, WalSlot
from headwater.apply.incoming.slot_source import stream_options
from headwater.apply.incoming.wal_source import WalFeed
from headwater.apply.progress.applied_ahead import read_applied
from headwater.apply.progress.installation import is_installed
from headwater.apply.progress.origins import Origin
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.progress.run_states import read_run_state
from headwater.apply.progress.subscriptions import State, read_subscription, read_tables
from headwater.apply.refused.dead_letters import paused_tables
from headwater.apply.refused.skipping import Skipping
from headwater.apply.serial.checked_applier import UNDO
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.apply.streamed.parallel_origins import read_reached
from headwater.apply.streamed.spool import Spool
from headwater.apply.target.connection import Bound, Statement, TargetConnection
from headwater.apply.target.refusals import in_words_of_worker
from headwater.apply.target.relation_map import RelationMap
from headwater.apply.target.relations import MappedRelation
from headwater.apply.target.session import open_target
from headwater.errors import TargetError
from headwater.pg.lsn import lsn_text
from headwater.remote_slots.slot_connection import open_slot as open_server_slot
from headwater.remote_slots.slot_connection import start_slot
from headwater.remote_slots.slot_feed import SlotFeed
from headwater.slots.slot_directory import is_slot
from headwater.slots.slot_directory import open_slot as open_own_slot

WAIT_SECONDS, MOST_BYTES = 0.1, 16 << 20

_TRIAL = "headwater_trial"
_SAVE, _RELEASE = (Bound(Statement(f"{word} {_TRIAL}")) for word in ("SAVEPOINT", "RELEASE SAVEPOINT"))
_UNDO = f"ROLLBACK TO SAVEPOINT {_TRIAL}"
_ROW, _ROW_DONE = (Bound(Statement(f"{word} headwater_row")) for word in ("SAVEPOINT", "RELEASE SAVEPOINT"))
_CHECKS = tuple(
    Bound(Statement(sql))
    for sql in (
        "SAVEPOINT headwater_late",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "ROLLBACK TO SAVEPOINT headwater_late",
        "RELEASE SAVEPOINT headwater_late",
    )
)
_BEGIN, _COMMIT = b"B", b"C"

Report = Callable[[str], None]


@dataclass
class Findings:
    """The outcome of a dry run.

    Attributes:
        transactions: how many there were; refusals, conflicts: how many changes would be refused, or miss their rows.
        reached: LSN of the source up to which it has come.
    """

    transactions: int = 0
    refusals: int = 0
    conflicts: int = 0
    reached: int = 0


def dry_run(request: ApplyRequest, report: Report) -> Findings:
    """Apply what there is up to now, or to the end that is asked for, and roll all of it back.

    Args:
        request: what is asked for; report: is given a line for each change that would be refused, or miss its row.

    Raises:
        HeadwaterError: the source or the target refuses, or is lost.
    """
    with ExitStack() as stack:
        connection, facts = open_target(request.target, f"headwater dry run {request.subscription}")
        stack.enter_context(connection)
        reached, left_out = _place(connection, request)
        skipped = request.refusals.skip_lsn
        if skipped is None:
            skipped = read_run_state(connection, request.subscription).skip_lsn
        feed, end = _feed(stack, request, reached)
        relations = RelationMap(connection, facts, run_as_owner=request.runs_as_owner(facts.major))
        connection.rows("BEGIN")
        ahead = read_applied(connection, request.subscription, reached)
        skipping = Skipping(request.subscription, skipped, report, ahead, relations.server)
        run = _DryRun(_TrialApplier(connection, relations, left_out, skipping), request, report)
        return run.follow(feed, end)


def _place(connection: TargetConnection, request: ApplyRequest) -> tuple[int, frozenset[tuple[str, str]]]:
    """Return up to where the target has all, and the tables that are being copied or paused; change nothing."""
    reached = read_reached(connection, request.subscription, flushed=False)
    if not is_installed(connection):
        return reached, frozenset()
    left_out = set(paused_tables(connection, request.subscription))
    subscription = read_subscription(connection, request.subscription)
    for table in read_tables(connection, subscription) if subscription else ():
        if table.state not in (State.READY, State.SYNCDONE):
            left_out.add((table.namespace, table.name))
    return reached, frozenset(left_out)


def _feed(stack: ExitStack, request: ApplyRequest, reached: int) -> tuple[Feed, int]:
    """Return the feed, and the LSN at which it ends."""
    if request.wal is not None:
        feed = stack.enter_context(WalFeed(stack.enter_context(_copied(request.wal)), reached))
        return feed, feed.end if request.end is None else request.end
    slot = replace(request.slot, creates_slot=False, two_phase=False)
    connection, facts = open_server_slot(slot)
    try:
        options = stream_options(replace(request, slot=slot, streaming="off"), facts.major)
        stream = start_slot(connection, slot, reached, options)
    except BaseException:
        connection.close()
        raise
    # What the feed is made with is what it confirms.
    own = stack.enter_context(SlotFeed(stream, facts.confirmed, asks=True))
    return own, facts.flushed if request.end is None else request.end


@contextmanager
def _copied(slot: WalSlot) -> Iterator[WalSlot]:
    """Give a slot that is a copy, while nobody else can use the slot itself."""
    with ExitStack() as stack:
        slots = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-dry-run-")))
        if is_slot(slot.path):
            stack.enter_context(open_own_slot(slot.path))
            shutil.copytree(slot.path, slots / slot.name)
        yield replace(slot, slots=slots)


class _Undone(Exception):
    """The whole transaction has to be left out, as it is refused at its end."""


class _TrialApplier(SerialApplier):
    """The applier of a trial: its transactions are savepoints of one.

    Args:
        connection: the target's, in a transaction; relations: over it.
        left_out: tables, by schema and name, whose changes are passed over; skipping: the transaction that is.

    Attributes:
        is_careful: each change is tried by itself; refused: is told of what is refused then.
        missed: is told of rows that are not there.
    """

    def __init__(
        self,
        connection: TargetConnection,
        relations: RelationMap,
        left_out: frozenset[tuple[str, str]],
        skipping: Skipping,
    ) -> None:
        super().__init__(
            connection, relations, Origin("dry run", 0), FlushPositions(0), skipping=skipping, missing=self._miss
        )
        self._left_out, self.is_careful = left_out, False
        self.refused: Callable[[str, Message | None, TargetError], None] = lambda *_: None
        self.missed: Callable[[str, Message], None] = lambda *_: None

    def _take(self, message: Message, size: int) -> None:
        """Apply a change; what is refused is reported, where changes are tried by themselves."""
        if self.is_careful and isinstance(message, Insert | Update | Delete | Truncate):
            self._try(message, size)
        else:
            super()._take(message, size)

    @property
    def place(self) -> str:
        """Words for the transaction that is being tried."""
        remote = self._required()
        return f" in transaction {remote.xid}, finished at {lsn_text(remote.finish_lsn or 0, self._server)}"

    def key_of(self, message: Message) -> str:
        """Write the key of the row that a change is about, as servers do: ``(a, b)=(1, x)``."""
        relation = self._relations.sent(getattr(message, "oid", 0))
        row = getattr(message, "old", None) or getattr(message, "new", None)
        if relation is None or row is None:
            return ""
        places = [at for at, column in enumerate(relation.columns) if column.is_key]
        names = ", ".join(relation.columns[at].name for at in places)
        values = ", ".join(_shown(row.values[at]) for at in places)
        return f" ({names})=({values})" if places else ""

    def undo(self) -> None:
        """Undo the transaction that is being tried."""
        if self._is_open:
            self._connection.rows(_UNDO)
            self._connection.rows(_RELEASE.statement.sql)
        self._is_open, self._role, self._remote = False, None, None
        self._used.clear()

    def _try(self, message: Insert | Update | Delete | Truncate, size: int) -> None:
        self._ensure_open()
        role, self._is_guarded = self._role, True
        self._send(_ROW)
        try:
            super()._take(message, size)
            self._send(_ROW_DONE)
            self.flush()
        except TargetError as error:
            self._connection.rows(UNDO)
            self._connection.rows(_ROW_DONE.statement.sql)
            self._role = role
            self.refused(self._table(message), message, error)
        finally:
            self._is_guarded = False

    def _table(self, message: Message) -> str:
        oids = message.oids if isinstance(message, Truncate) else (getattr(message, "oid", 0),)
        return ", ".join('"{}"'.format(".".join(self._name(oid))) for oid in oids)

    def _miss(self, _mapped: MappedRelation, message: Update | Delete) -> None:
        self.missed(self._table(message), message)

    def _opened(self, oid: int, kind: str) -> MappedRelation | None:
        return None if self._name(oid) in self._left_out else super()._opened(oid, kind)

    def _clear_skip(self, finish_lsn: int | None) -> None:
        """Leave it to the run itself to take back what is to be skipped."""

    def _ensure_open(self) -> None:
        if not self._is_open:
            self._send(_SAVE)
            self._is_open = True

    def _end(self, end_lsn: int, time: int, command: Bound, kind: str = "COMMIT") -> None:  # noqa: ARG002
        self._as(None)
        self._used.clear()
        try:
            for check in _CHECKS:
                self._send(check, about=self._about(kind))
            self.flush()
        except TargetError as error:
            if not self.is_careful:
                raise
            self.refused("", None, error)
            raise _Undone from None
        self._send(_RELEASE)
        self._is_open = False
        self.flush()

    def _judged(self, error: TargetError) -> TargetError:
        if self._refused is not None:
            in_words_of_worker(self._connection, error, self._refused, UNDO if self._is_guarded else _UNDO)
        return error


class _DryRun:
    """A dry run.

    Args:
        applier: tries changes; request: what is asked for; report: see :func:`dry_run`.
    """

    def __init__(self, applier: _TrialApplier, request: ApplyRequest, report: Report) -> None:
        self._applier, self._report = applier, report
        self._scratch = request.scratch or Path(tempfile.gettempdir())
        self._findings, self._lines = Findings(), list[str]()
        self._refusals = self._conflicts = 0
        applier.refused, applier.missed = self._refused, self._missed

    def follow(self, feed: Feed, end: int) -> Findings:
        """Try what comes up to an LSN."""
        spool: Spool | None = None
        while True:
            piece = feed.take(WAIT_SECONDS, MOST_BYTES)
            for data, lsn in messages_of(piece):
                if data[:1] == _BEGIN:
                    spool = Spool(0, self._scratch)
                if spool is None:
                    self._applier.apply(data, lsn)
                    continue
                spool.add(0, data, lsn)
                if data[:1] == _COMMIT:
                    self._transaction(spool)
                    spool = None
            if piece.is_whole:
                self._findings.reached = max(self._findings.reached, piece.reached)
                if piece.reached >= end:
                    return self._findings

    def _transaction(self, spool: Spool) -> None:
        self._findings.transactions += 1
        if not self._is_tried(spool, is_careful=False):
            self._is_tried(spool, is_careful=True)
        spool.close()
        for line in self._lines:
            self._report(line)
        self._findings.refusals += self._refusals
        self._findings.conflicts += self._conflicts

    def _is_tried(self, spool: Spool, *, is_careful: bool) -> bool:
        self._lines, self._refusals, self._conflicts = [], 0, 0
        self._applier.is_careful = is_careful
        try:
            for piece in spool.pieces():
                for data, lsn in Messages.parse(piece):
                    self._applier.apply(data, lsn)
            self._applier.flush()
        except _Undone:
            self._applier.undo()
        except TargetError:
            if is_careful:
                raise
            self._applier.undo()
            return False
        return True

    def _refused(self, table: str, message: Message | None, error: TargetError) -> None:
        self._refusals += 1
        where = f"COMMIT{self._applier.place}" if message is None else self._change(table, message)
        detail = f" {error.detail}" if error.detail else ""
        self._lines.append(f"refused: {where}: {error.message} (SQLSTATE {error.sqlstate}){detail}")

    def _missed(self, table: str, message: Message) -> None:
        self._conflicts += 1
        kind = "update_missing" if isinstance(message, Update) else "delete_missing"
        self._lines.append(f"conflict: {self._change(table, message)}: {kind}")

    def _change(self, table: str, message: Message) -> str:
        return f"{type(message).__name__.upper()} of {table}{self._applier.key_of(message)}{self._applier.place}"


def _shown(value: bytes | None) -> str:
    return "null" if value is None else value[:64].decode("utf-8", "backslashreplace")
