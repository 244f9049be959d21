"""A subscription that an error disables, and the transaction that is skipped: as a stock subscription does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from apply.refused_runs import RefusedRuns, finish_lsn, refused_runs
from apply.target_pairs import OURS, SOURCE, STOCK, Pair, pair_of
from headwater.errors import UsageError
from headwater.pg.lsn import Lsn, lsn_text
from headwater.pg.version import VERSIONS

TABLE = "CREATE TABLE s.t (id int PRIMARY KEY, n int)"
TARGET = f"{TABLE}; INSERT INTO s.t VALUES (1000)"
POISON = "INSERT INTO s.t VALUES (5, 5), (1000, 1)"


@dataclass(frozen=True)
class Kind:
    """A kind of transaction.

    Attributes:
        work: statements; the poison is among them.
        options: of the stock subscription; asked: of our request.
    """

    work: tuple[str, ...]
    options: str = ""
    asked: tuple[tuple[str, object], ...] = ()


BEFORE, AFTER = (
    ("INSERT INTO s.t VALUES (1, 1)",),
    ("INSERT INTO s.t VALUES (2, 2)", "UPDATE s.t SET n = 3 WHERE id = 1"),
)
STREAMED = "INSERT INTO s.t SELECT g FROM generate_series(10, 3000) g"
KINDS = {
    "plain": Kind((POISON,)),
    "one by one": Kind((POISON,), asked=(("batches", False),)),
    "streamed": Kind((STREAMED,), "streaming = on", (("streaming", "on"),)),
    "prepared": Kind((f"BEGIN; {POISON}; PREPARE TRANSACTION 'gone'", "COMMIT PREPARED 'gone'"), "two_phase = true"),
    "streamed and prepared": Kind(
        (f"BEGIN; {STREAMED}; PREPARE TRANSACTION 'gone'", "COMMIT PREPARED 'gone'"),
        "two_phase = true, streaming = on",
        (("streaming", "on"),),
    ),
}
PARALLEL = Kind((STREAMED,), "streaming = parallel", (("streaming", "parallel"),))
MAJORS = (15, 16, 17, 18, 19)


@pytest.fixture(
    scope="module",
    params=[pytest.param(major, id=f"pg{major}", marks=[] if major == 18 else [pytest.mark.slow]) for major in MAJORS],
)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Run the server of a major."""
    with pair_of(request.param, logical_decoding_work_mem="64kB", max_prepared_transactions="20") as started:
        yield started


@pytest.mark.parametrize("name", [*KINDS, "parallel"])
def test_skipped(pair: Pair, name: str) -> None:
    if name == "parallel" and pair.server.programs.major < 16:
        pytest.skip("it streams to parallel workers from 16 on")
    kind = PARALLEL if name == "parallel" else KINDS[name]
    with refused_runs(pair, [TABLE], [TARGET], kind.options, **dict(kind.asked)) as runs:
        pair.run(SOURCE, *BEFORE, *kind.work, *AFTER)
        stock, ours = runs.run_stock(), finish_lsn(runs.run_ours())
        # A parallel worker does not know where a transaction will be finished.
        assert stock == ours or (name == "parallel" and stock is None)
        _is_disabled(runs, ours)
        pair.run(STOCK, f"ALTER SUBSCRIPTION {runs.stock} SKIP (lsn = '{ours}')")
        assert runs.run_stock() is None
        assert runs.run_ours(enables=True, skip_lsn=int(Lsn.parse(ours))) is None
        assert pair.rows(OURS) == pair.rows(STOCK)
        lines = runs.said_of_skipping()
        assert lines[1] == lines[0]
        assert len(lines[0]) == 2
        _is_over(runs)


def _is_disabled(runs: RefusedRuns, lsn: str) -> None:
    """See that the subscription is disabled, and that a start says so."""
    name = runs.ours
    state = f"SELECT subenabled, sqlstate, finish_lsn = '{lsn}', subskiplsn FROM headwater.subscription_run"
    assert runs.pair.run(OURS, f"{state} WHERE subname = '{name}'") == [(False, "23505", True, None)]
    assert f'subscription "{name}" has been disabled because of an error' in runs.said
    again = runs.run_ours()
    assert isinstance(again, UsageError)
    assert f"finished at {lsn}: " in again.message
    assert again.hint == f"--enable goes on once the cause is mended, --skip-lsn {lsn} skips it"


def _is_over(runs: RefusedRuns) -> None:
    """See that nothing is left of it."""
    state = "SELECT subenabled, sqlstate, finish_lsn, subskiplsn FROM headwater.subscription_run"
    assert runs.pair.run(OURS, f"{state} WHERE subname = '{runs.ours}'") == [(True, None, None, None)]


def test_another_transaction(pair: Pair) -> None:
    with refused_runs(pair, [TABLE], [TARGET]) as runs:
        pair.run(SOURCE, *BEFORE, *AFTER)
        pair.run(STOCK, f"ALTER SUBSCRIPTION {runs.stock} SKIP (lsn = 'F/AA')")
        assert runs.run_stock() is None
        assert runs.run_ours(skip_lsn=int(Lsn.parse("F/AA"))) is None
        assert pair.rows(OURS) == pair.rows(STOCK)
        lines = runs.said_of_skipping()
        assert lines[1] == lines[0]
        assert len(lines[0]) == 2
        _is_over(runs)


def test_what_is_over(pair: Pair) -> None:
    with refused_runs(pair, [TABLE], [TARGET]) as runs:
        pair.run(SOURCE, *BEFORE)
        assert runs.run_ours() is None
        error = runs.run_ours(skip_lsn=int(Lsn.parse("0/10")))
        assert error is not None
        low = lsn_text(0x10, VERSIONS[pair.server.programs.major])
        assert error.message.startswith(f"skip WAL location (LSN {low}) must be greater than origin LSN ")
        assert runs.run_ours(enables=True, skip_lsn=int(Lsn.parse("F/AA"))) is None
        assert runs.run_ours(skip_lsn=0) is None
        _is_over(runs)
