"""One server's run of huge transactions, for all tests of this rung."""

from __future__ import annotations

import pytest

from headwater.local_servers.server_programs import ServerPrograms, find_programs
from reorder.huge_transactions import SCHEMA, ServerRun, huge_workload, run_server

MAJOR = 16


@pytest.fixture(scope="session")
def programs() -> ServerPrograms:
    return find_programs(MAJOR, plugin="test_decoding")


@pytest.fixture(scope="session")
def server_run(programs: ServerPrograms, tmp_path_factory: pytest.TempPathFactory) -> ServerRun:
    return run_server(programs, tmp_path_factory.mktemp("huge"), SCHEMA, huge_workload)
