"""Commits to tables of a catalog, each made once, whatever becomes of an answer.

A catalog in an SQL database has a row a table: the rows of all tables of a window are replaced in one transaction. A
REST catalog may take several tables in one request (:mod:`headwater.lakes.catalogs.rest_requests`). Other catalogs do
one table after the other.

An answer that is lost leaves open whether a commit was made. The table says: it has the commit's snapshot, or not. If
not, the commit is sent again. Should the first one still be under way, its conditions let one of the two through. The
table is looked at again where a commit is refused.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from headwater.lakes.catalogs.doubts import is_refusal, may_pass

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.sql import SqlCatalog

    from headwater.lakes.catalogs.prepared_commit import PreparedCommit

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""How long a catalog is asked again that does not answer, or cannot at the moment."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0


def commit_once(catalog: Catalog, commits: Sequence[PreparedCommit]) -> None:
    """Commit to tables, to all of them or none where the catalog can.

    Args:
        catalog: theirs; commits: what is done.

    Raises:
        Exception: of the library: somebody else has written to a table; or the catalog cannot do it, or not now.
    """
    left = list(commits)

    def commit_what_is_left() -> None:
        try:
            _commit(catalog, left)
        except Exception as error:
            if not (is_refusal(error) or may_pass(error)):
                raise
            left[:] = [commit for commit in left if not patiently(lambda: commit.is_made(catalog))]  # noqa: B023
            if left:
                raise

    patiently(commit_what_is_left)


def patiently(ask: Callable[[], T]) -> T:
    """Return what a catalog answers, asked for as long as it may come.

    Args:
        ask: the question; it can be asked twice.

    Raises:
        Exception: of the library.
    """
    begun, pause = time.monotonic(), _FIRST_PAUSE_SECONDS
    while True:
        try:
            return ask()
        except Exception as error:
            if time.monotonic() - begun > PATIENCE_SECONDS or not may_pass(error):
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _commit(catalog: Catalog, commits: Sequence[PreparedCommit]) -> None:
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog

    from headwater.lakes.catalogs.rest_requests import commit_in_one_request, takes_several_tables

    if isinstance(catalog, SqlCatalog):
        with _one_transaction(catalog) as within:
            _commit_each(within, commits)
    elif len(commits) > 1 and isinstance(catalog, RestCatalog) and takes_several_tables(catalog):
        commit_in_one_request(catalog, commits)
    else:
        _commit_each(catalog, commits)


@contextmanager
def _one_transaction(catalog: SqlCatalog) -> Iterator[SqlCatalog]:
    """Give a catalog whose sessions are part of one transaction: a session on a connection leaves its commit to it.

    That ``SqlCatalog`` works on a connection as on an engine has no public name.
    """
    with catalog.engine.begin() as connection:
        within = copy.copy(catalog)
        within.engine = connection  # type: ignore[assignment]
        yield within


def _commit_each(catalog: Catalog, commits: Sequence[PreparedCommit]) -> None:
    for commit in commits:
        catalog.commit_table(commit.table, commit.requirements, commit.updates)
