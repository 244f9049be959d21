"""The number of records of each kind, and of their bytes (PostgreSQL: XLogRecStoreStats, ``xlogstats.c``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from headwater.rmgr.description import kind_name, manager_name
from headwater.rmgr.outline import Outline
from headwater.rmgr.registry import FIRST_CUSTOM, RMGR_NAMES, XACT

_KINDS = 16
"""The number of kinds of records that a resource manager can have."""

_MANAGERS = 256


class StatsRow(NamedTuple):
    """The records of one kind or resource manager.

    Attributes:
        name: the resource manager's name, for a kind with the kind's name after a slash.
        records: number of records; record_bytes: bytes without page images; image_bytes: bytes of page images.
    """

    name: str
    records: int
    record_bytes: int
    image_bytes: int


class RecordStats:
    """Sums over records, int64[3, 256 * 16]: how many, bytes without page images, bytes of page images."""

    def __init__(self, major: int) -> None:
        self._major = major
        self._sums = np.zeros((3, _MANAGERS * _KINDS), np.int64)

    def add(self, records: Outline) -> None:
        """Count the chosen records of an outline."""
        rmid, kind = records.rmid[records.is_chosen].astype(np.int64), records.info[records.is_chosen] >> 4
        # The uppermost bit of a transaction's record is a flag of its form.
        kind = np.where(rmid == XACT, kind & 7, kind)
        images = records.image_bytes[records.is_chosen]
        weights = (np.ones(len(rmid), np.int64), records.length[records.is_chosen] - images, images)
        for sums, weight in zip(self._sums, weights, strict=True):
            np.add.at(sums, rmid * _KINDS + kind, weight)

    @property
    def total(self) -> StatsRow:
        """The statistics of all records."""
        return StatsRow("Total", *map(int, self._sums.sum(axis=1)))

    def by_manager(self) -> Iterator[StatsRow]:
        """Give a row for each resource manager; of extensions' own for those that have records."""
        sums = self._sums.reshape(3, _MANAGERS, _KINDS).sum(axis=2)
        for rmid in range(_MANAGERS):
            if rmid < len(RMGR_NAMES) or (rmid >= FIRST_CUSTOM and sums[0, rmid]):
                yield StatsRow(manager_name(rmid), *map(int, sums[:, rmid]))

    def by_kind(self) -> Iterator[StatsRow]:
        """Give a row for each kind of record that there is.

        Raises:
            RecordError: a kind is unknown.
        """
        for code in np.flatnonzero(self._sums[0]).tolist():
            rmid, kind = divmod(code, _KINDS)
            name = kind_name(self._major, rmid, kind << 4, 0)
            yield StatsRow(f"{manager_name(rmid)}/{name}", *map(int, self._sums[:, code]))
