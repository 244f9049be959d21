"""The plugin's sources when it is asked how a relation is published (PostgreSQL: get_rel_sync_entry of pgoutput.c).

In: the changes at which it makes an entry of a relation. Out: its answers, and the memory at the end of a window.

An answer is put together from things that are kept longer than an entry. The publications are loaded at the first entry
of any relation after a message about any publication, but from catalog caches. There the publication of a name stays
until a message has that name, and a publication's row until one has its OID. Each was read at the first loading since.
So a name may be that of a later time and the row that of an earlier one. The publications of a relation or a schema are
looked up at the first entry that asks for them after a message about their members: the entry of another relation may
have asked before, one of the same schema or of the same partitioned table. What a publication says of a relation comes
into the cache with the relation's publications, over what it said before. It stays until a message has that relation
and that publication: so the column list may be one of a later time, of a publication that has only the schema.

What was looked up at an earlier change of the log than the asking one is what that one sees itself: else a message
would have come between. So the plugin is asked again only where something was looked up later in the log. What the
plugin refuses to say (a publication is missing) is an error at the first place in the output where it is asked. It is
one nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import DatabaseLocale, Publication, PublicationMember, RelationSchema
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.errors import DecodingError, PluginError
from headwater.reorder.announced_schemas import (
    LOADED,
    NAMES,
    RELATIONS,
    ROWS,
    SCHEMAS,
    Announced,
    Entry,
    MemberInMind,
    NameInMind,
    RelationInMind,
    RowInMind,
    SchemaInMind,
    SchemaMemory,
)
from headwater.reorder.announcing.cache_invalidation import CacheInvalidation, Places
from headwater.reorder.announcing.cache_lookups import Lookups, look_up, look_up_members
from headwater.reorder.slices.resolve import Resolver
from headwater.reorder.wanted_changes import Description

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class RememberedCatalog:
    """The catalog at a touch, with publications and their members as they were when they were looked up last.

    Attributes:
        now: at the touch.
        publications: by name, as they were loaded.
        relations: by OID, the publications that the relation and its ancestors are in.
        members: by OIDs of relation and publication, what the latter says of it or of an ancestor.
        schemas: by OID, the publications that their schemas are in.
    """

    now: HistoricCatalog
    publications: Mapping[str, RowInMind]
    relations: Mapping[int, tuple[int, ...]]
    members: Mapping[tuple[int, int], PublicationMember]
    schemas: Mapping[int, tuple[int, ...]]

    def relation(self, oid: int) -> RelationSchema | None:
        """Return the relation with this OID, now."""
        return self.now.relation(oid)

    def publication(self, name: str) -> Publication | None:
        """Return the publication that had the name, as its row was read.

        Raises:
            PluginError: it had no row where that was read.
        """
        oid, row = self.publications[name]
        if oid and row is None:
            raise PluginError(f"cache lookup failed for publication {oid}")
        return row

    def relation_publications(self, oid: int) -> tuple[int, ...]:
        """Return the publications that a relation was in; negative those that left it out."""
        return self.relations[oid]

    def publication_member(self, relation: int, publication: int) -> PublicationMember | None:
        """Return a publication's entry of a relation."""
        return self.members.get((relation, publication))

    def schema_publications(self, oid: int) -> tuple[int, ...]:
        """Return the publications that a schema was in."""
        return self.schemas[oid]

    def locale(self) -> DatabaseLocale:
        """Return the locale that the database's text is ordered by, now."""
        return self.now.locale()


class SchemaSender(Protocol):
    """The plugin, as it is asked for its memory."""

    @property
    def publication_names(self) -> Sequence[str]:
        """The publications that it was given."""

    @property
    def announcements(self) -> int:
        """The memory from which a relation must go to have it announced again: ENTRIES or ANNOUNCED."""

    @property
    def counts_prepared(self) -> bool:
        """True if the announcements of a streamed transaction count for all when it is prepared, too."""

    def tracks(self, schema: RelationSchema) -> bool:
        """Tell whether the plugin keeps an entry of this relation."""

    def published_as(self, schema: RelationSchema, messages: Sequence[bytes]) -> int:
        """Return the OID of the relation that these messages announce a relation as."""

    def renewed(
        self, schema: RelationSchema, catalog: HistoricCatalog, description: Description, txn: int, lsn: int
    ) -> Description:
        """Return what :meth:`describes` would say now of a relation published as it was when its entry was made.

        Args:
            schema: the relation now; catalog: now.
            description: that of the entry.
            txn: transaction of the change; lsn: its LSN.
        """

    def require_sendable(
        self, schema: RelationSchema, catalog: HistoricCatalog, relations: tuple[int, int], txn: int, lsn: int
    ) -> None:
        """Check that a change can be sent as of another relation than the one that was announced.

        Args:
            schema: the relation now; catalog: now.
            relations: OIDs of the relation that it was announced as, and of that which it is sent as.
            txn: transaction of the change; lsn: its LSN.

        Raises:
            HeadwaterError: what the server sends then cannot be known.
        """

    def loads(self, catalog: RememberedCatalog, txn: int, lsn: int, warned: frozenset[str]) -> frozenset[str]:
        """Check the publications that are loaded at the change at an LSN.

        Args:
            catalog: the catalog that it loads them from.
            txn: transaction of the change; lsn: its LSN.
            warned: names of publications of whose absence it has warned.

        Returns:
            the names of those whose absence it has warned of now.

        Raises:
            HeadwaterError: the server would stop there.
        """

    def describes(self, schema: RelationSchema, catalog: RememberedCatalog, txn: int, lsn: int) -> Description:
        """Describe a relation.

        Args:
            schema: the relation; catalog: the catalog that it asks.
            txn: transaction of the change; lsn: its LSN.

        Raises:
            HeadwaterError: the server would stop there.
        """


class Asked:
    """The changes at which the plugin makes an entry of a relation, a of them, in the order of the output.

    Args:
        resolution: int64[a] the relation as of the change, which is described as the change sees it.
        places: of the changes.
        resolver: looks at the catalog.
        forgetting: where things are forgotten.
        sender: the plugin.
        memory: its memory before the window.
    """

    def __init__(
        self,
        resolution: Int64s,
        places: Places,
        resolver: Resolver,
        forgetting: CacheInvalidation,
        sender: SchemaSender,
        memory: SchemaMemory,
    ) -> None:
        self._resolution, self._places, self._resolver = resolution, places, resolver
        self._forgetting, self._sender, self._memory = forgetting, sender, memory
        self._warned = frozenset(memory.warned)
        nothing = np.zeros(len(resolution), np.int64)
        known = np.zeros(0 if memory.loaded is None else 1, np.int64)
        self._loaded = forgetting.look_up(LOADED, known, nothing, places)
        self._loads = np.flatnonzero(self._loaded.source == np.arange(len(resolution)))
        self._names = self._look_up_names()
        self._oid = self._named()
        self._rows = self._look_up_rows()
        relations, schemas = self._subjects()
        self._relations = self._look_up(RELATIONS, memory.relations, *relations)
        self._pairs, self._members = look_up_members(
            self._relations, self._relation_publications, memory.members, places, forgetting
        )
        self._schemas = self._look_up(SCHEMAS, memory.schemas, *schemas)

    def anew(self) -> Iterator[tuple[int, Description]]:
        """Give the changes that the plugin answers otherwise than as they see things, or had refused to; and answers.

        Raises:
            HeadwaterError: of the first one at which it refuses.
        """
        uses = self._resolver.resolutions
        is_decided = np.array([use.is_decided for use in uses] or [True], np.bool_)[self._resolution]
        again = ~is_decided | (self._latest() > self._places.lsn)
        is_load = np.zeros(len(again), np.bool_)
        is_load[self._loads] = True
        for asker in np.flatnonzero(again | is_load).tolist():
            catalog, (txn, lsn) = self._catalog(asker), self._place(asker)
            if is_load[asker]:
                self._warned = self._sender.loads(catalog, txn, lsn, self._warned)
            if again[asker]:
                yield asker, self._sender.describes(uses[int(self._resolution[asker])].schema, catalog, txn, lsn)

    def remembered(self, lsn: int, entries: tuple[Entry, ...], announced: tuple[Announced, ...]) -> SchemaMemory:
        """Return the memory at the end of the window; to be asked for after the answers.

        Args:
            lsn: the end.
            entries: of relations; announced: the relations announced.
        """
        was, now = self._memory, self._resolver.view(-1, lsn)
        names = self._sender.publication_names
        return SchemaMemory(
            entries=entries,
            announced=announced,
            loaded=self._loaded_at_end(now),
            names=tuple(
                was.names[-1 - at] if at < 0 else NameInMind(number, _oid(now.publication(names[number - 1])))
                for number, at in self._names.kept
            ),
            rows=tuple(
                was.rows[-1 - at] if at < 0 else RowInMind(oid, now.publication_by_oid(oid))
                for oid, at in self._rows.kept
            ),
            relations=tuple(
                was.relations[-1 - at] if at < 0 else RelationInMind(oid, now.relation_publications(oid))
                for oid, at in self._relations.kept
            ),
            members=tuple(
                was.members[-1 - at] if at < 0 else MemberInMind(*self._pairs[number], self._member(now, number))
                for number, at in self._members.kept
            ),
            schemas=tuple(
                was.schemas[-1 - at] if at < 0 else SchemaInMind(oid, now.schema_publications(oid))
                for oid, at in self._schemas.kept
            ),
            warned=tuple(sorted(self._warned)),
            latest=max(was.latest, int(self._places.lsn.max(initial=0))),
        )

    def _loaded_at_end(self, now: HistoricCatalog) -> tuple[Publication | None, ...] | None:
        if not len(self._loaded.kept):
            return None
        if self._loaded.kept_source[0] < 0:
            return self._memory.loaded
        return tuple(now.publication(name) for name in self._sender.publication_names)

    def _look_up_names(self) -> Lookups:
        """Find the publications that each loading finds (get_publication_oid), by numbers of their names from 1."""
        count = len(self._sender.publication_names)
        numbers = np.tile(np.arange(1, count + 1), len(self._loads))
        return self._look_up(NAMES, self._memory.names, np.repeat(self._loads, count), numbers)

    def _named(self) -> Int64s:
        """Return the OIDs of the publications that were looked up by name, 0 where there was none: int64[k]."""
        names, known = self._sender.publication_names, self._memory.names
        looked_up = zip(self._names.subject.tolist(), self._names.source.tolist(), strict=True)
        oids = [
            known[-1 - at].oid if at < 0 else _oid(self._view(at).publication(names[number - 1]))
            for number, at in looked_up
        ]
        return np.array(oids, np.int64)

    def _look_up_rows(self) -> Lookups:
        """Look up the rows of these publications (GetPublication), by OID."""
        existing = np.flatnonzero(self._oid)
        return self._look_up(ROWS, self._memory.rows, self._names.asker[existing], self._oid[existing])

    def _look_up(self, memory: int, known: Sequence[tuple[Any, ...]], asker: Int64s, subject: Int64s) -> Lookups:
        return look_up(memory, known, (asker, subject), self._places, self._forgetting)

    def _subjects(self) -> tuple[tuple[Int64s, Int64s], tuple[Int64s, Int64s]]:
        """Return (asker, OID) of the relations and their ancestors, and of the schemas of all these, by asker."""
        schemas = [use.schema for use in self._resolver.resolutions]
        relation = np.array([schema.oid for schema in schemas] or [0], np.int64)[self._resolution]
        namespace = np.array([schema.namespace_oid for schema in schemas] or [0], np.int64)[self._resolution]
        has_ancestors = np.array([bool(schema.ancestors) for schema in schemas] or [False], np.bool_)
        more: list[tuple[int, int]] = []
        more_namespaces: list[tuple[int, int]] = []
        for asker in np.flatnonzero(has_ancestors[self._resolution]).tolist():
            catalog = self._view(asker)
            for oid in schemas[int(self._resolution[asker])].ancestors:
                more.append((asker, oid))
                ancestor = catalog.relation(oid)
                more_namespaces += [(asker, ancestor.namespace_oid)] if ancestor is not None else []
        return _by_asker(relation, more), _by_asker(namespace, more_namespaces)

    def _latest(self) -> Int64s:
        """Find the latest change at which something was looked up that each one goes by: int64[a] LSN."""
        lsn = np.append(self._places.lsn, self._memory.latest)
        of_load = np.zeros(len(lsn), np.int64)
        of_load[-1] = self._memory.latest
        for lookups in (self._names, self._rows):
            np.maximum.at(of_load, lookups.asker, lsn[np.maximum(lookups.source, -1)])
        latest = of_load[np.maximum(self._loaded.source, -1)]
        for lookups in (self._relations, self._members, self._schemas):
            np.maximum.at(latest, lookups.asker, lsn[np.maximum(lookups.source, -1)])
        return latest

    def _catalog(self, asker: int) -> RememberedCatalog:
        relations = {
            oid: self._memory.relations[-1 - at].publications if at < 0 else self._view(at).relation_publications(oid)
            for oid, at in self._relations.of(asker)
        }
        schemas = {
            oid: self._memory.schemas[-1 - at].publications if at < 0 else self._view(at).schema_publications(oid)
            for oid, at in self._schemas.of(asker)
        }
        known = self._memory.members
        members = {
            self._pairs[number]: known[-1 - at].member if at < 0 else self._member(self._view(at), number)
            for number, at in self._members.of(asker)
        }
        publications = self._publications(int(self._loaded.source[asker]))
        return RememberedCatalog(self._view(asker), publications, relations, members, schemas)

    def _publications(self, load: int) -> dict[str, RowInMind]:
        """Return the publications as loaded by one of the askers, or as they were remembered."""
        names = self._sender.publication_names
        if load < 0:
            loaded = [RowInMind(_oid(row), row) for row in self._memory.loaded or ()]
            return dict(zip(names, loaded, strict=True))
        rows = {0: RowInMind(0, None)}
        for oid, at in self._rows.of(load):
            rows[oid] = self._memory.rows[-1 - at] if at < 0 else RowInMind(oid, self._view(at).publication_by_oid(oid))
        low, high = np.searchsorted(self._names.asker, [load, load + 1])
        return dict(zip(names, [rows[oid] for oid in self._oid[low:high].tolist()], strict=True))

    def _relation_publications(self, asker: int, oid: int) -> tuple[int, ...]:
        """Return the publications that can be asked what they say of a relation."""
        return tuple(publication for publication in self._view(asker).relation_publications(oid) if publication > 0)

    def _member(self, catalog: HistoricCatalog, number: int) -> PublicationMember:
        """Return a publication's entry of a relation, by their number, where it is known to have one."""
        oid, publication = self._pairs[number]
        member = catalog.publication_member(oid, publication)
        if member is None:
            raise DecodingError(
                f"publication {publication} no longer names relation {oid}, expected a row of pg_publication_rel",
                lsn=catalog.lsn,
            )
        return member

    def _view(self, asker: int) -> HistoricCatalog:
        return self._resolver.view(*self._place(asker))

    def _place(self, asker: int) -> tuple[int, int]:
        return int(self._places.txn[asker]), int(self._places.lsn[asker])


def _oid(publication: Publication | None) -> int:
    return 0 if publication is None else publication.oid


def _by_asker(own: Int64s, more: Sequence[tuple[int, int]]) -> tuple[Int64s, Int64s]:
    """Sort (asker, subject) by asker.

    Args:
        own: int64[a] a subject of each; more: other pairs.
    """
    others = np.array(more, np.int64).reshape(-1, 2)
    asker = np.concatenate([np.arange(len(own)), others[:, 0]])
    order = np.argsort(asker, kind="stable")
    return asker[order], np.concatenate([own, others[:, 1]])[order]
