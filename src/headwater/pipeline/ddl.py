"""DDL of a request, window by window: planned as decoding is, and nothing is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headwater.pipeline.requests.open_request import OpenRequest, open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.scope import NO_COMMIT, Scope
from headwater.pipeline.windows.assemble import RolledWindow
from headwater.pipeline.windows.ddl_steps import PlacedDdl, ddl_of_window
from headwater.pipeline.windows.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.pipeline.windows.windows import windows_in_threads
from headwater.plugins.rows.plugin import RowChanges, TableChoice
from headwater.plugins.table_patterns import EVERY_TABLE
from headwater.reorder.commits.wal_levels import is_decodable, starting_at

__all__ = ["DdlWatch", "PlacedDdl", "open_ddl", "read_ddl"]


@dataclass
class DdlWatch:
    """A collector of the DDL of one window after the other.

    Attributes:
        found: what was collected and not taken yet.
    """

    found: list[PlacedDdl] = field(default_factory=list)

    def __call__(self, window: RolledWindow, scope: Scope) -> None:
        """Collect that of a window."""
        txns, store = window.commits, window.store
        wanted = is_decodable(txns.commit_lsn, txns.first_lsn, starting_at(window.decodable, scope.start))
        wanted &= txns.database == store.database_oid
        self.found += ddl_of_window(window.index.rows, txns, store, wanted)

    def take(self) -> list[PlacedDdl]:
        """Return the DDL that was collected since the last call."""
        taken, self.found = self.found, []
        return taken


def open_ddl(request: DecodeRequest) -> OpenRequest:
    """Open a request of which nothing but its DDL is wanted.

    Raises:
        HeadwaterError: as :func:`headwater.pipeline.requests.open_request.open_request`.
    """
    return open_request(request, lambda store: RowChanges(TableChoice(EVERY_TABLE), (), store.major))


def read_ddl(opened: OpenRequest, bounds: WindowBounds = DEFAULT_BOUNDS) -> Iterator[PlacedDdl]:
    """Give the DDL of a request, in commit order, window by window.

    Args:
        opened: of :func:`open_ddl`.
        bounds: of a window.

    Raises:
        HeadwaterError: the WAL or the catalog cannot be followed.
    """
    watch = DdlWatch()
    scope = Scope(opened.directory.segment_size, opened.request.start or 0, commits=NO_COMMIT)
    for _ in windows_in_threads(opened, scope, bounds, watch=watch):
        yield from watch.take()
