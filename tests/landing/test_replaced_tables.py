"""Tables that others take the place of: dropped and made again, staged and renamed into place, swapped.

A mirror is what SELECT says of its name, whatever table bears that.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from headwater.demo.embedded_postgres import EmbeddedPostgres, find_programs
from headwater.errors import HeadwaterWarning, LakeError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing import land
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.plugins.table_patterns import TablePatterns
from landing.folded_changes import FoldedByKey
from landing.mirrors import Rows, columns_by_number, mirror_rows, read_table
from landing.test_mirrored_definitions import NEXT_WINDOW, Source, Statements

pytestmark = [pytest.mark.server]

WINDOWS = {"one window": 1 << 30, "windows": 1 << 20}
MORE_CASES = [
    ("parquet", "current", "one window"),
    *(("parquet", "history", window) for window in WINDOWS),
    *(("delta", "current", window) for window in WINDOWS),
    ("delta", "history", "windows"),
    ("iceberg", "current", "one window"),
]

PLAIN = "CREATE TABLE {} (id int PRIMARY KEY, note text, n int)"
ROWS = "INSERT INTO {} SELECT i, 'old', i FROM generate_series(1, 20) i"
OTHER = "CREATE TABLE {} (n bigint, extra date, note text, id int PRIMARY KEY)"
OTHER_ROWS = "INSERT INTO {} SELECT i * 10, '2024-01-01', 'new', i FROM generate_series(11, 30) i"
CHANGES = ["UPDATE {} SET note = 'changed' WHERE id = 12", "DELETE FROM {} WHERE id = 13"]


def _all(statements: Statements, *names: str) -> Statements:
    return [statement.format(*names) for statement in statements]


SETUP: Statements = [
    *(
        PLAIN.format(name)
        for name in ("again", "at_once", "staged", "swapped", "round_a", "round_b", "called", "twice")
    ),
    *(ROWS.format(name) for name in ("again", "at_once", "staged", "swapped", "round_a", "called", "twice")),
    "INSERT INTO round_b SELECT i, 'b', -i FROM generate_series(5, 9) i",
    *(PLAIN.format(name) for name in ("emptied", "later", "typed", "kept_apart")),
    *(ROWS.format(name) for name in ("emptied", "later", "typed", "kept_apart")),
    "CREATE TABLE alike (v int, note text)",
    "ALTER TABLE alike REPLICA IDENTITY FULL",
    "INSERT INTO alike VALUES (1, 'x'), (1, 'x'), (2, NULL)",
    "CREATE TABLE parted (id int PRIMARY KEY, note text) PARTITION BY RANGE (id)",
    "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100)",
    "INSERT INTO parted SELECT i, 'old' FROM generate_series(1, 10) i",
    "CREATE SCHEMA shop",
    PLAIN.format("shop.moved"),
    ROWS.format("shop.moved"),
]

WORK: Statements = [
    # Dropped and made again, each by a transaction of its own.
    "INSERT INTO again VALUES (100, 'late', NULL)",
    "DROP TABLE again",
    OTHER.format("again"),
    OTHER_ROWS.format("again"),
    *_all(CHANGES, "again"),
    # By one transaction.
    f"BEGIN; DELETE FROM at_once WHERE id < 3; DROP TABLE at_once; {OTHER.format('at_once')}; "
    f"{OTHER_ROWS.format('at_once')}; UPDATE at_once SET n = 1 WHERE id = 20; COMMIT",
    *_all(CHANGES, "at_once"),
    NEXT_WINDOW,
    # Staged beside it, and renamed into place.
    OTHER.format("staged_new"),
    OTHER_ROWS.format("staged_new"),
    "DELETE FROM staged_new WHERE id = 30",
    "BEGIN; DROP TABLE staged; UPDATE staged_new SET note = 'last' WHERE id = 29; "
    "ALTER TABLE staged_new RENAME TO staged; UPDATE staged SET note = 'first' WHERE id = 28; COMMIT",
    *_all(CHANGES, "staged"),
    # Swapped by two renames.
    OTHER.format("swapped_new"),
    OTHER_ROWS.format("swapped_new"),
    NEXT_WINDOW,
    "BEGIN; ALTER TABLE swapped RENAME TO swapped_old; ALTER TABLE swapped_new RENAME TO swapped; COMMIT",
    *_all(CHANGES, "swapped"),
    "UPDATE swapped_old SET note = 'older' WHERE id = 2",
    "INSERT INTO swapped_old VALUES (200, 'older', 3)",
    # In a circle.
    "UPDATE round_a SET note = 'a' WHERE id < 4",
    "BEGIN; ALTER TABLE round_a RENAME TO round_c; ALTER TABLE round_b RENAME TO round_a; "
    "ALTER TABLE round_c RENAME TO round_b; COMMIT",
    "UPDATE round_a SET n = 7 WHERE id = 6",
    "DELETE FROM round_b WHERE id > 15",
    # Renamed only.
    "ALTER TABLE called RENAME TO called_otherwise",
    "UPDATE called_otherwise SET note = 'here' WHERE id = 1",
    # Replaced twice.
    "DROP TABLE twice",
    OTHER.format("twice"),
    "INSERT INTO twice VALUES (1, NULL, 'between', 1)",
    "DROP TABLE twice",
    PLAIN.format("twice"),
    "INSERT INTO twice VALUES (2, 'last', 5)",
    # The newer one is empty.
    f"BEGIN; DROP TABLE emptied; {PLAIN.format('emptied')}; COMMIT",
    # Dropped long before it is made again.
    "DROP TABLE later",
    NEXT_WINDOW,
    NEXT_WINDOW,
    OTHER.format("later"),
    "INSERT INTO later VALUES (1, NULL, 'x', 1)",
    # A column is of another type.
    "CREATE TABLE typed_new (id int PRIMARY KEY, note int, n text)",
    "INSERT INTO typed_new VALUES (1, 2, 'three')",
    "BEGIN; DROP TABLE typed; ALTER TABLE typed_new RENAME TO typed; ALTER TABLE typed ADD more int DEFAULT 4; COMMIT",
    "UPDATE typed SET note = 3",
    # Rows that only all of their columns tell.
    "CREATE TABLE alike_new (v int, note text)",
    "ALTER TABLE alike_new REPLICA IDENTITY FULL",
    "INSERT INTO alike_new VALUES (5, 'y'), (5, 'y')",
    "BEGIN; DROP TABLE alike; ALTER TABLE alike_new RENAME TO alike; COMMIT",
    "DELETE FROM alike WHERE ctid = '(0,1)'",
    # A partitioned table.
    "CREATE TABLE parted_new (note text, id int PRIMARY KEY) PARTITION BY RANGE (id)",
    "CREATE TABLE parted_new_1 PARTITION OF parted_new FOR VALUES FROM (0) TO (50)",
    "CREATE TABLE parted_new_2 PARTITION OF parted_new FOR VALUES FROM (50) TO (99)",
    "INSERT INTO parted_new SELECT 'new', i FROM generate_series(45, 55) i",
    "BEGIN; DROP TABLE parted; ALTER TABLE parted_new RENAME TO parted; COMMIT",
    "UPDATE parted SET note = 'changed' WHERE id = 46",
    "TRUNCATE parted_new_2",
    # To another schema, and with it.
    "ALTER SCHEMA shop RENAME TO store",
    "UPDATE store.moved SET note = 'in the store' WHERE id = 1",
    "DROP TABLE kept_apart",
]

TABLES = (
    *("public.again", "public.at_once", "public.staged", "public.swapped", "public.swapped_old", "public.round_a"),
    *("public.round_b", "public.called_otherwise", "public.twice", "public.emptied", "public.later", "public.typed"),
    *("public.alike", "public.parted", "store.moved"),
)


@pytest.fixture(scope="module")
def replaced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Source, Path, dict[str, Any]]]:
    """A server, the backup of before the work, and what the tables hold behind it."""
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        source = Source(server, tmp_path_factory.mktemp("replaced"))
        yield source, *source.after(SETUP, WORK, list(TABLES))


def _land(engine: Engine, source: Source, backup: Path, target: LandingTarget, window: int, **more: Any) -> None:
    request = DecodeRequest(str(source.server.wal_directory), str(backup), "postgres", **more)
    land(engine, request, target, bounds=WindowBounds(window))


def _rows(target: LandingTarget, name: str, numbers: list[int]) -> Rows:
    place = target.place / name
    names, rows = columns_by_number(place, target.format), read_table(place, target.format)
    if target.mode == "history":
        rows = rows.filter(pc.is_null(rows["_valid_to_lsn"]))
    return mirror_rows(rows, [names[number] for number in numbers])


@pytest.mark.parametrize(
    ("format", "mode", "window"),
    [
        ("parquet", "current", "windows"),
        ("delta", "history", "one window"),
        ("iceberg", "current", "windows"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE_CASES),
    ],
)
def test_mirrors_are_what_select_says_of_their_names(
    engine: Engine, replaced: Any, tmp_path: Path, format: str, mode: str, window: str
) -> None:
    source, backup, held = replaced
    target = LandingTarget(tmp_path / "lake", format, mode=mode)
    _land(engine, source, backup, target, WINDOWS[window])
    wrong = [name for name, (numbers, rows) in held.items() if _rows(target, name, numbers) != rows]
    assert wrong == []


CHOSEN: Statements = [
    # By one transaction, under a name that is not chosen.
    f"BEGIN; {OTHER.format('loading')}; {OTHER_ROWS.format('loading')}; DROP TABLE wanted; "
    "ALTER TABLE loading RENAME TO wanted; COMMIT",
    *_all(CHANGES, "wanted"),
    # For the first time.
    f"BEGIN; {PLAIN.format('first_loading')}; {ROWS.format('first_loading')}; "
    "ALTER TABLE first_loading RENAME TO first; COMMIT",
    "UPDATE first SET note = 'x' WHERE id = 3",
    NEXT_WINDOW,
    # Long before, by other transactions, one of which is rolled back; with values out of line.
    "CREATE TABLE slowly_loading (id int PRIMARY KEY, big text)",
    "ALTER TABLE slowly_loading ALTER big SET STORAGE EXTERNAL",
    "INSERT INTO slowly_loading SELECT i, repeat(i::text, 3000) FROM generate_series(1, 9) i",
    "BEGIN; INSERT INTO slowly_loading VALUES (100, 'never'); ROLLBACK",
    NEXT_WINDOW,
    "UPDATE slowly_loading SET id = id + 10 WHERE id > 7",
    "DELETE FROM slowly_loading WHERE id = 1",
    NEXT_WINDOW,
    "BEGIN; UPDATE slowly_loading SET big = 'just before' WHERE id = 2; ALTER TABLE slowly RENAME TO slowly_gone; "
    "ALTER TABLE slowly_loading RENAME TO slowly; DELETE FROM slowly WHERE id = 3; COMMIT",
    "UPDATE slowly SET id = 40 WHERE id = 4",
    # A table goes out of the choice, and comes back.
    "ALTER TABLE away RENAME TO elsewhere",
    "INSERT INTO elsewhere VALUES (50, 'elsewhere', 1)",
    NEXT_WINDOW,
    "DELETE FROM elsewhere WHERE id < 5",
    "ALTER TABLE elsewhere RENAME TO away",
    "UPDATE away SET note = 'back' WHERE id = 6",
    # It was there before the backup, and has never been chosen.
    "ALTER TABLE unseen RENAME TO seen",
    "INSERT INTO seen VALUES (60, 'seen', 1)",
]
CHOSEN_SETUP: Statements = [
    *(PLAIN.format(name) for name in ("wanted", "away", "unseen")),
    *(ROWS.format(name) for name in ("wanted", "away", "unseen")),
    "CREATE TABLE slowly (id int PRIMARY KEY, big text)",
    "INSERT INTO slowly VALUES (1, 'older')",
]
CHOSEN_TABLES = ("public.wanted", "public.first", "public.slowly", "public.away", "public.seen")


@pytest.fixture(scope="module")
def renamed(replaced: Any) -> tuple[Source, Path, dict[str, Any]]:
    """Tables that get chosen names; see :func:`replaced`."""
    source: Source = replaced[0]
    return source, *source.after(CHOSEN_SETUP, CHOSEN, list(CHOSEN_TABLES))


@pytest.mark.filterwarnings("default:.*which --tables does not choose")
@pytest.mark.parametrize(
    ("mode", "window"),
    [
        ("current", "windows"),
        ("history", "one window"),
        pytest.param("current", "one window", marks=pytest.mark.slow),
        pytest.param("history", "windows", marks=pytest.mark.slow),
    ],
)
def test_tables_that_get_a_chosen_name_bring_their_rows(
    engine: Engine, renamed: Any, tmp_path: Path, mode: str, window: str
) -> None:
    source, backup, held = renamed
    target = LandingTarget(tmp_path / "lake", mode=mode)
    _land(engine, source, backup, target, WINDOWS[window], tables=TablePatterns(CHOSEN_TABLES))
    assert [name for name, (numbers, rows) in held.items() if _rows(target, name, numbers) != rows] == []
    assert sorted(path.name for path in target.place.glob("public.*")) == sorted(CHOSEN_TABLES)


def test_rows_from_before_a_name_need_a_backup_of_before(engine: Engine, replaced: Any, tmp_path: Path) -> None:
    source: Source = replaced[0]
    loading = [OTHER.format("lone_loading"), OTHER_ROWS.format("lone_loading")]
    first, _ = source.after([PLAIN.format("lone"), ROWS.format("lone")], loading, [])
    target, chosen = LandingTarget(tmp_path / "lake", mode="current"), TablePatterns(("public.lone",))
    _land(engine, source, first, target, 1 << 20, tables=chosen)
    renaming = ["DROP TABLE lone", "ALTER TABLE lone_loading RENAME TO lone"]
    later, held = source.after(renaming, ["DELETE FROM lone WHERE id = 11"], ["public.lone"])
    with pytest.raises(LakeError, match=r'table "public\.lone" had rows when it got that name') as told:
        _land(engine, source, later, target, 1 << 20, tables=chosen)
    assert told.value.lsn
    _land(engine, source, first, target, 1 << 20, tables=chosen)
    numbers, rows = held["public.lone"]
    assert _rows(target, "public.lone", numbers) == rows


def _changes(target: LandingTarget, name: str) -> list[dict[str, Any]]:
    rows = read_table(target.place / name, target.format).to_pylist()
    return sorted(rows, key=lambda row: (row["_commit_lsn"], row["_lsn"], row["_seq"]))


@pytest.mark.parametrize(
    "format", ["parquet", *(pytest.param(one, marks=pytest.mark.slow) for one in ("delta", "iceberg"))]
)
def test_a_table_of_changes_goes_on_behind_a_row_that_says_so(
    engine: Engine, replaced: Any, tmp_path: Path, format: str
) -> None:
    source, backup, held = replaced
    target = LandingTarget(tmp_path / "lake", format)
    _land(engine, source, backup, target, 1 << 20, tables=TablePatterns(("public.again", "public.at_once")))
    for name in ("public.again", "public.at_once"):
        rows = _changes(target, name)
        kinds = [row["_change_type"] for row in rows]
        at = kinds.index("replace")
        assert kinds.count("replace") == 1
        before, behind = {row["_relation_oid"] for row in rows[:at]}, {row["_relation_oid"] for row in rows[at:]}
        assert len(before) == len(behind) == 1
        assert before != behind
        names = [columns_by_number(target.place / name, format)[number] for number in held[name][0]]
        left = FoldedByKey(rows[at + 1 :], [("id",)], is_partitioned=False)
        left.go(1 << 62)
        assert left.held(names) == held[name][1]


ENDED_SETUP: Statements = [
    *(PLAIN.format(f"ended_{name}") for name in ("a", "b", "staged", "chosen")),
    *(ROWS.format(f"ended_{name}") for name in ("a", "staged", "chosen")),
    "INSERT INTO ended_b SELECT i, 'b', -i FROM generate_series(5, 9) i",
]
ENDED_WORK: Statements = [
    "UPDATE ended_a SET note = 'a' WHERE id < 4",
    OTHER.format("ended_loading"),
    OTHER_ROWS.format("ended_loading"),
    "BEGIN; ALTER TABLE ended_a RENAME TO ended_c; ALTER TABLE ended_b RENAME TO ended_a; "
    "ALTER TABLE ended_c RENAME TO ended_b; DELETE FROM ended_b WHERE id = 20; COMMIT",
    "UPDATE ended_a SET n = 7 WHERE id = 6",
    f"BEGIN; DROP TABLE ended_staged; {OTHER.format('ended_staged')}; {OTHER_ROWS.format('ended_staged')}; COMMIT",
    "BEGIN; DROP TABLE ended_chosen; ALTER TABLE ended_loading RENAME TO ended_chosen; COMMIT",
    *_all(CHANGES, "ended_chosen"),
]
ENDED_TABLES = ("public.ended_a", "public.ended_b", "public.ended_staged", "public.ended_chosen")


@pytest.fixture(scope="module")
def ended(replaced: Any) -> tuple[Source, Path, dict[str, Any]]:
    """Less of the same work, for runs that are ended; see :func:`replaced`."""
    source: Source = replaced[0]
    return source, *source.after(ENDED_SETUP, ENDED_WORK, list(ENDED_TABLES))


class FailingDisk:
    """Has no room any more at the n-th file that gets its name, and none from there on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, last: int) -> None:
        self.left, self.has_failed = last, False
        for name in ("replace", "link"):
            monkeypatch.setattr(os, name, self._failing(getattr(os, name)))

    def _failing(self, work: Any) -> Any:
        def named(*paths: Any, **options: Any) -> None:
            self.left -= 1
            if self.left <= 0:
                self.has_failed = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(paths[-1]))
            work(*paths, **options)

        return named


@pytest.mark.parametrize("mode", ["current", pytest.param("history", marks=pytest.mark.slow)])
def test_runs_that_end_anywhere_bring_rows_once(
    engine: Engine, ended: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Each run comes a little further than the one before."""
    source, backup, held = ended
    target, chosen = LandingTarget(tmp_path / "lake", mode=mode), TablePatterns(ENDED_TABLES)
    for last in range(30, 1000, 7):
        with monkeypatch.context() as patched:
            disk = FailingDisk(patched, last)
            try:
                _land(engine, source, backup, target, 1 << 30, tables=chosen)
            except LakeError as error:
                assert "No space left on device" in str(error)  # noqa: PT017
        if not disk.has_failed:
            break
    assert last > 30
    assert [name for name, (numbers, rows) in held.items() if _rows(target, name, numbers) != rows] == []
    assert not (target.place / "_headwater" / "replacing.json").exists()
    assert not (target.place / "_headwater" / "replaced").exists()


POLICY_SETUP: Statements = [
    *(PLAIN.format(f"policy_{name}") for name in ("made", "called")),
    *(ROWS.format(f"policy_{name}") for name in ("made", "called")),
]
POLICY_WORK: Statements = [
    "DROP TABLE policy_made",
    PLAIN.format("policy_made"),
    "INSERT INTO policy_made VALUES (1, 'new', 1)",
    "ALTER TABLE policy_called RENAME TO policy_renamed",
    "UPDATE policy_renamed SET note = 'renamed' WHERE id = 1",
    PLAIN.format("policy_called"),
    "INSERT INTO policy_called VALUES (2, 'new', 2)",
]
POLICIES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "follow": ({"made": "made", "called": "called", "renamed": "renamed"}, {}),
    "new": ({"made_2": "made", "called_2": "called", "renamed": "renamed"}, {"on_table_replaced": "new"}),
    "follow oid": ({"made": "made", "called": "renamed", "called_2": "called"}, {"follows_oid": True}),
}


@pytest.fixture(scope="module")
def policed(replaced: Any) -> tuple[Source, Path, dict[str, Any]]:
    """A table that is made again, and one that is renamed before another gets its name."""
    source: Source = replaced[0]
    tables = ["policy_made", "policy_called", "policy_renamed"]
    return source, *source.after(POLICY_SETUP, POLICY_WORK, tables)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_becomes_of_replaced_tables_is_chosen(engine: Engine, policed: Any, tmp_path: Path, policy: str) -> None:
    source, backup, held = policed
    names, options = POLICIES[policy]
    target = LandingTarget(tmp_path / "lake", mode="current", **options)
    _land(engine, source, backup, target, 1 << 20, tables=TablePatterns(("public.policy_*",)))
    for there, table in names.items():
        numbers, rows = held[f"policy_{table}"]
        assert _rows(target, f"public.policy_{there}", numbers) == rows, there


@pytest.mark.parametrize(("mode", "where"), [("current", "under that name from there on"), ("changelog", "as before")])
def test_tables_that_are_dropped_or_renamed_are_told_of(
    engine: Engine, replaced: Any, tmp_path: Path, mode: str, where: str
) -> None:
    source: Source = replaced[0]
    name = f"told_{mode}"
    setup = [PLAIN.format(f"{name}_{number}") for number in range(2)]
    setup += [ROWS.format(f"{name}_{number}") for number in range(2)]
    backup, _ = source.after(setup, [f"DROP TABLE {name}_0", f"ALTER TABLE {name}_1 RENAME TO {name}_2"], [])
    target = LandingTarget(tmp_path / "lake", mode=mode)
    with pytest.warns(HeadwaterWarning) as warned:
        _land(engine, source, backup, target, 1 << 30, tables=TablePatterns((f"public.{name}_*",)))
    told = dict.fromkeys(re.sub(r" \(at .*\)", "", str(one.message)) for one in warned)
    assert list(told) == [
        f'table "public.{name}_0" is dropped: its table in the lake stays as it is',
        f'table "public.{name}_1" is called "public.{name}_2" now, and lands {where}',
    ]


def test_a_table_that_is_replaced_can_be_an_error(engine: Engine, policed: Any, tmp_path: Path) -> None:
    source, backup, _ = policed
    target = LandingTarget(tmp_path / "lake", mode="current", on_table_replaced="error")
    with pytest.raises(LakeError, match=r'table "public\.policy_made" is another table from there on') as told:
        _land(engine, source, backup, target, 1 << 20, tables=TablePatterns(("public.policy_*",)))
    assert told.value.lsn
