"""The places where the plugin's caches are invalidated, so that a relation's schema must be sent again.

In: the invalidation messages of an index, and what is replayed of it. Out: :class:`InvalidationPlaces`, places of
the output, and what commits hand on to the transactions that run then.

PostgreSQL: invalidations of reorderbuffer.c, snapbuild.c and inval.c. A transaction's own ones run where they were
logged, and all of them again after each of its replays (its commit; or PREPARE, and what follows that); those of a
transaction that commits meanwhile where it committed (distributed invalidations, servers from May 2025 on), and again
after the receiver's own replay; those without an xid at once. A place is (replay, LSN inside it); changes have places
too, so the schema goes before the first wanted change at or after each place of invalidation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.announced_schemas import Given, Subject
from headwater.reorder.commits.replays import Replays
from headwater.reorder.commits.transactions import CommittedTransactions
from headwater.reorder.integer_keys import distinct_rows, lookup, stable_order, within_groups
from headwater.rmgr.index.index_rows import InvalidationTable

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

AT_START = -1
"""Place inside a transaction before its first change."""

AT_END = np.iinfo(np.int64).max
"""Place inside a transaction after its last change."""


class Message(NamedTuple):
    """An invalidation message of our database, or of shared catalogs (``headwater.plugins.api.SinvalMessage``)."""

    id: int
    value: int


@dataclass(frozen=True)
class Concerns:
    """The subjects of invalidation messages, one row a message and subject, m of them, in LSN order.

    Attributes:
        xid: int64[m] of the message, 0 for none; lsn: int64[m] of its record.
        memory: int64[m]; subject: int64[m] (:data:`Subject`).
        message_xid: int64[a] xids of all messages, whatever they are about; message_lsn: int64[a] of their records.
    """

    xid: Int64s
    lsn: Int64s
    memory: Int64s
    subject: Int64s
    message_xid: Int64s
    message_lsn: Int64s


@dataclass(frozen=True)
class InvalidationPlaces:
    """The places where things that the plugin remembers are looked up again, f of them, in no order.

    Attributes:
        memory: int64[f]; subject: int64[f] the thing that is forgotten.
        txn: int64[f] the replay by number; their count stands for what follows the last one.
        lsn: int64[f] the place inside, or AT_START, AT_END.
    """

    memory: Int64s
    subject: Int64s
    txn: Int64s
    lsn: Int64s


def concerns(
    messages: InvalidationTable, database: int, heeded: Set[int], forgets: Callable[[Message], Iterable[Subject]]
) -> Concerns:
    """Find the subjects of the messages of one database, and of shared catalogs.

    Args:
        messages: of an index.
        database: its OID.
        heeded: ids of the messages that are about anything.
        forgets: gives the subjects of a message; asked once for equal ones.
    """
    ours = (messages.db == 0) | (messages.db == database)
    which = np.flatnonzero(ours & np.isin(messages.id, np.array(sorted(heeded), np.int64)))
    key = messages.id[which].astype(np.int64) << 32 | messages.value[which]
    keys, number = np.unique(key, return_inverse=True)
    subjects_of = [set(forgets(Message(message >> 32, message & 0xFFFFFFFF))) for message in keys.tolist()]
    counts = np.array([len(subjects) for subjects in subjects_of], np.int64)
    memory, subject = np.array([pair for subjects in subjects_of for pair in subjects], np.int64).reshape(-1, 2).T
    of_message = counts[number]
    at = np.repeat((np.cumsum(counts) - counts)[number], of_message) + within_groups(of_message)
    row = np.repeat(which, of_message)
    return Concerns(messages.xid[row], messages.lsn[row], memory[at], subject[at], messages.xid, messages.lsn)


def find_forgets(
    concerned: Concerns, toplevel: Callable[[Int64s], Int64s], txns: Replays, decoded: Bools
) -> tuple[InvalidationPlaces, Given]:
    """Find the places at which something is forgotten, but for those where it is handed on; and what is handed on.

    Args:
        concerned: of the index.
        toplevel: from xids to their toplevel xids.
        txns: the replays.
        decoded: bool[t] replays whose changes the server decodes, even if nothing is output of them.
    """
    what, at_once = np.stack([concerned.memory, concerned.subject]), concerned.xid == 0
    member = np.where(at_once, -1, txns.replay_of(concerned.xid, concerned.lsn))
    now = np.flatnonzero(at_once)
    inside = np.flatnonzero(np.append(decoded, False)[member])
    ended, row = _ended(concerned.xid, concerned.lsn, toplevel, txns)
    received, _ = distinct_rows(np.stack([ended, *what[:, row]]))
    txn, what_received = received[0], received[1:]
    memory, subject = np.concatenate([what[:, inside], what[:, now], what_received], axis=1)
    after_now = np.searchsorted(txns.place, concerned.lsn[now], "right")
    places = np.concatenate([member[inside], after_now, txn])
    start, end = np.full(len(now), AT_START, np.int64), np.full(len(txn), AT_END, np.int64)
    lsns = np.concatenate([concerned.lsn[inside], start, end])
    gives = txns.commits[txn]
    counts = np.bincount(
        _ended(concerned.message_xid, concerned.message_lsn, toplevel, txns)[0], minlength=len(txns.xid)
    )
    givers = np.flatnonzero((counts > 0) & txns.commits)
    given = Given.of(
        np.stack([txns.place[txn[gives]], *what_received[:, gives]]), np.stack([txns.place[givers], counts[givers]])
    )
    return InvalidationPlaces(memory, subject, places, lsns), given


def _ended(xid: Int64s, lsn: Int64s, toplevel: Callable[[Int64s], Int64s], txns: Replays) -> tuple[Int64s, Int64s]:
    """Find all replays after some messages of their transactions: numbers, and the message that each is for."""
    return txns.ends_of(np.where(xid == 0, -1, toplevel(xid)), lsn)


def committed_with(xid: Int64s, toplevel: Callable[[Int64s], Int64s], txns: CommittedTransactions) -> Int64s:
    """Find the committed transactions that the toplevel xids of some xids are, -1 for none: int64[n]."""
    order = stable_order(txns.xid)
    return np.where(xid == 0, -1, lookup(txns.xid[order], order, toplevel(xid)))
