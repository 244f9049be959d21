"""A slot that lands in a store: nothing lost, nothing twice, and confirmed only when the store has it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bad_input.running_command import running
from headwater.lakes.landing_target import COPY_ON_WRITE, MERGE_ON_READ, NEVER, LandingTarget
from headwater.lakes.stores.places import StorePath, read_file
from headwater.landing.landing_modes import CHANGELOG, CURRENT
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from landing.following import AT_ONCE, end
from landing.slot_sources import PUBLICATION, slot_uri
from landing.stores.faults import faults
from landing.stores.killed_runs import is_killed, is_killed_at_write
from landing.stores.proxy import KILL, KILL_BEHIND, PASS, WRITES, StoreProxy
from landing.stores.server import LakeStore
from landing.stores.targets import place, read, target_of

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1200)]

SETUP = (
    "CREATE TABLE a (id int PRIMARY KEY, t text)",
    "CREATE TABLE b (id int PRIMARY KEY, n int)",
    f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES",
)
KINDS = [
    ("parquet", CHANGELOG, COPY_ON_WRITE),
    ("parquet", CURRENT, MERGE_ON_READ),
    ("delta", CURRENT, MERGE_ON_READ),
    ("delta", CHANGELOG, COPY_ON_WRITE),
    ("iceberg", CURRENT, MERGE_ON_READ),
]


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False) as running_server:
        with running_server.connect() as connection:
            for statement in SETUP:
                connection.execute(statement.encode())
            connection.execute("SELECT pg_create_logical_replication_slot('lake', 'pgoutput')")
        yield running_server


def work(server: EmbeddedPostgres, number: int) -> None:
    """Do some transactions, of both tables."""
    first = number * 100
    with server.connect() as connection:
        for statement in (
            f"WITH b AS (INSERT INTO b SELECT i, i FROM generate_series({first}, {first + 49}) i) "
            f"INSERT INTO a SELECT i, repeat(i::text, 100) FROM generate_series({first}, {first + 49}) i",
            f"UPDATE b SET n = -n WHERE id % 3 = {number % 3}",
            f"UPDATE a SET id = -id WHERE id = {first + 1}",
            f"DELETE FROM a WHERE id % 7 = {number % 7}",
        ):
            connection.execute(statement.encode())


def confirmed(server: EmbeddedPostgres) -> int:
    with server.connect() as connection:
        query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 'lake'"
        ((lsn,),) = connection.execute(query.encode()).fetchall()
    return int(Lsn.parse(lsn))


def reached(target: LandingTarget) -> int:
    """Return how far the note in the store says that all tables have come; 0 for none."""
    assert isinstance(target.where, StorePath)
    note = read_file(target.where / "_headwater" / "slot.json")
    return 0 if note is None else int(Lsn.parse(json.loads(note)["reached"]))


def arguments(server: EmbeddedPostgres, target: LandingTarget, endpoint: str) -> list[object]:
    words: list[object] = ["land", "--wal", slot_uri(server, "lake"), "--to", target.where, "--format", target.format]
    words += ["--mode", target.mode, "--write-mode", target.write_mode, "--snapshot", NEVER, "--window-bytes", 20_000]
    words += ["--storage-option", f"endpoint_url={endpoint}"]
    if target.iceberg_catalog is not None:
        words += ["--iceberg-catalog", target.iceberg_catalog, "--namespace", target.namespace]
    return words


def landed(target: LandingTarget, name: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table, or those that its changes lead to, each change once."""
    table = read(target, f"public.{name}")
    rows = [] if table is None else table.to_pylist()
    columns = ("id", "t") if name == "a" else ("id", "n")
    if target.mode == CURRENT:
        return sorted(tuple(row[column] for column in columns) for row in rows)
    places = [(row["_commit_lsn"], row["_lsn"], row["_seq"], row["_change_type"]) for row in rows]
    assert len(set(places)) == len(places)
    there: dict[int, tuple[Any, ...]] = {}
    for row in sorted(rows, key=lambda row: (row["_commit_lsn"], row["_seq"], row["_change_type"] == "insert")):
        kind = row["_change_type"]
        if kind in ("delete", "update_preimage"):
            there.pop(row["id"], None)
        elif kind in ("insert", "update_postimage"):
            there[row["id"]] = tuple(row[column] for column in columns)
    return sorted(there.values())


def require_equal(server: EmbeddedPostgres, target: LandingTarget) -> None:
    with server.connect() as connection:
        for name in ("a", "b"):
            expected = connection.execute(f"SELECT * FROM {name} ORDER BY id".encode()).fetchall()
            assert landed(target, name) == expected, name


@pytest.mark.usefixtures("signed")
@pytest.mark.parametrize(("form", "mode", "write_mode"), KINDS)
def test_killed_at_requests_that_write(
    server: EmbeddedPostgres, store: LakeStore, proxy: StoreProxy, tmp_path: Path, form: str, mode: str, write_mode: str
) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    target = target_of(place(store, f"slot-{form}-{mode}-{write_mode}-{seed}"), form, mode, write_mode)
    for number in range(7):
        work(server, number)
        words = arguments(server, target, proxy.endpoint)
        is_killed_at_write(words, proxy, tmp_path, rng, (3, 40) if number < 6 else None)
        assert not reached(target) or confirmed(server) <= reached(target)
    require_equal(server, target)


@pytest.mark.usefixtures("signed")
@pytest.mark.parametrize("fate", [KILL, KILL_BEHIND])
def test_nothing_is_confirmed_that_the_note_does_not_have(
    server: EmbeddedPostgres, store: LakeStore, proxy: StoreProxy, tmp_path: Path, fate: str
) -> None:
    """The run is killed when it writes its second note: before the store has it, or before the answer has come."""
    target, notes = target_of(place(store, f"noted-{fate.replace(' ', '-')}"), "parquet"), iter(range(1 << 30))
    before = confirmed(server)
    work(server, 0)

    def choose(method: str, path: str, _on_condition: bool) -> str:
        is_note = method in WRITES and path.endswith("slot.json")
        return fate if is_note and next(notes) == 1 else PASS

    proxy.choose = choose
    assert is_killed(arguments(server, target, proxy.endpoint), proxy, tmp_path)
    assert (reached(target) > before) == (fate == KILL_BEHIND)
    assert confirmed(server) == before
    if fate == KILL:
        work(server, 1)
    # Where the note was written, the next run confirms it, if it finds nothing new, too.
    assert not is_killed(arguments(server, target, proxy.endpoint), proxy, tmp_path)
    require_equal(server, target)
    assert before < confirmed(server) <= reached(target)
    assert all(request.on_condition for request in proxy.asked if is_note(request.method, request.path))


def is_note(method: str, path: str) -> bool:
    return method == "PUT" and path.endswith("slot.json")


@pytest.mark.usefixtures("signed")
def test_a_slot_is_followed_while_the_store_fails(
    server: EmbeddedPostgres, store: LakeStore, proxy: StoreProxy, tmp_path: Path
) -> None:
    target = target_of(place(store, "slot-followed"), "parquet")
    proxy.choose = faults(7, 10)
    words = [*arguments(server, target, proxy.endpoint), "--follow", *AT_ONCE]
    with running(*words, directory=tmp_path) as process:
        for number in range(4):
            work(server, number)
            with server.connect() as connection:
                expected = connection.execute(b"SELECT * FROM b ORDER BY id").fetchall()
            process.until(partial(_is, target, expected))
        end(process)
    require_equal(server, target)
    assert confirmed(server) <= reached(target)


def _is(target: LandingTarget, expected: list[tuple[Any, ...]]) -> bool:
    return landed(target, "b") == expected
