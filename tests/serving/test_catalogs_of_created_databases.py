"""SQL about the catalogs of databases that are created, or moved, after the backup: answers are the server's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bad_input.servers import run, small_server
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_user import give_to_server
from headwater.walsender.access.users import User, Users, write_users
from packaged_servers import is_packaged
from serving.catalogs import CATALOGS, answer, connected
from serving.service import Serving, all_are_let_in, backup_of

pytestmark = [pytest.mark.server, pytest.mark.slow]

MAJORS = [*filter(is_packaged, (14, 15, 16, 17, 18, 19))]
BEFORE = ("CREATE ROLE reader LOGIN", "GRANT SELECT ON pg_authid TO reader", "CREATE DATABASE model")
IN_TEMPLATE = ("CREATE TABLE t (id serial PRIMARY KEY, name text)", "CREATE VIEW v AS SELECT id FROM t")
LATER = (
    "CREATE TABLE u (id int PRIMARY KEY, n numeric DEFAULT 7)",
    "ALTER TABLE t ADD z int",
    "VACUUM FULL pg_class",
    "COMMENT ON TABLE t IS 'of the template'",
    "INSERT INTO t (name) VALUES ('x'), (NULL)",
)


def strategies(major: int) -> dict[str, str]:
    """Return databases, and how each is created."""
    if major == 14:
        return {"copied": ""}
    return {"copied": "STRATEGY file_copy", "logged": "STRATEGY wal_log"}


def places(server: EmbeddedPostgres, serving: Serving, database: str, user: str) -> tuple[dict[str, Any], ...]:
    """Return what clients connect with: to the server, to the service."""
    ours = {"host": "127.0.0.1", "port": str(serving.port)}
    return tuple({**place, "dbname": database, "user": user} for place in (server.connection_info(), ours))


@contextmanager
def serving_of(server: EmbeddedPostgres, catalog: Path, directory: Path) -> Iterator[Serving]:
    """Serve a server's WAL; a role of it may log in."""
    serving = Serving(server.wal_directory, catalog, directory / "slots")
    users = Users().with_user(User("postgres", may_copy_all=True)).with_user(User("reader"))
    write_users(Path(all_are_let_in(directory)[-1]), users)
    with serving:
        yield serving


def check_catalogs(server: EmbeddedPostgres, serving: Serving, database: str) -> None:
    """Check that all rows of all catalogs are the same."""
    of_server, of_service = places(server, serving, database, "reader")
    with connected(of_server) as theirs, connected(of_service) as ours:
        names = [name for (name,) in theirs.execute(CATALOGS).fetchall()]
        assert len(names) > 60
        for name in names:
            query = f'SELECT c::text COLLATE "C" FROM pg_catalog.{name} c ORDER BY 1'.encode()
            assert answer(ours, query) == answer(theirs, query), name
        query = b"SELECT attname, attnum FROM pg_attribute WHERE attrelid = 't'::regclass ORDER BY 2"
        assert answer(ours, query) == answer(theirs, query)
        assert ("z", 3) in ours.execute(query).fetchall()


def rows_of(place: dict[str, Any], table: str) -> Sequence[bytes]:
    """Return what COPY gives of a table."""
    with psycopg.connect(**place) as connection, connection.cursor().copy(f"COPY {table} TO STDOUT") as rows:
        return b"".join(bytes(piece) for piece in rows).splitlines()


@pytest.mark.parametrize("major", MAJORS)
def test_both_strategies(tmp_path: Path, major: int) -> None:
    """Also where the template's catalogs were changed, and rewritten, between the backup and the copy."""
    with small_server(major) as server:
        run(server, *BEFORE)
        run(server, *IN_TEMPLATE[:1], database="model")
        catalog = backup_of(server, tmp_path / "base")
        with serving_of(server, catalog, tmp_path) as serving:
            run(server, *IN_TEMPLATE[1:], "VACUUM FULL pg_class", "VACUUM FULL pg_attribute", database="model")
            for name, strategy in strategies(major).items():
                run(server, f"CREATE DATABASE {name} TEMPLATE model {strategy}")
                run(server, *LATER, database=name)
                check_catalogs(server, serving, name)
            run(server, "CREATE DATABASE again TEMPLATE copied " + strategies(major)["copied"])
            run(server, "ALTER TABLE u ADD more text", "VACUUM FULL pg_type", database="again")
            check_catalogs(server, serving, "again")
            run(server, "ALTER TABLE u ADD yet_more text", "CHECKPOINT", database="again")
            check_catalogs(server, serving, "again")
            assert serving.stop() == 0


def test_a_database_that_has_moved(tmp_path: Path) -> None:
    """Rows and catalogs of a database that lies in another tablespace than in the backup."""
    with small_server(16) as server:
        place = server.home.path / "elsewhere"
        place.mkdir()
        give_to_server(place)
        run(server, *BEFORE, f"CREATE TABLESPACE elsewhere LOCATION '{place}'")
        run(server, *IN_TEMPLATE, "INSERT INTO t (name) VALUES ('before')", database="model")
        catalog = backup_of(server, tmp_path / "base")
        run(server, "INSERT INTO t (name) VALUES ('between')", database="model")
        run(server, "ALTER DATABASE model SET TABLESPACE elsewhere")
        run(server, *LATER, database="model")
        with serving_of(server, catalog, tmp_path) as serving:
            theirs, ours = (rows_of(place, "public.t") for place in places(server, serving, "model", "postgres"))
            assert ours == theirs
            assert len(ours) == 4
            check_catalogs(server, serving, "model")
            assert serving.stop() == 0
