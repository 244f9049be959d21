"""Catalogs of pyiceberg's configuration, targets of them, and their tables as pyiceberg reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.utils.config import Config

from headwater.lakes.as_of_view import read_as_of, tables_of
from headwater.lakes.iceberg_table import COMMIT_LSN
from headwater.lakes.landing_target import COPY_ON_WRITE, MERGE_ON_READ, LandingTarget
from headwater.landing.landing_modes import CHANGELOG, CURRENT, HISTORY
from headwater.pg.lsn import Lsn
from landing.work import Work

MODES = [
    (CHANGELOG, COPY_ON_WRITE),
    (CURRENT, COPY_ON_WRITE),
    (CURRENT, MERGE_ON_READ),
    (HISTORY, COPY_ON_WRITE),
    (HISTORY, MERGE_ON_READ),
]


@dataclass(frozen=True)
class Named:
    """A catalog, by its name in the configuration.

    Attributes:
        name: it; properties: what the configuration says.
    """

    name: str
    properties: dict[str, str]

    @contextmanager
    def configured(self) -> Iterator[Named]:
        """Have variables of the environment tell of it, to this process, too, which has read them by now."""
        with pytest.MonkeyPatch.context() as patch:
            for key, value in self.properties.items():
                inner = key.replace("-", "_").replace(".", "__").upper()
                patch.setenv(f"PYICEBERG_CATALOG__{self.name.upper()}__{inner}", value)
            patch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
            yield self

    def target(self, place: Path, mode: str = CHANGELOG, write_mode: str = COPY_ON_WRITE, **more: Any) -> LandingTarget:
        """Make a target of which the tables are in a namespace of its own."""
        known = {"iceberg_catalog": self.name, "namespace": place.name.replace("-", "_"), "mode": mode, **more}
        return LandingTarget(place, "iceberg", write_mode=write_mode, **known)


def identifier(target: LandingTarget, name: str) -> tuple[str, str]:
    return target.namespace or "", name.replace(".", "_")


@contextmanager
def opened(target: LandingTarget) -> Iterator[Catalog]:
    assert target.iceberg_catalog is not None
    with closing(load_catalog(target.iceberg_catalog)) as catalog:
        yield catalog


def read(target: LandingTarget, name: str, version: int | None = None) -> pa.Table | None:
    """Read a table's rows; None where there is none, or it has never had any."""
    with opened(target) as catalog:
        if not catalog.table_exists(identifier(target, name)):
            return None
        table = catalog.load_table(identifier(target, name))
        return table.scan(snapshot_id=version).to_arrow() if table.current_snapshot() is not None else None


def commit_lsns(target: LandingTarget, name: str) -> list[int]:
    """List how far each snapshot of a table has come."""
    with opened(target) as catalog:
        snapshots = catalog.load_table(identifier(target, name)).snapshots()
    return [Lsn.parse(str(snapshot.summary[COMMIT_LSN])) for snapshot in snapshots if snapshot.summary is not None]


def check_landed(work: Work, target: LandingTarget) -> None:
    """Land, and check the tables, what the target says of them, and that nothing is left to land."""
    work.land(work.engine, target)
    work.check_whole(target, read)
    resolved = read_as_of(target.where)
    shown = {view.name: view.size.rows for view in tables_of(target.where, resolved)}
    assert shown == {name: len(rows) for name, rows in work.whole(target.mode).items()}
    for name, version in resolved.tables.items():
        rows = partial(read, target)(name, version)
        assert rows is not None
        assert len(rows) == shown[name]
    assert not work.land(work.engine, target).rows, "nothing is left"
