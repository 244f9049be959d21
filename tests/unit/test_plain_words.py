"""The sources are written in plain words: names that say what they hold, docstrings in short sentences.

``python tests/unit/test_plain_words.py PATH…`` lists what is to be changed in some files or folders.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = [ROOT / "src" / "headwater", ROOT / "tests", ROOT / "bench", ROOT / "tools"]

SAY_NOTHING = {"one", "found", "told", "said", "kept"}
"""Names that do not say what they hold."""

PRONOUNS = {"What", "Those", "That", "These", "How", "Where", "Which", "Who", "When", "It", "By", "They"}
"""Words that no docstring begins with; ruff's D401 has the rule for functions."""

MOST_WORDS = 25

# Between sentences, paragraphs, entries of a list, and entries of a section such as "Args:".
BREAKS = re.compile(r"(?<=[.:;])\s+|\n\s*\n|\n\s*[-*|] |\n(?=\s*\w+: )|\n(?=\s*\S+\s{2,}\S)")

BORDER = r"=+  =[= ]*\n"
TABLES = re.compile(rf"(?<=::\n\n)(?: +.*\n|\n)+|^{BORDER}(?:(?:.*\n)*?{BORDER}){{2}}", re.MULTILINE)


def sentences(docstring: str) -> Iterator[str]:
    """Give the sentences of a docstring; lines of code and tables are none."""
    yield from (part.strip() for part in BREAKS.split(TABLES.sub("\n\n", docstring)))


def wrong_docstring(node: ast.AST, docstring: str) -> Iterator[str]:
    """Say what is wrong with a docstring."""
    first = docstring.split(maxsplit=1)[0]
    if not isinstance(node, ast.FunctionDef) and first in PRONOUNS:
        yield f"begins with {first!r}"
    for sentence in sentences(docstring):
        if (count := len(sentence.split())) > MOST_WORDS:
            yield f"{count} words: {' '.join(sentence.split())[:90]}"


def wrong_words(file: Path) -> Iterator[str]:
    """Say what names and docstrings of a file are to be changed.

    Fields of classes are left: kept states have the digest of some.
    """
    tree = ast.parse(file.read_text())
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    fields = {id(field.target) for node in classes for field in node.body if isinstance(field, ast.AnnAssign)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 1)
        name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else ""
        is_named = isinstance(node, ast.arg) or isinstance(getattr(node, "ctx", None), ast.Store)
        if name in SAY_NOTHING and is_named and id(node) not in fields:
            yield f"{file}:{line}: the name {name!r}"
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (docstring := ast.get_docstring(node)):
            yield from (f"{file}:{line}: {fault}" for fault in wrong_docstring(node, docstring))


def all_wrong_words(*places: Path) -> list[str]:
    """List the faults of files and folders."""
    files = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*.py")))]
    return [fault for file in files for fault in wrong_words(file)]


def test_names_and_docstrings_are_plain() -> None:
    assert not all_wrong_words(*PLACES)


if __name__ == "__main__":
    print("\n".join(all_wrong_words(*map(Path, sys.argv[1:]))))
