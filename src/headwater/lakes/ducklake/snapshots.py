"""Snapshots of a DuckLake: the last one, and the next one while it is being made."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headwater.errors import LakeError
from headwater.lakes.ducklake.catalog_database import CatalogDatabase, moment_text
from headwater.lakes.ducklake.catalog_tables import TABLES, VERSION
from headwater.lakes.stores.places import Where

AUTHOR = "headwater"
_MADE_BY = "headwater"


def require_catalog(database: CatalogDatabase, place: Where) -> str:
    """See that a database has a catalog of the format that is written here, or make one.

    Args:
        database: it; place: where the files of a new one are.

    Returns:
        the directory of its files, with a slash behind.

    Raises:
        LakeError: it has another one.
    """
    with database.transaction():
        if not database.has_table("ducklake_metadata"):
            _make(database, place)
    rows = database.rows("SELECT key, value FROM ducklake_metadata WHERE scope IS NULL")
    known = {str(key): str(value) for key, value in rows}
    version, is_encrypted = known.get("version"), known.get("encrypted") == "true"
    if version != VERSION or is_encrypted:
        what = "whose files are encrypted" if is_encrypted else f"of format {version}, not {VERSION}"
        raise LakeError(
            f"a catalog of DuckLake {what}", file=database.shown, hint="land to another catalog (--ducklake-catalog)"
        )
    return known.get("data_path", "")


def _make(database: CatalogDatabase, place: Where) -> None:
    """Make a catalog, with what DuckDB gives one at first; rows are not kept in its tables."""
    database.make_tables()
    metadata = {
        "version": VERSION,
        "created_by": _MADE_BY,
        "data_path": f"{place}/",
        "encrypted": "false",
        "data_inlining_row_limit": "0",
    }
    database.insert("ducklake_metadata", ("key", "value"), list(metadata.items()))
    now = moment_text(datetime.now(UTC))
    database.insert("ducklake_snapshot", tuple(TABLES["ducklake_snapshot"]), [(0, now, 0, 1, 0)])
    database.insert("ducklake_snapshot_changes", ("snapshot_id", "changes_made"), [(0, 'created_schema:"main"')])
    own = (0, str(uuid.uuid4()), 0, None, "main", "main/", True)
    database.insert("ducklake_schema", tuple(TABLES["ducklake_schema"]), [own])


def last_snapshot(database: CatalogDatabase) -> int:
    """Return the number of the last snapshot."""
    return int(database.rows("SELECT max(snapshot_id) FROM ducklake_snapshot")[0][0])


@dataclass
class NextSnapshot:
    """A snapshot that is being made, within a transaction.

    Attributes:
        database: of the catalog; number: its own.
        schema_version, next_catalog_id, next_file_id: as the snapshot before has them, or after what was taken.
        changes: what it does, as ``ducklake_snapshot_changes`` has it.
        altered: numbers of tables whose columns are others.
    """

    database: CatalogDatabase
    number: int
    schema_version: int
    next_catalog_id: int
    next_file_id: int
    changes: list[str] = field(default_factory=list)
    altered: list[int] = field(default_factory=list)
    has_schema: bool = False

    @classmethod
    def of(cls, database: CatalogDatabase) -> NextSnapshot:
        """Begin one behind the last."""
        ((number, version, catalog, file),) = database.rows(
            "SELECT snapshot_id, schema_version, next_catalog_id, next_file_id FROM ducklake_snapshot "
            "ORDER BY snapshot_id DESC LIMIT 1"
        )
        return cls(database, int(number) + 1, int(version), int(catalog), int(file))

    def catalog_id(self) -> int:
        """Take the next number of a schema or a table."""
        self.next_catalog_id += 1
        return self.next_catalog_id - 1

    def file_id(self) -> int:
        """Take the next number of a file."""
        self.next_file_id += 1
        return self.next_file_id - 1

    def finish(self, message: str, extra: Mapping[str, object]) -> None:
        """Write it.

        Args:
            message: what a reader sees of it; extra: for programs.

        Raises:
            LakeConflictError: there is one of that number.
        """
        database = self.database
        if self.altered or self.has_schema:
            self.schema_version += 1
        versions = [(self.number, self.schema_version, table) for table in self.altered]
        database.insert("ducklake_schema_versions", tuple(TABLES["ducklake_schema_versions"]), versions)
        now = moment_text(datetime.now(UTC))
        row = (self.number, now, self.schema_version, self.next_catalog_id, self.next_file_id)
        database.insert("ducklake_snapshot", tuple(TABLES["ducklake_snapshot"]), [row])
        made = (self.number, ",".join(self.changes), AUTHOR, message, json.dumps(extra))
        database.insert("ducklake_snapshot_changes", tuple(TABLES["ducklake_snapshot_changes"]), [made])


def quoted(name: str) -> str:
    """Return a name as lists of changes have it."""
    return '"' + name.replace('"', '""') + '"'
