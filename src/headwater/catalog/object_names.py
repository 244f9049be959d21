"""Names as which values that are OIDs of objects print: of relations, functions, types and so on, as of a view.

In: the visible rows of whole catalogs. Out: :class:`ObjectNames`, one for each of the types ``regclass``, ``regproc``
and their kin, and for ``aclitem``, whose values name roles. A name is qualified unless the search path finds the object
by it.

PostgreSQL: ``utils/adt/regproc.c``, ``catalog/namespace.c`` (RelationIsVisible, FuncnameGetCandidates and their kin),
``format_type.c``, ``acl.c`` (putid).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from headwater.catalog import fields
from headwater.catalog.relation import ObjectNames
from headwater.catalog.rows import CatalogRows
from headwater.catalog.type_names import SPELLINGS
from headwater.errors import CatalogError
from headwater.pg.catalogs import (
    F_ARRAY_SUBSCRIPT_HANDLER,
    PG_AUTHID,
    PG_CLASS,
    PG_COLLATION,
    PG_DATABASE,
    PG_NAMESPACE,
    PG_OPERATOR,
    PG_PROC,
    PG_TS_CONFIG,
    PG_TS_DICT,
    PG_TYPE,
    catalog_layout,
)
from headwater.pg.encodings import ENCODINGS, decode_name
from headwater.pg.identifiers import quote_identifier, quote_qualified_identifier
from headwater.rmgr.heap import TupleBytes

Read = Callable[[int], Iterable[TupleBytes]]
"""Reads the visible rows of a catalog, by its OID."""

Remember = Callable[[tuple[str, int], Callable[[int], Any]], Any]
"""Gives the answer to a question that names a catalog by its OID; the function builds the answer of the OID."""

_ICU_LACKS = frozenset({"SQL_ASCII", "EUC_JIS_2004", "MULE_INTERNAL", "LATIN10", "KOI8U", "EUC_TW"})


class _Object(NamedTuple):
    """A row of a catalog of named objects; ``arguments`` distinguish objects of one name in one schema."""

    oid: int
    name: str
    namespace: int
    arguments: tuple[int, ...] = ()


class Namer:
    """A namer of objects as of one view.

    Args:
        read: reads the rows of each catalog.
        remember: answers a question about a catalog as it did before, or builds the answer, while its rows stay.
        path: OIDs of the schemas that are searched, in order.
        major: PostgreSQL's major version.
        encoding: the database's encoding.
    """

    def __init__(self, read: Read, remember: Remember, path: Iterable[int], major: int, encoding: str) -> None:
        self._read = read
        self._remember = remember
        self._major = major
        self._encoding = encoding
        self._rows = CatalogRows(major, encoding)
        self._namespaces = {row.oid: row.name for row in self._rows.namespaces(read(PG_NAMESPACE))}
        self._path = {oid: place for place, oid in enumerate(path)}

    def names(self, type_oid: int) -> ObjectNames:
        """List the names as which values of one of :data:`CATALOGS_NAMED` print."""
        names = {0: "0" if type_oid in (_REGOPER, _REGOPERATOR) else "-"} if type_oid != ACLITEM else {}
        names |= _NAMINGS[type_oid][1](self)
        oids = sorted(names)
        return ObjectNames(struct.pack(f"<{len(oids)}I", *oids), "\0".join(names[oid] for oid in oids))

    def _objects(self, catalog: int, name: str, namespace: str, *arguments: str) -> list[_Object]:
        """Read the rows of a catalog; columns are given in their order."""
        reader = catalog_layout(self._major, catalog).reader("oid", name, namespace, *arguments)
        rows = (reader.unpack_from(row.body) for row in self._read(catalog))
        return [_Object(oid, self._text(raw), spc, tuple(rest)) for oid, raw, spc, *rest in rows]

    def _text(self, raw: bytes) -> str:
        return decode_name(raw.partition(b"\0")[0], self._encoding)

    def _quoted(self, name: str) -> str:
        return quote_identifier(name, self._major)

    def _namespace(self, oid: int) -> str:
        if oid not in self._namespaces:
            raise CatalogError(f"cache lookup failed for namespace {oid}")
        return self._namespaces[oid]

    def _qualified(self, entry: _Object) -> str:
        return quote_qualified_identifier(self._namespace(entry.namespace), entry.name, self._major)

    def _visible(self, objects: Iterable[_Object]) -> dict[tuple[str, tuple[int, ...]], _Object]:
        """Map names and arguments to the object that the search path finds."""
        visible: dict[tuple[str, tuple[int, ...]], _Object] = {}
        for entry in objects:
            place = self._path.get(entry.namespace)
            rival = visible.get((entry.name, entry.arguments))
            if place is not None and (rival is None or place < self._path[rival.namespace]):
                visible[entry.name, entry.arguments] = entry
        return visible

    def _by_path(self, objects: list[_Object]) -> dict[int, str]:
        """Name objects, qualified if the search path does not find them."""
        visible = {entry.oid for entry in self._visible(objects).values()}
        return {
            entry.oid: self._quoted(entry.name) if entry.oid in visible else self._qualified(entry) for entry in objects
        }

    def relations(self) -> dict[int, str]:
        """Name the rows of ``pg_class``."""
        return self._by_path(self._objects(PG_CLASS, "relname", "relnamespace"))

    def configurations(self) -> dict[int, str]:
        """Name the rows of ``pg_ts_config``."""
        return self._by_path(self._objects(PG_TS_CONFIG, "cfgname", "cfgnamespace"))

    def dictionaries(self) -> dict[int, str]:
        """Name the rows of ``pg_ts_dict``."""
        return self._by_path(self._objects(PG_TS_DICT, "dictname", "dictnamespace"))

    def namespaces(self) -> dict[int, str]:
        """Name the rows of ``pg_namespace``."""
        return {oid: self._quoted(name) for oid, name in self._namespaces.items()}

    def _role_names(self) -> dict[int, str]:
        reader = catalog_layout(self._major, PG_AUTHID).reader("oid", "rolname")
        return {oid: self._text(raw) for oid, raw in (reader.unpack_from(row.body) for row in self._read(PG_AUTHID))}

    def roles(self) -> dict[int, str]:
        """Name the rows of ``pg_authid``."""
        return {oid: self._quoted(name) for oid, name in self._role_names().items()}

    def databases(self) -> dict[int, str]:
        """Name the rows of ``pg_database``."""
        reader = catalog_layout(self._major, PG_DATABASE).reader("oid", "datname")
        rows = (reader.unpack_from(row.body) for row in self._read(PG_DATABASE))
        return {oid: self._quoted(self._text(raw)) for oid, raw in rows}

    def grantees(self) -> dict[int, str]:
        """Name the rows of ``pg_authid`` as privileges do: quoted unless all is ASCII letters, digits, underscores."""
        names = self._role_names()
        safe = {name for name in names.values() if name.isascii() and name.replace("_", "a").isalnum()}
        return {oid: name if name in safe else '"' + name.replace('"', '""') + '"' for oid, name in names.items()}

    def collations(self) -> dict[int, str]:
        """Name the rows of ``pg_collation``: those of another encoding than the database's are found by no name."""
        layout = catalog_layout(self._major, PG_COLLATION)
        reader = layout.reader("oid", "collname", "collnamespace", "collprovider", "collencoding")
        collations, usable = list[_Object](), list[_Object]()
        for row in self._read(PG_COLLATION):
            oid, name, namespace, provider, encoding = reader.unpack_from(row.body)
            collations.append(_Object(oid, self._text(name), namespace))
            # An entry of the very encoding goes before one of any (lookup_collation).
            number = encoding - (1 << 32) if encoding >> 31 else encoding
            if number == ENCODINGS.index(self._encoding):
                usable.insert(0, collations[-1])
            elif number == -1 and not (provider == b"i" and self._encoding in _ICU_LACKS):
                usable.append(collations[-1])
        visible = {entry.oid for entry in self._visible(usable).values()}
        return {
            entry.oid: self._quoted(entry.name) if entry.oid in visible else self._qualified(entry)
            for entry in collations
        }

    def types(self) -> dict[int, str]:
        """Name the rows of ``pg_type``, as format_type_be does."""
        layout = catalog_layout(self._major, PG_TYPE)
        reader = layout.reader("oid", "typname", "typnamespace", "typsubscript", "typelem", "typstorage")
        rows = [reader.unpack_from(row.body) for row in self._read(PG_TYPE)]
        names = self._by_path([_Object(oid, self._text(name), spc) for oid, name, spc, *_ in rows])
        names |= {oid: text for oid, text in SPELLINGS.items() if oid in names}
        elements = {
            oid: element
            for oid, _, _, subscript, element, storage in rows
            if subscript == F_ARRAY_SUBSCRIPT_HANDLER and element and storage != b"p"
        }
        return names | {oid: f"{names[element]}[]" for oid, element in elements.items() if element in names}

    def _functions(self) -> list[_Object]:
        """Read the rows of ``pg_proc``, once for all types that name functions: there are thousands."""
        functions: list[_Object] = self._remember(("functions", PG_PROC), self._read_functions)
        return functions

    def _read_functions(self, _: int) -> list[_Object]:
        layout = catalog_layout(self._major, PG_PROC)
        reader = layout.reader("oid", "proname", "pronamespace")
        functions = []
        for row in self._read(PG_PROC):
            oid, name, namespace = reader.unpack_from(row.body)
            arguments = fields.column(layout, row, "proargtypes")
            functions.append(_Object(oid, self._text(name), namespace, fields.oidvector(arguments or b"\x01\x12")))
        return functions

    def _operators(self) -> list[_Object]:
        return self._objects(PG_OPERATOR, "oprname", "oprnamespace", "oprleft", "oprright")

    def _alone(self, objects: list[_Object]) -> set[int]:
        """List the objects that the search path finds by a name under which it finds no other one."""
        oids_of_name: dict[str, list[int]] = {}
        for entry in self._visible(objects).values():
            oids_of_name.setdefault(entry.name, []).append(entry.oid)
        return {oids[0] for oids in oids_of_name.values() if len(oids) == 1}

    def functions(self) -> dict[int, str]:
        """Name the rows of ``pg_proc``."""
        functions = self._functions()
        alone = self._alone(functions)
        return {
            entry.oid: self._quoted(entry.name) if entry.oid in alone else self._qualified(entry) for entry in functions
        }

    def procedures(self) -> dict[int, str]:
        """Name the rows of ``pg_proc``, with argument types."""
        functions, types = self._functions(), self.types()
        names = self._by_path(functions)
        return {entry.oid: f"{names[entry.oid]}({','.join(_typed(entry, types))})" for entry in functions}

    def _operator(self, entry: _Object, is_found: bool) -> str:
        return entry.name if is_found else f"{self._quoted(self._namespace(entry.namespace))}.{entry.name}"

    def operators(self) -> dict[int, str]:
        """Name the rows of ``pg_operator``."""
        operators = self._operators()
        alone = self._alone(operators)
        return {entry.oid: self._operator(entry, entry.oid in alone) for entry in operators}

    def typed_operators(self) -> dict[int, str]:
        """Name the rows of ``pg_operator``, with argument types."""
        operators, types = self._operators(), self.types()
        visible = {entry.oid for entry in self._visible(operators).values()}
        return {
            entry.oid: f"{self._operator(entry, entry.oid in visible)}({','.join(_typed(entry, types))})"
            for entry in operators
        }


def _typed(entry: _Object, types: Mapping[int, str]) -> list[str]:
    return ["NONE" if oid == 0 else types.get(oid, "???") for oid in entry.arguments]


ACLITEM = 1033
_REGOPER, _REGOPERATOR = 2203, 2204

_NAMINGS: dict[int, tuple[tuple[int, ...], Callable[[Namer], dict[int, str]]]] = {
    24: ((PG_PROC,), Namer.functions),
    ACLITEM: ((PG_AUTHID,), Namer.grantees),
    2202: ((PG_PROC, PG_TYPE), Namer.procedures),
    _REGOPER: ((PG_OPERATOR,), Namer.operators),
    _REGOPERATOR: ((PG_OPERATOR, PG_TYPE), Namer.typed_operators),
    2205: ((PG_CLASS,), Namer.relations),
    2206: ((PG_TYPE,), Namer.types),
    3734: ((PG_TS_CONFIG,), Namer.configurations),
    3769: ((PG_TS_DICT,), Namer.dictionaries),
    4089: ((), Namer.namespaces),
    4096: ((PG_AUTHID,), Namer.roles),
    4191: ((PG_COLLATION,), Namer.collations),
    6490: ((PG_DATABASE,), Namer.databases),
}

CATALOGS_NAMED = {oid: (PG_NAMESPACE, *catalogs) for oid, (catalogs, _) in _NAMINGS.items()}
"""Types whose values are printed by names (regproc, aclitem, regprocedure, regoper, regoperator, regclass, regtype,
regconfig, regdictionary, regnamespace, regrole, regcollation, regdatabase), and the catalogs that their names rest on.
"""
