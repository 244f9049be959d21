"""Values at which Debezium's connector stops, or that it shows otherwise.

The error names table, column, value and LSN.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bad_input.command import run_command
from ddl.copying import recorded, run_all

pytestmark = [pytest.mark.server]

REFUSED = {
    "of a type": (
        "a timetz",
        "INSERT INTO s.t VALUES (1, 'x', '12:00:00+01:00:30')",
        'column "a" of table "s.t" holds 12:00:00+01:00:30, at which the connector stops',
    ),
    "NOT NULL": (
        "a numeric(10,2) NOT NULL",
        "INSERT INTO s.t VALUES (1, 'x', 1), (2, 'x', 'NaN')",
        'column "a" of table "s.t" is NOT NULL and holds NaN, which the connector cannot show',
    ),
    "old row": (
        "a timetz",
        "SET session_replication_role = replica; DELETE FROM s.t",
        'column "a" of table "s.t" holds 12:00:00+01:00:30, at which the connector stops',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_connector_stops_at(tmp_path: Path, case: str) -> None:
    column, work, expected = REFUSED[case]
    statements = ["CREATE SCHEMA s", f"CREATE TABLE s.t (id int PRIMARY KEY, gone text, b text, {column})"]
    statements += ["ALTER TABLE s.t DROP gone", "ALTER TABLE s.t REPLICA IDENTITY FULL", work]
    if case == "old row":
        statements.insert(-1, "INSERT INTO s.t VALUES (1, 'x', '12:00:00+01:00:30')")
    with recorded(16, tmp_path, run_all(statements)) as done:
        window = ["--wal", done.server.wal_directory, "--catalog", done.backup, "--database", "postgres"]
        run = run_command(
            "decode",
            *window,
            "--plugin",
            "debezium",
            "-o",
            "topic.prefix=p",
            "-o",
            "skipped.operations=" + ("c" if case == "old row" else "none"),
        )
    run.check_failed(expected, "(at 0/", "leave its table out with table.exclude.list", begun=None)
