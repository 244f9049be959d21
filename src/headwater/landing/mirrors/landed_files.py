"""Files of a table while a window lands: those that tasks have written, then those that are committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from headwater.lakes.deletes.deleted_rows import Positions
from headwater.lakes.lake_table import DataFile, LakeTable
from headwater.landing.mirrors.merge_task import Merged
from headwater.landing.mirrors.mirror_form import MirrorForm
from headwater.landing.mirrors.staged_changes import Staged
from headwater.landing.tables.change_rows import STAGED, ChangeTable
from headwater.landing.tables.source_tables import SourceTable


@dataclass(frozen=True)
class Written:
    """A file that a task has written.

    Attributes:
        table: the number of its table in the window; file: it; last: START of the last commit record in it.
        kills: rows of relations ended at once in it.
        moves_unchanged: see :class:`~headwater.landing.mirrors.staged_changes.Staged`.
        was_there: its rows are those that the table had at a moment, and all of them come.
    """

    table: int
    file: DataFile
    last: int
    kills: bool = False
    moves_unchanged: bool = False
    was_there: bool = False


@dataclass(frozen=True)
class Landing:
    """A table of a window on its way.

    Attributes:
        number: in the window; name: in the lake; table: there.
        source: of the source.
        changes: what tasks need to know of it; schema: its columns in the lake.
        mirror: what merges need to know of it; None of a table of changes.
    """

    number: int
    name: str
    table: LakeTable
    source: SourceTable
    changes: ChangeTable
    schema: pa.Schema
    mirror: MirrorForm | None = None


@dataclass(frozen=True)
class Settled:
    """A commit of a table.

    Attributes:
        landing: the table's.
        added, removed: files, and paths of files.
        last: START of the last commit record that the table then has.
        rows: changes that have landed.
        deleted: rows of files that stay, by paths of these.
        turn: see :class:`~headwater.lakes.lake_table.TableCommit`.
    """

    landing: Landing
    added: list[DataFile]
    removed: list[str]
    last: int
    rows: int
    deleted: Mapping[str, Positions] = field(default_factory=dict)
    turn: int = 0


class MergeTask(Protocol):
    """The work of a task on mirrors' files, such as :class:`~headwater.landing.mirrors.merge_task.Merge`; pickles."""

    @property
    def size(self) -> int:
        """The bytes that it is about."""

    def run(self) -> Merged:
        """Do it, in a task."""


@dataclass(frozen=True)
class Merging:
    """The way merges are run.

    Attributes:
        run: runs a task for each; parallel: how many can run at once.
        indexes: the directory that has an index of the keys of each mirror that needs one.
        rewrite_budget: bytes of a mirror's files that a window may write anew to fold deletes away.
    """

    run: Callable[[Sequence[MergeTask]], list[Merged]]
    parallel: int
    indexes: Path
    rewrite_budget: int


def notes(table: int, form: ChangeTable, file: DataFile, last: int, rows: pa.Table) -> Written:
    """Return the driver's notes of a file that a task has written."""
    if not form.is_staged:
        return Written(table, file, last)
    is_truncate = pc.any(pc.equal(rows[STAGED["_change_type"]], pa.scalar("truncate"))).as_py()
    is_rewritten = pc.any(pc.not_equal(rows[STAGED["_heap"]], pa.scalar(0))).as_py()
    return Written(table, file, last, bool(is_truncate or is_rewritten), Staged.of(rows).moves_unchanged)
