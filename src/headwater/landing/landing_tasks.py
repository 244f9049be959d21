"""The work of tasks in a window that lands: rows of each table into files, groups of a mirror's files into others.

An error of a value, a type or a change says which table it is of (:attr:`headwater.errors.HeadwaterError.table`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from headwater.base.overlapped import overlapped
from headwater.errors import errors_of_table
from headwater.jobs.exchange import Arrived, Exchange, Handed, Write
from headwater.jobs.outcome import Progress
from headwater.lakes.data_files import write_data_file
from headwater.lakes.lake_table import file_name
from headwater.landing.mirrors.landed_files import MergeTask, Written, notes
from headwater.landing.mirrors.merge_task import Merged
from headwater.landing.replaced_tables import Bringing
from headwater.landing.tables.change_rows import STAGED, ChangeTable
from headwater.pipeline.slices.decode_job import LocatedSlice, SliceDecoder
from headwater.reorder.plan import Slice

SMALL_BYTES = 1 << 20
"""Of rows of a table, on average of those of a slice: their files are written several at a time."""


def write_changes(
    decoder: SliceDecoder, forms: Sequence[ChangeTable], task: Handed[Slice]
) -> Iterator[Write[list[Written]]]:
    """Write the rows of a slice, in a task: one file for each table, several where rows of another one come between."""

    def write(_: BinaryIO) -> list[Written]:
        located = decoder.located(task.load())
        rows_of = [(number, _rows(form, located)) for number, form in enumerate(forms)]
        parts = [(number, part) for number, rows in rows_of if rows is not None for part in forms[number].parts(rows)]
        are_small = sum(part.nbytes for _, part in parts) < SMALL_BYTES * len(parts)
        file = partial(_file, forms)
        return overlapped(file, parts) if are_small else list(map(file, parts))

    yield write


def _rows(form: ChangeTable, located: LocatedSlice) -> pa.Table | None:
    with errors_of_table(*form.source):
        return form.rows(located)


def files_by_table(arriving: Iterable[list[Arrived[list[Written]]]], bringing: Bringing) -> dict[int, list[Written]]:
    """Return the files that tasks have written, by table, in the order of the output, after what comes before that."""
    files_of = {number: list(files) for number, files in bringing.items() if files}
    for (arrived,) in arriving:
        arrived.remove()
        for file in arrived.summary:
            files_of.setdefault(file.table, []).append(file)
    return files_of


def merged(merges: Sequence[MergeTask], exchange: Exchange, progress: Progress | None) -> list[Merged]:
    """Have tasks merge groups of mirrors' files."""
    results: list[Merged] = []
    with exchange.run("merge", _run_merge, merges, progress) as arriving:
        for (arrived,) in arriving:
            arrived.remove()
            results.append(arrived.summary)
    return results


def _run_merge(task: MergeTask) -> Iterator[Write[Merged]]:
    """Merge a group, in a task."""
    yield lambda _: task.run()


def _file(forms: Sequence[ChangeTable], part: tuple[int, pa.Table]) -> Written:
    """Write rows of a table, by its number, into a file of a name that no other attempt has."""
    number, rows = part
    form = forms[number]
    last = pc.max(rows[STAGED["_commit_lsn"] if form.is_staged else "_commit_lsn"]).as_py()
    return notes(number, form, write_data_file(rows, form.staging, file_name(last), form.schema), last, rows)
