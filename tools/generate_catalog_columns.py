"""Write ``src/headwater/pg/catalog_columns.py`` from the ``postgres.bki`` of each major version.

Usage: ``python tools/generate_catalog_columns.py postgres.bki... > src/headwater/pg/catalog_columns.py``
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

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

HEADER = '''"""Columns of the catalogs that decoding reads, per major version.

A column is three words: name, attlen, attalign; ``?`` after them marks one of fixed length that may be NULL.
Generated from PostgreSQL {majors} by tools/generate_catalog_columns.py, do not edit.
PostgreSQL: ``postgres.bki`` (made from ``src/include/catalog/*.h`` by genbki.pl).
"""

from __future__ import annotations

COLUMNS: dict[int, dict[str, str]] = {{'''

CREATE = re.compile(r"^create (\w+) (\d+)([^\n]*)\n \(\n(.*?)\n \)", re.M | re.S)
COLUMN = re.compile(r"^ (\w+) = (\w+)( FORCE NULL)?", re.M)
TOASTED = re.compile(r"^declare toast \d+ \d+ on (\w+)", re.M)
CHUNKS = [("chunk_id", "oid", ""), ("chunk_seq", "int4", ""), ("chunk_data", "bytea", "")]
TOKENS = re.compile(r"'[^']*'|\S+")
LENGTHS = {"NAMEDATALEN": 64, "FLOAT8PASSBYVAL": 8, "SIZEOF_POINTER": 8}
ALIGNS = {"ALIGNOF_POINTER": "d"}


def types(text: str, columns: list[str]) -> dict[str, tuple[int, str]]:
    """Name to (typlen, typalign) of every type in the file's pg_type rows."""
    body = text[text.index("create pg_type ") : text.index("close pg_type")]
    found = {}
    for line in re.findall(r"^insert \( (.*) \)$", body, re.M):
        row = dict(zip(columns, TOKENS.findall(line), strict=True))
        length, align = row["typlen"], row["typalign"]
        found[row["typname"]] = (LENGTHS.get(length) or int(length), ALIGNS.get(align, align))
    return found


def read(path: Path) -> tuple[int, dict[str, str]]:
    """The major version of a ``postgres.bki`` and the columns of those of :data:`CATALOGS` that it has."""
    text = path.read_text()
    major = int(text[: text.index("\n")].rsplit(maxsplit=1)[-1])
    created = {name: COLUMN.findall(body) for name, _, _, body in CREATE.findall(text)}
    kinds = types(text, [name for name, _, _ in created["pg_type"]])
    there = [name for name in CATALOGS if name in created]
    numbers = {name: number for name, number, *_ in CREATE.findall(text)}
    chunks = {f"pg_toast_{numbers[name]}": CHUNKS for name in sorted(TOAST & set(TOASTED.findall(text)))}
    columns = {name: created[name] for name in there} | chunks
    return major, {name: ", ".join(column(kinds, *one) for one in found) for name, found in columns.items()}


def column(kinds: dict[str, tuple[int, str]], name: str, kind: str, null: str) -> str:
    """A column's three or four words."""
    length, align = kinds[kind]
    return f"{name} {length} {align}{' ?' if null else ''}"


def main() -> None:
    """Print the module."""
    tables = sorted(read(Path(path)) for path in sys.argv[1:])
    print(HEADER.format(majors=", ".join(str(major) for major, _ in tables)))
    for major, catalogs in tables:
        print(f"    {major}: {{")
        for name, columns in catalogs.items():
            print(f'        "{name}": (')
            for line in textwrap.wrap(columns, 100):
                print(f'            "{line} "')
            print("        ),")
        print("    },")
    print("}")


if __name__ == "__main__":
    main()
