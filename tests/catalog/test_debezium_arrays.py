"""debezium: arrays of the types of extensions are made of what their elements are, also as domains."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.catalog.store.bootstrap import open_catalog
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.plugins.debezium.column_types import Forms
from headwater.plugins.debezium.options import DebeziumOptions

pytestmark = pytest.mark.server

NAMES = ("geometry", "geography", "vector", "halfvec", "sparsevec")
"""Types that Debian has not on every major: here they are made by their names, which the connector knows them by."""

MADE = """
CREATE TYPE {0};
CREATE FUNCTION {0}_in(cstring) RETURNS {0} LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION {0}_out({0}) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE {0} (INPUT = {0}_in, OUTPUT = {0}_out);
"""


def test_arrays_of_types_of_extensions(tmp_path: Path) -> None:
    names = ("hstore", *NAMES)
    with EmbeddedPostgres(find_programs(16), autovacuum=False) as server:
        with server.connect() as connection:
            connection.execute("CREATE EXTENSION hstore")
            for name in NAMES:
                connection.execute(MADE.format(name).encode())
            for name in names:
                connection.execute(
                    f"CREATE DOMAIN some_{name} AS {name}[]; CREATE DOMAIN own_{name} AS {name}".encode()
                )
            columns = ", ".join(f"a_{n} {n}[], d_{n} some_{n}, o_{n} own_{n}[], p_{n} {n}" for n in names)
            connection.execute(f"CREATE TABLE t ({columns})".encode())
            row = connection.execute("SELECT 't'::regclass::oid::int8").fetchone()
            assert row is not None
        server.stop()
        store = open_catalog(server.copy_data_directory(tmp_path / "copy"), "postgres")
    table = store.view((1 << 63) - 1).relation(row[0])
    assert table is not None
    forms = {column.name: Forms(DebeziumOptions()).form(column) for column in table.columns}
    for name in names:
        plain, array = forms[f"p_{name}"], forms[f"a_{name}"]
        assert plain is not None
        assert array is not None
        assert array.schema["type"] == "array"
        assert plain.schema.items() <= {**array.schema["items"]}.items()
        assert forms[f"d_{name}"] == array
        # The connector, too, leaves out arrays of domains.
        assert forms[f"o_{name}"] is None
