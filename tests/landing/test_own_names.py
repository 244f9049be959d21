"""Columns of the source that are called as the lake's own: renamed where one is in the way of the other, only there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.cli.lake import TablesFlags, tables_command
from headwater.errors import HeadwaterWarning
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import FORMATS, LandingTarget
from headwater.landing.landing_modes import CHANGELOG, CURRENT, HISTORY
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from landing.mirrored_source import NEXT_WINDOW, Mirrored, Source
from landing.mirrors import columns_by_number

pytestmark = [pytest.mark.server]

NAMES = (
    *("id", "_xid", "_lsn", "_commit_lsn", "_seq", "_change_type", "_commit_time", "_unchanged", "_relation", "_heap"),
    *("_valid_from", "_VALID_TO", "_valid_to_lsn", "_partition_oid", "big"),
)
OF_MODE = {
    CURRENT: set(),
    HISTORY: {"_valid_from", "_VALID_TO", "_valid_to_lsn"},
    CHANGELOG: {"_xid", "_lsn", "_commit_lsn", "_seq", "_change_type", "_commit_time", "_unchanged"},
}
"""Which of these names the lake has itself."""


def _table(name: str, more: str = "") -> str:
    columns = ", ".join(f'"{column}" {"text" if column == "big" else "int"}' for column in NAMES)
    return f'CREATE TABLE {name} ({columns}, PRIMARY KEY (id, "_lsn", "_commit_lsn", "_partition_oid")){more}'


def _row(name: str, id: int) -> str:
    numbers = ", ".join(str(100 * id + at) for at in range(1, len(NAMES) - 1))
    text = f"(SELECT string_agg(md5(i::text), '') FROM generate_series({id}, {id + 200}) i)"
    return f"INSERT INTO {name} VALUES ({id}, {numbers}, {text})"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        yield Source(server, tmp_path_factory.mktemp("names"))


@pytest.mark.parametrize("format", FORMATS)
def test_columns_of_a_mirror_have_their_names(
    engine: Engine, source: Source, tmp_path: Path, format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a mirror's own columns are called in other modes, or in files of changes."""
    name = f"plain_{format}"
    setup = [_table(name), *(_row(name, id) for id in range(5))]
    work = [
        f'UPDATE {name} SET "_xid" = 7, "_valid_to_lsn" = 8 WHERE id = 1',
        f'UPDATE {name} SET "_lsn" = 9 WHERE id = 2',
        NEXT_WINDOW,
        f"DELETE FROM {name} WHERE id = 3",
        _row(name, 6),
        f'UPDATE {name} SET "_partition_oid" = 9, "_heap" = NULL, "_change_type" = 5 WHERE id = 4',
    ]
    mirrored = Mirrored(engine, source, tmp_path / "lake")
    mirrored.target = LandingTarget(tmp_path / "lake", format, mode=CURRENT)
    mirrored.require(setup, work, name)
    assert list(columns_by_number(mirrored.target.place / f"public.{name}", format).values()) == list(NAMES)
    tables_command.run(TablesFlags(mirrored.target.place, None, as_json=True))
    assert all(table["renamed"] == {} for table in json.loads(capsys.readouterr().out)["tables"])


@pytest.mark.parametrize("mode", [HISTORY, CHANGELOG])
def test_those_in_the_way_are_renamed_and_told(
    engine: Engine, source: Source, tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"clashing_{mode}"
    backup, held = source.after([_table(name), _row(name, 1)], [_row(name, 2)], [name])
    mirrored = Mirrored(engine, source, tmp_path / "lake", mode)
    with pytest.warns(HeadwaterWarning, match="is called as one of the lake's own") as warned:
        mirrored.land(backup)
    texts = {
        str(warning.message)
        for warning in warned
        if f"table public.{name}: the source's column" in str(warning.message)
    }
    assert len(texts) == len(OF_MODE[mode])
    names = columns_by_number(mirrored.target.place / f"public.{name}", "parquet")
    assert [names[number] for number in held[name][0]] == [
        f"{column}_2" if column in OF_MODE[mode] else column for column in NAMES
    ]
    assert mirrored.rows(name, held[name][0]) == held[name][1]
    tables_command.run(TablesFlags(mirrored.target.place, None, as_json=True))
    tables = {table["table"]: table["renamed"] for table in json.loads(capsys.readouterr().out)["tables"]}
    assert tables[f"public.{name}"] == {f"{column}_2": column for column in OF_MODE[mode]}
    tables_command.run(TablesFlags(mirrored.target.place, None, as_json=False))
    printed = capsys.readouterr().out
    assert all(f"public.{name}: the source's column {column} is {column}_2\n" in printed for column in OF_MODE[mode])


def test_a_partitioned_table_has_a_column_of_partitions(engine: Engine, source: Source, tmp_path: Path) -> None:
    setup = [_table("parted", ' PARTITION BY LIST ("_lsn")'), "CREATE TABLE parted_0 PARTITION OF parted DEFAULT"]
    mirrored = Mirrored(engine, source, tmp_path / "lake")
    work = [_row("parted", 2), "DELETE FROM parted WHERE id = 1"]
    with pytest.warns(HeadwaterWarning, match='lands as "_partition_oid_2"'):
        mirrored.require([*setup, _row("parted", 1)], work, "parted")
    names = columns_by_number(mirrored.target.place / "public.parted", "parquet").values()
    assert list(names) == [f"{column}_2" if column == "_partition_oid" else column for column in NAMES]
