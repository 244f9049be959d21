"""Tables that others take the place of: dropped and made again, staged and renamed into place, swapped.

A mirror is what SELECT says of its name, whatever table bears that.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from headwater.errors import HeadwaterWarning, LakeError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing import land
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.plugins.table_patterns import TablePatterns
from landing.folded_changes import FoldedByKey
from landing.mirrored_source import NEXT_WINDOW, Source, Statements
from landing.mirrors import Rows, columns_by_number, mirror_rows, read_table
from landing.replaced_tables import CHANGES, OTHER, OTHER_ROWS, PLAIN, ROWS, replaced, with_names

__all__ = ["replaced"]

pytestmark = [pytest.mark.server, pytest.mark.spark]

WINDOWS = {"one window": 1 << 30, "windows": 1 << 20}
MORE_CASES = [
    ("parquet", "current", "one window"),
    *(("parquet", "history", window) for window in WINDOWS),
    *(("delta", "current", window) for window in WINDOWS),
    ("delta", "history", "windows"),
    ("iceberg", "current", "one window"),
]


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
    *with_names(CHANGES, "wanted"),
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
    """Work on tables that get chosen names; see :func:`replaced`."""
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
    with pytest.raises(LakeError, match=r'table "public\.lone" had rows when it got that name') as raised:
        _land(engine, source, later, target, 1 << 20, tables=chosen)
    assert raised.value.lsn
    _land(engine, source, first, target, 1 << 20, tables=chosen)
    numbers, rows = held["public.lone"]
    assert _rows(target, "public.lone", numbers) == rows


def _changes(target: LandingTarget, name: str) -> list[dict[str, Any]]:
    rows = read_table(target.place / name, target.format).to_pylist()
    return sorted(rows, key=lambda row: (row["_commit_lsn"], row["_lsn"], row["_seq"]))


@pytest.mark.parametrize(
    "format", ["parquet", *(pytest.param(case, marks=pytest.mark.slow) for case in ("delta", "iceberg"))]
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
    *with_names(CHANGES, "ended_chosen"),
]
ENDED_TABLES = ("public.ended_a", "public.ended_b", "public.ended_staged", "public.ended_chosen")


@pytest.fixture(scope="module")
def ended(replaced: Any) -> tuple[Source, Path, dict[str, Any]]:
    """Run less of the same work, for runs that are ended; see :func:`replaced`."""
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
    """Work on a table that is made again, and on one that is renamed before another gets its name."""
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
    messages = dict.fromkeys(re.sub(r" \(at .*\)", "", str(warning.message)) for warning in warned)
    assert list(messages) == [
        f'table "public.{name}_0" is dropped: its table in the lake stays as it is',
        f'table "public.{name}_1" is called "public.{name}_2" now, and lands {where}',
    ]


def test_a_table_that_is_replaced_can_be_an_error(engine: Engine, policed: Any, tmp_path: Path) -> None:
    source, backup, _ = policed
    target = LandingTarget(tmp_path / "lake", mode="current", on_table_replaced="error")
    with pytest.raises(LakeError, match=r'table "public\.policy_made" is another table from there on') as raised:
        _land(engine, source, backup, target, 1 << 20, tables=TablePatterns(("public.policy_*",)))
    assert raised.value.lsn
