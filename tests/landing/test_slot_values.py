"""Values that columns do not hold, other encodings, and roles that have passwords: as from WAL, or the same error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

from headwater.errors import HeadwaterError
from headwater.jobs.local_engine import LocalEngine
from headwater.lakes.landing_target import NEVER, LandingTarget
from headwater.landing.landing import land
from headwater.landing.slot_landing import SlotRequest, land_slot
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.requests.request import DecodeRequest
from headwater.plugins.table_patterns import TablePatterns
from headwater.remote_slots.slot_address import SlotAddress
from headwater.rows.columns.column_types import ON_UNREPRESENTABLE
from landing.mirrors import read_table
from landing.slot_sources import PUBLICATION, slot_uri

pytestmark = [pytest.mark.server]

ODD = {
    "dates": ("date", "'infinity'", "'2024-01-01'"),
    "moments": ("timestamptz", "'-infinity'", "'2024-01-01 00:00:00+00'"),
    "numbers": ("numeric(10,2)", "'NaN'", "1.5"),
    "matrices": ("int[]", "'{{1,2},{3,4}}'", "'{1,2}'"),
    "shifted": ("text[]", "'[0:1]={a,b}'", "'{a,b}'"),
    "days": ("time", "'24:00:00'", "'23:59:59.5'"),
    "spans": ("daterange", "'[2024-01-01,infinity)'", "'empty'"),
    "pairs": ("pair", "ROW('infinity', ARRAY[ARRAY[1]])", "ROW('2024-01-01', '{}')"),
    "long_numbers": ("numeric", "repeat('9', 60)::numeric", "0.001"),
}
"""Tables of a column, with its type, a value that some column does not hold, and one that all do."""


@dataclass(frozen=True)
class Odd:
    server: EmbeddedPostgres
    backup: Path


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Odd]:
    place = tmp_path_factory.mktemp("values")
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            connection.execute("CREATE TYPE pair AS (d date, m int[])")
            for name, (type, *_) in ODD.items():
                connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v {type})".encode())
            connection.execute(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES")
        server.stop()
        backup = server.copy_data_directory(place / "backup")
        server.start()
        with server.connect() as connection:
            connection.execute("SELECT pg_create_logical_replication_slot('first', 'pgoutput')")
            _write(connection)
        yield Odd(server, backup)


def _write(connection: Any) -> None:
    for name, (_, *values) in ODD.items():
        for number, value in enumerate([*values, "NULL"]):
            connection.execute(f"INSERT INTO {name} VALUES ({number}, {value})".encode())


@pytest.mark.parametrize("choice", ON_UNREPRESENTABLE)
@pytest.mark.parametrize("name", ODD)
def test_values_that_a_column_does_not_hold(odd: Odd, tmp_path: Path, name: str, choice: str) -> None:
    tables = TablePatterns.parse([f"public.{name}"])
    slot, wal = (
        LandingTarget(tmp_path / place, snapshot=NEVER, on_unrepresentable=choice) for place in ("slot", "wal")
    )
    request = SlotRequest(SlotAddress.parse(slot_uri(odd.server, "copy")), tables)
    source = str(odd.server.wal_directory)
    expected = _told(
        lambda: land(LocalEngine(), DecodeRequest(source, str(odd.backup), "postgres", tables=tables), wal)
    )
    with odd.server.connect() as connection:
        connection.execute("SELECT pg_copy_logical_replication_slot('first', 'copy')")
        try:
            assert _told(lambda: land_slot(request, slot)) == expected
        finally:
            connection.execute("SELECT pg_drop_replication_slot('copy')")
    if expected is None:
        ours, theirs = (_rows(target, name) for target in (slot, wal))
        assert ours.equals(theirs)
        assert ours.num_rows == 3


def _rows(target: LandingTarget, name: str) -> pa.Table:
    return read_table(target.place / f"public.{name}", "parquet").sort_by("id")


def _told(run: Any) -> tuple[type[HeadwaterError], str, int | None] | None:
    try:
        run()
    except HeadwaterError as error:
        return type(error), error.message, error.lsn
    return None


def test_text_of_another_encoding_and_a_role_with_a_password(tmp_path: Path) -> None:
    slot, wal = (LandingTarget(tmp_path / place, snapshot=NEVER) for place in ("slot", "wal"))
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1, loopback=True) as server:
        with server.connect() as connection:
            connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
            connection.execute("CREATE ROLE reader LOGIN REPLICATION PASSWORD 'a secret/?'")
        with server.connect("latin") as connection:
            connection.execute("CREATE TABLE größe (id int PRIMARY KEY, été text)")
            connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        hba = server.data_directory / "pg_hba.conf"
        hba.write_text("local all postgres trust\nhost all reader 127.0.0.1/32 scram-sha-256\n")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        with server.connect("latin") as connection:
            connection.execute("SELECT pg_create_logical_replication_slot('latin', 'pgoutput')")
            connection.execute("INSERT INTO größe VALUES (1, 'déjà'), (2, 'ÿ')")
        place = f"127.0.0.1:{server.port}/latin?slot=latin&publication=everything"
        with pytest.raises(HeadwaterError, match="password authentication failed") as raised:
            land_slot(SlotRequest(SlotAddress.parse(f"postgresql://reader:wrong-secret@{place}")), slot)
        assert "wrong-secret" not in str(raised.value)
        password = quote("a secret/?", safe="")
        land_slot(SlotRequest(SlotAddress.parse(f"postgresql://reader:{password}@{place}")), slot)
        land(LocalEngine(), DecodeRequest(str(server.wal_directory), str(backup), "latin"), wal)
    ours, theirs = (_rows(target, "größe") for target in (slot, wal))
    assert ours.equals(theirs)
    assert ours["été"].to_pylist() == ["déjà", "ÿ"]
