"""Write ``src/headwater/pg/operators.txt``: what the server's parser chooses among, of each major version.

Usage: ``python tools/generate_operators.py postgres.bki...``
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from data_files import read_catalogs, write_rows
from generate_functions import LENGTHS, by_kind_and_oid, rows, rows_of_function

HEADER = """\
# All operators (o OID name left right result, then the OID of the function if it is immutable, else 0), casts (c source
# target function context method) and types (y OID category whether-preferred array-type) that are built into
# PostgreSQL, and from which majors to which (none: all). Generated from PostgreSQL {majors} by
# tools/generate_operators.py, do not edit.
"""


def lines(text: str) -> Iterator[str]:
    """Give the lines about a major version."""
    immutable = {row["oid"] for row in rows(text, "pg_proc") if row["provolatile"] == "i"}
    for row in rows(text, "pg_operator"):
        function = next((oid for oid in rows_of_function(text, row["oprcode"], row) if oid in immutable), "0")
        yield f"o {row['oid']} {row['oprname']} {row['oprleft']} {row['oprright']} {row['oprresult']} {function}"
    for row in rows(text, "pg_cast"):
        signature = {"oprcode": row["castfunc"], "oprleft": row["castsource"], "oprright": "0"}
        functions = rows_of_function(text, row["castfunc"], signature)
        cast_function = next((oid for oid in functions if oid in immutable), "0")
        words = row["castsource"], row["casttarget"], cast_function, row["castcontext"], row["castmethod"]
        yield f"c {' '.join(words)}"
    for row in rows(text, "pg_type"):
        preferred = LENGTHS.get(row["typispreferred"], row["typispreferred"])
        yield f"y {row['oid']} {row['typcategory']} {preferred} {row['typarray']}"


def main() -> None:
    """Write the file."""
    catalogs = map(read_catalogs, sys.argv[1:])
    write_rows("operators.txt", HEADER, [(major, lines(text)) for major, text in catalogs], by_kind_and_oid)


if __name__ == "__main__":
    main()
