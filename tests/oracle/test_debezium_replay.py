"""debezium without the connector: its events, applied to empty tables, make what the server's tables hold."""

from __future__ import annotations

import json
import shutil
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from arrow_types import values_of
from headwater import DecodeRequest
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from oracle.folding import one_window
from peers.random_rows import SETUP, workload

pytestmark = pytest.mark.server
MAJOR, SEED, STEPS = 16, 7, 600
OPTIONS = (
    ("topic.prefix", "shop"),
    ("key.converter.schemas.enable", "false"),
    ("value.converter.schemas.enable", "false"),
    ("provide.transaction.metadata", "true"),
)


def replayed(events: list[Any], topic: str) -> dict[str, Any]:
    """Replay what a table holds in the end, by key; a tombstone must follow each delete."""
    rows: dict[str, Any] = {}
    deleted = None
    for event in events:
        if event["topic"] != topic:
            continue
        key = json.dumps(event["key"])
        if event["value"] is None:
            assert key == deleted
            deleted = None
        elif event["value"]["op"] == "d":
            deleted = key
            del rows[key]
        else:
            assert deleted is None
            rows[key] = event["value"]["after"]
    return rows


def counts_of(events: list[Any]) -> list[int]:
    """Count the events of each transaction, having checked that they were told how many."""
    counts, count = [], 0
    for event in events:
        value = event["value"]
        if value is not None and "status" in value:
            if value["status"] == "END":
                assert value["event_count"] == count
                assert sum(table["event_count"] for table in value["data_collections"] or ()) == count
                counts.append(count)
            count = 0
        elif value is not None:
            count += 1
            assert value["transaction"]["total_order"] == count
    return counts


@pytest.mark.slow
def test_events_make_the_tables(tmp_path: Path) -> None:
    with EmbeddedPostgres(find_programs(MAJOR), autovacuum=False) as server:
        with server.connect() as connection:
            for statement in SETUP:
                connection.execute(statement.encode())
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        with server.connect() as connection:
            for statement in workload(SEED, STEPS):
                connection.execute(statement.encode())
            wide = dict(connection.execute("SELECT id, t FROM wide").fetchall())
            pairs = {(a, b): c for a, b, c in connection.execute("SELECT a, b, c FROM pair").fetchall()}
        server.stop()
        shutil.copytree(server.wal_directory, tmp_path / "pg_wal")
    request = DecodeRequest(
        wal=str(tmp_path / "pg_wal"), catalog=str(backup), database="postgres", plugin="debezium", options=OPTIONS
    )
    messages = one_window(request, None).messages
    events = [json.loads(line) for line in values_of(messages.column("data"))]
    assert sum(counts_of(events)) > STEPS // 4
    assert {row["id"]: row["t"] for row in replayed(events, "shop.public.wide").values()} == wide
    epoch = date(1970, 1, 1)
    made = {(row["a"], epoch + timedelta(row["b"])): row["c"] for row in replayed(events, "shop.public.pair").values()}
    assert made == pairs
