"""A source that fails over to a standby which lacks what the target has: refused, or gone on with if that is asked."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from apply.differential import OURS, SOURCE_DATABASE, place, rows_of, server_of
from bad_input.standbys import standby_of
from headwater.apply.incoming.parallel_options import ParallelOptions
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.worker import ApplyWorker
from headwater.errors import DivergedSourceError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from headwater.remote_slots.slot_address import SlotAddress
from serving.service import backup_of, wait_until

pytestmark = [pytest.mark.server, pytest.mark.slow]

WAIT_SECONDS = 200
TABLE = "CREATE TABLE t (id int PRIMARY KEY, v text)"
OF_STANDBY = "sync_replication_slots = on\nhot_standby_feedback = on\nprimary_slot_name = 'standby'\n"
SYNCED = f"SELECT synced AND NOT temporary FROM pg_replication_slots WHERE slot_name = '{OURS}'"
ROWS = "SELECT id, v FROM t WHERE id < 4 ORDER BY 1"


def applied(source: EmbeddedPostgres, target: EmbeddedPostgres, **options: object) -> list[str]:
    """Apply what there is; return what was said."""
    address = SlotAddress(conninfo=place(source, SOURCE_DATABASE), slot=OURS, publications=("p",))
    ((end,),) = rows_of(source, "SELECT pg_current_wal_flush_lsn()::text")
    request = ApplyRequest(
        slot=replace(address, creates_slot=True),
        target=place(target, OURS),
        subscription=OURS,
        fails_over=True,
        end=int(Lsn.parse(end)),
        disables_on_error=True,
        copies_data=False,
        **options,  # type: ignore[arg-type]
    )
    lines: list[str] = []
    ApplyWorker(request, lambda _: None, lines.append).run()
    return lines


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("major", [17, 18])
def test_what_only_the_target_has(tmp_path: Path, major: int, workers: int) -> None:
    parallel = ParallelOptions(workers=workers, order="keys" if workers > 1 else "commit")
    with ExitStack() as stack:
        source, target = stack.enter_context(server_of(major)), stack.enter_context(server_of(major))
        rows_of(target, f"CREATE DATABASE {OURS}")
        rows_of(target, TABLE, OURS)
        for statement in (TABLE, "CREATE PUBLICATION p FOR TABLE t"):
            rows_of(source, statement)
        rows_of(source, "SELECT pg_create_physical_replication_slot('standby', true)")
        applied(source, target, parallel=parallel)
        backup = backup_of(source, tmp_path / "backup")
        with (backup / "postgresql.conf").open("a") as configuration:
            configuration.write(OF_STANDBY)
        standby = stack.enter_context(standby_of(source, backup))

        def is_synced() -> bool:
            # Nobody reads the slot, which has to come to where the standby began.
            rows_of(source, "SELECT pg_log_standby_snapshot()")
            rows_of(source, f"SELECT pg_replication_slot_advance('{OURS}', pg_current_wal_flush_lsn())")
            return rows_of(standby, SYNCED) == [(True,)]

        wait_until(is_synced, WAIT_SECONDS)
        rows_of(source, "INSERT INTO t VALUES (1, 'on both')")
        ((end,),) = rows_of(source, "SELECT pg_current_wal_flush_lsn()::text")
        there = f"SELECT pg_last_wal_replay_lsn() >= '{end}'"
        wait_until(lambda: rows_of(standby, there) == [(True,)], WAIT_SECONDS)
        standby.stop()
        rows_of(source, "INSERT INTO t VALUES (2, 'on the target only')")
        rows_of(source, "INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(10, 2000) g")
        applied(source, target, parallel=parallel)
        source.crash()
        standby.start()
        rows_of(standby, "SELECT pg_promote()")
        rows_of(standby, "INSERT INTO t VALUES (3, 'from then on')")
        with pytest.raises(
            DivergedSourceError, match=r"which its timeline 2 has left at 0/\w+: what committed"
        ) as error:
            applied(standby, target, parallel=parallel)
        assert "--accept-divergence" in str(error.value.hint)
        assert rows_of(target, ROWS, OURS) == [(1, "on both"), (2, "on the target only")]
        lines = applied(standby, target, parallel=parallel, accepts_divergence=True)
        assert [line for line in lines if line.startswith("warning: the target has come to ")]
        assert rows_of(target, ROWS, OURS) == [(1, "on both"), (2, "on the target only"), (3, "from then on")]
        rows_of(standby, "UPDATE t SET v = 'later' WHERE id = 3")
        assert not [line for line in applied(standby, target, parallel=parallel) if line.startswith("warning")]
        assert rows_of(target, ROWS, OURS)[2] == (3, "later")
