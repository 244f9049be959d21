"""Texts of the OIDs of all objects, compared with a server's own words."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.catalog.object_names import CATALOGS_NAMED
from headwater.catalog.search_path import SearchPath
from headwater.catalog.store.bootstrap import open_catalog
from headwater.catalog.store.image_io import image_of, store_of
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.catalogs import PG_AUTHID
from headwater.receiver.catalog_export import export_catalog
from headwater.rows.text_tables import unprintable
from server_names import NAMES, names_of_objects

if TYPE_CHECKING:
    import psycopg

    from headwater.catalog.store.historic_catalog import HistoricCatalog

pytestmark = pytest.mark.server

SETUP = """
    create schema "Other one"; create schema plain;
    create table public.t (id int); create table plain.t (id int);
    create function plain.join(plain.t, int) returns int language sql as 'select 1';
    create view "Other one"."V w" as select 1 as a;
    create table public.pg_class (id int); create sequence plain."select";
    create function public.now(text) returns text language sql as 'select $1';
    create function public.abs(int) returns int language sql as 'select 1';
    create function plain.now() returns int language sql as 'select 1';
    create function public.alone(a int, variadic b public.t[]) returns int language sql as 'select 1';
    create procedure plain."Do it"(inout a numeric(5,2), b "char") language sql as 'select 1.0';
    create operator public.=== (leftarg = int, rightarg = int, function = int4pl);
    create operator plain.=== (leftarg = int, rightarg = int, function = int4pl);
    create operator plain.==== (rightarg = text, function = upper);
    create operator public.- (rightarg = int, function = int4um);
    create operator public.|| (leftarg = plain.t, rightarg = int, function = plain.join);
    create type public.int4 as enum ('a'); create type plain.mood as enum ('b'); create domain public."D" as text;
    create collation public."C" from "POSIX"; create collation plain."Own" from "C";
    create text search configuration public.english (copy = pg_catalog.english);
    create text search configuration plain."My config" (copy = pg_catalog.simple);
    create text search dictionary public."My dict" (template = simple);
    create role "Role; one"; create role "é""x"; create role plain_1; create role "select";
"""

REGTYPE = 2206
PATHS = (
    '"$user", public',
    "",
    "plain, public",
    'Public , "Other one", plain, public, missing',
    "plain, pg_catalog, public",
    "\tPLAIN\n,$user,pg_temp",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "major" not in metafunc.fixturenames:
        return
    majors = (14, 15, 16, 17, 18, 19) if metafunc.config.getoption("--all-majors") else (15, 18)
    metafunc.parametrize("major", majors, ids=[f"pg{major}" for major in majors])


def test_names_of_all_objects(tmp_path: Path, major: int) -> None:
    with EmbeddedPostgres(find_programs(major), autovacuum=False) as server:
        with server.connect() as connection:
            connection.execute(SETUP)
            there = connection.execute("select oid::int8 from pg_type where oid = any(%s)", (list(NAMES),)).fetchall()
            expected = {path: _names_with_path(connection, path, [oid for (oid,) in there]) for path in PATHS}
        server.stop()
        copy = server.copy_data_directory(tmp_path / "copy")
    assert CATALOGS_NAMED.keys() == NAMES.keys()
    for path, by_type in expected.items():
        store = open_catalog(copy, "postgres")
        store.search_path = SearchPath.parse(path)
        view = store.view((1 << 63) - 1)
        for type_oid, names in by_type.items():
            assert names == _found_names(view, type_oid), (path, NAMES[type_oid])
        types = by_type[REGTYPE]
        assert types == {0: "-"} | {oid: view.type_info(oid).display_name for oid in types if oid}


def _names_with_path(connection: psycopg.Connection[Any], path: str, types: list[int]) -> dict[int, dict[int, str]]:
    connection.execute("select set_config('search_path', %s, false)", (path,))
    return {type_oid: names_of_objects(connection, type_oid) for type_oid in types}


def _found_names(view: HistoricCatalog, type_oid: int) -> dict[int, str]:
    names = view.type_info(type_oid).names
    assert names is not None
    oids = [oid for (oid,) in struct.iter_unpack("<I", names.oids)]
    assert oids == sorted(oids)
    return dict(zip(oids, names.texts.split("\0"), strict=True))


@pytest.mark.parametrize("may_read", [False, True], ids=["replication only", "superuser"])
def test_roles_of_an_exported_catalog(may_read: bool) -> None:
    """Their names are there if the exporting role may read them, their passwords never."""
    with EmbeddedPostgres(find_programs(16), autovacuum=False) as server:
        with server.connect() as connection:
            connection.execute("create role exporter login replication; create role secret password 'secret'")
        info = server.connection_info() | ({} if may_read else {"user": "exporter"})
        exported = export_catalog(" ".join(f"{name}={value}" for name, value in info.items()))
    store = store_of(exported.state.catalog)
    view = store.view(store.horizon + (1 << 40))
    for name, oid in (("regrole", 4096), ("aclitem", 1034)):
        reason = unprintable(view.type_info(oid))
        assert reason is None if may_read else reason is not None and f"lacks the names that {name}" in reason
    assert unprintable(view.type_info(2205)) is None
    assert b"SCRAM" not in dict(exported.state.catalog.catalogs)[PG_AUTHID].data.tobytes()


def test_an_image_has_no_passwords(tmp_path: Path) -> None:
    with EmbeddedPostgres(find_programs(16), autovacuum=False) as server:
        with server.connect() as connection:
            connection.execute("create role the_role password 'secret'")
        server.stop()
        store = open_catalog(server.copy_data_directory(tmp_path / "copy"), "postgres")
    rows = dict(image_of(store, store.lsn, store.lsn, store.origin.next_xid).catalogs)[PG_AUTHID].data.tobytes()
    assert (b"the_role" in rows, b"SCRAM" in rows) == (True, False)
