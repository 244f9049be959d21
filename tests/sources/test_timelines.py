"""A promotion, and an old primary that went on: the history that is chosen, and what exists only off it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bad_input.servers import copy_wal, make_slot, peek, run, small_server, value
from bad_input.standbys import base_backup, catch_up, standby_of
from headwater.pg.lsn import Lsn
from headwater.pipeline.windows.abandoned_commits import LostCommits, lost_commits
from headwater.source.data_source import HeadwaterDataSource
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.place import WalSource
from headwater.wal.segments.segment_files import segment_name
from slots.conftest import Command, done, lsns, refused
from sources.archives import ARCHIVES

pytestmark = [pytest.mark.server, pytest.mark.spark]


@dataclass(frozen=True)
class Promotion:
    """The files and lines that two servers left.

    Attributes:
        backup: base backup of the primary.
        old: ``pg_wal`` of the primary, which went on by itself; new: of the promoted standby, which has the segment of
            the switch point under the old timeline's name as well, up to there: the old one's is to be named first.
        common: lines of a slot up to the promotion, LSN, xid and data; old_lines, new_lines: its lines, and those of a
            slot of the promoted server, for what came then.
    """

    backup: Path
    old: Path
    new: Path
    common: bytes
    old_lines: bytes
    new_lines: bytes


@pytest.fixture(scope="module")
def promotion(tmp_path_factory: pytest.TempPathFactory) -> Promotion:
    directory = tmp_path_factory.mktemp("promotion")
    with small_server(16) as primary:
        run(primary, "CREATE TABLE t (id int PRIMARY KEY, a text)", "SELECT pg_switch_wal()")
        backup = base_backup(primary, directory / "backup")
        make_slot(primary, "s")
        with standby_of(primary, backup) as standby:
            run(primary, *(f"INSERT INTO t VALUES ({number}, 'common')" for number in range(10)))
            catch_up(standby, value(primary, "SELECT pg_current_wal_flush_lsn()"))
            common = peek(primary, "s")
            run(standby, "SELECT pg_promote()")
            make_slot(standby, "s")
            run(standby, *(f"INSERT INTO t VALUES ({number}, 'new')" for number in range(10, 15)))
            new_lines = peek(standby, "s")
            standby.stop()
            new = copy_wal(standby, directory / "new")
        run(primary, *(f"INSERT INTO t VALUES ({number}, 'old')" for number in range(10, 17)))
        run(primary, "INSERT INTO t SELECT g, repeat('old', 100) FROM generate_series(100, 9999) g")
        run(primary, "BEGIN; INSERT INTO t VALUES (50, 'taken back'); ROLLBACK")
        old_lines = peek(primary, "s")[len(common) :]
        primary.stop()
        old = copy_wal(primary, directory / "old")
    return Promotion(backup, old, new, common, old_lines, new_lines)


def both(promotion: Promotion) -> list[str | Path]:
    return ["--wal", promotion.old, "--wal", promotion.new, "--catalog", promotion.backup, "--with-lsn", "-q"]


def test_commits_of_the_abandoned_timeline_are_told_of(command: Command, promotion: Promotion) -> None:
    begin = str(Lsn(lsns(promotion.common)[0]))
    status, out, errors = command("decode", *both(promotion), "--start", begin)
    assert status == 0
    assert out == promotion.common + promotion.new_lines
    commits = [line for line in promotion.old_lines.splitlines() if b"COMMIT" in line]
    ends = lsns(b"\n".join(commits))
    assert len(commits) == 8
    assert "8 transactions that committed from " in errors
    assert " on timeline 1, which was left at " in errors
    first, last = (Lsn.parse(errors.split(word)[1].split()[0]) for word in ("committed from ", " to "))
    assert ends[-2] < last < ends[-1]
    assert lsns(promotion.old_lines)[0] < first < ends[0]
    left = errors.split("left at ")[1].split(",")[0]
    assert f"--timeline 1 --start {left}" in errors


def test_they_are_told_of_once(command: Command, promotion: Promotion, tmp_path: Path) -> None:
    """By the call that passes the place where the timeline was left; a later one has begun after it."""
    words = "that committed from "
    making = ["slot", "create", tmp_path / "slot", *both(promotion)[:6], "--database", "postgres"]
    assert command(*making)[2] == ""
    calls = [command("decode", "--slot", tmp_path / "slot", "-q") for _ in range(2)]
    assert [(status, errors.count(words)) for status, _, errors in calls] == [(0, 1), (0, 0)]
    landing = ["land", *both(promotion)[:6], "--database", "postgres", "--to", tmp_path / "lake", "-q"]
    runs = [command(*landing) for _ in range(2)]
    assert [(status, errors.count(words)) for status, _, errors in runs] == [(0, 1), (0, 0)]


def test_the_abandoned_timeline_is_decoded_when_asked_for(command: Command, promotion: Promotion) -> None:
    begin = lsns(promotion.old_lines)[0]
    status, out, errors = command("decode", *both(promotion), "--timeline", "1", "--start", str(Lsn(begin)))
    assert (status, errors) == (0, "")
    assert out == promotion.old_lines
    places = both(promotion)[:4]
    dumped = done(command, "waldump", *places, "--timeline", "1", "--start", str(Lsn(begin)))
    assert dumped == done(command, "waldump", "--wal", promotion.old, "--start", str(Lsn(begin)))
    assert dumped != done(command, "waldump", *places, "--start", str(Lsn(begin)))


def test_a_window_that_ends_before_the_promotion_has_nothing_to_tell(command: Command, promotion: Promotion) -> None:
    first, last = lsns(promotion.common)[0], lsns(promotion.common)[-1]
    status, out, errors = command("decode", *both(promotion), "--start", str(Lsn(first)), "--end", str(Lsn(last)))
    assert (status, errors) == (0, "")
    assert promotion.common.startswith(out)


def test_a_history_without_wal_of_its_last_timeline_is_told_of(
    command: Command, promotion: Promotion, tmp_path: Path
) -> None:
    """A server archives its history file before the first segment of its timeline."""
    (history,) = promotion.new.glob("*.history")
    shutil.copy(history, tmp_path)
    places = ["--wal", promotion.old, "--wal", tmp_path, "--catalog", promotion.backup]
    first, last = str(Lsn(lsns(promotion.common)[0])), str(Lsn(lsns(promotion.old_lines)[-1]))
    for end in ([], ["--end", last]):
        status, out, errors = command("decode", *places, "--with-lsn", "-q", "--start", first, *end)
        assert (status, out) == (0, promotion.common)
        assert "8 transactions that committed from " in errors


def test_slots_of_either_timeline(command: Command, promotion: Promotion, tmp_path: Path) -> None:
    words = ["--wal", promotion.old, "--wal", promotion.new, "--catalog", promotion.backup, "--database", "postgres"]
    done(command, "slot", "create", tmp_path / "old", *words, "--timeline", "1")
    assert done(command, "decode", "--slot", tmp_path / "old", "--with-lsn", "-q").endswith(promotion.old_lines)
    errors = refused(command, "decode", "--slot", tmp_path / "old", "--timeline", "2")
    assert "the state is of timeline 1 at" in errors
    done(command, "slot", "create", tmp_path / "new", *words)
    assert done(command, "decode", "--slot", tmp_path / "new", "--with-lsn", "-q").endswith(promotion.new_lines)


@pytest.mark.slow
def test_the_timeline_of_the_data_source(spark: Any, promotion: Promotion) -> None:
    spark.dataSource.register(HeadwaterDataSource)
    given = {"path": f"{promotion.old}\n{promotion.new}", "catalog": str(promotion.backup), "database": "postgres"}
    counts = {}
    for timeline in ("1", "2"):
        rows = spark.read.format("headwater").options(**given, timeline=timeline, tables="public.t").load()
        counts[timeline] = {row.a: row["count"] for row in rows.groupBy("a").count().collect()}
    assert counts["1"] == {"common": 10, "old": 7, "old" * 100: 9900}
    assert counts["2"] == {"common": 10, "new": 5}


def test_a_timeline_that_is_not_there(command: Command, promotion: Promotion) -> None:
    errors = refused(command, "decode", *both(promotion), "--timeline", "3")
    assert "no WAL segment of timeline 3 or its parents in directory" in errors
    assert "00000003.history is missing as well" in errors


def test_an_archive_of_both_servers(promotion: Promotion, tmp_path: Path) -> None:
    """One archive that both wrote to; the abandoned segments are found in any form."""
    archive = tmp_path / "one"
    shutil.copytree(promotion.new, archive)
    shutil.copytree(promotion.old, archive, dirs_exist_ok=True)
    apart = _lost(WalDirectory.scan(WalSource.of(promotion.old, promotion.new)))
    assert _lost(WalDirectory.scan(archive)) == apart
    assert _lost(WalDirectory.scan(ARCHIVES["pgBackRest.zst"](archive, tmp_path / "repo"))) == apart
    assert [lost.count for lost in apart] == [8]
    last = WalDirectory.scan(promotion.old).segments[-1]
    for number in (1, 2):  # as a server recycles segments ahead
        first = WalDirectory.scan(promotion.old).segments[0].path
        shutil.copy(first, archive / segment_name(1, last.number + number, 1 << 20))
    assert _lost(WalDirectory.scan(archive)) == apart
    assert _lost(WalDirectory.scan(archive, timeline=1)) == []


def test_damage_on_the_abandoned_timeline_is_told_and_no_obstacle(
    command: Command, promotion: Promotion, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    shutil.copytree(promotion.old, old)
    whole = _lost(WalDirectory.scan(WalSource.of(old, promotion.new)))[0]
    path = WalDirectory.scan(old).segment_at(whole.last)
    assert path is not None
    with open(path.path, "r+b") as file:
        file.seek(0)
        file.write(bytes(8192))
    damaged = _lost(WalDirectory.scan(WalSource.of(old, promotion.new)))[0]
    assert (damaged.is_all, damaged.count) == (False, 0)
    words = ["--wal", old, "--wal", promotion.new, "--catalog", promotion.backup, "--with-lsn", "-q"]
    status, out, errors = command("decode", *words, "--start", str(Lsn(lsns(promotion.common)[0])))
    assert (status, out) == (0, promotion.common + promotion.new_lines)
    assert "whether anything committed on timeline 1, which was left at " in errors
    assert "but WAL goes on at" in errors


def _lost(wal: WalDirectory) -> list[LostCommits]:
    return [lost_commits(abandoned) for abandoned in wal.abandoned]
