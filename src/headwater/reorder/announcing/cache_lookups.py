"""The look-ups that some changes go by, of one of the caches that a plugin asks.

In: the changes, in the order of the output, and what each asks for. Out: :class:`Lookups`. The rows of publications'
members are apart (:func:`look_up_members`): they come into their cache with the list of a relation's publications, each
over what was there before. They stay when that list goes, until a message has the hash of the relation and the
publication. So a change may find, by that key, the row of a later time, though the list of its own time has none.

PostgreSQL: SearchSysCache and SearchSysCacheList of utils/cache/catcache.c. That there was no row under a key is not
noted for members: where one comes into being, a list that is read brings it, over the note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.pg.catcache_hashes import hash_oids
from headwater.reorder.announced_schemas import MEMBERS, MemberInMind, member_subject
from headwater.reorder.announcing.cache_invalidation import CacheInvalidation, Places
from headwater.reorder.integer_keys import distinct_rows, within_groups

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Lookups:
    """The look-ups in one memory.

    Attributes:
        asker: int64[k] sorted: the askers, by number; subject: int64[k] for what.
        source: int64[k] which of the askers looked it up, or -1 - number of one remembered before the window.
        kept: (subject, whether it is from before the window: a negative number as above) remembered at the end.
    """

    asker: Int64s
    subject: Int64s
    source: Int64s
    kept: Sequence[tuple[int, int]]

    def of(self, asker: int) -> Iterator[tuple[int, int]]:
        """Give the subjects that one of the askers asks for, and the sources."""
        low, high = np.searchsorted(self.asker, [asker, asker + 1]).tolist()
        return zip(self.subject[low:high].tolist(), self.source[low:high].tolist(), strict=True)


def look_up(
    memory: int,
    known: Sequence[tuple[Any, ...]],
    asked: tuple[Int64s, Int64s],
    places: Places,
    forgetting: CacheInvalidation,
) -> Lookups:
    """Find out who looked up the things that some askers go by.

    Args:
        memory: the memory that is asked.
        known: the things remembered before the window, by their first field.
        asked: int64[k] sorted askers; int64[k] subjects.
        places: of all askers.
        forgetting: where things are forgotten.
    """
    asker, subject = asked
    result = forgetting.look_up(memory, np.array([entry[0] for entry in known], np.int64), subject, places.take(asker))
    source = np.where(result.source < 0, result.source, np.append(asker, 0)[np.maximum(result.source, -1)])
    return Lookups(asker, subject, source, list(zip(result.kept.tolist(), result.kept_source.tolist(), strict=True)))


def look_up_members(
    relations: Lookups,
    publications: Callable[[int, int], Sequence[int]],
    known: Sequence[MemberInMind],
    places: Places,
    forgetting: CacheInvalidation,
) -> tuple[list[tuple[int, int]], Lookups]:
    """Find whose list brought the rows of members that some askers find by their keys.

    Args:
        relations: the look-ups of relations' publications.
        publications: the publications that a relation is in, as the asker sees it who reads the list.
        known: the members remembered before the window.
        places: of all askers; forgetting: where things are forgotten.

    Returns:
        (relation, publication) of the members, sorted, and which asker finds which of them, by number.
    """
    lists = np.flatnonzero(relations.source == relations.asker)
    read_by = zip(relations.asker[lists].tolist(), relations.subject[lists].tolist(), strict=True)
    read = np.array([(by, oid, member) for by, oid in read_by for member in publications(by, oid)], np.int64)
    reader, *read_pairs = read.reshape(-1, 3).T
    known_pairs = np.array([entry[:2] for entry in known], np.int64).reshape(-1, 2).T
    pairs, number = distinct_rows(np.concatenate([known_pairs, np.stack(read_pairs)], axis=1))
    names = list(zip(*pairs.tolist(), strict=True))
    asker, subject = _pairs_of_relations(relations, pairs[0])
    asker, subject = np.append(reader, asker), np.append(number[len(known) :], subject)
    is_read = np.arange(len(asker)) < len(reader)
    order = np.lexsort([~is_read, asker])
    hashes = np.array([member_subject(hash_oids(*pair)) for pair in names], np.int64)
    asker, subject, is_read = asker[order], subject[order], is_read[order]
    result = forgetting.look_up(
        MEMBERS, number[: len(known)], subject, places.take(asker), lambda numbers: hashes[numbers], is_read
    )
    # What was known before the window has a negative source.
    is_there, reader = np.append(is_read, True), np.append(asker, 0)
    finds = np.flatnonzero(~is_read & is_there[np.maximum(result.source, -1)])
    source = np.where(result.source < 0, result.source, reader[np.maximum(result.source, -1)])
    remembered = np.flatnonzero(is_there[np.maximum(result.kept_source, -1)])
    remembered_at_end = zip(result.kept[remembered].tolist(), result.kept_source[remembered].tolist(), strict=True)
    return names, Lookups(asker[finds], subject[finds], source[finds], list(remembered_at_end))


def _pairs_of_relations(relations: Lookups, pair_relations: Int64s) -> tuple[Int64s, Int64s]:
    """Return (asker, number of a pair) of all pairs of the relations that are asked for.

    Args:
        relations: the askers, and the relations they ask for.
        pair_relations: int64[p] sorted, of each pair.
    """
    first, last = (np.searchsorted(pair_relations, relations.subject, side) for side in ("left", "right"))
    counts = last - first
    return np.repeat(relations.asker, counts), np.repeat(first, counts) + within_groups(counts)
