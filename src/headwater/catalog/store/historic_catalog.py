"""The catalog as of an LSN: relations, types, publications, origins.

In: a store that was rolled forward. Out: immutable values of :mod:`headwater.catalog.relation`.

Every value is computed from the rows under a handful of keys. While it is computed, the span of LSNs in which all those
rows are the same is narrowed down. The value is remembered for that span: thousands of views of one relation cost a
dictionary lookup and a bisection each. A view with own commands uses remembered values that rest on no key its
transaction touched, and remembers its others apart. Mirrors relcache.c (RelationBuildDesc, RelationGetIndexList),
partition.c, pg_publication.c, format_type.c.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.catalog.generic_row import NamedRow
from headwater.catalog.object_names import CATALOGS_NAMED, Namer
from headwater.catalog.relation import (
    Column,
    DatabaseLocale,
    ObjectNames,
    Publication,
    PublicationMember,
    RelationSchema,
    TypeInfo,
)
from headwater.catalog.store.catalog_versions import CatalogVersions
from headwater.catalog.store.view_cache import Memo, Span
from headwater.catalog.type_names import SPELLINGS, UNSPELLED
from headwater.catalog.versions import Dependency, Key, OwnCommands, relation_map_key, visible_to
from headwater.errors import CatalogError
from headwater.pg.catalogs import (
    C_LANGUAGE,
    F_ARRAY_SUBSCRIPT_HANDLER,
    FIRST_NORMAL_OBJECT_ID,
    FIRST_UNPINNED_OBJECT_ID,
    GLOBAL_TABLESPACE,
    INTERNAL_LANGUAGE,
    PG_CLASS,
    PG_NAMESPACE,
    PG_PUBLICATION,
)
from headwater.pg.identifiers import quote_identifier, quote_qualified_identifier
from headwater.pg.version import VERSIONS
from headwater.rmgr.heap import TupleBytes

if TYPE_CHECKING:
    from headwater.catalog.rows import CatalogRows, ClassRow, IndexRow, PublicationRow, TypeRow

T = TypeVar("T")


class HistoricCatalog:
    """The catalog as of an LSN.

    Args:
        store: the store that has the versions.
        lsn: the changes of transactions that committed before it are visible.
        own: a transaction that also sees its own changes.
        memo: values that rest on committed rows only.
        own_keys: all keys under which the own transaction made or removed rows.
        own_memo: values that rest on such rows.
    """

    __slots__ = ("_building", "_lsn", "_memo", "_own", "_own_keys", "_own_memo", "_spans", "_store")

    def __init__(
        self,
        store: CatalogVersions,
        lsn: int,
        own: OwnCommands | None,
        memo: Memo,
        own_keys: frozenset[Dependency],
        own_memo: Memo | None,
    ) -> None:
        self._store = store
        self._lsn = lsn
        self._own = own
        self._memo = memo
        self._own_keys = own_keys
        self._own_memo = own_memo
        self._spans: list[Span] = []
        self._building: set[tuple[str, Any]] = set()

    @property
    def lsn(self) -> int:
        """The LSN of the view: the changes of transactions that committed before it are visible."""
        return self._lsn

    def relation_by_filenode(self, tablespace: int, filenode: int) -> RelationSchema | None:
        """Return the relation that lies in a file, None if there is none (RelidByRelfilenumber).

        Args:
            tablespace: OID as in WAL records.
            filenode: file number.

        Raises:
            CatalogError: the catalog is inconsistent.
        """
        return self._remember(("filenode", (tablespace, filenode)), self._find_by_filenode)

    def relation(self, oid: int) -> RelationSchema | None:
        """Return a relation by its OID, None if there is none.

        Raises:
            CatalogError: the catalog is inconsistent.
        """
        return self._remember(("relation", oid), self._build_relation)

    def publication(self, name: str) -> Publication | None:
        """Return a publication by its name, None if there is none."""
        return self._remember(("publication", name), self._build_publication)

    def publication_by_oid(self, oid: int) -> Publication | None:
        """Return a publication by its OID, None if there is none."""
        return self._remember(("publication", oid), self._build_publication_by_oid)

    def relation_publications(self, oid: int) -> tuple[int, ...]:
        """List OIDs of the publications that a relation is in by itself (GetRelationPublications), in order.

        Publications that leave the relation out of all tables are negative, and come first.
        """
        return tuple(self._members(oid))

    def publication_member(self, relation: int, publication: int) -> PublicationMember | None:
        """Return the entry of a relation in a publication, both by OID; None if the publication does not name it."""
        return self._members(relation).get(publication)

    def schema_publications(self, oid: int) -> tuple[int, ...]:
        """List OIDs of the publications that a schema is in (GetSchemaPublications), in order."""
        return self._remember(("publications of schema", oid), self._build_schema_publications)

    def has_had_publication(self, name: str) -> bool:
        """Tell whether there is a publication of this name, or has been one since the catalog was taken.

        A publication that only a part of a transaction has seen also counts.
        """
        key = self._rows.encode(name)
        lives = map(self._store.fates.lifetime, self._store.versions(("pg_publication", "pubname", key)))
        return key in self._store.publication_names or any(born < self._lsn and died > 0 for born, died in lives)

    def locale(self) -> DatabaseLocale:
        """Return the order of the database's text; nothing is known of it if the database has no row."""
        return self._remember(("locale", self._store.origin.database_oid), self._build_locale)

    def publication_names(self) -> list[str]:
        """List the names of all publications, sorted."""
        return sorted(row.name for row in self._rows.publications(self._whole(PG_PUBLICATION)))

    def tables(self) -> tuple[int, ...]:
        """List OIDs of the permanent tables, partitioned ones also, in order; catalogs are among them."""
        return self._remember(("permanent", "rp"), self._find_permanent)

    def sequences(self) -> tuple[int, ...]:
        """List OIDs of the permanent sequences, in order."""
        return self._remember(("permanent", "S"), self._find_permanent)

    def relation_named(self, namespace: str, name: str) -> int | None:
        """Return the OID of a relation of any kind by its schema and its name, None if there is none."""
        names = self._remember(("relations", "by name"), self._build_relation_names)
        return next((names[oid, name] for oid in self._schemas_named(namespace) if (oid, name) in names), None)

    def identity_index_columns(self, oid: int) -> tuple[int, ...] | None:
        """Return all attnums of a relation's replica identity index; None without one (RelationGetReplicaIndex)."""
        rows = self.class_rows(oid)
        index = self._chosen_indexes(oid, rows[0].kind, rows[0].replica_identity)[0] if rows else None
        return None if index is None else (*index.columns, *index.included)

    def unlogged_tables(self) -> list[tuple[str, str, str]]:
        """List schema, name and persistence of tables whose changes are not in the WAL: unlogged and temporary ones.

        A table whose schema was dropped, while another session made it, is nobody's any more.
        """
        schemas = {row.oid: row.name for row in self._rows.namespaces(self._whole(PG_NAMESPACE))}
        rows = self._rows.classes(self._whole(PG_CLASS))
        tables = [row for row in rows if row.persistence != "p" and row.kind in "rp" and row.namespace in schemas]
        return [(schemas[row.namespace], row.name, row.persistence) for row in tables]

    def partitions_without_wal(self) -> tuple[int, ...]:
        """List OIDs of the partitions with rows that are not in the WAL, in order: unlogged ones and foreign tables."""
        return self._remember(("partitions", (("r", "u"), ("f", "p"))), self._find_partitions)

    def origin_name(self, origin: int) -> str | None:
        """Return a replication origin's name, None if there is none."""
        return self._remember(("origin", origin), self._build_origin)

    def type_info(self, oid: int) -> TypeInfo:
        """Return a type by its OID.

        Raises:
            CatalogError: there is no such type.
        """
        return self._remember(("type", oid), self._build_type)

    def _column_type(self, oid: int) -> TypeInfo:
        """Return a type of a catalog's column, which nobody prints: the names of objects are left out."""
        return self._remember(("type of a catalog", oid), self._build_column_type)

    def namespace_name(self, oid: int) -> str:
        """Return a schema's name.

        Raises:
            CatalogError: there is no such schema.
        """
        for row in self._rows.namespaces(self._keyed("pg_namespace", "oid", oid)):
            return row.name
        raise CatalogError(f"cache lookup failed for namespace {oid}", lsn=self._lsn)

    def class_rows(self, oid: int) -> list[ClassRow]:
        """Return the visible ``pg_class`` rows of a relation: one, or none."""
        return self._rows.classes(self._keyed("pg_class", "oid", oid))

    @property
    def major(self) -> int:
        """PostgreSQL's major version."""
        return self._store.origin.major

    @property
    def encoding(self) -> str:
        """Name of the database's encoding."""
        return self._store.origin.encoding

    def named_rows(self, catalog: str, index: str, key: Key) -> list[NamedRow]:
        """Return the visible rows of a catalog under a key, in no order.

        The key is one of an index of :mod:`headwater.catalog.store.tables`.

        Args:
            catalog: the catalog's name; the store follows it.
            index: the index's name.
            key: an OID, or a name as the catalog holds it.
        """
        layout, encoding = self._store.layout_of(catalog), self._store.origin.encoding
        return [NamedRow(layout, row, encoding, self._chunks) for row in self._keyed(catalog, index, key)]

    def derived(self, question: tuple[str, Any], build: Callable[[Any], T]) -> T:
        """Answer from rows that :meth:`named_rows` gives, from memory as long as these rows are the same.

        Args:
            question: the kind of answer, and its subject.
            build: makes the answer, given the subject.
        """
        return self._remember(question, build)

    def follows(self, catalog: str) -> bool:
        """Tell whether there is a catalog of this name here."""
        return self._store.follows(catalog)

    def _chunks(self, table: str, value: int) -> list[TupleBytes]:
        return self._keyed(table, "chunk_id", value) if self.follows(table) else []

    @property
    def _rows(self) -> CatalogRows:
        return self._store.rows

    def _remember(self, question: tuple[str, Any], build: Callable[[Any], T]) -> T:
        """Answer from memory, or build the answer and note how long it holds."""
        hit = self._memo.get(question, self._lsn)
        if hit is not None and self._own_memo is not None and not self._own_keys.isdisjoint(hit[0].keys):
            hit = None
        if hit is None and self._own_memo is not None:
            hit = self._own_memo.get(question, self._lsn)
        if hit is None:
            hit = self._build(question, build)
        if self._spans:
            self._spans[-1].absorb(hit[0])
        answer: T = hit[1]
        return answer

    def _build(self, question: tuple[str, Any], build: Callable[[Any], T]) -> tuple[Span, T]:
        if question in self._building:
            raise CatalogError(f"{question[0]} {question[1]} contains itself", lsn=self._lsn)
        span = Span()
        self._spans.append(span)
        self._building.add(question)
        try:
            answer = build(question[1])
        finally:
            self._spans.pop()
            self._building.remove(question)
        memo = self._own_memo if span.is_own and self._own_memo is not None else self._memo
        memo.put(question, span, answer)
        return span, answer

    def _keyed(self, catalog: str, index: str, key: Key) -> list[TupleBytes]:
        """Return the visible rows under a key."""
        dependency = (catalog, index, key)
        timeline = self._store.timeline_of(dependency)
        at = bisect_left(timeline.ends, self._lsn)
        if self._spans:
            span = self._spans[-1]
            span.narrow(timeline.ends[at - 1] if at else 0, timeline.ends[at])
            span.keys.add(dependency)
            span.is_own |= dependency in self._own_keys
        if self._own is None or dependency not in self._own_keys:
            return [version.data for version in timeline.rows[at]]
        fates = self._store.fates
        return [v.data for v in self._store.versions(dependency) if visible_to(v, self._lsn, self._own, fates)]

    def _find_permanent(self, kinds: str) -> tuple[int, ...]:
        rows = self._rows.classes(self._whole(PG_CLASS))
        return tuple(sorted(row.oid for row in rows if row.persistence == "p" and row.kind in kinds))

    def _build_relation_names(self, _: str) -> Mapping[tuple[int, str], int]:
        return {(row.namespace, row.name): row.oid for row in self._rows.classes(self._whole(PG_CLASS))}

    def _find_partitions(self, kinds: tuple[tuple[str, str], ...]) -> tuple[int, ...]:
        rows = self._rows.classes(self._whole(PG_CLASS))
        return tuple(sorted(row.oid for row in rows if row.is_partition and (row.kind, row.persistence) in kinds))

    def _find_by_filenode(self, place: tuple[int, int]) -> RelationSchema | None:
        tablespace, filenode = place
        if tablespace == GLOBAL_TABLESPACE:
            oid = self._mapped_oid(filenode, True)
            return self.relation(oid) if oid is not None else None
        spc = 0 if tablespace == self._default_tablespace() else tablespace
        for row in self._rows.classes(self._keyed("pg_class", "filenode", filenode | spc << 32)):
            if row.persistence != "t":
                return self.relation(row.oid)
        oid = self._mapped_oid(filenode, False)
        return self.relation(oid) if oid is not None else None

    def _default_tablespace(self) -> int:
        """Return the database's tablespace: relations that name no tablespace are there (MyDatabaseTableSpace)."""
        rows = self._rows.databases(self._keyed("pg_database", "oid", self._store.origin.database_oid))
        return rows[0].tablespace if rows else self._store.origin.database_tablespace

    def _build_locale(self, oid: int) -> DatabaseLocale:
        rows = self._rows.locales(self._keyed("pg_database", "oid", oid))
        return rows[0] if rows else DatabaseLocale("", "", "c")

    def _mapped_oid(self, filenode: int, is_shared: bool) -> int | None:
        if self._spans:
            self._spans[-1].keys.add(relation_map_key(is_shared, filenode))
        return self._store.mapped_oid(filenode, is_shared)

    def _build_relation(self, oid: int) -> RelationSchema | None:
        rows = self._rows.classes(self._keyed("pg_class", "oid", oid))
        if not rows:
            return None
        row = rows[0]
        identity, primary = self._index_columns(oid, row.kind, row.replica_identity)
        return RelationSchema(
            oid=oid,
            namespace=self.namespace_name(row.namespace),
            name=self._table_name(row),
            kind=row.kind,
            persistence=row.persistence,
            replica_identity=row.replica_identity,
            identity_columns=identity,
            columns=self._columns(
                oid, row.natts, self._column_type if oid < FIRST_UNPINNED_OBJECT_ID else self.type_info
            ),
            toast_oid=row.toast,
            rewrite_of=row.rewrite,
            is_partition=row.is_partition,
            ancestors=self._ancestors(oid) if row.is_partition else (),
            namespace_oid=row.namespace,
            is_user_catalog=row.is_user_catalog,
            primary_key_columns=primary,
            unique_columns=() if primary or row.kind not in "rp" else self._unique_columns(oid),
        )

    def _table_name(self, row: ClassRow) -> str:
        """Return a relation's name; for the transient heap of a rewrite (make_new_heap) its table's name."""
        rows = self._rows.classes(self._keyed("pg_class", "oid", row.rewrite)) if row.rewrite else []
        return rows[0].name if rows else row.name

    def _columns(self, oid: int, natts: int, find: Callable[[int], TypeInfo]) -> tuple[Column, ...]:
        rows = self._rows.attributes(self._keyed("pg_attribute", "attrelid", oid))
        if [row.number for row in rows] != list(range(1, natts + 1)):
            raise CatalogError(
                f"pg_attribute has {len(rows)} attributes of relation {oid}, expected {natts}", lsn=self._lsn
            )
        return tuple(
            Column(
                number=row.number,
                name=row.name,
                type=None if row.is_dropped else find(row.type),
                typmod=row.typmod,
                attlen=row.length,
                attalign=row.align,
                is_dropped=row.is_dropped,
                generated=row.generated,
                not_null=row.not_null,
                missing=row.missing,
                collation=row.collation,
            )
            for row in rows
        )

    def _index_columns(self, oid: int, kind: str, identity: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return key columns of the replica identity index, and of the primary key."""
        index, primary = self._chosen_indexes(oid, kind, identity)
        return index.columns if index else (), primary.columns if primary else ()

    def _chosen_indexes(self, oid: int, kind: str, identity: str) -> tuple[IndexRow | None, IndexRow | None]:
        """Return the replica identity index, and the primary key's (RelationGetIndexList)."""
        if kind in "vcifS":
            return None, None
        version = VERSIONS[self._store.origin.major]
        primary: IndexRow | None = None
        chosen: IndexRow | None = None
        for row in self._rows.indexes(self._keyed("pg_index", "indrelid", oid)):
            if not row.is_live or not row.is_unique or row.has_predicate:
                continue
            if not (version.keeps_deferred_primary_keys or (row.is_valid and row.is_immediate)):
                continue
            if row.is_primary and (row.is_valid or kind == "p"):
                primary = row
            if row.is_valid and row.is_immediate and row.is_replica_identity:
                chosen = row
        index = chosen if identity == "i" else primary if identity == "d" else None
        return index if index is None or index.is_immediate else None, primary

    def _unique_columns(self, oid: int) -> tuple[int, ...]:
        """Return columns of the unique index that JDBC lists first (getIndexInfo), of those without expressions."""
        rows = self._rows.indexes(self._keyed("pg_index", "indrelid", oid))
        indexes = [row for row in rows if row.is_unique and 0 not in row.columns]
        names = {row.oid: self.class_rows(row.oid)[0].name.encode() for row in indexes if self.class_rows(row.oid)}
        chosen = min(indexes, key=lambda row: (not row.is_clustered, names.get(row.oid, b"")), default=None)
        return (*chosen.columns, *chosen.included) if chosen else ()

    def _ancestors(self, oid: int) -> tuple[int, ...]:
        """List ancestors from nearest to root; a partition being detached has none (get_partition_ancestors)."""
        ancestors: list[int] = []
        while True:
            rows = self._rows.parents(self._keyed("pg_inherits", "inhrelid", oid))
            parent = next((row for row in rows if row.number == 1), None)
            if parent is None or parent.is_detaching or parent.oid in ancestors:
                return tuple(ancestors)
            ancestors.append(parent.oid)
            oid = parent.oid

    def _build_type(self, oid: int) -> TypeInfo:
        info = self._type(oid, self.type_info)
        return replace(info, names=self._names(oid)) if oid in CATALOGS_NAMED else info

    def _build_column_type(self, oid: int) -> TypeInfo:
        return self._type(oid, self._column_type)

    def _names(self, oid: int) -> ObjectNames | None:
        """Return the texts as which a type's OIDs print; None if a catalog that the names rest on is not known."""
        if not all(map(self._store.has_rows, CATALOGS_NAMED[oid])):
            return None
        origin = self._store.origin
        return Namer(self._whole, self._remember, self._search_path(), origin.major, origin.encoding).names(oid)

    def _whole(self, catalog: int) -> list[TupleBytes]:
        """Return all visible rows of a catalog."""
        return self._keyed(*self._store.whole(catalog))

    def _type(self, oid: int, find: Callable[[int], TypeInfo]) -> TypeInfo:
        """Build a type; the types that it is made of are found by `find`."""
        rows = self._rows.types(self._keyed("pg_type", "oid", oid))
        if not rows:
            raise CatalogError(f"cache lookup failed for type {oid}", lsn=self._lsn)
        row = rows[0]
        is_array = row.subscript == F_ARRAY_SUBSCRIPT_HANDLER and row.element != 0
        element = find(row.element) if is_array else None
        display, unspelled = self._spelled(row, oid, element)
        base = find(row.base) if row.typtype == "d" else None
        is_own_base = row.typtype == "b" and oid >= FIRST_NORMAL_OBJECT_ID
        return TypeInfo(
            oid=oid,
            name=row.name,
            namespace=self.namespace_name(row.namespace),
            display_name=display,
            typtype=row.typtype,
            typlen=row.length,
            typalign=row.align,
            typbyval=row.by_value,
            base=base.base or base if base else None,
            element=element,
            delimiter=row.delimiter,
            labels=self._labels(oid) if row.typtype == "e" else (),
            subtype=self._subtype(oid, row.typtype, find) if row.typtype in "rm" else None,
            attributes=self._attributes(row.relation, find) if row.typtype == "c" else (),
            output=self._c_function(row.output) if is_own_base else "",
            send=self._c_function(row.send) if is_own_base and row.send else "",
            unspelled=unspelled,
            typmod_output=self._c_function(row.typmod_output) if is_own_base and row.typmod_output else "",
            domain_of=base,
            domain_typmod=row.base_typmod if base else -1,
        )

    def _spelled(self, row: TypeRow, oid: int, element: TypeInfo | None) -> tuple[str, str]:
        """Spell a type as ``format_type`` does without a typmod, and with the typmod of none, if this differs."""
        if element is not None and row.storage != "p":
            return f"{element.display_name}[]", f"{element.unspelled}[]" if element.unspelled else ""
        if oid not in SPELLINGS:
            return self._type_name(row.name, row.namespace), ""
        return SPELLINGS[oid], self._type_name(row.name, row.namespace) if oid in UNSPELLED else ""

    def _subtype(self, oid: int, typtype: str, find: Callable[[int], TypeInfo]) -> TypeInfo:
        """Return the type of the bounds of a range or a multirange (pg_range)."""
        key = "rngtypid" if typtype == "r" else "rngmultitypid"
        for row in self._rows.ranges(self._keyed("pg_range", key, oid)):
            return find(row.subtype)
        raise CatalogError(f"cache lookup failed for range type {oid}", lsn=self._lsn)

    def _attributes(self, relation: int, find: Callable[[int], TypeInfo]) -> tuple[Column, ...]:
        """Return the columns of a composite type, whose relation this is (typrelid)."""
        for row in self.class_rows(relation):
            return self._columns(relation, row.natts, find)
        raise CatalogError(f"cache lookup failed for relation {relation}", lsn=self._lsn)

    def _c_function(self, oid: int) -> str:
        """Name the C function of an output or send function; empty for one in another language, which none is."""
        for row in self._rows.functions(self._keyed("pg_proc", "oid", oid)):
            if row.language == INTERNAL_LANGUAGE:
                return row.symbol
            if row.language == C_LANGUAGE:
                library = PurePosixPath(row.library).name.removesuffix(".so")
                return f"{library}:{row.symbol}"
            return ""
        raise CatalogError(f"cache lookup failed for function {oid}", lsn=self._lsn)

    def _type_name(self, name: str, namespace: int) -> str:
        """Return a type's name, qualified unless the search path finds it (TypeIsVisible)."""
        if self._is_visible_type(name, namespace):
            return quote_identifier(name, self._store.origin.major)
        return quote_qualified_identifier(self.namespace_name(namespace), name, self._store.origin.major)

    def _is_visible_type(self, name: str, namespace: int) -> bool:
        """Tell whether the search path has the schema, and none before it with a type of that name."""
        path = self._search_path()
        if namespace not in path:
            return False
        before = path[: path.index(namespace)]
        if not before:
            return True
        rivals = self._rows.types(self._keyed("pg_type", "typname", self._rows.encode(name)))
        return all(row.namespace not in before for row in rivals)

    def _search_path(self) -> tuple[int, ...]:
        """List OIDs of the schemas in which a session finds objects by their bare names, in order."""
        return self._store.search_path.places(self._schemas_named)

    def _schemas_named(self, name: str) -> list[int]:
        rows = self._keyed("pg_namespace", "nspname", self._rows.encode(name))
        return [row.oid for row in self._rows.namespaces(rows)]

    def _labels(self, oid: int) -> tuple[tuple[int, str], ...]:
        """Return an enum's labels, in their sort order."""
        rows = self._rows.labels(self._keyed("pg_enum", "enumtypid", oid))
        return tuple((row.oid, row.label) for row in sorted(rows, key=lambda row: row.order))

    def _build_publication(self, name: str) -> Publication | None:
        return _publication(self._rows.publications(self._keyed("pg_publication", "pubname", self._rows.encode(name))))

    def _build_publication_by_oid(self, oid: int) -> Publication | None:
        return _publication(self._rows.publications(self._keyed("pg_publication", "oid", oid)))

    def _members(self, oid: int) -> Mapping[int, PublicationMember]:
        """Return the entries of a relation in publications, by their OIDs; negative ones of those that leave it out."""
        return self._remember(("publications of relation", oid), self._build_members)

    def _build_members(self, oid: int) -> Mapping[int, PublicationMember]:
        members = self._rows.publication_relations(self._keyed("pg_publication_rel", "prrelid", oid), self._chunks)
        entries = {
            -row.publication if row.is_excepted else row.publication: PublicationMember(row.columns, row.filter)
            for row in members
        }
        return dict(sorted(entries.items()))

    def _build_schema_publications(self, oid: int) -> tuple[int, ...]:
        if not self.follows("pg_publication_namespace"):
            return ()
        members = self._rows.publication_schemas(self._keyed("pg_publication_namespace", "pnnspid", oid))
        return tuple(sorted(row.publication for row in members))

    def _build_origin(self, origin: int) -> str | None:
        names = self._rows.origins(self._keyed("pg_replication_origin", "roident", origin))
        return names[0] if names else None


def _publication(rows: Sequence[PublicationRow]) -> Publication | None:
    """Make the publication of a row; None if there is no row."""
    if not rows:
        return None
    row = rows[0]
    return Publication(
        oid=row.oid,
        name=row.name,
        all_tables=row.all_tables,
        insert=row.insert,
        update=row.update,
        delete=row.delete,
        truncate=row.truncate,
        via_root=row.via_root,
        generated=row.generated,
    )
