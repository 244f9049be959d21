"""A stock subscription and one of ours over the same stream, and what each says of what it is refused and skips."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from apply.target_pairs import OURS, SOURCE, STOCK, Pair
from headwater.apply.incoming.refusal_options import RefusalOptions
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.worker import ApplyWorker
from headwater.errors import HeadwaterError, ServerError
from headwater.pg.lsn import Lsn
from serving.service import wait_until

_SAID = re.compile(
    r"^logical replication (?:apply |parallel )*worker\|\w{5}\|(?:LOG|WARNING|DETAIL):  "
    r"(.*(?:skipping transaction|skip-LSN).*)$",
    re.MULTILINE,
)
_FINISHED = re.compile(r"in transaction \d+, finished at ([0-9A-F]+/[0-9A-F]+)")


@dataclass
class RefusedRuns:
    """Both subscriptions of a case.

    Attributes:
        pair: the server; stock, ours: names of subscriptions and slots; publication: of both.
        options: of the stock subscription; asked: of our request.
        said: what ours has said.
    """

    pair: Pair
    stock: str
    ours: str
    publication: str
    options: str
    asked: dict[str, Any]
    said: list[str] = field(default_factory=list)
    _begin: int = 0

    def request(self, **refusals: Any) -> ApplyRequest:
        """Return our request."""
        request = self.pair.request(self.ours, self.publication, **self.asked)
        slot = replace(request.slot, creates_slot=False, two_phase="two_phase" in self.options)
        return replace(request, slot=slot, refusals=RefusalOptions(**refusals))

    def run_ours(self, **refusals: Any) -> HeadwaterError | None:
        """Apply up to now; return the first error."""
        try:
            ApplyWorker(self.request(**refusals), lambda error: self.said.append(error.message), self.said.append).run()
        except HeadwaterError as error:
            return error
        return None

    def run_stock(self) -> str | None:
        """Apply up to now; return the finish LSN that the first error names."""
        self._begin = self.pair.server.log_file.stat().st_size
        end = self.pair.end()
        self.pair.run(STOCK, f"ALTER SUBSCRIPTION {self.stock} ENABLE")
        reached = (
            f"SELECT confirmed_flush_lsn >= '{Lsn(end)}' FROM pg_replication_slots WHERE slot_name = '{self.stock}'"
        )
        wait_until(lambda: self._is_disabled() or self.pair.run(SOURCE, reached) == [(True,)])
        if not self._is_disabled():
            self.pair.run(STOCK, f"ALTER SUBSCRIPTION {self.stock} DISABLE")
        free = f"SELECT NOT active FROM pg_replication_slots WHERE slot_name = '{self.stock}'"
        wait_until(lambda: self.pair.run(SOURCE, free) == [(True,)])
        finished = _FINISHED.search(self._log().partition("|ERROR:  ")[2])
        return finished[1] if finished else None

    def said_of_skipping(self) -> tuple[list[str], list[str]]:
        """Return what both have said of skipping; of the stock subscription, in its last run."""
        lines = [line for text in self.said for line in text.splitlines() if "skip" in line]
        ours = [line.removeprefix("DETAIL:  ").replace(self.ours, "NAME") for line in lines]
        return [line.replace(self.stock, "NAME") for line in _SAID.findall(self._log())], ours

    def _is_disabled(self) -> bool:
        return self.pair.run(STOCK, f"SELECT subenabled FROM pg_subscription WHERE subname = '{self.stock}'") == [
            (False,)
        ]

    def _log(self) -> str:
        return self.pair.server.log_file.read_bytes()[self._begin :].decode(errors="replace")


@contextmanager
def refused_runs(
    pair: Pair,
    source: Sequence[str],
    target: Sequence[str],
    options: str = "",
    **asked: Any,
) -> Iterator[RefusedRuns]:
    """Make tables and both subscriptions; nothing is applied yet.

    Args:
        pair: the server; source, target: make schema s there.
        options: of the stock subscription; asked: of our request.
    """
    for database, statements in ((SOURCE, source), (STOCK, target), (OURS, target)):
        pair.run(database, "DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s", *statements)
    number = next(pair.numbers)
    runs = RefusedRuns(pair, f"stock_{number}", f"ours_{number}", f"p_{number}", options, asked)
    pair.run(SOURCE, f"CREATE PUBLICATION {runs.publication} FOR ALL TABLES")
    is_two_phase = "two_phase" in options
    for slot in (runs.stock, runs.ours):
        pair.run(SOURCE, f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput', false, {is_two_phase})")
    own = f"enabled = false, create_slot = false, slot_name = {runs.stock}, copy_data = false, disable_on_error = true"
    pair.run(
        STOCK,
        f"CREATE SUBSCRIPTION {runs.stock} CONNECTION '{pair.place(SOURCE).replace(chr(39), '')}' "
        f"PUBLICATION {runs.publication} WITH ({own}{', ' if options else ''}{options})",
    )
    try:
        yield runs
    finally:
        pair.run(STOCK, f"ALTER SUBSCRIPTION {runs.stock} DISABLE")
        free = "SELECT count(*) FROM pg_replication_slots WHERE active"
        wait_until(lambda: pair.run(SOURCE, free) == [(0,)])
        pair.run(STOCK, f"DROP SUBSCRIPTION {runs.stock}")
        pair.run(SOURCE, f"DROP PUBLICATION {runs.publication}", f"SELECT pg_drop_replication_slot('{runs.ours}')")


def finish_lsn(error: HeadwaterError | None) -> str:
    """Return the finish LSN that an error names."""
    assert isinstance(error, ServerError), error
    match = _FINISHED.search(str(getattr(error, "context", "")))
    assert match is not None, error
    return match[1]
