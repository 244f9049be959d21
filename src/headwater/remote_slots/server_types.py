"""The types of a server, asked over an ordinary connection: as its catalog has them now, not as of a change.

Out: :class:`~headwater.catalog.relation.TypeInfo` as far as printed values are read by it: no labels of enums, no
function but the output function's name.

PostgreSQL: pg_type, pg_range, pg_attribute, pg_proc.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headwater.catalog.relation import Column, TypeInfo
from headwater.errors import CatalogError, ConnectionLostError
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.receiver.server_extra import load_psycopg

_TYPES = """
SELECT t.oid::int8, t.typname::text, n.nspname::text, pg_catalog.format_type(t.oid, NULL), t.typtype::text,
    t.typlen::int, t.typalign::text, t.typbyval, t.typdelim::text, t.typbasetype::int8, t.typtypmod,
    coalesce((SELECT e.oid::int8 FROM pg_catalog.pg_type e
        WHERE e.oid = t.typelem AND e.typarray = t.oid AND t.typlen = -1), 0),
    coalesce((SELECT r.rngsubtype::int8 FROM pg_catalog.pg_range r
        WHERE r.rngtypid = t.oid OR r.rngmultitypid = t.oid), 0),
    CASE WHEN t.typtype = 'c' THEN t.typrelid::int8 ELSE 0 END,
    (SELECT coalesce(nullif(pg_catalog.regexp_replace(p.probin, '^.*/', ''), '') || ':', '') || p.prosrc
        FROM pg_catalog.pg_proc p WHERE p.oid = t.typoutput)
FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = ANY(%s::int8[])
"""
_ATTRIBUTES = """
SELECT attrelid::int8, attnum::int, attname::text, atttypid::int8, atttypmod, attlen::int, attalign::text
FROM pg_catalog.pg_attribute WHERE attrelid = ANY(%s::int8[]) AND attnum > 0 AND NOT attisdropped ORDER BY 1, 2
"""

AGAIN_SECONDS = 1.0
"""A server that could not be reached is asked again after so long."""

_Attribute = tuple[int, str, int, int, int, str]


@dataclass(frozen=True)
class _Row:
    """A row of a type, with its attributes if it is a composite one."""

    oid: int
    name: str
    namespace: str
    display_name: str
    typtype: str
    typlen: int
    typalign: str
    typbyval: bool
    delimiter: str
    base: int
    base_typmod: int
    element: int
    subtype: int
    relation: int
    output: str
    attributes: tuple[_Attribute, ...] = ()

    @property
    def parts(self) -> set[int]:
        """OIDs of the types that it is made of."""
        own = {self.base, self.element, self.subtype, *(attribute[2] for attribute in self.attributes)}
        return own - {0}


class ServerTypes:
    """The types of a database, each asked for once.

    Args:
        conninfo: libpq's connection string.
        patience: seconds for which a server is waited for that cannot be reached.
    """

    def __init__(self, conninfo: str, patience: float = 0.0) -> None:
        self._conninfo, self._patience = conninfo, patience
        self._rows: dict[int, _Row] = {}
        self._known: dict[int, TypeInfo] = {}

    def of(self, oids: Iterable[int]) -> list[TypeInfo]:
        """Return types.

        Args:
            oids: theirs.

        Raises:
            CatalogError: the server does not have one, not any more.
            ConnectionLostError: the server cannot be asked.
        """
        wanted = list(oids)
        waiting = set(wanted) - self._rows.keys()
        until = time.monotonic() + self._patience
        while waiting:
            try:
                self._ask(waiting)
                break
            except ConnectionLostError:
                if time.monotonic() >= until:
                    raise
                time.sleep(AGAIN_SECONDS)
        return [self._type(oid) for oid in wanted]

    def _ask(self, waiting: set[int]) -> None:
        """Ask for types, and for those that they are made of."""
        psycopg = load_psycopg("a server's types")
        try:
            with psycopg.connect(self._conninfo, autocommit=True) as session:
                while waiting:
                    rows = session.execute(_TYPES, [sorted(waiting)]).fetchall()
                    self._note(rows, session)
                    lacking = waiting - self._rows.keys()
                    if lacking:
                        raise _unknown(min(lacking))
                    waiting = {part for row in self._rows.values() for part in row.parts} - self._rows.keys()
        except psycopg.Error as error:
            message = " ".join((error.diag.message_primary or "the connection is lost").split())
            raise ConnectionLostError(f"the server cannot be asked for its types: {message}") from None

    def _note(self, rows: list[tuple[Any, ...]], session: Any) -> None:
        read = [_Row(*row) for row in rows]
        relations = [row.relation for row in read if row.relation]
        attributes: dict[int, list[_Attribute]] = {}
        for relation, *rest in session.execute(_ATTRIBUTES, [relations]).fetchall() if relations else ():
            attributes.setdefault(relation, []).append(tuple(rest))
        for row in read:
            own = tuple(attributes.get(row.relation, ())) if row.relation else ()
            self._rows[row.oid] = _Row(**{**row.__dict__, "attributes": own})

    def _type(self, oid: int) -> TypeInfo:
        if oid not in self._known:
            self._known[oid] = self._made(self._rows[oid])
        return self._known[oid]

    def _made(self, row: _Row) -> TypeInfo:
        base = self._type(row.base) if row.typtype == "d" else None
        is_own_base = row.typtype == "b" and row.oid >= FIRST_NORMAL_OBJECT_ID
        return TypeInfo(
            oid=row.oid,
            name=row.name,
            namespace=row.namespace,
            display_name=row.display_name,
            typtype=row.typtype,
            typlen=row.typlen,
            typalign=row.typalign,
            typbyval=row.typbyval,
            base=base.base or base if base else None,
            element=self._type(row.element) if row.element else None,
            delimiter=row.delimiter,
            subtype=self._type(row.subtype) if row.subtype else None,
            attributes=tuple(self._attribute(attribute) for attribute in row.attributes),
            output=row.output if is_own_base else "",
            domain_of=base,
            domain_typmod=row.base_typmod if base else -1,
        )

    def _attribute(self, attribute: _Attribute) -> Column:
        number, name, type_oid, typmod, length, align = attribute
        return Column(number, name, self._type(type_oid), typmod, length, align, False)


def _unknown(oid: int) -> CatalogError:
    return CatalogError(
        f"a table has had a column of a type (OID {oid}) that the server has no more",
        hint="a slot does not tell what a type was: begin with a new slot after the change",
    )
