"""Rights that applying needs, tables' owners, and definitions that change while changes are applied.

A role has exactly the grants that the guide names, and applies. Without any of them the error says which is missing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from apply.target_pairs import OURS, SOURCE, Pair, Refusal, pair_of
from headwater.apply.target.grants import FUNCTIONS
from headwater.apply.worker import ApplyWorker
from headwater.errors import HeadwaterError, ServerError
from serving.service import wait_until

TABLE = "CREATE TABLE s.t (id int PRIMARY KEY, v text)"
WORK = ("INSERT INTO s.t VALUES (1, 'a')", "UPDATE s.t SET v = 'b'", "DELETE FROM s.t", "TRUNCATE s.t")
SELDOM = tuple(name for name in FUNCTIONS if name.endswith(("_drop", "_reset", "_advance")))
"""What is not called in a run that applies."""

GRANTS = (
    "GRANT SET ON PARAMETER session_replication_role TO applier",
    *(f"GRANT EXECUTE ON FUNCTION {function} TO applier" for function in FUNCTIONS if function not in SELDOM),
    f"GRANT CREATE ON DATABASE {OURS} TO applier",
    "GRANT USAGE ON SCHEMA s TO applier",
    "GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON s.t TO applier",
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(18, id="pg18"),
        *(pytest.param(major, id=f"pg{major}", marks=pytest.mark.slow) for major in (16, 19)),
    ],
)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Run the server of a major."""
    with pair_of(request.param) as started:
        yield started


@pytest.fixture
def tables(pair: Pair) -> Iterator[tuple[Pair, str]]:
    """Make the table on both sides, a role, and a slot with work."""
    for database in (SOURCE, OURS):
        pair.run(database, "DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s", TABLE)
    pair.run(OURS, "DROP SCHEMA IF EXISTS headwater CASCADE", "CREATE ROLE applier LOGIN", "CREATE ROLE owner")
    pair.run(SOURCE, "CREATE PUBLICATION p FOR ALL TABLES")
    _, slot = pair.slots()
    yield pair, slot
    pair.run(SOURCE, "DROP PUBLICATION p")
    pair.run(OURS, "DROP SCHEMA s CASCADE", "DROP OWNED BY applier, owner", "DROP ROLE applier, owner")


def _applied(pair: Pair, slot: str, **options: object) -> Refusal | None:
    refusal = pair.apply(pair.request(slot, "p", target=pair.place(OURS, "applier"), **options))
    return None if refusal is None else replace(refusal, context="")


def test_a_role_with_grants(tables: tuple[Pair, str]) -> None:
    pair, slot = tables
    pair.run(OURS, *GRANTS)
    pair.run(SOURCE, *WORK, WORK[0])
    assert _applied(pair, slot, run_as_owner=True) is None
    assert pair.rows(OURS) == pair.rows(SOURCE)


@pytest.mark.parametrize("missing", range(len(GRANTS) - 2))
def test_a_missing_grant_is_named(tables: tuple[Pair, str], missing: int) -> None:
    pair, slot = tables
    pair.run(OURS, *(grant for grant in GRANTS if grant != GRANTS[missing]))
    pair.run(SOURCE, *WORK)
    request = pair.request(slot, "p", target=pair.place(OURS, "applier"), run_as_owner=True)
    with pytest.raises(ServerError) as refused:
        ApplyWorker(request, lambda _: None).run()
    assert refused.value.sqlstate == "42501"
    assert (refused.value.hint or "").startswith(GRANTS[missing].split(" TO ")[0].split("(")[0][:24])


def test_rights_on_a_table_are_the_servers_to_refuse(tables: tuple[Pair, str]) -> None:
    pair, slot = tables
    pair.run(OURS, *GRANTS, "REVOKE INSERT ON s.t FROM applier")
    pair.run(SOURCE, *WORK)
    refused = _applied(pair, slot, run_as_owner=True)
    assert refused == Refusal("42501", "permission denied for table t", None, None)


def test_as_the_owner_of_the_table(tables: tuple[Pair, str]) -> None:
    pair, slot = tables
    note = (
        "CREATE FUNCTION s.note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN new.v = current_user; RETURN new; END$$"
    )
    trigger = "CREATE TRIGGER note BEFORE INSERT ON s.t FOR EACH ROW EXECUTE FUNCTION s.note()"
    pair.run(OURS, *GRANTS[:-1], "GRANT USAGE ON SCHEMA s TO owner", note, trigger)
    pair.run(OURS, "ALTER TABLE s.t ENABLE ALWAYS TRIGGER note", "ALTER TABLE s.t OWNER TO owner")
    pair.run(SOURCE, WORK[0])
    assert _applied(pair, slot) == Refusal("42501", 'role "applier" cannot SET ROLE to "owner"', None, None)
    pair.run(OURS, "GRANT owner TO applier")
    assert _applied(pair, slot) is None
    assert pair.rows(OURS) == {"s.t": ["(1,owner)"]}


def test_row_security_is_refused(tables: tuple[Pair, str]) -> None:
    pair, slot = tables
    pair.run(OURS, *GRANTS, "ALTER TABLE s.t ENABLE ROW LEVEL SECURITY")
    pair.run(SOURCE, *WORK)
    refused = _applied(pair, slot, run_as_owner=True)
    text = 'user "applier" cannot replicate into relation with row-level security enabled: "t"'
    assert refused == Refusal("0A000", text, None, None)
    # It is not in force for the owner, whose right to do all stays.
    pair.run(OURS, "ALTER TABLE s.t OWNER TO owner", "GRANT owner TO applier", "GRANT USAGE ON SCHEMA s TO owner")
    assert _applied(pair, slot) is None


def test_definitions_change_under_running_work(tables: tuple[Pair, str]) -> None:
    pair, slot = tables
    failures: list[HeadwaterError] = []
    worker = ApplyWorker(pair.request(slot, "p", end=None, disables_on_error=False), failures.append)
    applying = threading.Thread(target=worker.run)
    is_over = threading.Event()

    def change() -> None:
        for number in range(1000):
            pair.run(OURS, f"ALTER TABLE s.t ADD x{number} int DEFAULT 5", f"ALTER TABLE s.t DROP x{number}")
            pair.run(
                OURS, "ALTER TABLE s.t ALTER v TYPE varchar" if number % 2 else "ALTER TABLE s.t ALTER v TYPE text"
            )
            if is_over.wait(0.05):
                return

    changing = threading.Thread(target=change)
    applying.start()
    changing.start()
    try:
        with pair.server.connect(SOURCE) as session:
            for number in range(1500):
                session.execute("INSERT INTO s.t VALUES (%s, 'a')", (number,))
                session.execute("UPDATE s.t SET v = v || 'b', id = id + 100000 WHERE id = %s", (number // 2,))
        is_over.set()
        end = pair.end()
        wait_until(lambda: worker.durable >= end)
    finally:
        is_over.set()
        changing.join()
        worker.stop()
        applying.join()
    assert failures == []
    rows = "SELECT id, v FROM s.t ORDER BY id"
    assert pair.run(OURS, rows) == pair.run(SOURCE, rows)
