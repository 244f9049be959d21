"""Slots that cannot be read, targets that are another's, and what a slot does not tell: an error, or a warning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.errors import CatalogError, HeadwaterError, HeadwaterWarning, LakeError, ServerError, UsageError
from headwater.jobs.local_engine import LocalEngine
from headwater.lakes.bound_names import save_object
from headwater.lakes.lake_schema import SPLIT
from headwater.lakes.landing_target import INITIAL, NEVER, LandingTarget, load_object, own_directory
from headwater.landing.landing import land
from headwater.landing.landing_modes import CURRENT
from headwater.landing.slot_landing import SlotRequest, land_slot
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.request import DecodeRequest
from headwater.plugins.table_patterns import TablePatterns
from headwater.remote_slots import spooled_pieces
from headwater.remote_slots.slot_address import SlotAddress
from headwater.remote_slots.slot_stream import SlotStream
from landing.mirrors import read_table
from landing.slot_sources import PUBLICATION, landed_from, slot_uri

pytestmark = [pytest.mark.server]

SETUP = (
    "CREATE TABLE a (id int PRIMARY KEY, t text)",
    "CREATE TABLE b (id int PRIMARY KEY, n int)",
    f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES",
    "CREATE PUBLICATION other FOR TABLE b",
    "CREATE DATABASE another",
)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as running:
        run(running, *SETUP)
        yield running


def run(server: EmbeddedPostgres, *statements: str, database: str = "postgres") -> None:
    with server.connect(database) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def make(server: EmbeddedPostgres, slot: str, plugin: str = "pgoutput", database: str = "postgres") -> None:
    run(server, f"SELECT pg_create_logical_replication_slot('{slot}', '{plugin}')", database=database)


def request(server: EmbeddedPostgres, slot: str, *more: str, publication: str = PUBLICATION) -> SlotRequest:
    return SlotRequest(SlotAddress.parse(slot_uri(server, slot, *more, publication=publication)))


def target(place: Path, **more: str) -> LandingTarget:
    return LandingTarget(place / "lake", **{"snapshot": NEVER, **more})  # type: ignore[arg-type]  # all are text


def test_slots_that_are_not_to_be_read(server: EmbeddedPostgres, tmp_path: Path) -> None:
    run(
        server,
        "SELECT pg_create_physical_replication_slot('physical')",
        "SELECT pg_create_logical_replication_slot('prepares', 'pgoutput', false, true)",
    )
    make(server, "elsewhere", database="another")
    for slot, words in (
        ("absent", 'replication slot "absent" does not exist; add create_slot=true'),
        ("physical", "is physical, expected one of pgoutput"),
        ("prepares", "decodes prepared transactions at PREPARE"),
        ("elsewhere", 'is of the database "another", the address names "postgres"'),
    ):
        with pytest.raises(ServerError, match=words):
            land_slot(request(server, slot), target(tmp_path))
    with pytest.raises(ServerError, match='publication "none" does not exist'):
        land_slot(request(server, "absent", "create_slot=true", publication="none"), target(tmp_path))
    for slot in ("physical", "prepares"):
        run(server, f"SELECT pg_drop_replication_slot('{slot}')")
    run(server, "SELECT pg_drop_replication_slot('elsewhere')", database="another")


def test_targets_that_are_not_kept_so(server: EmbeddedPostgres, tmp_path: Path) -> None:
    for more, words in (
        ({"snapshot": INITIAL}, "no rows from before it was made; land its changes only"),
        ({"schema_evolution": SPLIT}, "is of tables that land from WAL"),
    ):
        with pytest.raises(UsageError, match=words):
            land_slot(request(server, "absent"), target(tmp_path, **more))
    assert not (tmp_path / "lake").exists()


def test_a_slot_that_is_made_and_one_that_somebody_else_has_moved(server: EmbeddedPostgres, tmp_path: Path) -> None:
    made = request(server, "made", "create_slot=true")
    land_slot(made, target(tmp_path))
    run(server, "INSERT INTO b VALUES (1, 1)")
    assert land_slot(made, target(tmp_path)).rows == {"public.b": 1}
    run(
        server,
        "INSERT INTO b VALUES (2, 1)",
        "SELECT pg_replication_slot_advance('made', pg_current_wal_lsn())",
        "TRUNCATE b",
    )
    with pytest.raises(ServerError, match=r'slot "made" was confirmed up to .*: what is between is not to be had'):
        land_slot(made, target(tmp_path))


def test_a_server_that_has_lost_what_was_read(server: EmbeddedPostgres, tmp_path: Path) -> None:
    """As a standby that takes over, and was behind: it would not send what commits before the LSN that was read."""
    make(server, "behind")
    land_slot(request(server, "behind"), target(tmp_path))
    note = own_directory(target(tmp_path).where) / "slot.json"
    save_object(note, {**load_object(note), "reached": "FF/0"})
    with pytest.raises(ServerError, match="the slot was read up to FF/0: the server has lost what is between"):
        land_slot(request(server, "behind"), target(tmp_path))


def test_a_target_is_of_one_slot_and_choice(server: EmbeddedPostgres, tmp_path: Path) -> None:
    make(server, "one")
    make(server, "two")
    run(server, "INSERT INTO a VALUES (1, 'x')", "INSERT INTO b VALUES (5, 1)", "TRUNCATE a, b")
    place, own = target(tmp_path), TablePatterns.parse(["public.a"])
    assert land_slot(SlotRequest(request(server, "one").address, own), place).rows == {"public.a": 2}
    assert not (place.place / "public.b").exists()
    for asked, words in (
        (request(server, "two"), 'land from the slot "one"'),
        (request(server, "one", publication="other"), "publications everything"),
        (request(server, "one"), "the tables that land are public.a, not all"),
    ):
        with pytest.raises(LakeError, match=words):
            land_slot(asked, place)


def test_a_target_is_of_a_slot_or_of_wal(server: EmbeddedPostgres, tmp_path: Path) -> None:
    make(server, "either")
    server.stop()
    backup = server.copy_data_directory(tmp_path / "backup")
    server.start()
    run(server, "INSERT INTO a VALUES (1, 'x')", "DELETE FROM a")
    wal = DecodeRequest(str(server.wal_directory), str(backup), "postgres")
    land_slot(request(server, "either"), target(tmp_path))
    with pytest.raises(LakeError, match="the tables land from a slot"):
        land(LocalEngine(), wal, target(tmp_path))
    land(LocalEngine(), wal, target(tmp_path / "other"))
    with pytest.raises(LakeError, match="the tables have landed from WAL"):
        land_slot(request(server, "either"), target(tmp_path / "other"))


def test_a_type_that_is_gone(server: EmbeddedPostgres, tmp_path: Path) -> None:
    make(server, "types")
    run(
        server,
        "CREATE TYPE mood AS ENUM ('calm')",
        "CREATE TABLE c (id int PRIMARY KEY, how mood)",
        "INSERT INTO c VALUES (1, 'calm')",
        "ALTER TABLE c ALTER how TYPE text",
        "DROP TYPE mood",
        "INSERT INTO c VALUES (2, 'glad')",
    )
    with pytest.raises(CatalogError, match=r"a column of a type \(OID \d+\) that the server has no more"):
        land_slot(request(server, "types"), target(tmp_path))
    run(server, "DROP TABLE c")


def test_a_mirror_warns_of_what_a_slot_does_not_tell(server: EmbeddedPostgres, tmp_path: Path) -> None:
    make(server, "mirror")
    run(server, "CREATE TABLE d (id int PRIMARY KEY)", "INSERT INTO d VALUES (1)")
    with pytest.warns(HeadwaterWarning, match="only rows that came since the slot was made"):
        land_slot(request(server, "mirror"), target(tmp_path, mode=CURRENT))
    run(server, "ALTER TABLE d ADD COLUMN n int DEFAULT 7", "INSERT INTO d VALUES (2)")
    with pytest.warns(HeadwaterWarning, match=r"new columns \(n\): they are null in rows that are there already"):
        land_slot(request(server, "mirror"), target(tmp_path, mode=CURRENT))
    run(server, "DROP TABLE d", "CREATE TABLE d (id int PRIMARY KEY)", "INSERT INTO d VALUES (3)")
    with pytest.raises(LakeError, match="d"):
        land_slot(request(server, "mirror"), target(tmp_path, mode=CURRENT))
    run(server, "DROP TABLE d")


def test_a_transaction_that_does_not_fit_in_memory(
    server: EmbeddedPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(server, "large")
    run(server, "INSERT INTO a SELECT i, repeat('x', 100) FROM generate_series(1, 30000) i", "DELETE FROM a")
    monkeypatch.setattr(spooled_pieces, "PIECE_BYTES", 1 << 19)
    monkeypatch.setattr(spooled_pieces, "MEMORY_BYTES", 1 << 20)
    lake = target(tmp_path)
    assert landed_from(server, "large", lake).rows == {"public.a": 60000}
    rows: pa.Table = read_table(lake.place / "public.a", "parquet")
    assert rows.sort_by("id")["id"].to_pylist() == sorted([*range(1, 30001)] * 2)
    assert not list((lake.place / "_headwater" / "scratch").glob("*"))


def test_somebody_else_reads_the_slot(server: EmbeddedPostgres, tmp_path: Path) -> None:
    make(server, "busy")
    with SlotStream(request(server, "busy").address, tmp_path, follows=True) as stream:
        run(server, "INSERT INTO a VALUES (1, 'x')", "DELETE FROM a")
        window = stream.window(1 << 20, lambda: False)
        assert window is not None
        window.pieces.close()
        with pytest.raises(HeadwaterError, match='slot "busy" is active for PID'):
            land_slot(request(server, "busy"), target(tmp_path))


def test_an_end_is_where_the_server_ends(server: EmbeddedPostgres, tmp_path: Path) -> None:
    make(server, "ends")
    lsns = []
    with server.connect() as connection:
        for number in range(4):
            connection.execute("INSERT INTO b VALUES (%s, 1)", [1000 + number])
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            assert row is not None
            lsns.append(int(Lsn.parse(row[0])))
    address = request(server, "ends").address
    for end, count in ((lsns[0], 1), (lsns[0], 0), (lsns[2] - 8, 2), (lsns[3] + (1 << 40), 1)):
        result = land_slot(SlotRequest(address, end=end), target(tmp_path))
        assert sum(result.rows.values()) == count
