"""Workers that are killed between the statement that moves the origin and the end of its transaction, and behind it.

From 16 on the target moves the origin then, too, though it rolls the transaction back.
"""

from __future__ import annotations

import itertools
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from apply.scripts.script_runner import Script, Servers, both_of, new_script, rows_in
from forked_commands import ForkedCommand
from headwater.pg.lsn import Lsn

DRIVER = Path(__file__).with_name("killed_before_end.py")
RUN_SECONDS = 200
MOST_RUNS = 120
PREPARES = 15
TABLES = ("CREATE TABLE log (at int, note text)", "CREATE TABLE counter (id int PRIMARY KEY, total int)")
_MANY = "INSERT INTO log SELECT i, repeat('x', {}) FROM generate_series(1, {}) i"
_PREPARED = """
BEGIN; INSERT INTO log VALUES (1, 'a'); UPDATE counter SET total = total + 1; PREPARE TRANSACTION 'a'
COMMIT PREPARED 'a'
INSERT INTO log VALUES (2, 'b')
BEGIN; INSERT INTO log SELECT i, repeat('y', 99) FROM generate_series(1, 3000) i
UPDATE counter SET total = total + 1 WHERE id = 1; PREPARE TRANSACTION 'c'
INSERT INTO log VALUES (3, 'c')
BEGIN; INSERT INTO log VALUES (4, 'd'); PREPARE TRANSACTION 'd'
ROLLBACK PREPARED 'd'
UPDATE counter SET total = total + 1 WHERE id = 2
COMMIT PREPARED 'c'
"""
WORK = {
    "serial": ([], [f"INSERT INTO log VALUES ({at}, 'x')" for at in range(6)]),
    "batches": ([], [_MANY.format(1, 500)] * 3),
    "workers": (["--workers", "2"], [_MANY.format(1, 2000)] * 4),
    "keys": (["--workers", "2", "--order", "keys"], [_MANY.format(1, 2000)] * 4),
    "streamed": (["--streaming", "parallel"], [_MANY.format(99, 3000)] * 2),
    "two-phase": (["--two-phase", "--streaming", "parallel"], re.split("[;\\n]+", _PREPARED.strip())),
}
DAILY = ("two-phase",)


@pytest.fixture(scope="module", params=[18, *(pytest.param(major, marks=pytest.mark.slow) for major in (14, 16))])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Run both servers of a major."""
    with both_of(request.param) as started:
        yield started


@pytest.fixture
def script(servers: Servers) -> Iterator[Script]:
    """Begin a script with its tables."""
    with new_script(servers) as begun:
        begun.everywhere(*TABLES, "INSERT INTO counter VALUES (1, 0), (2, 0)")
        begun.on_source("CREATE PUBLICATION p FOR TABLE log, counter")
        yield begun


def run(words: Sequence[str], end: str, step: int, log: Path) -> int:
    """Apply up to an LSN, or until it kills itself at a step, 0 for never; return the exit status."""
    with log.open("ab") as errors:
        command = ForkedCommand([str(DRIVER), str(step), "apply", *words, "--end", end], stderr=errors)
        return command.wait(RUN_SECONDS)


def place_of(script: Script) -> list[str]:
    """Return where the origin of the subscription is, as the server has it, and as the target's table has."""
    status = "SELECT remote_lsn FROM pg_replication_origin_status WHERE external_id = 'headwater_sub'"
    noted = "SELECT max(remote_lsn) FROM headwater.origin_progress"
    return [*script.rows(status), *script.rows(noted)]


@pytest.mark.parametrize(
    "kind", [kind if kind in DAILY else pytest.param(kind, marks=pytest.mark.slow) for kind in WORK]
)
def test_each_end(script: Script, tmp_path: Path, kind: str) -> None:
    """Each run begins where the one before was, and is killed one step later than that."""
    if kind == "two-phase" and script.major < PREPARES:
        pytest.skip("subscriptions of 15 can do this")
    flags, work = WORK[kind]
    if "parallel" in flags and script.major < 16:
        flags = ["on" if flag == "parallel" else flag for flag in flags]
    words, log = script.words("sub", ["p"], *flags, "--no-copy-data"), tmp_path / "log"
    assert run(words, str(Lsn(script.end())), 0, log) == 0
    script.on_source(*work)
    end = str(Lsn(script.end()))
    script.on_source("INSERT INTO log VALUES (0, 'last')")
    kills = 0
    for step in itertools.islice(itertools.cycle(range(1, 8)), MOST_RUNS):
        status = run(words, end, step, log)
        if status == 0:
            break
        assert status == -signal.SIGKILL, log.read_text(errors="replace")[-3000:]
        kills += 1
    assert run(words, str(Lsn(script.end())), 0, log) == 0, log.read_text(errors="replace")[-3000:]
    assert kills >= len(TABLES)
    for table in ("log", "counter"):
        query = f"SELECT * FROM {table} ORDER BY 1, 2"
        assert script.rows(query) == script.source_rows(query), table
    assert rows_in(script.servers.target, "postgres", "SELECT gid FROM pg_prepared_xacts") == []
    assert len(set(place_of(script))) == 1
