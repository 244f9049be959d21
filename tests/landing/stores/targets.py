"""Targets in a store, how they are read, and the command that lands to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from bad_input.running_command import Running, running
from headwater.lakes.iceberg_catalog import open_catalog
from headwater.lakes.landing_target import COPY_ON_WRITE, LandingTarget
from headwater.lakes.parquet_table import manifests, read_parquet_table
from headwater.lakes.stores.library_options import options_for_delta
from headwater.lakes.stores.places import StorePath, place_of
from headwater.landing.landing_modes import CHANGELOG
from landing.stores.proxy import StoreProxy
from landing.stores.server import LakeStore
from landing.work import Work

CATALOG = "ofstores"
FORMATS = ("parquet", "delta", "iceberg")


def target_of(where: StorePath, form: str, mode: str = CHANGELOG, write_mode: str = COPY_ON_WRITE) -> LandingTarget:
    if form != "iceberg":
        return LandingTarget(where, form, mode=mode, write_mode=write_mode)
    namespace = where.name.replace("-", "_")
    return LandingTarget(where, form, mode=mode, write_mode=write_mode, iceberg_catalog=CATALOG, namespace=namespace)


def place(store: LakeStore, name: str, endpoint: str | None = None) -> StorePath:
    known = place_of(store.address(name), store.options(endpoint))
    assert isinstance(known, StorePath)
    return known


def read(target: LandingTarget, name: str) -> pa.Table | None:
    """Read a table's rows, by the table's own manifests."""
    where = target.where / name
    assert isinstance(where, StorePath)
    if target.format == "iceberg":
        with closing(open_catalog(where.parent, target.iceberg_catalog)) as catalog:
            identifier = target.namespace or "", name.replace(".", "_")
            known = catalog.table_exists(identifier)
            return catalog.load_table(identifier).scan().to_arrow() if known else None
    if target.format == "parquet":
        return read_parquet_table(where) if next(manifests(where), None) else None
    options = options_for_delta(where.store)
    if not DeltaTable.is_deltatable(str(where), options):
        return None
    table = DeltaTable(str(where), storage_options=options)
    return pa.table(table.scan()).cast(pa.schema(table.schema().to_arrow()))  # type: ignore[arg-type]


def arguments(work: Work, target: LandingTarget, endpoint: str) -> list[str]:
    """List the arguments of the command; credentials are in its environment."""
    words = [*work.arguments(target), "--storage-option", f"endpoint_url={endpoint}"]
    if target.iceberg_catalog is not None:
        words += ["--iceberg-catalog", target.iceberg_catalog, "--namespace", str(target.namespace)]
    return words


@contextmanager
def landing(work: Work, target: LandingTarget, proxy: StoreProxy, directory: Path) -> Iterator[Running]:
    with running(*arguments(work, target, proxy.endpoint), directory=directory) as process:
        yield process
