"""Landing to catalogs of Iceberg in PostgreSQL, and in Glue: the same rows, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from landing.catalogs.named_catalogs import MODES, Named, check_landed
from landing.work import Work

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def postgres() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(find_programs(16)) as server:
        yield server


@pytest.fixture(scope="module")
def in_postgres(postgres: EmbeddedPostgres) -> Iterator[Named]:
    info = postgres.connection_info()
    uri = f"postgresql+psycopg://{info['user']}@/{info['dbname']}?host={info['host']}&port={info['port']}"
    with Named("ofpostgres", {"type": "sql", "uri": uri}).configured() as named:
        yield named


@pytest.mark.parametrize(("mode", "write_mode"), MODES)
def test_a_catalog_in_postgres(work: Work, in_postgres: Named, tmp_path: Path, mode: str, write_mode: str) -> None:
    check_landed(work, in_postgres.target(tmp_path / f"sql-{mode}-{write_mode}", mode, write_mode))


@pytest.fixture(scope="module")
def in_glue() -> Iterator[Named]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        port = server.get_host_and_port()[1]
        signed = {"glue.access-key-id": "key", "glue.secret-access-key": "secret", "glue.region": "us-east-1"}
        properties = {"type": "glue", "glue.endpoint": f"http://127.0.0.1:{port}", **signed}
        with Named("ofglue", properties).configured() as named:
            yield named
    finally:
        server.stop()


@pytest.mark.parametrize(("mode", "write_mode"), MODES)
def test_a_catalog_of_glue(work: Work, in_glue: Named, tmp_path: Path, mode: str, write_mode: str) -> None:
    check_landed(work, in_glue.target(tmp_path / f"glue-{mode}-{write_mode}", mode, write_mode))
