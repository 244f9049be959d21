"""``headwater land --follow`` on the WAL of a server that runs: all of it lands, and it ends when it is told to."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from arrow_types import values_of
from bad_input.running_command import running
from bad_input.servers import conninfo_of
from headwater.lakes.parquet_table import read_parquet_table
from landing.ducklake_lakes import has_table, read_ducklake
from landing.following import Source, end, following, running_source, scraped, until_said

pytestmark = [pytest.mark.server]

BEHIND_A_SEGMENT = 40
"""Inserts of a kilobyte and more after each of which a segment of a megabyte is not yet left."""


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    with running_source(tmp_path) as known:
        yield known


def ids(target: Path, form: str = "parquet") -> list[int]:
    """Read the ids of all rows that have landed, as a reader of the table sees them."""
    place = target / "public.t"
    if form == "delta":
        return values_of(DeltaTable(str(place)).to_pyarrow_table()["id"]) if (place / "_delta_log").exists() else []
    if form == "ducklake":
        return values_of(read_ducklake(place)["id"]) if has_table(place) else []
    logs = place / "_headwater"
    return values_of(read_parquet_table(place)["id"]) if logs.exists() and any(logs.glob("*.json")) else []


def has_landed(number: int, target: Path, form: str) -> bool:
    return number in ids(target, form)


@pytest.mark.parametrize("form", ["parquet", pytest.param("delta", marks=pytest.mark.slow), "ducklake"])
def test_all_that_a_server_writes_lands(source: Source, tmp_path: Path, form: str) -> None:
    target = tmp_path / "lake"
    source.run("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 4000) i")
    with following(source, source.server.wal_directory, target, form=form) as process:
        process.until(lambda: len(ids(target, form)) == 4000)
        for number in range(4001, 4006):
            source.run(f"INSERT INTO t VALUES ({number}, 'y')")
            process.until(partial(has_landed, number, target, form))
        output = end(process)
    assert sorted(ids(target, form)) == list(range(1, 4006))
    assert re.search(
        r"land: at the end of the log, .* 400[0-5] rows, .*, lag 0 bytes, \d+\.\ds behind its last commit", output
    )
    assert output.splitlines()[-1].startswith("headwater: landed 4005 rows") or "landed 4005 rows" in output
    source.run("INSERT INTO t VALUES (5000, 'z')")
    with following(source, source.server.wal_directory, target, form=form) as process:
        process.until(partial(has_landed, 5000, target, form))
        end(process)
    assert sorted(ids(target, form)) == [*range(1, 4006), 5000]


def test_the_run_receives_the_wal_itself(source: Source, tmp_path: Path) -> None:
    """From the backup's start on, over a restart of the server, and again when it goes on."""
    target, wal, server = tmp_path / "lake", tmp_path / "wal", source.server
    flags = ("--from", conninfo_of(server), "--receive-slot", "lake")
    source.run("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 4000) i")
    with following(source, wal, target, *flags) as process:
        process.until(lambda: len(ids(target)) == 4000)
        server.stop()
        server.start()
        source.run("INSERT INTO t VALUES (4001, 'y')")
        process.until(partial(has_landed, 4001, target, "parquet"))
        output = end(process)
    assert "the connection to the server is lost" in output
    source.run("INSERT INTO t VALUES (4002, 'z')")
    with following(source, wal, target, *flags) as process:
        process.until(partial(has_landed, 4002, target, "parquet"))
        end(process)
    assert sorted(ids(target)) == list(range(1, 4003))


def test_what_comes_meanwhile_is_committed_together(source: Source, tmp_path: Path) -> None:
    """Small transactions are held until there are bytes enough; what is held at the end is left to the next run."""
    target = tmp_path / "lake"
    flags = ("--commit-every", "3600", "--commit-bytes", str(1 << 20))
    with following(source, source.server.wal_directory, target, *flags) as process:
        source.run("INSERT INTO t VALUES (1, 'y')")
        process.until(partial(has_landed, 1, target, "parquet"))
        for number in range(2, 12):
            source.run(f"INSERT INTO t VALUES ({number}, 'y')")
        # The first commit behind the beginning may have had some of them.
        source.run("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(12, 4000) i")
        process.until(partial(has_landed, 4000, target, "parquet"))
        source.run("INSERT INTO t VALUES (4001, 'y')")
        end(process)
    assert sorted(ids(target)) == list(range(1, 4001))
    assert len(list((target / "public.t" / "_headwater").glob("*.json"))) <= 4
    with following(source, source.server.wal_directory, target) as process:
        process.until(partial(has_landed, 4001, target, "parquet"))
        end(process)


def test_a_receiver_that_fails_ends_the_run(source: Source, tmp_path: Path) -> None:
    words = ["land", "--wal", tmp_path / "wal", "--catalog", source.backup, "--to", tmp_path / "lake", "--follow"]
    command = [Path(sys.executable).with_name("headwater"), *words, "--from", f"host={tmp_path}"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "headwater: could not connect to the server: " in done.stderr.splitlines()[-1]


def test_json_and_metrics(source: Source, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    source.run("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 4000) i")
    flags = ("--progress", "json", "--metrics", "127.0.0.1:0", "--window-bytes", str(1 << 20))
    with following(source, source.server.wal_directory, target, *flags) as process:
        address = until_said(process, "headwater: metrics: ").removeprefix("headwater: metrics: ")
        process.until(lambda: len(ids(target)) == 4000)
        source.run("INSERT INTO t VALUES (4001, 'y')")
        process.until(lambda: scraped(address).get('headwater_land_rows_total{table="public.t"}') == 4001)
        process.until(lambda: scraped(address)["headwater_land_lag_bytes"] == 0)
        metrics = scraped(address)
        output = end(process)
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    windows = [event for event in events if event["event"] == "window"]
    assert events[0]["event"] == "begin"
    assert sum(window["window"]["rows"] for window in windows) == windows[-1]["rows"] == 4001
    assert windows[0]["lag_bytes"] > 1 << 20
    assert windows[0]["seconds_left"] > 0
    assert windows[-1]["lag_bytes"] == 0
    assert min(window["delay_seconds"] for window in windows if window["delay_seconds"] is not None) > 0
    assert [window["resolved_lsn"] for window in windows] == [window["window"]["hi"] for window in windows]
    files = list((target / "public.t").glob("*.parquet"))
    assert metrics['headwater_land_files_total{table="public.t"}'] == len(files)
    assert metrics['headwater_land_bytes_total{table="public.t"}'] == sum(path.stat().st_size for path in files)
    assert metrics["headwater_land_windows_total"] == metrics["headwater_land_window_seconds_count"] == len(windows)
    assert metrics["headwater_land_transactions_total"] == 2
    assert metrics["headwater_land_delay_seconds_count"] == 2
    assert metrics["headwater_land_lag_seconds"] == 0
    high, low = (int(part, 16) for part in windows[-1]["resolved_lsn"].split("/"))
    assert metrics["headwater_land_resolved_lsn"] == metrics["headwater_land_wal_end_lsn"] == high << 32 | low
    commits = metrics['headwater_land_commits_total{table="public.t"}']
    # The rows that were there before, which are none, and two windows.
    assert commits == metrics["headwater_land_commit_seconds_count"] == 3


@pytest.mark.slow
def test_an_archive_that_is_still_to_come(source: Source, tmp_path: Path) -> None:
    """Segments come whole: none at first, then a later one before the one before it."""
    wal, target = tmp_path / "archive", tmp_path / "lake"
    wal.mkdir()
    names = [segment_with(source, f"INSERT INTO t VALUES ({number}, 'y')") for number in range(4)]
    written = sorted(path for path in source.server.wal_directory.iterdir() if len(path.name) == 24)
    with following(source, wal, target) as process:
        until_said(process, "waiting for WAL: no WAL segment in directory")
        for path in written:
            if path.name <= names[1]:
                arrive(path, wal)
        process.until(lambda: ids(target) == [0, 1])
        arrive(source.server.wal_directory / names[3], wal)
        until_said(process, "later ones are there")
        arrive(source.server.wal_directory / names[2], wal)
        process.until(lambda: ids(target) == [0, 1, 2, 3])
        end(process)


def segment_with(source: Source, statement: str) -> str:
    """Execute a statement; return the segment in which all its records lie, and nothing of what follows."""
    with source.server.connect() as connection:
        connection.execute(statement.encode())
        row = connection.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone()
    assert row is not None
    return str(row[0])


def arrive(path: Path, archive: Path) -> None:
    part = archive.parent / path.name
    shutil.copy(path, part)
    part.rename(archive / path.name)


@pytest.mark.slow
def test_wal_that_was_recycled(source: Source, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    source.run("INSERT INTO t VALUES (1, 'y')")
    wal = tmp_path / "wal"
    shutil.copytree(source.server.wal_directory, wal, ignore=shutil.ignore_patterns("archive_status", "summaries"))
    with following(source, wal, target) as process:
        process.until(lambda: ids(target) == [1])
        source.run(*["SELECT pg_switch_wal()", "UPDATE t SET a = a || 'z'"] * 4, "SELECT pg_switch_wal()")
        before = {path.name for path in wal.iterdir()}
        for path in wal.iterdir():
            path.unlink()
        for path in sorted(source.server.wal_directory.glob("0000*"))[-3:]:
            if path.name not in before:
                arrive(path, wal)
        output = process.standard_error()
        assert process.process.wait() == 1
    assert re.search(r'headwater: WAL segment "\w{24}" is missing, found \w{24} to \w{24} \(', output)
    assert ids(target) == [1]


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(source: Source, tmp_path: Path) -> None:
    """The first one comes while it lands a window; whatever the second one cuts is landed by the next run."""
    target = tmp_path / "lake"
    source.run("INSERT INTO t SELECT i, repeat('x', 900) FROM generate_series(1, 30000) i")
    with following(source, source.server.wal_directory, target) as process:
        process.until(lambda: any(target.glob("public.t/_headwater/unplaced/*")))
        process.process.send_signal(signal.SIGINT)
        process.process.send_signal(signal.SIGTERM)
        output = process.standard_error()
        assert process.process.wait() in (130, 143, 0), output
    with following(source, source.server.wal_directory, target) as process:
        source.run("INSERT INTO t VALUES (30001, 'y')")
        process.until(lambda: len(ids(target)) == 30001)
        end(process)
    assert sorted(ids(target)) == list(range(1, 30002))


def test_it_is_not_told_where_to_end(tmp_path: Path) -> None:
    flags: tuple[Any, ...] = ("--wal", tmp_path, "--catalog", tmp_path, "--to", tmp_path)
    with running("land", *flags, "--follow", "--end", "0/1", directory=tmp_path) as process:
        assert "--follow goes on for ever" in process.standard_error()
        assert process.process.wait() == 2


@pytest.mark.slow
def test_what_is_read_is_what_was_landed(source: Source, tmp_path: Path) -> None:
    """Half of the work is done by the time that it begins, in one transaction that ends after it."""
    target = tmp_path / "lake"
    with source.server.connect() as connection, connection.transaction():
        connection.execute("INSERT INTO t VALUES (1, 'y')")
        with following(source, source.server.wal_directory, target) as process:
            source.run("INSERT INTO t VALUES (2, 'y')")
            process.until(lambda: ids(target) == [2])
            connection.execute("INSERT INTO t VALUES (3, 'y')")
            connection.execute("COMMIT")
            process.until(lambda: ids(target) == [2, 1, 3])
            end(process)
            connection.execute("BEGIN")
    rows: pa.Table = read_parquet_table(target / "public.t")
    assert rows["_change_type"].to_pylist() == ["insert"] * 3
