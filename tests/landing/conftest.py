"""Fixtures that tests of landing share: work under difficulties, and a session of Spark with a connector of a lake."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headwater
from failure_texts import texts_are_kept
from headwater.jobs.engine import Engine
from headwater.spark.session import spark_session, warm_up
from landing.connector_catalogs import SPARKS, Catalog
from landing.work import Work, do_work

KEPT = Path("build/kills")
"""Where the files are kept that landing was killed on, or hindered, when a test of them has failed."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave DuckLake, where a test goes through all formats, to the long run: its own tests are the everyday ones."""
    for item in items:
        chosen = getattr(item, "callspec", None)
        if chosen is not None and "ducklake" in map(str, chosen.params.values()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def work(engine: Engine, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Work]:
    place, failed_before = tmp_path_factory.mktemp("work"), request.session.testsfailed
    with texts_are_kept(request, KEPT):
        yield do_work(engine, place)
    if request.session.testsfailed != failed_before:
        shutil.copytree(place, KEPT, symlinks=True, dirs_exist_ok=True)


@pytest.fixture(scope="session")
def catalog(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    import pyspark

    jars = request.config.getoption("--connector")
    if jars is None:
        pytest.skip("part of make test-lakes")
    format = Path(jars).name
    assert pyspark.__version__.startswith(SPARKS[format])
    assert any(Path(jars).glob("*.jar"))
    return Catalog(format, Path(jars).absolute(), tmp_path_factory.mktemp("warehouse"))


@pytest.fixture(scope="session")
def connected(catalog: Catalog) -> Iterator[SparkSession]:
    """Start a session with the connector."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = catalog.submitted()
    session = spark_session("local[2]")
    warm_up(session)
    headwater.register(session)
    yield session
    session.stop()
