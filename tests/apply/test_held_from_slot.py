"""``--ddl hold`` with a server's slot: a table that does not fit any more is held alone, until the target's does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apply.sync_runs import Applying, apply_until_now, are_ready, leftovers, states
from bad_input.servers import run, value
from headwater.apply.incoming.requests import ApplyRequest, DefinitionRequest
from headwater.cli.shared_flags import DefinitionFlags
from headwater.errors import UsageError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.remote_slots.slot_address import SlotAddress
from serving.service import wait_until

pytestmark = pytest.mark.server

HOLD = ("--ddl", "hold")
TABLES = ("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE TABLE u (id int PRIMARY KEY, v text)")
CHANGES = {
    "a column that comes": (
        "ALTER TABLE t ADD c int DEFAULT 5",
        "UPDATE t SET c = 6 WHERE id = 1",
        "ALTER TABLE t ADD c int DEFAULT 5",
    ),
    "another name": (
        "ALTER TABLE t RENAME v TO w",
        "UPDATE t SET w = 'b' WHERE id = 1",
        "ALTER TABLE t RENAME v TO w",
    ),
}


@pytest.mark.parametrize(
    ("major", "change"),
    [(16, "a column that comes"), *(pytest.param(major, "another name", marks=pytest.mark.slow) for major in (14, 18))],
)
def test_others_go_on(major: int, change: str) -> None:
    on_source, later, on_target = CHANGES[change]
    with EmbeddedPostgres(find_programs(major)) as publisher, EmbeddedPostgres(find_programs(major)) as target:
        run(publisher, *TABLES, "CREATE PUBLICATION p FOR ALL TABLES")
        run(target, *TABLES)
        with Applying(publisher, target, *HOLD):
            wait_until(lambda: are_ready(target, 2))
            run(publisher, "INSERT INTO t VALUES (1, 'a')", on_source)
            run(publisher, f"BEGIN; INSERT INTO u VALUES (1, 'a'); {later}; INSERT INTO t VALUES (2); COMMIT")
            run(publisher, "INSERT INTO u VALUES (2, 'b')")
            wait_until(lambda: value(target, "SELECT count(*) FROM u") == "2")
            assert states(target) == {"t": "f", "u": "r"}
            assert value(target, "SELECT count(*) FROM t") == "1"
        # It is held still by another run, which is not ended by that.
        with Applying(publisher, target, *HOLD):
            run(publisher, "INSERT INTO u VALUES (3, 'c')", "DELETE FROM t WHERE id = 2")
            wait_until(lambda: value(target, "SELECT count(*) FROM u") == "3")
            assert states(target) == {"t": "f", "u": "r"}
            run(target, on_target)
            wait_until(lambda: are_ready(target, 2))
        run(publisher, "INSERT INTO t VALUES (3)")
        apply_until_now(publisher, target, *HOLD)
        rows = "SELECT string_agg(t::text, ' ' ORDER BY id) FROM t"
        assert value(target, rows) == value(publisher, rows)
        assert leftovers(publisher, target) == []


def test_what_a_slot_cannot_do() -> None:
    holds = DefinitionRequest(ddl="hold")
    address = SlotAddress(conninfo="", slot="s", publications=("p",))
    with pytest.raises(UsageError, match="from where on a table is to be held"):
        ApplyRequest(slot=address, target="", subscription="s", definitions=holds, streaming="parallel")
    with pytest.raises(UsageError, match="--two-phase needs --wal"):
        ApplyRequest(slot=replace(address, two_phase=True), target="", subscription="s", definitions=holds)
    with pytest.raises(UsageError, match="not as of the change"):
        DefinitionFlags(ddl="apply").check_of_server()
    DefinitionFlags(ddl="hold").check_of_server()
