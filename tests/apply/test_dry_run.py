"""A dry run: what would be refused is reported, as the run itself meets it; source and target are as before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from apply.sync_runs import RUN_SECONDS
from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from forked_commands import MAIN, run_forked
from headwater.apply.dry_run import Findings, dry_run
from headwater.apply.incoming.refusal_options import RefusalOptions
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.incoming.slot_source import slot_feed
from headwater.errors import ServerError
from headwater.pg.lsn import Lsn
from serving.service import backup_of

TABLE = "CREATE TABLE s.t (id int PRIMARY KEY, n int, note text)"
TARGET = (
    "CREATE TABLE s.t (id int PRIMARY KEY, n int CHECK (n < 100), note text, at serial)",
    "INSERT INTO s.t VALUES (30, 1)",
)
WORK = (
    "INSERT INTO s.t SELECT g FROM generate_series(1, 20) g",
    "UPDATE s.t SET n = id",
    "BEGIN; INSERT INTO s.t VALUES (29, 1), (30, 2), (31, 3); UPDATE s.t SET n = 200 WHERE id = 5; COMMIT",
    "DELETE FROM s.t WHERE id = 29",
    "INSERT INTO s.t VALUES (40, 400)",
    "UPDATE s.t SET n = 5 WHERE id = 40",
    "DELETE FROM s.t WHERE id = 40",
    "TRUNCATE s.t",
    "INSERT INTO s.t VALUES (30, 7)",
)
LINES = (
    'refused: INSERT of "s.t" (id)=(30) in transaction X, finished at L: duplicate key value violates unique '
    'constraint "t_pkey" (SQLSTATE 23505) Key (id)=(30) already exists.',
    'refused: UPDATE of "s.t" (id)=(5) in transaction X, finished at L: new row for relation "t" violates check '
    'constraint "t_n_check" (SQLSTATE 23514) Failing row contains (5, 200, null, 5).',
    'refused: INSERT of "s.t" (id)=(40) in transaction X, finished at L: new row for relation "t" violates check '
    'constraint "t_n_check" (SQLSTATE 23514) Failing row contains (40, 400, null, 27).',
    'conflict: UPDATE of "s.t" (id)=(40) in transaction X, finished at L: update_missing',
    'conflict: DELETE of "s.t" (id)=(40) in transaction X, finished at L: delete_missing',
)


@pytest.fixture(
    scope="module", params=[pytest.param(15, id="pg15", marks=pytest.mark.slow), pytest.param(18, id="pg18")]
)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Run the server of a major."""
    with pair_of(request.param) as started:
        yield started


def _begun(pair: Pair, target: Sequence[str], work: Sequence[str]) -> ApplyRequest:
    """Make tables and a slot, and do work; return a request."""
    pair.run(SOURCE, "DROP PUBLICATION IF EXISTS p")
    for database, statements in ((SOURCE, (TABLE,)), (OURS, target)):
        pair.run(database, "DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s", *statements)
    pair.run(OURS, "DROP SCHEMA IF EXISTS headwater CASCADE")
    pair.run(SOURCE, "CREATE PUBLICATION p FOR TABLE s.t")
    _, slot = pair.slots()
    pair.run(SOURCE, *work)
    request = pair.request(slot, "p", end=None)
    return replace(request, slot=replace(request.slot, creates_slot=False))


def _run(request: ApplyRequest) -> tuple[Findings, list[str]]:
    lines: list[str] = []
    findings = dry_run(request, lines.append)
    return findings, list(map(_plain, lines))


def _plain(line: str) -> str:
    return re.sub(r"transaction \d+, finished at \S+:", "transaction X, finished at L:", line)


def _places(pair: Pair) -> list[object]:
    slots = "SELECT slot_name, confirmed_flush_lsn, restart_lsn FROM pg_replication_slots ORDER BY 1"
    origins = "SELECT external_id, remote_lsn FROM pg_replication_origin_status ORDER BY 1"
    schema = "SELECT to_regnamespace('headwater') IS NULL"
    return [pair.run(SOURCE, slots), pair.run(OURS, origins), pair.run(OURS, schema), pair.rows(OURS)]


def test_what_would_be_refused(pair: Pair) -> None:
    request = _begun(pair, TARGET, WORK)
    before = _places(pair)
    for _ in range(2):
        pair.run(OURS, "ALTER SEQUENCE s.t_at_seq RESTART 1")
        findings, lines = _run(request)
        assert lines == list(LINES)
        assert (findings.transactions, findings.refusals, findings.conflicts) == (len(WORK), 3, 2)
        assert _places(pair) == before
    refusal = pair.apply(replace(request, end=pair.end()))
    assert refusal is not None
    # From 18 on its message names the kind of conflict.
    assert f"(SQLSTATE {refusal.sqlstate})" in LINES[0]
    # From there on, what is applied already is not tried again.
    assert _run(request)[1][0].startswith(LINES[0][:60])
    pair.run(OURS, "DELETE FROM s.t WHERE id = 30", "ALTER TABLE s.t DROP CONSTRAINT t_n_check")
    assert _run(request)[1] == []


def test_what_is_skipped(pair: Pair) -> None:
    request = _begun(pair, TARGET, WORK[:3])
    refused: list[str] = []
    dry_run(request, refused.append)
    (lsn,) = {line.partition("finished at ")[2].partition(":")[0] for line in refused}
    before = _places(pair)
    findings, lines = _run(replace(request, refusals=RefusalOptions(skip_lsn=int(Lsn.parse(lsn)))))
    assert findings.refusals == 0
    assert lines == [
        f"logical replication {does} transaction at LSN {lsn}" for does in ("starts skipping", "completed skipping")
    ]
    assert _places(pair) == before


def test_a_paused_table(pair: Pair) -> None:
    request = _begun(pair, TARGET, WORK)
    assert pair.apply(replace(request, end=pair.end(), refusals=RefusalOptions(pauses=True))) is None
    pair.run(SOURCE, "INSERT INTO s.t VALUES (50, 500)")
    findings, lines = _run(request)
    assert (findings.transactions > 0, lines) == (True, [])


BROKEN = {
    "a missing column": ("ALTER TABLE s.t DROP note", "55000", 4),
    "a table that refers to it": ("CREATE TABLE s.points (id int REFERENCES s.t)", "0A000", 1),
    "a deferred constraint": (
        "CREATE FUNCTION s.late() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'late'; END$$; "
        "CREATE CONSTRAINT TRIGGER late AFTER DELETE ON s.t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        "EXECUTE FUNCTION s.late(); ALTER TABLE s.t ENABLE ALWAYS TRIGGER late",
        "P0001",
        1,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_would_be_an_error(pair: Pair, name: str) -> None:
    breaks, sqlstate, count = BROKEN[name]
    work = ("INSERT INTO s.t VALUES (1, 1)", "UPDATE s.t SET n = 2", "DELETE FROM s.t", "TRUNCATE s.t")
    request = _begun(pair, (TABLE, breaks), work)
    findings, lines = _run(request)
    assert findings.refusals == count == len(lines)
    assert all(f"(SQLSTATE {sqlstate})" in line for line in lines)
    refusal = pair.apply(replace(request, end=pair.end()))
    assert refusal is not None
    assert refusal.sqlstate == sqlstate


def test_a_slot_that_is_at_work(pair: Pair) -> None:
    request = _begun(pair, (TABLE,), WORK[:1])
    with slot_feed(request, 0), pytest.raises(ServerError, match="is active for PID"):
        dry_run(request, print)


def test_from_wal(pair: Pair, tmp_path: Path) -> None:
    backup = backup_of(pair.server, tmp_path / "backup")
    request = _begun(pair, TARGET, WORK)
    pair.run(SOURCE, "SELECT pg_switch_wal()")
    command = [*MAIN, "apply", "--wal", str(pair.server.wal_directory)]
    command += ["--catalog", str(backup), "--database", SOURCE, "--slots", str(tmp_path / "slots")]
    command += ["--to", request.target, "--publication", "p", "--no-copy-data", "--dry-run"]
    before = _places(pair)
    for _ in range(2):
        pair.run(OURS, "ALTER SEQUENCE s.t_at_seq RESTART 1")
        run = run_forked(command, RUN_SECONDS)
        assert run.stderr == ""
        lines = [_plain(line) for line in run.stdout.splitlines()]
        assert lines[:-1] == list(LINES)
        assert lines[-1].endswith(": 3 changes refused, 2 of rows that are not there")
        assert run.returncode == 3
        assert _places(pair) == before
        assert not (tmp_path / "slots").exists()
