"""How the server spells built-in types (PostgreSQL: ``format_type_extended`` in format_type.c, no typmod given)."""

from __future__ import annotations

SPELLINGS = {
    1560: "bit",
    16: "boolean",
    1042: "character",
    700: "real",
    701: "double precision",
    21: "smallint",
    23: "integer",
    20: "bigint",
    1700: "numeric",
    1186: "interval",
    1083: "time without time zone",
    1266: "time with time zone",
    1114: "timestamp without time zone",
    1184: "timestamp with time zone",
    1562: "bit varying",
    1043: "character varying",
    114: "json",
}
"""Types with a spelling of their own, by OID."""
