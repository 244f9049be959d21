"""Tables of PostgreSQL's own that programs in ``tools/`` write as text, for several major versions in one file.

A line is a row: words with one space between, and at the end ``FIRST-LAST`` where not all of the file's majors have it.
Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_MAJORS = re.compile(r"(\d+)-(\d+)")


@cache
def read_rows(name: str, major: int) -> tuple[tuple[str, ...], ...]:
    """Read the rows that a major version has.

    Args:
        name: the file, in this folder.
        major: the major version.

    Returns:
        The words of each row, in the file's order, without the majors.
    """
    rows = []
    for line in Path(__file__).with_name(name).read_text().splitlines():
        words = tuple(line.split(" "))
        majors = _MAJORS.fullmatch(words[-1])
        if line[0] != "#" and (majors is None or int(majors[1]) <= major <= int(majors[2])):
            rows.append(words[:-1] if majors else words)
    return tuple(rows)
