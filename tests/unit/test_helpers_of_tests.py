"""Helpers that tests share lie in modules named for what they hold: no test module is imported by another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = sorted(TESTS.rglob("*.py"))


def _imported(file: Path) -> Iterator[str]:
    """Give names of modules and of what is taken from them."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _test_modules() -> set[str]:
    return {".".join(file.relative_to(TESTS).with_suffix("").parts) for file in FILES if file.name.startswith("test_")}


@pytest.mark.parametrize("rung", sorted({file.relative_to(TESTS).parts[0] for file in FILES}))
def test_no_test_module_is_imported(rung: str) -> None:
    modules = _test_modules()
    files = [file for file in FILES if file.relative_to(TESTS).parts[0] == rung]
    names = [(str(file.relative_to(TESTS)), name) for file in files for name in _imported(file)]
    assert [(file, name) for file, name in names if name in modules or name.rpartition(".")[0] in modules] == []


def test_every_folder_of_tests_is_a_package() -> None:
    """Else modules of one name in two folders are one to Python and to mypy."""
    folders = {file.parent for file in FILES} - {TESTS}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []
