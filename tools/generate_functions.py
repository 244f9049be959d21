"""Write ``src/headwater/pg/functions.txt``: the immutable functions, operators and types of each major version.

Usage: ``python tools/generate_functions.py postgres.bki...``
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from data_files import read_catalogs, write_rows

WORDS = re.compile(r"'(?:[^']|'')*'|\S+")
HEADER = """\
# The immutable functions (f OID name source argument-types result strict), operators of theirs (o OID name function)
# and types (t OID name typlen typalign typbyval typelem typtype subtype) that are built into PostgreSQL, and from which
# majors to which (none: all). Generated from PostgreSQL {majors} by tools/generate_functions.py, do not edit.
"""
LENGTHS = {"NAMEDATALEN": "64", "FLOAT8PASSBYVAL": "t", "SIZEOF_POINTER": "8", "ALIGNOF_POINTER": "d"}
Row = dict[str, str]


def rows(text: str, catalog: str) -> Iterator[Row]:
    """Give the rows of a catalog in a ``postgres.bki``."""
    created = re.search(rf"^create {catalog} [^\n]*\n \(\n(.*?)\n \)", text, re.M | re.S)
    assert created is not None
    names = re.findall(r"^ (\w+) = ", created[1], re.M)
    body = text[text.index(f"create {catalog} ") : text.index(f"close {catalog}\n")]
    for line in re.findall(r"^insert \( (.*) \)$", body, re.M):
        values = (word.strip("'").replace("''", "'") for word in WORDS.findall(line))
        yield dict(zip(names, values, strict=True))


def lines(text: str) -> Iterator[str]:
    """Give the lines about a major version."""
    immutable = set()
    for row in rows(text, "pg_proc"):
        if row["provolatile"] == "i" and row["prokind"] == "f" and row["proretset"] == "f":
            immutable.add(row["oid"])
            source = row["prosrc"] if re.fullmatch(r"\w+", row["prosrc"]) else "-"
            arguments = row["proargtypes"].replace(" ", ",") or "-"
            yield f"f {row['oid']} {row['proname']} {source} {arguments} {row['prorettype']} {row['proisstrict']}"
    for row in rows(text, "pg_operator"):
        function = next((f for f in rows_of_function(text, row["oprcode"], row) if f in immutable), None)
        if function is not None:
            yield f"o {row['oid']} {row['oprname']} {function}"
    subtypes = {row[key]: row["rngsubtype"] for row in rows(text, "pg_range") for key in ("rngtypid", "rngmultitypid")}
    (handler,) = (row["oid"] for row in rows(text, "pg_proc") if row["proname"] == "array_subscript_handler")
    for row in rows(text, "pg_type"):
        fields = [LENGTHS.get(row[key], row[key]) for key in ("typlen", "typalign", "typbyval")]
        element = row["typelem"] if row["typsubscript"] == handler else "0"
        more = f"{element} {row['typtype']} {subtypes.get(row['oid'], 0)}"
        yield f"t {row['oid']} {row['typname']} {' '.join(fields)} {more}"


_FUNCTIONS: dict[int, dict[str, list[str]]] = {}


def rows_of_function(text: str, code: str, operator: Row) -> list[str]:
    """List the OIDs of the functions that an operator's code may name: by its name, with the arguments it has."""
    if id(text) not in _FUNCTIONS:
        table = _FUNCTIONS.setdefault(id(text), {})
        for row in rows(text, "pg_proc"):
            signature = f"{row['proname']}({row['proargtypes'].replace(' ', ',')})"
            for key in (row["oid"], signature):
                table.setdefault(key, []).append(row["oid"])
    sides = [operator[key] for key in ("oprleft", "oprright") if operator[key] != "0"]
    table = _FUNCTIONS[id(text)]
    return table.get(code) or table.get(f"{code.split('(')[0]}({','.join(sides)})") or []


def by_kind_and_oid(line: str) -> tuple[str, int, str]:
    """Return a key that sorts lines by their first two words."""
    return line[0], int(line.split(maxsplit=2)[1]), line


def main() -> None:
    """Write the file."""
    catalogs = map(read_catalogs, sys.argv[1:])
    write_rows("functions.txt", HEADER, [(major, lines(text)) for major, text in catalogs], by_kind_and_oid)


if __name__ == "__main__":
    main()
