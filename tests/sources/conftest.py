"""One server's run, its WAL kept in many forms; the command in this process; an S3 server."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from slots.conftest import ServerRun
from slots.conftest import command as command
from slots.conftest import server_run as server_run
from sources.s3_server import S3Server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Hold a server of S3; no credentials of the machine's own count."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    empty = tmp_path_factory.mktemp("aws") / "none"
    kept_variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    for name in kept_variables:
        del os.environ[name]
    nobody = {
        "AWS_SHARED_CREDENTIALS_FILE": str(empty),
        "AWS_CONFIG_FILE": str(empty),
        "AWS_EC2_METADATA_DISABLED": "1",
    }
    os.environ.update(nobody)
    with S3Server() as server:
        yield server
    for name in nobody:
        del os.environ[name]
    os.environ.update(kept_variables)


@pytest.fixture
def fresh(s3: S3Server) -> S3Server:
    """Return the server, with nothing asked yet."""
    s3.asked.clear()
    s3.failures.clear()
    return s3


@pytest.fixture(scope="session")
def plain(s3: S3Server, server_run: ServerRun) -> str:
    """Put the run's WAL there, and return its address."""
    return s3.put(server_run.wal, "plain")
