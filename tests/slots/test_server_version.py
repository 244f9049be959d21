"""The server's minor release: said by a flag, known by its catalog, kept by slots and states, or the newest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from arrow_types import values_of
from bad_input.servers import copy_wal, make_slot, run, small_server
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.version import VERSIONS, version_named
from headwater.receiver.catalog_export import export_catalog
from headwater.slots.value_file import save_value
from server_versions import release_of
from slots.conftest import Command, done, refused

pytestmark = [pytest.mark.server]

MAJOR = 15
NEWEST = str(VERSIONS[MAJOR])
ROWS = 2000
ROW_BYTES = 24 + 24 + 4
"""What a row of one integer weighs beside its change: HeapTupleData, the header of the tuple, the integer."""

STREAMED = ("-o", "proto_version=2", "-o", "publication_names=p", "-o", "streaming=on")
LIMIT = ("--set", "logical_decoding_work_mem=64kB")


@dataclass(frozen=True)
class Streamed:
    """Files of a stopped server, of which one transaction is streamed.

    Attributes:
        backup, wal: its directories; exported: its catalog as a file; release: the server's.
        block: rows of the first block that the server itself streams.
    """

    backup: Path
    wal: Path
    exported: Path
    release: str
    block: int


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> Streamed:
    directory = tmp_path_factory.mktemp("versions")
    with small_server(MAJOR) as server:
        run(server, "CREATE TABLE t (a int)", "CREATE PUBLICATION p FOR TABLE t")
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        info = " ".join(f"{name}={value}" for name, value in server.connection_info().items())
        save_value(directory / "exported", export_catalog(info))
        make_slot(server, "s", plugin="pgoutput")
        run(server, f"INSERT INTO t SELECT i FROM generate_series(1, {ROWS}) i", "INSERT INTO t VALUES (0)")
        block = _rows_of_first_block(_said(server))
        server.stop()
        release = str(version_named(release_of(server.programs), MAJOR))
        return Streamed(backup, copy_wal(server, directory / "wal"), directory / "exported", release, block)


def _said(server: EmbeddedPostgres) -> list[bytes]:
    """Read what the server streams of its slot."""
    options = "'proto_version', '2', 'publication_names', 'p', 'streaming', 'on'"
    query = f"SELECT data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, {options})"
    with server.connect() as connection:
        connection.execute("SET logical_decoding_work_mem = '64kB'")
        return [bytes(data) for (data,) in connection.execute(query.encode()).fetchall()]


def _rows_of_first_block(messages: Sequence[bytes]) -> int:
    kinds = [data[:1] for data in messages]
    return kinds[: kinds.index(b"E")].count(b"I")


def rows_of_first_block(command: Command, tmp_path: Path, *flags: object) -> tuple[int, str]:
    """Count the rows that come before the first STREAM STOP, and return standard error."""
    out = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
    status, _, errors = command("decode", *flags, "-q", "--out", out)
    assert status == 0, errors
    return _rows_of_first_block(values_of(pq.read_table(out).column("data"))), errors


def rows_in_memory(release: str) -> int:
    """Count the rows with which the limit is reached."""
    return -(-(64 << 10) // (version_named(release, MAJOR).change_size + ROW_BYTES))


def of_backup(streamed: Streamed) -> tuple[object, ...]:
    return "--wal", streamed.wal, "--catalog", streamed.backup, "--plugin", "pgoutput", *STREAMED, *LIMIT


@pytest.mark.parametrize("release", ["15.18", "15.19", "15.20", "15.20 (Debian 15.20-0+deb12u1)"])
def test_blocks_are_those_of_the_release(command: Command, streamed: Streamed, tmp_path: Path, release: str) -> None:
    count, errors = rows_of_first_block(command, tmp_path, *of_backup(streamed), "--server-version", release)
    assert count == rows_in_memory(release) == (497 if "20" not in release else 469)
    assert "warning" not in errors


def test_the_newest_is_taken_and_told_of(command: Command, streamed: Streamed, tmp_path: Path) -> None:
    count, errors = rows_of_first_block(command, tmp_path, *of_backup(streamed))
    assert count == rows_in_memory(NEWEST)
    assert f"they are those of PostgreSQL {NEWEST}" in errors
    assert f"--server-version {NEWEST}" in errors


def test_what_does_not_depend_on_it_tells_nothing(command: Command, streamed: Streamed) -> None:
    source = ("--wal", streamed.wal, "--catalog", streamed.backup, "-q")
    for flags in ((), ("--plugin", "test_decoding", "-o", "stream-changes=0")):
        status, out, errors = command("decode", *source, *flags)
        assert (status, out.count(b"INSERT"), errors) == (0, ROWS + 1, "")


def test_releases_that_are_not_known(command: Command, streamed: Streamed, tmp_path: Path) -> None:
    newer = f"{MAJOR}.{VERSIONS[MAJOR].minor + 1}"
    count, errors = rows_of_first_block(command, tmp_path, *of_backup(streamed), "--server-version", newer)
    assert count == rows_in_memory(NEWEST)
    assert f"PostgreSQL {newer} is newer than {NEWEST}" in errors
    for text, expected in (
        ("16.2", f"expected one of PostgreSQL {MAJOR}"),
        ("newest", f"expected one such as {NEWEST}"),
    ):
        status, _, errors = command("decode", *of_backup(streamed), "--server-version", text)
        assert status == 2
        assert expected in errors


def test_an_exported_catalog_tells_it(command: Command, streamed: Streamed, tmp_path: Path) -> None:
    source = ("--wal", streamed.wal, "--catalog", streamed.exported, "--plugin", "pgoutput", *STREAMED, *LIMIT)
    assert streamed.block == rows_in_memory(streamed.release)
    assert rows_of_first_block(command, tmp_path, *source) == (streamed.block, "")
    count, errors = rows_of_first_block(command, tmp_path, *source, "--server-version", "15.20")
    assert (count, errors) == (rows_in_memory("15.20"), "")


def test_a_slot_keeps_it(command: Command, streamed: Streamed, tmp_path: Path) -> None:
    slot = tmp_path / "slot"
    done(command, "slot", "create", slot, *of_backup(streamed), "--server-version", "15.18")

    def shown() -> str:
        return str(json.loads(done(command, "slot", "show", slot, "--json"))["server_version"])

    peek = ("--slot", slot, "--peek")
    assert rows_of_first_block(command, tmp_path, *peek) == (rows_in_memory("15.18"), "")
    assert rows_of_first_block(command, tmp_path, *peek, "--server-version", "15.20")[0] == rows_in_memory("15.20")
    assert shown() == "15.18"
    assert rows_of_first_block(command, tmp_path, "--slot", slot, "--server-version", "15.20") == (
        rows_in_memory("15.20"),
        "",
    )
    assert shown() == "15.20"
    assert "expected one of PostgreSQL 15" in refused(command, "decode", "--slot", slot, "--server-version", "16.1")


def test_kept_states_keep_it(command: Command, streamed: Streamed, tmp_path: Path) -> None:
    states = tmp_path / "states"
    states.mkdir()
    small = ("--window-bytes", 1 << 20, "--keep-states", states)
    rows_of_first_block(command, tmp_path, *of_backup(streamed), *small, "--server-version", "15.18")
    first = min(states.iterdir())
    status, _, errors = command(
        "decode", "--wal", streamed.wal, "--from-state", first, "--plugin", "pgoutput", *STREAMED, *LIMIT, "-q",
        *("--out", tmp_path / "later.parquet"),
    )  # fmt: skip
    assert (status, errors) == (0, "")


def test_outputs_of_one_run_are_of_one_release(command: Command, streamed: Streamed) -> None:
    source = ("--wal", streamed.wal, "--catalog", streamed.backup, "-q")
    first = ("--plugin", "test_decoding", "--out", "-", "--set", "server_version=15.18")
    assert "server_version" in refused(command, "decode", *source, *first, "--plugin", "pgoutput", "--out", "x.parquet")
