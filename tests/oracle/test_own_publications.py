"""``--publish``: with the same text, a server's publication sends the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from arrow_types import values_of
from headwater import DecodeRequest, decode
from headwater.demo.stream_comparison import first_difference, joined, messages_table
from headwater.errors import ExpressionError, HeadwaterError, PluginError, UnsupportedFilterError, UsageError
from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs

pytestmark = [pytest.mark.server]

SETUP = """
CREATE TABLE t (id int PRIMARY KEY, small int2, big int8, n numeric, f float8, x text, v varchar(20), c char(5),
                d date, s timestamp, z timestamptz, b bool, u uuid, name name COLLATE "C", j jsonb, r float4, a int[]);
CREATE TABLE k (id int PRIMARY KEY, total numeric NOT NULL, note text);
ALTER TABLE k REPLICA IDENTITY FULL;
CREATE TABLE m (id int PRIMARY KEY, total numeric, note text);
CREATE TABLE root (id int PRIMARY KEY, a text) PARTITION BY RANGE (id);
CREATE TABLE leaf (a text, id int NOT NULL);
ALTER TABLE root ATTACH PARTITION leaf FOR VALUES FROM (0) TO (1000);
CREATE PUBLICATION everything FOR ALL TABLES;
"""
WORK = """
INSERT INTO t SELECT i, i % 5, i * 1000000000::int8, i / 3.0, i / 7.0, 'text ' || i, 'v' || i % 3, 'c' || i % 4,
    date '2024-01-01' + i, timestamp '2024-01-01' + i * interval '7 hours', timestamptz '2024-01-01 00:00+00' + i *
    interval '7 hours', CASE i % 3 WHEN 0 THEN true WHEN 1 THEN false END,
    ('00000000-0000-0000-0000-0000000000' || to_char(i, 'FM00'))::uuid, 'n' || i, '{"a": 1}',
    CASE i WHEN 1 THEN 0.1 ELSE i END, ARRAY[i, i % 3 + 1]
    FROM generate_series(1, 40) i;
INSERT INTO t (id) VALUES (100);
INSERT INTO k SELECT i, i * 10, 'note' FROM generate_series(1, 20) i;
UPDATE k SET total = total + 95;
UPDATE k SET total = total - 95 WHERE id % 3 = 0;
DELETE FROM k WHERE id > 15;
INSERT INTO m SELECT i, i * 10, 'note' FROM generate_series(1, 20) i;
UPDATE m SET id = id + 20 WHERE id % 4 = 0;
UPDATE m SET total = 0 WHERE id > 10;
INSERT INTO root VALUES (1, 'a'), (2, 'b');
UPDATE root SET id = id + 2;
TRUNCATE k;
"""
INSERTS = "WITH (publish = 'insert')"
TEXTS = [
    f"k(id, total) WHERE (total > 100) {INSERTS}",
    "m(id, total) WHERE (id > 10)",
    "k WHERE (total > 100)",
    "k WHERE (total BETWEEN 50 AND 120.5 AND note = 'note')",
    "k WHERE (total NOT BETWEEN 50 AND 120.5 OR id IN (3, 4))",
    "k",
    "public.m (total, id) WITH (publish = 'insert, update')",
    "root",
    f"t WHERE (id > 5 AND id <= 20 AND NOT id = 7 AND id <> 8) {INSERTS}",
    f"t WHERE (small = 3) {INSERTS}",
    f"t WHERE (small = '3') {INSERTS}",
    f"t WHERE (big > 20000000000) {INSERTS}",
    f"t WHERE (big > 20) {INSERTS}",
    f"t WHERE (big > id) {INSERTS}",
    f"t WHERE (n > 2 AND n < 10.25) {INSERTS}",
    f"t WHERE (n * 3 = id) {INSERTS}",
    f"t WHERE (n - 1 > '3.5' AND -n < +5) {INSERTS}",
    f"t WHERE (f > 2) {INSERTS}",
    f"t WHERE (f > 2.5 AND f < '5.5') {INSERTS}",
    f"t WHERE (f * 7 >= n) {INSERTS}",
    f"t WHERE (r > 5) {INSERTS}",
    f"t WHERE (x = 'text 7' OR x LIKE 'text 1%' OR x IS NULL) {INSERTS}",
    f"t WHERE (x NOT LIKE 'text 1%' AND x <> 'text 2') {INSERTS}",
    f"t WHERE (v = 'v1') {INSERTS}",
    f"t WHERE (v = x OR v <> 'v0') {INSERTS}",
    f"t WHERE (c = 'c1') {INSERTS}",
    f"t WHERE (name = 'n7') {INSERTS}",
    f"t WHERE (d >= '2024-01-10' AND d < date '2024-01-20') {INSERTS}",
    f"t WHERE (d + 3 > '2024-01-20') {INSERTS}",
    f"t WHERE (d = s) {INSERTS}",
    f"t WHERE (s > '2024-01-03 07:30:00.5') {INSERTS}",
    f"t WHERE (s > d) {INSERTS}",
    f"t WHERE (z > '2024-01-03 07:30:00+02:00') {INSERTS}",
    f"t WHERE (b) {INSERTS}",
    f"t WHERE (NOT b) {INSERTS}",
    f"t WHERE (b IS NOT TRUE AND id < 30) {INSERTS}",
    f"t WHERE (b = 'yes' OR b = false) {INSERTS}",
    f"t WHERE (b IS NULL) {INSERTS}",
    f"t WHERE (u = '00000000-0000-0000-0000-000000000007') {INSERTS}",
    f"t WHERE (id % 2 = 0 AND id / 4 = 2 OR id & 8 = 8) {INSERTS}",
    f"t WHERE (id::numeric / 3 > 5.5) {INSERTS}",
    f"t WHERE (small IS DISTINCT FROM 3) {INSERTS}",
    f"t WHERE (small IS NOT DISTINCT FROM 3) {INSERTS}",
    f"t WHERE (x || 'a' = 'text 3a') {INSERTS}",
    f"t WHERE (id IN (1, 2.5, 3)) {INSERTS}",
    f"t WHERE (id NOT IN (1, 2, 3)) {INSERTS}",
    f"t WHERE (true) {INSERTS}",
    f"t WHERE (j = '{{\"a\": 1}}') {INSERTS}",
    f"t WHERE (r IN (0.1, 2)) {INSERTS}",
    f"t WHERE (id IN (1, id, small, NULL)) {INSERTS}",
    f"t WHERE (id IN ('1', '2') OR id NOT IN (1, 2, id)) {INSERTS}",
    f"t WHERE (c NOT IN ('c1', 'c2') AND v <> 'v1' OR x IN (v, 'text 3', 'text 4')) {INSERTS}",
    f"t WHERE (big IN (1000000000, 2000000000, 3)) {INSERTS}",
    f"t WHERE (n IN (1, 2.0, 3)) {INSERTS}",
    f"t WHERE (id = ANY (ARRAY[1, 2, 3])) {INSERTS}",
    f"t WHERE (big = ANY (ARRAY[1, 2000000000])) {INSERTS}",
    f"t WHERE (n = ANY (ARRAY[1, 2])) {INSERTS}",
    f"t WHERE (n = ANY (ARRAY[1, 2.0])) {INSERTS}",
    f"t WHERE (id = ANY ('{{1, 2,30}}')) {INSERTS}",
    f"t WHERE (id < ALL (ARRAY[small + 10, 30])) {INSERTS}",
    f"t WHERE (x <> ALL (ARRAY['text 1', 'text 2'])) {INSERTS}",
    f"t WHERE (v = ANY (ARRAY['v1', 'v2'])) {INSERTS}",
    f"t WHERE (x LIKE ANY (ARRAY['text 1%', '%5'])) {INSERTS}",
    f"t WHERE (id = ANY (ARRAY['1', '2'])) {INSERTS}",
    f"t WHERE (id = ANY (a)) {INSERTS}",
    f"t WHERE (big = ANY (a) OR 1 <> ALL (a)) {INSERTS}",
    f"t WHERE (a = '{{1}}') {INSERTS}",
    f"t WHERE (length(x) > 6 AND upper(v) = 'V1') {INSERTS}",
    f"t WHERE (length(c) = 2 AND lower(c) = 'c1') {INSERTS}",
    f"t WHERE (substring(x from 6 for 1) = '1' OR left(x, 4) <> 'text') {INSERTS}",
    f"t WHERE (trim(both 'v' from v) = '1') {INSERTS}",
    f"t WHERE (starts_with(x, 'text 2') AND strpos(x, '5') > 0) {INSERTS}",
    f"t WHERE (abs(small - 3) = 1 AND mod(id, 4) = 1) {INSERTS}",
    f"t WHERE (round(n, 1) = 1.3 OR round(f) = 2 OR floor(n) = 4) {INSERTS}",
    f"t WHERE (mod(big, 7) = 3 AND abs(f) > 1) {INSERTS}",
    f"t WHERE (extract(month from d) = 2 AND extract(day from s) > 3) {INSERTS}",
    f"t WHERE (date_part('day', s) = 5 OR date_trunc('month', s) = '2024-01-01') {INSERTS}",
    f"t WHERE (extract(year from z) = 2024) {INSERTS}",
    f"t WHERE (md5(x) > '5') {INSERTS}",
    f"t WHERE (md5(x) = md5('text 5') AND hashtext(x) < 2147483647) {INSERTS}",
    f"t WHERE (now() > z) {INSERTS}",
    f"t WHERE (length('a') = 1) {INSERTS}",
    f"t WHERE (length(id) = 1) {INSERTS}",
    f"t WHERE (CASE small WHEN 1 THEN true WHEN 2 THEN id > 20 END) {INSERTS}",
    f"t WHERE (CASE WHEN small = 0 THEN false ELSE 10 / small > 3 END) {INSERTS}",
    f"t WHERE (CASE WHEN b THEN id WHEN b IS NULL THEN n END > 5) {INSERTS}",
    f"t WHERE (CASE v WHEN 'v1' THEN 'a' WHEN 'v2' THEN 'b' ELSE x END = 'a') {INSERTS}",
    f"t WHERE (CASE WHEN b THEN x ELSE id END = '1') {INSERTS}",
    f"t WHERE (coalesce(b, id > 10)) {INSERTS}",
    f"t WHERE (coalesce(x, v, 'none') = 'none' OR coalesce(small, n, 1) = 2) {INSERTS}",
    f"t WHERE (coalesce(NULL, x) IS NULL) {INSERTS}",
    f"t WHERE (nullif(id, 7) IS NULL OR nullif(small, 2.0) = 1) {INSERTS}",
    f"t WHERE (nullif(v, 'v1') IS NULL) {INSERTS}",
    f"t WHERE (greatest(id, small * 10, 12) = 12 OR least(n, f) < 0.5) {INSERTS}",
    f"t WHERE (greatest(d, s) = s AND least(d, '2024-01-20') = d) {INSERTS}",
    f"t WHERE (greatest(x, 'b') = x) {INSERTS}",
]
REFUSED = {
    f"t WHERE (name = 'n7') {INSERTS}",
    f"t WHERE (j = '{{\"a\": 1}}') {INSERTS}",
    f"t WHERE (a = '{{1}}') {INSERTS}",
}
"""What the server takes, and is not known here."""

MAJORS = [pytest.param(16, marks=pytest.mark.slow), 18]


class Server:
    """A stopped server, and what it said with each text."""

    def __init__(self, wal: Path, backup: Path, start: int, answers: dict[str, Any]) -> None:
        self.answers = answers
        options = (("proto_version", "1"), ("publication_names", "everything"))
        self.request = DecodeRequest(str(wal), str(backup), plugin="pgoutput", options=options, start=start)


@pytest.fixture(scope="module", params=MAJORS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with EmbeddedPostgres(find_programs(request.param), autovacuum=False) as running:
        with running.connect() as connection:
            _run(connection, SETUP)
        running.stop()
        backup = running.copy_data_directory(tmp_path_factory.mktemp("publish") / "backup")
        running.start()
        with running.connect() as connection:
            refused = {}
            for number, text in enumerate(TEXTS):
                try:
                    connection.execute(f"CREATE PUBLICATION p{number} FOR TABLE {text}".encode())
                except psycopg.Error as error:
                    refused[text] = error
            query = "SELECT lsn - '0/0' FROM pg_create_logical_replication_slot('s', 'pgoutput')"
            start = int(connection.execute(query).fetchall()[0][0])
            _run(connection, WORK)
            answers = {
                text: _said(connection, f"p{number}") for number, text in enumerate(TEXTS) if text not in refused
            }
        running.stop()
        yield Server(running.wal_directory, backup, start, answers | refused)


def _run(connection: Any, statements: str) -> None:
    for statement in filter(str.strip, statements.split(";\n")):
        connection.execute(statement)


def _said(connection: Any, publication: str) -> Any:
    query = (
        "SELECT lsn - '0/0', xid::text::int8, data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, "
        "'proto_version', '1', 'publication_names', %s)"
    )
    rows = connection.execute(query, (publication,)).fetchall()
    return messages_table((int(lsn), xid, bytes(data)) for lsn, xid, data in rows)


@pytest.mark.parametrize("text", TEXTS)
def test_a_servers_publication_sends_the_same(server: Server, engine: Engine, text: str) -> None:
    answer = server.answers[text]
    request = replace(server.request, publish=(text,))
    if text in REFUSED or isinstance(answer, psycopg.Error):
        with pytest.raises(UnsupportedFilterError if text in REFUSED else HeadwaterError):
            decode(engine, request)
        return
    with decode(engine, request) as result:
        actual = joined(result.tables())
    assert first_difference(answer, actual) is None, first_difference(answer, actual)


def test_without_parentheses_and_on_other_plugins(server: Server, engine: Engine) -> None:
    texts = ("k(id, total) WHERE total > 100 AND id < 12", "public.t(id) WITH (publish = 'insert')")
    options = (("skip-empty-xacts", "1"), ("include-xids", "0"))
    request = replace(server.request, plugin="test_decoding", options=options, publish=texts)
    with decode(engine, request) as result:
        lines = [data.decode() for data in values_of(joined(result.tables()).column("data"))]
    changes = [line for line in lines if not line.startswith(("BEGIN", "COMMIT"))]
    assert changes[0] == "table public.t: INSERT: id[integer]:1"
    of_k = (line for line in changes if line.startswith("table public.k: INSERT"))
    assert next(of_k) == "table public.k: INSERT: id[integer]:11 total[numeric]:110"
    assert not any("note" in line or "root" in line for line in changes)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("k WHERE", UsageError, "no table of a publication"),
        ("k, t", UsageError, "not one table"),
        ("TABLES IN SCHEMA public", UsageError, "no table of a publication"),
        ("k WITH (publish_via_partition_root)", UsageError, "option"),
        ("k(gone)", PluginError, 'column "gone"'),
        ("k WHERE (gone = 1)", PluginError, 'column "gone" does not exist'),
        ("k WHERE (total)", PluginError, "must be type boolean"),
        ("k WHERE (total = 'x')", UnsupportedFilterError, "numeric"),
        ("k WHERE (id = '99999999999')", ExpressionError, "out of range for type integer"),
        ("k WHERE (id = note)", PluginError, "operator does not exist"),
        ("k WHERE (exp(total) > 1)", UnsupportedFilterError, "exp"),
        ("k WHERE (count(*) > 1)", UnsupportedFilterError, "count"),
        ("k WHERE (CASE WHEN id = 1 THEN note ELSE total END = 1)", PluginError, "CASE types"),
        ("t WHERE (extract(year from z) = 1)", PluginError, "not immutable"),
        ("t WHERE (cardinality(a) = 1)", UnsupportedFilterError, "type"),
        ("t WHERE (small = 1)", PluginError, "not part of the replica identity"),
        ("t WHERE (d < z)", PluginError, "not immutable"),
    ],
)
def test_refusals(server: Server, engine: Engine, text: str, error: type[HeadwaterError], message: str) -> None:
    with pytest.raises(error, match=message):
        decode(engine, replace(server.request, publish=(text,)))
