"""Write ``src/headwater/pg/keywords.py`` from running servers, one of each major version.

Usage: ``python tools/generate_keywords.py DSN... > src/headwater/pg/keywords.py``
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

FOOTER = """KEYWORDS: dict[int, frozenset[str]] = {
    major: frozenset(word for since, words in _NEW.items() if since <= major for word in words.split())
    for major in _NEW
}"""


def keywords(dsn: str) -> tuple[int, list[str]]:
    """The server's major version and its keywords that are not unreserved."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT word FROM pg_get_keywords() WHERE catcode <> 'U' ORDER BY word COLLATE \"C\"")
        return connection.info.server_version // 10000, [word for (word,) in rows]


def main() -> None:
    """Print the module: the words of the first major, and what each later one adds."""
    tables = sorted(keywords(dsn) for dsn in sys.argv[1:])
    print(HEADER.format(majors=", ".join(str(major) for major, _ in tables)))
    print("_NEW = {")
    known: set[str] = set()
    for major, words in tables:
        if not known <= set(words):
            raise SystemExit(f"PostgreSQL {major} no longer quotes {sorted(known - set(words))}: the table only adds")
        print(f'    {major}: """\n{textwrap.fill(" ".join(word for word in words if word not in known), 118)}\n""",')
        known.update(words)
    print("}")
    print('"""What each major version adds to the words of the ones before it."""\n')
    print(FOOTER)


if __name__ == "__main__":
    main()
