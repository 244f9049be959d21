"""Windows of a corpus: a segment's records, the state before them, a directory in which the segment can be replaced."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from fuzz.corpus import SEGMENT, Corpus
from fuzz.wal_records import PAGE, SWITCH
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.image_io import store_of
from headwater.pipeline.requests.open_request import OpenRequest, open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.slices.row_batches import RowForm
from headwater.pipeline.windows.index_job import index_in_threads
from headwater.pipeline.windows.windows import PlannedWindow, PlanWindows
from headwater.plugins.api import SlicePlugin
from headwater.plugins.rows.plugin import RowChanges, TableChoice
from headwater.plugins.table_patterns import EVERY_TABLE
from headwater.reorder.plan import Slice
from headwater.rows.columns.column_types import ON_UNREPRESENTABLE
from headwater.rows.columns.table_columns import TypedTable
from headwater.slots.kept_state import KeptState
from headwater.wal.records.frames import read_frames
from headwater.wal.segments.directory import WalDirectory

PLUGINS: tuple[tuple[str, tuple[tuple[str, str | None], ...]], ...] = (
    ("test_decoding", ()),
    ("test_decoding", (("include-timestamp", "1"), ("include-rewrites", "1"))),
    ("pgoutput", (("proto_version", "1"), ("publication_names", "every"), ("messages", "true"))),
    ("pgoutput", (("proto_version", "1"), ("publication_names", "every,several"), ("binary", "true"))),
    ("wal2json", (("pretty-print", "1"), ("include-pk", "1"), ("include-timestamp", "1"), ("include-origin", "1"))),
    ("wal2json", (("format-version", "2"), ("include-pk", "1"), ("include-lsn", "1"), ("include-type-oids", "1"))),
)


ROWS = len(PLUGINS)
"""Number of what makes rows, after the plugins."""

REPLICA = ROWS + 1
"""Number of what decodes as if the WAL were of wal_level replica."""


class Target:
    """A copy of a WAL directory in which one segment is ours to write to.

    Args:
        wal: the directory; number: the segment's place in it.
        scratch: where the copy goes.
    """

    def __init__(self, wal: Path, number: int, scratch: Path) -> None:
        self.path = Path(tempfile.mkdtemp(dir=scratch))
        names = sorted(path.name for path in wal.iterdir() if len(path.name) == 24)
        for name in names:
            if name != names[number]:
                (self.path / name).symlink_to(wal / name)
        self.whole = (wal / names[number]).read_bytes()
        self.file = self.path / names[number]
        self.file.write_bytes(self.whole)
        self._descriptor = os.open(self.file, os.O_RDWR)
        self._used = SEGMENT
        self.directory = WalDirectory.scan(self.path)

    def put(self, pages: bytes) -> None:
        """Make these the segment's pages; what comes after them is zero."""
        pages = pages[:SEGMENT]
        os.pwrite(self._descriptor, pages + bytes(max(0, self._used - len(pages))), 0)
        self._used = len(pages)

    def patch(self, at: int, data: bytes) -> None:
        """Replace some bytes."""
        os.pwrite(self._descriptor, data, at)


@dataclass(frozen=True)
class Window:
    """A segment of a corpus that begins and ends between two records.

    Attributes:
        corpus: whose it is.
        kept: the state where it begins.
        scratch: directory for targets.
    """

    corpus: Corpus
    kept: KeptState
    scratch: Path

    @property
    def lo(self) -> int:
        """LSN where it begins."""
        return self.kept.state.lsn

    @cached_property
    def target(self) -> Target:
        """The place where its segment can be replaced."""
        number = (self.lo - self.corpus.directory.start_lsn) // SEGMENT
        return Target(self.corpus.wal, number, self.scratch)

    @cached_property
    def header(self) -> bytes:
        """The long header of the segment."""
        return self.target.whole[:40]

    @cached_property
    def records(self) -> list[bytes]:
        """Its records, without the switch that it ends with."""
        frames = read_frames(self.corpus.directory, self.lo, self.lo + SEGMENT)
        return [frames.record(number) for number in range(len(frames.lsns))][:-1]

    @property
    def is_closed(self) -> bool:
        """Whether the window ends with a switch."""
        frames = read_frames(self.corpus.directory, self.lo, self.lo + SEGMENT)
        return len(frames.lsns) > 1 and frames.record(len(frames.lsns) - 1)[16:18] == SWITCH[16:18]

    def opened(self, plugin: int, directory: WalDirectory) -> OpenRequest:
        """Make a request for the window; ``plugin``: number in :data:`PLUGINS`, :data:`ROWS`, or :data:`REPLICA`."""
        return replace(self._requests[plugin], directory=directory)

    @cached_property
    def _requests(self) -> list[OpenRequest]:
        with_plugins = [self._open(plugin, options) for plugin, options in PLUGINS]
        return [*with_plugins, self._open("rows", (), _row_changes), self._open("test_decoding", (), is_replica=True)]

    def _open(
        self,
        plugin: str,
        options: tuple[tuple[str, str | None], ...],
        make: Callable[[CatalogStore], SlicePlugin] | None = None,
        is_replica: bool = False,
    ) -> OpenRequest:
        request = DecodeRequest(
            wal=str(self.corpus.wal),
            catalog="",
            database="postgres",
            plugin=plugin,
            options=options,
            end=self.lo + SEGMENT,
            from_replica_level=is_replica,
        )
        state = self.kept.state
        kept_state = replace(
            self.kept, state=replace(state, control=replace(state.control, needed=request.needed_level))
        )
        return open_request(request, make, kept_state=kept_state, directory=self.corpus.directory)

    @cached_property
    def store(self) -> CatalogStore:
        """The catalog where it begins; not to be rolled forward."""
        return store_of(self.kept.state.catalog)


def _row_changes(store: CatalogStore) -> RowChanges:
    return RowChanges(TableChoice(EVERY_TABLE), (), store.major)


def decode(rng: random.Random, opened: OpenRequest, slice_: Slice) -> int:
    """Make messages or rows of a slice, and count them."""
    decoder = SliceDecoder(opened.directory, opened.plugin, opened.session)
    if not isinstance(opened.plugin, RowChanges):
        return len(decoder.messages(slice_).lsn)
    form = RowForm()
    if len(slice_.relations) == 1 and rng.random() < 0.5:
        form = RowForm(TypedTable(slice_.relations[0].schema, rng.choice(ON_UNREPRESENTABLE)))
    return len(form.batch(decoder.located(slice_)))


def plan(opened: OpenRequest) -> PlannedWindow:
    """Go through a window."""
    (window,) = PlanWindows(opened, Scope(SEGMENT), lambda tasks: index_in_threads(tasks, 1), 1)
    return window


def closed_windows(corpora: Sequence[Corpus], scratch: Path) -> list[Window]:
    """List the windows of corpora that begin with a state and end with a switch, without the last one of each."""
    windows = [Window(corpus, kept_state, scratch) for corpus in corpora for kept_state in corpus.kept[:-1]]
    return [window for window in windows if window.is_closed]


def offset_of(lsn: int, at: int) -> int:
    """Find the offset in its segment of a record's byte."""
    position = lsn % SEGMENT
    while at >= PAGE - position % PAGE:
        at -= PAGE - position % PAGE
        position += PAGE - position % PAGE
        position += 40 if position % SEGMENT == 0 else 24
    return position + at
