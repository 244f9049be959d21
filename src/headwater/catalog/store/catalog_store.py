"""The catalog over a span of WAL: every version of every row that decoding reads.

Made by :func:`headwater.catalog.store.bootstrap.open_catalog`, or from an image that was made of another one
(:mod:`headwater.catalog.store.image_io`). It is rolled forward with :meth:`CatalogStore.apply`, informed of the fates
of transactions, then asked for views at any LSN from its horizon on. It lives on the driver; tasks get the values that
views give.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.catalog.copy.commit_log import Transactions
from headwater.catalog.copy.taken_at import CatalogOrigin
from headwater.catalog.rows import CatalogRows, DatabaseRow
from headwater.catalog.search_path import DEFAULT_SEARCH_PATH, SearchPath
from headwater.catalog.store.catalog_files import CatalogFiles
from headwater.catalog.store.catalog_image import CatalogImage
from headwater.catalog.store.catalog_redo import CatalogRedo
from headwater.catalog.store.database_location import Whereabouts
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.catalog.store.tables import CatalogTable
from headwater.catalog.store.view_cache import ViewCache
from headwater.catalog.versions import Dependency, Fates, OwnCommands, Timeline, Version
from headwater.errors import CatalogError
from headwater.pg.catalogs import PG_CONSTRAINT, CatalogLayout, catalog_layout, catalog_oids
from headwater.pg.lsn import Lsn
from headwater.wal.records.record import Record


class CatalogStore:
    """The versions of the catalogs of one database.

    Args:
        origin: the place and time at which the catalog was taken.
        transactions: the source that knows the transactions of before the WAL.
        is_complete: whether no page or file of the copy can lack what the WAL of before ``lsn`` did.
        fates: the fates of transactions; left out, nothing is known but what ``transactions`` knows.
        with_definitions: whether the catalogs that have the definitions of objects are also followed.
        lacking: catalogs that are not followed, as what it is made of does not have them.

    Attributes:
        origin: the place and time at which the catalog was first taken.
        transactions: the source that knows the transactions of before the WAL.
        lsn: WAL from here on rolls the store forward: the origin's ``start_lsn``, or the LSN of the image it was opened
            from.
        horizon: views at this LSN or later are available.
        source: the image that the store was opened from.
        fates: the fates of transactions.
        rows: the reader of rows.
        tables: the catalogs, by OID.
        files: the files of the catalogs.
        redo: applies records to the files.
        cache: the answers that views remember.
        unread: catalogs whose rows are not known; an exported catalog may leave out those of roles.
        publication_names: names of publications that were visible before the horizon.
        search_path: the path of the session that names types and objects; see :meth:`name_by`.
    """

    def __init__(
        self,
        origin: CatalogOrigin,
        transactions: Transactions,
        is_complete: bool = True,
        *,
        fates: Fates | None = None,
        with_definitions: bool = False,
        lacking: frozenset[int] = frozenset(),
    ) -> None:
        self.origin = origin
        self.transactions = transactions
        self.lsn = origin.start_lsn
        self.horizon = 0
        self.source: CatalogImage | None = None
        self.fates = fates or Fates(transactions.is_committed, origin.next_xid)
        self.rows = CatalogRows(origin.major, origin.encoding)
        self.cache = ViewCache()
        self.tables = {
            oid: CatalogTable(catalog_layout(origin.major, oid), self.fates, self.cache.changed, with_definitions)
            for oid in catalog_oids(origin.major, with_definitions) - lacking
        }
        self.files = CatalogFiles(
            origin, self.tables, self.fates, transactions.update_xid, self.cache.changed, is_complete
        )
        self.redo = CatalogRedo(self.files, self.tables, origin.major)
        self.unread: frozenset[int] = frozenset()
        self.publication_names: frozenset[bytes] = frozenset()
        self.search_path = DEFAULT_SEARCH_PATH
        self._by_name = {table.layout.name: table for table in self.tables.values()}

    @property
    def major(self) -> int:
        """PostgreSQL's major version."""
        return self.origin.major

    @property
    def start_lsn(self) -> int:
        """The LSN where rolling forward begins."""
        return self.origin.start_lsn

    @property
    def database_oid(self) -> int:
        """The database's OID."""
        return self.origin.database_oid

    @property
    def database_name(self) -> str:
        """The database's name."""
        return self.origin.database_name

    @property
    def encoding(self) -> str:
        """Name of the database's encoding."""
        return self.origin.encoding

    def become(self, origin: CatalogOrigin, whereabouts: Whereabouts) -> None:
        """Become the store of another database, which is made in the WAL; before it is rolled forward."""
        self.origin, self.files.whereabouts = origin, whereabouts
        self.rows = CatalogRows(origin.major, origin.encoding)

    def apply(self, record: Record) -> None:
        """Roll forward over one record; see :meth:`CatalogRedo.apply`."""
        self.redo.apply(record)

    def commit(self, xids: Sequence[int], lsn: int) -> None:
        """Note that transactions committed together, with a record that starts at ``lsn``."""
        self.fates.commit(xids, lsn)
        self._forget_touched(xids)

    def abort(self, xids: Sequence[int]) -> None:
        """Note that transactions aborted."""
        self.fates.abort(xids)
        self._forget_touched(xids)

    def settle_before(self, xid: int) -> None:
        """Note that all transactions older than this one have ended: aborted, if no record says how.

        To be called with the oldest running xid of each RUNNING_XACTS record, after the ends of transactions before it
        were reported. Without it, what a crash has left behind stays in images.

        Args:
            xid: low 32 bits.
        """
        self.fates.settle_before(xid)

    def view(self, lsn: int, own: OwnCommands | None = None) -> HistoricCatalog:
        """Return the catalog as it was at an LSN: with the changes of all transactions that committed before it.

        Args:
            lsn: an LSN at or after :attr:`horizon`.
            own: a transaction that also sees its own changes.

        Raises:
            CatalogError: the LSN lies before the horizon.
        """
        if lsn < self.horizon:
            raise CatalogError(f"the catalog is known from {Lsn(self.horizon)} on, expected {Lsn(lsn)}", lsn=lsn)
        self.redo.settle()
        self.cache.forget_changed()
        if own is None:
            return HistoricCatalog(self, lsn, None, self.cache.answers, frozenset(), None)
        own_keys, own_answers = self._own_keys(own.xids), self.cache.own_answers(own)
        return HistoricCatalog(self, lsn, own, self.cache.answers, own_keys, own_answers)

    def name_by(self, path: SearchPath) -> None:
        """Let views name types and objects as a session with this search_path; views from before are of no use then."""
        if path != self.search_path:
            self.search_path = path
            self.cache.forget_answers()

    def versions(self, key: Dependency) -> list[Version]:
        """Return all versions under (catalog, index, key)."""
        return self._by_name[key[0]].find(key[1], key[2])

    def timeline_of(self, key: Dependency) -> Timeline:
        """Tell when each version under (catalog, index, key) is visible."""
        self.cache.forget_changed()
        timeline = self.cache.timelines.get(key)
        if timeline is None:
            timeline = self.cache.timelines[key] = Timeline(self.versions(key), self.fates)
        return timeline

    def whole(self, catalog: int) -> Dependency:
        """Return the key under which all versions of a catalog are, by its OID."""
        return self.tables[catalog].whole

    def mapped_oid(self, filenode: int, is_shared: bool) -> int | None:
        """Return the mapped catalog that lies, lay or will lie in a file."""
        return self.files.mapped_oid(filenode, is_shared)

    def has_rows(self, catalog: int) -> bool:
        """Tell whether the rows of a catalog, by OID, are known."""
        return catalog not in self.unread

    @property
    def has_definitions(self) -> bool:
        """Whether the catalogs that have the definitions of objects are followed."""
        return PG_CONSTRAINT in self.tables

    def follows(self, catalog: str) -> bool:
        """Tell whether a catalog is followed, by its name."""
        return catalog in self._by_name

    def layout_of(self, catalog: str) -> CatalogLayout:
        """Return the layout of a catalog that is followed, by its name."""
        return self._by_name[catalog].layout

    def database_rows(self) -> list[DatabaseRow]:
        """Return the committed versions of the database's row of ``pg_database``, in their order."""
        rows = [row for span in self.timeline_of(("pg_database", "oid", self.database_oid)).rows for row in span]
        return self.rows.databases(version.data for version in rows)

    @property
    def is_being_made(self) -> bool:
        """Whether the database is being created in WAL that has all its pages, and that has not come to its end yet."""
        return self.origin.is_logged and not self.database_rows()

    def commands_under(self, key: Dependency, xids: frozenset[int]) -> list[int]:
        """List commands by which transactions made or removed rows under (catalog, index, key); unknown ones also."""
        versions = self.versions(key)
        commands = [version.cmin for version in versions if version.inserter in xids]
        return commands + [command for version in versions for xid, command in version.deleters.items() if xid in xids]

    def touched_by(self, xids: Iterable[int]) -> set[Dependency]:
        """Return all keys that find rows made or removed by these transactions."""
        return set().union(*map(self._touched, xids))

    def _touched(self, xid: int) -> set[Dependency]:
        named = [(table, v) for table in self.tables.values() for base in table.bases for v in base.named_by(xid)]
        keys = self.redo.touched.get(xid, set()).union(*(table.keys_of(version) for table, version in named))
        return keys | {self._by_name[catalog].whole for catalog in {key[0] for key in keys} & self._by_name.keys()}

    def _own_keys(self, xids: frozenset[int]) -> frozenset[Dependency]:
        keys = self.cache.own_keys.get(xids)
        if keys is None:
            keys = self.cache.own_keys[xids] = frozenset(self.touched_by(xids))
        return keys

    def _forget_touched(self, xids: Sequence[int]) -> None:
        """Forget the answers that rest on rows that these transactions made or removed."""
        if not self.cache.is_empty:
            self.cache.forget(self.touched_by(xids))
