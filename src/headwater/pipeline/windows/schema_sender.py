"""A plugin that sends schemas, as the reorder room asks it with what it remembers.

Mirrors the calls of ``get_rel_sync_entry`` into the catalog: what the server would warn of is warned of, where it would
stop is an error that says how far the window can go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.errors import HeadwaterError, warn
from headwater.pg.lsn import Lsn
from headwater.plugins.api import SlicePlugin
from headwater.reorder.announcing.publication_cache import RememberedCatalog
from headwater.reorder.slices.resolve import Describe
from headwater.reorder.wanted_changes import Description


@dataclass(frozen=True)
class PluginSender:
    """The plugin; see :class:`headwater.reorder.announcing.publication_cache.SchemaSender`.

    Attributes:
        plugin: it.
        describe: asks it how a relation is published, unless that is not one of the tables that are asked for.
        end_before: the last end of a window, LSN, that leaves a transaction by number out.
    """

    plugin: SlicePlugin
    describe: Describe
    end_before: Callable[[int], int]

    @property
    def publication_names(self) -> Sequence[str]:
        """The publications that it was given."""
        return self.plugin.traits.publication_names

    @property
    def announcements(self) -> int:
        """The announcements that must be forgotten of a relation to have it announced again."""
        return self.plugin.traits.announcements

    @property
    def counts_prepared(self) -> bool:
        """Whether what a streamed transaction has announced counts for all when it is prepared, too."""
        return self.plugin.traits.counts_prepared

    def published_as(self, schema: RelationSchema, messages: Sequence[bytes]) -> int:
        """Return the OID of the relation that these messages announce a relation as."""
        return self.plugin.published_as(schema, messages)

    def renewed(
        self, schema: RelationSchema, catalog: HistoricCatalog, description: Description, txn: int, lsn: int
    ) -> Description:
        """Describe a relation again that is published as it was when :meth:`describes` did so."""
        with self._placed(txn, lsn):
            return self.plugin.renewed(schema, catalog, description)

    def require_sendable(
        self, schema: RelationSchema, catalog: HistoricCatalog, relations: tuple[int, int], txn: int, lsn: int
    ) -> None:
        """Ask; an error says where, and how to have what comes before."""
        with self._placed(txn, lsn):
            self.plugin.require_sendable(schema, catalog, *relations)

    def tracks(self, schema: RelationSchema) -> bool:
        """Tell whether the plugin keeps an entry of this relation."""
        return self.plugin.tracks(schema)

    def loads(self, catalog: RememberedCatalog, txn: int, lsn: int, warned: frozenset[str]) -> frozenset[str]:
        """Warn of publications that are missing there, of each once; errors as in :meth:`describes`."""
        with self._placed(txn, lsn):
            missing = self.plugin.missing_publications(catalog)
        for name in dict.fromkeys(missing):
            if name not in warned:
                warn(
                    f'skipped loading publication "{name}": it does not exist at this point in the WAL',
                    lsn=lsn,
                    hint="nothing is published by it until a change that comes after its creation",
                )
        return warned.union(missing)

    def describes(self, schema: RelationSchema, catalog: RememberedCatalog, txn: int, lsn: int) -> Description:
        """Ask; an error says where, and how to have what comes before."""
        with self._placed(txn, lsn):
            return self.describe(schema, catalog)

    @contextmanager
    def _placed(self, txn: int, lsn: int) -> Iterator[None]:
        try:
            yield
        except HeadwaterError as error:
            error.lsn = error.lsn if error.lsn is not None else lsn
            error.good_until = self.end_before(txn)
            end = Lsn(error.good_until)
            error.hint = error.hint or f"end the window at {end} to have what comes before that change's transaction"
            raise
