"""Write ``src/headwater/pg/keywords.txt`` from running servers, one of each major version.

Usage: ``python tools/generate_keywords.py DSN...``
"""

from __future__ import annotations

import sys

import psycopg

from data_files import write_rows

HEADER = """\
# Words that quote_identifier quotes although their letters are harmless (``src/include/parser/kwlist.h``: every keyword
# whose category is not UNRESERVED_KEYWORD), and from which majors to which (none: all).
# Generated from PostgreSQL {majors} by tools/generate_keywords.py, do not edit.
"""


def keywords(dsn: str) -> tuple[int, list[str]]:
    """Ask a server for its major version and its keywords that are not unreserved."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT word FROM pg_get_keywords() WHERE catcode <> 'U'")
        return connection.info.server_version // 10000, [word for (word,) in rows]


def main() -> None:
    """Write the file."""
    write_rows("keywords.txt", HEADER, map(keywords, sys.argv[1:]))


if __name__ == "__main__":
    main()
