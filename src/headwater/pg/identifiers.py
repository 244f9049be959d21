"""Identifiers as SQL writes them (PostgreSQL: ``quote_identifier`` in ruleutils.c, ``parser/kwlist.h``)."""

from __future__ import annotations

import re
from functools import cache

_KEYWORDS_15 = (
    "all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both "
    "case cast char character check coalesce collate collation column concurrently constraint create cross "
    "current_catalog current_date current_role current_schema current_time current_timestamp current_user dec "
    "decimal default deferrable desc distinct do else end except exists extract false fetch float for foreign "
    "freeze from full grant greatest group grouping having ilike in initially inner inout int integer "
    "intersect interval into is isnull join lateral leading least left like limit localtime localtimestamp "
    "national natural nchar none normalize not notnull null nullif numeric offset on only or order out outer "
    "overlaps overlay placing position precision primary real references returning right row select "
    "session_user setof similar smallint some substring symmetric table tablesample then time timestamp to "
    "trailing treat trim true union unique user using values varchar variadic verbose when where window with "
    "xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize "
    "xmltable "
)
_NEW_IN_16 = "json_array json_arrayagg json_object json_objectagg system_user"
_NEW_IN_17 = "json json_exists json_query json_scalar json_serialize json_table json_value merge_action"
_SAFE = re.compile(r"[a-z_][a-z0-9_]*")


@cache
def quoted_keywords(major: int) -> frozenset[str]:
    """Keywords that must be quoted as identifiers: all but the unreserved ones. 18 has those of 17."""
    words = _KEYWORDS_15.split()
    if major >= 16:
        words += _NEW_IN_16.split()
    if major >= 17:
        words += _NEW_IN_17.split()
    return frozenset(words)


def quote_identifier(name: str, major: int) -> str:
    """The identifier as the server prints it: in double quotes if it needs them."""
    if _SAFE.fullmatch(name) and name not in quoted_keywords(major):
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
