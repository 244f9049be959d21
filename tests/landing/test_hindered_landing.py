"""Landing that is hindered: a full disk, a read-only target, somebody else who writes. It says so, and goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy.exc import OperationalError

from headwater.base.overrides import override
from headwater.errors import LakeConflictError, LakeError, SlotError
from headwater.jobs.engine import Engine
from headwater.lakes.iceberg_catalog import own_catalog
from headwater.lakes.iceberg_table import COMMIT_LSN
from headwater.lakes.landing_target import FORMATS, LandingTarget
from headwater.landing.landing_modes import CHANGELOG, CURRENT, MODES
from headwater.landing.landing_watch import LandedWindow, LandingWatch
from landing.work import Work, read

pytestmark = [pytest.mark.server]

DAILY = [("parquet", CHANGELOG), ("delta", CHANGELOG)]
SLOW = [(form, mode) for form in FORMATS for mode in MODES if (form, mode) not in DAILY]
KINDS = [*DAILY, *(pytest.param(*kind, marks=pytest.mark.slow) for kind in SLOW)]
NO_ROOM = r"No space left on device|disk is full"
"""What the system says, and what the database of a catalog."""


@dataclass(frozen=True)
class Disk:
    """A file system of its own."""

    place: Path

    def become(self, *options: str) -> None:
        """Mount it otherwise."""
        subprocess.run(["mount", "-o", ",".join(["remount", *options]), str(self.place)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a file system of its own needs root")
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize(("form", "mode"), KINDS)
@pytest.mark.parametrize("kilobytes", [300, *(pytest.param(size, marks=pytest.mark.slow) for size in (700, 1100))])
def test_a_full_disk(engine: Engine, work: Work, disk: Disk, form: str, mode: str, kilobytes: int) -> None:
    """Wherever it is that no room is left: in a task, in a commit, or in the state behind all tables."""
    disk.become(f"size={kilobytes}k")
    target = LandingTarget(disk.place / "lake", form, mode=mode)
    with pytest.raises((LakeError, SlotError), match=NO_ROOM):
        work.land(engine, target)
    work.check_so_far(target)
    disk.become("size=100m")
    work.land(engine, target)
    work.check_whole(target)


@pytest.mark.parametrize(("form", "mode"), KINDS)
def test_a_target_that_is_read_only(engine: Engine, work: Work, disk: Disk, form: str, mode: str) -> None:
    disk.become("size=100m")
    target = LandingTarget(disk.place / "lake", form, mode=mode)
    disk.become("ro")
    with pytest.raises(LakeError, match="Read-only file system"):
        work.land(engine, target)
    disk.become("rw")
    with pytest.raises(InterruptedError):
        work.land(engine, target, OnceBehindTheFirst(interrupt))
    disk.become("ro")
    with pytest.raises(LakeError, match="Read-only file system"):
        work.land(engine, target)
    work.check_so_far(target)
    disk.become("rw")
    work.land(engine, target)
    work.check_whole(target)


def interrupt() -> None:
    raise InterruptedError


class OnceBehindTheFirst(LandingWatch):
    """Does something when the first window has landed."""

    def __init__(self, do: Callable[[], None]) -> None:
        self._do: Callable[[], None] | None = do

    def passed(self, window: LandedWindow) -> None:
        do, self._do = self._do, None
        if do is not None and window.rows:
            do()
        elif do is not None:
            self._do = do


def test_somebody_else_commits_to_a_parquet_table(engine: Engine, work: Work, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake")
    log = target.place / "public.a" / "_headwater"

    def commit() -> None:
        last = max(log.glob("*.json"))
        (log / f"{int(last.stem) + 1:020}.json").write_text(last.read_text())

    with pytest.raises(LakeConflictError, match=r"commit \d+ was made by somebody else"):
        work.land(engine, target, OnceBehindTheFirst(commit))
    max(log.glob("*.json")).unlink()
    work.check_so_far(target)
    work.land(engine, target)
    work.check_whole(target)


def test_somebody_else_lands_in_a_delta_table(engine: Engine, work: Work, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake", "delta")
    place = str(target.place / "public.a")

    def commit() -> None:
        table = DeltaTable(place)
        source = next(
            action["txn"]["appId"]
            for path in sorted((target.place / "public.a" / "_delta_log").glob("*.json"))
            for action in actions_of(path)
            if "txn" in action
        )
        properties = CommitProperties(app_transactions=[Transaction(source, 1 << 40)])
        schema = table.schema()
        table.create_write_transaction([], "append", schema, [], commit_properties=properties)

    with pytest.raises(LakeConflictError, match="the table has come to 100/0 meanwhile"):
        work.land(engine, target, OnceBehindTheFirst(commit))


def test_somebody_else_tidies_a_delta_table(engine: Engine, work: Work, tmp_path: Path) -> None:
    """A commit that changes no row does not hinder."""
    target = LandingTarget(tmp_path / "lake", "delta")

    class Tidy(LandingWatch):
        @override
        def passed(self, window: LandedWindow) -> None:
            if read(target, "public.a") is not None:
                DeltaTable(str(target.place / "public.a")).optimize.compact()

    work.land(engine, target, Tidy())
    work.check_whole(target)


def test_somebody_else_lands_in_an_iceberg_table(engine: Engine, work: Work, tmp_path: Path) -> None:
    target = LandingTarget(tmp_path / "lake", "iceberg")

    def commit() -> None:
        with closing(own_catalog(target.place)) as catalog:
            table = catalog.load_table(("public", "a"))
            with (
                table.transaction() as transaction,
                transaction.update_snapshot({COMMIT_LSN: "100/0"}).fast_append(),
            ):
                pass

    with pytest.raises(LakeConflictError, match="the table has come to 100/0 meanwhile"):
        work.land(engine, target, OnceBehindTheFirst(commit))


@pytest.mark.parametrize("mode", [CHANGELOG, pytest.param(CURRENT, marks=pytest.mark.slow)])
def test_somebody_else_rewrites_an_iceberg_table(engine: Engine, work: Work, tmp_path: Path, mode: str) -> None:
    """Between two windows; its files are other ones then, its rows the same."""
    target = LandingTarget(tmp_path / "lake", "iceberg", mode=mode)

    def rewrite() -> None:
        with closing(own_catalog(target.place)) as catalog:
            table = catalog.load_table(("public", "a"))
            table.overwrite(table.scan().to_arrow())

    work.land(engine, target, OnceBehindTheFirst(rewrite))
    work.check_whole(target)


@pytest.mark.parametrize("mode", [CHANGELOG, pytest.param(CURRENT, marks=pytest.mark.slow)])
def test_somebody_else_writes_all_the_time(engine: Engine, work: Work, tmp_path: Path, mode: str) -> None:
    """Whoever commits second to an Iceberg table is told; what was committed stays."""
    target, over = LandingTarget(tmp_path / "lake", "iceberg", mode=mode), Event()
    with pytest.raises(InterruptedError):
        work.land(engine, target, OnceBehindTheFirst(interrupt))
    other = Thread(target=keep_committing, args=(target, over))
    other.start()
    try:
        for _ in range(3):
            with suppress(LakeConflictError, LakeError):
                work.land(engine, target)
            work.check_so_far(target)
    finally:
        over.set()
        other.join()
    work.land(engine, target)
    work.check_whole(target)


def keep_committing(target: LandingTarget, over: Event) -> None:
    """Change properties of a table as another program would, until it is over."""
    number = 0
    with closing(own_catalog(target.place)) as catalog:
        while not over.is_set():
            number += 1
            with (
                suppress(CommitFailedException, OperationalError),
                catalog.load_table(("public", "b")).transaction() as own,
            ):
                own.set_properties({"other": str(number)})


def actions_of(path: Path) -> list[dict[str, dict[str, str]]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
