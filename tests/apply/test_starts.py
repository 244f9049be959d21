"""Starts: whose rights copies have, locks that are waited for, tables that are removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply import differential
from apply.sync_runs import Applying, are_ready, subscribe
from apply.target_pairs import OURS, SOURCE, pair_of
from bad_input.servers import run, value
from headwater.apply.table_sync.subscribing import refresh_now
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from serving.service import wait_until

pytestmark = pytest.mark.server

ON_TARGET = (
    "CREATE ROLE keeper",
    "GRANT ALL ON SCHEMA public TO keeper",
    "CREATE TABLE who (id int, name text)",
    "GRANT INSERT ON who TO keeper",
    "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
    "'BEGIN INSERT INTO public.who VALUES (new.id, current_user); RETURN new; END'",
    "CREATE TRIGGER note BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()",
    "ALTER TABLE t ENABLE ALWAYS TRIGGER note",
    "ALTER TABLE t OWNER TO keeper",
)
MAJORS = [16, *(pytest.param(major, marks=pytest.mark.slow) for major in (15, 18))]


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("flags", [(), pytest.param(("--range-blocks", "1"), marks=pytest.mark.slow)])
def test_copies_and_what_they_catch_up_with_have_the_owners_rights(major: int, flags: tuple[str, ...]) -> None:
    """As a stock subscription's: as the owner from 16 on, as the subscription's own role before."""
    with (
        EmbeddedPostgres(find_programs(major)) as publisher,
        EmbeddedPostgres(find_programs(major)) as target,
        EmbeddedPostgres(find_programs(major)) as stock,
    ):
        for server in (publisher, target, stock):
            run(server, "CREATE TABLE t (id int PRIMARY KEY, v text)")
        for server in (target, stock):
            run(server, *ON_TARGET)
        run(
            publisher,
            "INSERT INTO t SELECT g, 'copied' FROM generate_series(1, 500) g",
            "CREATE PUBLICATION p FOR TABLE t",
        )
        slot = (
            "SELECT count(*) FROM pg_replication_slots "
            "WHERE starts_with(slot_name, 'hw_') AND confirmed_flush_lsn IS NOT NULL"
        )
        with target.connect() as locking, Applying(publisher, target, *flags):
            with locking.transaction():
                locking.execute("LOCK TABLE t IN SHARE MODE")
                wait_until(lambda: value(publisher, slot) == "1")
                run(publisher, "INSERT INTO t VALUES (1000, 'later')")
            wait_until(lambda: are_ready(target, 1))
        subscribe(stock, publisher)
        wait_until(lambda: value(stock, "SELECT count(*) FROM t") == "501")
        names = "SELECT count(*) || ' ' || string_agg(DISTINCT name, ' ') FROM who"
        assert value(target, names) == value(stock, names)
        assert value(target, names) == ("501 keeper" if major >= 16 else "501 postgres")


def test_a_start_tells_of_a_lock_that_it_waits_for(tmp_path: Path) -> None:
    """A publisher of 16 opens its tables to list them."""
    with pair_of(16) as pair:
        for database in (SOURCE, OURS):
            pair.run(database, "CREATE SCHEMA s", "CREATE TABLE s.t (id int PRIMARY KEY)")
        pair.run(SOURCE, "CREATE PUBLICATION p FOR ALL TABLES")
        _, slot = pair.slots()
        applying = differential.Applying(pair.place(SOURCE), pair.place(OURS), tmp_path / "log", subscription=slot)
        with pair.server.connect(SOURCE) as locking, applying:
            with locking.transaction():
                locking.execute("LOCK TABLE s.t")
                ((pid,),) = locking.execute("SELECT pg_backend_pid()").fetchall()
                text = f"headwater: the publisher waits for a lock that is held there by process {pid}\n"
                wait_until(lambda: text in applying.text())
            pair.run(SOURCE, "INSERT INTO s.t VALUES (1)")
            wait_until(lambda: pair.rows(OURS)["s.t"] == ["(1)"])
            assert applying.text() == text


def test_a_table_that_is_removed_leaves_no_ranges() -> None:
    with pair_of(16) as pair:
        for database in (SOURCE, OURS):
            pair.run(database, "CREATE SCHEMA s", "CREATE TABLE s.t (id int PRIMARY KEY)", "CREATE TABLE s.u (a int)")
        pair.run(SOURCE, "CREATE PUBLICATION p FOR TABLE s.t, s.u")
        _, slot = pair.slots()
        request = pair.request(slot, "p")
        pair.subscribe(request)
        pair.run(
            OURS,
            "INSERT INTO headwater.subscription_range SELECT srsubid, srrelid, 0, 5 FROM headwater.subscription_rel",
        )
        pair.run(SOURCE, "ALTER PUBLICATION p DROP TABLE s.u")
        refresh_now(request, lambda _: None)
        assert pair.run(OURS, "SELECT srrelid::regclass::text FROM headwater.subscription_range") == [("s.t",)]
