"""One running server per major version for this rung."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from packaged_servers import UNRELEASED, programs_of

MAJORS = (14, 15, 16, 17, 18, 19)


RELEASED_OR_ALL = [pytest.param(major, marks=pytest.mark.slow if major == UNRELEASED else ()) for major in MAJORS]


@pytest.fixture(scope="session", params=RELEASED_OR_ALL, ids=[f"pg{major}" for major in MAJORS])
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(programs_of(request.param, "test_decoding"), autovacuum=False) as running:
        yield running
