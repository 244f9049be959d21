"""The opened run: the catalog is read and the WAL looked at once, whoever asks.

In: the requests of a run's outputs. Out: a plan for each database, and what finds those that the WAL creates. An
opened run is gone through once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.pipeline.requests.open_output import OpenOutput, scope_of
from headwater.pipeline.requests.open_request import end_of, open_requests, start_of
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.database_fold import DatabaseFold
from headwater.pipeline.windows.databases import ChosenDatabases, DatabaseChoice, exists, warn_of_namesakes
from headwater.pipeline.windows.windows import NewPlans
from headwater.slots.kept_state import KeptState


@dataclass(frozen=True)
class OpenRun:
    """The databases and outputs that a run decodes.

    Attributes:
        plans: of the databases that it begins with.
        new_plans: finds those of databases that the WAL creates.
        seconds: wall-clock time that opening took.
        chosen: the databases of a cluster that are decoded; None for the one that the requests name.
    """

    plans: list[DatabaseFold]
    new_plans: NewPlans
    seconds: float
    chosen: ChosenDatabases | None = None

    @property
    def wal_bytes(self) -> int:
        """The bytes of WAL that the run goes through at most."""
        opened = self.plans[0].opened
        return max(0, end_of(opened) - start_of(opened))

    def decoded_plans(self) -> list[DatabaseFold]:
        """Return the plans of databases that are output, once the run has gone through the WAL.

        Raises:
            CatalogError: no database has had a name that is asked for, or no table one.
        """
        if self.chosen is None:
            return self.plans
        last = self.plans[0].store
        self.chosen.check_found(last)
        return [plan for plan in self.chosen.plans if exists(plan, last)]


def open_run(
    requests: Sequence[DecodeRequest], choice: DatabaseChoice | None = None, kept_state: KeptState | None = None
) -> OpenRun:
    """Open what a run decodes.

    Args:
        requests: of each output, one at least.
        choice: of several databases of a cluster; None for the one that the requests name.
        kept_state: a state to go on from, in the catalog's place; of one database.

    Raises:
        HeadwaterError: any reason not to begin.
    """
    began = time.perf_counter()
    if choice is not None:
        chosen = ChosenDatabases.open(requests, choice)
        return OpenRun(chosen.first, chosen.new_plans, time.perf_counter() - began, chosen)
    outputs = [OpenOutput(opened, scope_of(opened)) for opened in open_requests(requests, kept_state=kept_state)]
    return OpenRun([DatabaseFold(outputs)], warn_of_namesakes, time.perf_counter() - began)
