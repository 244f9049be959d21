"""What OIDs of all objects print as, compared with a server's own words."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from headwater.catalog.bootstrap import open_catalog
from headwater.catalog.object_names import ACLITEM, CATALOGS_NAMED
from headwater.demo.embedded_postgres import EmbeddedPostgres, find_programs

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
NAMES = {
    24: ("pg_proc", "oid::regproc::text"),
    2202: ("pg_proc", "oid::regprocedure::text"),
    2203: ("pg_operator", "oid::regoper::text"),
    2204: ("pg_operator", "oid::regoperator::text"),
    2205: ("pg_class", "oid::regclass::text"),
    2206: ("pg_type", "oid::regtype::text"),
    3734: ("pg_ts_config", "oid::regconfig::text"),
    3769: ("pg_ts_dict", "oid::regdictionary::text"),
    4089: ("pg_namespace", "oid::regnamespace::text"),
    4096: ("pg_authid", "oid::regrole::text"),
    4191: ("pg_collation", "oid::regcollation::text"),
    ACLITEM: ("pg_authid", "split_part(makeaclitem(oid, 10, 'SELECT', false)::text, '=', 1)"),
}
"""By type: the catalog of all its objects, and how the server prints one."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    majors = (14, 15, 16, 17, 18) if metafunc.config.getoption("--all-majors") else (15, 18)
    metafunc.parametrize("major", majors, ids=[f"pg{major}" for major in majors])


def test_names_of_all_objects(tmp_path: Path, major: int) -> None:
    with EmbeddedPostgres(find_programs(major), autovacuum=False) as server:
        expected = {}
        with server.connect() as connection:
            connection.execute(SETUP)
            for type_oid, (catalog, text) in NAMES.items():
                rows = connection.execute(f"select oid::int8, {text} from pg_catalog.{catalog}").fetchall()
                expected[type_oid] = dict(rows)
        server.stop()
        view = open_catalog(server.copy_data_directory(tmp_path / "copy"), "postgres").view((1 << 63) - 1)
    assert CATALOGS_NAMED.keys() == NAMES.keys()
    for type_oid, names in expected.items():
        found = view.type_info(type_oid).names
        assert found is not None
        oids = [oid for (oid,) in struct.iter_unpack("<I", found.oids)]
        assert oids == sorted(oids)
        texts = dict(zip(oids, found.texts.split("\0"), strict=True))
        nothing = None if type_oid == ACLITEM else "0" if type_oid in (2203, 2204) else "-"
        assert texts.pop(0, None) == nothing
        assert names == texts, NAMES[type_oid]
