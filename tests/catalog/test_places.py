"""Catalogs in unusual places and states: tablespaces, several databases, other encodings, rows locked by several."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.catalog.store.bootstrap import open_catalog
from headwater.errors import CatalogError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from packaged_servers import programs_of

pytestmark = pytest.mark.server


@pytest.fixture(scope="module", params=[15, 18])
def stopped(request: pytest.FixtureRequest) -> Iterator[tuple[EmbeddedPostgres, dict[str, int]]]:
    """Give a stopped server with a database in a tablespace, and the numbers of the files that its tables lie in."""
    with EmbeddedPostgres(programs_of(request.param), autovacuum=False) as server:
        with server.connect() as connection:
            connection.execute("SET allow_in_place_tablespaces = on")
            connection.execute("CREATE TABLESPACE far LOCATION ''")
            connection.execute(
                "CREATE DATABASE wide TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TABLESPACE far"
            )
        with server.connect("wide") as first, server.connect("wide") as second:
            first.execute('CREATE TABLE "größe" (a int PRIMARY KEY); CREATE TABLE home (a int) TABLESPACE pg_default')
            first.autocommit = second.autocommit = False
            second.execute("SELECT 1 FROM pg_class WHERE relname = 'home' FOR KEY SHARE")
            first.execute("ALTER TABLE home REPLICA IDENTITY FULL")
            first.commit()
            second.rollback()
            query = "SELECT relname::text, relfilenode::int8 FROM pg_class WHERE relname IN ('größe', 'home')"
            files = dict(first.execute(query).fetchall())
            files["far"] = first.execute("SELECT oid::int8 FROM pg_tablespace WHERE spcname = 'far'").fetchall()[0][0]
        server.stop()
        yield server, files


def test_database_in_a_tablespace(stopped: tuple[EmbeddedPostgres, dict[str, int]]) -> None:
    server, files = stopped
    store = open_catalog(server.data_directory, "wide")
    view = store.view(store.start_lsn + 1)
    big = view.relation_by_filenode(files["far"], files["größe"])
    home = view.relation_by_filenode(1663, files["home"])
    assert (store.encoding, store.files.whereabouts.tablespace) == ("LATIN1", files["far"])
    assert big is not None
    assert (big.name, big.identity_columns) == ("größe", (1,))
    assert home is not None
    assert home.name == "home"
    assert view.relation_by_filenode(1663, files["größe"]) is None


def test_update_of_a_row_that_another_had_locked(stopped: tuple[EmbeddedPostgres, dict[str, int]]) -> None:
    server, files = stopped
    store = open_catalog(server.data_directory, "wide")
    home = store.view(store.start_lsn + 1).relation_by_filenode(1663, files["home"])
    assert home is not None
    assert home.replica_identity == "f"
    versions = store.versions(("pg_class", "oid", home.oid))
    assert sorted(len(version.deleters) for version in versions)[-1] == 1


def test_databases_to_choose_from_are_named(stopped: tuple[EmbeddedPostgres, dict[str, int]]) -> None:
    server, _ = stopped
    with pytest.raises(CatalogError, match=r'database "nope" does not exist .* postgres, template1, wide'):
        open_catalog(server.data_directory, "nope")
    with pytest.raises(CatalogError, match="more than one database"):
        open_catalog(server.data_directory)


def test_missing_file_is_named(stopped: tuple[EmbeddedPostgres, dict[str, int]]) -> None:
    server, _ = stopped
    file = next(Path(server.data_directory / "base" / "5").glob("2610"))
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(CatalogError, match=r"pg_index has no file .*base/5/2610"):
        open_catalog(server.data_directory, "postgres")
    file.write_bytes(content[:12] + b"\xff" * 8 + content[20:])
    with pytest.raises(CatalogError, match=r"invalid page in block 0 of pg_index .*base/5/2610"):
        open_catalog(server.data_directory, "postgres")
    file.write_bytes(content[:5000])
    with pytest.raises(CatalogError, match="multiple of 8192"):
        open_catalog(server.data_directory, "postgres")
    file.write_bytes(content)
    assert open_catalog(server.data_directory, "postgres").database_oid == 5
