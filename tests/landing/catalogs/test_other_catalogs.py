"""Landing to catalogs of Iceberg in PostgreSQL, and in Glue: the same rows, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.lakes.catalogs.table_places import OF_CATALOG
from headwater.lakes.landing_target import MERGE_ON_READ
from headwater.lakes.settings.table_settings import TableSettings
from headwater.landing.landing_modes import CURRENT
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from landing.catalogs.named_catalogs import MODES, Named, check_landed, commit_lsns, identifier, opened, read
from landing.catalogs.postgres_proxy import BEFORE, BEHIND, PASS, PostgresProxy, postgres_proxy
from landing.iceberg_lakes import THIRD
from landing.work import TABLES, Work

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def proxy() -> Iterator[PostgresProxy]:
    with EmbeddedPostgres(find_programs(16), loopback=True) as server, postgres_proxy(server.port) as before:
        yield before


@pytest.fixture(scope="module")
def in_postgres(proxy: PostgresProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    uri = f"postgresql+psycopg://postgres@127.0.0.1:{proxy.port}/postgres"
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    with Named("ofpostgres", {"type": "sql", "uri": uri, "warehouse": warehouse}).configured() as named:
        yield named


@pytest.mark.parametrize(("mode", "write_mode"), MODES)
def test_a_catalog_in_postgres(work: Work, in_postgres: Named, tmp_path: Path, mode: str, write_mode: str) -> None:
    check_landed(work, in_postgres.target(tmp_path / f"sql-{mode}-{write_mode}", mode, write_mode))


@pytest.mark.parametrize("fate", [BEFORE, BEHIND])
def test_connections_are_lost(work: Work, in_postgres: Named, proxy: PostgresProxy, tmp_path: Path, fate: str) -> None:
    """Every third COMMIT has no answer; the tables of a window are committed in one all the same, once."""
    numbers = iter(range(1 << 30))
    target = in_postgres.target(tmp_path / f"lost-{fate}", table_location=OF_CATALOG)
    proxy.lost.clear()
    proxy.choose = lambda: fate if next(numbers) % 3 == 2 else PASS
    try:
        work.land(work.engine, target)
    finally:
        proxy.choose = lambda: PASS
    assert proxy.lost
    work.check_whole(target, read)
    for name in TABLES:
        marks = commit_lsns(target, name)
        assert marks == sorted(set(marks)), "a commit a window"


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


def test_tables_of_format_three_in_glue(work: Work, in_glue: Named, tmp_path: Path) -> None:
    tables = (TableSettings("*", properties=THIRD),)
    target = in_glue.target(tmp_path / "glue-third", CURRENT, MERGE_ON_READ, tables=tables)
    check_landed(work, target)
    with opened(target) as catalog:
        assert catalog.load_table(identifier(target, "public.a")).metadata.format_version == 3
