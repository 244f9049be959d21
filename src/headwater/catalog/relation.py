"""The facts that decoding needs of a relation, as values that can be hashed, compared and sent to Spark tasks.

Mirrors the parts of ``RelationData`` and ``TupleDesc`` that ``reorderbuffer.c``, ``pgoutput.c`` and
``test_decoding.c`` look at. Two equal :class:`RelationSchema` values decode any tuple in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from headwater.pg.catalogs import FIRST_UNPINNED_OBJECT_ID


class ObjectNames(NamedTuple):
    """The texts as which OIDs of a kind of objects print.

    Attributes:
        oids: the OIDs, uint32 little-endian, in ascending order.
        texts: their texts, one after the other, with NUL between them.
    """

    oids: bytes
    texts: str


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """A type as its output function sees it (``pg_type``; PostgreSQL: ``catalog/pg_type.h``).

    Attributes:
        oid: the type's own OID.
        name: ``typname``.
        namespace: name of the type's schema.
        display_name: the text that ``format_type_be(oid)`` prints with the session's search path, e.g. ``integer``,
            ``character varying``, ``timestamp without time zone``, ``text[]``, ``shop.mood``.
        typtype: ``b`` base, ``e`` enum, ``d`` domain, ``c`` composite, ``r`` range, ``m`` multirange, ``p`` pseudo.
        typlen: bytes, -1 varlena, -2 cstring.
        typalign: ``c``, ``s``, ``i`` or ``d``.
        typbyval: whether values are passed by value.
        base: for a domain its (transitive) base type, else None.
        element: for a true array (``typsubscript`` = array_subscript_handler, i.e. typlen -1 and typelem set)
            its element type, else None.
        delimiter: ``typdelim``, between elements in array text.
        labels: for an enum its ``(label oid, label)`` pairs as of the position, else empty.
        subtype: for a range, and for a multirange, the type of its bounds (``rngsubtype``), else None.
        attributes: for a composite its columns as of the position, dropped ones included, else empty.
        output: for a base type that is not the server's own, its output function: the C function's name (``textout``),
            after its library if it is not the server's (``hstore:hstore_out``); else empty.
        send: likewise the type's send function; empty if it has none (``typsend`` is 0).
        names: for a type whose values are OIDs that print as names (``regclass`` and its kin, ``aclitem``), the names
            as of the position. None for another type, or if they are not known.
    """

    oid: int
    name: str
    namespace: str
    display_name: str
    typtype: str
    typlen: int
    typalign: str
    typbyval: bool
    base: TypeInfo | None = None
    element: TypeInfo | None = None
    delimiter: str = ","
    labels: tuple[tuple[int, str], ...] = ()
    subtype: TypeInfo | None = None
    attributes: tuple[Column, ...] = ()
    output: str = ""
    send: str = ""
    names: ObjectNames | None = None
    unspelled: str = ""
    typmod_output: str = ""
    domain_of: TypeInfo | None = None
    domain_typmod: int = -1


@dataclass(frozen=True, slots=True)
class Column:
    """An attribute, dropped ones included (``pg_attribute``).

    Attributes:
        number: ``attnum``, from 1.
        name: ``attname``.
        type: the column's type; None for a dropped column.
        typmod: ``atttypmod``.
        attlen: bytes, -1 varlena, -2 cstring; valid for dropped columns too.
        attalign: ``c``, ``s``, ``i`` or ``d``.
        is_dropped: ``attisdropped``.
        generated: ``attgenerated``: empty, ``s`` stored or ``v`` virtual.
        not_null: ``attnotnull``.
        missing: the fast default's datum as stored (``attmissingval``'s single element: the raw fixed-length bytes, or
            a whole varlena with its header, never out of line), or None.
        collation: ``attcollation``, 0 for a type that has none.
        default: the expression of the column's default in SQL, if a plugin has looked it up; else empty.
    """

    number: int
    name: str
    type: TypeInfo | None
    typmod: int
    attlen: int
    attalign: str
    is_dropped: bool
    generated: str = ""
    not_null: bool = False
    missing: bytes | None = None
    collation: int = 0
    default: str = ""


@dataclass(frozen=True, slots=True)
class RelationSchema:
    """A relation as of a position.

    Attributes:
        oid: ``pg_class.oid``.
        namespace: name of the relation's schema.
        name: ``relname``; for the transient heap of an ALTER TABLE rewrite the name of its table.
        kind: ``relkind``: ``r`` table, ``p`` partitioned, ``t`` TOAST, ``m`` matview, ``S`` sequence, ...
        persistence: ``relpersistence``: ``p`` permanent, ``u`` unlogged, ``t`` temporary.
        replica_identity: ``relreplident``: ``d`` default, ``n`` nothing, ``f`` full, ``i`` index.
        identity_columns: attnums of the replica identity index's key columns (for ``d`` and ``i``), else empty.
        columns: all attributes in attnum order, dropped ones included.
        toast_oid: ``reltoastrelid`` or 0.
        rewrite_of: ``relrewrite`` or 0: not 0 marks the transient heap of an ALTER TABLE rewrite.
        is_partition: ``relispartition``.
        ancestors: OIDs of the relation's partition ancestors, nearest first.
        namespace_oid: ``relnamespace``.
        is_user_catalog: whether ``user_catalog_table`` is set in reloptions.
        primary_key_columns: attnums of the primary key's key columns, else empty (any replica identity).
        unique_columns: where there is no primary key, attnums of a unique index's columns, included ones too, none of
            which is an expression. The index is one that the table is clustered by, else the first by name.
    """

    oid: int
    namespace: str
    name: str
    kind: str
    persistence: str
    replica_identity: str
    identity_columns: tuple[int, ...]
    columns: tuple[Column, ...]
    toast_oid: int = 0
    rewrite_of: int = 0
    is_partition: bool = False
    ancestors: tuple[int, ...] = ()
    namespace_oid: int = 0
    is_user_catalog: bool = False
    primary_key_columns: tuple[int, ...] = ()
    unique_columns: tuple[int, ...] = ()

    @property
    def topmost(self) -> int:
        """OID of the topmost partitioned table that the relation is a partition of; its own if it is none."""
        return self.ancestors[-1] if self.is_partition and self.ancestors else self.oid

    @property
    def has_identity(self) -> bool:
        """Whether the WAL of an UPDATE or DELETE may say which row it was: there is a replica identity."""
        return bool(self.identity_columns) or self.replica_identity == "f"

    @property
    def is_logically_logged(self) -> bool:
        """Whether changes of the relation's rows are decoded at all (RelationIsLogicallyLogged)."""
        return self.kind in "rpm" and self.persistence == "p" and self.oid >= FIRST_UNPINNED_OBJECT_ID


class PublicationMember(NamedTuple):
    """The column list and row filter that a publication has for a relation that it names (``pg_publication_rel``).

    Attributes:
        columns: attnums of the column list, in its order, None without one.
        filter: ``prqual``, the row filter's tree as text (:mod:`headwater.catalog.node_tree`), None without one; empty
            if it is stored out of line and not all of its chunks are known.
    """

    columns: tuple[int, ...] | None = None
    filter: str | None = None


class DatabaseLocale(NamedTuple):
    """The order of a database's text, and the classes of its letters (``pg_database``).

    Attributes:
        collate: ``datcollate``, or ``datlocale`` (before 17 ``daticulocale``) if its provider is not libc.
        ctype: the locale that says what letters are: likewise, of libc ``datctype``.
        provider: ``datlocprovider``: ``c`` libc, ``i`` ICU, ``b`` built in.
    """

    collate: str
    ctype: str
    provider: str


@dataclass(frozen=True)
class RowFilters:
    """The changes of a relation that its publications publish, by kind, as trees of which one must be true.

    Attributes:
        insert: trees for INSERTs, in the order in which the server goes through the publications; empty: all INSERTs.
        update, delete: likewise.
        columns: the columns of the relation as of which it is published, in attnum order, dropped ones included.
        locale: the database's locale.
    """

    insert: tuple[str, ...]
    update: tuple[str, ...]
    delete: tuple[str, ...]
    columns: tuple[Column, ...]
    locale: DatabaseLocale


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication as of a position (``pg_publication``); its members say what is in it.

    Attributes:
        oid: ``pg_publication.oid``.
        name: ``pubname``.
        all_tables: ``puballtables``.
        insert: ``pubinsert``; likewise ``update``, ``delete``, ``truncate``.
        via_root: ``pubviaroot``.
        generated: ``pubgencols`` (18: ``n`` none, ``s`` stored), ``n`` before 18.
    """

    oid: int
    name: str
    all_tables: bool
    insert: bool
    update: bool
    delete: bool
    truncate: bool
    via_root: bool
    generated: str = "n"
