"""Work of which the target refuses rows, and the runs that put those aside or pause tables, killed at any step.

What must hold: each row of the source is on the target, or among the dead letters; never both, and neither twice.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from pathlib import Path

from apply.scripts.script_runner import Script
from apply.sync_runs import RUN_SECONDS
from forked_commands import MAIN, ForkedCommand

DRIVER = Path(__file__).with_name("killed_apply.py")
TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, n int, note text)",
    "CREATE TABLE other (id int, part int)",
    "CREATE TABLE tree (id int PRIMARY KEY, n int)",
)
CHECKS = (
    "ALTER TABLE t ADD CONSTRAINT small CHECK (n % 10 <> 0)",
    "ALTER TABLE tree ADD CONSTRAINT odd CHECK (n % 7 <> 0)",
)
MEND = ("ALTER TABLE t DROP CONSTRAINT small", "ALTER TABLE tree DROP CONSTRAINT odd")
KEPT = """
SELECT relname, kind, coalesce(new_tuple, old_tuple)->>'id' FROM headwater.dead_letters l ORDER BY l.id
"""


def write(script: Script, chance: random.Random, first: int, count: int) -> None:
    """Commit transactions, some rows of which the target refuses."""
    statements = []
    for number in range(first, first + count):
        n, other = chance.randint(1, 99), chance.randint(1, 99)
        changed = f"UPDATE t SET n = {other}, note = note || '+' WHERE id = {chance.randint(1, number)}"
        gone = f"DELETE FROM tree WHERE id = {chance.randint(1, number)}"
        rows = f"INSERT INTO t VALUES ({number}, {n}, 'x'); INSERT INTO other VALUES ({number}, 1), ({number}, 2)"
        more = f"INSERT INTO tree VALUES ({number}, {other})"
        statements.append(
            f"BEGIN; {rows}; {changed if number % 3 else more}; {gone if number % 5 else more_of(number)}; COMMIT"
        )
    script.on_source(*statements)


def more_of(number: int) -> str:
    """Return a further row of the second table."""
    return f"INSERT INTO tree VALUES ({-number}, {number})"


def run(words: Sequence[str], end: str, step: int | None, log: Path) -> int:
    """Apply up to an LSN, or until it kills itself at a step; return the exit status."""
    program = MAIN if step is None else (str(DRIVER), str(step))
    with log.open("ab") as errors:
        return ForkedCommand([*program, "apply", *words, "--end", end], stderr=errors).wait(RUN_SECONDS)


def run_with_kills(words: Sequence[str], end: str, steps: Sequence[int], log: Path) -> int:
    """Apply up to an LSN, killed at steps on the way; return how often it was."""
    kills = 0
    for step in steps:
        status = run(words, end, step, log)
        if status == 0:
            return kills
        assert status == -signal.SIGKILL, log.read_text(errors="replace")[-3000:]
        kills += 1
    assert run(words, end, None, log) == 0, log.read_text(errors="replace")[-3000:]
    return kills


def require_all(script: Script) -> None:
    """Require that both have the same rows, that of no key there are two, and that nothing is kept any more."""
    for table in ("t", "other", "tree"):
        query = f"SELECT * FROM {table} ORDER BY 1, 2"
        assert script.rows(query) == script.source_rows(query), table
    assert script.rows("SELECT count(*) FROM headwater.dead_letters") == ["0"]
