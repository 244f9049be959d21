"""The database that a DuckLake's catalog is in: SQLite, PostgreSQL or DuckDB; one transaction at a time.

A commit is one transaction, which inserts the next number into ``ducklake_snapshot``. That is its primary key: of two
that commit at a time the second fails, whatever the database isolates.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from headwater.errors import LakeConflictError, LakeError, UsageError
from headwater.lakes.ducklake.catalog_tables import IN_SQLITE, create_statements
from headwater.lakes.stores.places import Where, require_local
from headwater.receiver.server_extra import load_psycopg

Row = tuple[Any, ...]

CATALOG_FILE = "ducklake.sqlite"
"""The catalog of a directory that has its own."""

_POSTGRES = ("postgresql://", "postgres://")
_SECONDS = 30.0
"""How long SQLite waits for others that write."""

_PREFIX = "ducklake:"
NO_CATALOG_IN_STORES = (
    "the catalog of SQLite that a directory has",
    "name another one (--ducklake-catalog sqlite:PATH, duckdb:PATH or postgres:CONNINFO)",
)
"""Of DuckLake in a store: what cannot be there, and what to do instead."""

_PASSWORD = re.compile(r"\bpassword\s*=|://[^/@]*:[^/@]*@")


class CatalogDatabase(ABC):
    """A catalog that is open.

    Attributes:
        shown: as errors call it.
        types: see :func:`~headwater.lakes.ducklake.catalog_tables.create_statements`.
        failures: the library's errors; conflicts: those of them that say that another one has committed.
    """

    shown: str
    types: Mapping[str, str] = {}
    failures: type[Exception] | tuple[type[Exception], ...]
    conflicts: tuple[type[Exception], ...]
    _begin = "BEGIN"

    def __init__(self) -> None:
        self._alone = threading.RLock()

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement, with ``?`` for values; return its rows, if it has such.

        Raises:
            LakeError: it failed.
        """
        with self._alone, self._errors():
            return self._rows(statement, values)

    def run_many(self, statement: str, values: Sequence[Sequence[Any]]) -> None:
        """Run a statement for several values each.

        Raises:
            LakeError: it failed.
        """
        with self._alone, self._errors():
            self._run_many(statement, values)

    @abstractmethod
    def _rows(self, statement: str, values: Sequence[Any]) -> list[Row]:
        """Run a statement; raises the library's errors."""

    @abstractmethod
    def _run_many(self, statement: str, values: Sequence[Sequence[Any]]) -> None:
        """Run a statement for several values each; raises the library's errors."""

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Tell whether the database has a table."""

    def insert(self, table: str, columns: Sequence[str], values: Sequence[Sequence[Any]]) -> None:
        """Insert rows into a table.

        Args:
            table: it; columns: which values are given; values: a row each.
        """
        if values:
            names, places = (", ".join(f'"{name}"' for name in columns), ", ".join("?" * len(columns)))
            self.run_many(f"INSERT INTO {table} ({names}) VALUES ({places})", values)

    def make_tables(self) -> None:
        """Make the tables of a new catalog."""
        for statement in create_statements(self.types):
            self.rows(statement)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make what is done within one transaction: all of it, or nothing."""
        with self._alone:
            self.rows(self._begin)
            try:
                yield
                self.rows("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        try:
            self.rows("ROLLBACK")
        except LakeError:  # the connection is gone, and with it what was begun
            return

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise the library's errors as ours."""
        try:
            yield
        except self.failures as error:
            raise self._error(error) from None

    def _error(self, error: Exception) -> LakeError:
        if isinstance(error, self.conflicts):
            return LakeConflictError(
                f"the commit was refused: {error}",
                file=self.shown,
                hint="only one land may write to a table; end the other one, and begin again",
            )
        return LakeError(
            f"the catalog of DuckLake: {str(error).strip()}",
            file=self.shown,
            hint="begin again: what was committed, the catalog says itself",
        )


class SqliteCatalog(CatalogDatabase):
    """A catalog in a file of SQLite.

    Args:
        path: the file, which is made.

    Raises:
        LakeError: it cannot be opened.
    """

    types = IN_SQLITE
    failures = sqlite3.Error
    conflicts = (sqlite3.IntegrityError,)
    _begin = "BEGIN IMMEDIATE"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.shown = str(path)
        with self._errors():
            self._connection = sqlite3.connect(
                path, timeout=_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            self._connection.execute("PRAGMA synchronous = FULL")

    def close(self) -> None:
        self._connection.close()

    def _rows(self, statement: str, values: Sequence[Any]) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def _run_many(self, statement: str, values: Sequence[Sequence[Any]]) -> None:
        self._connection.executemany(statement, values)

    def has_table(self, name: str) -> bool:
        return bool(self.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [name]))


class PostgresCatalog(CatalogDatabase):
    """A catalog in a database of PostgreSQL.

    Args:
        conninfo: of the database.

    Raises:
        LakeError: it cannot be connected to.
    """

    def __init__(self, conninfo: str) -> None:
        super().__init__()
        psycopg = load_psycopg("a catalog of DuckLake in PostgreSQL")
        self.shown, self.failures = f"postgres:{conninfo}", psycopg.Error
        self.conflicts = (psycopg.errors.UniqueViolation, psycopg.errors.SerializationFailure)
        with self._errors():
            self._connection = psycopg.connect(conninfo, autocommit=True)
            self._connection.execute("SET datestyle = ISO")

    def close(self) -> None:
        self._connection.close()

    def _rows(self, statement: str, values: Sequence[Any]) -> list[Row]:
        cursor = self._connection.execute(_as_postgres(statement), values or None)
        return cursor.fetchall() if cursor.description is not None else []

    def _run_many(self, statement: str, values: Sequence[Sequence[Any]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_as_postgres(statement), values)

    def has_table(self, name: str) -> bool:
        return self.rows("SELECT to_regclass(?) IS NOT NULL", [name])[0][0] is True


def _as_postgres(statement: str) -> str:
    return statement.replace("?", "%s")


class DuckDbCatalog(CatalogDatabase):
    """A catalog in a file of DuckDB, which one process at a time has open.

    Args:
        path: the file, which is made.

    Raises:
        LakeError: it cannot be opened; LakeConflictError: another process has it open.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        duckdb = _load_duckdb()
        self.shown, self.failures = str(path), duckdb.Error
        self.conflicts = (duckdb.ConstraintException, duckdb.TransactionException)
        try:
            self._connection = duckdb.connect(path)
        except duckdb.IOException as error:
            raise self._not_opened(str(error)) from None
        except duckdb.Error as error:
            raise self._error(error) from None

    def _not_opened(self, reason: str) -> LakeError:
        if "lock" not in reason:
            return LakeError(f"the catalog of DuckLake: {reason.strip()}", file=self.shown)
        return LakeConflictError(
            "another process has the catalog open: of a file of DuckDB only one may",
            file=self.shown,
            hint="end it; --ducklake-catalog sqlite:PATH and postgres:CONNINFO are for several at a time",
        )

    def close(self) -> None:
        self._connection.close()

    def _rows(self, statement: str, values: Sequence[Any]) -> list[Row]:
        rows: list[Row] = self._connection.execute(statement, values).fetchall()
        return rows

    def _run_many(self, statement: str, values: Sequence[Sequence[Any]]) -> None:
        for row in values:
            self._connection.execute(statement, row)

    def has_table(self, name: str) -> bool:
        there = "SELECT 1 FROM duckdb_tables() WHERE database_name = current_database() AND table_name = ?"
        return bool(self.rows(there, [name]))


def _load_duckdb() -> ModuleType:
    try:
        import duckdb
    except ImportError as error:
        raise LakeError(
            f"a catalog of DuckLake in a file of DuckDB needs the extra duckdb: {error}",
            hint="run: pip install 'headwater[duckdb]'",
        ) from None
    return duckdb


_IN_FILES: Mapping[str, type[SqliteCatalog] | type[DuckDbCatalog]] = {"sqlite": SqliteCatalog, "duckdb": DuckDbCatalog}


def whole_catalog(catalog: str | None) -> str | None:
    """Return where a catalog is, wherever a later run begins: paths of files are made absolute."""
    kind, _, rest = (catalog or "").removeprefix(_PREFIX).partition(":")
    return f"{kind}:{Path(rest).absolute()}" if kind in _IN_FILES and rest else catalog


def open_database(place: Where, catalog: str | None) -> CatalogDatabase:
    """Open the database of a catalog.

    Args:
        place: the target's directory, which is made; or its place in a store.
        catalog: ``sqlite:PATH``, ``duckdb:PATH`` or ``postgres:CONNINFO``; None for a file in the directory.

    Raises:
        LakeError: it cannot be opened; UsageError: it is of no such kind.
    """
    if catalog is None:
        directory = require_local(place, *NO_CATALOG_IN_STORES)
        directory.mkdir(parents=True, exist_ok=True)
        return SqliteCatalog(directory / CATALOG_FILE)
    kind, _, rest = catalog.removeprefix(_PREFIX).partition(":")
    if kind in _IN_FILES and rest:
        return _IN_FILES[kind](Path(rest).absolute())
    if catalog.startswith(_POSTGRES) or kind == "postgres":
        conninfo = catalog if catalog.startswith(_POSTGRES) else rest
        if _PASSWORD.search(conninfo):
            raise UsageError(
                "the catalog's connection has a password in it, which the target would note",
                hint="leave it to a password file (PGPASSFILE), or to PGPASSWORD",
            )
        return PostgresCatalog(conninfo)
    raise UsageError(
        f'"{catalog}" is no catalog of DuckLake that is written here',
        hint="--ducklake-catalog sqlite:PATH, duckdb:PATH or postgres:CONNINFO, or leave it out",
    )


def moment_text(moment: datetime) -> str:
    """Return a moment as DuckDB writes it into a catalog.

    Args:
        moment: with a time zone.
    """
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00"


def read_moment(text: str) -> datetime:
    """Read a moment of a catalog, as text; gives it in UTC.

    Raises:
        ValueError: it is none.
    """
    moment = datetime.fromisoformat(re.sub(r"\.(\d+)", _padded, text))
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _padded(match: re.Match[str]) -> str:
    return f".{match[1]:0<6}"[:7]
