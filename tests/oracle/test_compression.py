"""Compressed values and compressed page images: every method that a server is built with, decoded as it decodes them.

Values lie in a row or out of line, compressed or not. Images of catalog pages matter where a catalog is rolled forward:
the changes here are made to tables that were made after a checkpoint, so that each catalog page comes as an image.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest

from headwater import DecodeRequest
from headwater.demo.stream_comparison import first_difference
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import ServerPrograms
from headwater.pg.version import VERSIONS
from oracle.encoded_databases import decoded_here
from oracle.streams import call_slot, parse_lsn
from packaged_servers import WITH_LZ4, is_of_debian, programs_of

pytestmark = pytest.mark.server

TOAST_METHODS = ("pglz", "lz4")
IMAGE_METHODS = ("pglz", "lz4", "zstd")
STORAGES = ("plain", "main", "extended", "external")
SIZES = (100, 1500, 3000, 60_000)


def set_method(connection: psycopg.Connection[object], setting: str, method: str) -> bool:
    """Set a compression method; tell whether the server has it."""
    try:
        connection.execute(f"SET {setting} = {method}".encode())
    except psycopg.errors.InvalidParameterValue:
        return False
    return True


def write(connection: psycopg.Connection[object], name: str) -> None:
    """Write values of many sizes, in columns of every storage; written, changed, and left as they were."""
    columns = ", ".join(f"c_{storage} text STORAGE {storage}" for storage in STORAGES)
    if connection.info.server_version < 160000:
        columns = ", ".join(f"c_{storage} text" for storage in STORAGES)
    connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, {columns}, j jsonb)".encode())
    for storage in STORAGES:
        connection.execute(f"ALTER TABLE {name} ALTER c_{storage} SET STORAGE {storage}".encode())
    for number, size in enumerate(SIZES):
        texts = [
            f"repeat('{storage} ', {min(size, 4000 if storage == 'plain' else size) // 8})" for storage in STORAGES
        ]
        document = f"jsonb_build_object('key', repeat('jsonb', {size // 5}))"
        connection.execute(f"INSERT INTO {name} VALUES ({number}, {', '.join(texts)}, {document})".encode())
    connection.execute(f"UPDATE {name} SET id = id + 100".encode())
    connection.execute(f"UPDATE {name} SET c_external = c_external || 'x' WHERE id = 103".encode())
    connection.execute(f"DELETE FROM {name} WHERE id = 101".encode())


@pytest.mark.parametrize(
    "major", [major if major in (WITH_LZ4, 16) else pytest.param(major, marks=pytest.mark.slow) for major in VERSIONS]
)
def test_values_and_images(major: int, tmp_path: Path) -> None:
    programs = programs_of(major, "test_decoding")
    shown = compare(programs, tmp_path)
    assert ("pglz", "pglz") in shown
    if is_of_debian(programs):
        assert shown == {(method, other) for method in TOAST_METHODS for other in IMAGE_METHODS}


def compare(programs: ServerPrograms, directory: Path) -> set[tuple[str, str]]:
    """Compare what a server says with what we say; which methods were shown together."""
    shown = set()
    with EmbeddedPostgres(programs, {"wal_compression": "off"}, autovacuum=False) as server:
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        with server.connect() as connection:
            row = connection.execute(
                "SELECT lsn::text FROM pg_create_logical_replication_slot('s', 'test_decoding')"
            ).fetchone()
            assert row is not None
            for toast in TOAST_METHODS:
                for image in IMAGE_METHODS:
                    setting = (
                        "on" if image == "pglz" and not VERSIONS[programs.major].names_image_compression else image
                    )
                    is_there = set_method(connection, "default_toast_compression", toast)
                    if is_there and set_method(connection, "wal_compression", setting):
                        connection.execute("CHECKPOINT")
                        write(connection, f"{toast}_{image}")
                        shown.add((toast, image))
            expected, error = call_slot(connection, "pg_logical_slot_peek_changes", "s", None, [])
            assert error is None
        server.stop()
        wal = shutil.copytree(server.wal_directory, directory / "pg_wal")
    request = DecodeRequest(str(wal), str(backup), "postgres", "test_decoding", (), parse_lsn(str(row[0])))
    assert first_difference(expected, decoded_here(request)) is None
    assert len(expected) > 10 * len(shown)
    return shown
