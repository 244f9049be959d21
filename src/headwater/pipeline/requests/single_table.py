"""The relation that the name of a single table means, found while windows are gone through.

A name means the relation that bears it where the last window ends; if none does, the last one that bore it. So which
one it is shows only at the end; its columns are those it has there, or had when it was dropped.
"""

from __future__ import annotations

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.errors import CatalogError
from headwater.pipeline.requests.named_table import TableNames


class SingleTable:
    """A search for the relation.

    Args:
        name: ``schema.table``.

    Attributes:
        oid: of the relation; None if none in the catalog bore the name, or none was looked for yet.
        schema: it, with its last columns.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.oid: int | None = None
        self.schema: RelationSchema | None = None
        self._refusal: CatalogError | None = None
        self._last: TableNames | None = None

    def passed(self, store: CatalogStore, start: int, end: int) -> None:
        """Take one more window that was gone through.

        Args:
            store: the catalog, rolled forward over it.
            start: LSN where it begins; end: LSN after its last record.
        """
        self._last = TableNames(store, start, end)
        try:
            named = self._last.named(self.name)
        except CatalogError as error:
            self._refusal, self.oid = error, None
            return
        if named is not None:
            self._refusal, self.oid = None, named.oid
        if self.oid is not None:
            lsn = self._last.last_lsn(self.oid) if named is None else named.lsn
            self.schema = store.view(lsn).relation(self.oid) or self.schema

    def no_match(self) -> CatalogError:
        """Return the error of a name that no relation has."""
        assert self._last is not None
        return self._last.no_match(self.name)

    def require(self) -> None:
        """Check that the name can mean a table.

        Raises:
            CatalogError: it is ambiguous, or its relation has no rows in the WAL.
        """
        if self._refusal is not None:
            raise self._refusal
