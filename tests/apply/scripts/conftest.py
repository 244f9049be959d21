"""The servers that all scripts of a process share: of 18 every day; of other majors, and behind the service, slow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from apply.scripts.script_runner import Script, Servers, both_of, new_script, serving_of

MAJORS = {"pg18": 18, "pg16": 16, "pg19": 19, "served": 18}
SERVED = "served"
FORMS = [pytest.param(name, marks=[] if name == "pg18" else [pytest.mark.slow]) for name in MAJORS]


@pytest.fixture(scope="package", params=FORMS)
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Run the servers of a form."""
    with both_of(MAJORS[request.param], is_served=request.param == SERVED) as started:
        yield started


@pytest.fixture
def script(servers: Servers, tmp_path: Path) -> Iterator[Script]:
    """Begin a script; where there is a service, its backup has the script's database."""
    with ExitStack() as stack:
        begun = stack.enter_context(new_script(servers))
        if servers.is_served:
            begun.serving = stack.enter_context(serving_of(servers.publisher, tmp_path))
            stack.callback(begun.stop)
        yield begun


@pytest.fixture
def server_script(servers: Servers) -> Iterator[Script]:
    """Begin a script whose publisher is a server: it is about the server's part."""
    if servers.is_served:
        pytest.skip("it is about the publisher's server")
    with new_script(servers) as begun:
        yield begun
