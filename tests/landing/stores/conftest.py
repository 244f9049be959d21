"""Fixtures: a store, a proxy before it, a catalog of Iceberg, credentials in the environment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from landing.stores.proxy import StoreProxy, store_proxy
from landing.stores.server import LakeStore, chosen_store
from landing.stores.targets import CATALOG


@pytest.fixture(scope="session")
def store() -> Iterator[LakeStore]:
    with chosen_store() as server:
        yield server


@pytest.fixture
def proxy(store: LakeStore) -> Iterator[StoreProxy]:
    with store_proxy(store.endpoint) as running_proxy:
        yield running_proxy


@pytest.fixture(scope="module", autouse=True)
def own_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Name a catalog of Iceberg, in an SQL database."""
    uri = f"sqlite:///{tmp_path_factory.mktemp('catalog') / 'catalog.db'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"PYICEBERG_CATALOG__{CATALOG.upper()}__URI", uri)
        patch.setenv(f"PYICEBERG_CATALOG__{CATALOG.upper()}__TYPE", "sql")
        yield


@pytest.fixture
def signed(store: LakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", store.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", store.secret)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "1")
