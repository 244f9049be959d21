"""Slots that standbys of the source synchronize: made, altered and refused as those of a stock subscription."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from apply.target_pairs import OURS, SOURCE, STOCK, Pair, pair_of
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.worker import ApplyWorker
from headwater.errors import DivergedSourceError, ServerError

TABLE = "CREATE TABLE s.t (id int PRIMARY KEY)"
FAILS_OVER = "SELECT failover FROM pg_replication_slots WHERE slot_name = '{}'"


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Run a server."""
    with pair_of(18, log_replication_commands="on") as started:
        prepare(started)
        yield started


def prepare(pair: Pair) -> None:
    """Make a table with a row."""
    for database in (SOURCE, STOCK, OURS):
        pair.run(database, "CREATE SCHEMA s", TABLE)
    pair.run(SOURCE, "INSERT INTO s.t VALUES (1)", "CREATE PUBLICATION p FOR TABLE s.t")


def request_of(pair: Pair, name: str, fails_over: bool | None) -> ApplyRequest:
    """Return a request that makes its slot."""
    request = pair.request(name, "p", fails_over=fails_over)
    slot = replace(request.slot, creates_slot=True)
    return replace(request, slot=slot, copies_data=True, end=pair.end())


def apply(pair: Pair, request: ApplyRequest) -> list[str]:
    """Apply what there is; return what was said."""
    lines: list[str] = []
    ApplyWorker(replace(request, end=pair.end()), lambda _: None, lines.append).run()
    return lines


@pytest.mark.parametrize("fails_over", [True, False])
def test_it_is_made_and_altered_as_a_subscriptions(pair: Pair, fails_over: bool) -> None:
    pair.run(OURS, "TRUNCATE s.t")
    ours, stock = f"ours_{fails_over}".lower(), f"stock_{fails_over}".lower()
    pair.run(SOURCE, f"SELECT pg_create_logical_replication_slot('held_{ours}', 'pgoutput')")
    pair.run(
        STOCK,
        f"CREATE SUBSCRIPTION {stock} CONNECTION '{pair.place(SOURCE).replace(chr(39), '')}' PUBLICATION p "
        f"WITH (enabled = false, create_slot = false, slot_name = held_{ours}, copy_data = false)",
        f"ALTER SUBSCRIPTION {stock} SET (failover = {fails_over})",
    )
    request = request_of(pair, ours, fails_over)
    lines = apply(pair, request)
    assert not [line for line in lines if "failover" in line]
    expected = pair.run(SOURCE, FAILS_OVER.format(f"held_{ours}"))
    assert pair.run(SOURCE, FAILS_OVER.format(ours)) == expected == [(fails_over,)]
    pair.run(STOCK, f"ALTER SUBSCRIPTION {stock} SET (failover = {not fails_over})")
    words = f'set failover of replication slot "{ours}" to {str(not fails_over).lower()}'
    assert words in apply(pair, replace(request, fails_over=not fails_over))
    assert pair.run(SOURCE, FAILS_OVER.format(ours)) == pair.run(SOURCE, FAILS_OVER.format(f"held_{ours}"))
    # Who does not ask for anything leaves it as it is.
    assert words not in apply(pair, replace(request, fails_over=None))
    assert pair.run(SOURCE, FAILS_OVER.format(ours)) == [(not fails_over,)]
    assert pair.rows(OURS) == pair.rows(SOURCE)


def test_slots_of_copies_are_synchronized_too(pair: Pair) -> None:
    pair.run(OURS, "TRUNCATE s.t")
    begin = pair.server.log_file.stat().st_size
    apply(pair, request_of(pair, "copied", True))
    log = pair.server.log_file.read_bytes()[begin:].decode()
    assert re.search(r"CREATE_REPLICATION_SLOT \"hw_\w+_sync_\w+\" LOGICAL pgoutput \(FAILOVER, SNAPSHOT 'use'\)", log)


def test_a_source_without_the_timeline_of_before_is_refused(pair: Pair) -> None:
    pair.run(OURS, "TRUNCATE s.t")
    request = request_of(pair, "moved", None)
    apply(pair, request)
    noted = (
        "SELECT timeline, system_identifier FROM headwater.subscription_source "
        "JOIN headwater.subscription ON subid = srsubid WHERE subname = 'moved'"
    )
    ((timeline, system),) = pair.run(OURS, noted)
    assert (timeline, [(int(system),)]) == (1, pair.run(SOURCE, "SELECT system_identifier FROM pg_control_system()"))
    pair.run(OURS, "UPDATE headwater.subscription_source SET timeline = 7")
    with pytest.raises(DivergedSourceError, match="timeline 7, which is not in the history of its timeline 1"):
        apply(pair, replace(request, accepts_divergence=True))
    # Another cluster, as after an upgrade, has timelines of its own.
    pair.run(OURS, "UPDATE headwater.subscription_source SET system_identifier = '1'")
    apply(pair, request)
    assert pair.run(OURS, noted) == [(timeline, system)]


@pytest.mark.slow
@pytest.mark.parametrize("major", [14, 15, 16])
def test_an_older_source_refuses(major: int) -> None:
    """In the words that it has for a stock subscription of 18."""
    with pair_of(major) as older, pair_of(18) as newer:
        prepare(older)
        newer.run(STOCK, "CREATE SCHEMA s", TABLE)
        place = older.place(SOURCE).replace(chr(39), "")
        with pytest.raises(psycopg.Error) as expected:
            newer.run(STOCK, f"CREATE SUBSCRIPTION stock CONNECTION '{place}' PUBLICATION p WITH (failover = true)")
        request = request_of(older, "ours", True)
        with pytest.raises(ServerError) as refused:
            apply(older, request)
        assert str(expected.value).rstrip().endswith(refused.value.message.removeprefix("the server says: "))
        assert refused.value.hint == "--failover needs a publisher of 17 or later"
        # A slot that is there stays what it is.
        older.run(SOURCE, "SELECT pg_create_logical_replication_slot('there', 'pgoutput')")
        held = replace(request_of(older, "there", True), copies_data=False)
        with pytest.raises(ServerError) as kept_slot:
            apply(older, replace(held, slot=replace(held.slot, creates_slot=False)))
        assert kept_slot.value.hint == "--failover needs a publisher of 17 or later"
