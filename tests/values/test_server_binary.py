"""Values that only the server makes, and values of types without a send function in binary mode.

Every value that is printed is also sent: ``stored_tables.compare`` asks the server for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater import DecodeRequest, decode
from headwater.errors import DecodingError
from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from server_versions import session_of
from values.stored_tables import compare, type_info

pytestmark = pytest.mark.server

QUERIES = {
    "money": "select unnest(array['12.34', '-92233720368547758.08', '0']::money[])",
    "money[]": "select array['12.34', null]::money[]",
    "regproc": "select oid::regproc from pg_proc where oid < 300",
    "regprocedure": "select oid::regprocedure from pg_proc where oid < 100",
    "regoper": "select oid::regoper from pg_operator limit 50",
    "regoperator": "select oid::regoperator from pg_operator limit 50",
    "regclass": "select oid::regclass from pg_class union all select 0::regclass",
    "regtype": "select oid::regtype from pg_type",
    "regtype[]": "select array_agg(oid::regtype) from pg_type",
    "regconfig": "select oid::regconfig from pg_ts_config",
    "regdictionary": "select oid::regdictionary from pg_ts_dict",
    "regnamespace": "select oid::regnamespace from pg_namespace",
    "regrole": "select oid::regrole from pg_roles",
    "regcollation": "select oid::regcollation from pg_collation limit 50",
    "pg_node_tree": "select adbin from pg_attrdef",
    "pg_ndistinct": "select stxdndistinct from pg_statistic_ext_data",
    "pg_dependencies": "select stxddependencies from pg_statistic_ext_data",
    "pg_mcv_list": "select stxdmcv from pg_statistic_ext_data",
}

OF_19 = {
    "regdatabase": "select oid::regdatabase from pg_database",
    "oid8": "select unnest(array['0', '18446744073709551615']::oid8[])",
}


@pytest.fixture
def connection(server: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    with server.connect() as opened:
        opened.execute(
            "create table measured as select i % 3 a, i % 3 b, i c, i * 7 % 11 d from generate_series(1, 50) i"
        )
        opened.execute("alter table measured alter c set default 7, alter b set default length('text')")
        opened.execute("create statistics measures on a, b, d from measured; analyze measured")
        yield opened
        opened.execute("drop table measured")


def test_values_that_the_server_makes(server: EmbeddedPostgres, connection: psycopg.Connection[Any]) -> None:
    session = session_of(server)
    queries = QUERIES | (OF_19 if server.programs.major >= 19 else {})
    for number, (name, query) in enumerate(queries.items()):
        table = f"sent{number}"
        connection.execute(f"create table {table} (id int not null, value {name})")
        connection.execute(f"alter table {table} alter value set storage plain")
        connection.execute(f"insert into {table} select row_number() over (), value from ({query}) q (value)")
        row = connection.execute("select %s::regtype::oid::int8", (name,)).fetchone()
        assert row is not None
        assert compare(server, connection, table, type_info(connection, row[0]), session) > 0, name
        connection.execute(f"drop table {table}")


@pytest.mark.spark
def test_a_value_made_of_one_without_a_send_function_is_refused(engine: Engine, tmp_path: Path) -> None:
    """In the server's words, but for where it lies; NULLs are no matter."""
    options = (("proto_version", "1"), ("publication_names", "p"), ("binary", "true"))
    with EmbeddedPostgres(find_programs(16, plugin="pgoutput"), autovacuum=False) as server:
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        with server.connect() as connection:
            connection.execute("create publication p for all tables")
            connection.execute("select pg_create_logical_replication_slot('s', 'pgoutput')")
            row = connection.execute("select confirmed_flush_lsn::text from pg_replication_slots").fetchone()
            assert row is not None
            connection.execute("create table t (id int, acl aclitem[])")
            connection.execute("insert into t values (1, null)")
            words = [word for option in options for word in option]
            peek = "select data from pg_logical_slot_peek_binary_changes('s', null, null, %s, %s, %s, %s, %s, %s)"
            expected = [bytes(data) for (data,) in connection.execute(peek, words).fetchall()]
            last = connection.execute("select pg_current_wal_insert_lsn()::text").fetchone()
            assert last is not None
            connection.execute("insert into t values (2, '{}')")
            with pytest.raises(psycopg.errors.UndefinedFunction) as refusal:
                connection.execute(peek, words)
        server.stop()
        start, end = int(Lsn.parse(row[0])), int(Lsn.parse(last[0]))
        request = DecodeRequest(str(server.wal_directory), str(backup), "postgres", "pgoutput", options, start, end)
        with decode(engine, request) as result:
            assert expected == [data for table in result.tables() for data in table.column("data").to_pylist()]
        with pytest.raises(DecodingError) as caught, decode(engine, replace(request, end=None)):
            pass
    assert str(refusal.value.diag.message_primary) + ', needed for column "acl" of table "public.t"' in str(
        caught.value
    )
    assert caught.value.lsn is not None
    assert caught.value.lsn >= end
