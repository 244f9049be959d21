"""Tables, a subscription that goes through the service, and what a server has of the tables."""

from __future__ import annotations

from bad_input.servers import run, value
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import Serving

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, name text, price numeric(10, 2))",
    "CREATE TABLE parts (id int, region text, PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
    "CREATE TABLE parts_a PARTITION OF parts FOR VALUES IN ('a')",
    "CREATE TABLE parts_b PARTITION OF parts FOR VALUES IN ('b')",
)


def sums(server: EmbeddedPostgres) -> list[str]:
    """Return a digest of each table's rows."""
    digest = "SELECT coalesce(md5(string_agg(x::text, ' ' ORDER BY x::text)), '') FROM {} x"
    return [value(server, digest.format(table)) for table in ("t", "parts")]


def subscribe(subscriber: EmbeddedPostgres, serving: Serving, options: str) -> None:
    """Make a subscription to the publication p."""
    place = f"host=127.0.0.1 port={serving.port} dbname=postgres user=postgres"
    run(subscriber, f"CREATE SUBSCRIPTION s CONNECTION '{place}' PUBLICATION p WITH ({options})")
