"""Names of types with modifiers, as ``format_type`` of real servers prints them."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from headwater.catalog.relation import TypeInfo
from headwater.catalog.type_names import type_name_of
from headwater.errors import CatalogError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres

pytestmark = pytest.mark.server

TYPES = ("bit", "varbit", "bpchar", "varchar", "numeric", "interval", "time", "timetz", "timestamp", "timestamptz")
PLAIN = ("int4", "text", '"char"', "name", "json", "bytea", "int2vector", "point")
_SMALL = (-1, 0, 1, 2, 3, 4, 5, 6, 9, 24, 1000, 65535)
_NUMERIC = tuple(4 + (precision << 16 | scale) for precision in (1, 7, 1000) for scale in (0, 2, 1000))
_BELOW_ZERO = tuple(4 + (precision << 16 | 2048 - scale) for precision in (1, 1000) for scale in (1, 2, 1000))
"""Scales that numeric has since 15."""
_YEAR, _MONTH, _DAY, _HOUR, _MINUTE, _SECOND = 1 << 2, 1 << 1, 1 << 3, 1 << 10, 1 << 11, 1 << 12
_FIELDS = (
    *(0x7FFF, _YEAR, _MONTH, _DAY, _HOUR, _MINUTE, _SECOND, _YEAR | _MONTH, _DAY | _HOUR, _HOUR | _MINUTE),
    *(_DAY | _HOUR | _MINUTE, _DAY | _HOUR | _MINUTE | _SECOND, _HOUR | _MINUTE | _SECOND, _MINUTE | _SECOND),
    *(_YEAR | _DAY, 0),
)
_INTERVAL = tuple(fields << 16 | precision for fields in _FIELDS for precision in (0, 3, 0xFFFF))


def typmods(name: str, major: int) -> tuple[int, ...]:
    """List the type modifiers that are asked for of a type, or of an array of it."""
    if name in PLAIN:
        return (-1,)
    if name.startswith("numeric"):
        return (-1, *_NUMERIC) if major < 15 else (*_SMALL, *_NUMERIC, *_BELOW_ZERO)
    return (-1, *_INTERVAL) if name.startswith("interval") else _SMALL


def type_info(connection: psycopg.Connection[Any], name: str) -> TypeInfo:
    """Make the type as the catalog would have it, for its name's sake."""
    query = """
        select oid, typname, format_type(oid, null), format_type(oid, -1),
               case when typcategory = 'A' and typelem <> 0 then typelem::regtype::text end
        from pg_type where oid = %s::regtype
    """
    row = connection.execute(query, (name,)).fetchone()
    assert row is not None
    oid, typname, display, unspelled, element = row
    return TypeInfo(
        *(oid, typname, "pg_catalog", display, "b", -1, "i", False),
        element=type_info(connection, element) if element else None,
        unspelled=unspelled if unspelled != display else "",
    )


def test_types_are_called_as_by_the_server(server: EmbeddedPostgres) -> None:
    with server.connect() as connection:
        for name in (*TYPES, *(f"{name}[]" for name in TYPES), *PLAIN):
            info = type_info(connection, name)
            for typmod in typmods(name, server.programs.major):
                try:
                    expected = connection.execute("select format_type(%s, %s)", (info.oid, typmod)).fetchone()
                except psycopg.errors.InternalError_ as error:
                    with pytest.raises(CatalogError, match=str(error).partition("\n")[0]):
                        type_name_of(info, typmod)
                    continue
                assert expected == (type_name_of(info, typmod),), (name, typmod)
