"""Work that meets conflicts with what a target has had before, and refusals, whenever it is applied.

All local rows are there before any work, and each writer has keys of its own. Whatever is killed on the way: rows,
conflicts and dead letters have to be those of a run that nothing disturbs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from apply.differential import SOURCE_DATABASE, rows_of
from headwater.local_servers.embedded_postgres import EmbeddedPostgres

WRITERS = 3
KEYS = 60
"""Of each writer, in each table that meets conflicts."""
REFUSED = 3
"""Of each so many rows of a table one is refused."""
MET = ("taken", "changed", "missing", "kept", "later", "earlier")
TABLES = (
    "CREATE TABLE log (writer int, at int, part int, note text)",
    "CREATE TABLE own (id int PRIMARY KEY, total bigint)",
    "CREATE TABLE shared (id int PRIMARY KEY, total bigint)",
    "INSERT INTO shared SELECT g, 0 FROM generate_series(0, 4) g",
    "CREATE TABLE taken (id int PRIMARY KEY, n int UNIQUE, who text)",
    *(f"CREATE TABLE {table} (id int PRIMARY KEY, n int, who text)" for table in MET[1:]),
    "CREATE TABLE refused (id int PRIMARY KEY, who text)",
)
_IDS = ", ".join(f"({writer})" for writer in range(WRITERS))
_ROWS = f"SELECT w * 1000 + g, w * 1000 + g, '{{}}' FROM (VALUES {_IDS}) v (w), generate_series(1, {KEYS}) g"
OF_SOURCE = tuple(f"INSERT INTO {table} {_ROWS.format('source')}" for table in MET[1:])
OF_TARGET = (
    *(f"INSERT INTO {table} {_ROWS.format('local')}" for table in ("changed", "kept", "later", "earlier")),
    # Of each three keys one is taken by the first index, one by the second, one by both, of two rows.
    f"INSERT INTO taken SELECT id, n + 1, who FROM ({_ROWS.format('local')}) r (id, n, who) WHERE id % 3 <> 0",
    f"ALTER TABLE refused ADD CHECK (id % {REFUSED} <> 0)",
)
RULES = (
    "insert_exists=apply_remote",
    "multiple_unique_conflicts=apply_remote",
    "update_origin_differs=apply_remote",
    "update_missing=apply_remote",
    "delete_origin_differs=apply_remote",
    "delete_missing=keep_local",
    "kept:insert_exists=keep_local",
    "kept:update_origin_differs=keep_local",
    "kept:delete_origin_differs=keep_local",
    "later:update_origin_differs=last_update_wins",
    "later:insert_exists=last_update_wins",
    "earlier:update_origin_differs=first_update_wins",
    "earlier:insert_exists=first_update_wins",
)
FLAGS = [word for rule in RULES for word in ("--conflict", rule)]
FLAGS += ["--log-conflicts", "table", "--dead-letters", "*.*"]


def transaction(writer: int, at: int, *, rows: int = 3, met: float = 0.15, parts: int = 1) -> str:
    """Return a transaction of a writer.

    Args:
        writer, at: say what is done; rows: of the log; met: share of transactions that meet conflicts.
        parts: in which that is done, with some time between them, of which every third is rolled back.
    """
    chance = random.Random(f"{writer} {at}")
    note = "''" if parts == 1 else "repeat(md5(g::text), 4)"
    statements = []
    for part in range(parts):
        numbers = f"generate_series({part * rows + 1}, {part * rows + rows})"
        statements += ["SAVEPOINT s"] if part else []
        statements.append(f"INSERT INTO log SELECT {writer}, {at}, g, {note} FROM {numbers} g")
        if chance.random() < met:
            statements += _meeting(chance, writer, f"{at}-{part}")
        statements += _plain(chance, writer)
        statements += ["ROLLBACK TO s"] if part % 3 == 1 else []
        statements += ["SELECT pg_sleep(0.02)"] if parts > 1 else []
    if at % (24 if parts == 1 else 4) == 0:
        statements.append(f"INSERT INTO refused VALUES ({writer * 100_000 + at}, '')")
    # Rows that all writers change come last, so that nobody waits for long.
    if chance.random() < 0.3:
        statements.append(f"UPDATE shared SET total = total + 1 WHERE id = {chance.randint(0, 4)}")
    return "; ".join(["BEGIN", *statements, "COMMIT"])


def _plain(chance: random.Random, writer: int) -> list[str]:
    id = writer * 1000 + chance.randint(1, 40)
    added = f"INSERT INTO own VALUES ({id}, 1) ON CONFLICT (id) DO UPDATE SET total = own.total + 1"
    return [added, *([f"DELETE FROM own WHERE id = {id} AND total % 3 = 0"] if chance.random() < 0.1 else [])]


def _meeting(chance: random.Random, writer: int, who: str) -> list[str]:
    """Return changes that may meet conflicts: of some keys again and again."""
    statements = []
    for table in chance.sample(MET, chance.randint(1, 3)):
        id = writer * 1000 + chance.randint(1, KEYS)
        again = f"INSERT INTO {table} VALUES ({id}, {id}, '{who}') ON CONFLICT DO NOTHING"
        changed = f"UPDATE {table} SET who = '{who}' WHERE id = {id}"
        statements += chance.choice(([again, changed], [changed], [changed], [f"DELETE FROM {table} WHERE id = {id}"]))
    return statements


def require_whole(server: EmbeddedPostgres, database: str, rows: str, *, has_gaps: bool) -> None:
    """Require that transactions are there as a whole, each once; and in the order of each writer without a gap.

    Args:
        server, database: the target; rows: of each in the log, in SQL; has_gaps: their order is not kept.
    """
    doubles = "SELECT writer, at, part FROM log GROUP BY 1, 2, 3 HAVING count(*) > 1"
    parts = f"SELECT writer, at, count(*) FROM log GROUP BY 1, 2 HAVING count(*) <> {rows}"
    gaps = "SELECT writer, count(DISTINCT at), max(at) FROM log GROUP BY 1 HAVING count(DISTINCT at) <> max(at)"
    for query in (doubles, parts, *([] if has_gaps else [gaps])):
        assert rows_of(server, query, database) == []


_CONFLICTS = "SELECT relname, kind, resolution, key, local_row, remote_row, remote_xid::text FROM headwater.conflicts"
_LETTERS = "SELECT relname, kind, old_tuple, new_tuple, sqlstate, remote_xid, finish_lsn::text FROM "
_LETTERS += "headwater.dead_letters"


def contents(server: EmbeddedPostgres, database: str) -> dict[str, Counter[str]]:
    """Return what a database of the target has: rows, conflicts, dead letters."""
    queries = {table: f"SELECT * FROM {table}" for table in ("log", "own", "shared", *MET, "refused")}
    queries |= {"conflicts": _CONFLICTS, "dead letters": _LETTERS}
    return {name: _counted(rows_of(server, query, database)) for name, query in queries.items()}


def _counted(rows: Sequence[tuple[Any, ...]]) -> Counter[str]:
    return Counter(map(str, rows))


def require_same(actual: dict[str, Counter[str]], expected: dict[str, Counter[str]]) -> None:
    """Require that two databases have the same; what differs is shown."""
    differ = {name: (actual[name] - rows, rows - actual[name]) for name, rows in expected.items()}
    assert {name: both for name, both in differ.items() if any(both)} == {}


def require_rows_of_source(publisher: EmbeddedPostgres, actual: dict[str, Counter[str]]) -> None:
    """Require that tables without conflicts have the source's rows."""
    for table in ("log", "own", "shared"):
        assert actual[table] == _counted(rows_of(publisher, f"SELECT * FROM {table}", SOURCE_DATABASE)), table
