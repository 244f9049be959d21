"""The tables that tools make from servers are those that are in the repository, for each major version."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from headwater.demo.embedded_postgres import EmbeddedPostgres
from headwater.pg.catalog_columns import COLUMNS
from headwater.pg.keywords import KEYWORDS
from headwater.pg.version import VERSIONS

pytestmark = pytest.mark.server
TOOLS = Path(__file__).parents[2] / "tools"


def tool(name: str) -> ModuleType:
    """A program of ``tools/`` as a module."""
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_columns_of_catalogs(server: EmbeddedPostgres) -> None:
    programs = server.programs
    major, found = tool("generate_catalog_columns").read(programs.root / "share" / "postgresql" / "postgres.bki")
    assert major == programs.major
    assert found == {name: " ".join(columns.split()) for name, columns in COLUMNS[major].items()}


def test_keywords(server: EmbeddedPostgres) -> None:
    dsn = " ".join(f"{name}={word}" for name, word in server.connection_info().items())
    major, words = tool("generate_keywords").keywords(dsn)
    assert (major, frozenset(words)) == (server.programs.major, KEYWORDS[major])


def test_every_major_has_its_tables() -> None:
    assert VERSIONS.keys() == COLUMNS.keys() == KEYWORDS.keys()
