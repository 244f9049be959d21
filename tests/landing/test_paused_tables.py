"""A table that cannot go on is paused, the others go on; it comes back from where it stood, or from a backup."""

from __future__ import annotations

import io
import json
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bad_input.running_command import running
from headwater.cli.lake import TablesFlags, tables_command
from headwater.cli.land import SOME_ARE_PAUSED
from headwater.errors import LakeError, UsageError
from headwater.jobs.engine import Engine
from headwater.lakes.as_of_view import read_as_of
from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing import land
from headwater.landing.landing_pass import LandingResult
from headwater.landing.paused_tables import PAUSE, STOP
from headwater.landing.resuming import reload, resume
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.plugins.table_patterns import EVERY_TABLE, TablePatterns
from landing.existing_rows import Rows, run
from landing.following import AT_ONCE, scraped, until_said
from landing.killed_landing import DRIVER, NEVER
from landing.mirrors import read_table

pytestmark = [
    pytest.mark.server,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::headwater.errors.HeadwaterWarning"),
]

MIRRORS = ("current", "history")
MODES = ("changelog", *MIRRORS)
GOOD = """
CREATE TABLE good (id int PRIMARY KEY, note text);
INSERT INTO good SELECT i, 'old' FROM generate_series(1, 20) i
"""
GOES_ON = """
INSERT INTO good SELECT i, 'new' FROM generate_series(21, 30) i;
UPDATE good SET note = 'changed' WHERE id % 3 = 0;
DELETE FROM good WHERE id % 7 = 0
"""


@dataclass(frozen=True)
class Kind:
    """A way in which a table cannot go on.

    Attributes:
        setup: before the backup; work: what is too much for the table.
        reason: in words of the error.
        modes: in which it is.
    """

    setup: str
    work: str
    reason: str
    modes: tuple[str, ...] = MODES


DATED = (
    "CREATE TABLE {0} (id int PRIMARY KEY, at timestamptz);\n"
    "INSERT INTO {0} SELECT i, '2024-01-01' FROM generate_series(1, 5) i"
)
KINDS = {
    "value": Kind(
        DATED.format("value"),
        "UPDATE value SET at = '2025-01-01' WHERE id = 2;\nINSERT INTO value VALUES (6, 'infinity')",
        "infinity, which",
    ),
    "early": Kind(
        "CREATE TABLE early (id int PRIMARY KEY, at timestamptz);\nINSERT INTO early VALUES (1, '-infinity')",
        "INSERT INTO early VALUES (2, '2024-01-01')",
        "infinity, which",
    ),
    "odd/name": Kind(
        "", 'CREATE TABLE "odd/name" (id int PRIMARY KEY);\nINSERT INTO "odd/name" VALUES (1)', "no name of a directory"
    ),
    "untold": Kind(
        "CREATE TABLE untold (id int);\nINSERT INTO untold VALUES (1)",
        "UPDATE untold SET id = 2",
        "no replica identity",
        MIRRORS,
    ),
    "labelled": Kind(
        "CREATE TYPE mood AS ENUM ('glad', 'sad');\nCREATE TABLE labelled (id int PRIMARY KEY, of mood);\n"
        "INSERT INTO labelled VALUES (1, 'glad')",
        "ALTER TYPE mood RENAME VALUE 'glad' TO 'happy'",
        "has not written its rows anew",
        MIRRORS,
    ),
    "lost": Kind(
        "CREATE TABLE lost (id int PRIMARY KEY) PARTITION BY RANGE (id);\n"
        "CREATE TABLE lost_1 PARTITION OF lost FOR VALUES FROM (0) TO (9);\nINSERT INTO lost VALUES (1)",
        "CREATE UNLOGGED TABLE lost_2 PARTITION OF lost FOR VALUES FROM (9) TO (99);\n"
        "INSERT INTO lost VALUES (2), (10)",
        "its rows are not in the WAL",
        MIRRORS,
    ),
    "unlogged": Kind(
        "CREATE TABLE unlogged (id int PRIMARY KEY);\nINSERT INTO unlogged VALUES (1)",
        "ALTER TABLE unlogged SET UNLOGGED",
        "was set unlogged",
        MIRRORS,
    ),
    # Rows of a table that is paused come to it.
    "takes": Kind(
        "CREATE TABLE takes (id int PRIMARY KEY, at timestamptz) PARTITION BY RANGE (id);\n"
        "CREATE TABLE takes_1 PARTITION OF takes FOR VALUES FROM (100) TO (200);\n"
        f"INSERT INTO takes VALUES (100, '2024-01-01');\n{DATED.format('gives')}",
        "INSERT INTO gives VALUES (7, 'infinity');\n"
        "ALTER TABLE takes ATTACH PARTITION gives FOR VALUES FROM (0) TO (100);\n"
        "UPDATE takes SET at = '2025-01-01' WHERE id = 3",
        "before it was attached",
        MIRRORS,
    ),
    "gives": Kind("", "", "infinity, which", MIRRORS),
}


class Source:
    """A server that tests do their work on, one after the other."""

    def __init__(self, server: EmbeddedPostgres, place: Path) -> None:
        self.server, self.place, self.runs = server, place, 0

    @property
    def wal(self) -> Path:
        return self.server.wal_directory

    def run(self, *statements: str) -> None:
        with self.server.connect() as connection:
            connection.autocommit = True
            for text in statements:
                run(connection, text)
            connection.execute("CHECKPOINT")

    def back_up(self) -> Path:
        self.server.stop()
        self.runs += 1
        copy = self.server.copy_data_directory(self.place / str(self.runs))
        self.server.start()
        return copy

    def rows(self, table: str) -> Rows:
        with self.server.connect() as connection:
            return sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=repr)

    def finite_rows(self, table: str) -> Rows:
        """Read rows of a number and a time, which may be infinite: None then."""
        with self.server.connect() as connection:
            asked = f"SELECT id, CASE WHEN isfinite(at) THEN at END FROM {table}"
            return sorted(connection.execute(asked).fetchall(), key=repr)

    def columns(self, table: str) -> list[str]:
        with self.server.connect() as connection:
            return [column.name for column in connection.execute(f"SELECT * FROM {table} LIMIT 0").description or []]


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        yield Source(server, tmp_path)


def folded(rows: list[dict[str, Any]], key: list[str], columns: list[str]) -> Rows:
    """Fold a table of changes up."""
    held: dict[Any, tuple[Any, ...]] = {}
    places = [(row["_commit_lsn"], row["_lsn"], row["_seq"], row["_change_type"] != "update_preimage") for row in rows]
    for _, row in sorted(zip(places, rows, strict=True), key=lambda pair: pair[0]):
        kind, place = row["_change_type"], tuple(row[name] for name in key)
        if kind in ("truncate", "replace"):
            held.clear()
        elif kind in ("delete", "update_preimage"):
            del held[place]
        else:
            assert (place in held) == (kind == "update_postimage"), (kind, place)
            held[place] = tuple(row[name] for name in columns)
    return sorted(held.values(), key=repr)


def landed_rows(target: LandingTarget, name: str, key: list[str], columns: list[str]) -> Rows:
    """Read what a table in the lake says that the source has."""
    table = read_table(target.place / f"public.{name}", target.format)
    if target.mode == "history":
        table = table.filter(table["_valid_to_lsn"].is_null())
    rows = table.to_pylist()
    if target.mode == "changelog":
        return folded(rows, key, columns)
    return sorted((tuple(row[column] for column in columns) for row in rows), key=repr)


@dataclass
class Landing:
    """A target, and how it is landed in."""

    engine: Engine
    source: Source
    target: LandingTarget
    backup: Path

    def land(self, on_table_error: str = PAUSE, tables: TablePatterns = EVERY_TABLE, **target: Any) -> LandingResult:
        asks = DecodeRequest(str(self.source.wal), str(self.backup), "postgres", tables=tables)
        adjusted = replace(self.target, **target)
        return land(self.engine, asks, adjusted, bounds=WindowBounds(1 << 20), on_table_error=on_table_error)

    def resume(self, *names: str, catalog: Path | str = "", **target: Any) -> LandingResult:
        asks = DecodeRequest(str(self.source.wal), str(catalog))
        return resume(self.engine, asks, replace(self.target, **target), names)

    def reload(self, backup: Path, *names: str, **target: Any) -> LandingResult:
        asks = DecodeRequest(str(self.source.wal), str(backup))
        return reload(self.engine, asks, replace(self.target, **target), names)

    def require(self, table: str, key: list[str]) -> None:
        """See that a table is what the server says."""
        columns = self.source.columns(table)
        assert landed_rows(self.target, table, key, columns) == self.source.rows(table)


@pytest.mark.parametrize(
    ("mode", "form"),
    [
        ("changelog", "parquet"),
        ("current", "delta"),
        *(pytest.param(mode, "parquet", marks=pytest.mark.slow) for mode in MIRRORS),
        pytest.param("current", "iceberg", marks=pytest.mark.slow),
    ],
)
def test_what_one_table_cannot_take_in_does_not_stop_the_others(
    engine: Engine, source: Source, tmp_path: Path, mode: str, form: str
) -> None:
    """Each kind."""
    kinds = {name: kind for name, kind in KINDS.items() if mode in kind.modes}
    source.run(GOOD, *(kind.setup for kind in kinds.values()))
    landing = Landing(engine, source, LandingTarget(tmp_path / "lake", form, mode=mode), source.back_up())
    source.run(GOES_ON, *(kind.work for kind in kinds.values()))
    paused = {behind.name: behind for behind in landing.land().paused}
    assert paused.keys() == {f"public.{name}" for name in kinds}
    for name, kind in kinds.items():
        assert kind.reason in paused[f"public.{name}"].reason
    landing.require("good", ["id"])
    source.run(GOES_ON.replace("2", "9"))
    assert {behind.name for behind in landing.land().paused} == paused.keys()
    landing.require("good", ["id"])


def paused_of(target: LandingTarget) -> dict[str, Any]:
    """Read what the command says of tables that are behind."""
    out = io.StringIO()
    with redirect_stdout(out):
        tables_command.run(TablesFlags(target.place, None, as_json=True))
    return {table["table"]: table for table in json.loads(out.getvalue())["tables"] if table["state"] != "landing"}


BEGINS = f"{GOOD};\n{DATED.format('value')};\n{KINDS['takes'].setup}"
"""Tables of which some will be paused: one for a value, one that gives its rows to a third, and that."""


@pytest.mark.parametrize(
    "mode", ["history", *(pytest.param(slower, marks=pytest.mark.slow) for slower in ("changelog", "current"))]
)
def test_tables_come_back_from_where_they_stand(engine: Engine, source: Source, tmp_path: Path, mode: str) -> None:
    """Tables that depend on each other come back together; rows that they give each other go at their commit."""
    source.run(BEGINS)
    target = LandingTarget(tmp_path / "lake", mode=mode)
    landing = Landing(engine, source, target, source.back_up())
    source.run("UPDATE value SET at = '2023-01-01' WHERE id = 1")
    assert not landing.land().paused
    stands = read_as_of(target.place).lsn
    source.run(GOES_ON, KINDS["value"].work, KINDS["takes"].work)
    names = {"public.value", "public.gives"} | ({"public.takes"} if mode != "changelog" else set())
    assert {behind.name for behind in landing.land().paused} == names
    source.run("INSERT INTO value VALUES (8, '2028-01-01')", GOES_ON.replace("2", "9"))
    assert {behind.name for behind in landing.land().paused} == names
    landing.require("good", ["id"])
    resolved = read_as_of(target.place)
    assert set(resolved.paused) == names
    assert all(stands <= lsn < resolved.lsn for lsn in resolved.paused.values())
    report = paused_of(target)["public.value"]
    assert (report["state"], "infinity" in report["reason"], report["oid"] > 0) == ("paused", True, True)
    assert {behind.name for behind in landing.resume("public.value").paused} == {"public.value"}
    assert not landing.resume(on_unrepresentable="null").paused
    assert read_as_of(target.place).paused == {}
    assert paused_of(target) == {}
    source.run("DELETE FROM value WHERE id = 3")
    assert not landing.land(on_unrepresentable="null").paused
    for table in ("value", *(("takes",) if mode != "changelog" else ())):
        rows = landed_rows(target, table, ["id"], ["id", "at"])
        assert rows == source.finite_rows(table)


@pytest.mark.parametrize(
    ("mode", "form"),
    [
        ("changelog", "parquet"),
        pytest.param("current", "delta", marks=pytest.mark.slow),
        ("history", "iceberg"),
        ("history", "ducklake"),
    ],
)
def test_tables_come_back_with_the_rows_of_a_backup(
    engine: Engine, source: Source, tmp_path: Path, mode: str, form: str
) -> None:
    source.run(BEGINS)
    target = LandingTarget(tmp_path / "lake", form, mode=mode)
    landing = Landing(engine, source, target, source.back_up())
    source.run(GOES_ON, KINDS["value"].work, KINDS["takes"].work)
    landing.land()
    before = read_table(target.place / "public.value", form)
    source.run("DELETE FROM value WHERE id IN (1, 6)", "UPDATE takes SET at = '2026-01-01'", GOES_ON.replace("2", "9"))
    newer = source.back_up()
    source.run("INSERT INTO value VALUES (9, '2029-01-01')")
    with pytest.raises(LakeError, match=r'no table "public\.good" is paused'):
        landing.resume("public.good")
    landing.land()
    landing.reload(newer, "public.value", *(["public.takes"] if mode != "changelog" else []))
    source.run("UPDATE value SET at = '2030-01-01' WHERE id = 9;\nDELETE FROM takes WHERE id = 100")
    assert {behind.name for behind in landing.land().paused} == {"public.gives"}  # which is a partition by now
    for table in ("good", "value", *(() if mode == "changelog" else ("takes",))):
        landing.require(table, ["id"])
    if mode == "history":
        after = read_table(target.place / "public.value", form)
        ended = after.filter(after["_valid_to_lsn"].is_valid())
        assert len(ended) >= len(before) > 0


def test_excluded_tables_stop_where_they_are_and_come_back(engine: Engine, source: Source, tmp_path: Path) -> None:
    source.run(BEGINS, "CREATE TABLE never (id int PRIMARY KEY);\nINSERT INTO never VALUES (1)")
    target = LandingTarget(tmp_path / "lake", mode="current")
    landing = Landing(engine, source, target, source.back_up())
    without = TablePatterns.parse([], ["public.never, public.gives"])
    assert not landing.land(STOP, tables=without).paused
    assert set(read_as_of(target.place).tables) == {"public.good", "public.value", "public.takes"}
    source.run("INSERT INTO gives VALUES (50, NULL)", GOES_ON)
    less = TablePatterns.parse([], ["public.never, public.gives, public.value"])
    source.run("DELETE FROM value WHERE id = 1")
    assert not landing.land(STOP, tables=less).paused
    assert paused_of(target)["public.value"]["state"] == "excluded"
    source.run("DELETE FROM value WHERE id = 2")
    with pytest.raises(LakeError, match=r"partition .*takes_1.* has landed"):
        landing.land(STOP, tables=replace(less, excluded=(*less.excluded, "public.takes_1")))
    with pytest.raises(UsageError, match="is excluded"):
        landing.resume("public.value")
    assert not landing.resume().paused
    assert [behind.name for behind in landing.land(STOP, tables=without).paused] == ["public.value"]
    assert not landing.resume().paused
    source.run("DELETE FROM value WHERE id = 3")
    assert not landing.land(STOP, tables=without).paused
    for table in ("good", "value", "takes"):
        landing.require(table, ["id"])


@pytest.mark.parametrize("mode", ["current", pytest.param("history", marks=pytest.mark.slow)])
def test_a_table_that_takes_the_place_of_a_paused_one_is_paused(
    engine: Engine, source: Source, tmp_path: Path, mode: str
) -> None:
    source.run(BEGINS)
    target = LandingTarget(tmp_path / "lake", mode=mode)
    landing = Landing(engine, source, target, source.back_up())
    landing.land()
    source.run(KINDS["value"].work)
    landing.land()
    source.run("DROP TABLE value", DATED.format("value"), "DELETE FROM value WHERE id = 4", GOES_ON)
    assert [behind.name for behind in landing.land().paused] == ["public.value", "public.value"]
    landing.require("good", ["id"])
    assert not landing.resume("public.value", on_unrepresentable="null").paused
    source.run("DELETE FROM value WHERE id = 5")
    assert not landing.land().paused
    landing.require("value", ["id"])


def test_a_log_that_is_followed_is_landed_without_a_table(source: Source, tmp_path: Path) -> None:
    """Told by lines of JSON, metrics, the exit status; and it comes back by a command."""
    pytest.importorskip("prometheus_client")
    source.run(BEGINS)
    target, backup = LandingTarget(tmp_path / "lake", mode="current"), source.back_up()
    flags = ["--catalog", str(backup), "--database", "postgres", "--to", str(target.place), "--mode", "current"]
    where = ["--wal", str(source.wal)]
    with running(
        *("land", *where, *flags, "--follow", *AT_ONCE, "--progress", "json", "--metrics", "127.0.0.1:0"),
        directory=tmp_path,
    ) as process:
        address = until_said(process, "headwater: metrics: ").removeprefix("headwater: metrics: ")
        process.until(lambda: scraped(address)["headwater_land_windows_total"] > 0)
        source.run(KINDS["value"].work)
        process.until(lambda: scraped(address)["headwater_land_tables_paused"] == 1)
        source.run("INSERT INTO good VALUES (1000, 'later')")
        process.until(lambda: 1000 in read_table(target.place / "public.good", "parquet")["id"].to_pylist())
        assert scraped(address)['headwater_land_table_paused{table="public.value"}'] == 1
        process.process.send_signal(signal.SIGTERM)
        output = process.standard_error()
        assert process.process.wait() == SOME_ARE_PAUSED, output
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    (event,) = [entry for entry in events if entry["event"] == "paused"]
    assert [table["table"] for table in event["tables"]] == ["public.value"]
    assert output.splitlines()[-1].endswith("; paused: public.value")
    assert "headwater: warning: table public.value is paused, the others go on: " in output
    assert command(tmp_path, "lake", "resume", str(target.place), *where) == SOME_ARE_PAUSED
    bad_usage = command(tmp_path, "lake", "reload", str(target.place), *where, "public.value")
    assert bad_usage == 2  # without a backup
    resumed = command(tmp_path, "lake", "resume", str(target.place), *where, "--on-unrepresentable", "null")
    assert resumed == 0
    assert paused_of(target) == {}
    assert landed_rows(target, "value", ["id"], ["id", "at"]) == source.finite_rows("value")


def command(directory: Path, *arguments: str) -> int:
    """Run a command; return its exit status."""
    with running(*arguments, directory=directory) as process:
        process.standard_error()
        return process.process.wait()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", MODES)
def test_killed_while_tables_are_paused_and_brought_back(source: Source, tmp_path: Path, mode: str) -> None:
    source.run(BEGINS)
    target, backup = LandingTarget(tmp_path / "lake", mode=mode), source.back_up()
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng, where = random.Random(seed), ["--wal", str(source.wal)]
    land = [
        "land",
        *where,
        "--catalog",
        str(backup),
        "--to",
        str(target.place),
        "--mode",
        mode,
        "--database",
        "postgres",
    ]

    def repeatedly(*arguments: str) -> int:
        """Run a command, killed at some steps before; return its exit status in the end."""
        for step in (rng.randint(1, 12), rng.randint(1, 30), NEVER):
            with running(
                *(str(DRIVER), str(target.place), str(step), *arguments), directory=tmp_path, program=sys.executable
            ) as process:
                output = process.standard_error()
                status = process.process.wait()
            assert status in (0, SOME_ARE_PAUSED, -signal.SIGKILL), output
        return status

    assert command(tmp_path, *land) == 0
    source.run(GOES_ON, KINDS["value"].work)
    assert repeatedly(*land, "--on-table-error", "pause") == SOME_ARE_PAUSED
    assert landed_rows(target, "good", ["id"], ["id", "note"]) == source.rows("good")
    source.run("UPDATE value SET at = '2031-01-01' WHERE id = 3")
    assert repeatedly(*land) == SOME_ARE_PAUSED
    assert repeatedly("lake", "resume", str(target.place), *where, "--on-unrepresentable", "null") == 0
    assert landed_rows(target, "value", ["id"], ["id", "at"]) == source.finite_rows("value")
    source.run("DELETE FROM value WHERE id = 6")
    newer = source.back_up()
    assert command(tmp_path, *land) == 0
    assert repeatedly("lake", "reload", str(target.place), "public.value", *where, "--catalog", str(newer)) == 0
    assert landed_rows(target, "value", ["id"], ["id", "at"]) == source.finite_rows("value")
    source.run("INSERT INTO value VALUES (10, '2032-01-01')")
    assert command(tmp_path, *land) == 0
    assert landed_rows(target, "value", ["id"], ["id", "at"]) == source.finite_rows("value")
