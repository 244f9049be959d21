"""Versions of catalog rows, the fates of transactions, and the rules of who sees what.

Job: keep every version of a catalog row that the WAL or the backup shows, with the transactions that made and removed
it. A version is not forgotten when its place in the heap is reused: history is what decoding asks for. It goes when an
image is made whose horizon is later than all who could see it. Mirrors the outcome, not the code, of
HeapTupleSatisfiesHistoricMVCC (heapam_visibility.c): a transaction's changes are visible at an LSN iff its commit
record starts before it. A transaction sees its own changes by command ids.
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
"""Catalog, index, key: the things that versions are looked up by."""

INVALID_XID, BOOTSTRAP_XID, FROZEN_XID, FIRST_NORMAL_XID = 0, 1, 2, 3
INVALID_COMMAND_ID = 0xFFFFFFFF


def relation_map_key(is_shared: bool, filenode: int) -> Dependency:
    """Name the dependency of an answer that asked the relation map."""
    return ("relation map", "shared" if is_shared else "local", filenode)


@dataclass(frozen=True)
class OwnCommands:
    """A transaction that looks at its own changes: those of commands before ``command_id`` are visible to it.

    Attributes:
        xids: the toplevel xid and its subtransactions.
        command_id: ``curcid`` of its historic snapshot.
    """

    xids: frozenset[int]
    command_id: int


class Version:
    """A version of a catalog row.

    Attributes:
        xmin: raw ``t_xmin``, by which the version is recognized again on a page image.
        inserter: xid that decides whether the version exists: ``xmin``, FROZEN_XID, or INVALID_XID for a known abort.
        cmin: command that inserted the version, INVALID_COMMAND_ID if unknown.
        deleters: xid to command id (INVALID_COMMAND_ID if unknown) of all that deleted the version, aborted ones too.
        copied_deleter: the deleter that the version had when it was first seen, or when its page was written as a
            whole; 0 none.
        data: the tuple; changed by :meth:`become` alone.
        keys: all keys that its catalog finds the version by; None if nobody has asked since the tuple changed.
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
        """Give the tuple other bytes from here on."""
        self.data = data
        self.keys = None

    def delete(self, xid: int, cmax: int = INVALID_COMMAND_ID) -> None:
        """Add a deleter; a known command id is kept."""
        if cmax != INVALID_COMMAND_ID or xid not in self.deleters:
            self.deleters[xid] = cmax

    def absorb(self, other: Version) -> None:
        """Take over what is known of another version that proved to be the same one, its copy or its original."""
        for xid, cmax in other.deleters.items():
            self.delete(xid, cmax)
        if self.cmin == INVALID_COMMAND_ID:
            self.cmin = other.cmin
        if other.inserter == FROZEN_XID:
            self.inserter = FROZEN_XID
        self.copied_deleter = INVALID_XID


class Fates:
    """The commits of transactions, and when they happened.

    The facts in the WAL are certain. The backup's word (``pg_xact`` and hint bits) may be of any time up to the copy's
    end, so the WAL may still correct it. That word is final once a transaction is known to have ended before the WAL
    that is read begins (:meth:`settle_before`).

    Args:
        committed_before: tells whether ``pg_xact`` of the backup has an xid as committed.
        next_xid: low 32 bits of the first xid that was to come when the catalog was taken, None if that is not known.
            The backup's word on it and those after it may come from after the window: the WAL decides.
        trusts_hints: whether hint bits of page images may say what nothing else does.
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
        """Note that a hint bit says that a transaction committed, at an unknown time."""
        if self._trusts_hints and not self._is_to_come(xid):
            self._hinted.add(xid)

    def commit(self, xids: Iterable[int], lsn: int) -> None:
        """Note that these transactions committed, with a record that starts at ``lsn``."""
        for xid in xids:
            self._lsns[xid] = lsn

    def abort(self, xids: Iterable[int]) -> None:
        """Note that these transactions aborted."""
        for xid in xids:
            self._lsns[xid] = NEVER

    def settle_before(self, xid: int) -> None:
        """Note that every transaction older than this one has ended.

        For those of which the WAL said nothing, the backup's word holds.

        Args:
            xid: low 32 bits; an xid that is older than a former one changes nothing.
        """
        if self._settled is None or xid_precedes(self._settled, xid):
            self._settled = xid

    def restore(self, lsns: Mapping[int, int], hinted: Iterable[int], settled: int | None) -> None:
        """Take over the facts of another instance.

        Args:
            lsns: for each xid the answer of :meth:`recorded`.
            hinted: xids of which :meth:`is_hinted` is true.
            settled: the xid that :meth:`settle_before` was called with.
        """
        self._lsns.update(lsns)
        self._hinted.update(hinted)
        self._settled = settled

    def is_settled(self, xid: int) -> bool:
        """Tell whether the transaction is known to have ended."""
        return xid in self._lsns or (self._settled is not None and xid_precedes(xid, self._settled))

    @property
    def settled(self) -> int | None:
        """The last xid that :meth:`settle_before` was called with."""
        return self._settled

    def recorded(self, xid: int) -> int | None:
        """Return a transaction's fate by the WAL: where it committed, :data:`NEVER` for an abort, None if unknown."""
        return self._lsns.get(xid)

    def recorded_lately(self) -> Iterator[int]:
        """Give the transactions whose end the WAL has, and that may have run at the last look at those that run.

        A transaction stays among the running ones for a moment after its record is in the WAL. Another that copies a
        row then writes that it is being deleted, and the record of the copy comes after that of the transaction's end.
        """
        settled = self._settled
        return (xid for xid in self._lsns if settled is None or not xid_precedes(xid, settled))

    def all_recorded(self) -> Iterator[tuple[int, int]]:
        """Give the answers of :meth:`recorded` for all transactions for which it has one."""
        return iter(self._lsns.items())

    def is_hinted(self, xid: int) -> bool:
        """Tell whether a hint bit said that a transaction committed."""
        return xid in self._hinted

    def hinted_and_open(self) -> Iterator[int]:
        """Give transactions that a hint bit said committed, and that may still run where the WAL followed ends."""
        return (xid for xid in self._hinted if xid >= FIRST_NORMAL_XID and not self.is_settled(xid))

    def commit_lsn(self, xid: int) -> int:
        """Return the LSN where a transaction committed: 0 before the backup, :data:`NEVER` if it aborted or still runs.

        Raises:
            CatalogError: the transaction ended before what is known of transactions begins.
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
        """Return the LSNs ``(born, died]`` at which the version is visible."""
        died = min((self.commit_lsn(xid) for xid in version.deleters), default=NEVER)
        return self.commit_lsn(version.inserter), died


class Timeline:
    """All versions under one key, cut into spans of LSNs in which the visible ones are the same.

    Args:
        versions: the versions.
        fates: the commits of transactions.

    Attributes:
        ends: span i is ``(ends[i-1], ends[i]]``; the last end is :data:`NEVER`.
        rows: for each span the visible versions.
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
    """Tell whether a transaction sees a version at an LSN, its own changes by command id.

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
