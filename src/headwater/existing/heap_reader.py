"""The heap files of some relations in a copy, and what the WAL did to them: parts of them for tasks.

In: the copy, WAL between its first LSN and another one, the relations. Out: :class:`HeapReader`, on the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.copy.heap_files import HeapFile
from headwater.catalog.pages import BLCKSZ
from headwater.existing.directory_copies import copies_for, place_at
from headwater.existing.heap_history import HeapHistory, heap_history
from headwater.existing.heap_pages import HeapPages
from headwater.existing.heap_toast import ToastPart, ToastTask, ToastValues
from headwater.existing.leaves import Leaf, files_of
from headwater.existing.page_checksum import CHECKSUMS_ON
from headwater.existing.page_history import Locator
from headwater.jobs.engine import Engine
from headwater.jobs.outcome import Progress
from headwater.wal.segments.directory import WalDirectory

TASK_BLOCKS = 8192
"""Pages of a task: 64 MB."""


def bytes_to_read(copy: DataDirectory, leaves: Sequence[Leaf], stretch: tuple[int, int]) -> int:
    """Return bytes of relations' files, and of the WAL that is gone through for them."""
    low, high = stretch
    return high - low + sum(copy.heap_file(file).blocks * BLCKSZ for file in files_of(leaves))


def open_heaps(
    engine: Engine,
    directory: WalDirectory,
    copy: DataDirectory,
    stretch: tuple[int, int],
    leaves: Sequence[Leaf],
    place: Path,
    progress: Progress | None,
) -> HeapReader:
    """Go through the WAL, and find the files of relations.

    Args:
        engine: runs the tasks.
        directory: the WAL; copy: of the cluster.
        stretch: LSNs, of the copy's first record and after the last one.
        leaves: the relations.
        place: a directory that driver and tasks share.
        progress: hears of tasks.

    Raises:
        HeadwaterError: WAL or a file is missing, or a record stands in the way.
    """
    files = files_of(leaves)
    copies = copies_for(directory, copy, stretch, files)
    in_copy = {file: place_at(file, copies, stretch[0]) for file in files}
    copy.expect_heaps(in_copy.values())
    history = heap_history(engine, directory, copy, stretch, files, place, progress, copies)
    made = {file for number, file in enumerate(files) if history.has_made(number)}
    _require_files(copy, leaves, in_copy, made)
    return HeapReader(
        catalog=str(copy.path),
        start_lsn=copy.start_lsn,
        numbers={file: number for number, file in enumerate(files)},
        heaps={file: copy.heap_file(in_copy[file]) for file in files},
        history=history,
        place=place,
        has_checksums=copy.control.data_checksum_version == CHECKSUMS_ON,
    )


def _require_files(
    copy: DataDirectory, leaves: Sequence[Leaf], in_copy: Mapping[Locator, Locator], made: Collection[Locator]
) -> None:
    """See that the copy has the files of relations, but for those that were made since it began.

    Raises:
        CatalogError: one is missing, with all its rows.
    """
    for leaf in leaves:
        name = f'table "{leaf.schema.namespace}.{leaf.schema.name}"'
        for file, what in ((leaf.locator, name), (leaf.toast, f"the TOAST table of {name}")):
            if file is not None and file not in made:
                copy.require_heap(in_copy[file], what)


@dataclass(frozen=True)
class HeapReader:
    """The places of tables, and what the log has done to them.

    Attributes:
        catalog: path of the copy; start_lsn: its first LSN.
        numbers: of files, as the history counts them; heaps: where the copy has them.
        history: of their pages.
        place: where arrays are that tasks share.
        has_checksums: pages of the copy have checksums.
    """

    catalog: str
    start_lsn: int
    numbers: dict[Locator, int]
    heaps: dict[Locator, HeapFile]
    history: HeapHistory
    place: Path
    has_checksums: bool

    def parts(self, locator: Locator) -> Iterator[HeapPages]:
        """Yield a file's pages, in parts for tasks."""
        file, heap = self.numbers[locator], self.heaps[locator]
        blocks = max(heap.blocks, self.history.blocks(file))
        for first in range(0, blocks, TASK_BLOCKS):
            last = min(first + TASK_BLOCKS, blocks)
            yield HeapPages(file, heap, first, last, self.history, self.catalog, self.start_lsn, self.has_checksums)

    def toasts(
        self, engine: Engine, locators: Sequence[Locator], progress: Progress | None
    ) -> dict[Locator, ToastValues]:
        """Return the values out of line of some TOAST tables."""
        pieces = [(locator, pages) for locator in locators for pages in self.parts(locator)]
        tasks = [ToastTask(pages, self.place, number) for number, (_, pages) in enumerate(pieces)]
        parts: dict[Locator, list[ToastPart]] = {locator: [] for locator in locators}
        for (locator, _), part in zip(pieces, engine.run_tasks("TOAST", ToastTask.run, tasks, progress), strict=True):
            parts[locator].append(part)
        return {locator: ToastValues(self.heaps[locator], tuple(own)) for locator, own in parts.items()}
