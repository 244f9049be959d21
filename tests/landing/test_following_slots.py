"""A slot that is followed, and landing that is killed: nothing lost, nothing twice, and confirmed only then."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

from bad_input.running_command import Running, running
from headwater.lakes.landing_target import NEVER, LandingTarget, load_object, own_directory
from headwater.landing.landing_modes import CHANGELOG, CURRENT
from headwater.landing.slot_landing import SlotRequest, land_slot
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from headwater.remote_slots.slot_address import SlotAddress
from headwater.remote_slots.slot_stream import SlotStream
from landing.following import AT_ONCE, end
from landing.killed_landing import DRIVER
from landing.killed_landing import NEVER as NO_STEP
from landing.mirrors import has_landed, read_table
from landing.slot_sources import PUBLICATION, landed_from, slot_uri

pytestmark = [pytest.mark.server]

SETUP = f"""
CREATE TABLE a (id int PRIMARY KEY, t text);
CREATE TABLE b (id int PRIMARY KEY, n int);
CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES;
"""
ORDER: list[tuple[str, Any]] = [(name, "ascending") for name in ("_commit_lsn", "_lsn", "_seq", "_change_type")]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False) as running_server:
        run(running_server, SETUP)
        yield running_server


def run(server: EmbeddedPostgres, statements: str) -> None:
    with server.connect() as connection:
        for statement in filter(None, map(str.strip, statements.split(";\n"))):
            connection.execute(statement.encode())


def make_slot(server: EmbeddedPostgres, name: str) -> None:
    with server.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])


def confirmed(server: EmbeddedPostgres, slot: str) -> int:
    return lsn_of(server, slot, "confirmed_flush_lsn")


def restart_lsn(server: EmbeddedPostgres, slot: str) -> int:
    return lsn_of(server, slot, "restart_lsn")


def lsn_of(server: EmbeddedPostgres, slot: str, column: str) -> int:
    query = f"SELECT {column}::text FROM pg_replication_slots WHERE slot_name = %s"
    with server.connect() as connection:
        ((lsn,),) = connection.execute(query, [slot]).fetchall()
    return int(Lsn.parse(lsn))


def reached(target: LandingTarget) -> int:
    return int(Lsn.parse(load_object(own_directory(target.place) / "slot.json")["reached"]))


def arguments(server: EmbeddedPostgres, slot: str, target: LandingTarget) -> list[object]:
    words: list[object] = ["land", "--wal", slot_uri(server, slot), "--to", target.place, "--format", target.format]
    return [*words, "--mode", target.mode, "--snapshot", NEVER]


def rows(target: LandingTarget, table: str) -> list[tuple[Any, ...]]:
    place = target.place / f"public.{table}"
    if not has_landed(place, target.format):
        return []
    read: pa.Table = read_table(place, target.format)
    if target.mode == CHANGELOG:
        read = read.sort_by(ORDER).select([*(name for name, _ in ORDER), *read.column_names[-2:]])
    else:
        read = read.select(read.column_names[-2:]).sort_by("id")
    return [tuple(row.values()) for row in read.to_pylist()]


def has(target: LandingTarget, table: str, count: int) -> bool:
    return len(rows(target, table)) == count


def test_a_slot_is_followed_over_a_restart_of_the_server(server: EmbeddedPostgres, tmp_path: Path) -> None:
    make_slot(server, "followed")
    target = LandingTarget(tmp_path / "lake", "delta", mode=CURRENT, snapshot=NEVER)
    with running(*arguments(server, "followed", target), "--follow", *AT_ONCE, directory=tmp_path) as process:
        run(server, "INSERT INTO a SELECT i, 'x' FROM generate_series(1, 500) i;\nDELETE FROM a WHERE id > 400;\n")
        process.until(partial(has, target, "a", 400))
        assert confirmed(server, "followed") <= reached(target)
        server.stop()  # which waits for the stream's end
        server.start()
        run(server, "UPDATE a SET t = 'y' WHERE id <= 10;\nINSERT INTO b VALUES (1, 2);\n")
        process.until(partial(has, target, "b", 1))
        assert sum(text == "y" for _, text in rows(target, "a")) == 10
        output = end(process)
    assert "trying again" in output
    assert "Traceback" not in output
    with server.connect() as connection:
        expected = connection.execute("SELECT * FROM a ORDER BY id").fetchall()
        connection.execute("TRUNCATE a, b")
    assert rows(target, "a") == expected
    assert confirmed(server, "followed") <= reached(target)


@pytest.mark.slow
def test_what_comes_meanwhile_is_committed_together(server: EmbeddedPostgres, tmp_path: Path) -> None:
    make_slot(server, "held")
    target = LandingTarget(tmp_path / "lake", snapshot=NEVER)
    pace = ("--commit-every", "3600", "--commit-bytes", "100000")
    with running(*arguments(server, "held", target), "--follow", *pace, directory=tmp_path) as process:
        run(server, "INSERT INTO b VALUES (1, 1)")
        process.until(partial(has, target, "b", 1))
        for number in range(2, 30):
            run(server, f"INSERT INTO b VALUES ({number}, 1)")
        run(server, "INSERT INTO b SELECT i, 1 FROM generate_series(30, 4000) i")
        process.until(partial(has, target, "b", 4000))
        run(server, "INSERT INTO b VALUES (4001, 1)")
        end(process)
    assert len(rows(target, "b")) == 4000
    manifests = target.place / "public.b" / "_headwater"
    assert len(list(manifests.glob("*.json"))) <= 3
    landed_from(server, "held", target)
    assert len(rows(target, "b")) == 4001
    run(server, "TRUNCATE a, b")


@pytest.mark.parametrize("form", ["parquet", pytest.param("delta", marks=pytest.mark.slow)])
def test_a_run_that_is_killed_anywhere_goes_on(
    server: EmbeddedPostgres, tmp_path: Path, form: str, request: pytest.FixtureRequest
) -> None:
    for name in ("killed", "whole"):
        make_slot(server, f"{name}_{form}")
    work = [
        f"INSERT INTO a SELECT {n} * 100 + i, repeat('x', 50) FROM generate_series(1, 50) i;\n"
        f"UPDATE a SET t = 'y{n}' WHERE id % 10 = {n % 10};\nDELETE FROM a WHERE id % 11 = {n % 11};\n"
        f"INSERT INTO b VALUES ({n}, {n});\n"
        for n in range(1, 60)
    ]
    run(server, "".join(work))
    target, whole = (LandingTarget(tmp_path / name, form, snapshot=NEVER) for name in ("killed", "whole"))
    landed_from(server, f"whole_{form}", whole)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng, kills = random.Random(seed), request.config.getoption("--kills") or 4
    expected = {table: rows(whole, table) for table in "ab"}
    for _ in range(kills):
        is_killed(server, target, tmp_path, f"killed_{form}", rng.randint(1, 60))
        for table in "ab":
            landed = rows(target, table)
            assert landed == expected[table][: len(landed)]
        assert not own_directory(target.place).joinpath("slot.json").exists() or confirmed(
            server, f"killed_{form}"
        ) <= reached(target)
    assert not is_killed(server, target, tmp_path, f"killed_{form}", NO_STEP)
    assert {table: rows(target, table) for table in "ab"} == expected
    assert len(expected["a"]) > 3000
    run(server, "TRUNCATE a, b")


def is_killed(server: EmbeddedPostgres, target: LandingTarget, directory: Path, slot: str, step: int) -> bool:
    """Land, in small windows, until a step; tell whether there were as many."""
    words = [*arguments(server, slot, target), "--window-bytes", 4000]
    with running(DRIVER, target.place, step, *words, directory=directory, program=sys.executable) as process:
        output, status = _ended(process)
    assert status in (0, -signal.SIGKILL), output
    return status != 0


def _ended(process: Running) -> tuple[str, int]:
    return process.standard_error(), process.process.wait()


def test_a_reader_that_confirms_nothing_holds_up_no_shutdown(server: EmbeddedPostgres, tmp_path: Path) -> None:
    make_slot(server, "unconfirmed")
    lost: list[str] = []
    address = SlotAddress.parse(slot_uri(server, "unconfirmed"))
    with SlotStream(address, tmp_path, follows=True, lost=lost.append) as stream:
        run(server, "INSERT INTO b VALUES (77, 1)")
        first = stream.window(1 << 20, lambda: False)
        assert first is not None
        assert first.transactions == 1
        thread = Thread(target=server.stop)
        thread.start()
        assert stream.window(1 << 20, lambda: not thread.is_alive()) is None
        thread.join()
        server.start()  # in a thread it would end with that
        run(server, "DELETE FROM b WHERE id = 77")
        again = stream.window(1 << 20, lambda: False)
        assert again is not None
        assert (again.lo, again.is_new_session, again.transactions) == (first.hi, True, 1)
        assert lost
        for window in (first, again):
            window.pieces.close()


def test_a_slot_goes_on_where_nothing_of_it_is_written(server: EmbeddedPostgres, tmp_path: Path) -> None:
    """Else the server would keep WAL for it."""
    run(server, "CREATE TABLE unpublished (id int);\nCREATE PUBLICATION of_a FOR TABLE a;\n")
    make_slot(server, "quiet")
    before = confirmed(server, "quiet")
    target = LandingTarget(tmp_path / "lake", snapshot=NEVER)
    words = ["land", "--wal", slot_uri(server, "quiet", publication="of_a"), "--to", target.place, "--snapshot", NEVER]
    with running(*words, "--follow", *AT_ONCE, directory=tmp_path) as process:
        process.until(lambda: own_directory(target.place).joinpath("slot.json").exists())
        run(server, "INSERT INTO unpublished SELECT generate_series(1, 100);\n")
        process.until(lambda: confirmed(server, "quiet") > before)
        end(process)
    assert confirmed(server, "quiet") <= reached(target)


def test_a_run_that_finds_nothing_new_confirms_what_is_noted(server: EmbeddedPostgres, tmp_path: Path) -> None:
    """The slot is put back to before a run, as if that had been killed between its note and the confirmation."""
    make_slot(server, "before")
    run(server, "SELECT pg_copy_logical_replication_slot('before', 'behind');\n")
    run(server, "INSERT INTO a VALUES (-1, 'x');\nCHECKPOINT;\nDELETE FROM a WHERE id = -1;\nCHECKPOINT;\n")
    target = LandingTarget(tmp_path / "lake", snapshot=NEVER)
    assert landed_from(server, "behind", target).rows
    run(server, "SELECT pg_drop_replication_slot('behind');\n")
    run(server, "SELECT pg_copy_logical_replication_slot('before', 'behind');\n")
    known = reached(target)
    assert confirmed(server, "behind") < known
    begun = restart_lsn(server, "behind")
    request = SlotRequest(SlotAddress.parse(slot_uri(server, "behind")), end=known)
    assert not land_slot(request, target).rows
    assert confirmed(server, "behind") == known
    assert begun < restart_lsn(server, "behind"), "the server lets go of WAL"
    run(server, "SELECT pg_drop_replication_slot('before'), pg_drop_replication_slot('behind');\n")
