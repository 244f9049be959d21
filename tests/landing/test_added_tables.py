"""Tables that are asked for later: their rows as of where the others have come to, and their changes from there on."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bad_input.running_command import running
from headwater.errors import DecodingError, HeadwaterWarning, LakeError, SegmentError, WalError
from headwater.jobs.engine import Engine
from headwater.lakes.as_of_view import read_as_of
from headwater.lakes.landing_target import FORMATS, LandingTarget
from headwater.lakes.target_directory import Lake
from headwater.landing.landing import land
from headwater.landing.landing_pass import LandingResult
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.plugins.table_patterns import TablePatterns
from landing.existing_rows import Rows, folded, run, selected, server_of
from landing.following import Source, end, following
from landing.killed_landing import DRIVER, MOST_STEPS, NEVER
from landing.mirrors import read_table
from landing.online_backups import back_up

pytestmark = [pytest.mark.server]

FEW, MORE = "public.first", "public.first,public.second,public.wide,public.part*,public.made*"
KEYS = {
    "first": ["id"],
    "second": ["id"],
    "wide": ["id"],
    "part": ["id", "region"],
    "made": ["id"],
    "made_later": ["id"],
}
SETUP = """
CREATE TABLE first (id int PRIMARY KEY, note text);
INSERT INTO first SELECT i, 'n' || i FROM generate_series(1, 500) i;
CREATE TABLE second (id int PRIMARY KEY, note text, n int);
INSERT INTO second SELECT i, repeat('s', i % 60), 0 FROM generate_series(1, 1000) i;
CREATE TABLE wide (id int PRIMARY KEY, body text, n int);
ALTER TABLE wide ALTER body SET STORAGE EXTERNAL;
INSERT INTO wide SELECT i, repeat(md5(i::text), 200), 0 FROM generate_series(1, 40) i;
CREATE TABLE part (id int, region int, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE part_0 PARTITION OF part FOR VALUES IN (0);
CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
INSERT INTO part SELECT i, i % 2, 'p' || i FROM generate_series(1, 200) i;
CREATE TABLE other (id int PRIMARY KEY);
INSERT INTO other SELECT generate_series(1, 100)
"""
EARLY = """
UPDATE second SET n = 7 WHERE id < 50;
ALTER TABLE second ADD COLUMN filled text DEFAULT 'filled';
INSERT INTO second VALUES (1500, 'early', 1, 'own');
UPDATE first SET note = 'early' WHERE id < 100
"""
BETWEEN = """
UPDATE second SET n = n + 1 WHERE id % 3 = 0;
DELETE FROM second WHERE id % 7 = 0;
UPDATE wide SET n = n + 1 WHERE id % 2 = 0;
UPDATE wide SET body = repeat(md5(body), 210) WHERE id % 5 = 0;
UPDATE part SET region = 1 - region WHERE id % 9 = 0;
ALTER TABLE second ADD COLUMN more text;
UPDATE second SET more = 'm' WHERE id % 13 = 0;
UPDATE first SET note = 'between' WHERE id % 4 = 0;
INSERT INTO other SELECT generate_series(101, 200)
"""
BEHIND = """
UPDATE second SET n = n + 1 WHERE id % 5 = 0;
INSERT INTO second SELECT i, 'new', i FROM generate_series(2000, 2100) i;
DELETE FROM second WHERE id BETWEEN 2010 AND 2020;
UPDATE wide SET n = -n;
UPDATE wide SET id = id + 100 WHERE id < 10;
UPDATE part SET region = 1 - region WHERE id % 4 = 0;
DELETE FROM part WHERE id % 11 = 0;
INSERT INTO made SELECT i, 'again' FROM generate_series(1000, 1010) i;
DELETE FROM made WHERE id = 5;
CREATE TABLE made_later (id int PRIMARY KEY, v text);
INSERT INTO made_later VALUES (1, 'x'), (2, 'y');
UPDATE made_later SET v = 'z' WHERE id = 2;
UPDATE first SET note = 'behind' WHERE id % 6 = 0
"""


def asked(tables: str) -> TablePatterns:
    return TablePatterns.parse([tables])


def landed(
    engine: Engine, wal: Path, backup: Path, target: LandingTarget, tables: str, **request: Any
) -> LandingResult:
    asks = DecodeRequest(str(wal), str(backup), "postgres", tables=asked(tables), **request)
    return land(engine, asks, target, bounds=WindowBounds(1 << 20))


def rows_of(target: LandingTarget, name: str, columns: list[str]) -> Rows:
    """Read what a table in the lake says that the source has."""
    table: pa.Table = read_table(target.place / f"public.{name}", target.format)
    if target.mode == "changelog":
        return folded(table, KEYS[name], columns)
    if target.mode == "history":
        table = table.filter(table["_valid_to_lsn"].is_null())
    return sorted((tuple(row[column] for column in columns) for row in table.to_pylist()), key=repr)


@dataclass(frozen=True)
class Log:
    """A stopped server's files, with two backups: one of before all of its work, and one of amidst.

    Attributes:
        early, online: backups.
        few: WAL as far as it had come before the second one.
        wal: all of it.
        rows: of tables in the end; columns: theirs.
    """

    early: Path
    online: Path
    few: Path
    wal: Path
    rows: dict[str, Rows]
    columns: dict[str, list[str]]

    def check(self, target: LandingTarget) -> None:
        """Check that a target has all of the tables."""
        for name, rows in self.rows.items():
            assert rows_of(target, name, self.columns[name]) == sorted(rows, key=repr), name
        assert not (target.place / "public.other").exists()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    place = tmp_path_factory.mktemp("added")
    with server_of(16) as server:
        with server.connect() as connection:
            run(connection, SETUP)
        server.stop()
        early = server.copy_data_directory(place / "early")
        server.start()
        with server.connect() as connection:
            run(connection, EARLY)
        server.stop()
        shutil.copytree(server.wal_directory, place / "few", ignore=shutil.ignore_patterns("archive_status"))
        server.start()
        online = _worked_amidst(server, place / "online")
        with server.connect() as connection:
            run(connection, BEHIND)
            rows = selected(connection, KEYS)
            columns = {name: _columns(connection, name) for name in KEYS}
        server.stop()
        yield Log(early, online, place / "few", server.wal_directory, rows, columns)


def _worked_amidst(server: EmbeddedPostgres, place: Path) -> Path:
    """Take a backup, with transactions that are open when it begins and end when it has ended, or never."""
    with server.connect() as before, server.connect() as never, server.connect() as connection:
        run(before, "BEGIN;\nUPDATE second SET n = 100 WHERE id BETWEEN 400 AND 420;\nUPDATE first SET note = 'open'")
        run(never, "BEGIN;\nDELETE FROM second WHERE id BETWEEN 500 AND 600")
        run(connection, "CREATE TABLE made (id int PRIMARY KEY, v text);\nBEGIN")
        run(connection, "INSERT INTO made SELECT i, 'm' FROM generate_series(1, 300) i")
        backup = back_up(server, place)
        run(connection, "INSERT INTO made SELECT i, 'm' FROM generate_series(301, 320) i;\nCOMMIT")
        run(before, "UPDATE wide SET n = 100 WHERE id = 7;\nCOMMIT")
        run(never, "ROLLBACK")
        run(connection, BETWEEN)
    return backup


def _columns(connection: Any, name: str) -> list[str]:
    return [column.name for column in connection.execute(f"SELECT * FROM {name} LIMIT 0").description or []]


OTHERS = [
    (form, mode, copy)
    for form in FORMATS
    for mode in ("changelog", "current", "history")
    for copy in ("online", "early")
]
DAILY = [("parquet", "changelog", "online"), ("delta", "current", "early")]


@pytest.mark.parametrize(
    ("form", "mode", "copy"),
    [*DAILY, *(pytest.param(*case, marks=pytest.mark.slow) for case in OTHERS if case not in DAILY)],
)
def test_tables_are_added(engine: Engine, log: Log, tmp_path: Path, form: str, mode: str, copy: str) -> None:
    """From a backup of behind where the target has come to, and from the very first one."""
    target = LandingTarget(tmp_path / "lake", form, mode=mode)
    first = landed(engine, log.few, log.early, target, FEW)
    assert set(first.rows) == {"public.first"}
    result = landed(engine, log.wal, getattr(log, copy), target, MORE)
    assert set(result.rows) == {f"public.{name}" for name in KEYS}
    log.check(target)
    assert set(read_as_of(target.place).tables) == {f"public.{name}" for name in KEYS}
    assert landed(engine, log.wal, log.early, target, MORE).rows == {}


def test_changes_of_before_are_not_among_those_of_added_tables(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake")
    landed(engine, log.few, log.early, target, FEW)
    landed(engine, log.wal, log.online, target, MORE)
    for name in ("second", "wide", "part"):
        changes = read_table(target.place / f"public.{name}", "parquet").to_pylist()
        read = {row["_commit_lsn"] for row in changes if row["_change_type"] == "read"}
        assert len(read) == 1
        assert min(row["_commit_lsn"] for row in changes if row["_change_type"] != "read") > min(read)
    made_later = read_table(target.place / "public.made_later", "parquet")
    assert "read" not in made_later["_change_type"].to_pylist()
    assert "read" in read_table(target.place / "public.first", "parquet")["_change_type"].to_pylist()


def test_added_tables_wait_for_the_end_of_the_backup(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake")
    landed(engine, log.few, log.early, target, FEW)
    with pytest.warns(HeadwaterWarning, match="tables that are added wait until the backup was complete"):
        assert landed(engine, log.few, log.online, target, MORE).rows == {}
    landed(engine, log.wal, log.online, target, MORE)
    log.check(target)


def test_what_is_no_choice(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake")
    landed(engine, log.few, log.early, target, "public.first,public.part_0")
    with pytest.raises(LakeError, match=r"table public\.first lands, and would not any more"):
        landed(engine, log.wal, log.early, target, "public.part_0,public.second")
    with pytest.raises(LakeError, match=r"only some partitions of table public\.part have landed"):
        landed(engine, log.wal, log.early, target, "public.first,public.part")
    (tmp_path / "wal").mkdir()
    for path in sorted(log.wal.glob("0000*"))[-2:]:
        shutil.copy(path, tmp_path / "wal")
    with pytest.raises(SegmentError):
        landed(engine, tmp_path / "wal", log.early, target, "public.first,public.part_0,public.second")
    assert landed(engine, log.wal, log.early, target, "public.first,public.part_0").rows.keys() == {
        *("public.first", "public.part")
    }


def test_without_rows_of_before(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake", snapshot="never")
    landed(engine, log.few, log.early, target, FEW)
    landed(engine, log.wal, log.early, target, "public.first,public.second")
    changes = read_table(target.place / "public.second", "parquet")["_change_type"].to_pylist()
    assert "read" not in changes
    assert changes.count("insert") == 101


def test_a_run_that_ended_while_tables_were_added(engine: Engine, tmp_path: Path) -> None:
    with server_of(16) as server:
        with server.connect() as connection:
            run(
                connection,
                "CREATE TABLE a (id int);\nCREATE TABLE b (id int);\nCREATE TABLE c (id int, n numeric(5,2))",
            )
            run(connection, "INSERT INTO b SELECT generate_series(1, 50);\nINSERT INTO c VALUES (1, 1.5), (2, 'NaN')")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        target = LandingTarget(tmp_path / "lake")
        landed(engine, server.wal_directory, backup, target, "public.a")
        server.start()
        with server.connect() as connection:
            run(connection, "INSERT INTO a VALUES (1);\nINSERT INTO b VALUES (51);\nDELETE FROM c WHERE id = 2")
        server.stop()
        with pytest.raises(DecodingError, match=r'column "n" of table "public\.c"'):
            landed(engine, server.wal_directory, backup, target, "public.a,public.b,public.c")
        with pytest.raises(LakeError, match=r"tables are being added.*public\.a, public\.b, public\.c"):
            landed(engine, server.wal_directory, backup, target, "public.a")
        lenient = replace(target, on_unrepresentable="null")
        done = landed(engine, server.wal_directory, backup, lenient, "public.a,public.b,public.c")
        assert done.rows == {"public.a": 1, "public.b": 1, "public.c": 2 + 1}
        assert read_table(target.place / "public.b", "parquet")["id"].to_pylist() == list(range(1, 52))


RAISED = """
wal_level = logical
max_wal_senders = 5
"""


def test_an_older_copy_and_a_minimal_log(engine: Engine, tmp_path: Path) -> None:
    """Rows came without the log between a copy and where tables are added: neither has them."""
    with server_of(16, wal_level="minimal", max_wal_senders="0") as server:
        with server.connect() as connection:
            run(connection, "CREATE TABLE first (id int PRIMARY KEY);\nCREATE TABLE second (id int PRIMARY KEY)")
        server.stop()
        early = server.copy_data_directory(tmp_path / "early")
        server.start()
        with server.connect() as connection:
            run(connection, "BEGIN;\nTRUNCATE second;\nINSERT INTO second SELECT generate_series(1, 5000);\nCOMMIT")
        server.stop()
        with (server.data_directory / "postgresql.conf").open("a") as settings:
            settings.write(RAISED)
        server.start()
        server.stop()
        raised = server.copy_data_directory(tmp_path / "raised")
        server.start()
        with server.connect() as connection:
            run(connection, "INSERT INTO first VALUES (1);\nINSERT INTO second VALUES (9000)")
        server.stop()
        target = LandingTarget(tmp_path / "lake", mode="current")
        landed(engine, server.wal_directory, raised, target, "public.first")
        with pytest.raises(WalError, match="wal_level = minimal") as error:
            landed(engine, server.wal_directory, early, target, "public.first,public.second")
        assert error.value.lsn is not None
        server.start()
        with server.connect() as connection:
            run(connection, "INSERT INTO first VALUES (2)")
        server.stop()
        landed(engine, server.wal_directory, server.data_directory, target, "public.first,public.second")
        assert read_table(target.place / "public.second", "parquet").num_rows == 5001
        assert read_table(target.place / "public.first", "parquet").num_rows == 2


def test_a_choice_that_matched_nothing_can_be_another_one(engine: Engine, log: Log, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake")
    landed(engine, log.few, log.early, target, FEW)
    with Lake(target) as lake:
        lake.registry.choose(asked("public.first,public.secnod"))
    landed(engine, log.wal, log.early, target, MORE)
    log.check(target)


CASES = [
    ("parquet", "current", 15),
    ("parquet", "changelog", 15),
    ("delta", "current", 15),
    ("delta", "changelog", 15),
    ("iceberg", "history", 15),
    ("iceberg", "changelog", 15),
]


@pytest.mark.slow
@pytest.mark.parametrize(("form", "mode", "kills"), CASES)
@pytest.mark.timeout(3600)
def test_killed_while_tables_are_added(
    engine: Engine, log: Log, tmp_path: Path, request: pytest.FixtureRequest, form: str, mode: str, kills: int
) -> None:
    target = LandingTarget(tmp_path / "lake", form, mode=mode)
    landed(engine, log.few, log.early, target, FEW)
    kill_often(log, target, tmp_path, request.config.getoption("--kills") or kills)
    log.check(target)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "mode", "kills"), CASES)
@pytest.mark.timeout(3600)
def test_killed_while_rows_of_before_land(
    log: Log, tmp_path: Path, request: pytest.FixtureRequest, form: str, mode: str, kills: int
) -> None:
    target = LandingTarget(tmp_path / "lake", form, mode=mode)
    kill_often(log, target, tmp_path, request.config.getoption("--kills") or kills)
    log.check(target)


def kill_often(log: Log, target: LandingTarget, directory: Path, kills: int) -> None:
    """Land, killed at steps of commits so many times; then to the end."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    while kills and is_killed(log, target, directory, rng.randint(1, MOST_STEPS)):
        kills -= 1
    assert not is_killed(log, target, directory, NEVER)


def is_killed(log: Log, target: LandingTarget, directory: Path, step: int) -> bool:
    """Add tables until a step; tell whether there were as many."""
    where = ("--wal", log.wal, "--catalog", log.online, "--database", "postgres", "--tables", MORE)
    what = ("--to", target.place, "--format", target.format, "--mode", target.mode, "--window-bytes", 1 << 20)
    arguments = (DRIVER, target.place, step, "land", *where, *what)
    with running(*map(str, arguments), directory=directory, program=sys.executable) as process:
        output = process.standard_error()
        status = process.process.wait()
    assert status in (0, -9), output
    return status != 0


def test_tables_are_added_to_a_run_that_follows(tmp_path: Path) -> None:
    with server_of(16) as server:
        with server.connect() as connection:
            run(connection, "CREATE TABLE t (id int PRIMARY KEY, a text);\nCREATE TABLE u (id int PRIMARY KEY, a text)")
            run(connection, "INSERT INTO u SELECT i, 'before' FROM generate_series(1, 100) i")
        server.stop()
        source = Source(server, server.copy_data_directory(tmp_path / "backup"))
        server.start()
        target = tmp_path / "lake"
        source.run("INSERT INTO t VALUES (1, 'y')", "DELETE FROM u WHERE id > 90")
        with following(source, server.wal_directory, target, "--tables", "public.t") as process:
            process.until(partial(has, target, "t", [1]))
            end(process)
        online = Source(server, back_up(server, tmp_path / "online"))
        source.run("INSERT INTO t VALUES (2, 'y')", "DELETE FROM u WHERE id > 80")
        with following(online, server.wal_directory, target, "--tables", "public.t,public.u") as process:
            source.run("INSERT INTO t VALUES (3, 'y')", "INSERT INTO u VALUES (200, 'y')")
            process.until(partial(has, target, "t", [1, 2, 3]))
            process.until(partial(has, target, "u", [*range(1, 81), 200]))
            end(process)


def has(target: Path, name: str, ids: list[int]) -> bool:
    place = target / f"public.{name}"
    if not any((place / "_headwater").glob("*.json")):
        return False
    rows = read_table(place, "parquet").to_pylist()
    present: set[int] = set()
    for row in sorted(rows, key=lambda row: (row["_commit_lsn"], row["_lsn"], row["_seq"])):
        (present.discard if row["_change_type"] == "delete" else present.add)(row["id"])
    return sorted(present) == ids
