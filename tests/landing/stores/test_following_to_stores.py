"""Landing to a store that goes on, keeps tables up, and reloads one: over a store that fails, and killed."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from arrow_types import values_of
from bad_input.running_command import Running, running
from headwater.lakes.landing_target import COPY_ON_WRITE, MERGE_ON_READ, LandingTarget
from headwater.lakes.paused import PausedTable
from headwater.lakes.target_directory import Lake
from headwater.landing.landing_modes import CHANGELOG, CURRENT
from landing.following import AT_ONCE, Source, end, running_source
from landing.stores.faults import faults
from landing.stores.proxy import PASS, StoreProxy
from landing.stores.server import LakeStore
from landing.stores.targets import FORMATS, place, read, target_of

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.usefixtures("signed")]

MAINTAINED = ("--maintain", "1s", "--maintain-every", "0.2")


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    with running_source(tmp_path) as known:
        yield known


def of_iceberg(target: LandingTarget) -> list[str]:
    if target.iceberg_catalog is None:
        return []
    return ["--iceberg-catalog", target.iceberg_catalog, "--namespace", str(target.namespace)]


def words(source: Source, backup: Path, target: LandingTarget, proxy: StoreProxy) -> list[object]:
    where = ["--wal", source.server.wal_directory, "--catalog", backup, "--database", "postgres", "--to", target.where]
    how = ["--format", target.format, "--mode", target.mode, "--write-mode", target.write_mode, *of_iceberg(target)]
    return ["land", *where, *how, "--storage-option", f"endpoint_url={proxy.endpoint}"]


@contextmanager
def following(source: Source, target: LandingTarget, proxy: StoreProxy, directory: Path) -> Iterator[Running]:
    arguments = [*words(source, source.backup, target, proxy), "--follow", *AT_ONCE]
    arguments += MAINTAINED if target.mode == CHANGELOG else ()
    with running(*arguments, directory=directory) as process:
        yield process


def ids(target: LandingTarget) -> list[int]:
    rows = read(target, "public.t")
    return [] if rows is None else sorted(values_of(rows["id"]))


def has(target: LandingTarget, number: int) -> bool:
    return number in ids(target)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("mode", [CHANGELOG, CURRENT])
def test_what_a_server_writes_lands_while_the_store_fails(
    source: Source, store: LakeStore, proxy: StoreProxy, tmp_path: Path, form: str, mode: str
) -> None:
    """The run is killed in between, and goes on; change tables are kept up meanwhile."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    write_mode = MERGE_ON_READ if mode == CURRENT else COPY_ON_WRITE
    target = target_of(place(store, f"followed-{form}-{mode}-{seed}"), form, mode, write_mode)
    proxy.choose = faults(seed, 20)
    source.run("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 1000) i")
    for part in range(3):
        with following(source, target, proxy, tmp_path) as process:
            for number in range(1001 + 2 * part, 1003 + 2 * part):
                source.run(f"INSERT INTO t VALUES ({number}, 'y')")
                process.until(partial(has, target, number))
            if part == 1:
                source.run("INSERT INTO t VALUES (2000, 'z')")
                os.kill(process.process.pid, signal.SIGKILL)
                process.process.wait()
            else:
                end(process)
    assert ids(target) == [*range(1, 1007), 2000]
    proxy.choose = lambda *_: PASS
    with running(*words(source, source.backup, target, proxy), directory=tmp_path) as process:
        assert process.process.wait() == 0, process.standard_error()
    assert ids(target) == [*range(1, 1007), 2000]


@pytest.mark.parametrize(
    ("form", "mode", "write_mode"),
    [
        ("parquet", CURRENT, COPY_ON_WRITE),
        ("parquet", CURRENT, MERGE_ON_READ),
        ("delta", CURRENT, MERGE_ON_READ),
        ("iceberg", CURRENT, MERGE_ON_READ),
    ],
)
def test_a_table_is_reloaded_while_the_store_fails(
    source: Source, store: LakeStore, proxy: StoreProxy, tmp_path: Path, form: str, mode: str, write_mode: str
) -> None:
    target = target_of(place(store, f"reloaded-{form}-{mode}-{write_mode}"), form, mode, write_mode)
    source.run("INSERT INTO t SELECT i, 'x' FROM generate_series(1, 500) i", "SELECT pg_switch_wal()")
    proxy.choose = faults(11, 20)
    with running(*words(source, source.backup, target, proxy), directory=tmp_path) as process:
        assert process.process.wait() == 0, process.standard_error()
    with Lake(target) as lake:
        oid = lake.names.holder("public.t")
        assert oid is not None
        lake.paused.add(PausedTable(oid, "public.t", "for a test"), lake.progress.kept_state())
    source.run("DELETE FROM t WHERE id <= 100")
    source.server.stop()
    newer = source.server.copy_data_directory(tmp_path / "newer")
    source.server.start()
    source.run("INSERT INTO t VALUES (1000, 'y')", "UPDATE t SET a = 'z' WHERE id = 200", "SELECT pg_switch_wal()")
    asked = ["lake", "reload", target.where, "public.t", "--wal", source.server.wal_directory, "--catalog", newer]
    asked += ["--storage-option", f"endpoint_url={proxy.endpoint}"]
    others = words(source, source.backup, target, proxy)
    # The status of a run is 3 while a table stays paused.
    for command, status in ((others, 3), (asked, 0), (others, 0)):
        with running(*command, directory=tmp_path) as process:
            output = process.standard_error()
            assert process.process.wait() == status, output
    assert ids(target) == [*range(101, 501), 1000]
    rows = read(target, "public.t")
    assert rows is not None
    assert {row["id"]: row["a"] for row in rows.to_pylist()}[200] == "z"
