"""A catalog of Iceberg tables, without a JVM (``pyiceberg``), and commits to several of its tables at once.

A commit of Iceberg replaces the name of a table's metadata file in the catalog, if it is still the one that was known.
How that is made once, and for several tables together, is in :mod:`headwater.lakes.catalogs.commits`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.catalogs.doubts import is_of_catalog, is_refusal, words_of
from headwater.lakes.lake_table import errors_at
from headwater.lakes.stores.library_options import CREDENTIALS, options_for_iceberg
from headwater.lakes.stores.places import StorePath, Where, require_local

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.sql import SqlCatalog

    from headwater.lakes.catalogs.prepared_commit import PreparedCommit

OWN_CATALOG = "headwater"
"""The name of the catalog that a target has in itself; rows of it are marked with it."""

CATALOG_FILE = "iceberg.db"


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
    try:
        with iceberg_errors(place):
            return _configured(name, options_for_iceberg(place.store) if isinstance(place, StorePath) else {})
    except LakeError as error:
        raise LakeError(
            f"catalog {name}: {error.message.removeprefix('Iceberg: ')}",
            hint="catalogs are told of in .pyiceberg.yaml, or in variables PYICEBERG_CATALOG__NAME__URI",
        ) from None


def _configured(name: str, options: Mapping[str, str]) -> Catalog:
    """Load a catalog of pyiceberg's configuration, with options for files beside what it says.

    What a REST catalog says of files is the server's word, as to which credentials are for its tables, too.
    """
    from pyiceberg.catalog import load_catalog

    from headwater.lakes.iceberg.format_version import let_write_third

    catalog = load_catalog(name)
    if type(catalog).__name__ != "RestCatalog":
        catalog.properties.update(options)
        let_write_third(catalog)
        return catalog
    from pyiceberg.catalog.rest import RestCatalog

    from headwater.lakes.catalogs.rest_requests import keep_credentials_apart, limit_requests

    assert isinstance(catalog, RestCatalog)
    limit_requests(catalog)
    keep_credentials_apart(catalog)
    is_signed = "s3.access-key-id" in catalog.properties
    ours = {key: value for key, value in options.items() if not (is_signed and key in CREDENTIALS)}
    catalog.properties = {**ours, **catalog.properties}
    return catalog


def own_catalog(place: Path) -> SqlCatalog:
    """Return the catalog that a target has in itself, a file of SQLite."""
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy import URL

    from headwater.lakes.iceberg.format_version import let_write_third

    uri = URL.create("sqlite", database=str(place / CATALOG_FILE)).render_as_string(hide_password=False)
    catalog = SqlCatalog(OWN_CATALOG, uri=uri, warehouse=str(place))
    let_write_third(catalog)
    return catalog


def commit_together(catalog: Catalog, commits: Sequence[PreparedCommit], place: Where) -> None:
    """Commit to tables, to all of them or none where the catalog can.

    Args:
        catalog: theirs; commits: what is done; place: what errors name.

    Raises:
        LakeConflictError: somebody else has written to one.
        LakeError: it cannot be done.
    """
    from headwater.lakes.catalogs.commits import commit_once

    with iceberg_errors(place):
        commit_once(catalog, commits)


@contextmanager
def iceberg_errors(place: Where) -> Iterator[None]:
    """Raise errors of Iceberg, of its catalog's database and of the system as ours."""
    try:
        with errors_at(place):
            yield
    except LakeError:
        raise
    except Exception as error:
        if is_refusal(error):
            raise LakeConflictError(
                f"the commit was refused: {error}",
                file=str(place),
                hint="only one land may write to a table; end the other one, and begin again",
            ) from None
        if not is_of_catalog(error):
            raise
        raise LakeError(
            f"Iceberg: {words_of(error)}",
            file=str(place),
            hint="begin again: what was committed, the tables say themselves",
        ) from error
