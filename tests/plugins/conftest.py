"""One running server per major version for this rung."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.demo.embedded_postgres import EmbeddedPostgres, EmbeddedPostgresError, find_programs

MAJORS = (14, 15, 16, 17, 18, 19)


@pytest.fixture(scope="session", params=MAJORS, ids=[f"pg{major}" for major in MAJORS])
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    try:
        programs = find_programs(request.param, plugin="test_decoding")
    except EmbeddedPostgresError as error:
        pytest.skip(str(error))
    with EmbeddedPostgres(programs, autovacuum=False) as running:
        yield running
