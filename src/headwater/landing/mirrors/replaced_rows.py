"""Tasks where a table takes the place of another one: rows of its own mirror come, versions of the other's rows end.

::

    files of the mirror that the table had   ->  staged inserts of the commit that renames it     (RowsOfMirror)
    a history's files of the replaced table  ->  the same versions, ended by that commit          (Ending)

A mirror without history needs no task for the rows of the replaced table: its files go as wholes.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.lakes.deletes.deleted_rows import DeletedRows
from headwater.lakes.history_rows import FROM_LSN, TO_LSN, TO_TIME, ended_rows, in_columns, read_rows, valid_rows
from headwater.landing.mirrors.merge_task import Merged, Moved, write_files
from headwater.landing.mirrors.mirror_form import MirrorForm
from headwater.landing.tables.attached_rows import Departure, Handover, commit_times, in_all_rows


@dataclass(frozen=True)
class RowsOfMirror:
    """A task: rows of a mirror's file, as they are, on their way to another mirror; pickles.

    Attributes:
        path: where the file lies; size: its bytes.
        handover: to which mirror.
        has_history: only versions go that have not ended.
        deleted: rows of the file that are not there any more.
    """

    path: str
    size: int
    handover: Handover
    has_history: bool
    deleted: DeletedRows | None = None

    def run(self) -> Merged:
        """Stage them."""
        rows = (valid_rows if self.has_history else read_rows)(self.path, None, self.deleted)
        table, lsn = self.handover.table, self.handover.arrival.lsn
        moved = [Moved(table, lsn, self.handover.write(rows))] if len(rows) else []
        return Merged(table, [], [], moved)


@dataclass(frozen=True)
class Ending:
    """A task: versions of a history's file that end all at once; pickles.

    Attributes:
        table: the number of the history in the window.
        name: of the file; path: where it lies; size: its bytes.
        form: of the history.
        gone: what ends them.
        deleted: rows of the file that are not there any more.
    """

    table: int
    name: str
    path: str
    size: int
    form: MirrorForm
    gone: Departure
    deleted: DeletedRows | None = None

    def run(self) -> Merged:
        """Write the rows again, with what has ended them; those that had ended before as they are."""
        parts = [self._closed(), ended_rows(self.path, self.form.schema, self.deleted)]
        added = [file for rows in parts for file in write_files(rows, self.form, self.gone.lsn)]
        return Merged(self.table, added, [self.name], [])

    def _closed(self) -> pa.Table:
        rows = valid_rows(self.path, deleted=self.deleted)
        ends = {TO_LSN: pa.scalar(self.gone.lsn), TO_TIME: commit_times([self.gone])[0]}
        for name, value in ends.items():
            number = rows.schema.get_field_index(name)
            field = rows.schema.field(number)
            rows = rows.set_column(number, field, in_all_rows(value, field.type, len(rows)))
        rows = rows.filter(pc.not_equal(rows[FROM_LSN], rows[TO_LSN]))
        return in_columns(rows, self.form.schema)
