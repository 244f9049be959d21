"""Versions of catalog rows, the fates of transactions, and who sees what.

Job: keep every version of a catalog row that the WAL or the backup shows, with the transactions that made and removed
it. A version is not forgotten when its place in the heap is reused: history is what decoding asks for. It goes when an
image is made whose horizon is later than all who could see it.
Mirrors the outcome, not the code, of HeapTupleSatisfiesHistoricMVCC (heapam_visibility.c): a transaction's changes are
visible at an LSN iff its commit record starts before it; the own transaction's by command ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.catalog.snapshot import xid_precedes
from headwater.rmgr.heap import TupleBytes

NEVER = (1 << 63) - 1
"""The commit LSN of a transaction that did not commit."""

Key = int | bytes
"""An OID, two OIDs in one number, or a name."""
Dependency = tuple[str, str, Key]
"""Catalog, index, key: what versions are looked up by."""

INVALID_XID, BOOTSTRAP_XID, FROZEN_XID, FIRST_NORMAL_XID = 0, 1, 2, 3
INVALID_COMMAND_ID = 0xFFFFFFFF


def relation_map_key(is_shared: bool, filenode: int) -> Dependency:
    """Name what an answer rests on that asked the relation map."""
    return ("relation map", "shared" if is_shared else "local", filenode)


@dataclass(frozen=True)
class OwnCommands:
    """A transaction that looks at its own changes: those of commands before ``command_id`` are visible to it.

    Attributes:
        xids: toplevel xid and subtransactions.
        command_id: ``curcid`` of its historic snapshot.
    """

    xids: frozenset[int]
    command_id: int


class Version:
    """One version of a catalog row.

    Attributes:
        xmin: raw ``t_xmin``, by which the version is known again on a page image.
        inserter: xid that decides whether it exists: ``xmin``, FROZEN_XID, or INVALID_XID for a known abort.
        cmin: command that inserted it, INVALID_COMMAND_ID if unknown.
        deleters: xid to command id (INVALID_COMMAND_ID if unknown) of all that deleted it, aborted ones too.
        copied_deleter: the deleter it had when it was first seen, or when its page was written as a whole; 0 none.
        data: the tuple; changed by :meth:`become` alone.
        keys: all that its catalog finds it by; None if nobody has asked since the tuple changed.
    """

    __slots__ = ("cmin", "copied_deleter", "data", "deleters", "inserter", "keys", "xmin")

    def __init__(self, xmin: int, inserter: int, data: TupleBytes) -> None:
        self.xmin = xmin
        self.inserter = inserter
        self.cmin = INVALID_COMMAND_ID
        self.deleters: dict[int, int] = {}
        self.copied_deleter = INVALID_XID
        self.data = data
        self.keys: tuple[Dependency, ...] | None = None

    def become(self, data: TupleBytes) -> None:
        """The tuple has other bytes from here on."""
        self.data = data
        self.keys = None

    def delete(self, xid: int, cmax: int = INVALID_COMMAND_ID) -> None:
        """Learn of a deleter; a known command id is kept."""
        if cmax != INVALID_COMMAND_ID or xid not in self.deleters:
            self.deleters[xid] = cmax

    def absorb(self, other: Version) -> None:
        """Learn what is known of another version that proved to be the same one, its copy or its original."""
        for xid, cmax in other.deleters.items():
            self.delete(xid, cmax)
        if self.cmin == INVALID_COMMAND_ID:
            self.cmin = other.cmin
        if other.inserter == FROZEN_XID:
            self.inserter = FROZEN_XID
        self.copied_deleter = INVALID_XID


class Fates:
    """When transactions committed.

    What the WAL has told is certain. What the backup says (``pg_xact`` and hint bits) may be of any time up to the end
    of the copy, so the WAL may still tell better; it is final once a transaction is known to have ended before the WAL
    that is read begins (:meth:`settle_before`).

    Args:
        committed_before: tells of an xid whether ``pg_xact`` of the backup has it as committed.
        next_xid: low 32 bits of the first xid that was to come when the catalog was taken, None if that is not known.
            Whatever the backup says of it and those after it may come from after the window: the WAL decides.
        trusts_hints: hint bits of page images may say what nothing else tells.
    """

    def __init__(
        self, committed_before: Callable[[int], bool], next_xid: int | None = None, trusts_hints: bool = True
    ) -> None:
        self._committed_before = committed_before
        self._next_xid = next_xid
        self._trusts_hints = trusts_hints
        self._settled: int | None = None
        self._lsns: dict[int, int] = {}
        self._hinted: set[int] = {BOOTSTRAP_XID, FROZEN_XID}
        self._before: dict[int, int] = {INVALID_XID: NEVER}

    def hint(self, xid: int) -> None:
        """A hint bit says that it committed; when is not known."""
        if self._trusts_hints and not self._is_to_come(xid):
            self._hinted.add(xid)

    def commit(self, xids: Iterable[int], lsn: int) -> None:
        """These committed, with a record that starts at ``lsn``."""
        for xid in xids:
            self._lsns[xid] = lsn

    def abort(self, xids: Iterable[int]) -> None:
        """These aborted."""
        for xid in xids:
            self._lsns[xid] = NEVER

    def settle_before(self, xid: int) -> None:
        """Every transaction older than this one has ended: of those that the WAL told nothing, the backup's word holds.

        Args:
            xid: low 32 bits; one that is older than a former one changes nothing.
        """
        if self._settled is None or xid_precedes(self._settled, xid):
            self._settled = xid

    def restore(self, lsns: Mapping[int, int], hinted: Iterable[int], settled: int | None) -> None:
        """Take over what another one was told.

        Args:
            lsns: per xid what :meth:`told` said.
            hinted: xids of which :meth:`is_hinted` said so.
            settled: what :meth:`settle_before` was told.
        """
        self._lsns.update(lsns)
        self._hinted.update(hinted)
        self._settled = settled

    def is_settled(self, xid: int) -> bool:
        """Whether the transaction is known to have ended."""
        return xid in self._lsns or (self._settled is not None and xid_precedes(xid, self._settled))

    @property
    def settled(self) -> int | None:
        """The xid that :meth:`settle_before` was told last."""
        return self._settled

    def told(self, xid: int) -> int | None:
        """What the WAL told of a transaction: where it committed, :data:`NEVER` for an abort, None for nothing yet."""
        return self._lsns.get(xid)

    def told_lately(self) -> Iterator[int]:
        """Transactions of which the WAL told, and that may have run at the last look at those that run.

        A transaction stays among the running ones for a moment after its record is in the WAL: who copies a row then
        writes that it is being deleted, and the record of the copy comes behind that of the transaction's end.
        """
        settled = self._settled
        return (xid for xid in self._lsns if settled is None or not xid_precedes(xid, settled))

    def all_told(self) -> Iterator[tuple[int, int]]:
        """What :meth:`told` says, of all transactions of which it says something."""
        return iter(self._lsns.items())

    def is_hinted(self, xid: int) -> bool:
        """Whether a hint bit said that it committed."""
        return xid in self._hinted

    def hinted_and_open(self) -> Iterator[int]:
        """Transactions that a hint bit said committed, and that may still run where the WAL has been followed to."""
        return (xid for xid in self._hinted if xid >= FIRST_NORMAL_XID and not self.is_settled(xid))

    def commit_lsn(self, xid: int) -> int:
        """Where it committed: 0 before the backup, :data:`NEVER` if it aborted or still runs.

        Raises:
            CatalogError: it ended before what is known of transactions begins.
        """
        lsn = self._lsns.get(xid)
        if lsn is not None:
            return lsn
        if xid in self._hinted:
            return 0
        before = self._before.get(xid)
        if before is None:
            committed = not self._is_to_come(xid) and self._committed_before(xid)
            before = self._before[xid] = 0 if committed else NEVER
        return before

    def _is_to_come(self, xid: int) -> bool:
        return self._next_xid is not None and xid >= FIRST_NORMAL_XID and not xid_precedes(xid, self._next_xid)

    def lifetime(self, version: Version) -> tuple[int, int]:
        """The version is visible at LSNs in ``(born, died]``."""
        died = min((self.commit_lsn(xid) for xid in version.deleters), default=NEVER)
        return self.commit_lsn(version.inserter), died


class Timeline:
    """All versions under one key, cut into spans of LSNs in which the visible ones are the same.

    Args:
        versions: the versions.
        fates: when transactions committed.

    Attributes:
        ends: span i is ``(ends[i-1], ends[i]]``; the last end is :data:`NEVER`.
        rows: per span the visible versions.
    """

    __slots__ = ("ends", "rows")

    def __init__(self, versions: Sequence[Version], fates: Fates) -> None:
        lives = [(born, died, v) for v in versions for born, died in (fates.lifetime(v),) if born < died]
        births = sorted(range(len(lives)), key=lambda i: lives[i][0])
        self.ends = sorted({lsn for born, died, _ in lives for lsn in (born, died) if 0 < lsn < NEVER}) + [NEVER]
        self.rows: list[tuple[Version, ...]] = []
        alive: list[int] = []
        at = 0
        for start in [0, *self.ends[:-1]]:
            while at < len(births) and lives[births[at]][0] <= start:
                alive.append(births[at])
                at += 1
            # Alive from start to the next end: born at or before start, not dead at start.
            alive = [i for i in alive if lives[i][1] > start]
            self.rows.append(tuple(lives[i][2] for i in alive))


def visible_to(version: Version, lsn: int, own: OwnCommands, fates: Fates) -> bool:
    """Whether a transaction sees a version at an LSN, its own changes by command id.

    As upstream, a version whose own command id is unknown is not there yet, and a deletion of unknown command id has
    not happened yet.
    """
    if version.inserter in own.xids:
        if version.cmin >= own.command_id:
            return False
    elif fates.commit_lsn(version.inserter) >= lsn:
        return False
    return not any(
        cmax < own.command_id if xid in own.xids else fates.commit_lsn(xid) < lsn
        for xid, cmax in version.deleters.items()
    )
