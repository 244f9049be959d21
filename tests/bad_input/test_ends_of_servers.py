"""A process that is killed leaves no server behind."""

from __future__ import annotations

import os
import select
import subprocess
import sys

import pytest

from packaged_servers import programs_of

pytestmark = pytest.mark.server

STARTS = """
import sys
from pathlib import Path
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import ServerPrograms

server = EmbeddedPostgres(ServerPrograms(Path(sys.argv[1]), int(sys.argv[2])))
server.__enter__()
print(server.process.pid, flush=True)
sys.stdin.read()
"""


def test_a_server_ends_with_the_process_that_started_it() -> None:
    programs = programs_of(18)
    command = [sys.executable, "-c", STARTS, str(programs.root), str(programs.major)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        server = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
    ended, _, _ = select.select([server], [], [], 60)
    os.close(server)
    assert ended
