"""Rows that go with their partition from one mirror to another: what the server has, whenever it is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.errors import LakeError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.parquet_table import ParquetTable
from headwater.landing.landing import land
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from landing.existing_rows import run, server_of
from landing.mirrored_source import NEXT_WINDOW, Source, source
from landing.mirrors import (
    held_columns,
    server_rows,
)
from landing.moved_partitions import ATTACH, DETACH, SECOND, SETUP, WINDOWS, WORK, Moved, mirror_of
from landing.online_backups import copy_by_hand

__all__ = ["source"]

pytestmark = [pytest.mark.server, pytest.mark.spark]


EARLY = ("early", "early_9")


@pytest.fixture(scope="module")
def works(source: Source) -> dict[str, Moved]:  # noqa: ARG001  (made again for each server)
    """Keep what has been done already."""
    return {}


@pytest.mark.parametrize(
    ("window", "mode"),
    [
        ("windows", "current"),
        pytest.param("one window", "history", marks=pytest.mark.slow),
        pytest.param("windows", "history", marks=pytest.mark.slow),
        pytest.param("one window", "current", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", WORK)
def test_rows_go_with_their_partition(
    engine: Engine, source: Source, works: dict[str, Moved], tmp_path: Path, name: str, window: str, mode: str
) -> None:
    if name not in works:
        works[name] = Moved(source, f"m{list(WORK).index(name)}", WORK[name])
    target = LandingTarget(tmp_path / "lake", mode=mode)
    works[name].land(engine, target, WINDOWS[window])
    works[name].require_same(target)


@pytest.mark.parametrize("format", [pytest.param("delta", marks=pytest.mark.slow), "iceberg"])
def test_rows_go_with_their_partition_in_other_formats(
    engine: Engine, source: Source, tmp_path: Path, format: str
) -> None:
    moved = Moved(source, f"other_{format}", [*WORK["attached"], *WORK["detached"]])
    target = LandingTarget(tmp_path / "lake", format, mode="current")
    moved.land(engine, target, WINDOWS["windows"])
    moved.require_same(target)


@pytest.mark.parametrize(
    ("mode", "fails"),
    [
        ("current", "_apart"),
        pytest.param("current", "", marks=pytest.mark.slow),
        pytest.param("current", "_9", marks=pytest.mark.slow),
        ("history", "_apart"),
        pytest.param("history", "", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_ends_between_both_commits_loses_no_rows(
    engine: Engine, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, fails: str
) -> None:
    """Rows go from a table apart to the root, and from that to a partition; these commit the other way about."""
    name = f"cut_{mode}{fails or '_root'}"
    moved = Moved(source, name, [*WORK["attached"], *WORK["detached"]])
    target = LandingTarget(tmp_path / "lake", mode=mode)
    commit, committed = ParquetTable.commit, []

    def ending(table: ParquetTable, *arguments: Any, **options: Any) -> None:
        own = table.place.name.removeprefix(f"public.{name}")
        # What is there was read from the backup first; the partition has no mirror before the window.
        if own == fails and (own == "_9" or own in committed):
            raise OSError("no space left on device")
        commit(table, *arguments, **options)
        committed.append(own)

    with monkeypatch.context() as patched:
        patched.setattr(ParquetTable, "commit", ending)
        with pytest.raises(OSError, match="no space"):
            moved.land(engine, target, WINDOWS["one window"])
    order = ["_9", "", "_apart"]
    expected, moving = order[: order.index(fails)], [suffix for suffix in committed if suffix in order]
    assert moving[len(moving) - len(expected) :] == expected, committed
    moved.land(engine, target, WINDOWS["one window"])
    moved.require_same(target)


@pytest.mark.parametrize("mode", ["current", "history"])
def test_rows_that_go_before_decoding_begins_are_read_where_they_are_then(
    engine: Engine, tmp_path: Path, mode: str
) -> None:
    """A transaction is open at the backup, and puts that off."""
    with server_of(16) as server:
        with server.connect() as connection, server.connect() as older:
            run(connection, ";\n".join(SETUP).format("early"))
            run(older, "BEGIN;\nINSERT INTO early_apart VALUES ('older', NULL, 106)")
            backup = copy_by_hand(server, tmp_path / "backup")
            run(connection, DETACH.format("early") + ";\nCREATE TABLE early_more (id int)")
            run(connection, "SELECT pg_switch_wal();\nCHECKPOINT;\nSELECT pg_switch_wal()")
            run(older, "COMMIT")
            run(connection, "CHECKPOINT;\n" * 3 + "UPDATE early_9 SET note = 'late' WHERE id = 901")
            run(connection, ATTACH.format("early") + ";\nDELETE FROM early WHERE id = 106;\nSELECT pg_switch_wal()")
            held = {name: (held_columns(connection, name), server_rows(connection, name)[1]) for name in EARLY}
        target = LandingTarget(tmp_path / "lake", mode=mode)
        request = DecodeRequest(str(server.wal_directory), str(backup), "postgres")
        land(engine, request, target, bounds=WindowBounds(WINDOWS["windows"]))
    for name, (columns, rows) in held.items():
        assert mirror_of(target, name, [column.number for column in columns], 1 << 62) == rows


AT_ONCE = {
    "types": ["ALTER TABLE {0} ALTER note TYPE int USING 1", DETACH],
    "circle": [
        "CREATE TABLE {0}_b (LIKE {0}) PARTITION BY RANGE (id)",
        f"ALTER TABLE {{0}}_b ATTACH PARTITION {{0}}_apart {SECOND}",
        NEXT_WINDOW,
        DETACH,
        "ALTER TABLE {0}_b DETACH PARTITION {0}_apart",
        "ALTER TABLE {0}_b ATTACH PARTITION {0}_9 FOR VALUES FROM (900) TO (999)",
        ATTACH,
    ],
    "dropped": [DETACH, "ALTER TABLE {0}_9 ADD more int", "DROP TABLE {0}"],
}
"""What is too much for one commit of mirrors: the window is cut. What one transaction does cannot be."""
TOLD = {
    "types": "in a window in which columns of theirs become others",
    "circle": "was there before it was attached: its rows are not known to be none",
}


@pytest.mark.parametrize(
    "name", ["types", *(pytest.param(case, marks=pytest.mark.slow) for case in AT_ONCE if case != "types")]
)
def test_what_cannot_go_at_once_goes_one_after_the_other(
    engine: Engine, source: Source, tmp_path: Path, name: str
) -> None:
    moved = Moved(source, f"cut_{name}", AT_ONCE[name])
    target = LandingTarget(tmp_path / "lake", mode="current")
    moved.land(engine, target, WINDOWS["windows"])
    moved.require_same(target)


@pytest.mark.parametrize("name", TOLD)
def test_what_cannot_go_is_refused(engine: Engine, source: Source, tmp_path: Path, name: str) -> None:
    work = AT_ONCE[name]
    at = work.index(NEXT_WINDOW) + 1 if NEXT_WINDOW in work else 0
    moved = Moved(source, f"no_{name}", [*work[:at], "BEGIN; " + "; ".join(work[at:]) + "; COMMIT"])
    with pytest.raises(LakeError) as raised:
        moved.land(engine, LandingTarget(tmp_path / "lake", mode="current"), WINDOWS["windows"])
    assert TOLD[name] in str(raised.value)


ATTACH_NEW = "ALTER TABLE {0} ATTACH PARTITION {0}_1 FOR VALUES FROM (110) TO (150)"
UNCHOSEN = {
    "by transactions": ["CREATE TABLE {0}_1 (LIKE {0})", "INSERT INTO {0}_1 VALUES (120, 'a', 'b')", ATTACH_NEW],
    "by one": [
        "BEGIN; CREATE TABLE {0}_1 (LIKE {0}); INSERT INTO {0}_1 VALUES (120, 'a', 'b'); " + ATTACH_NEW + "; COMMIT"
    ],
    "below": [
        "CREATE TABLE {0}_1 (LIKE {0}) PARTITION BY RANGE (id)",
        "BEGIN; CREATE TABLE {0}_2 (LIKE {0}); INSERT INTO {0}_2 VALUES (120, 'a', 'b'); "
        "ALTER TABLE {0}_1 ATTACH PARTITION {0}_2 FOR VALUES FROM (110) TO (150); " + ATTACH_NEW + "; COMMIT",
    ],
    "was there": [ATTACH],
}
"""A table gets rows while it is not chosen, as only the root is, and is attached."""


@pytest.mark.parametrize("name", UNCHOSEN)
def test_rows_of_a_table_that_is_not_chosen_are_told_of(
    engine: Engine, source: Source, tmp_path: Path, name: str
) -> None:
    root = f"lone_{list(UNCHOSEN).index(name)}"
    moved = Moved(source, root, ["INSERT INTO {0} VALUES (1, 'x', 'y')", *UNCHOSEN[name]])
    why = "was there before" if name == "was there" else "had changes before it was attached, and --tables did not"
    with pytest.raises(LakeError, match=why) as raised:
        moved.land(engine, LandingTarget(tmp_path / "lake", mode="current"), WINDOWS["one window"], f"public.{root}")
    assert raised.value.lsn


def test_a_partition_without_rows_needs_no_choice(engine: Engine, source: Source, tmp_path: Path) -> None:
    """As they are made beforehand: LIKE the root, attached by the same transaction, and filled through the root."""
    work = [
        "BEGIN; CREATE TABLE {0}_1 (LIKE {0}); " + ATTACH_NEW + "; COMMIT",
        "INSERT INTO {0} VALUES (120, 'a', 'b')",
        "CREATE TABLE {0}_2 (LIKE {0})",
        "ALTER TABLE {0} ATTACH PARTITION {0}_2 FOR VALUES FROM (150) TO (180)",
        "BEGIN; INSERT INTO {0}_2 VALUES (160, 'a', 'b'); ALTER TABLE {0} DETACH PARTITION {0}_2; "
        "INSERT INTO {0}_2 VALUES (1, 'a', 'b'); COMMIT",
    ]
    moved = Moved(source, "empty", work)
    target = LandingTarget(tmp_path / "lake", mode="current")
    moved.land(engine, target, WINDOWS["one window"], "public.empty")
    moved.moments[-1][1].pop("empty_2")
    moved.moments[-1][1].pop("empty_apart")
    moved.require_same(target)
