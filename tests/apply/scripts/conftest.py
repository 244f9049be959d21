"""The servers that all scripts of a process share: everyday of 18; of other majors, and published by the service, slow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from apply.scripts.script_runner import Script, Servers, new_script, server_of, serving_of

MAJORS = {"pg18": 18, "pg16": 16, "pg19": 19, "served": 18}
SERVED = "served"
FORMS = [pytest.param(name, marks=[] if name == "pg18" else [pytest.mark.slow]) for name in MAJORS]


@pytest.fixture(scope="package", params=FORMS)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Run the servers of a form."""
    major = MAJORS[request.param]
    with ExitStack() as stack:
        publisher, target = (stack.enter_context(server_of(major)) for _ in range(2))
        serving = None
        if request.param == SERVED:
            serving = stack.enter_context(serving_of(publisher, tmp_path_factory.mktemp("served")))
        yield Servers(publisher, target, serving)


@pytest.fixture
def script(servers: Servers) -> Iterator[Script]:
    """Begin a script."""
    with new_script(servers) as begun:
        yield begun


@pytest.fixture
def server_script(servers: Servers) -> Iterator[Script]:
    """Begin a script whose publisher is a server: it is about the server's part."""
    if servers.serving is not None:
        pytest.skip("it is about the publisher's server")
    with new_script(servers) as begun:
        yield begun
