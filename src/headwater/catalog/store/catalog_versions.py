"""The interface that views read: the versions of the rows of all catalogs, and the reader of rows."""

from __future__ import annotations

from typing import Protocol

from headwater.catalog.copy.taken_at import CatalogOrigin
from headwater.catalog.rows import CatalogRows
from headwater.catalog.search_path import SearchPath
from headwater.catalog.versions import Dependency, Fates, Timeline, Version
from headwater.pg.catalogs import CatalogLayout


class CatalogVersions(Protocol):
    """The versions of the catalogs of one database; see :class:`headwater.catalog.store.catalog_store.CatalogStore`."""

    @property
    def origin(self) -> CatalogOrigin:
        """The place and time at which the catalog was first taken."""

    @property
    def fates(self) -> Fates:
        """The fates of transactions."""

    @property
    def rows(self) -> CatalogRows:
        """The reader of rows."""

    @property
    def publication_names(self) -> frozenset[bytes]:
        """Names of publications that were visible before the catalog begins."""

    @property
    def search_path(self) -> SearchPath:
        """The path of the session that names types and objects."""

    def versions(self, key: Dependency) -> list[Version]:
        """Return all versions under (catalog, index, key)."""

    def timeline_of(self, key: Dependency) -> Timeline:
        """Tell when each version under (catalog, index, key) is visible."""

    def whole(self, catalog: int) -> Dependency:
        """Return the key under which all versions of a catalog are, by its OID."""

    def mapped_oid(self, filenode: int, is_shared: bool) -> int | None:
        """Return the mapped catalog that lies, lay or will lie in a file."""

    def has_rows(self, catalog: int) -> bool:
        """Tell whether the rows of a catalog, by OID, are known."""

    def follows(self, catalog: str) -> bool:
        """Tell whether a catalog is followed, by its name."""

    def layout_of(self, catalog: str) -> CatalogLayout:
        """Return the layout of a catalog that is followed, by its name."""
