"""Deletes folded away: files of which much is deleted, and many small ones, are written anew as few whole ones.

In: the files of a mirror whose rows are deleted beside them, as a window leaves them. Out: tasks, each of which writes
the rows that are left of some files into new ones, in the order of the key. So a reader has few files to go through,
and few rows to pass over, while a window still costs what it changes: there is a budget of bytes for one.

Small files are taken together by size: so each row is written as often as there are sizes, not once a window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headwater.errors import errors_of_table
from headwater.lakes.deletes.deleted_rows import DeletedRows, Positions, united
from headwater.lakes.history_rows import ended_rows, in_columns
from headwater.lakes.lake_table import DataFile, LakeTable
from headwater.landing.mirrors.key_order import in_key_order
from headwater.landing.mirrors.landed_files import Landing
from headwater.landing.mirrors.merge_plan import is_closed, is_small
from headwater.landing.mirrors.merge_task import Merged, MergedFile, write_files
from headwater.landing.mirrors.mirror_form import MirrorForm

MOST_GONE = 0.3
"""Share of a file's rows that are deleted, from which on it is written anew."""

MOST_ALIKE = 6
"""Small files of about a size, from which on they are written as one."""

_TIMES = 8
"""The sizes that are about one differ by less than that factor."""
_LEAST = 1 << 12


@dataclass(frozen=True)
class KnownRows(DeletedRows):
    """Deleted rows that are not written yet.

    Attributes:
        rows: their positions.
    """

    rows: Positions

    @property
    def count(self) -> int:  # type: ignore[override]  # of a value that is read alone
        return len(self.rows)

    def positions(self) -> Positions:
        return self.rows


@dataclass(frozen=True)
class Folding:
    """A task: rows that are left of some files; pickles.

    Attributes:
        table: the number of the mirror in the window; form: of it.
        files: whose rows.
        last: START of the last commit record of the window, for names; size: bytes of what is left in the files.
        source: OID and name of the source's table.
    """

    table: int
    form: MirrorForm
    files: tuple[MergedFile, ...]
    last: int
    size: int
    source: tuple[int, str]

    def run(self) -> Merged:
        """Write them into files of their own."""
        with errors_of_table(*self.source):
            parts = [
                in_columns(self.form.valid(file.path, None, file.deleted), self.form.schema) for file in self.files
            ]
            rows = pa.concat_tables(parts)
            rows = rows.take(in_key_order(self.form, rows, np.arange(len(rows))))
            added = list(write_files(rows, self.form, self.last))
            if self.form.has_history:
                added += write_files(self._ended(), self.form, self.last)
        return Merged(self.table, added, [file.name for file in self.files], [])

    def _ended(self) -> pa.Table:
        """Return versions that have ended, as they are."""
        return pa.concat_tables([ended_rows(file.path, self.form.schema, file.deleted) for file in self.files])


def foldings(landing: Landing, deleted: Mapping[str, Positions], last: int, budget: int) -> Iterator[Folding]:
    """Yield the tasks of a mirror.

    Args:
        landing: the mirror's.
        deleted: the rows that the window deletes, by paths of files.
        last: see :class:`Folding`; budget: bytes of what is left in all files together, at most.

    Raises:
        LakeError: what says which rows are deleted is damaged.
    """
    assert landing.mirror is not None
    files = [_with(file, deleted.get(path)) for path, file in landing.table.files.items()]
    left = budget
    for group in _groups(files):
        size = sum(file.size * file.left // max(file.rows, 1) for file in group)
        if size <= left:
            left -= size
            yield Folding(
                table=landing.number,
                form=landing.mirror,
                files=tuple(_merged_file(landing.table, file) for file in group),
                last=last,
                size=size,
                source=landing.changes.source,
            )


def _with(file: DataFile, positions: Positions | None) -> DataFile:
    """Return a file as the window leaves it."""
    if positions is None:
        return file
    rows = positions if file.deleted is None else united(file.deleted.positions(), positions)
    return replace(file, deleted=KnownRows(rows))


def _merged_file(table: LakeTable, file: DataFile) -> MergedFile:
    return MergedFile(file.path, table.locate(file.path), file.deleted)


def _groups(files: Iterable[DataFile]) -> Iterator[Sequence[DataFile]]:
    """Yield files that are to be written anew together: those first of which most is deleted."""
    alike: dict[tuple[bool, int, str], list[DataFile]] = {}
    gone: list[DataFile] = []
    for file in files:
        if file.rows - file.left >= MOST_GONE * file.rows:
            gone.append(file)
        elif is_small(file):
            size = int(np.log(max(file.size, _LEAST) / _LEAST) / np.log(_TIMES))
            alike.setdefault((is_closed(file), size, repr(file.partition)), []).append(file)
    yield from ([file] for file in sorted(gone, key=lambda file: file.left / max(file.rows, 1)))
    for _, group in sorted(alike.items()):
        if len(group) >= MOST_ALIKE:
            yield group
