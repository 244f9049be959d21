"""A subscription altered while one process applies it, and what a stock subscription says of the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from apply.target_pairs import OURS, SOURCE, STOCK, Pair, pair_of
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.launcher.altering import change, drop, enable, refresh_enabled
from headwater.apply.launcher.reports import End
from headwater.apply.launcher.standings import read_places, standings_of
from headwater.apply.launcher.subscription_run import SubscriptionRun
from headwater.apply.progress.standing import Parameters
from headwater.errors import HeadwaterError, ServerError
from headwater.remote_slots.slot_address import SlotAddress
from serving.service import wait_until

NAME = "altered"


@pytest.fixture(scope="module", params=[14, 16, 18])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with pair_of(request.param) as made:
        for database in (SOURCE, STOCK, OURS):
            made.run(database, "CREATE TABLE t (a int PRIMARY KEY)")
        made.run(SOURCE, "CREATE PUBLICATION p FOR TABLE t", "CREATE PUBLICATION q FOR TABLE t")
        yield made


def request_of(pair: Pair) -> ApplyRequest:
    """Return the request of a subscription whose slot is made."""
    slot = SlotAddress(conninfo=pair.place(SOURCE), slot=NAME, publications=("p",), creates_slot=True)
    return ApplyRequest(slot=slot, target=pair.place(OURS), subscription=NAME, retry_seconds=0.2)


class Running:
    """A run in a thread; a context manager, whose end stops it.

    Attributes:
        lines: what it has said; end: why it has ended.
    """

    def __init__(self, request: ApplyRequest) -> None:
        self.lines: list[str] = []
        self.end: End | None = None
        self._request = request
        self.run = SubscriptionRun(self._request_of, self._failed, self.lines.append)
        self._thread = threading.Thread(target=self._run)

    def _request_of(self, parameters: Parameters) -> ApplyRequest:
        publications = dict(parameters).get("publication", self._request.slot.publications)
        return replace(self._request, slot=replace(self._request.slot, publications=publications))

    def _failed(self, error: HeadwaterError) -> None:
        self.lines.append(error.one_line())

    def _run(self) -> None:
        self.end = self.run.run()

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run.stop()
        self._thread.join()

    def waits(self) -> End | None:
        """Wait until it ends by itself; return why."""
        self._thread.join()
        return self.end


def test_a_run_heeds_its_target(pair: Pair) -> None:
    request = request_of(pair)
    pair.run(SOURCE, "INSERT INTO t VALUES (1)")
    with Running(request) as running:
        wait_until(lambda: pair.run(OURS, "SELECT a FROM t") == [(1,)])
        change(request, {"publication": ["p", "q"]})
        wait_until(lambda: f'worker for subscription "{NAME}" will restart because' in " ".join(running.lines))
        pair.run(SOURCE, "INSERT INTO t VALUES (2)")
        wait_until(lambda: pair.run(OURS, "SELECT count(*) FROM t") == [(2,)])
        assert read_places(request.target, NAME) == (NAME, ["p", "q"])
        enable(request, is_enabled=False)
        assert running.waits() == End.DISABLED
    (standing,) = standings_of(request.target)
    assert (standing["state"], standing["parameters"]) == ("disabled", {"publication": ["p", "q"]})
    with Running(request) as running:
        assert running.waits() == End.DISABLED
    assert "will not start because the subscription was disabled during startup" in running.lines[-1]
    pair.run(SOURCE, "INSERT INTO t VALUES (3)")
    enable(request, is_enabled=True)
    change(request, {}, ["publication"])
    with Running(request) as running:
        wait_until(lambda: pair.run(OURS, "SELECT count(*) FROM t") == [(3,)])
        lines: list[str] = []
        drop(request, lines.append)
        assert running.waits() in (End.DISABLED, End.REMOVED)
    assert lines == [f'dropped replication slot "{NAME}" on publisher']
    for query in (
        "SELECT roname FROM pg_replication_origin WHERE roname ~ 'headwater|hw_'",
        "SELECT subname FROM headwater.subscription",
        "SELECT name FROM headwater.subscription_parameter",
        "SELECT relname FROM headwater.subscription_rel",
        "SELECT slot_name FROM pg_replication_slots",
    ):
        assert pair.run(OURS, query) == [], query


def test_a_publisher_that_is_gone(pair: Pair) -> None:
    request = request_of(pair)
    pair.subscribe(request)
    gone = replace(request, slot=replace(request.slot, conninfo="host=/nowhere dbname=x"))
    with pytest.raises(ServerError, match="could not connect to publisher when attempting to drop replication slot"):
        drop(gone, print)
    assert [each["state"] for each in standings_of(request.target)] == ["enabled"]
    drop(gone, print, keeps_slot=True)
    assert standings_of(request.target) == []
    assert pair.run(SOURCE, "SELECT slot_name::text FROM pg_replication_slots") == [(NAME,)]
    pair.run(SOURCE, f"SELECT pg_drop_replication_slot('{NAME}')")


def refusal(call: Callable[[], object]) -> tuple[str | None, str]:
    """Return the SQLSTATE and the words of what is refused."""
    with pytest.raises(ServerError) as caught:
        call()
    return caught.value.sqlstate, caught.value.message


def test_columns_are_the_servers(pair: Pair) -> None:
    pair.run(SOURCE, "TRUNCATE t")
    pair.run(OURS, "TRUNCATE t")
    request = request_of(pair)
    with Running(request) as running:
        wait_until(lambda: running.run.status()["workers"][0]["latest_end_lsn"] is not None)
        worker, *_ = running.run.status()["workers"]
    columns = [name for (name,) in pair.run(OURS, f"SELECT attname::text {_COLUMNS} ORDER BY attnum")]
    assert [name for name in worker if name in columns] == [name for name in columns if name != "subid"]
    drop(request, print)


_COLUMNS = "FROM pg_attribute WHERE attrelid = 'pg_stat_subscription'::regclass"


def test_words_are_the_servers(pair: Pair) -> None:
    request = request_of(pair)

    def stock(statement: str) -> tuple[str | None, str]:
        import psycopg

        with pytest.raises(psycopg.Error) as caught:
            pair.run(STOCK, statement)
        return caught.value.sqlstate, str(caught.value.diag.message_primary)

    assert refusal(lambda: enable(request, is_enabled=True)) == stock(f"ALTER SUBSCRIPTION {NAME} ENABLE")
    assert refusal(lambda: change(request, {"binary": ["on"]})) == stock(f"ALTER SUBSCRIPTION {NAME} SET (binary)")
    assert refusal(lambda: drop(request, print)) == stock(f"DROP SUBSCRIPTION {NAME}")
    assert refusal(lambda: refresh_enabled(request, print)) == stock(f"ALTER SUBSCRIPTION {NAME} REFRESH PUBLICATION")
    pair.subscribe(request)
    enable(request, is_enabled=False)
    pair.run(
        STOCK,
        f"CREATE SUBSCRIPTION {NAME} CONNECTION 'dbname=x' PUBLICATION p "
        "WITH (connect = false, slot_name = NONE, enabled = false, create_slot = false)",
    )
    assert refusal(lambda: refresh_enabled(request, print)) == stock(f"ALTER SUBSCRIPTION {NAME} REFRESH PUBLICATION")
    pair.run(STOCK, f"DROP SUBSCRIPTION {NAME}")
    drop(request, print)
