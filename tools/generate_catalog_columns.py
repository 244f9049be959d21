"""Write ``src/headwater/pg/catalog_columns.txt`` from the ``postgres.bki`` of each major version.

Usage: ``python tools/generate_catalog_columns.py postgres.bki...``
"""

from __future__ import annotations

import re
import sys

from data_files import read_catalogs, write_rows

CATALOGS = (
    "pg_am",
    "pg_attrdef",
    "pg_attribute",
    "pg_authid",
    "pg_class",
    "pg_collation",
    "pg_constraint",
    "pg_database",
    "pg_depend",
    "pg_description",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_index",
    "pg_inherits",
    "pg_namespace",
    "pg_opclass",
    "pg_operator",
    "pg_partitioned_table",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_range",
    "pg_replication_origin",
    "pg_rewrite",
    "pg_sequence",
    "pg_statistic_ext",
    "pg_tablespace",
    "pg_trigger",
    "pg_ts_config",
    "pg_ts_dict",
    "pg_type",
)

TOAST = {"pg_attrdef", "pg_constraint", "pg_description", "pg_index", "pg_partitioned_table", "pg_publication_rel"}
"""Those of which long values are read where they lie."""

HEADER = """\
# Columns of the catalogs that decoding reads (made of ``src/include/catalog/*.h`` by genbki.pl): a catalog's name, then
# its columns, each name:attlen:attalign, with :null after them if it has a fixed length and may be NULL; and from which
# majors to which (none: all).
# Generated from PostgreSQL {majors} by tools/generate_catalog_columns.py, do not edit.
"""
CREATE = re.compile(r"^create (\w+) (\d+)([^\n]*)\n \(\n(.*?)\n \)", re.M | re.S)
COLUMN = re.compile(r"^ (\w+) = (\w+)( FORCE NULL)?", re.M)
TOASTED = re.compile(r"^declare toast \d+ \d+ on (\w+)", re.M)
CHUNKS = [("chunk_id", "oid", ""), ("chunk_seq", "int4", ""), ("chunk_data", "bytea", "")]
TOKENS = re.compile(r"'[^']*'|\S+")
LENGTHS = {"NAMEDATALEN": 64, "FLOAT8PASSBYVAL": 8, "SIZEOF_POINTER": 8}
ALIGNS = {"ALIGNOF_POINTER": "d"}


def types(text: str, columns: list[str]) -> dict[str, tuple[int, str]]:
    """Map each type of the file's pg_type rows to its (typlen, typalign)."""
    body = text[text.index("create pg_type ") : text.index("close pg_type")]
    kinds = {}
    for line in re.findall(r"^insert \( (.*) \)$", body, re.M):
        row = dict(zip(columns, TOKENS.findall(line), strict=True))
        length, align = row["typlen"], row["typalign"]
        kinds[row["typname"]] = (LENGTHS.get(length) or int(length), ALIGNS.get(align, align))
    return kinds


def lines(text: str) -> list[str]:
    """List those of :data:`CATALOGS` that a ``postgres.bki`` has, with their columns."""
    created = {name: COLUMN.findall(body) for name, _, _, body in CREATE.findall(text)}
    kinds = types(text, [name for name, _, _ in created["pg_type"]])
    numbers = {name: number for name, number, *_ in CREATE.findall(text)}
    catalogs = {name: created[name] for name in CATALOGS if name in created}
    catalogs |= {f"pg_toast_{numbers[name]}": CHUNKS for name in TOAST & set(TOASTED.findall(text))}
    return [" ".join([name, *(column(kinds, *words) for words in columns)]) for name, columns in catalogs.items()]


def column(kinds: dict[str, tuple[int, str]], name: str, kind: str, null: str) -> str:
    """Write a column as a word."""
    length, align = kinds[kind]
    return f"{name}:{length}:{align}{':null' if null else ''}"


def by_name_and_majors(line: str) -> tuple[str, str]:
    """Return a key that sorts the lines of a catalog by their majors."""
    words = line.split(" ")
    return words[0], words[-1]


def main() -> None:
    """Write the file."""
    catalogs = map(read_catalogs, sys.argv[1:])
    write_rows("catalog_columns.txt", HEADER, [(major, lines(text)) for major, text in catalogs], by_name_and_majors)


if __name__ == "__main__":
    main()
