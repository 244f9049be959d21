"""Write ``src/headwater/pg/settings.txt`` from running servers, one of each major version.

Usage: ``python tools/generate_settings.py DSN...``
"""

from __future__ import annotations

import re
import sys

import psycopg

from data_files import write_rows

HEADER = """\
# Settings that a server has of its own (``src/backend/utils/misc/guc_tables.c``): name in lower case, context, type,
# values of an enum with commas between (else -), group, all with + for a blank; and which majors have it (none: all).
# Generated from PostgreSQL {majors} by tools/generate_settings.py, do not edit.
"""

QUERY = """
SELECT lower(name), context, vartype, array_to_string(enumvals, ','), split_part(category, ' / ', 1)
FROM pg_settings WHERE name !~ '[.]'
"""
OF_BUILDS = re.compile("pglz|io_uring|posix")
"""Values of enums that depend on how a server was built, or on its platform."""


def settings(dsn: str) -> tuple[int, list[str]]:
    """Ask a server for its major version and its settings, each as a line."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(QUERY).fetchall()
        return connection.info.server_version // 10000, [line(row) for row in rows]


def line(row: tuple[str | None, ...]) -> str:
    """Write a setting as a line."""
    words = [None if word is not None and OF_BUILDS.search(word) else word for word in row]
    return " ".join((word or "-").replace(" ", "+") for word in words)


def lasting(rows: dict[int, list[str]]) -> dict[int, list[str]]:
    """Leave out lines that only some majors in a row have: they came with minor releases."""
    majors = sorted(rows)
    having: dict[str, list[int]] = {}
    for major in majors:
        for row in rows[major]:
            having.setdefault(row, []).append(major)
    left_out = {row for row, there in having.items() if there != [m for m in majors if there[0] <= m <= there[-1]]}
    return {major: [row for row in rows[major] if row not in left_out] for major in majors}


def main() -> None:
    """Write the file."""
    write_rows("settings.txt", HEADER, lasting(dict(map(settings, sys.argv[1:]))).items())


if __name__ == "__main__":
    main()
