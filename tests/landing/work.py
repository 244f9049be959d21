"""A server's work that is landed under difficulties: segments, three tables, and what landing it undisturbed gives.

Whatever became of a run, a table has a whole number of transactions: of a change table those changes, of a mirror the
rows that they lead to. In the end a target has what an undisturbed one has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing import land
from headwater.landing.landing_modes import CHANGELOG, HISTORY
from headwater.landing.landing_pass import LandingResult
from headwater.landing.landing_watch import NOBODY_WATCHES, LandingWatch
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.engines import LOCAL, SPARK
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from landing.folded_changes import FoldedByKey, FoldedWholes, in_order
from landing.mirrors import Rows, has_landed, plain, read_table

WINDOW_BYTES = 1 << 20
_ORDER_OF_MIRRORS = ("id", "x", "_valid_from_lsn")
ORDER = ("_commit_lsn", "_lsn", "_seq", "_change_type")
TABLES = {"public.a": ("id", "t"), "public.b": ("id", "n"), "public.c": ("x",)}
"""Tables and their columns."""
SETUP = (
    "CREATE TABLE a (id int PRIMARY KEY, t text)",
    "CREATE TABLE b (id int PRIMARY KEY, n int)",
    "CREATE TABLE c (x int)",
    "INSERT INTO a SELECT -100000 - i, 'there before' FROM generate_series(1, 200) i",
    "INSERT INTO b SELECT -100000 - i, i FROM generate_series(1, 200) i",
)

Reader = Callable[[LandingTarget, str], pa.Table | None]
"""The rows of a table; None for one that is not there."""


@dataclass(frozen=True)
class Work:
    """Files of a stopped server.

    Attributes:
        engine: to land undisturbed with.
        backup, wal: directories; places: for what has landed undisturbed.
    """

    engine: Engine
    backup: Path
    wal: Path
    places: Path
    _whole: dict[str, dict[str, pa.Table]] = field(default_factory=dict)

    def whole(self, mode: str) -> dict[str, pa.Table]:
        """Land in one window; return by table all that it has then, in order."""
        if mode not in self._whole:
            target = LandingTarget(self.places / mode, mode=mode)
            land(self.engine, DecodeRequest(str(self.wal), str(self.backup), "postgres"), target)
            self._whole[mode] = {name: ordered(read_table(target.place / name, target.format)) for name in TABLES}
        return self._whole[mode]

    @cached_property
    def states(self) -> dict[str, list[Rows]]:
        """By table, the rows that there were behind each transaction."""
        return {name: list(_states(name, rows)) for name, rows in self.whole(CHANGELOG).items()}

    def arguments(self, target: LandingTarget) -> list[str]:
        """List the arguments of ``headwater land``; histories land on Spark, all else in the command's own process."""
        words = ["land", "--wal", self.wal, "--catalog", self.backup, "--database", "postgres"]
        words += ["--to", target.where, "--format", target.format]
        words += ["--mode", target.mode, "--write-mode", target.write_mode, "--window-bytes", WINDOW_BYTES]
        words += ["--engine", SPARK if target.mode == HISTORY else LOCAL]
        words += ["--config", _settings(target)] if target.tables else []
        return [str(word) for word in words]

    def land(self, engine: Engine, target: LandingTarget, watch: LandingWatch = NOBODY_WATCHES) -> LandingResult:
        """Land it here."""
        request = DecodeRequest(str(self.wal), str(self.backup), "postgres")
        return land(engine, request, target, bounds=WindowBounds(WINDOW_BYTES), watch=watch)

    def check_whole(self, target: LandingTarget, reader: Reader | None = None) -> None:
        """Check that a target has everything once."""
        for name, rows in self.whole(target.mode).items():
            landed = (reader or read)(target, name)
            assert landed is not None, name
            assert ordered(landed).cast(rows.schema).equals(rows), name

    def check_so_far(self, target: LandingTarget, reader: Reader | None = None) -> int:
        """Check that each table of a target has whole transactions, from the first on, once; return how many rows."""
        count = 0
        for name, rows in self.whole(CHANGELOG).items():
            landed = (reader or read)(target, name)
            if landed is None or not len(landed):
                continue
            count += len(landed)
            if target.mode == CHANGELOG:
                _check_changes(name, ordered(landed).cast(rows.schema), rows)
            else:
                left = landed.filter(pc.is_null(landed["_valid_to_lsn"])) if target.mode == HISTORY else landed
                assert plain(_tuples(left, TABLES[name])) in self.states[name], name
        return count


def _settings(target: LandingTarget) -> Path:
    """Write the configuration file of properties of tables."""
    lines = []
    for entry in target.tables:
        properties = ", ".join(f'"{name}" = "{value}"' for name, value in entry.properties.items())
        lines += ["[[land.table]]", f'tables = "{",".join(entry.patterns)}"', f"properties = {{ {properties} }}"]
    path = target.place.with_name(f"{target.place.name}.toml")
    path.write_text("\n".join(lines))
    return path


def _check_changes(name: str, some: pa.Table, rows: pa.Table) -> None:
    assert some.equals(rows.slice(0, len(some))), name
    behind = rows["_commit_lsn"].slice(len(some), 1).to_pylist()
    assert behind != some["_commit_lsn"].slice(len(some) - 1, 1).to_pylist(), name


def _states(name: str, rows: pa.Table) -> Iterator[Rows]:
    changes = in_order(rows.to_pylist())
    columns = TABLES[name]
    key = columns[:1] if "id" in columns else ()
    if key:
        folded: FoldedByKey | FoldedWholes = FoldedByKey(changes, [key], is_partitioned=False)
    else:
        folded = FoldedWholes(changes, columns, is_partitioned=False)
    for lsn in sorted({row["_commit_lsn"] for row in changes}):
        folded.go(lsn + 1)
        yield folded.held(columns)


def _tuples(rows: pa.Table, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in columns), strict=True)


def do_work(engine: Engine, directory: Path) -> Work:
    """Let a server work, and keep what it leaves."""
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            for statement in SETUP:
                connection.execute(statement.encode())
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        with server.connect() as connection:
            for number in range(12):
                for statement in _statements(number * 1000):
                    connection.execute(statement.encode())
        server.stop()
        wal = directory / "wal"
        wal.mkdir()
        for path in server.wal_directory.iterdir():
            if path.is_file():
                (wal / path.name).write_bytes(path.read_bytes())
    return Work(engine, backup, wal, directory / "whole")


def _statements(first: int) -> list[str]:
    """Return what changes rows of its own, and some of those before it, which are in an earlier window."""
    last = first + 399
    return [
        f"INSERT INTO a SELECT i, repeat(i::text, 200) FROM generate_series({first}, {last}) i",
        f"WITH b AS (INSERT INTO b SELECT i, i FROM generate_series({first}, {last}) i) INSERT INTO c VALUES ({first})",
        f"UPDATE b SET n = -n WHERE id % 3 = 0 AND id >= {first - 1000}",
        f"UPDATE b SET id = -id WHERE id = {first + 1}",
        f"DELETE FROM a WHERE id % 5 = 0 AND id >= {first} OR id = {first - 999}",
    ]


def read(target: LandingTarget, name: str) -> pa.Table | None:
    """Read a table's rows as a reader has them; None for one that is not there."""
    place = target.place / name
    return read_table(place, target.format) if has_landed(place, target.format) else None


def ordered(rows: pa.Table) -> pa.Table:
    """Sort rows in the order of changes, or of what they hold."""
    schema = pa.schema([pa.field(field.name, field.type) for field in rows.schema])
    order = [name for name in ORDER if name in schema.names] or _ORDER_OF_MIRRORS
    table = pa.table(rows.columns, schema=schema)
    return table.sort_by([(name, "ascending") for name in order if name in schema.names]).combine_chunks()
