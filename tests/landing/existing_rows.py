"""Rows that a backup has: landed, folded up, and compared with those of its server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.parquet_table import read_parquet_table
from headwater.landing.landing import land
from headwater.landing.landing_pass import LandingResult
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pipeline.requests.request import DecodeRequest
from packaged_servers import programs_of

Rows = list[tuple[Any, ...]]


def run(connection: psycopg.Connection[Any], statements: str) -> None:
    for statement in filter(str.strip, statements.split(";\n")):
        connection.execute(statement)


def selected(connection: psycopg.Connection[Any], tables: dict[str, list[str]]) -> dict[str, Rows]:
    """Select all that tables hold."""
    held = {}
    for name, key in tables.items():
        cursor = connection.execute(f"SELECT * FROM {name} ORDER BY {', '.join(key)}")
        held[name] = cursor.fetchall()
    return held


@contextmanager
def server_of(major: int, **settings: str) -> Iterator[EmbeddedPostgres]:
    programs = programs_of(major)
    autovacuum = settings.pop("autovacuum", "off") == "on"
    given = {"max_prepared_transactions": "10", **settings}
    made = EmbeddedPostgres(
        programs, settings=given, autovacuum=autovacuum, wal_segment_megabytes=1, data_checksums=True
    )
    with made as server:
        yield server


def landed(engine: Engine, wal: Path, backup: Path, target: LandingTarget, **request: Any) -> LandingResult:
    return land(engine, DecodeRequest(str(wal), str(backup), "postgres", **request), target)


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    is_after = row["_change_type"] != "update_preimage"
    return row["_commit_lsn"], row["_change_type"] != "read", row["_lsn"], row["_seq"], is_after


def folded(changes: pa.Table, key: list[str], columns: list[str]) -> Rows:
    """Fold existing rows and changes up to the rows that they lead to; values that an update did not touch stay."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    moved: dict[str, Any] | None = None
    for row in sorted(changes.to_pylist(), key=_place):
        place, kind = tuple(row[name] for name in key), row["_change_type"]
        if kind == "truncate":
            rows.clear()
        elif kind in ("delete", "update_preimage"):
            moved = rows.pop(place)
        else:
            if kind in ("read", "insert"):
                assert place not in rows, (kind, place)
                assert not row["_unchanged"]
            before = moved if kind == "update_postimage" and place not in rows else rows.get(place)
            unchanged = {name: (before or {})[name] for name in row["_unchanged"] or []}
            rows[place] = row | unchanged
        moved = moved if kind == "update_preimage" else None
    return sorted((tuple(row[name] for name in columns) for row in rows.values()), key=repr)


def compare(
    target: LandingTarget, expected: dict[str, Rows], keys: dict[str, list[str]], server: EmbeddedPostgres
) -> None:
    for name, rows in expected.items():
        changes = read_parquet_table(target.place / f"public.{name}")
        with server.connect() as connection:
            cursor = connection.execute(f"SELECT * FROM {name} LIMIT 0")
            columns = [column.name for column in cursor.description or []]
        if target.mode != "changelog":
            landed_rows = [tuple(row[column] for column in columns) for row in changes.to_pylist()]
            assert sorted(landed_rows, key=repr) == sorted(rows, key=repr), name
            continue
        assert folded(changes, keys[name], columns) == sorted(rows, key=repr), name
