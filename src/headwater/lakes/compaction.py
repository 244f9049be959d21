"""Small files of change tables made into larger ones, in the order of their changes (``headwater compact``).

Files that follow one another are read, sorted by ``_commit_lsn``, ``_lsn`` and ``_seq`` and written as one. A commit
takes them away and adds that one, and says of the table what it said before: nothing lands. The target is held
meanwhile as by who lands. Readers of an earlier version keep it until it is expired.

Beside a run that lands (:mod:`headwater.landing.upkeep`) a group is merged only if its largest file is at most half of
it. So a row is rewritten a few times, however often that is looked for.

Known gaps: one group of files is in memory at once. Mirrors are not compacted: they are rewritten as they grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import dataset

from headwater.errors import LakeError
from headwater.lakes.data_files import write_data_file
from headwater.lakes.deletes.deleted_rows import left_rows
from headwater.lakes.lake_table import DataFile, LakeTable, TableCommit, errors_at, file_name
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.stores.places import Where, readable
from headwater.lakes.target_directory import Lake

TARGET_FILE_BYTES = 128 << 20
_ORDER = ("_commit_lsn", "_lsn", "_seq")
_BEHIND = "_is_behind"


@dataclass(frozen=True)
class Compacted:
    """The work done on a table.

    Attributes:
        name: the table's.
        removed, added: how many files.
    """

    name: str
    removed: int
    added: int

    def more(self, removed: int) -> Compacted:
        """Return this work, and that on another group."""
        return Compacted(self.name, self.removed + removed, self.added + 1)


def compact(place: Where, target_file_bytes: int = TARGET_FILE_BYTES) -> list[Compacted]:
    """Compact the tables of a target.

    Args:
        place: its directory.
        target_file_bytes: files of half of that stay as they are; smaller ones become ones of about that.

    Raises:
        LakeConflictError: somebody lands there.
        LakeError: its tables are no change tables; or cannot be read or written.
    """
    target = LandingTarget.at(place)
    if "changelog" not in target.modes:
        raise LakeError(f"tables of mode {target.mode} are not compacted: landing keeps their files", file=str(place))
    compacted: dict[str, Compacted] = {}
    with Lake(target) as lake:
        lake.require_files()
        for name, table in lake.tables.landed():
            if lake.registry.mode_of(lake.names.holder(name)) != "changelog":
                continue
            for removed in compacting(table, target_file_bytes):
                compacted[name] = compacted.get(name, Compacted(name, 0, 0)).more(removed)
        lake.progress.note_versions()
    return list(compacted.values())


def compacting(table: LakeTable, target_file_bytes: int, *, is_even: bool = False) -> Iterator[int]:
    """Merge groups of a table's files, a commit each; yield how many files went into each.

    Args:
        table: of a target that is held; target_file_bytes: see :func:`compact`.
        is_even: only groups whose largest file is at most half of them.

    Raises:
        LakeError: see :func:`compact`.
    """
    for group in list(_groups(table.files.values(), target_file_bytes)):
        sizes = [file.size for file in group]
        if is_even and 2 * max(sizes) > sum(sizes):
            continue
        file = _merged(table, group)
        TableCommit(table, [file], table.landed, [member.path for member in group], has_same_rows=True).make()
        yield len(group)


def _groups(files: Iterable[DataFile], target_file_bytes: int) -> Iterator[list[DataFile]]:
    """Yield small files that follow one another, as many as make one."""
    group: list[DataFile] = []
    for file in sorted(files, key=lambda file: (file.lower.get("_commit_lsn", 0), file.path)):
        is_small = file.size < target_file_bytes // 2
        if group and (not is_small or sum(member.size for member in group) + file.size > target_file_bytes):
            yield from [group] if len(group) > 1 else []
            group = []
        if is_small:
            group.append(file)
    if len(group) > 1:
        yield group


def _merged(table: LakeTable, group: Iterable[DataFile]) -> DataFile:
    """Return a file of the rows of several."""
    assert table.landed.schema is not None
    schema = table.merging_schema(table.landed.schema)
    with errors_at(table.staging):
        rows = pa.concat_tables([_read(table, file, schema) for file in group])
        rows = pa.table(_sorted(rows).columns, schema=schema)
        return write_data_file(rows, table.staging, file_name(pc.max(rows["_commit_lsn"]).as_py()))


def _read(table: LakeTable, file: DataFile, schema: pa.Schema) -> pa.Table:
    """Return rows of a file; of columns that came later they have nothing."""
    paths, system = readable([table.locate(file.path)])
    rows: pa.Table = dataset(paths, schema=schema, format="parquet", filesystem=system).to_table()
    return left_rows(table.merging_rows(file.path, rows), file.deleted)


def _sorted(rows: pa.Table) -> pa.Table:
    """Return rows in the order of their changes, of an update the old one first."""
    places = rows.select(_ORDER).append_column(
        _BEHIND, pc.not_equal(rows["_change_type"], pa.scalar("update_preimage"))
    )
    return rows.take(pc.sort_indices(places, sort_keys=[(name, "ascending") for name in (*_ORDER, _BEHIND)]))
