"""The catalogs' server runs nothing that users of the source have made, however a statement comes to it."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from bad_input.servers import run
from packaged_servers import is_packaged
from serving.catalogs import answer, connected, pair_of

pytestmark = pytest.mark.server

FAILING = "LANGUAGE plpgsql AS $$BEGIN RAISE 'this ran'; END$$"
MADE = (
    f"CREATE FUNCTION public.runs(oid, int DEFAULT 1) RETURNS int {FAILING}",
    f"CREATE FUNCTION public.runs(text) RETURNS bool {FAILING}",
    f"CREATE FUNCTION public.nothing() RETURNS int {FAILING}",
    "CREATE FUNCTION public.inlined(oid) RETURNS int LANGUAGE sql AS 'SELECT public.runs($1)'",
    f"CREATE FUNCTION public.compared(int, int) RETURNS int IMMUTABLE {FAILING}",
    "CREATE OPERATOR public.### (LEFTARG = oid, RIGHTARG = int, FUNCTION = public.runs)",
    "CREATE AGGREGATE public.summed(oid) (SFUNC = public.added, STYPE = int, INITCOND = '0')",
    "CREATE TYPE public.plain AS (a int)",
    f"CREATE FUNCTION public.cast_to(oid) RETURNS public.plain {FAILING}",
    "CREATE CAST (oid AS public.plain) WITH FUNCTION public.cast_to(oid)",
    "CREATE DOMAIN public.checked AS text CHECK (public.runs(VALUE))",
    "CREATE TYPE public.holding AS (a public.checked)",
    "CREATE FUNCTION public.of_texts(public.checked[]) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE OPERATOR CLASS public.own FOR TYPE int USING btree AS FUNCTION 1 public.compared(int, int),"
    " OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >",
    "CREATE TYPE public.stretch AS RANGE (SUBTYPE = int, SUBTYPE_OPCLASS = public.own)",
    "CREATE VIEW public.seen AS SELECT public.runs(oid) FROM pg_catalog.pg_class",
    f"CREATE FUNCTION public.as_json(shop.mood) RETURNS json {FAILING}",
    "CREATE CAST (shop.mood AS json) WITH FUNCTION public.as_json(shop.mood)",
    "CREATE TABLE public.kept (a int)",
    "ALTER TABLE public.kept ADD m shop.mood DEFAULT 'ok'",
    f"CREATE FUNCTION public.as_text(shop.mood) RETURNS text {FAILING}",
    "CREATE CAST (shop.mood AS text) WITH FUNCTION public.as_text(shop.mood)",
    f"CREATE FUNCTION public.moods(shop.mood, shop.mood) RETURNS int IMMUTABLE {FAILING}",
    "CREATE OPERATOR CLASS public.of_moods DEFAULT FOR TYPE shop.mood USING btree AS"
    " FUNCTION 1 public.moods(shop.mood, shop.mood)",
    f"CREATE FUNCTION public.hashed(int, bigint) RETURNS bigint IMMUTABLE {FAILING}",
    "CREATE OPERATOR CLASS public.own_hash FOR TYPE int USING hash AS OPERATOR 1 =,"
    " FUNCTION 2 public.hashed(int, bigint)",
    "CREATE TABLE public.spread (a int) PARTITION BY HASH (a public.own_hash)",
    f"CREATE FUNCTION public.equals(text, text) RETURNS bool {FAILING}",
    "CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.equals)",
    "SET check_function_bodies = off",
    "CREATE FUNCTION public.hides() RETURNS int LANGUAGE sql AS $$SELECT array_length('{x}'::public.checked[], 1)$$",
    "GRANT USAGE ON SCHEMA public TO PUBLIC",
    "GRANT SELECT ON public.seen TO PUBLIC",
)
WAYS = (
    "SELECT public.runs(oid) FROM pg_class",
    "SELECT public.inlined(oid) FROM pg_class",
    "SELECT oid OPERATOR(public.###) 1 FROM pg_class",
    "SELECT public.summed(oid) FROM pg_class",
    "SELECT oid::public.plain FROM pg_class",
    "SELECT relname::text::public.checked FROM pg_class",
    "SELECT 'x'::public.checked, relname FROM pg_class",
    "SELECT '{x}'::public.checked[], relname FROM pg_class",
    "SELECT '(x)'::public.holding, relname FROM pg_class",
    "SELECT public.holding '(x)', relname FROM pg_class",
    "SELECT public.of_texts('{x}'), relname FROM pg_class",
    "SELECT '[1,2]'::public.stretch, relname FROM pg_class",
    """SELECT '{"[1,2]"}'::public.stretch[], relname FROM pg_class""",
    "SELECT * FROM public.seen",
    "SELECT relname FROM pg_class LIMIT public.nothing()",
    "SELECT relname, first_value(relname) OVER (ORDER BY public.nothing()) FROM pg_class",
    "WITH w AS (SELECT public.runs(oid) AS r FROM pg_class) SELECT max(r) FROM w",
    "SELECT relname FROM pg_class ORDER BY (SELECT public.nothing())",
    "SELECT f FROM public.nothing() f, pg_class",
    "SELECT to_json(attmissingval) FROM pg_attribute WHERE atthasmissing",
    "SELECT to_json(a) FROM pg_attribute a WHERE atthasmissing",
    "SELECT to_json('ok'::shop.mood), relname FROM pg_class",
    "SELECT json_agg(m) FROM unnest('{ok}'::shop.mood[]) m, pg_class",
    "SELECT json_build_object('a', ROW('ok'::shop.mood)), relname FROM pg_class",
    "SELECT quote_literal('ok'::shop.mood), relname FROM pg_class",
    "SELECT 'is ' || 'ok'::shop.mood, relname FROM pg_class",
    "SELECT GREATEST('ok'::shop.mood, 'sad'), relname FROM pg_class",
    "SELECT '{ok}'::shop.mood[] < '{sad}', relname FROM pg_class",
    "SELECT ROW('ok'::shop.mood) = ROW(m), relname FROM unnest('{ok}'::shop.mood[]) m, pg_class ORDER BY ROW(m)",
    "SELECT domain_in('x', oid, -1) IS NULL FROM pg_type WHERE typname LIKE 'check_d'",
    "SELECT array_in('{x}', oid, -1) IS NULL FROM pg_type WHERE typname LIKE 'check_d'",
    "SELECT record_in('(x)', oid, -1) IS NULL FROM pg_type WHERE typname LIKE 'h_lding'",
    "SELECT range_in('[1,2]', oid, -1) IS NULL FROM pg_type WHERE typname LIKE 's_retch'",
    "SELECT fmgr_sql_validator(oid) FROM pg_proc WHERE proname = 'hides'",
    "SELECT satisfies_hash_partition(oid, 2, 0, 1) FROM pg_class WHERE relname = 'spread'",
)
"""Statements by which the server comes to code of users."""

OF_NO_CODE = (
    "SELECT enum_range(NULL::shop.mood), min(relname) FROM pg_class",
    "SELECT '(1,x)'::shop.pair, '{ok}'::shop.mood[], '[1,2)'::shop.span, relname FROM pg_class ORDER BY 4",
    "SELECT 7::shop.cents, '{7}'::shop.cents[], relname FROM pg_class ORDER BY 3",
    "SELECT attmissingval, array_length(attmissingval, 1), attname FROM pg_attribute WHERE atthasmissing",
    "SELECT attname FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid WHERE attnum = ANY ('{1,2}') ORDER BY 1",
    "SELECT array_agg(a.attname ORDER BY attname) = '{a}' FROM pg_attribute a JOIN pg_class c ON a.attrelid = c.oid",
    "SELECT pg_is_in_recovery(), pg_last_wal_receive_lsn(), relname /* one */ FROM pg_class WHERE oid = 1259 -- two",
    "SELECT sum(oid::int8) OVER (ORDER BY oid ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING EXCLUDE TIES) FROM pg_am",
    "SELECT relname FROM pg_class c WHERE (relname, oid) > ('pg_class', 5) ORDER BY relname DESC",
)
"""Statements with values of users' types that run nothing of users."""

PRESET = "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'max_index_keys'"


@pytest.mark.parametrize("major", [major for major in (14, 16, 18) if is_packaged(major)])
def test_nothing_of_it_runs(tmp_path: Path, major: int) -> None:
    with pair_of(major, tmp_path) as pair:
        run(pair.server, f"CREATE FUNCTION public.added(int, oid) RETURNS int {FAILING}", *MADE)
        theirs, ours = pair.places("reader")
        with connected(theirs) as server, connected(ours) as service:
            for way in WAYS:
                for prepares in (False, True):
                    with pytest.raises(psycopg.errors.RaiseException):
                        server.execute(way.encode(), prepare=prepares)
                    with pytest.raises(psycopg.errors.FeatureNotSupported):
                        service.execute(way.encode(), prepare=prepares)
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                service.execute("SELECT %s::public.checked[], relname FROM pg_class", (["x"],))
            for query in (*OF_NO_CODE, PRESET):
                assert answer(service, query.encode()) == answer(server, query.encode()), query
            for connection in (server, service):
                connection.execute("SET search_path = public, pg_catalog")
            with pytest.raises(psycopg.errors.RaiseException):
                server.execute(PRESET)
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                service.execute(PRESET)
