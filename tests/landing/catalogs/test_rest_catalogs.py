"""Landing to a REST catalog: the same rows, once, whatever is killed or not answered (``make test-lakes``)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from landing.catalogs.named_catalogs import MODES, Named, check_landed
from landing.catalogs.rest_server import iceberg_jars, rest_server
from landing.store_proxy import StoreProxy, store_proxy
from landing.work import Work

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = "ofrest"


@pytest.fixture(scope="module")
def jars(request: pytest.FixtureRequest) -> Path:
    return iceberg_jars(request.config)


@pytest.fixture(scope="module")
def proxy(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProxy]:
    with rest_server(jars, tmp_path_factory.mktemp("warehouse")) as address, store_proxy(address) as before:
        yield before


@pytest.fixture(scope="module")
def catalog(proxy: StoreProxy) -> Iterator[Named]:
    with Named(NAME, {"type": "rest", "uri": proxy.endpoint}).configured() as named:
        yield named


@pytest.mark.parametrize(("mode", "write_mode"), MODES)
def test_the_same_rows_as_in_a_directory(
    work: Work, catalog: Named, proxy: StoreProxy, tmp_path: Path, mode: str, write_mode: str
) -> None:
    proxy.asked.clear()
    target = catalog.target(tmp_path / f"same-{mode}-{write_mode}", mode, write_mode)
    check_landed(work, target)
    assert any(request.path == "/v1/transactions/commit" for request in proxy.asked)
