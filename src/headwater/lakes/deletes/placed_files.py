"""The files of an Iceberg table, each with the deletes that are of it.

In formats 1 and 2 Iceberg's planning of a scan finds them. In format 3 manifests are read here: pyiceberg (0.12.0)
plans without what tells one deletion vector from another. A file that has a vector has no other deletes (spec,
"Scan Planning"): the vector says all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFileContent
from pyiceberg.table.delete_file_index import DeleteFileIndex

from headwater.errors import LakeError
from headwater.lakes.deletes.position_deletes import PlacedFile
from headwater.lakes.deletes.puffin_vectors import PuffinVector
from headwater.lakes.iceberg.format_version import THIRD
from headwater.lakes.iceberg.numbered_manifests import detail, entries_of, is_vector, manifests_of

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.table import Table


def placed_files(table: Table, staging: str, version: int | None = None) -> dict[str, PlacedFile]:
    """Return the files of a table, by their paths below its directory of data, or their whole ones.

    Args:
        table: it; staging: its directory of data; version: the id of a snapshot; None for the last one.

    Raises:
        LakeError: what is deleted cannot be told.
    """
    plan = _planned if table.metadata.format_version == THIRD else _scanned
    return {file.file.file_path.removeprefix(f"{staging}/"): file for file in plan(table, version)}


def _scanned(table: Table, version: int | None) -> Iterator[PlacedFile]:
    for task in table.scan(snapshot_id=version).plan_files():
        yield PlacedFile.of(task.file, task.delete_files)


def _planned(table: Table, version: int | None) -> Iterator[PlacedFile]:
    rows: list[ManifestEntry] = []
    vectors: dict[str, ManifestEntry] = {}
    others = DeleteFileIndex()
    for entry in _entries(table, version):
        file = entry.data_file
        if file.content == DataFileContent.DATA:
            rows.append(entry)
        elif is_vector(file):
            vectors[str(detail(file, "referenced_data_file"))] = entry
        elif file.content == DataFileContent.POSITION_DELETES:
            others.add_delete_file(entry, partition_key=file.partition)
        else:
            raise LakeError(
                "a table with equality deletes, which are not read here",
                file=file.file_path,
                hint="rewrite the table's files with who has made it, or land to another place",
            )
    for entry in rows:
        file, began = entry.data_file, entry.sequence_number or 0
        vector = vectors.get(file.file_path)
        beside = others.for_data_file(began, file, partition_key=file.partition)
        is_newer = vector is not None and began <= (vector.sequence_number or 0)
        yield _with_vector(file, vector.data_file, beside) if is_newer and vector else PlacedFile.of(file, beside)


def _entries(table: Table, version: int | None) -> Iterator[ManifestEntry]:
    snapshot = table.current_snapshot() if version is None else table.snapshot_by_id(version)
    for manifest in [] if snapshot is None else manifests_of(snapshot, table.io):
        yield from entries_of(manifest, table.io)


def _with_vector(file: DataFile, vector: DataFile, beside: set[DataFile]) -> PlacedFile:
    """Return a file that has a vector; delete files that are of no other go with it."""
    deleted = PuffinVector.of(vector)
    return PlacedFile(file, (vector, *PlacedFile.own_of(file, beside)), deleted if deleted.count else None)
