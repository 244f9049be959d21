"""Landed tables are what the server's tables were, after random work by several sessions: ``make landings SEEDS=1-20``.

Each seed is one run of a server of each major. What it has written lands in every format and mode, from one of two
copies of its files, in windows and runs that are drawn. It is compared with what ``SELECT`` had said at several LSNs:
mirrors, versions of them that an LSN names, histories as of an LSN, and change tables folded up. The tables' files are
read by Spark and by DuckDB. The table that cannot go on is paused, and comes back between runs or after them.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from failure_texts import texts_are_kept
from headwater.jobs.engine import Engine
from headwater.lakes.as_of_view import read_as_of
from headwater.lakes.landing_target import FORMATS, MERGE_ON_READ, LandingTarget
from headwater.landing.landing import land
from headwater.landing.landing_modes import CHANGELOG, CURRENT, HISTORY, MODES
from headwater.landing.landing_pass import LandingResult
from headwater.landing.mirrors import deletes_beside
from headwater.landing.paused_tables import PAUSE
from headwater.landing.resuming import reload, resume
from headwater.pipeline.engines import engine_of
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.plugins.table_patterns import EVERY_TABLE
from landing.folded_changes import FoldedByKey, FoldedWholes, in_order
from landing.mirrored_log import as_of
from landing.mirrors import (
    HeldColumn,
    Rows,
    all_columns_by_number,
    columns_by_number,
    current_files,
    mirror_rows,
    plain,
    read_table,
)
from landing.random_logs import ONLINE, STOPPED, Held, Moment, RandomLog, random_log
from landing.threaded_work import HALTING, KEYS, REPLACED

pytestmark = [
    pytest.mark.server,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings(f"ignore:table public.{HALTING} (is|stays) paused:headwater.errors.HeadwaterWarning"),
]

MAJORS = (14, 15, 16, 17, 18)
WINDOWS = (1 << 20, 2 << 20, 4 << 20, 1 << 30)
KEPT = Path("build/landings")
"""Where the files of a run that has failed are kept."""
NEVER = 1 << 62
PARTITIONED = ("event", "deep", "log")
REWRITTEN = {("by_index", "other")}
"""Columns whose values ALTER TABLE changes, and changes back."""
OTHERS_READ = 3
"""Tables of a target that Spark and DuckDB are given."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize by the seeds of each major."""
    if "log" in metafunc.fixturenames:
        first, _, last = (metafunc.config.getoption("--seeds") or "1-1").partition("-")
        cases = [(major, seed) for seed in range(int(first), int(last or first) + 1) for major in MAJORS]
        ids = [f"pg{major}-{seed}" for major, seed in cases]
        metafunc.parametrize("log", cases, indirect=True, ids=ids, scope="module")


@pytest.fixture(scope="module")
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RandomLog]:
    major, seed = request.param
    place, failed_before = tmp_path_factory.mktemp(f"pg{major}-{seed}"), request.session.testsfailed
    with random_log(major, seed, place) as made:
        with texts_are_kept(request, _kept(made)):
            yield made
        if request.session.testsfailed != failed_before:
            _keep(made)
    shutil.rmtree(place)


def _kept(log: RandomLog) -> Path:
    return KEPT / f"pg{log.major}-{log.seed}"


def _keep(log: RandomLog) -> None:
    place = _kept(log)
    for name, path in {**log.copies, "wal": log.wal}.items():
        shutil.rmtree(place / name, ignore_errors=True)
        shutil.copytree(path, place / name, ignore=shutil.ignore_patterns("pg_wal") if name != "wal" else None)


@dataclass(frozen=True)
class Landed:
    """A target, and what it is compared with.

    Attributes:
        log: it; target: where it has landed; copy: from which copy on.
        ends: LSNs that runs have ended at; names: of the tables.
    """

    log: RandomLog
    target: LandingTarget
    copy: str
    ends: tuple[int, ...]

    @property
    def moments(self) -> list[Moment]:
        """The moments that the target can be compared at."""
        return self.log.moments_of(self.copy)

    def place(self, name: str) -> Path:
        """Return the place of a table."""
        return self.target.place / ("public." + name.strip('"'))

    def require_rows(self, name: str, columns: tuple[HeldColumn, ...], rows: Rows, table: pa.Table) -> None:
        """See that a table's rows are the server's."""
        names = columns_by_number(self.place(name), self.target.format, table.schema.names)
        ours = mirror_rows(table, [names[column.number] for column in columns])
        shown = [column.name for column in columns]
        assert ours == rows, f"{name} {shown}: missing {rows - ours}, not on the server {ours - rows}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("format", FORMATS)
def test_landed_tables_are_what_the_server_had(
    spark: SparkSession, engine: Engine, log: RandomLog, tmp_path: Path, format: str, mode: str
) -> None:
    require_landed(spark, engine, log, LandingTarget(tmp_path / "lake", format, mode=mode))


@pytest.mark.parametrize("mode", [CURRENT, HISTORY])
@pytest.mark.parametrize("format", FORMATS)
def test_mirrors_whose_rows_are_deleted_beside_files_are_what_the_server_had(
    spark: SparkSession,
    engine: Engine,
    log: RandomLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
    mode: str,
) -> None:
    monkeypatch.setattr(deletes_beside, "_FEWEST", 0)  # of tables however small
    target = LandingTarget(tmp_path / "lake", format, mode=mode, write_mode=MERGE_ON_READ)
    require_landed(spark, engine, log, target)


def require_landed(spark: SparkSession, engine: Engine, log: RandomLog, target: LandingTarget) -> None:
    """Land a log in windows and runs that are drawn, and see that the target is what the server had."""
    format, mode = target.format, target.mode
    dice = random.Random(f"{log.major} {log.seed} {format} {mode}")
    engine = engine_of(spark) if FORMATS.index(format) == ([*MODES].index(mode) + log.major) % len(FORMATS) else engine
    copy = dice.choice((STOPPED, ONLINE))
    behind = [moment.lsn for moment in log.moments_of(copy)]
    ends = tuple(sorted(dice.sample(behind, dice.randint(0, 2))))
    landed = Landed(log, target, copy, ends)
    for end in (*ends, None):
        window = dice.choice(WINDOWS)
        print(f"{copy}, windows of {window}, to {end}")
        request = DecodeRequest(str(log.wal), str(log.copies[copy]), "postgres", end=end, tables=EVERY_TABLE)
        result = land(engine, request, landed.target, bounds=WindowBounds(window), on_table_error=PAUSE)
        require_only_halting(result)
        if result.paused and (end is None or dice.random() < 0.5):
            bring_back(engine, landed, anew=mode == CURRENT and dice.random() < 0.5)
    CHECKS[mode](landed)
    for name in dice.sample(sorted(log.moments[-1].tables), OTHERS_READ):
        # Files alone do not say which rows are deleted beside them.
        if landed.place(name).exists() and target.write_mode != MERGE_ON_READ:
            require_same_to_others(spark, landed.place(name), format)
    shutil.rmtree(target.place)


def require_only_halting(result: LandingResult) -> None:
    """See that no other table is paused."""
    others = [f"{table.name}: {table.reason}" for table in result.paused if table.name != f"public.{HALTING}"]
    assert not others, others


def bring_back(engine: Engine, landed: Landed, *, anew: bool) -> None:
    """Let the table that cannot go on do so, with nulls; from where it stands, or with the rows of the copy."""
    request = DecodeRequest(str(landed.log.wal), str(landed.log.copies[landed.copy]))
    target = replace(landed.target, on_unrepresentable="null")
    how = reload if anew else resume
    print(f"paused: {how.__name__}")
    assert not how(engine, request, target, [f"public.{HALTING}"]).paused


def check_current(landed: Landed) -> None:
    """Check mirrors now, and their versions as of where runs have ended."""
    for moment in landed.moments:
        if moment.lsn not in landed.ends:
            continue
        resolved = read_as_of(landed.target.place, moment.lsn)
        for name, held in moment.tables.items():
            if landed.place(name).name in resolved.paused:
                continue
            version = resolved.tables.get(landed.place(name).name)
            if version is None:
                assert not held.rows, name
                continue
            table = read_table(landed.place(name), landed.target.format, version)
            landed.require_rows(name, held.columns, held.rows, table)
    require_last(landed)


def require_last(landed: Landed, left: pc.Expression | None = None) -> None:
    """See that what is there now is what the server has."""
    for name, held in landed.log.moments[-1].tables.items():
        if not landed.place(name).exists():
            assert not held.rows, name
            continue
        table = read_table(landed.place(name), landed.target.format)
        landed.require_rows(name, held.columns, held.rows, table if left is None else table.filter(left))


def check_history(landed: Landed) -> None:
    """Check versions as of now, and as of every moment."""
    last = landed.log.moments[-1].tables
    for moment in landed.moments:
        for name, held in moment.tables.items():
            if name not in last or not landed.place(name).exists():
                continue
            left = {(column.number, column.type) for column in last[name].columns}
            # A type that has come back is another column in the lake, which earlier versions have no value in.
            same = [column for column in held.columns if (name, column.name) not in REWRITTEN]
            columns = tuple(column for column in same if (column.number, column.type) in left)
            at = [held.columns.index(column) for column in columns]
            rows: Rows = Counter()
            for row, count in held.rows.items():
                rows[tuple(row[i] for i in at)] += count
            table = read_table(landed.place(name), landed.target.format).filter(as_of(moment.lsn))
            landed.require_rows(name, columns, rows, table)
    require_last(landed, as_of(None))


def check_changelog(landed: Landed) -> None:
    """Fold changes up, and check them as of every moment."""
    for name in landed.log.moments[-1].tables:
        # What ATTACH brings and DETACH takes is no change of a row, nor what a table had under another name.
        if landed.place(name).exists() and not name.startswith(("shelf", "staged", "renamed", *REPLACED)):
            _check_changes(landed, name)


def _check_changes(landed: Landed, name: str) -> None:
    all_names = all_columns_by_number(landed.place(name), landed.target.format)
    names = {number: own[-1] for number, own in all_names.items()}
    changes = in_order(read_table(landed.place(name), landed.target.format).to_pylist())
    moments = [then for then in landed.log.moments if name in then.tables]
    key = KEYS.get(name, ("id",))
    numbers = {column.name: column.number for column in moments[-1].tables[name].columns}
    last = {(column.number, column.type) for column in moments[-1].tables[name].columns}
    if key:
        folded = FoldedByKey(
            changes, [all_names[numbers[column]] for column in key], is_partitioned=name in PARTITIONED
        )
    else:
        always = _always(moments, name)
        wholes = FoldedWholes(changes, [names[column.number] for column in always], is_partitioned=name in PARTITIONED)
    # As it was made, or copied, no change tells of a column what it does not hold.
    seen = {(column.number, column.type): 0 for column in moments[0].tables[name].columns}
    for moment in moments:
        held = moment.tables[name]
        seen = {
            (column.number, column.type): seen.get((column.number, column.type), moment.lsn) for column in held.columns
        }
        seen |= {(column.number, column.type): NEVER for column in held.columns if (name, column.name) in REWRITTEN}
        if moment.lsn < landed.log.since[landed.copy]:
            continue
        if key:
            folded.go(moment.lsn)
            differences = folded.differences(held.rows, held.columns, all_names, seen, last, moment.relations)
        else:
            wholes.go(moment.lsn)
            differences = wholes.differences(_by(held, always))
        assert not differences, (name, differences[:5])


def _always(moments: list[Moment], name: str) -> list[HeldColumn]:
    """List columns that a table has had at all moments."""
    shared = set.intersection(
        *({(column.number, column.type) for column in moment.tables[name].columns} for moment in moments)
    )
    return [column for column in moments[-1].tables[name].columns if (column.number, column.type) in shared]


def _by(held: Held, columns: list[HeldColumn]) -> Rows:
    """Return rows by some of their columns."""
    at = [next(i for i, column in enumerate(held.columns) if column.number == wanted.number) for wanted in columns]
    rows: Rows = Counter()
    for row, count in held.rows.items():
        rows[tuple(row[i] for i in at)] += count
    return rows


CHECKS = {CHANGELOG: check_changelog, CURRENT: check_current, HISTORY: check_history}


def require_same_to_others(spark: SparkSession, place: Path, format: str) -> None:
    """See that Spark and DuckDB find the rows in a table's files that its own library finds."""
    rows = read_table(place, format)
    shown = [field.name for field in rows.schema if field.type != pa.uuid()]
    rows, files = rows.select(shown), current_files(place, format)
    if not len(rows):
        return
    wanted = plain(tuple(row.values()) for row in rows.to_pylist())
    sparks = spark.read.schema(from_arrow_schema(rows.schema)).parquet(*files).toArrow()
    assert plain(tuple(row.values()) for row in sparks.select(shown).to_pylist()) == wanted
    with duckdb.connect() as connection:
        ducks = connection.read_parquet(files, union_by_name=True).to_arrow_table()
    assert plain(tuple(row.values()) for row in ducks.select(shown).cast(rows.schema).to_pylist()) == wanted
