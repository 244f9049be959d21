"""The target of changes: a directory or a catalog, a format, and who writes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

from headwater.errors import LakeError, UsageError
from headwater.lakes.catalogs.table_places import OF_CATALOG, OF_TARGET
from headwater.lakes.delta_table import DeltaFormat
from headwater.lakes.ducklake.catalog_database import NO_CATALOG_IN_STORES, whole_catalog
from headwater.lakes.lake_schema import EVOLVE, SPLIT
from headwater.lakes.lake_table import LakeFormat, errors_at
from headwater.lakes.parquet_table import ParquetFormat
from headwater.lakes.settings.table_properties import require_properties
from headwater.lakes.settings.table_settings import TableSettings
from headwater.lakes.stores.places import StorePath, Where, read_file, require_local
from headwater.rows.columns.column_types import (
    AS_STRING,
    AS_VARIANT,
    DELTA,
    DUCKLAKE,
    ERROR,
    ICEBERG,
    PARQUET,
    SPARK_DELTA,
    SPARK_ICEBERG,
    Target,
)

TYPES: dict[str, Target] = {"parquet": PARQUET, "delta": DELTA, "iceberg": ICEBERG, "ducklake": DUCKLAKE}
FORMATS = tuple(TYPES)
SPARK_TYPES: dict[str, Target] = {"delta": SPARK_DELTA, "iceberg": SPARK_ICEBERG}
PYTHON_IMPL, SPARK_IMPL = "python", "spark"
CATALOG_IMPLS = (PYTHON_IMPL, SPARK_IMPL)
"""Who writes to catalogs: libraries of Python, without a JVM; or connectors that Spark is configured with."""

INITIAL, NEVER = "initial", "never"
SNAPSHOTS = (INITIAL, NEVER)
"""Whether the rows that tables had when the base backup was taken land, too, before the first changes."""

FOLLOW, NEW, STOP = "follow", "new", "error"
ON_TABLE_REPLACED = (FOLLOW, NEW, STOP)
"""What becomes of a table in the lake when another one of the source gets the name: it goes on with that one's rows,
that one lands beside it under another name, or it is an error."""

COPY_ON_WRITE, MERGE_ON_READ = "copy-on-write", "merge-on-read"
WRITE_MODES = (COPY_ON_WRITE, MERGE_ON_READ)
"""How rows of mirrors that go leave their files: these are written anew, or the rows are deleted beside them."""

REWRITE_BUDGET = 64 << 20

TABLE_SETTINGS = "table-settings"
"""What a target has of the settings of its tables, in its note."""

ITS_OWN = "its own"
"""What a directory says of a catalog, or a namespace, that was not named."""


@dataclass(frozen=True)
class LandingTarget:
    """The place where changes land.

    Attributes:
        where: a directory, which is made; each table has one in it. It is made absolute: libraries take a path that
            begins with ``name:`` for an address. Or a place in a store.
        format: one of FORMATS.
        on_unrepresentable: see :data:`headwater.rows.columns.column_types.ON_UNREPRESENTABLE`.
        schema_evolution: see :data:`headwater.lakes.lake_schema.SCHEMA_EVOLUTION`.
        mode: what is kept, one of :data:`headwater.landing.landing_modes.MODES`.
        iceberg_catalog: the name of a catalog in pyiceberg's configuration; None for one in the directory.
        namespace: of all tables in that catalog; None for the schemas of the source's. With Spark's writers the name
            of the catalog stands before it, and is needed.
        snapshot: see :data:`SNAPSHOTS`.
        catalog_impl: one of :data:`CATALOG_IMPLS`.
        jsonb: the type of jsonb columns, one of :data:`~headwater.rows.columns.column_types.JSONB`.
        on_table_replaced: one of :data:`ON_TABLE_REPLACED`.
        follows_oid: a mirror is of the same table of the source when that is renamed; else of the name.
        write_mode: one of :data:`WRITE_MODES`; each run may have another one.
        table_location: of tables of Iceberg, one of :data:`headwater.lakes.catalogs.table_places.TABLE_LOCATIONS`.
        ducklake_catalog: of DuckLake's tables, ``sqlite:PATH``, ``duckdb:PATH`` or ``postgres:CONNINFO``, of which
            paths are made absolute, too; None for a file of SQLite in the directory.
        rewrite_budget: with deletes beside files, bytes that a window may write anew of a table to fold them away.
        tables: settings of some tables; the same at each run, but for what may change.
        mask_secret: that masks of these are made with; empty for none. It is kept nowhere.
    """

    where: Where
    format: str = "parquet"
    on_unrepresentable: str = ERROR
    schema_evolution: str = EVOLVE
    mode: str = "changelog"
    iceberg_catalog: str | None = None
    namespace: str | None = None
    snapshot: str = INITIAL
    catalog_impl: str = PYTHON_IMPL
    jsonb: str = AS_STRING
    on_table_replaced: str = FOLLOW
    follows_oid: bool = False
    write_mode: str = COPY_ON_WRITE
    rewrite_budget: int = REWRITE_BUDGET
    tables: tuple[TableSettings, ...] = ()
    mask_secret: bytes = field(default=b"", repr=False)
    table_location: str = OF_TARGET
    ducklake_catalog: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", self.where.absolute())
        object.__setattr__(self, "ducklake_catalog", whole_catalog(self.ducklake_catalog))

    @property
    def place(self) -> Path:
        """The directory, for what knows of no store.

        Raises:
            LakeError: it is in a store.
        """
        return require_local(self.where, "this", "land to a directory (--to DIR)")

    @property
    def modes(self) -> set[str]:
        """The modes that tables may have."""
        return {self.mode, *(entry.mode for entry in self.tables if entry.mode is not None)}

    @property
    def types(self) -> Target:
        """The types that the tables' columns can have."""
        types = (SPARK_TYPES if self.catalog_impl == SPARK_IMPL else TYPES)[self.format]
        return replace(types, has_variant=True) if self.jsonb == AS_VARIANT else types

    def open_format(self) -> LakeFormat[Any]:
        """Return the format of the tables, open.

        Raises:
            LakeError: it cannot be opened.
        """
        if self.jsonb == AS_VARIANT and (self.catalog_impl != SPARK_IMPL or self.mode != "changelog"):
            raise LakeError(
                "only Spark's own writers keep jsonb as VARIANT, in change tables",
                hint="--catalog-impl spark --mode changelog, or leave out --jsonb",
            )
        self._require_write_mode()
        self._require_settings()
        return (_spark if self.catalog_impl == SPARK_IMPL else _OPENERS[self.format])(self)

    def _require_write_mode(self) -> None:
        """See that rows can be deleted beside files, if they are to be.

        Raises:
            LakeError: they cannot.
        """
        if self.write_mode != MERGE_ON_READ:
            return
        if self.catalog_impl != PYTHON_IMPL or self.modes == {"changelog"}:
            raise LakeError(
                "rows are deleted beside files in mirrors that are written without a JVM, and in no other tables",
                hint="--write-mode merge-on-read is of --mode current or history; leave it out",
            )

    def _require_settings(self) -> None:
        """See that tables can have settings of their own, if they have.

        Raises:
            UsageError: they cannot.
        """
        if self.tables and self.catalog_impl != PYTHON_IMPL:
            raise UsageError("settings of tables are of those that are written without a JVM, not of Spark's writers")
        if self.tables and self.schema_evolution == SPLIT:
            raise UsageError("settings of tables do not go with --schema-evolution split")
        for entry in self.tables:
            require_properties(entry.properties, self.format)

    @classmethod
    def at(cls, place: Where) -> LandingTarget:
        """Read what a directory says of itself.

        Raises:
            LakeError: nothing, or it cannot be read.
        """
        with errors_at(place):
            known = load_object(own_directory(place) / "target.json")
        if "format" not in known:
            raise LakeError("nothing has landed there", file=str(place))
        catalog, namespace, ducklake = (
            None if known.get(name, ITS_OWN) == ITS_OWN else str(known[name])
            for name in ("catalog", "namespace", "ducklake-catalog")
        )
        return cls(
            place,
            known["format"],
            mode=str(known.get("mode", "changelog")),
            iceberg_catalog=catalog,
            namespace=namespace,
            ducklake_catalog=ducklake,
            snapshot=str(known.get("snapshot", NEVER)),
            catalog_impl=str(known.get("catalog-impl", PYTHON_IMPL)),
            jsonb=str(known.get("jsonb", AS_STRING)),
            tables=tuple(map(TableSettings.of_object, known.get(TABLE_SETTINGS, ()))),
            table_location=str(known.get("table-location", OF_TARGET)),
        )


def numbers_taken(target: LandingTarget) -> bool:
    """Tell whether a table whose name another one has in the lake lands beside it, under a name with a number."""
    return target.on_table_replaced == NEW or target.schema_evolution == SPLIT or target.follows_oid


@overload
def own_directory(place: Path) -> Path: ...


@overload
def own_directory(place: StorePath) -> StorePath: ...


def own_directory(place: Where) -> Where:
    """Tell where a target keeps what is none of its tables."""
    return place / "_headwater"


def load_object(path: Where) -> dict[str, Any]:
    """Return a file of JSON; empty for one that is not there.

    Raises:
        LakeError: it is damaged.
    """
    try:
        text = read_file(path)
        value = {} if text is None else json.loads(text)
    except ValueError as error:
        raise LakeError(f"damaged: {error}", file=str(path)) from None
    if not isinstance(value, dict):
        raise LakeError("damaged: no object of JSON", file=str(path))
    return value


def _iceberg(target: LandingTarget) -> LakeFormat[Any]:
    from headwater.lakes.iceberg_table import IcebergFormat

    if target.table_location == OF_CATALOG and target.iceberg_catalog is None:
        raise LakeError(
            "the catalog that a directory has keeps its tables there",
            hint="name another one (--iceberg-catalog NAME), or leave out --table-location",
        )
    return IcebergFormat(
        target.where,
        target.iceberg_catalog,
        target.namespace,
        deletes_beside=target.write_mode == MERGE_ON_READ,
        places_itself=target.table_location == OF_CATALOG,
    )


def _ducklake(target: LandingTarget) -> LakeFormat[Any]:
    from headwater.lakes.ducklake_table import DuckLakeFormat

    return DuckLakeFormat(target.where, target.ducklake_catalog, deletes_beside=target.write_mode == MERGE_ON_READ)


def _spark(target: LandingTarget) -> LakeFormat[Any]:
    from headwater.lakes.spark_table import SparkFormat

    if target.format not in SPARK_TYPES or target.namespace is None:
        raise LakeError(
            "Spark's writers keep tables of Delta or Iceberg in a catalog, and nothing else",
            hint="--format delta or iceberg and --namespace CATALOG.NAMESPACE, or leave out --catalog-impl spark",
        )
    return SparkFormat(target.place, target.format, target.namespace)


_OPENERS: dict[str, Callable[[LandingTarget], LakeFormat[Any]]] = {
    "parquet": lambda target: ParquetFormat(deletes_beside=target.write_mode == MERGE_ON_READ),
    "delta": lambda target: DeltaFormat(deletes_beside=target.write_mode == MERGE_ON_READ),
    "iceberg": _iceberg,
    "ducklake": _ducklake,
}

_TO_DIRECTORY = "land to a directory (--to DIR), and copy that"


def require_possible(target: LandingTarget) -> None:
    """See that a target can be in a store, if it is to be.

    Raises:
        LakeError: it cannot be as it is wanted.
    """
    if isinstance(target.where, StorePath):
        for what, hint in _lacking(target):
            raise LakeError(f"{what} cannot be in a store yet", file=str(target.where), hint=hint)


def _lacking(target: LandingTarget) -> list[tuple[str, str]]:
    """Return what of a target cannot be in a store, in words, and what to do instead."""
    lacking = []
    if target.format == "ducklake" and target.ducklake_catalog is None:
        lacking.append(NO_CATALOG_IN_STORES)
    if target.format == "iceberg" and target.iceberg_catalog is None:
        lacking.append(("the catalog of SQLite that a directory has", "name another one (--iceberg-catalog NAME)"))
    if target.catalog_impl != PYTHON_IMPL:
        lacking.append(("tables that Spark writes", f"leave out --catalog-impl, or {_TO_DIRECTORY}"))
    return lacking
