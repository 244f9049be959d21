"""The upkeep of tables while they land: small files of change tables are put together, old versions removed.

A piece of work at a time: a group of small files, or the old versions of a table. One is done where the run would wait,
as nothing is there to land or commits are held; or where none was done for :data:`MOST_SECONDS_WITHOUT`. So the run
lags by a piece at most, a few seconds.

Invariants: what was resolved within the time that versions are kept can be read. Called between windows, by the thread
that commits.

Known gaps: files of mirrors are kept by what lands them (:mod:`headwater.landing.mirrors`), not here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headwater.lakes.compaction import TARGET_FILE_BYTES, compacting
from headwater.lakes.target_directory import Lake
from headwater.landing.landing_modes import CHANGELOG
from headwater.landing.landing_watch import LandingWatch

MOST_SECONDS_WITHOUT = 60.0
"""After which a piece is done though something is there to land."""


@dataclass(frozen=True)
class UpkeepOptions:
    """The options of upkeep.

    Attributes:
        keep: how long versions are kept.
        round_seconds: from the beginning of one round over all tables to that of the next, at least.
    """

    keep: timedelta
    round_seconds: float = 600.0


class Upkeep:
    """The upkeep.

    Args:
        lake: what is kept up, which the run holds; watch: hears of what was done; options: see there.
    """

    def __init__(self, lake: Lake, watch: LandingWatch, options: UpkeepOptions) -> None:
        self._lake, self._watch, self._options = lake, watch, options
        self._next = time.monotonic() + options.round_seconds
        self._work: Iterator[None] = iter(())
        self._commits = lake.tables.commits
        self._done_at = time.monotonic()

    def step(self) -> bool:
        """Do a piece of work, if there is any; tell whether there was.

        Raises:
            LakeError: a table cannot be read or written.
        """
        if self._has_piece():
            return True
        if time.monotonic() < self._next or self._lake.tables.commits == self._commits:
            return False
        self._next, self._commits = time.monotonic() + self._options.round_seconds, self._lake.tables.commits
        self._work = self._round()
        return self._has_piece()

    def step_if_late(self) -> None:
        """Do a piece of work that was put off for long."""
        if time.monotonic() - self._done_at >= MOST_SECONDS_WITHOUT:
            self.step()

    def _has_piece(self) -> bool:
        has_piece = next(self._work, self) is not self
        self._done_at = time.monotonic()
        return has_piece

    def _round(self) -> Iterator[None]:
        registry, names = self._lake.registry, self._lake.names
        for name, table in list(self._lake.tables.landed()):
            if registry.mode_of(names.holder(name)) == CHANGELOG:
                self._lake.lay_out(name, table)
                for removed in compacting(table, TARGET_FILE_BYTES, is_even=True):
                    self._lake.progress.note_versions()
                    self._watch.compacted(name, removed)
                    yield
        for name, expired in self._lake.expiring(datetime.now(UTC) - self._options.keep):
            self._watch.expired(name, expired.files, expired.bytes)
            yield
