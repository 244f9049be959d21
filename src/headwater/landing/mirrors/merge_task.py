"""A table that mirrors one of the source: the changes of a window merged into a group of its files.

In: files of staged changes, in their order, and files of the mirror, in a task. Out: files that stand for those of the
mirror that had to be rewritten. Nothing else of the mirror is touched (copy-on-write). Where it is known which rows of
a file may have changed, it is not rewritten: rows that end are deleted beside it (merge-on-read).

A mirror of current rows has the source's columns. Where the source is partitioned it also has ``_partition_oid``, that
of the partition that a row is in: TRUNCATE and DETACH take the rows of one.

A mirror with history also says from when to when each version of a row was there. It does so by commit time, and by
START of the commit's record. A version that has not ended has null; one that began and ended in one transaction was
never there for anybody, and is left out. Versions that have ended lie in files of their own, which are not read again.
Another program may have put them together with valid ones. Then they do not count, and go to files of their own as they
are when those have to be rewritten.

Keys are compared bit by bit (:mod:`headwater.landing.mirrors.row_codes`). That is right whatever PostgreSQL says is
equal: where an update changes any bit of a key, the WAL has the old key.

Known gaps: a group's changes, and those of its files that it rewrites, are in memory at once; rows that are identified
as wholes are one group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.errors import LakeError, errors_of_table
from headwater.lakes.data_files import write_data_file
from headwater.lakes.deletes.deleted_rows import DeletedRows, Positions
from headwater.lakes.history_rows import (
    FROM_LSN,
    FROM_TIME,
    TO_LSN,
    TO_TIME,
    ended_rows,
    schema_of,
)
from headwater.lakes.lake_table import DataFile, file_name
from headwater.lakes.paused import RELOADED, RELOADED_OR_CHANGES
from headwater.landing.key_index.index import Candidates
from headwater.landing.mirrors.candidate_rows import rows_at, told_rows
from headwater.landing.mirrors.file_rows import FileRows, unlike_key
from headwater.landing.mirrors.fold import (
    CHANGED,
    GONE,
    NEVER,
    NOTHING,
    OLD,
    PUT,
    Events,
    Folded,
    fold_keys,
    fold_wholes,
    sources,
)
from headwater.landing.mirrors.key_order import in_key_order
from headwater.landing.mirrors.mirror_form import PARTITION, MirrorForm
from headwater.landing.mirrors.row_codes import row_codes
from headwater.landing.mirrors.staged_changes import (
    GroupChanges,
    Staged,
    has_elements,
    in_range,
    numbers_of,
    place_behind,
)
from headwater.landing.tables.attached_rows import Handover, commit_times
from headwater.landing.tables.change_rows import STAGED, STAGED_FIELDS
from headwater.rows.columns.arrow import no_rows

FILE_BYTES = 32 << 20
"""Of a file, about; one that is smaller than a quarter of it takes in new rows."""

FILE_ROWS = 1 << 19
"""Of a file, at most; likewise."""

_SAYING = tuple(STAGED[name] for name in ("_change_type", "_commit_lsn", "_commit_time", "_relation", "_heap"))
_GIVEN = {PARTITION.name: "_relation", FROM_TIME: "_commit_time", FROM_LSN: "_commit_lsn"}
"""The values of new rows in columns of the mirror's own, by what is known of changes."""

_BYTES_IN_MEMORY = 3
"""What a byte of a file is in memory, about, until something is known of a table's files."""


@dataclass(frozen=True)
class MergedFile:
    """A file of a mirror whose rows changes may be of.

    Attributes:
        name: of it; path: where it lies.
        deleted: rows that are not there any more.
        candidates: where the rows are that alone may have changed: those that end are deleted beside the file, which
            stays. None to look at all rows, and write the file anew where one has changed.
    """

    name: str
    path: str
    deleted: DeletedRows | None = None
    candidates: Candidates | None = None


@dataclass(frozen=True)
class Merge:
    """A task: one group of a mirror's files; pickles.

    Attributes:
        table: the number of the mirror in the window.
        form: of it.
        changes: paths of the staged files, in their order.
        above, upto: the group's changes have values of the first key column above the one, if there is one, up to the
            other.
        files: of the mirror.
        small: names of those that new rows go to.
        last: START of the last commit record of the window.
        size: bytes of all these files.
        leaving: rows that go to other mirrors.
        source: OID and name of the source's table.
    """

    table: int
    form: MirrorForm
    changes: tuple[str, ...]
    above: pa.Scalar[Any] | None
    upto: pa.Scalar[Any] | None
    files: tuple[MergedFile, ...]
    small: frozenset[str]
    last: int
    size: int
    leaving: tuple[Handover, ...] = ()
    source: tuple[int, str] = (0, "")

    def run(self) -> Merged:
        """Do it.

        Raises:
            LakeError: changes do not fit the mirror's rows.
        """
        with errors_of_table(*self.source):
            return _Merging(self).run()


@dataclass(frozen=True)
class Merged:
    """The result of a task.

    Attributes:
        table: see :class:`Merge`.
        added: files that it has written; removed: names of the files that they stand for.
        moved: staged files of other mirrors.
        deleted: rows of files that stay, by names of these.
    """

    table: int
    added: list[DataFile]
    removed: list[str]
    moved: list[Moved]
    deleted: dict[str, Positions] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Moved:
    """Rows on their way to another mirror.

    Attributes:
        table: the number of that one in the window; lsn: of the commit that they come with; file: staged there.
    """

    table: int
    lsn: int
    file: DataFile


@dataclass(frozen=True)
class _Merging:
    """One run of a :class:`Merge`."""

    merge: Merge

    @property
    def form(self) -> MirrorForm:
        """The form of the mirror."""
        return self.merge.form

    @cached_property
    def group(self) -> GroupChanges:
        """The changes that concern the group, with the columns that say what they are."""
        wanted = list(dict.fromkeys([*_SAYING, *self.form.key[:1]]))
        if not self.merge.changes:
            return GroupChanges(Staged.of(no_rows(_staged_schema(self.form)).select(wanted)), (), ())
        key = self.form.key[0] if self.form.key else None
        return GroupChanges.read(self.merge.changes, wanted, key, self.merge.above, self.merge.upto)

    @property
    def staged(self) -> Staged:
        """See :attr:`group`."""
        return self.group.staged

    def _changes(self) -> pa.Table:
        """Return the whole changes of the group."""
        return pa.concat_tables([no_rows(_staged_schema(self.form)), *self.group.whole(self.picks)])

    @cached_property
    def kills(self) -> dict[int, NDArray[np.int64]]:
        return self.staged.kills(self.form.gone)

    @cached_property
    def picks(self) -> NDArray[np.int64]:
        """The changes of the group."""
        is_own = self.staged.kind != NOTHING
        if self.merge.above is not None or self.merge.upto is not None:
            is_own &= in_range(self.staged.rows[self.form.key[0]], self.merge.above, self.merge.upto)
        return np.flatnonzero(is_own)

    def run(self) -> Merged:
        identities = [self._told_by(file) for file in self.merge.files]
        counts = [len(rows) for rows in identities]
        changes = self._changes()
        folded = self._folded(identities, changes)
        starts = np.cumsum([0, *counts])
        is_left = folded.is_left[starts[-1] :]
        ends = [folded.end[start:end] != NEVER for start, end in pairwise(starts.tolist())]
        needs_old = bool(has_elements(changes[STAGED["_unchanged"]]).any())
        chosen = [
            number
            for number, file in enumerate(self.merge.files)
            if (
                needs_old or self._is_closing(ends[number])
                if file.candidates
                else self._is_rewritten(file.name, ends[number], is_left)
            )
        ]
        added, moved = self._written(folded, starts, chosen, changes)
        removed = [self.merge.files[number].name for number in chosen if not self.merge.files[number].candidates]
        deleted = {
            file.name: file.candidates.rows[is_ended]
            for file, is_ended in zip(self.merge.files, ends, strict=True)
            if file.candidates and is_ended.any()
        }
        return Merged(self.merge.table, added, removed, moved, deleted)

    def _is_closing(self, is_ended: NDArray[np.bool_]) -> bool:
        """Tell whether versions of a file that have ended go to another one."""
        return self.form.has_history and bool(is_ended.any())

    def _is_rewritten(self, name: str, is_ended: NDArray[np.bool_], is_new_left: NDArray[np.bool_]) -> bool:
        takes_in = name in self.merge.small and bool(is_new_left.any())
        return self.form.rewrites_all or takes_in or bool(is_ended.any())

    def _told_by(self, file: MergedFile) -> pa.Table:
        """Read the columns that identify the rows of a file, and their partition."""
        wanted = [*self.form.told_by, *([PARTITION.name] if self.form.is_partitioned else [])]
        if file.candidates is not None:
            return told_rows(self.form.schema, list(dict.fromkeys(wanted)), file.path, file.candidates)
        there = schema_of(file.path).names
        wanted = wanted or there[:1]  # a table of no columns has no rows
        rows = self.form.valid(file.path, [name for name in dict.fromkeys(wanted) if name in there], file.deleted)
        return self._as_landed(rows, list(dict.fromkeys(wanted)), file, is_told=True)

    def _folded(self, identities: Sequence[pa.Table], changes: pa.Table) -> Folded:
        old = sum(len(rows) for rows in identities)
        events = Events(
            np.concatenate([np.full(old, OLD, np.uint8), self.staged.kind[self.picks]]),
            self._codes(identities, changes, old + len(changes)),
            np.concatenate([*map(self._relations, identities), numbers_of(changes[STAGED["_relation"]])]),
            np.concatenate([np.full(old, -1), self.staged.place[self.picks]]),
        )
        folded = (fold_wholes if self.form.identity.is_whole else fold_keys)(self._told_apart(events), self.kills)
        for at in folded.wrong[:1].tolist():
            raise self._misfit(changes, at - old, int(events.kind[at]))
        self._require_rewritten(events, folded)
        return folded

    def _require_rewritten(self, events: Events, folded: Folded) -> None:
        """See that no row is left from before the server rewrote its relation for another type of a column."""
        commits = numbers_of(self.staged.rows[STAGED["_commit_lsn"]])
        for column in self.form.rewritten:
            is_before = events.place < 4 * int(np.searchsorted(commits, column.lsn))
            if self.form.is_partitioned:
                is_before &= events.relation == column.relation
            if (folded.end[is_before] > place_behind(commits, column.lsn)).any():
                raise LakeError(
                    f"{self.form.column(self.form.names[column.number])} has got another type, and the server has not "
                    "written its rows anew",
                    lsn=column.lsn,
                    hint=RELOADED_OR_CHANGES,
                )

    def _told_apart(self, events: Events) -> Events:
        """Split updates of rows that are identified as wholes: the old one goes, the new one comes."""
        if not self.form.identity.is_whole or not (events.kind == CHANGED).any():
            return events
        raise LakeError(f"{self.form.table}: an update under REPLICA IDENTITY FULL has no old row")

    def _relations(self, rows: pa.Table) -> NDArray[np.int64]:
        if self.form.is_partitioned:
            return numbers_of(rows[PARTITION.name])
        # All rows are of one relation: the one that can be killed.
        return np.full(len(rows), next(iter(self.kills), 0), np.int64)

    def _codes(self, identities: Sequence[pa.Table], changes: pa.Table, rows: int) -> NDArray[np.int64]:
        if self.form.identity.is_none:
            return np.arange(rows)
        columns = []
        for name in self.form.told_by:
            is_own = self.form.is_partitioned and name == PARTITION.name
            own = changes[STAGED["_relation"] if is_own else name]
            if name in self.form.key and own.null_count:
                raise self._no_key(changes, name, own)
            type = self.form.schema.field(name).type
            columns.append(
                pa.chunked_array([chunk for part in identities for chunk in part[name].chunks] + own.chunks, type)
            )
        return row_codes(columns, rows, are_dense=self.form.identity.is_whole)

    def _no_key(self, changes: pa.Table, name: str, values: pa.ChunkedArray[Any]) -> LakeError:
        at = int(np.argmax(values.is_null().to_numpy()))
        return LakeError(
            f"{self.form.column(name)} is part of its key, and null in a change",
            lsn=changes[STAGED["_lsn"]][at].as_py(),
            hint="with --on-unrepresentable null, another value may have become null: choose error or string",
        )

    def _misfit(self, changes: pa.Table, at: int, kind: int) -> LakeError:
        if kind != PUT and self._is_of_other_type(changes, at):
            return unlike_key(self.form, changes[STAGED["_lsn"]][at].as_py())
        what = {PUT: "a row comes whose key is there already", CHANGED: "a row is updated that is not there"}
        return LakeError(
            f"{self.form.table}: {what.get(kind, 'a row is updated or deleted that is not there')}",
            lsn=changes[STAGED["_lsn"]][at].as_py(),
            hint=f"a mirror needs all of a table's rows, those from before the backup, too: {RELOADED}",
        )

    def _is_of_other_type(self, changes: pa.Table, at: int) -> bool:
        """Tell whether a change is of a row that was rewritten after it, with another type in its key."""
        first = self.kills.get(changes[STAGED["_relation"]][at].as_py(), np.zeros(1, np.int64))[0]
        is_before = bool(self.staged.place[self.picks[at]] < first)
        return is_before and not self.form.becomes.keys().isdisjoint(self.form.told_by)

    def _written(
        self, folded: Folded, starts: NDArray[np.int64], chosen: Sequence[int], changes: pa.Table
    ) -> tuple[list[DataFile], list[Moved]]:
        parts = [self._whole(self.merge.files[number]) for number in chosen]
        picked = [np.arange(starts[number], starts[number + 1]) for number in chosen]
        rows = np.concatenate([*picked, np.arange(starts[-1], len(folded.end))]).astype(np.int64)
        merged = pa.concat_tables([*parts, self._new_rows(changes)])
        # Where a row of all stands among those that were read.
        at = np.full(len(folded.end), -1, np.int64)
        at[rows] = np.arange(len(rows))
        is_row = (np.append(np.full(int(starts[-1]), OLD, np.uint8), self.staged.kind[self.picks]) != GONE)[rows]
        end = folded.end[rows]
        merged = self._completed(merged, folded, changes, rows, at, int(starts[-1]))
        # Rows of files that stay are there already.
        stays = [len(part) for part, number in zip(parts, chosen, strict=True) if self.merge.files[number].candidates]
        is_left = is_row & (end == NEVER) & (np.arange(len(rows)) >= sum(stays))
        self._require_taken_along(is_left)
        files = self._files(merged.take(in_key_order(self.form, merged, np.flatnonzero(is_left))))
        if self.form.has_history:
            files += self._files(self._closed(merged, end, is_row & (end != NEVER)))
            rewritten = [file for number in chosen if not (file := self.merge.files[number]).candidates]
            files += [part for file in rewritten for part in self._ended(file)]
        return files, list(self._moved(merged, end, is_row))

    def _require_taken_along(self, is_left: NDArray[np.bool_]) -> None:
        """See that a table that is a partition by now keeps no rows of its own."""
        if self.form.is_partition and is_left.any():
            raise LakeError(
                f"{self.form.table} is a partition of another one, and was changed while a transaction had it detached",
                hint=RELOADED_OR_CHANGES,
            )

    def _moved(self, merged: pa.Table, end: NDArray[np.int64], is_row: NDArray[np.bool_]) -> Iterator[Moved]:
        """Yield rows that were there when they left."""
        commits = numbers_of(self.staged.rows[STAGED["_commit_lsn"]])
        for handover in self.merge.leaving:
            which = is_row & (end == place_behind(commits, handover.arrival.lsn))
            if self.form.is_partitioned:
                which &= numbers_of(merged[PARTITION.name]) == handover.arrival.relation
            if which.any():
                yield Moved(handover.table, handover.arrival.lsn, handover.write(merged.filter(pa.array(which))))

    def _completed(
        self,
        merged: pa.Table,
        folded: Folded,
        changes: pa.Table,
        rows: NDArray[np.int64],
        at: NDArray[np.int64],
        old: int,
    ) -> pa.Table:
        """Fill in the values that updates did not write again."""
        lists = changes[STAGED["_unchanged"]].combine_chunks()
        names: list[Any] = pc.unique(pc.list_flatten(lists)).to_pylist() if len(lists) else []
        rows_of = self._found_rows(folded, old)
        for name in names:
            unchanged = np.zeros(len(folded.end), np.bool_)
            flat = pc.list_flatten(lists)
            is_named = pc.equal(flat, pa.scalar(name)).to_numpy(zero_copy_only=False)
            parents = pc.list_parent_indices(lists).to_numpy()[is_named]
            unchanged[old + parents] = True
            source = sources(unchanged, rows_of)[rows]
            if ((source < 0) & unchanged[rows]).any():
                raise LakeError(f"an unchanged value of {self.form.column(name)} has no row that it is in")
            column = merged.schema.get_field_index(name)
            merged = merged.set_column(column, merged.schema.field(column), merged[column].take(at[source]))
        return merged

    def _found_rows(self, folded: Folded, old: int) -> NDArray[np.int64]:
        """Return int64[n] which row each new version is a version of; -1 for none."""
        numbers = folded.found.copy()
        moved = self.staged.moved_from[self.picks]
        which = np.flatnonzero(moved >= 0)
        # The old row was found by the event before, if that is of the group.
        before = np.searchsorted(self.picks, moved[which])
        is_own = self.picks[np.minimum(before, len(self.picks) - 1)] == moved[which]
        numbers[old + which] = np.where(is_own, folded.found[old + np.minimum(before, len(self.picks) - 1)], -1)
        return numbers

    def _new_rows(self, changes: pa.Table) -> pa.Table:
        """Return changes as rows of the mirror."""
        given = {name: STAGED[_GIVEN[name]] if name in _GIVEN else None for name in self.form.own}
        arrays = []
        for field in self.form.schema:
            name = given.get(field.name, field.name)
            arrays.append(
                changes[name].cast(field.type)
                if name is not None and name in changes.column_names
                else pa.nulls(len(changes), field.type)
            )
        return pa.table(arrays, schema=self.form.schema)

    def _whole(self, file: MergedFile) -> pa.Table:
        """Read all columns of a file."""
        if file.candidates is not None:
            return rows_at(self.form.schema, self.form.schema.names, file.path, file.candidates)
        return self._as_landed(self.form.valid(file.path, None, file.deleted), self.form.schema.names, file)

    def _ended(self, file: MergedFile) -> list[DataFile]:
        """Return versions of a file that had ended before; there are some where another program has made the file."""
        return self._files(ended_rows(file.path, self.form.schema, file.deleted))

    def _as_landed(self, rows: pa.Table, names: Sequence[str], file: MergedFile, *, is_told: bool = False) -> pa.Table:
        """Return rows of a file with columns as the mirror has them now; or only those that identify them."""
        is_rewritten = bool(self.form.rewritten) and self.form.is_rewritten(schema_of(file.path))
        there = FileRows(self.form, rows, file.path, self._are_killed(rows) or is_rewritten, is_told, file.deleted)
        fields = [self.form.schema.field(name) for name in names]
        return pa.table([there.column(field) for field in fields], schema=pa.schema(fields))

    def _are_killed(self, rows: pa.Table) -> bool:
        """Tell whether no row of a file is left in the end."""
        if not self.form.is_partitioned:
            return bool(self.kills)
        return bool(np.isin(numbers_of(rows[PARTITION.name]), list(self.kills)).all())

    def _closed(self, merged: pa.Table, end: NDArray[np.int64], which: NDArray[np.bool_]) -> pa.Table:
        """Return versions that have ended, with what ended them."""
        at = np.flatnonzero(which)
        rows, place = merged.take(at), end[at]
        lsns, times = self._commits(place, self._relations(rows))
        for name, values in ((TO_LSN, lsns), (TO_TIME, times)):
            number = rows.schema.get_field_index(name)
            rows = rows.set_column(number, rows.schema.field(number), pa.chunked_array([values]))
        return rows.filter(pc.not_equal(rows[FROM_LSN], rows[TO_LSN]))

    def _commits(self, place: NDArray[np.int64], relation: NDArray[np.int64]) -> tuple[pa.Array[Any], pa.Array[Any]]:
        """Return LSNs and times of the commits of places at which rows of relations ended."""
        rows, gone = self.staged.rows, self.form.gone
        commits = numbers_of(rows[STAGED["_commit_lsn"]])
        row = place // 4
        # Of several that no change lies between, a relation's first one has ended its rows.
        for number, departure in reversed(list(enumerate(gone))):
            is_there = place == place_behind(commits, departure.lsn)
            row[is_there & ((relation == departure.relation) | (not self.form.is_partitioned))] = len(commits) + number
        lsns = np.append(commits, np.array([departure.lsn for departure in gone], np.int64))
        times = pa.concat_arrays([*rows[STAGED["_commit_time"]].chunks, commit_times(gone)])
        return pa.array(lsns[row]), times.take(row)

    def _files(self, rows: pa.Table) -> list[DataFile]:
        return list(write_files(rows, self.form.staging, self.merge.last))


def _staged_schema(form: MirrorForm) -> pa.Schema:
    return pa.schema([*STAGED_FIELDS, *(field for field in form.schema if field.name not in form.own)])


def write_files(rows: pa.Table, place: str, last: int) -> Iterator[DataFile]:
    """Write rows into files of about :data:`FILE_BYTES`, or :data:`FILE_ROWS`, under names that no other attempt has.

    Args:
        rows: in their order; none make no file.
        place: a directory; last: START of the last commit record, for the names.
    """
    pieces = max(-(-rows.nbytes // (FILE_BYTES * _BYTES_IN_MEMORY)), -(-len(rows) // FILE_ROWS), 1)
    step = -(-len(rows) // pieces)
    for start in range(0, len(rows), max(step, 1)):
        yield write_data_file(rows.slice(start, step), place, file_name(last))
