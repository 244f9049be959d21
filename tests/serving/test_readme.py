"""README's third scene, as written: a server subscribes to the sample, whose own server is stopped."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bad_input.servers import small_server, value
from headwater.local_servers.server_programs import find_client
from serving.service import wait_until

pytestmark = pytest.mark.server

PROJECT = Path(__file__).parents[2]
SCENE = re.compile(r"\*\*3\. .*?\n```\n(.*?)```", re.DOTALL)
EXPECTED = "(2,Bob,2.50,paid,erin) (3,Cleo,40.00,new,web)"
ROWS = "SELECT string_agg(o::text, ' ' ORDER BY id) FROM shop.orders o"


def free_port() -> int:
    with socket.create_server(("localhost", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def test_a_new_subscriber_of_the_sample(tmp_path: Path) -> None:
    subprocess.run([sys.executable, PROJECT / "tools" / "make_sample.py", tmp_path / "build" / "sample"], check=True)
    shutil.copytree(PROJECT / "examples", tmp_path / "examples")
    scene = SCENE.search((PROJECT / "README.md").read_text())
    assert scene is not None
    port, statements = str(free_port()), tmp_path / "examples" / "sample" / "subscriber.sql"
    statements.write_text(statements.read_text().replace("6432", port))
    script = scene[1].replace(".venv/bin/", f"{Path(sys.executable).parent}/").replace("6432", port)
    script = script.replace("psql", f"{find_client('psql', 18)} -v ON_ERROR_STOP=1 --quiet")
    # Somebody who types the last line does so when the service listens.
    before, _, last = script.rstrip("\n").rpartition("\n")
    script = f"{before}\necho $!\nuntil bash -c ': < /dev/tcp/localhost/{port}' 2> /dev/null; do :; done\n{last}\n"
    with small_server(18) as subscriber, (tmp_path / "log").open("w+") as log:
        place = {"PGHOST": str(subscriber.socket_directory), "PGPORT": str(subscriber.port), "PGUSER": "postgres"}
        environment = {**os.environ, **place, "PGDATABASE": "postgres"}
        run = subprocess.Popen(
            ["bash", "-c", script], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
        assert run.stdout is not None
        number = next(int(line) for line in iter(run.stdout.readline, "") if line.strip().isdigit())
        try:
            assert run.wait() == 0, log.seek(0) or log.read()
            wait_until(lambda: value(subscriber, ROWS) == EXPECTED)
        finally:
            os.kill(number, signal.SIGTERM)
            run.stdout.read()
            run.stdout.close()
