"""Write the text files that ``headwater.pg.data_files`` reads: rows of several majors, each with those that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "src" / "headwater" / "pg"


def read_catalogs(path: str | Path) -> tuple[int, str]:
    """Read a ``postgres.bki``.

    Returns:
        Its major version and its text.
    """
    text = Path(path).read_text()
    return int(text[: text.index("\n")].rsplit(maxsplit=1)[-1]), text


def write_rows(
    name: str, header: str, rows: Iterable[tuple[int, Iterable[str]]], order: Callable[[str], Any] | None = None
) -> None:
    """Write a file.

    Args:
        name: the file's.
        header: its comment, in which ``{majors}`` stands for the majors.
        rows: by major version, each row as its line.
        order: the key by which lines are sorted; by their text if it is not given.
    """
    having: dict[str, list[int]] = {}
    majors = []
    for major, lines in sorted(rows):
        majors.append(major)
        for line in lines:
            having.setdefault(line, []).append(major)
    text = [_with_majors(line, there, majors) for line, there in having.items()]
    comment = header.replace("{majors}", ", ".join(map(str, majors)))
    (FOLDER / name).write_text(comment + "\n".join(sorted(text, key=order)) + "\n")


def _with_majors(line: str, there: Sequence[int], majors: Sequence[int]) -> str:
    """Add the majors that have a line, unless all do."""
    first, last = there[0], there[-1]
    if list(there) != [major for major in majors if first <= major <= last]:
        raise SystemExit(f"{line}: PostgreSQL {there} have it, expected majors that follow each other")
    return line if (first, last) == (majors[0], majors[-1]) else f"{line} {first}-{last}"
