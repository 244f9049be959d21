"""Tables whose rows are partitioned and sorted, in all modes: what libraries read of them, and of which files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from headwater.jobs.engine import Engine
from headwater.lakes.iceberg_catalog import own_catalog
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.settings.table_settings import TableSettings
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from landing.mirrored_source import NEXT_WINDOW, Mirrored, Source
from landing.mirrors import read_table

pytestmark = [pytest.mark.server]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        yield Source(server, tmp_path_factory.mktemp("layouts"))


def orders(name: str) -> list[str]:
    return [
        f"CREATE TABLE {name} (id int PRIMARY KEY, region text, made timestamptz, total numeric(9,2), note text)",
        f"ALTER TABLE {name} ALTER note SET STORAGE EXTERNAL",
        f"INSERT INTO {name} SELECT n, (ARRAY['eu', 'us/west', NULL, 'a=b %', '01'])[n % 5 + 1],"
        f" timestamptz '2026-11-20 12:00Z' + n * interval '7 hours', n / 3.0, repeat('x', 3000)"
        " FROM generate_series(1, 40) n",
    ]


def work(name: str) -> list[str]:
    return [
        f"INSERT INTO {name} VALUES (41, 'asia', '2026-11-27 23:59:59.5Z', 1.5, 'new'), (42, NULL, NULL, NULL, NULL)",
        f"UPDATE {name} SET region = 'us/west' WHERE id IN (1, 7, 13)",
        NEXT_WINDOW,
        f"UPDATE {name} SET made = made + interval '1 day' WHERE id < 6",
        f"DELETE FROM {name} WHERE region = '01'",
        NEXT_WINDOW,
        f"ALTER TABLE {name} RENAME region TO area",
        f"UPDATE {name} SET id = 100 + id, total = 0 WHERE id > 35",
        f"INSERT INTO {name} VALUES (50, 'eu', '2025-01-01', 3, 'x')",
    ]


FIELDS = {
    "parquet": ("day(made)", "region", "bucket(4, id)"),
    "iceberg": ("day(made)", "region", "bucket(4, id)"),
    "delta": ("region",),
}
COLUMNS = ("id", "region", "made", "total", "note")


def landed(engine: Engine, source: Source, place: Path, name: str, target: LandingTarget) -> Mirrored:
    backup, held = source.after(orders(name), work(name), [name])
    mirrored = Mirrored(engine, source, place)
    own = TableSettings(f"public.{name}", partition=FIELDS[target.format], sort=("total desc", "id"))
    mirrored.target = replace(target, tables=(own,))
    mirrored.land(backup)
    if target.mode == "current":
        assert mirrored.rows(name, held[name][0]) == held[name][1]
    mirrored.land(backup)
    return mirrored


def files_of(mirrored: Mirrored, name: str) -> list[tuple[dict[str, Any], pa.Table]]:
    """Return the files of a table, each with its partition as the format says it, and its rows."""
    place = mirrored.target.place / f"public.{name}"
    if mirrored.target.format == "parquet":
        paths = [path for path in place.rglob("*.parquet") if "_headwater" not in path.parts]
        return [
            (dict(part.split("=", 1) for part in path.relative_to(place).parts[:-1]), pq.ParquetFile(path).read())
            for path in paths
        ]
    if mirrored.target.format == "delta":
        actions = pa.table(DeltaTable(str(place)).get_add_actions(flatten=True)).to_pylist()
        return [
            ({"region": action["partition.region"]}, pq.ParquetFile(place / action["path"]).read())
            for action in actions
        ]
    with closing(own_catalog(place.parent)) as catalog:
        table = catalog.load_table(("public", name))
        names = [field.name for field in table.spec().fields]
        tasks = list(table.scan().plan_files())
        return [
            (
                dict(zip(names, [task.file.partition[at] for at in range(len(names))], strict=True)),
                pq.ParquetFile(task.file.file_path.removeprefix("file://")).read(),
            )
            for task in tasks
        ]


def require_laid_out(files: list[tuple[dict[str, Any], pa.Table]]) -> None:
    """See that each file has rows of one partition, in their order."""
    assert len({str(partition) for partition, _ in files}) > 1
    for partition, rows in files:
        assert len(set(rows["region"].to_pylist())) == 1, partition
        if "made_day" in partition:
            assert len({None if made is None else made.date() for made in rows["made"].to_pylist()}) == 1
        totals = [(row["total"] is not None, -(row["total"] or 0), row["id"]) for row in rows.to_pylist()]
        assert totals == sorted(totals)


@pytest.mark.parametrize(
    ("format", "mode", "write_mode"),
    [
        ("iceberg", "current", "merge-on-read"),
        *(
            pytest.param(format, mode, write_mode, marks=pytest.mark.slow)
            for format in FIELDS
            for mode, write_mode in (
                ("changelog", "copy-on-write"),
                ("current", "copy-on-write"),
                ("current", "merge-on-read"),
                ("history", "copy-on-write"),
                ("history", "merge-on-read"),
            )
            if (format, mode, write_mode) != ("iceberg", "current", "merge-on-read")
        ),
    ],
)
def test_partitioned_and_sorted(
    engine: Engine, source: Source, tmp_path: Path, format: str, mode: str, write_mode: str
) -> None:
    name = f"orders_{format}_{mode}_{write_mode[:4]}".replace("-", "")
    target = LandingTarget(tmp_path / "lake", format, mode=mode, write_mode=write_mode)
    mirrored = landed(engine, source, tmp_path / "lake", name, target)
    require_laid_out(files_of(mirrored, name))
    rows = read_table(mirrored.target.place / f"public.{name}", format)
    assert set(COLUMNS) <= set(rows.column_names)
