"""Names of objects in SQL, as of a view: qualified, unless they are of ``pg_catalog``.

A server prints names in this way with an empty ``search_path``, as ``pg_dump`` sets it: a statement means the same
object in every session.

PostgreSQL: ``utils/adt/ruleutils.c`` (generate_relation_name and its kin), ``format_type.c``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from headwater.catalog.generic_row import NamedRow
from headwater.catalog.relation import TypeInfo
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.catalog.type_names import SPELLINGS, UNSPELLED, type_name_of
from headwater.errors import CatalogError, UnsupportedTypeError
from headwater.pg.catalogs import PG_CATALOG_NAMESPACE
from headwater.pg.identifiers import quote_identifier
from headwater.rows.session import SessionSettings
from headwater.rows.tuples.print_value import value_text

_ACLITEMS = 1034

_SYSTEM_COLUMNS = {-1: "ctid", -2: "xmin", -3: "cmin", -4: "xmax", -5: "cmax", -6: "tableoid"}


class Naming:
    """The names of objects as of one view.

    Args:
        view: the catalog, with definitions.

    Attributes:
        view: the same.
    """

    def __init__(self, view: HistoricCatalog) -> None:
        self.view = view
        self._types: dict[int, TypeInfo] = {}

    @cached_property
    def major(self) -> int:
        """PostgreSQL's major version."""
        return self.view.major

    def quoted(self, name: str) -> str:
        """Quote an identifier, if it needs quotes."""
        return quote_identifier(name, self.major)

    def row(self, catalog: str, oid: int) -> NamedRow:
        """Return the row of an object.

        Raises:
            CatalogError: the catalog has no such row.
        """
        rows = self.view.named_rows(catalog, "oid", oid)
        if not rows:
            raise CatalogError(f"{catalog} has no row with OID {oid}, which another row names", lsn=self.view.lsn)
        return rows[0]

    def qualified(self, namespace: int, name: str) -> str:
        """Qualify a name by its schema, whose OID is given."""
        if namespace == PG_CATALOG_NAMESPACE:
            return self.quoted(name)
        return f"{self.quoted(self.view.namespace_name(namespace))}.{self.quoted(name)}"

    def _named(self, catalog: str, oid: int, prefix: str) -> str:
        row = self.row(catalog, oid)
        return self.qualified(row.oid(f"{prefix}namespace"), row.name(f"{prefix}name"))

    def relation(self, oid: int) -> str:
        """Return the name of a relation."""
        return self._named("pg_class", oid, "rel")

    def function(self, oid: int) -> str:
        """Return the name of a function, without its arguments."""
        return self._named("pg_proc", oid, "pro")

    def collation(self, oid: int) -> str:
        """Return the name of a collation."""
        return self._named("pg_collation", oid, "coll")

    def operator_class(self, oid: int) -> str:
        """Return the name of an operator class."""
        return self._named("pg_opclass", oid, "opc")

    def configuration(self, oid: int) -> str:
        """Return the name of a text search configuration."""
        return self._named("pg_ts_config", oid, "cfg")

    def dictionary(self, oid: int) -> str:
        """Return the name of a text search dictionary."""
        return self._named("pg_ts_dict", oid, "dict")

    def operator(self, oid: int) -> str:
        """Return an operator as it stands between its operands."""
        row = self.row("pg_operator", oid)
        namespace = row.oid("oprnamespace")
        if namespace == PG_CATALOG_NAMESPACE:
            return row.name("oprname")
        return f"OPERATOR({self.quoted(self.view.namespace_name(namespace))}.{row.name('oprname')})"

    def namespace(self, oid: int) -> str:
        """Return the name of a schema."""
        return self.quoted(self.view.namespace_name(oid))

    def access_method(self, oid: int) -> str:
        """Return the name of an access method."""
        return self.quoted(self.row("pg_am", oid).name("amname"))

    def tablespace(self, oid: int) -> str | None:
        """Return the name of a tablespace; None for the database's own."""
        return self.quoted(self.row("pg_tablespace", oid).name("spcname")) if oid else None

    def column_name(self, relation: int, number: int) -> str:
        """Return the name of a column, not quoted.

        Raises:
            CatalogError: the relation does not have it.
        """
        if number in _SYSTEM_COLUMNS:
            return _SYSTEM_COLUMNS[number]
        for row in self.view.named_rows("pg_attribute", "attrelid", relation):
            if row.integer("attnum") == number:
                return row.name("attname")
        raise CatalogError(f"relation {relation} has no column {number}, which another row names", lsn=self.view.lsn)

    def column(self, relation: int, number: int) -> str:
        """Return the name of a column. Raises as :meth:`column_name`."""
        return self.quoted(self.column_name(relation, number))

    def role(self, oid: int) -> str:
        """Return the name of a role; its OID if roles are not known."""
        rows = self.view.named_rows("pg_authid", "oid", oid)
        return self.quoted(rows[0].name("rolname")) if rows else str(oid)

    def privileges(self, acl: bytes) -> str:
        """Print a stored array of ``aclitem``.

        Raises:
            CatalogError: the array is malformed.
        """
        try:
            return value_text(self.view.type_info(_ACLITEMS), acl, self.session)
        except UnsupportedTypeError:
            return acl.hex()

    @cached_property
    def session(self) -> SessionSettings:
        """The settings with which values are printed."""
        return SessionSettings(major=self.major, encoding=self.view.encoding)

    def live_column(self, relation: int, number: int) -> str | None:
        """Return the name of a column; None if it was dropped."""
        rows = self.view.named_rows("pg_attribute", "attrelid", relation)
        live_rows = (row for row in rows if row.integer("attnum") == number and not row.flag("attisdropped"))
        return next((self.quoted(row.name("attname")) for row in live_rows), None)

    def type(self, oid: int, typmod: int = -1) -> str:
        """Return the name of a type, as ``format_type_with_typemod`` prints it.

        Raises:
            CatalogError: there is no such type, or another library prints its modifiers.
        """
        return type_name_of(self.type_info(oid), typmod)

    def type_info(self, oid: int) -> TypeInfo:
        """Return a type with its name as it is in SQL."""
        info = self._types.get(oid)
        if info is None:
            info = self._types[oid] = self._spelled(self.view.type_info(oid))
        return info

    def _spelled(self, info: TypeInfo) -> TypeInfo:
        if info.element is not None and info.display_name == f"{info.element.display_name}[]":
            element = self.type_info(info.element.oid)
            bare = f"{element.unspelled}[]" if element.unspelled else ""
            return replace(info, element=element, display_name=f"{element.display_name}[]", unspelled=bare)
        row = self.row("pg_type", info.oid)
        qualified = self.qualified(row.oid("typnamespace"), info.name)
        bare = qualified if info.oid in UNSPELLED else ""
        return replace(info, display_name=SPELLINGS.get(info.oid, qualified), unspelled=bare)
