"""Workers that are killed between two writes to the target's socket, and amid one: a transaction is whole, or none.

What stands before the cut the target has done. From 16 on that may be the move of an origin, which it does not take
back with the transaction.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from apply.cutting_proxy import CuttingProxy, cutting_proxy
from apply.scripts.script_runner import Script, Servers, both_of, new_script, rows_in
from forked_commands import MAIN, ForkedCommand
from headwater.pg.lsn import Lsn

PREPARES = 15
RUN_SECONDS = 200
ROWS = 3
_MANY = 1100
TABLES = ("CREATE TABLE log (at int, part int)", "CREATE TABLE counter (id int PRIMARY KEY, total int)")
_CHANGES = (
    "BEGIN; INSERT INTO log SELECT {at}, i FROM generate_series(1, {rows}) i; "
    "UPDATE counter SET total = total + 1; {end}"
)
KINDS: dict[str, tuple[list[str], int]] = {
    "serial": ([], ROWS),
    "batches": ([], 30),
    "workers": (["--workers", "2"], _MANY),
    "keys": (["--workers", "2", "--order", "keys"], _MANY),
    "two-phase": (["--two-phase"], ROWS),
}
MOVE, BEGIN = b"pg_replication_origin_xact_setup", b"BEGIN"
"""Words from which on messages are counted."""
DAILY = (8, 15)
"""Halves of messages: the move of the origin is four, COMMIT as many."""
CASES = [
    pytest.param("serial", MOVE, DAILY, id="serial"),
    *(pytest.param(kind, MOVE, range(22), marks=pytest.mark.slow, id=f"{kind}, its end") for kind in KINDS),
    *(pytest.param(kind, BEGIN, range(0, 96, 5), marks=pytest.mark.slow, id=f"{kind}, all") for kind in KINDS),
]


@pytest.fixture(scope="module", params=[18, *(pytest.param(major, marks=pytest.mark.slow) for major in (14, 16))])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Run both servers of a major."""
    with both_of(request.param) as started:
        yield started


@pytest.fixture
def script(servers: Servers) -> Iterator[Script]:
    """Begin a script with its tables."""
    with new_script(servers) as begun:
        begun.everywhere(*TABLES, "INSERT INTO counter VALUES (1, 0)")
        begun.on_source("CREATE PUBLICATION p FOR TABLE log, counter")
        yield begun


@pytest.mark.parametrize(("kind", "since", "cuts"), CASES)
def test_killed_between_writes(script: Script, tmp_path: Path, kind: str, since: bytes, cuts: range) -> None:
    """Each run finds one transaction more, and is killed a half of a message later than the one before."""
    if kind == "two-phase" and script.major < PREPARES:
        pytest.skip("subscriptions of 15 can do this")
    flags, rows = KINDS[kind]
    words, log = script.words("sub", ["p"], *flags, "--no-copy-data"), tmp_path / "log"
    assert run(words, str(Lsn(script.end())), log) == 0
    kills = 0
    with cutting_proxy(script.servers.target) as proxy:
        through = [*words, "--to", f"host=127.0.0.1 port={proxy.port} user=postgres dbname={script.database} {_PLAIN}"]
        for at, cut in enumerate(cuts):
            work(script, at, rows, is_prepared=kind == "two-phase")
            status = run(through, str(Lsn(script.end())), log, proxy, since, cut)
            assert status in (0, -signal.SIGKILL), log.read_text(errors="replace")[-3000:]
            kills += status != 0
            require_one_history(script, rows)
    assert run(words, str(Lsn(script.end())), log) == 0, log.read_text(errors="replace")[-3000:]
    assert kills >= len(cuts) // 2
    for table in ("log", "counter"):
        query = f"SELECT * FROM {table} ORDER BY 1, 2"
        assert script.rows(query) == script.source_rows(query), table
    assert rows_in(script.servers.target, "postgres", "SELECT gid FROM pg_prepared_xacts") == []
    assert script.rows("SELECT * FROM headwater.applied_ahead") == []


_PLAIN = "sslmode=disable gssencmode=disable"


def work(script: Script, at: int, rows: int, *, is_prepared: bool) -> None:
    """Commit a transaction on the source, prepared before or not."""
    end = f"PREPARE TRANSACTION 't{at}'" if is_prepared else "COMMIT"
    script.on_source(_CHANGES.format(at=at, rows=rows, end=end))
    if is_prepared:
        script.on_source(f"COMMIT PREPARED 't{at}'")


def run(
    words: list[str], end: str, log: Path, proxy: CuttingProxy | None = None, since: bytes = b"", cut: int = 0
) -> int:
    """Apply up to an LSN, or until it is killed at a cut; return the exit status."""
    with log.open("ab") as errors:
        command = ForkedCommand([*MAIN, "apply", *words, "--end", end], stderr=errors)
        if proxy is not None:
            proxy.cut(since, cut, command.kill)
        return command.wait(RUN_SECONDS)


def require_one_history(script: Script, rows: int) -> None:
    """Require that the target has whole transactions, each once."""
    parts = f"SELECT at FROM log GROUP BY at HAVING count(*) <> {rows} OR count(DISTINCT part) <> {rows}"
    assert script.rows(parts) == []
    totals = "SELECT (SELECT total FROM counter) = (SELECT count(DISTINCT at) FROM log)"
    assert script.rows(totals) == ["t"]
