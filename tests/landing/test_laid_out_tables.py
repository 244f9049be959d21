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

from headwater.errors import HeadwaterError, LakeError, UsageError
from headwater.jobs.engine import Engine
from headwater.lakes.iceberg_catalog import own_catalog
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.settings.table_settings import TableSettings
from headwater.landing.landing import land
from headwater.landing.mirrors import deletes_beside
from headwater.landing.resuming import reload
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.requests.request import DecodeRequest
from landing.iceberg_lakes import ICEBERG_3, target_of
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
    # Partitions of many rows: of files that lose all of theirs nothing is deleted beside.
    fields = ("region",) if target.tables else FIELDS[target.format]
    own = TableSettings(f"public.{name}", partition=fields, sort=("total desc", "id"))
    properties = {name: value for entry in target.tables for name, value in entry.properties.items()}
    mirrored.target = replace(target, tables=(replace(own, properties=properties),))
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
        pytest.param(ICEBERG_3, "changelog", "copy-on-write", marks=pytest.mark.slow),
        pytest.param(ICEBERG_3, "current", "merge-on-read", marks=pytest.mark.slow),
        pytest.param(ICEBERG_3, "history", "merge-on-read", marks=pytest.mark.slow),
    ],
)
def test_partitioned_and_sorted(
    engine: Engine,
    source: Source,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
    mode: str,
    write_mode: str,
) -> None:
    monkeypatch.setattr(deletes_beside, "_FEWEST", 0)  # also where much of a table changes
    name = f"orders_{format}_{mode}_{write_mode[:4]}".replace("-", "")
    target = target_of(tmp_path / "lake", format, mode=mode, write_mode=write_mode, rewrite_budget=0)
    mirrored = landed(engine, source, tmp_path / "lake", name, target)
    require_laid_out(files_of(mirrored, name))
    rows = read_table(mirrored.target.place / f"public.{name}", target.format)
    has_vectors = format == ICEBERG_3 and write_mode == "merge-on-read"
    assert has_vectors == any(tmp_path.rglob("*.puffin"))
    assert set(COLUMNS) <= set(rows.column_names)


VALUES = {
    "smallint": ("-7", "8"),
    "int": ("-2147483648", "5"),
    "bigint": ("9223372036854775807", "0"),
    "numeric(9,2)": ("-0.50", "1234567.89"),
    "text": ("'ü 1/2'", "'%3D'"),
    "char(5)": ("'a'", "'b c'"),
    "boolean": ("true", "false"),
    "date": ("'0001-01-01'", "'2026-11-27'"),
    "timestamp": ("'0001-01-01 00:00:00.000001'", "'2026-11-27 12:00'"),
    "timestamptz": ("'2026-11-27 23:59:59.999999+02'", "'9999-12-31 23:59:59Z'"),
    "time": ("'00:00'", "'23:59:59.25'"),
    "uuid": ("'00000000-0000-0000-0000-00000000002a'", "'ffffffff-ffff-4fff-bfff-ffffffffffff'"),
}
"""Types that rows are partitioned by as they are, with values."""


@pytest.mark.slow
@pytest.mark.parametrize("format", ["parquet", "delta", "iceberg"])
def test_partitioned_by_each_type(engine: Engine, source: Source, tmp_path: Path, format: str) -> None:
    # Delta has no times: they are text, as in other columns of it.
    types = [type for type in VALUES if (format, type) != ("delta", "time")]
    names = {f"typed_{format}_{number}": type for number, type in enumerate(types)}
    setup, changes, entries = [], [], []
    for name, type in names.items():
        first, second = VALUES[type]
        setup += [
            f"CREATE TABLE {name} (id int PRIMARY KEY, v {type}, n int)",
            f"INSERT INTO {name} VALUES (1, {first}, 1), (2, {second}, 1), (3, NULL, 1), (4, {second}, 1)",
        ]
        changes += [f"UPDATE {name} SET v = {first} WHERE id > 2", f"UPDATE {name} SET n = 2 WHERE id = 1"]
        entries.append(TableSettings(f"public.{name}", partition=("v",), sort=("v",)))
    backup, held = source.after(setup, changes, list(names))
    mirrored = Mirrored(engine, source, tmp_path / "lake")
    mirrored.target = LandingTarget(tmp_path / "lake", format, mode="current", tables=tuple(entries))
    mirrored.land(backup)
    for name in names:
        assert mirrored.rows(name, held[name][0]) == held[name][1], names[name]


def request_of(mirrored: Mirrored, backup: Path) -> DecodeRequest:
    return DecodeRequest(str(mirrored.source.server.wal_directory), str(backup), "postgres")


@pytest.mark.parametrize(
    ("format", "mode"),
    [
        pytest.param("parquet", "current", marks=pytest.mark.slow),
        pytest.param("delta", "current", marks=pytest.mark.slow),
        pytest.param("iceberg", "current", marks=pytest.mark.slow),
        pytest.param("iceberg", "changelog", marks=pytest.mark.slow),
        pytest.param("iceberg", "history", marks=pytest.mark.slow),
    ],
)
def test_a_reload_takes_another_layout(engine: Engine, source: Source, tmp_path: Path, format: str, mode: str) -> None:
    name = f"reloaded_{format}_{mode}"
    backup, held = source.after(orders(name), work(name), [name])
    mirrored = Mirrored(engine, source, tmp_path / "lake")
    plain = LandingTarget(tmp_path / "lake", format, mode=mode)
    # As the column is called by then; in the lake it is "region" still.
    entry = TableSettings(f"public.{name}", partition=("area",), sort=("total desc", "id"))
    mirrored.target = plain
    mirrored.land(backup)
    mirrored.target = replace(plain, tables=(entry,))
    with pytest.raises(LakeError, match="other settings"):
        mirrored.land(backup)
    reload(engine, request_of(mirrored, backup), mirrored.target, [f"public.{name}"])
    mirrored.land(backup)
    if mode == "current":
        assert mirrored.rows(name, held[name][0]) == held[name][1]
        require_laid_out(files_of(mirrored, name))
    with pytest.raises(LakeError, match="other settings: partition, sort"):
        land(engine, request_of(mirrored, backup), plain)


def test_keys_that_settings_state(engine: Engine, source: Source, tmp_path: Path) -> None:
    """Rows are found by a key that is none of the replica identity's; where the WAL lacks it, nothing lands."""
    setup = [
        "CREATE TABLE keyed (tenant int NOT NULL, id int NOT NULL, note text)",
        "ALTER TABLE keyed REPLICA IDENTITY FULL",
        "CREATE UNIQUE INDEX ON keyed (tenant, id)",
        "INSERT INTO keyed SELECT n % 3, n, 'was' FROM generate_series(1, 20) n",
    ]
    changes = [
        "UPDATE keyed SET note = 'is' WHERE id < 5",
        "UPDATE keyed SET tenant = 9 WHERE id = 6",
        NEXT_WINDOW,
        "DELETE FROM keyed WHERE tenant = 1",
        "ALTER TABLE keyed RENAME tenant TO customer",
        "UPDATE keyed SET id = id + 100 WHERE customer = 2",
    ]
    backup, held = source.after(setup, changes, ["keyed"])
    mirrored = Mirrored(engine, source, tmp_path / "lake")
    entry = TableSettings("public.keyed", key=("tenant", "id"), sort=("note", "id desc"))
    mirrored.target = LandingTarget(tmp_path / "lake", mode="current", tables=(entry,), write_mode="merge-on-read")
    mirrored.land(backup)
    assert mirrored.rows("keyed", held["keyed"][0]) == held["keyed"][1]
    backup, _ = source.after(
        ["CREATE TABLE unkeyed (id int PRIMARY KEY, other int NOT NULL UNIQUE)", "INSERT INTO unkeyed VALUES (1, 1)"],
        ["DELETE FROM unkeyed"],
        [],
    )
    refused = TableSettings("public.unkeyed", key=("other",))
    mirrored.target = LandingTarget(tmp_path / "other", mode="current", tables=(refused,))
    with pytest.raises(LakeError, match=r"the WAL has not \(other\)"):
        mirrored.land(backup)
    assert not list((tmp_path / "other").glob("public.unkeyed/*.parquet"))


def test_layouts_that_are_refused(engine: Engine, source: Source, tmp_path: Path) -> None:
    backup, _ = source.after(
        [
            "CREATE TABLE odd (id int PRIMARY KEY, region text, f float8, tags text[])",
            "INSERT INTO odd VALUES (1, 'eu')",
        ],
        [NEXT_WINDOW, "ALTER TABLE odd DROP region", "INSERT INTO odd VALUES (2)"],
        [],
    )
    mirrored = Mirrored(engine, source, tmp_path / "lake")

    def refusal(format: str, error: type[HeadwaterError] = LakeError, **entry: Any) -> str:
        own = TableSettings("public.odd", **entry)
        mirrored.target = LandingTarget(tmp_path / f"lake{len(list(tmp_path.iterdir()))}", format, tables=(own,))
        with pytest.raises(error) as raised:
            mirrored.land(backup)
        return str(raised.value)

    assert "by columns, not by" in refusal("delta", UsageError, partition=("bucket(4, id)",))
    assert "neither partitioned" in refusal("ducklake", UsageError, sort=("id",))
    assert 'partitioned by "f"' in refusal("parquet", partition=("f",))
    assert 'sorted by "tags' in refusal("parquet", sort=("tags",))
    assert 'no column "nope"' in refusal("parquet", partition=("day(nope)",))
    assert 'column "region" of table public.odd' in refusal("parquet", partition=("region",))
    for wrong in ("day(id", "week(id)", "bucket(id)", "bucket(0, id)", "day(3, id)", "id, region"):
        with pytest.raises(UsageError):
            TableSettings("t", partition=(wrong,))
