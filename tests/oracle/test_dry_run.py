"""Counts of ``headwater publication explain`` are of what the server's pgoutput sends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arrow_types import values_of
from headwater.cli.publication import ExplainFlags, explain_command
from headwater.cli.shared_flags import SourceFlags
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.dry_run import explain

if TYPE_CHECKING:
    from oracle.decoded_run import DecodedRun

pytestmark = [pytest.mark.server]

SETUP = """
CREATE TABLE whole (id int PRIMARY KEY, a text);
CREATE TABLE filtered (id int PRIMARY KEY, a text, b int GENERATED ALWAYS AS (id * 2) STORED);
CREATE TABLE listed (id int PRIMARY KEY, a text, b text);
CREATE TABLE keyless (id int);
CREATE TABLE other (id int);
CREATE UNLOGGED TABLE fast (id int);
CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (100);
CREATE PUBLICATION mixed FOR TABLE whole, filtered WHERE (id > 2), listed (id, b), root
    WITH (publish_via_partition_root);
CREATE PUBLICATION inserts FOR TABLE whole, keyless WITH (publish = 'insert, delete');
"""
WORK = """
INSERT INTO whole SELECT i, 'a' FROM generate_series(1, 10) i;
UPDATE whole SET a = 'b' WHERE id < 4;
INSERT INTO filtered VALUES (1, 'no'), (2, 'no'), (3, 'yes');
UPDATE filtered SET id = id + 10;
DELETE FROM filtered WHERE id > 12;
INSERT INTO listed VALUES (1, 'a', 'b');
INSERT INTO keyless VALUES (1);
ALTER TABLE keyless REPLICA IDENTITY NOTHING;
INSERT INTO other VALUES (1), (2);
INSERT INTO fast VALUES (1), (2);
INSERT INTO root VALUES (1), (2);
TRUNCATE root;
VACUUM FULL pg_attribute;
CREATE TABLE late (id int) PARTITION BY RANGE (id);
CREATE TABLE later PARTITION OF late FOR VALUES FROM (0) TO (100);
ALTER PUBLICATION mixed ADD TABLE late;
INSERT INTO late VALUES (1);
"""
"""A catalog gets a new file: the window is gone through once more, with the catalog as of its start."""


@pytest.mark.parametrize("name", ["pgoutput, some", "pgoutput, generated"])
def test_counts_of_random_workloads(threaded_run: DecodedRun, name: str) -> None:
    stream = threaded_run.run.streams[name]
    publication = dict(stream.options)["publication_names"]
    (report,) = explain(replace(threaded_run.request(stream), plugin="test_decoding", options=()), [publication])
    if stream.error is not None:
        assert report.error is not None
        assert stream.error.message in report.error
        return
    assert report.error is None
    sizes = [len(data) for data in values_of(stream.messages.column("data"))]
    assert (report.messages, report.bytes) == (len(sizes), sum(sizes))


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run a server; give its WAL and catalog, and what it says of each publication: messages and bytes."""
    with EmbeddedPostgres(find_programs(16), autovacuum=False) as server:
        with server.connect() as connection:
            _run(connection, SETUP)
        server.stop()
        backup = server.copy_data_directory(tmp_path_factory.mktemp("explain") / "backup")
        server.start()
        with server.connect() as connection:
            connection.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
            _run(connection, WORK)
            sent = {name: _said(connection, name) for name in ("mixed", "inserts")}
        server.stop()
        yield server.wal_directory, backup, sent


def _run(connection: Any, statements: str) -> None:
    for statement in filter(str.strip, statements.split(";\n")):
        connection.execute(statement)


def _said(connection: Any, publication: str) -> tuple[int, int]:
    query = (
        "SELECT count(*), sum(length(data)) FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, "
        "'proto_version', '1', 'publication_names', %s)"
    )
    messages, size = connection.execute(query, (publication,)).fetchone()
    return int(messages), int(size)


def test_what_is_left_out_and_why(window: Any, capsys: pytest.CaptureFixture[str]) -> None:
    wal, backup, sent = window
    explain_command.run(ExplainFlags(SourceFlags(wal=[str(wal)], catalog=str(backup)), as_json=True))
    reports = {report["publication"]: report for report in json.loads(capsys.readouterr().out)}
    assert {name: (report["messages"], report["bytes"]) for name, report in reports.items()} == sent
    tables = {table["table"]: table for table in reports["mixed"]["tables"]}
    assert tables["public.whole"]["sent"] == {"inserts": 10, "updates": 3, "deletes": 0}
    assert tables["public.whole"]["left_out"] == []
    assert tables["public.filtered"]["changes"] == {"inserts": 3, "updates": 3, "deletes": 1}
    assert tables["public.filtered"]["sent"] == {"inserts": 3, "updates": 1, "deletes": 1}
    assert tables["public.filtered"]["left_out"] == ["2 changes: row filter", "column b: generated"]
    assert tables["public.listed"]["left_out"] == ["column a: not in the column list"]
    assert tables["public.leaf"]["published_as"] == "public.root"
    assert tables["public.other"]["left_out"] == ["not in the publication"]
    assert tables["public.later"]["published_as"] == "public.late"
    assert tables["public.fast"]["left_out"] == ["it is unlogged: its changes are not in the WAL"]
    tables = {table["table"]: table for table in reports["inserts"]["tables"]}
    assert tables["public.whole"]["left_out"] == ["3 updates: not published"]
    assert tables["public.keyless"]["sent"]["inserts"] == 1


def test_as_text(window: Any, capsys: pytest.CaptureFixture[str]) -> None:
    wal, backup, sent = window
    explain_command.run(ExplainFlags(SourceFlags(wal=[str(wal)], catalog=str(backup)), ["inserts", "gone"]))
    out = capsys.readouterr().out
    assert "publication inserts: 2 tables, 11 rows" in out
    assert "  public.other: nothing, of 2 changes\n    not in the publication\n" in out
    assert 'publication gone: publication "gone" does not exist' in out
    assert Path(wal).is_dir()
    assert sent["inserts"][0] > 11
