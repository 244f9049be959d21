"""A target that is the next one's source: its schema ``headwater`` stays its own, as a server's catalogs do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from apply.target_pairs import OURS, SOURCE, STOCK, Pair, pair_of
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.worker import ApplyWorker
from headwater.cli.apply import apply_command
from headwater.pg.lsn import Lsn
from headwater.remote_slots.slot_address import SlotAddress
from serving.service import backup_of

pytestmark = pytest.mark.server

FIRST, MIDDLE, LAST = STOCK, SOURCE, OURS
TABLES = ("CREATE SCHEMA s", "CREATE TABLE s.t (id int PRIMARY KEY, n int)")
FRESH = ("CREATE TABLE IF NOT EXISTS headwater.fresh (id int)", "INSERT INTO headwater.fresh VALUES (1)")
OWN = "SELECT subname, subslotname FROM headwater.subscription"
DDL = ("--create-tables", "--ddl", "apply", "--subscription", "middle", "--slot", "middle")
MADE = """
SELECT relname FROM pg_class WHERE relnamespace = 'headwater'::regnamespace AND relkind = 'r' AND relname = 'fresh'
"""


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Run a server whose first database is applied to the next one, and make tables everywhere."""
    with pair_of(18) as started:
        for database in (FIRST, MIDDLE, LAST):
            started.run(database, *TABLES)
        started.run(FIRST, "CREATE PUBLICATION first FOR ALL TABLES")
        started.run(MIDDLE, "CREATE PUBLICATION middle FOR ALL TABLES")
        yield started


def step(pair: Pair, source: str, target: str, publication: str, **options: Any) -> None:
    """Apply all that a database has to the next one."""
    address = SlotAddress(conninfo=pair.place(source), slot=publication, publications=(publication,), creates_slot=True)
    request = ApplyRequest(slot=address, target=pair.place(target), subscription=publication, disables_on_error=True)
    request = replace(request, end=pair.end(), **options)
    pair.run(SOURCE, "SELECT pg_log_standby_snapshot()")
    ApplyWorker(request, lambda _: None).run()


def write(pair: Pair, first: int) -> None:
    """Commit some transactions in the first database."""
    for begin in range(first, first + 100, 10):
        pair.run(
            FIRST,
            f"INSERT INTO s.t SELECT g, {begin} FROM generate_series({begin}, {begin + 9}) g",
            f"UPDATE s.t SET n = n + 1 WHERE id = {begin}",
        )


def stands_alone(pair: Pair, name: str) -> bool:
    """Tell whether the last database has all rows, and in its schema what it has written itself."""
    assert pair.rows(LAST) == pair.rows(MIDDLE) == pair.rows(FIRST)
    assert pair.run(MIDDLE, OWN) == [("first", "first")]
    if pair.run(LAST, "SELECT to_regclass('headwater.subscription') IS NULL") == [(True,)]:
        return True
    own = pair.run(LAST, "SELECT DISTINCT nspname::text FROM headwater.subscription_rel")
    return pair.run(LAST, OWN) == [(name, name)] and own in ([], [("s",)])


@pytest.mark.slow
@pytest.mark.parametrize("copies", [True, False])
def test_from_a_slot(pair: Pair, copies: bool) -> None:
    step(pair, FIRST, MIDDLE, "first")
    step(pair, MIDDLE, LAST, "middle", copies_data=copies)
    for first in (1000, 2000):
        write(pair, first)
        step(pair, FIRST, MIDDLE, "first")
        pair.run(
            MIDDLE, "CREATE TABLE IF NOT EXISTS headwater.fresh (id int)", "INSERT INTO headwater.fresh VALUES (1)"
        )
        step(pair, MIDDLE, LAST, "middle", copies_data=copies)
        assert stands_alone(pair, "middle")


@pytest.mark.parametrize(
    "flags",
    [pytest.param(("--no-copy-data",), id="no subscription"), pytest.param(DDL, id="DDL", marks=pytest.mark.slow)],
)
def test_from_wal(pair: Pair, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """The schema is made in the log that is decoded; the target has one, too, whose rows have the same keys."""
    backup = backup_of(pair.server, tmp_path / "backup")
    pair.run(MIDDLE, "SELECT pg_create_logical_replication_slot('other', 'pgoutput')")
    other = SlotAddress(conninfo=pair.place(MIDDLE), slot="other", publications=("middle",), creates_slot=False)
    request = ApplyRequest(slot=other, target=pair.place(LAST), subscription="other", copies_data=False, end=pair.end())
    ApplyWorker(request, lambda _: None).run()
    command = ["--wal", str(pair.server.wal_directory), "--catalog", str(backup), "--database", MIDDLE]
    command += ["--slots", str(tmp_path / "slots"), "--to", pair.place(LAST), "--publication", "middle"]
    before = pair.run(LAST, OWN)
    for first in (1000, 2000):
        write(pair, first)
        step(pair, FIRST, MIDDLE, "first")
        pair.run(
            MIDDLE, "CREATE TABLE IF NOT EXISTS headwater.fresh (id int)", "INSERT INTO headwater.fresh VALUES (1)"
        )
        end = str(Lsn(pair.end()))
        pair.run(SOURCE, "SELECT pg_log_standby_snapshot()")
        result = CliRunner().invoke(apply_command, [*command, *flags, "--disable-on-error", "--end", end])
        assert result.exit_code == 0, result.output
        assert pair.rows(LAST) == pair.rows(MIDDLE) == pair.rows(FIRST)
        assert pair.run(LAST, MADE) == []
        names = [("middle", "middle")] if "--ddl" in flags else []
        assert sorted(pair.run(LAST, OWN)) == sorted(before + names)
        assert pair.run(LAST, "SELECT count(*) FROM headwater.subscription_rel WHERE nspname = 'headwater'") == [(0,)]
