"""Write ``src/headwater/plugins/keywords.py`` from running servers, one of each major version.

Usage: ``python tools/generate_keywords.py DSN... > src/headwater/plugins/keywords.py``
"""

from __future__ import annotations

import sys
import textwrap

import psycopg

HEADER = '''"""Words that ``quote_identifier`` quotes although their letters are harmless, per major version.

Generated from PostgreSQL {majors} by tools/generate_keywords.py, do not edit.
PostgreSQL: ``src/include/parser/kwlist.h``,
every keyword whose category is not UNRESERVED_KEYWORD.
"""

from __future__ import annotations
'''


def keywords(dsn: str) -> tuple[int, list[str]]:
    """The server's major version and its keywords that are not unreserved."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT word FROM pg_get_keywords() WHERE catcode <> 'U' ORDER BY word COLLATE \"C\"")
        return connection.info.server_version // 10000, [word for (word,) in rows]


def main() -> None:
    """Print the module."""
    tables = sorted(keywords(dsn) for dsn in sys.argv[1:])
    print(HEADER.format(majors=", ".join(str(major) for major, _ in tables)))
    for major, words in tables:
        print(f'_WORDS_{major} = """\n{textwrap.fill(" ".join(words), 118)}\n"""\n')
    print("KEYWORDS: dict[int, frozenset[str]] = {")
    for major, _ in tables:
        print(f"    {major}: frozenset(_WORDS_{major}.split()),")
    print("}")


if __name__ == "__main__":
    main()
