"""A table of Iceberg that rows are deleted in, and what pyiceberg and DuckDB's own extension read of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntry
from pyiceberg.table import Table

from headwater.lakes.data_files import write_data_file
from headwater.lakes.deletes.iceberg_snapshots import ChangedFiles
from headwater.lakes.deletes.position_deletes import PlacedFile
from headwater.lakes.iceberg.numbered_manifests import entries_of, manifests_of
from headwater.lakes.iceberg_catalog import own_catalog
from headwater.lakes.iceberg_table import IcebergFormat, IcebergLakeTable
from headwater.lakes.lake_table import DataFile, Landed, TableCommit, TableSize, file_name
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.settings.table_settings import TableSettings
from landing.ducklake_lakes import extension

SOURCE, NAME = "1/2", "public.t"
SCHEMA = pa.schema([("id", pa.int64())])
THIRD = {"format-version": "3"}
"""Properties of a table of format 3."""

ICEBERG_3 = "iceberg-3"
"""Beside the formats of targets: Iceberg, with tables of format 3."""


def target_of(place: Path, form: str, **more: Any) -> LandingTarget:
    """Make a target of a format, or of :data:`ICEBERG_3`."""
    if form != ICEBERG_3:
        return LandingTarget(place, form, **more)
    return LandingTarget(place, "iceberg", tables=(TableSettings("*", properties=THIRD),), **more)


class Lake:
    """A table that rows are deleted in.

    Args:
        place: the target's directory.
        format: its tables; None for those of the directory's own catalog.
        properties: that are wanted of the table.
    """

    def __init__(self, place: Path, format: IcebergFormat | None = None, **properties: str) -> None:
        self.place, self.format = place / NAME, format or IcebergFormat(place, deletes_beside=True)
        self.properties = properties
        self.table = self.opened()

    def opened(self) -> IcebergLakeTable:
        table = self.format.table(self.place, SOURCE, NAME)
        table.properties = self.properties
        return table

    def written(self, *ids: int) -> DataFile:
        """Write a file of rows."""
        schema = self.table.file_schema(SCHEMA)
        return write_data_file(pa.table([list(ids)], schema=schema), self.table.staging, file_name(ids[0]))

    def commit(self, lsn: int, added: list[DataFile], deleted: dict[str, list[int]], removed: tuple[str, ...]) -> None:
        rows = {path: np.array(positions) for path, positions in deleted.items()}
        landed = Landed(lsn, SCHEMA, SOURCE)
        self.format.commit([TableCommit(self.table, added, landed, removed, deleted=rows)])

    @property
    def theirs(self) -> Table:
        """The table, as pyiceberg has it."""
        return self.format.catalog.load_table(("public", "t"))

    @property
    def ids(self) -> list[int]:
        """The rows that a reader finds."""
        return sorted(self.theirs.scan().to_arrow()["id"].to_numpy().tolist())

    def require(self, ids: list[int]) -> None:
        """See that a reader, and who opens the table, find these rows."""
        assert self.ids == ids
        files = self.table.files
        assert positions(self.opened().files) == positions(files)
        assert sum(file.left for file in files.values()) == len(ids)
        assert self.format.size(self.place, NAME, self.table.version) == TableSize.of(files.values())

    def entries(self, content: ManifestContent) -> list[ManifestEntry]:
        """Return the files that the table has, of a kind."""
        snapshot, io = self.theirs.current_snapshot(), self.theirs.io
        assert snapshot is not None
        manifests = [manifest for manifest in manifests_of(snapshot, io) if manifest.content == content]
        return [entry for manifest in manifests for entry in entries_of(manifest, io)]


def positions(files: Mapping[str, DataFile]) -> dict[str, list[int]]:
    return {path: [] if file.deleted is None else file.deleted.positions().tolist() for path, file in files.items()}


def delete_elsewhere(lake: Lake, deleted: dict[str, list[int]]) -> str:
    """Delete rows of files by one delete file, as other programs do; returns its path."""
    transaction = lake.theirs.transaction()
    placed = {path: PlacedFile(task.file) for task in lake.theirs.scan().plan_files() for path in [task.file.file_path]}
    parts = [
        placed[lake.table.locate(path)].deleting(str(lake.place / "data"), "x", np.array(positions)).own[0]
        for path, positions in deleted.items()
    ]
    rows = [pq.read_table(part.file_path) for part in parts]
    path = str(lake.place / "data" / "theirs.parquet")
    pq.write_table(pa.concat_tables(rows), path)
    with ChangedFiles(transaction, {}) as snapshot:
        snapshot.append_data_file(noted(parts[0], path, sum(part.record_count for part in parts)))
    transaction.commit_transaction()
    return path


def noted(
    like: IcebergFile, path: str, rows: int, content: DataFileContent = DataFileContent.POSITION_DELETES
) -> IcebergFile:
    made = IcebergFile.from_args(
        content=content,
        file_path=path,
        file_format=like.file_format,
        partition=like.partition,
        record_count=rows,
        file_size_in_bytes=Path(path).stat().st_size,
    )
    made.spec_id = like.spec_id
    return made


def read_by_duckdb(place: Path) -> pa.Table:
    """Read a table of the catalog of a directory, by its place, with DuckDB's extension ``iceberg``."""
    catalog = own_catalog(place.parent)
    metadata = catalog.load_table(tuple(place.name.split(".", 1))).metadata_location
    catalog.close()
    with duckdb.connect() as connection:
        for name in ("avro", "iceberg"):
            connection.execute(f"LOAD '{extension(name)}'")
        connection.execute("SET TimeZone = 'UTC'")
        rows: pa.Table = connection.execute("SELECT * FROM iceberg_scan(?)", [metadata]).arrow().read_all()
        return rows
