"""Words that ``quote_identifier`` quotes although their letters are harmless, per major version.

Generated from PostgreSQL 15, 16, 17, 18 by tools/generate_keywords.py, do not edit.
PostgreSQL: ``src/include/parser/kwlist.h``,
every keyword whose category is not UNRESERVED_KEYWORD.
"""

from __future__ import annotations

_WORDS_15 = """
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
"""

_WORDS_16 = """
all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast
char character check coalesce collate collation column concurrently constraint create cross current_catalog
current_date current_role current_schema current_time current_timestamp current_user dec decimal default deferrable
desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest group
grouping having ilike in initially inner inout int integer intersect interval into is isnull join json_array
json_arrayagg json_object json_objectagg lateral leading least left like limit localtime localtimestamp national
natural nchar none normalize not notnull null nullif numeric offset on only or order out outer overlaps overlay
placing position precision primary real references returning right row select session_user setof similar smallint some
substring symmetric system_user table tablesample then time timestamp to trailing treat trim true union unique user
using values varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest
xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
"""

_WORDS_17 = """
all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast
char character check coalesce collate collation column concurrently constraint create cross current_catalog
current_date current_role current_schema current_time current_timestamp current_user dec decimal default deferrable
desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest group
grouping having ilike in initially inner inout int integer intersect interval into is isnull join json json_array
json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value
lateral leading least left like limit localtime localtimestamp merge_action national natural nchar none normalize not
notnull null nullif numeric offset on only or order out outer overlaps overlay placing position precision primary real
references returning right row select session_user setof similar smallint some substring symmetric system_user table
tablesample then time timestamp to trailing treat trim true union unique user using values varchar variadic verbose
when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot
xmlserialize xmltable
"""

_WORDS_18 = """
all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast
char character check coalesce collate collation column concurrently constraint create cross current_catalog
current_date current_role current_schema current_time current_timestamp current_user dec decimal default deferrable
desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest group
grouping having ilike in initially inner inout int integer intersect interval into is isnull join json json_array
json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value
lateral leading least left like limit localtime localtimestamp merge_action national natural nchar none normalize not
notnull null nullif numeric offset on only or order out outer overlaps overlay placing position precision primary real
references returning right row select session_user setof similar smallint some substring symmetric system_user table
tablesample then time timestamp to trailing treat trim true union unique user using values varchar variadic verbose
when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot
xmlserialize xmltable
"""

KEYWORDS: dict[int, frozenset[str]] = {
    15: frozenset(_WORDS_15.split()),
    16: frozenset(_WORDS_16.split()),
    17: frozenset(_WORDS_17.split()),
    18: frozenset(_WORDS_18.split()),
}
