"""Rows of the catalogs as Python values.

In: tuples under a key. Out: a small dataclass for each row, with just the columns decoding needs. The offsets of
columns differ by major version (:mod:`headwater.pg.catalogs`); their meaning does not.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from headwater.catalog import fields
from headwater.catalog.long_values import Chunks, long_value
from headwater.catalog.pages import HEAP_NATTS_MASK
from headwater.catalog.relation import DatabaseLocale
from headwater.errors import CatalogError
from headwater.pg.catalogs import (
    PG_ATTRIBUTE,
    PG_CLASS,
    PG_DATABASE,
    PG_ENUM,
    PG_INDEX,
    PG_INHERITS,
    PG_NAMESPACE,
    PG_PROC,
    PG_PUBLICATION,
    PG_PUBLICATION_NAMESPACE,
    PG_PUBLICATION_REL,
    PG_RANGE,
    PG_REPLICATION_ORIGIN,
    PG_TYPE,
    CatalogLayout,
    catalog_layout,
    catalog_oids,
)
from headwater.pg.encodings import decode_name, encode_name
from headwater.rmgr.heap import TupleBytes

_TRUE = b"\x01"
_CHARACTERS: dict[int, dict[str, bytes]] = {
    PG_CLASS: {"relkind": b"rpmvStcfiI", "relpersistence": b"put", "relreplident": b"dnfi", "relhasindex": b"\0\1"},
    PG_ATTRIBUTE: {"attalign": b"csid", "attstorage": b"pexm", "attbyval": b"\0\1", "attisdropped": b"\0\1"},
    PG_TYPE: {"typalign": b"csid", "typstorage": b"pexm", "typbyval": b"\0\1", "typtype": b"bcdeprm"},
    # Among the shared catalogs, no other one has two columns.
    PG_REPLICATION_ORIGIN: {},
}
_USER_CATALOG = b"user_catalog_table="


@dataclass(frozen=True, slots=True)
class ClassRow:
    """A row of ``pg_class``."""

    oid: int
    name: str
    namespace: int
    filenode: int
    tablespace: int
    toast: int
    persistence: str
    kind: str
    natts: int
    replica_identity: str
    is_partition: bool
    rewrite: int
    access_method: int
    is_user_catalog: bool


@dataclass(frozen=True, slots=True)
class AttributeRow:
    """A row of ``pg_attribute`` that is no system column."""

    name: str
    type: int
    length: int
    number: int
    typmod: int
    align: str
    not_null: bool
    generated: str
    is_dropped: bool
    missing: bytes | None
    collation: int


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A row of ``pg_type``."""

    name: str
    namespace: int
    length: int
    by_value: bool
    typtype: str
    delimiter: str
    subscript: int
    element: int
    align: str
    storage: str
    base: int
    relation: int
    output: int
    send: int
    typmod_output: int
    base_typmod: int


@dataclass(frozen=True, slots=True)
class IndexRow:
    """A row of ``pg_index``; ``columns`` are its key columns, 0 for an expression, ``included`` its other ones."""

    oid: int
    is_unique: bool
    is_primary: bool
    is_immediate: bool
    is_clustered: bool
    is_valid: bool
    is_live: bool
    is_replica_identity: bool
    has_predicate: bool
    columns: tuple[int, ...]
    included: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ParentRow:
    """A row of ``pg_inherits``: ``oid`` is the parent."""

    oid: int
    number: int
    is_detaching: bool


@dataclass(frozen=True, slots=True)
class NamedRow:
    """A row that is an OID and a name."""

    oid: int
    name: str


@dataclass(frozen=True, slots=True)
class LabelRow:
    """A row of ``pg_enum``."""

    oid: int
    order: float
    label: str


@dataclass(frozen=True, slots=True)
class RangeRow:
    """A row of ``pg_range``."""

    type: int
    subtype: int


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """A row of ``pg_proc``: the code of a function; ``library`` is empty for one that is not in a library."""

    language: int
    symbol: str
    library: str


@dataclass(frozen=True, slots=True)
class PublicationRow:
    """A row of ``pg_publication``."""

    oid: int
    name: str
    all_tables: bool
    insert: bool
    update: bool
    delete: bool
    truncate: bool
    via_root: bool
    generated: str


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A row of ``pg_publication_rel``; ``columns`` is None without a column list.

    ``filter`` is None without a row filter, and empty if it is stored out of line and not all of its chunks are known.
    With ``is_excepted`` it says that a publication of all tables leaves the relation out.
    """

    publication: int
    relation: int
    is_excepted: bool
    filter: str | None
    columns: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class SchemaRow:
    """A row of ``pg_publication_namespace``."""

    publication: int
    schema: int


@dataclass(frozen=True, slots=True)
class DatabaseRow:
    """A row of ``pg_database``."""

    oid: int
    name: str
    encoding: int
    is_template: bool
    allows_connections: bool
    tablespace: int


def looks_like(layout: CatalogLayout, row: TupleBytes) -> bool:
    """Tell whether a row of an unknown catalog can be one of this catalog.

    Args:
        layout: the layout of ``pg_class``, ``pg_attribute`` or ``pg_type``; for a shared catalog, of
            ``pg_replication_origin``.
        row: the row.
    """
    if row.infomask2 & HEAP_NATTS_MASK != len(layout.columns) or len(row.body) < layout.fixed_length:
        return False
    return all(row.body[layout.offsets[name]] in allowed for name, allowed in _CHARACTERS[layout.oid].items())


class CatalogRows:
    """A reader of rows of one major version.

    Args:
        major: PostgreSQL's major version.
        encoding: the database's encoding, for names.
    """

    def __init__(self, major: int, encoding: str) -> None:
        self._encoding = encoding
        self._layouts = {oid: catalog_layout(major, oid) for oid in catalog_oids(major)}
        layouts = self._layouts
        self._class = layouts[PG_CLASS].reader(
            *("oid", "relname", "relnamespace", "relam", "relfilenode", "reltablespace", "reltoastrelid"),
            *("relpersistence", "relkind", "relnatts", "relreplident", "relispartition", "relrewrite"),
        )
        names = ["attname", "atttypid", "attlen", "attnum", "atttypmod", "attalign", "attnotnull", "atthasmissing"]
        self._attribute = layouts[PG_ATTRIBUTE].reader(*names, "attgenerated", "attisdropped", "attcollation")
        self._type = layouts[PG_TYPE].reader(
            *("typname", "typnamespace", "typlen", "typbyval", "typtype", "typdelim", "typrelid", "typsubscript"),
            *("typelem", "typoutput", "typsend", "typmodout", "typalign", "typstorage", "typbasetype", "typtypmod"),
        )
        self._range = layouts[PG_RANGE].reader("rngtypid", "rngsubtype")
        self._function = layouts[PG_PROC].reader("prolang")
        self._index = layouts[PG_INDEX].reader(
            *("indexrelid", "indnkeyatts", "indisunique", "indisprimary", "indimmediate", "indisclustered"),
            *("indisvalid", "indislive", "indisreplident"),
        )
        self._inherits = layouts[PG_INHERITS].reader("inhparent", "inhseqno", "inhdetachpending")
        self._namespace = layouts[PG_NAMESPACE].reader("oid", "nspname")
        self._enum = layouts[PG_ENUM].reader("oid", "enumsortorder", "enumlabel")
        self._has_gencols = layouts[PG_PUBLICATION].has("pubgencols")
        self._publication = layouts[PG_PUBLICATION].reader(
            *("oid", "pubname", "puballtables", "pubinsert", "pubupdate", "pubdelete", "pubtruncate", "pubviaroot"),
            *(["pubgencols"] if self._has_gencols else []),
        )
        self._has_exceptions = layouts[PG_PUBLICATION_REL].has("prexcept")
        self._member = layouts[PG_PUBLICATION_REL].reader(
            "prpubid", "prrelid", *(["prexcept"] if self._has_exceptions else [])
        )
        self._has_choices = layouts[PG_PUBLICATION_REL].has("prattrs")
        self._schema = (
            layouts[PG_PUBLICATION_NAMESPACE].reader("pnpubid", "pnnspid")
            if PG_PUBLICATION_NAMESPACE in layouts
            else None
        )
        self._database = layouts[PG_DATABASE].reader(
            "oid", "datname", "encoding", "datistemplate", "datallowconn", "dattablespace"
        )

    def encode(self, name: str) -> bytes:
        """Encode a name as the catalog holds it."""
        return encode_name(name, self._encoding)

    def classes(self, rows: Iterable[TupleBytes]) -> list[ClassRow]:
        """Read rows of ``pg_class``."""
        return [self._class_row(row) for row in rows]

    def _class_row(self, row: TupleBytes) -> ClassRow:
        oid, name, namespace, method, filenode, tablespace, toast, persistence, kind, natts, *rest = (
            self._class.unpack_from(row.body)
        )
        identity, partition, rewrite = rest
        return ClassRow(
            oid=oid,
            name=self._name(name),
            namespace=namespace,
            filenode=filenode,
            tablespace=tablespace,
            toast=toast,
            persistence=_char(persistence),
            kind=_char(kind),
            natts=natts,
            replica_identity=_char(identity),
            is_partition=partition == _TRUE,
            rewrite=rewrite,
            access_method=method,
            is_user_catalog=self._is_user_catalog(row),
        )

    def _is_user_catalog(self, row: TupleBytes) -> bool:
        options = fields.column(self._layouts[PG_CLASS], row, "reloptions")
        for option in fields.text_array(options) if options else ():
            if option.startswith(_USER_CATALOG):
                return option[len(_USER_CATALOG) :].lower() in (b"true", b"on", b"1", b"yes", b"t", b"y")
        return False

    def attributes(self, rows: Iterable[TupleBytes]) -> list[AttributeRow]:
        """Read rows of ``pg_attribute``, system columns left out, in the order of ``attnum``."""
        attributes = []
        for row in rows:
            name, kind, length, number, typmod, align, not_null, has_missing, generated, dropped, collation = (
                self._attribute.unpack_from(row.body)
            )
            if number > 0:
                missing = self._missing(row, length) if has_missing == _TRUE else None
                is_dropped = dropped == _TRUE
                mod = _typmod(typmod)
                attributes.append(
                    AttributeRow(
                        self._name(name),
                        kind,
                        length,
                        number,
                        mod,
                        _char(align),
                        not_null == _TRUE,
                        _char(generated),
                        is_dropped,
                        missing,
                        collation,
                    )
                )
        return sorted(attributes, key=lambda attribute: attribute.number)

    def _missing(self, row: TupleBytes, length: int) -> bytes | None:
        value = fields.column(self._layouts[PG_ATTRIBUTE], row, "attmissingval")
        return fields.single_element(value, length) if value else None

    def types(self, rows: Iterable[TupleBytes]) -> list[TypeRow]:
        """Read rows of ``pg_type``."""
        types = []
        for row in rows:
            name, space, length, by_value, kind, delimiter, relation, subscript, element, *rest = (
                self._type.unpack_from(row.body)
            )
            output, send, typmod_output, align, storage, base, base_typmod = rest
            types.append(
                TypeRow(
                    self._name(name),
                    space,
                    length,
                    by_value == _TRUE,
                    _char(kind),
                    delimiter.decode("latin-1"),
                    subscript,
                    element,
                    _char(align),
                    _char(storage),
                    base,
                    relation,
                    output,
                    send,
                    typmod_output,
                    _typmod(base_typmod),
                )
            )
        return types

    def ranges(self, rows: Iterable[TupleBytes]) -> list[RangeRow]:
        """Read rows of ``pg_range``."""
        return [RangeRow(*self._range.unpack_from(row.body)) for row in rows]

    def functions(self, rows: Iterable[TupleBytes]) -> list[FunctionRow]:
        """Read rows of ``pg_proc``."""
        functions = []
        for row in rows:
            (language,) = self._function.unpack_from(row.body)
            symbol, library = (self._text(PG_PROC, row, name) for name in ("prosrc", "probin"))
            functions.append(FunctionRow(language, symbol, library))
        return functions

    def _text(self, catalog: int, row: TupleBytes, name: str) -> str:
        """Read a column of type text as a name; empty for NULL, and if the value is compressed or out of line."""
        value = fields.column(self._layouts[catalog], row, name)
        return self._name(fields.payload(value) or b"") if value else ""

    def indexes(self, rows: Iterable[TupleBytes]) -> list[IndexRow]:
        """Read rows of ``pg_index``."""
        layout = self._layouts[PG_INDEX]
        indexes = []
        for row in rows:
            oid, keys, *flags = self._index.unpack_from(row.body)
            unique, primary, immediate, clustered, valid, live, identity = (flag == _TRUE for flag in flags)
            columns = fields.int2vector(fields.column(layout, row, "indkey") or b"\x01\x12")
            has_predicate = fields.column(layout, row, "indpred") is not None
            indexes.append(
                IndexRow(
                    *(oid, unique, primary, immediate, clustered, valid, live, identity, has_predicate),
                    *(columns[:keys], columns[keys:]),
                )
            )
        return indexes

    def parents(self, rows: Iterable[TupleBytes]) -> list[ParentRow]:
        """Read rows of ``pg_inherits``."""
        values = (self._inherits.unpack_from(row.body) for row in rows)
        return [ParentRow(parent, number, pending == _TRUE) for parent, number, pending in values]

    def namespaces(self, rows: Iterable[TupleBytes]) -> list[NamedRow]:
        """Read rows of ``pg_namespace``."""
        values = (self._namespace.unpack_from(row.body) for row in rows)
        return [NamedRow(oid, self._name(name)) for oid, name in values]

    def labels(self, rows: Iterable[TupleBytes]) -> list[LabelRow]:
        """Read rows of ``pg_enum``."""
        values = (self._enum.unpack_from(row.body) for row in rows)
        return [LabelRow(oid, _float4(order), self._name(label)) for oid, order, label in values]

    def publications(self, rows: Iterable[TupleBytes]) -> list[PublicationRow]:
        """Read rows of ``pg_publication``."""
        publications = []
        for row in rows:
            oid, name, *flags = self._publication.unpack_from(row.body)
            generated = _char(flags.pop()) if self._has_gencols else "n"
            all_tables, insert, update, delete, truncate, via_root = (flag == _TRUE for flag in flags)
            publications.append(
                PublicationRow(oid, self._name(name), all_tables, insert, update, delete, truncate, via_root, generated)
            )
        return publications

    def publication_relations(self, rows: Iterable[TupleBytes], chunks: Chunks) -> list[MemberRow]:
        """Read rows of ``pg_publication_rel``; `chunks` finds the chunks of long row filters."""
        layout = self._layouts[PG_PUBLICATION_REL]
        members = []
        for row in rows:
            columns = fields.column(layout, row, "prattrs") if self._has_choices else None
            tree = fields.column(layout, row, "prqual") if self._has_choices else None
            text = None if tree is None else self._name(_tree(tree, chunks))
            numbers = fields.int2vector(columns) if columns else None
            publication, relation, *flags = self._member.unpack_from(row.body)
            members.append(MemberRow(publication, relation, flags == [_TRUE], text, numbers))
        return members

    def publication_schemas(self, rows: Iterable[TupleBytes]) -> list[SchemaRow]:
        """Read rows of ``pg_publication_namespace``; none where the version has no such catalog."""
        return [SchemaRow(*self._schema.unpack_from(row.body)) for row in rows] if self._schema else []

    def origins(self, rows: Iterable[TupleBytes]) -> list[str]:
        """Read the names in ``pg_replication_origin``."""
        layout = self._layouts[PG_REPLICATION_ORIGIN]
        names = (fields.column(layout, row, "roname") for row in rows)
        return [self._name(fields.payload(name) or b"") for name in names if name]

    def databases(self, rows: Iterable[TupleBytes]) -> list[DatabaseRow]:
        """Read rows of ``pg_database``."""
        databases = []
        for row in rows:
            oid, name, encoding, template, allows, tablespace = self._database.unpack_from(row.body)
            databases.append(
                DatabaseRow(oid, self._name(name), encoding, template == _TRUE, allows == _TRUE, tablespace)
            )
        return databases

    def locales(self, rows: Iterable[TupleBytes]) -> list[DatabaseLocale]:
        """Read the locales in rows of ``pg_database``; names are empty where they are stored out of line."""
        layout = self._layouts[PG_DATABASE]
        has_providers = layout.has("datlocprovider")
        column = next((name for name in ("datlocale", "daticulocale") if layout.has(name)), "")
        locales = []
        for row in rows:
            stored = fields.column(layout, row, "datlocprovider") if has_providers else b"c"
            provider = _char(stored or b"c")
            of_libc = provider == "c" or not column
            names = ("datcollate", "datctype") if of_libc else (column, column)
            collate, ctype = (self._locale_name(layout, row, name) for name in names)
            locales.append(DatabaseLocale(collate, ctype, provider))
        return locales

    def _locale_name(self, layout: CatalogLayout, row: TupleBytes, name: str) -> str:
        value = fields.column(layout, row, name) or b""
        is_varlena = next(column.length for column in layout.columns if column.name == name) < 0
        return self._name((fields.payload(value) or b"") if is_varlena and value else value)

    def _name(self, raw: bytes) -> str:
        return decode_name(raw.partition(b"\0")[0], self._encoding)


def _tree(varlena: bytes, chunks: Chunks) -> bytes:
    """Return the content of ``prqual``; empty if chunks of it are not known."""
    content = fields.payload(varlena)
    if content is None:
        try:
            content = long_value(varlena, PG_PUBLICATION_REL, chunks)
        except CatalogError:
            content = b""
    return content or b""


def _typmod(value: int) -> int:
    """Return a typmod, which is signed, from a number that was read as unsigned."""
    return value - (1 << 32) if value >> 31 else value


def _char(raw: bytes) -> str:
    """Read a ``"char"`` column; empty for the zero byte."""
    return "" if raw == b"\0" else raw.decode("latin-1")


def _float4(bits: int) -> float:
    value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value
