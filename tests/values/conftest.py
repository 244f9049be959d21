"""One running server per major version for this rung."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.demo.embedded_postgres import EmbeddedPostgres, EmbeddedPostgresError, find_programs


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        majors = (14, 15, 16, 17, 18) if metafunc.config.getoption("--all-majors") else (15, 16, 18)
        metafunc.parametrize("server", majors, indirect=True, ids=[f"pg{major}" for major in majors], scope="session")


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    try:
        programs = find_programs(request.param)
    except EmbeddedPostgresError as error:
        pytest.skip(str(error))
    with EmbeddedPostgres(programs, autovacuum=False) as running:
        yield running
