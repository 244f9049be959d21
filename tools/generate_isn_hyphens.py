"""Write ``src/headwater/rows/text/isn_hyphens.py`` from what a running server's extension isn prints.

Usage: ``python tools/generate_isn_hyphens.py MAJOR > src/headwater/rows/text/isn_hyphens.py``

Where hyphens stand depends on the first ten digits at most: on the first three, or of books and music, on seven more.
"""

from __future__ import annotations

import sys
import textwrap
from typing import Any

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs

DIGITS = 12
PATTERNS = """
    select first, pattern from (
        select first, pattern, lag(pattern) over (order by first) as before from (
            select %s::int8 + g * %s::int8 as first,
                (%s::int8 + g * %s::int8)::text as number
            from generate_series(0, %s) g
        ) numbers, lateral (
            select translate((lpad(number, 12, '0') || '?')::ean13::text, '0123456789', 'ddddddddddd')
        ) as printed(pattern)
    ) patterns where pattern is distinct from before order by first
"""
HEADER = '''"""The places of hyphens in the numbers of the extension isn.

Generated from PostgreSQL {major} by tools/generate_isn_hyphens.py, do not edit.
PostgreSQL: ``contrib/isn/*.h``; the same in all major versions.
"""

from __future__ import annotations

_CHANGES = """
{changes}
"""

HYPHENS = tuple(
    (int(first.ljust(12, "0")), int(mask, 16)) for first, mask in (change.split(":") for change in _CHANGES.split())
)
"""The first of twelve digits from which on numbers have these hyphens: bit i is set if one stands behind i + 1 digits.
The thirteenth digit does not matter."""
'''


def changes(connection: Any, start: int, step: int, count: int) -> list[tuple[int, str]]:
    """Ask for the first twelve digits from which on numbers have a pattern, among `count` numbers from `start` on."""
    rows = connection.execute(PATTERNS.encode(), (start, step, start, step, count - 1)).fetchall()
    return [(first, pattern) for first, pattern in rows]


def mask(pattern: str) -> int:
    """Pack a pattern into bits: bit i is set if a hyphen stands after i + 1 digits."""
    bits, digits = 0, 0
    for sign in pattern:
        digits += sign != "-"
        bits |= (sign == "-") << digits - 1
    return bits


def main() -> None:
    """Ask, join what is alike, print."""
    major = int(sys.argv[1])
    with EmbeddedPostgres(find_programs(major), autovacuum=False) as server, server.connect() as connection:
        connection.execute("create extension isn")
        connection.execute("set isn.weak = off")
        patterns = changes(connection, 0, 10**9, 1000)
        for prefix in (978, 979):
            patterns += changes(connection, prefix * 10**9, 100, 10**7)
        patterns += changes(connection, 977 * 10**9, 10**5, 10**4)
        patterns += [(980 * 10**9, changes(connection, 980 * 10**9, 1, 1)[0][1])]
    rows = dict(patterns)
    changed, before = [], -1
    for first in sorted(rows):
        if mask(rows[first]) != before:
            before = mask(rows[first])
            changed.append(f"{first:012}".rstrip("0") + f":{before:X}")
    print(HEADER.replace("{major}", str(major)).replace("{changes}", textwrap.fill(" ".join(changed), 120)), end="")


if __name__ == "__main__":
    main()
