"""A worker that is killed, and servers that are restarted: nothing is lost, and nothing is applied twice.

The tables say so themselves. ``log`` has no key: a transaction that is applied twice leaves its rows twice. Of each
transaction ``log`` has a row, and ``counter`` is one higher; a row of the marker is the last of all.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from apply.differential import OURS, SOURCE_DATABASE, Applying, Differential, differential, rows_of, source_rows
from apply.killed_servers import WALSENDERS, Writing, kill_session
from serving.service import wait_until

pytestmark = pytest.mark.server

TABLES = (
    "CREATE TABLE log (at int, part int, note text)",
    "CREATE TABLE counter (id int PRIMARY KEY, total bigint)",
    "INSERT INTO counter VALUES (0, 0), (1, 0)",
)
_DRIVER = Path(__file__).with_name("killed_apply.py")
MOST_STEPS = 150
"""That a run does before it is killed."""
KILLS = [(12, True), *(pytest.param(200, is_two_phase, marks=pytest.mark.slow) for is_two_phase in (False, True))]
RESTARTS = [4, pytest.param(40, marks=pytest.mark.slow)]
END_SECONDS = 60
IDLE_SECONDS = 3.0


def transaction(number: int) -> list[str]:
    """Return the statements of a transaction."""
    log = f"INSERT INTO log SELECT {number}, i, repeat('x', 50) FROM generate_series(1, 3) i"
    return ["BEGIN", log, f"UPDATE counter SET total = total + 1 WHERE id = {number % 2}", "COMMIT"]


def prepared_too(number: int) -> list[str]:
    """Return the same, of which every fifth is prepared, and every tenth is rolled back then."""
    statements, end = transaction(number), "ROLLBACK" if number % 10 == 0 else "COMMIT"
    if number % 5:
        return statements
    return [*statements[:-1], f"PREPARE TRANSACTION 't{number}'", f"{end} PREPARED 't{number}'"]


@pytest.mark.parametrize(("kills", "is_two_phase"), KILLS)
def test_a_worker_that_is_killed(tmp_path: Path, kills: int, is_two_phase: bool) -> None:
    """Half of the kills are at a step of its own, half at any moment."""
    chance = random.Random(kills)
    with differential(tmp_path, (18, 18), TABLES, is_two_phase=is_two_phase) as pair:
        worker = pair.worker
        with Writing(pair.publisher.connect, prepared_too if is_two_phase else transaction):
            for kill in range(kills):
                if kill % 2:
                    end_by_itself(worker, chance)
                else:
                    begin_again(pair)
                    time.sleep(chance.random() * 0.5)
                    worker.stop(signal.SIGKILL)
                require_one_history(pair)
            worker.program = ("-m", "headwater.cli.main")
            begin_again(pair)
        pair.catch_up(is_clean=False)
        pair.compare()


def end_by_itself(worker: Applying, chance: random.Random) -> None:
    """Let it run to a step of its own at which it kills itself."""
    if worker.process.poll() is None:
        worker.stop(signal.SIGKILL)
    worker.program = (str(_DRIVER), str(chance.randint(1, MOST_STEPS)))
    worker.start()
    assert worker.process.wait(END_SECONDS) == -signal.SIGKILL, worker.text()
    worker.program = ("-m", "headwater.cli.main")


def begin_again(pair: Differential) -> None:
    """Start the worker unless it runs, and wait until it applies."""
    if pair.worker.process.poll() is not None:
        pair.worker.start()
    wait_until(lambda: session_of(pair) is not None)


def session_of(pair: Differential) -> int | None:
    """Return the server process of the worker's session on the target."""
    query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'headwater apply ours'"
    rows = rows_of(pair.target, query)
    return int(rows[0][0]) if rows else None


def require_one_history(pair: Differential) -> None:
    """Require that the target has whole transactions, each once, up to one of them."""
    doubles = "SELECT at, part FROM log GROUP BY 1, 2 HAVING count(*) > 1"
    parts = "SELECT at FROM log GROUP BY at HAVING count(*) <> 3"
    totals = "SELECT (SELECT sum(total) FROM counter) = (SELECT count(*) / 3 FROM log)"
    assert rows_of(pair.target, doubles, OURS) == []
    assert rows_of(pair.target, parts, OURS) == []
    assert rows_of(pair.target, totals, OURS) == [(True,)]


@pytest.mark.parametrize("restarts", RESTARTS)
def test_a_target_that_crashes(tmp_path: Path, restarts: int) -> None:
    """Commits that were not on disk are lost with it; the source still has them, as they were not confirmed."""
    settings = {"wal_writer_delay": "2s", "wal_writer_flush_after": "0"}
    chance = random.Random(restarts)
    with differential(tmp_path, (18, 18), TABLES, is_apart=True, settings=settings) as pair:
        with Writing(pair.publisher.connect, transaction):
            for _ in range(restarts):
                wait_until(lambda: session_of(pair) is not None)
                time.sleep(chance.random())
                pair.target.crash()
                pair.target.start()
                require_one_history(pair)
        pair.catch_up(is_clean=False)
        pair.compare()
        require_all_of_source(pair)


@pytest.mark.parametrize("restarts", RESTARTS)
def test_a_source_that_is_restarted(tmp_path: Path, restarts: int) -> None:
    """It is stopped, killed, or its walsenders are, upon which it recovers by itself."""
    chance = random.Random(restarts)
    with differential(tmp_path, (16, 16), TABLES, is_apart=True) as pair:
        with Writing(pair.publisher.connect, transaction):
            for restart in range(restarts):
                time.sleep(chance.random())
                if restart % 4 == 0:
                    kill_session(pair.publisher, WALSENDERS)
                    continue
                pair.publisher.stop() if restart % 2 else pair.publisher.crash()
                pair.publisher.start()
        pair.catch_up(is_clean=False)
        pair.compare()
        require_all_of_source(pair)


@pytest.mark.parametrize("cuts", RESTARTS)
def test_connections_that_are_cut(tmp_path: Path, cuts: int) -> None:
    chance = random.Random(cuts)
    of_target = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headwater apply ours'"
    of_source = f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{OURS}'"
    with differential(tmp_path, (18, 18), TABLES) as pair:
        with Writing(pair.publisher.connect, transaction):
            for cut in range(cuts):
                wait_until(lambda: session_of(pair) is not None)
                time.sleep(chance.random() / 4)
                rows_of(pair.target, of_target) if cut % 2 else rows_of(pair.publisher, of_source)
        pair.catch_up(is_clean=False)
        pair.compare()
        require_all_of_source(pair)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ending_while_a_lock_is_waited_for(tmp_path: Path, number: int) -> None:
    with differential(tmp_path, (18, 18), TABLES) as pair:
        pair.catch_up()
        with pair.target.connect(OURS) as session:
            session.execute("BEGIN; LOCK TABLE log")
            pair.on_source("INSERT INTO log VALUES (1)")
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'headwater apply ours' AND "
            wait_until(lambda: rows_of(pair.target, waiting + "wait_event_type = 'Lock'") == [(1,)])
            assert pair.worker.stop(number) == 0
            wait_until(lambda: session_of(pair) is None)
            session.execute("ROLLBACK")
        assert pair.worker.text() == ""
        assert rows_of(pair.target, "SELECT * FROM log", OURS) == []
        pair.worker.start()
        pair.catch_up()
        pair.compare()


def test_an_idle_worker_rests(tmp_path: Path) -> None:
    with differential(tmp_path, (18, 18), TABLES) as pair:
        pair.catch_up()
        before = spent_seconds(pair.worker.process.pid)
        time.sleep(IDLE_SECONDS)
        assert spent_seconds(pair.worker.process.pid) - before < 0.05 * IDLE_SECONDS


@pytest.mark.slow
def test_a_large_transaction_that_waits_for_a_lock(tmp_path: Path) -> None:
    """Neither the worker nor its socket keeps it: the source is not read from any further."""
    with differential(tmp_path, (18, 18), TABLES, flags=["--streaming", "off"]) as pair:
        pair.catch_up()
        before = peak_bytes(pair.worker.process.pid)
        with pair.target.connect(OURS) as session:
            session.execute("BEGIN; LOCK TABLE log")
            pair.on_source("INSERT INTO log SELECT i, 1, repeat('x', 1000) FROM generate_series(1, 400000) i")
            wait_until(lambda: is_not_read(pair))
            assert peak_bytes(pair.worker.process.pid) - before < 250 << 20
            session.execute("ROLLBACK")
        pair.catch_up()
        pair.compare()


def is_not_read(pair: Differential) -> bool:
    """Tell whether the source sends nothing more, though there is more."""
    query = f"""SELECT sent_lsn, sent_lsn < pg_current_wal_lsn() FROM pg_stat_replication
                JOIN pg_replication_slots ON active_pid = pid WHERE slot_name = '{OURS}'"""
    before = rows_of(pair.publisher, query)
    time.sleep(IDLE_SECONDS)
    return before == rows_of(pair.publisher, query) and before[0][1] is True


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def spent_seconds(pid: int) -> float:
    """Return the processor's time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def require_all_of_source(pair: Differential) -> None:
    """Require that the target has what the source has."""
    for table in ("log", "counter"):
        assert source_rows(pair.target, OURS, table) == source_rows(pair.publisher, SOURCE_DATABASE, table)
