"""The memory of a plugin that sends schemas within a session, as a value that goes from window to window.

PostgreSQL: RelationSyncCache and the publications of pgoutput.c, and the contents of the catalog caches that it asks.
The invalidations that a commit hands on to the transactions that run then (SnapBuildDistributeSnapshotAndInval) are not
here: they go with open transactions, from session to session.

Invariants: values, no views of the catalog; everything is sorted, so that memories of which nothing differs are equal
(:func:`headwater.base.value_codec.same`). What is remembered at the end of a window was so at its end, or an
invalidation would have named it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.constant_columns import check_lengths
from headwater.catalog.relation import Publication, PublicationMember
from headwater.reorder.integer_keys import distinct_rows
from headwater.reorder.wanted_changes import Description

Int64s = NDArray[np.int64]

MEMORIES = ENTRIES, LOADED, NAMES, ROWS, RELATIONS, MEMBERS, SCHEMAS = tuple(range(7))
"""The memories of a plugin that sends schemas, and the caches that it asks: its entries of relations, by OID (how they
are published); the publications as loaded, as one; the publication that each name given to it means, by number from 1;
catalog rows of publications, by OID; the publications that relations are in, by OID, and what each says of a relation
(:func:`member_subject`); the publications that schemas are in, by OID."""

ANNOUNCED = len(MEMORIES)
"""The relations that are announced, by OID, for a plugin that keeps that apart from its entries (14)."""

Subject = tuple[int, int]
"""The subject of an invalidation: one of these memories, and a key in it, 0 for all."""


def member_subject(key_hash: int) -> int:
    """Return a relation and a publication as a :data:`Subject`, by the hash of both OIDs as a key: not 0."""
    return key_hash + 1


class Entry(NamedTuple):
    """The plugin's description of a relation (RelationSyncEntry).

    Attributes:
        relation: its OID.
        said: the description.
    """

    relation: int
    said: Description


class Announced(NamedTuple):
    """A relation that has been announced, and the relation that it was published as then, both by OID.

    With a number other than 0 it may have been, if row filters let pass any of its changes since. All that depends on
    that has the number, too (:mod:`headwater.reorder.announcing.announcing`).
    """

    relation: int
    published_as: int
    number: int = 0


class StreamedAnnouncement(NamedTuple):
    """A relation that a streamed transaction has announced: by its toplevel xid; the rest as :class:`Announced`."""

    xid: int
    relation: int
    published_as: int
    number: int = 0


class NameInMind(NamedTuple):
    """The publication that the cache has under a name, by the name's number among those given.

    The OID is 0 if there was none.
    """

    number: int
    oid: int


class RowInMind(NamedTuple):
    """A publication's catalog row as the cache has it by OID; None if there was no row."""

    oid: int
    row: Publication | None


class RelationInMind(NamedTuple):
    """OIDs of the publications that a relation (by OID) is in by itself, as the cache has them.

    Negative ones are of publications of all tables that leave it out.
    """

    relation: int
    publications: tuple[int, ...]


class MemberInMind(NamedTuple):
    """A publication's entry of a relation, both by OID, as the cache has it."""

    relation: int
    publication: int
    member: PublicationMember


class SchemaInMind(NamedTuple):
    """OIDs of the publications that a schema (by OID) is in, as the cache has them."""

    schema: int
    publications: tuple[int, ...]


@dataclass(frozen=True)
class Given:
    """The subjects that commits hand on to transactions that run then, g of c commits, sorted, each once a commit.

    Attributes:
        lsn: int64[g] start of the commit record.
        memory: int64[g]; subject: int64[g] the thing that is forgotten (:data:`Subject`).
        commit: int64[c] start of the commit record of each one that hands on any messages; messages: int64[c] how many.
    """

    lsn: Int64s
    memory: Int64s
    subject: Int64s
    commit: Int64s
    messages: Int64s

    def check_parts(self) -> None:
        """Check that the columns are of one length.

        Raises:
            ValueError: they are not.
        """
        check_lengths([self.lsn, self.memory, self.subject])
        check_lengths([self.commit, self.messages])

    @classmethod
    def of(cls, subjects: Int64s, counts: Int64s) -> Given:
        """Sort the rows, and take each once.

        Args:
            subjects: int64[3, n] LSN, memory, subject.
            counts: int64[2, n] LSN, messages.
        """
        return cls(*distinct_rows(subjects)[0], *distinct_rows(counts)[0])

    def __or__(self, other: Given) -> Given:
        """Return the rows of both."""
        columns = zip(self._columns(), other._columns(), strict=True)
        return Given.of(*(np.concatenate(both, axis=1) for both in columns))

    def _columns(self) -> tuple[Int64s, Int64s]:
        return np.stack([self.lsn, self.memory, self.subject]), np.stack([self.commit, self.messages])

    def since(self, lsn: int) -> Given:
        """Return the rows of commits after an LSN."""
        row, commit = (int(np.searchsorted(column, lsn, "right")) for column in (self.lsn, self.commit))
        return Given(
            self.lsn[row:], self.memory[row:], self.subject[row:], self.commit[commit:], self.messages[commit:]
        )


class LastOutput(NamedTuple):
    """The output before something else.

    Attributes:
        end: LSN where it ended, -1 if nothing is known of it.
        time: the commit time of the last transaction, NO_TIME likewise.
    """

    end: int
    time: int


NO_TIME = -946_684_800_000_000
"""The commit time of no transaction: the beginning of 1970, in microseconds since 2000."""

NOTHING_BEFORE = LastOutput(-1, NO_TIME)
"""At the start."""


@dataclass(frozen=True)
class SchemaMemory:
    """The relations announced to the client, and the contents of caches, between two windows of one session.

    Attributes:
        entries: by relation; announced: by relation.
        loaded: the publications as loaded, in the order given, None for one that did not exist; None if they must be
            loaded again.
        names, rows, relations, members, schemas: the contents of the caches, by their numbers and OIDs.
        warned: names of publications whose absence has been warned of.
        streamed: the announcements of transactions in progress: they count for the others once they commit.
        shown: xids of transactions in progress of which something has been shown.
        last: the last output, of a plugin that tells of what came before.
        latest: LSN of the latest change at which something was looked up: changes after it that go by what is
            remembered see the same themselves.
    """

    entries: tuple[Entry, ...] = ()
    announced: tuple[Announced, ...] = ()
    loaded: tuple[Publication | None, ...] | None = None
    names: tuple[NameInMind, ...] = ()
    rows: tuple[RowInMind, ...] = ()
    relations: tuple[RelationInMind, ...] = ()
    members: tuple[MemberInMind, ...] = ()
    schemas: tuple[SchemaInMind, ...] = ()
    warned: tuple[str, ...] = ()
    streamed: tuple[StreamedAnnouncement, ...] = ()
    shown: tuple[int, ...] = ()
    last: LastOutput = NOTHING_BEFORE
    latest: int = 0

    @property
    def in_new_session(self) -> SchemaMemory:
        """The memory that another session begins with that goes on from here: what was output last was so."""
        return SchemaMemory(last=self.last)


NOTHING_REMEMBERED = SchemaMemory()
"""The start of a session."""
