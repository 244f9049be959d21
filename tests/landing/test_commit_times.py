"""Commit times that are no clock's: an origin gives its own, and one that goes back, or that nothing can hold."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater.errors import LakeError
from headwater.jobs.engine import Engine
from headwater.lakes.as_of_view import read_as_of
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.parquet_table import read_parquet_table
from headwater.lakes.resolved_log import resolved_states
from landing.existing_rows import landed, run, server_of

pytestmark = [pytest.mark.server]

NEXT_WINDOW = "SELECT pg_switch_wal()"
LAST = datetime.max.replace(tzinfo=UTC)


def insert(id: int, time: str) -> str:
    return f"BEGIN;\nSELECT pg_replication_origin_xact_setup('0/1', '{time}');\nINSERT INTO a VALUES ({id});\nCOMMIT"


def test_a_time_before_which_something_has_not_committed_is_told(engine: Engine, tmp_path: Path) -> None:
    """The latest time up to a window's end counts, not its last commit's; infinity is later than any."""
    target = LandingTarget(tmp_path / "lake")
    with server_of(16) as server:
        with server.connect() as connection:
            run(connection, "CREATE TABLE a (id int PRIMARY KEY)")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        with server.connect() as connection:
            connection.autocommit = True
            origin = "SELECT pg_replication_origin_create('up');\nSELECT pg_replication_origin_session_setup('up')"
            run(connection, f"{origin};\n{insert(1, '2022-01-01')};\n{insert(2, '2020-01-01')};\n{NEXT_WINDOW}")
            landed(engine, server.wal_directory, backup, target)
            with pytest.raises(LakeError, match="nothing has been resolved up to 2021"):
                read_as_of(target.place, time=datetime(2021, 1, 1, tzinfo=UTC))
            then = read_as_of(target.place, time=datetime(2023, 1, 1, tzinfo=UTC))
            times = ["infinity", "-infinity", "294276-01-01", "2000-01-01 00:00:00+00"]
            run(connection, ";\n".join(insert(id, time) for id, time in enumerate(times, 3)) + f";\n{NEXT_WINDOW}")
        landed(engine, server.wal_directory, backup, target)
    rows = read_parquet_table(target.place / "public.a").sort_by("id").to_pylist()
    assert [row["_commit_time"] for row in rows[2:]] == [None, None, None, datetime(2000, 1, 1, tzinfo=UTC)]
    now = read_as_of(target.place)
    assert (now.commit_time, now.lsn > then.lsn) == (LAST, True)
    assert read_as_of(target.place, time=datetime(9999, 1, 1, tzinfo=UTC)) == then


def test_a_window_without_changes_has_no_time(engine: Engine, tmp_path: Path) -> None:
    """DDL changes no row: a window of nothing else has the time of the last that did, and none before the first."""
    target = LandingTarget(tmp_path / "lake")
    with server_of(16) as server:
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        with server.connect() as connection:
            connection.autocommit = True
            windows = ("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)", "ALTER TABLE a ADD b int")
            for statement in windows:
                run(connection, f"{statement};\n{NEXT_WINDOW}")
                landed(engine, server.wal_directory, backup, target)
    (row,) = read_parquet_table(target.place / "public.a").to_pylist()
    times = [state.commit_time for state in resolved_states(target.place / "_headwater")]
    assert times[0] is None
    assert set(times) == {None, row["_commit_time"]}
    assert times[-1] == row["_commit_time"]
