"""Every type in every nesting lands as the server has it, in every format and mode: initial rows, changes, merges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import FORMATS, LandingTarget
from headwater.landing.landing import land
from headwater.landing.landing_modes import CHANGELOG, CURRENT, HISTORY
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.request import DecodeRequest
from landing.mirrors import current_files, read_table
from landing.type_matrix import UUID, Matrix, Table, array_of, composite_of, plain

pytestmark = [pytest.mark.server]

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Work:
    """The work that was done, and what tables held at the end and in between.

    Attributes:
        wal, backup: files; middle: LSN in between.
        early, late: tables as they are in between, and in the end.
        then, now: their rows by table.
    """

    wal: Path
    backup: Path
    middle: int
    early: list[Table]
    late: list[Table]
    then: dict[str, Rows]
    now: dict[str, Rows]


PAIR = composite_of([UUID, array_of(UUID)], "uuid_pair")
LATER = [UUID, array_of(UUID), PAIR, array_of(PAIR)]
"""Kinds of columns that are added, with defaults."""

FULL = Table("whole", (UUID, array_of(UUID), PAIR))
SPREAD = Table("spread", (UUID, array_of(UUID), PAIR))


def _setup(matrix: Matrix) -> Iterator[str]:
    yield from matrix.made_by
    yield from PAIR.made_by
    for table in matrix.tables:
        yield table.made_by()
        yield from (table.inserted(number, number) for number in range(6))
    for table in matrix.key_tables:
        yield table.made_by(key=f"{', '.join(table.columns)}, id")
        yield from (table.inserted(number, number % 2) for number in range(4))
    yield FULL.made_by(key="")
    yield "ALTER TABLE whole REPLICA IDENTITY FULL"
    yield f"{SPREAD.made_by(key='k0, id')} PARTITION BY HASH (k0)"
    for at in (0, 1):
        yield f"CREATE TABLE spread_{at} PARTITION OF spread FOR VALUES WITH (MODULUS 2, REMAINDER {at})"
    yield from (table.inserted(number, number % 2) for table in (FULL, SPREAD) for number in range(4))


def _first_work(matrix: Matrix) -> Iterator[str]:
    for table in (*matrix.tables, *matrix.key_tables, FULL, SPREAD):
        yield from (table.inserted(number, number % 2) for number in (10, 11, 12))
        yield table.updated(1, "id = 0")
        yield f"DELETE FROM {table.name} WHERE id = 1"
    for table in matrix.tables:
        yield from (table.inserted(20 + number, number) for number in range(6))


def _second_work(matrix: Matrix) -> Iterator[str]:
    for table in (*matrix.tables, *matrix.key_tables, FULL, SPREAD):
        yield table.updated(0, "id IN (0, 10)")
        yield f"UPDATE {table.name} SET id = id + 100 WHERE id IN (2, 11)"
        yield f"DELETE FROM {table.name} WHERE id = 12"
    later = ", ".join(f"ADD COLUMN l{at} {kind.name} DEFAULT {kind.values[0]}" for at, kind in enumerate(LATER))
    yield f"ALTER TABLE scalars {later}"
    yield f"ALTER TABLE spread {later}"
    yield FULL.inserted(30, 2)
    yield "UPDATE scalars SET l1 = NULL, l3 = '{}' WHERE id = 110"
    yield "ALTER TABLE domains ADD COLUMN anew float8 DEFAULT random()"
    yield "INSERT INTO scalars (id) VALUES (50)"
    yield "TRUNCATE key_domains"
    yield matrix.key_tables[1].inserted(40, 1)


MAJORS = [16, *(pytest.param(major, marks=pytest.mark.slow) for major in (14, 15, 17, 18))]


@pytest.fixture(scope="module", params=MAJORS)
def work(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    matrix, place = Matrix(), tmp_path_factory.mktemp("types")
    early = [*matrix.tables, *matrix.key_tables, FULL, SPREAD]
    late = [replace(table, later=tuple(LATER)) if table.name in ("scalars", "spread") else table for table in early]
    with EmbeddedPostgres(find_programs(request.param), autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            for statement in _setup(matrix):
                connection.execute(statement)
        server.stop()
        backup = server.copy_data_directory(place / "backup")
        server.start()
        with server.connect() as connection:
            connection.autocommit = True
            for statement in _first_work(matrix):
                connection.execute(statement)
            then = {table.name: connection.execute(table.query).fetchall() for table in early}
            ((middle,),) = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()
            for statement in _second_work(matrix):
                connection.execute(statement)
            now = {table.name: connection.execute(table.query).fetchall() for table in late}
        server.stop()
        yield Work(server.wal_directory, backup, int(Lsn.parse(middle)), early, late, then, now)


def _land(engine: Engine, work: Work, target: LandingTarget, **more: Any) -> None:
    request = DecodeRequest(str(work.wal), str(work.backup), "postgres", **more)
    land(engine, request, target)


def _read(place: Path, format: str) -> pa.Table:
    """Read all rows; of Iceberg from the files, as pyiceberg reads a list of structs that is null as an empty one."""
    if format != "iceberg":
        return read_table(place, format)
    files = [pq.read_table(path.removeprefix("file://")) for path in current_files(place, format)]
    return pa.concat_tables(files, promote_options="default")


def _current(rows: pa.Table, table: Table, mode: str) -> Rows:
    """Return the rows of what has landed that are there still."""
    if mode == HISTORY:
        rows = rows.filter(pc.is_null(rows["_valid_to_lsn"]))
    records = rows.to_pylist()
    shown = _folded(records) if mode == CHANGELOG else records
    return sorted((row["id"], *(plain(row[name]) for name in table.shown)) for row in shown)


def _folded(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fold changes up to the last state of each row, by its id; with values that were not written again."""
    rows: dict[int, dict[str, Any]] = {}
    before: dict[str, Any] = {}
    changes.sort(key=lambda row: (row["_commit_lsn"], row["_lsn"], row["_seq"], row["_change_type"] != _PREIMAGE))
    for row in changes:
        if row["_change_type"] == "truncate":
            rows.clear()
        elif row["_change_type"] in (_PREIMAGE, "delete"):
            before = rows.pop(row["id"])
        else:
            old = rows.get(row["id"], before)
            rows[row["id"]] = {**row, **{name: old[name] for name in row["_unchanged"]}}
    return list(rows.values())


_PREIMAGE = "update_preimage"


def _differences(landed: Rows, held: Rows, table: Table) -> list[str]:
    """List what is not as the server has it, in words."""
    if [cells[0] for cells in landed] != [cells[0] for cells in held]:
        return [f"{table.name}: rows {[cells[0] for cells in landed]}, not {[cells[0] for cells in held]}"]
    return [
        f"{table.name}, row {row[0]}, {kind.name}: {value}, not {wanted}"
        for row, other in zip(landed, held, strict=True)
        for kind, value, wanted in zip(table.shown.values(), row[1:], other[1:], strict=True)
        if value != wanted
    ]


EVERY_DAY = {("parquet", CHANGELOG), ("delta", CURRENT), ("iceberg", CURRENT)}
FORMATS_AND_MODES = [
    pytest.param(format, mode, marks=[] if (format, mode) in EVERY_DAY else pytest.mark.slow)
    for format in FORMATS
    for mode in (CURRENT, HISTORY, CHANGELOG)
]


@pytest.mark.parametrize(("format", "mode"), FORMATS_AND_MODES)
def test_values_are_those_of_the_server(engine: Engine, work: Work, tmp_path: Path, format: str, mode: str) -> None:
    target = LandingTarget(tmp_path / "lake", format, mode=mode)
    late = work.early if mode == CHANGELOG else work.late  # a default is no change
    for end, held, tables in ((work.middle, work.then, work.early), (None, work.now, late)):
        _land(engine, work, target, **({} if end is None else {"end": end}))
        for table in tables:
            rows = _current(_read(target.place / f"public.{table.name}", format), table, mode)
            wanted = [row[: 1 + len(table.shown)] for row in held[table.name]]
            assert _differences(rows, wanted, table)[:9] == []
