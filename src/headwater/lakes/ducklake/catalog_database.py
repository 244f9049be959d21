"""The database that a DuckLake's catalog is in: SQLite, or PostgreSQL; one transaction at a time.

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
from typing import Any

from headwater.errors import LakeConflictError, LakeError, UsageError
from headwater.lakes.ducklake.catalog_tables import IN_SQLITE, create_statements
from headwater.receiver.server_extra import load_psycopg

Row = tuple[Any, ...]

CATALOG_FILE = "ducklake.sqlite"
"""The catalog of a directory that has its own."""

_POSTGRES = ("postgresql://", "postgres://")
_SECONDS = 30.0
"""How long SQLite waits for others that write."""

_PASSWORD = re.compile(r"\bpassword\s*=|://[^/@]*:[^/@]*@")


class CatalogDatabase(ABC):
    """A catalog that is open.

    Attributes:
        shown: as errors call it.
        types: see :func:`~headwater.lakes.ducklake.catalog_tables.create_statements`.
    """

    shown: str
    types: Mapping[str, str] = {}

    def __init__(self) -> None:
        self._alone = threading.RLock()

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    @abstractmethod
    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement, with ``?`` for values; return its rows, if it has such.

        Raises:
            LakeError: it failed.
        """

    @abstractmethod
    def run_many(self, statement: str, values: Sequence[Sequence[Any]]) -> None:
        """Run a statement for several values each.

        Raises:
            LakeError: it failed.
        """

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
            self._run("BEGIN IMMEDIATE" if self.types else "BEGIN")
            try:
                yield
                self._run("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    def _run(self, statement: str) -> None:
        self.rows(statement)

    def _roll_back(self) -> None:
        try:
            self._run("ROLLBACK")
        except LakeError:  # the connection is gone, and with it what was begun
            return

    def _error(self, error: Exception, *, is_conflict: bool) -> LakeError:
        if is_conflict:
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

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.shown = str(path)
        try:
            self._connection = sqlite3.connect(
                path, timeout=_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            self._connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            raise self._error(error, is_conflict=False) from None

    def close(self) -> None:
        self._connection.close()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        with self._alone:
            try:
                return self._connection.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise self._error(error, is_conflict=isinstance(error, sqlite3.IntegrityError)) from None

    def run_many(self, statement: str, values: Sequence[Sequence[Any]]) -> None:
        with self._alone:
            try:
                self._connection.executemany(statement, values)
            except sqlite3.Error as error:
                raise self._error(error, is_conflict=isinstance(error, sqlite3.IntegrityError)) from None

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
        self._psycopg = load_psycopg("a catalog of DuckLake in PostgreSQL")
        self.shown = f"postgres:{conninfo}"
        try:
            self._connection = self._psycopg.connect(conninfo, autocommit=True)
        except self._psycopg.Error as error:
            raise self._error(error, is_conflict=False) from None

    def close(self) -> None:
        self._connection.close()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        with self._alone:
            try:
                cursor = self._connection.execute(_as_postgres(statement), values or None)
                return cursor.fetchall() if cursor.description is not None else []
            except self._psycopg.Error as error:
                raise self._refused(error) from None

    def run_many(self, statement: str, values: Sequence[Sequence[Any]]) -> None:
        with self._alone:
            try:
                with self._connection.cursor() as cursor:
                    cursor.executemany(_as_postgres(statement), values)
            except self._psycopg.Error as error:
                raise self._refused(error) from None

    def has_table(self, name: str) -> bool:
        return self.rows("SELECT to_regclass(?) IS NOT NULL", [name])[0][0] is True

    def _refused(self, error: Any) -> LakeError:
        kinds = (self._psycopg.errors.UniqueViolation, self._psycopg.errors.SerializationFailure)
        return self._error(error, is_conflict=isinstance(error, kinds))


def _as_postgres(statement: str) -> str:
    return statement.replace("?", "%s")


def open_database(place: Path, catalog: str | None) -> CatalogDatabase:
    """Open the database of a catalog.

    Args:
        place: the target's directory, which is made.
        catalog: ``sqlite:PATH`` or ``postgres:CONNINFO``, as DuckDB's ATTACH has it behind ``ducklake:``; None for a
            file in the directory.

    Raises:
        LakeError: it cannot be opened; UsageError: it is of no such kind.
    """
    if catalog is None:
        place.mkdir(parents=True, exist_ok=True)
        return SqliteCatalog(place / CATALOG_FILE)
    kind, _, rest = catalog.removeprefix("ducklake:").partition(":")
    if kind == "sqlite" and rest:
        return SqliteCatalog(Path(rest).absolute())
    if catalog.startswith(_POSTGRES) or kind == "postgres":
        conninfo = catalog if catalog.startswith(_POSTGRES) else rest
        if _PASSWORD.search(conninfo):
            raise UsageError(
                "the catalog's connection has a password in it, which the target would note",
                hint="leave it to a password file (PGPASSFILE), or to PGPASSWORD",
            )
        return PostgresCatalog(conninfo)
    raise UsageError(
        f'"{catalog}" is no catalog of DuckLake that is written: those in files of DuckDB are not, yet',
        hint="--ducklake-catalog sqlite:PATH or postgres:CONNINFO, or leave it out",
    )


def moment_text(moment: datetime) -> str:
    """Return a moment as DuckDB writes it into a catalog.

    Args:
        moment: with a time zone.
    """
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00"


def read_moment(value: Any) -> datetime:
    """Read a moment of a catalog; gives it in UTC.

    Raises:
        ValueError: it is none.
    """
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(re.sub(r"\.(\d+)", _padded, str(value)))
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _padded(match: re.Match[str]) -> str:
    return f".{match[1]:0<6}"[:7]
