"""Tables of DuckLake as DuckDB's own extension ``ducklake`` reads them, which comes as a package of Python."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from headwater.lakes.ducklake.catalog_database import CATALOG_FILE
from headwater.lakes.ducklake_table import DuckLakeFormat
from headwater.lakes.landing_target import LandingTarget

EXTENSIONS = ("sqlite_scanner", "postgres_scanner", "ducklake")


def extension(name: str) -> Path:
    """Return the file of an extension of DuckDB."""
    spec = find_spec(f"duckdb_extension_{name}")
    assert spec is not None
    assert spec.origin is not None
    (path,) = Path(spec.origin).parent.glob(f"extensions/*/{name}.duckdb_extension")
    return path


@lru_cache(maxsize=1)
def duckdb_with_extensions() -> duckdb.DuckDBPyConnection:
    """Start DuckDB once in a process: extensions take a second to load."""
    connection = duckdb.connect()
    for name in EXTENSIONS:
        connection.execute(f"LOAD '{extension(name)}'")
    return connection


@contextmanager
def attached(catalog: str, *, writes: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Attach a DuckLake as ``lake``, by what stands behind ``ducklake:``."""
    with duckdb_with_extensions().cursor() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET arrow_lossless_conversion = true")
        connection.execute(f"ATTACH 'ducklake:{catalog}' AS lake{'' if writes else ' (READ_ONLY)'}")
        try:
            yield connection
        finally:
            connection.execute("DETACH lake")


def catalog_of(place: Path) -> str:
    """Return the catalog of a target's directory."""
    return LandingTarget.at(place).ducklake_catalog or f"sqlite:{place / CATALOG_FILE}"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def read_ducklake(place: Path, version: int | None = None) -> pa.Table:
    """Read a table, whole; as of a version, or now."""
    schema, table = place.name.split(".", 1)
    at = "" if version is None else f" AT (VERSION => {version})"
    with attached(catalog_of(place.parent)) as connection:
        rows: Any = connection.execute(f"SELECT * FROM lake.{quoted(schema)}.{quoted(table)}{at}")
        read: pa.Table = rows.arrow().read_all()
        return read


def has_table(place: Path) -> bool:
    """Tell whether there is a table in a directory's own catalog."""
    if not (place.parent / CATALOG_FILE).exists():
        return False
    with closing(sqlite3.connect(place.parent / CATALOG_FILE)) as catalog:
        tables = catalog.execute("SELECT 1 FROM sqlite_master WHERE name = 'ducklake_table'").fetchall()
        names = place.name.split(".", 1)
        there = (
            "SELECT 1 FROM ducklake_table JOIN ducklake_schema s USING (schema_id) "
            "WHERE schema_name = ? AND table_name = ?"
        )
        return bool(tables and catalog.execute(there, names).fetchall())


def schema_of(place: Path) -> pa.Schema:
    """Return the columns of a table, which say whose they are."""
    with closing(DuckLakeFormat(place.parent, LandingTarget.at(place.parent).ducklake_catalog)) as form:
        entry = form.entry(place.name)
        assert entry is not None
        schema = form.schema(
            place, place.name, form.database.rows("SELECT max(snapshot_id) FROM ducklake_snapshot")[0][0]
        )
        assert schema is not None
        return schema


def files_of(place: Path) -> list[str]:
    """List the files that a table consists of."""
    schema, table = place.name.split(".", 1)
    with attached(catalog_of(place.parent)) as connection:
        rows = connection.execute("SELECT data_file FROM ducklake_list_files('lake', ?, schema => ?)", [table, schema])
        return [path for (path,) in rows.fetchall()]
