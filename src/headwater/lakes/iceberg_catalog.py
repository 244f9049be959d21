"""A catalog of Iceberg tables, without a JVM (``pyiceberg``), and commits to several of its tables at once.

A commit of Iceberg replaces the name of a table's metadata file in the catalog, if it is still the one that was known.
A catalog in an SQL database has a row a table, so that the rows of all tables of a window are replaced in one
transaction: readers see all of them as before, or all as after it. Other catalogs do one table after the other.

Of pyiceberg's API this takes the public part, and two things that have no public name: what a transaction has gathered
(``Transaction._updates``, ``_requirements``), as its own commit is of one table and tries again beside another writer;
and that ``SqlCatalog`` works on a connection as on an engine.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.lake_table import errors_at
from headwater.lakes.stores.library_options import options_for_iceberg
from headwater.lakes.stores.places import StorePath, Where, require_local

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.update import TableRequirement, TableUpdate

OWN_CATALOG = "headwater"
"""The name of the catalog that a target has in itself; rows of it are marked with it."""

CATALOG_FILE = "iceberg.db"


@dataclass(frozen=True)
class PreparedCommit:
    """A table's commit, whose files and manifests are written.

    Attributes:
        table: as it is known here; requirements: what must be so still; updates: what is done then.
    """

    table: Table
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]

    @classmethod
    def of(cls, transaction: Transaction) -> PreparedCommit:
        """Take what a transaction has gathered."""
        from pyiceberg.table import CreateTableTransaction
        from pyiceberg.table.update import AssertCreate, AssertTableUUID

        table = transaction._table
        if isinstance(transaction, CreateTableTransaction):
            return cls(table, (AssertCreate(),), transaction._updates)
        same = AssertTableUUID(uuid=table.metadata.table_uuid)
        return cls(table, (*transaction._requirements, same), transaction._updates)


def open_catalog(place: Where, name: str | None) -> Catalog:
    """Return the catalog of a target.

    Args:
        place: the target's directory, in which there is one of its own.
        name: of another one, in pyiceberg's configuration; None for the target's own.

    Raises:
        LakeError: it cannot be opened.
    """
    if name is None:
        with iceberg_errors(place):
            return own_catalog(require_local(place, "a catalog of SQLite", "--iceberg-catalog NAME"))
    from pyiceberg.catalog import load_catalog

    try:
        with iceberg_errors(place):
            catalog = load_catalog(name)
            if isinstance(place, StorePath):
                catalog.properties.update(options_for_iceberg(place.store))
            return catalog
    except LakeError as error:
        raise LakeError(
            f"catalog {name}: {error.message.removeprefix('Iceberg: ')}",
            hint="catalogs are told of in .pyiceberg.yaml, or in variables PYICEBERG_CATALOG__NAME__URI",
        ) from None


def own_catalog(place: Path) -> SqlCatalog:
    """Return the catalog that a target has in itself, a file of SQLite."""
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy import URL

    uri = URL.create("sqlite", database=str(place / CATALOG_FILE)).render_as_string(hide_password=False)
    return SqlCatalog(OWN_CATALOG, uri=uri, warehouse=str(place))


def commit_together(catalog: Catalog, commits: Sequence[PreparedCommit], place: Where) -> None:
    """Commit to tables, to all of them or none where the catalog is in an SQL database.

    Args:
        catalog: theirs; commits: what is done; place: what errors name.

    Raises:
        LakeConflictError: somebody else has written to one.
        LakeError: it cannot be done.
    """
    from pyiceberg.catalog.sql import SqlCatalog

    with iceberg_errors(place):
        if isinstance(catalog, SqlCatalog):
            with _one_transaction(catalog) as within:
                _commit_each(within, commits)
        else:
            _commit_each(catalog, commits)


@contextmanager
def _one_transaction(catalog: SqlCatalog) -> Iterator[SqlCatalog]:
    """Give a catalog whose sessions are part of one transaction: a session on a connection leaves its commit to it."""
    with catalog.engine.begin() as connection:
        within = copy.copy(catalog)
        within.engine = connection  # type: ignore[assignment]
        yield within


def _commit_each(catalog: Catalog, commits: Sequence[PreparedCommit]) -> None:
    for commit in commits:
        catalog.commit_table(commit.table, commit.requirements, commit.updates)


@contextmanager
def iceberg_errors(place: Where) -> Iterator[None]:
    """Raise errors of Iceberg, of its catalog's database and of the system as ours."""
    from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError, ValidationException

    try:
        with errors_at(place):
            yield
    except (CommitFailedException, TableAlreadyExistsError, ValidationException) as error:
        raise LakeConflictError(
            f"the commit was refused: {error}",
            file=str(place),
            hint="only one land may write to a table; end the other one, and begin again",
        ) from None
    except LakeError:
        raise
    except Exception as error:
        if not _is_iceberg(error):
            raise
        # Of an error of a database, what it said, without the statement.
        raise LakeError(
            f"Iceberg: {getattr(error, 'orig', None) or error}",
            file=str(place),
            hint="begin again: what was committed, the tables say themselves",
        ) from error


def _is_iceberg(error: Exception) -> bool:
    """Tell whether an error comes from the library, whose own have no common type, or from a catalog's database."""
    return isinstance(error, ValueError) or type(error).__module__.startswith(("pyiceberg.", "sqlalchemy."))
