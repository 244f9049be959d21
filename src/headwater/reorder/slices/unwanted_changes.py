"""Changes that are replayed and not decoded, as none of their relation, as it was then, are wanted.

In: the candidates of a window, each with the number of its relation. Out: answers about some of these relations;
nothing is computed, or copied, until somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import RelationSchema
from headwater.reorder.commits.replays import Replays
from headwater.reorder.plan import RelationUse
from headwater.reorder.slices.changes import Candidates

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class PassedOver:
    """The unwanted changes of a window.

    Attributes:
        candidates: all changes of the window, c.
        resolution: int64[c] the number of each one's relation, -1 for none.
        relations: by number.
        txns: the replays that they are of.
    """

    candidates: Candidates
    resolution: Int64s
    relations: Sequence[RelationUse]
    txns: Replays

    def has_before(self, oid: int, lsn: int) -> bool:
        """Tell whether a relation has unwanted changes that lie before an LSN.

        Args:
            oid: the relation's; lsn: the LSN.
        """
        own = [number for number, use in enumerate(self.relations) if use.schema.oid == oid and _is_silent(use)]
        return bool(own) and bool(np.any(np.isin(self.resolution, own) & (self.candidates.first < lsn)))

    def beside_ddl(self) -> Iterator[tuple[int, RelationSchema]]:
        """Find relations that a transaction has changed the rows of, which has changed the catalog as well.

        Yields:
            START of the commit's record, and the relation as it was at a change.
        """
        is_silent = np.array([_is_silent(use) for use in self.relations] + [False], np.bool_)
        if not is_silent.any():
            return
        at = np.flatnonzero(is_silent[self.resolution] & self.txns.changes_catalog[self.candidates.txn])
        pairs = np.unique(np.stack([self.txns.final_lsn[self.candidates.txn[at]], self.resolution[at]]), axis=1)
        for lsn, number in pairs.T.tolist():
            yield lsn, self.relations[number].schema


def _is_silent(use: RelationUse) -> bool:
    return not use.wants and not use.is_toast
