"""Words that ``quote_identifier`` quotes although their letters are harmless, per major version.

Generated from PostgreSQL 14, 15, 16, 17, 18, 19 by tools/generate_keywords.py, do not edit.
PostgreSQL: ``src/include/parser/kwlist.h``,
every keyword whose category is not UNRESERVED_KEYWORD.
"""

from __future__ import annotations

_NEW = {
    14: """
all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast
char character check coalesce collate collation column concurrently constraint create cross current_catalog
current_date current_role current_schema current_time current_timestamp current_user dec decimal default deferrable
desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest group
grouping having ilike in initially inner inout int integer intersect interval into is isnull join lateral leading
least left like limit localtime localtimestamp national natural nchar none normalize not notnull null nullif numeric
offset on only or order out outer overlaps overlay placing position precision primary real references returning right
row select session_user setof similar smallint some substring symmetric table tablesample then time timestamp to
trailing treat trim true union unique user using values varchar variadic verbose when where window with xmlattributes
xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
""",
    15: """

""",
    16: """
json_array json_arrayagg json_object json_objectagg system_user
""",
    17: """
json json_exists json_query json_scalar json_serialize json_table json_value merge_action
""",
    18: """

""",
    19: """

""",
}
"""What each major version adds to the words of the ones before it."""

KEYWORDS: dict[int, frozenset[str]] = {
    major: frozenset(word for since, words in _NEW.items() if since <= major for word in words.split())
    for major in _NEW
}
