"""Mirrors whose landing is killed at its commits, and begun again: each change is in them once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.demo.embedded_postgres import find_programs
from headwater.sinks.lake import LandingTarget
from landing.test_mirrors import SEGMENT, Log, require_equal, worked
from oracle.killing import Killer, has

pytestmark = [pytest.mark.server]

LOGS = {"parquet": "lake/*/_headwater/*.json", "delta": "lake/*/_delta_log/*.json"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    yield from worked(find_programs(16), tmp_path_factory.mktemp("killed"), 3, ddl=False, steps=300)


@pytest.mark.parametrize(("format", "mode"), [("parquet", "current"), ("delta", "history")])
def test_a_killed_run_is_begun_again(log: Log, tmp_path: Path, format: str, mode: str) -> None:
    killer, target = Killer(tmp_path), LandingTarget(tmp_path / "lake", format, mode=mode)
    flags = ("--wal", log.wal, "--catalog", log.backup, "--database", "postgres", "--to", target.place, "--quiet")
    command = ("land", *flags, "--format", format, "--mode", mode, "--window-bytes", str(SEGMENT))
    staged = has(3, "lake/_headwater/staged/*/*.parquet")
    commits = [has(count, LOGS[format]) for count in (3, 9)]
    kills = [killer.kills(moment, *command) for moment in (staged, *commits)]
    assert sum(kills) >= 2
    killer.wait()
    assert not killer.kills(lambda _: False, *command)
    require_equal(log, target)
    if mode == "history":
        for lsn in log.moments:
            require_equal(log, target, lsn)
