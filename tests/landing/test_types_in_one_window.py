"""Columns that get another type in the window that has rows of before: as the server has them in the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import FORMATS, LandingTarget
from headwater.landing.landing_modes import CHANGELOG, CURRENT
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from landing.mirrored_source import NEXT_WINDOW, Mirrored, Source
from landing.mirrors import columns_by_number, read_table

pytestmark = [pytest.mark.server]

REALS = "(1, 1.5), (2, 0.1), (3, '-Infinity'), (4, NULL), (5, 3.4028235e38)"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        yield Source(server, tmp_path_factory.mktemp("types"))


@pytest.mark.parametrize("format", FORMATS)
def test_a_real_becomes_a_double_precision(engine: Engine, source: Source, tmp_path: Path, format: str) -> None:
    """In change tables, too, where rows of before stay: as the server casts them."""
    name = f"reals_{format}"
    backup, held = source.after(
        [f"CREATE TABLE {name} (id int PRIMARY KEY, f real, a real)"],
        [
            f"INSERT INTO {name} VALUES {REALS}",
            f"ALTER TABLE {name} ALTER f TYPE double precision",
            f"UPDATE {name} SET f = 0.1 WHERE id = 1",
        ],
        [name],
    )
    mirrored = Mirrored(engine, source, tmp_path / "lake")
    mirrored.target = LandingTarget(tmp_path / "lake", format, mode=CURRENT)
    mirrored.land(backup)
    assert mirrored.rows(name, held[name][0]) == held[name][1]
    changes = Mirrored(engine, source, tmp_path / "changes")
    changes.target = LandingTarget(tmp_path / "changes", format, mode=CHANGELOG)
    changes.land(backup)
    place = changes.target.place / f"public.{name}"
    names = columns_by_number(place, format)
    rows = read_table(place, format)
    with source.server.connect() as connection:
        cast = connection.execute(f"SELECT id, f::real::float8 FROM (VALUES {REALS}) v (id, f)").fetchall()
    inserted = [(row["id"], row[names[2]]) for row in rows.to_pylist() if row["_change_type"] == "insert"]
    assert sorted(inserted) == sorted(cast)


def test_rows_that_are_written_anew_need_no_conversion(engine: Engine, source: Source, tmp_path: Path) -> None:
    """Of types whose values no text tells: what is rewritten takes the place of the rows that had them."""
    work = [
        "BEGIN; INSERT INTO anew SELECT i, i::text, i, ARRAY[i] FROM generate_series(1, 20) i; "
        "UPDATE anew SET n = n + 1 WHERE id < 5; DELETE FROM anew WHERE id = 7; "
        "ALTER TABLE anew ALTER v TYPE jsonb USING to_jsonb(v), ALTER n TYPE date USING '2024-01-01'::date + n, "
        "ALTER a TYPE text[] USING a::text[]; UPDATE anew SET v = '{}' WHERE id = 2; COMMIT",
        "INSERT INTO anew VALUES (30, '[]', '2025-01-01', '{x}')",
        "ALTER TABLE anew ALTER n TYPE text",
    ]
    mirrored = Mirrored(engine, source, tmp_path / "lake")
    mirrored.require(["CREATE TABLE anew (id int PRIMARY KEY, v text, n int, a int[])"], work, "anew")


def test_a_mirror_in_delta_gives_a_column_another_type_in_place(engine: Engine, source: Source, tmp_path: Path) -> None:
    """All of its files are rewritten for that: no half of the rows is in ``n``, the other one in ``n_2``."""
    setup = [
        "CREATE TABLE in_place (id int PRIMARY KEY, n int, d numeric(5,2), t text)",
        "INSERT INTO in_place SELECT i, i, 1.25, 'x' FROM generate_series(1, 20) i",
    ]
    work = [
        "UPDATE in_place SET n = -1 WHERE id = 3",
        "ALTER TABLE in_place ALTER n TYPE bigint",
        "INSERT INTO in_place VALUES (30, 3000000000, 2.5, 'y')",
        NEXT_WINDOW,
        "ALTER TABLE in_place ALTER d TYPE numeric(12,2), ADD more int",
        "DELETE FROM in_place WHERE id = 4",
        NEXT_WINDOW,
        "ALTER TABLE in_place ALTER id TYPE text, ALTER n TYPE text USING n::text || '!'",
        "UPDATE in_place SET more = 1 WHERE id = '5'",
        "ALTER TABLE in_place ALTER more TYPE text",
    ]
    backup, held = source.after(setup, work, ["in_place"])
    mirrored = Mirrored(engine, source, tmp_path / "lake")
    mirrored.target = LandingTarget(tmp_path / "lake", "delta", mode="current")
    mirrored.land(backup)
    rows = read_table(tmp_path / "lake" / "public.in_place", "delta")
    assert rows.schema.names == ["id", "n", "d", "t", "more"]
    assert [str(field.type) for field in rows.schema] == ["string", "string", "decimal128(12, 2)", "string", "string"]
    assert mirrored.rows("in_place", held["in_place"][0]) == held["in_place"][1]
