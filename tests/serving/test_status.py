"""The status of a service over HTTP, beside what the server's own views say of the same clients."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bad_input.servers import conninfo_of, run, small_server
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import Serving, Streaming, backup_of, make_slot_by_client, wait_until

pytestmark = pytest.mark.server

VIEW = """
SELECT state, sent_lsn = flush_lsn, usename = current_user
FROM pg_stat_replication WHERE application_name = 'watched'
"""


def asked(address: str, path: str) -> tuple[int, str]:
    """Ask for a path; return the status and the content."""
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=60) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def address_of(serving: Serving) -> str:
    """Return where the service shows its status."""
    match = re.search(r"status: (http://\S+)/status", serving.log.read_text())
    assert match is not None
    return match[1]


def session_of(address: str) -> dict[str, Any] | None:
    sessions: list[dict[str, Any]] = json.loads(asked(address, "/status")[1])["sessions"]
    return next((session for session in sessions if session["application_name"] == "watched"), None)


def streamed(server: EmbeddedPostgres, address: str) -> bool:
    """Tell whether both have sent all, and their clients have all."""
    session = session_of(address)
    with psycopg.connect(conninfo_of(server)) as connection:
        theirs = connection.execute(VIEW).fetchone()
    stream = session and session["stream"]
    ours = stream and session and (stream["state"], stream["flush_lag_bytes"] == 0, session["user"] == "postgres")
    return theirs == ours == ("streaming", True, True)


def test_status_and_metrics(tmp_path: Path) -> None:
    with small_server(18) as server:
        run(server, "CREATE TABLE t (a int)")
        catalog = backup_of(server, tmp_path / "base")
        flags = ["--http", "127.0.0.1:0"]
        with Serving(server.wal_directory, catalog, tmp_path / "slots", *flags) as serving:
            address = address_of(serving)
            assert asked(address, "/healthz") == (200, "ok\n")
            assert asked(address, "/nothing")[0] == 404
            theirs = {**server.client_environment(), "PGAPPNAME": "watched"}
            ours = {**serving.environment(), "PGAPPNAME": "watched"}
            followers = []
            for environment in (theirs, ours):
                make_slot_by_client(environment, 18, "s", "test_decoding")
                more = ("--slot", "s", "-f", "/dev/null", "--status-interval", "1", "--fsync-interval", "1")
                followers.append(Streaming(environment, 18, *more))
            run(server, "INSERT INTO t SELECT generate_series(1, 1000)")
            wait_until(lambda: [it["count"] for it in json.loads(asked(address, "/status")[1])["kept_states"]][-1] > 0)
            wait_until(lambda: streamed(server, address))
            check_status(json.loads(asked(address, "/status")[1]))
            check_metrics(asked(address, "/metrics")[1])
            assert [follower.end() for follower in followers] == [0, 0]
            wait_until(lambda: session_of(address) is None)
            (slot,) = json.loads(asked(address, "/status")[1])["slots"]
            assert (slot["active"], slot["active_pid"]) == (False, None)


def check_status(status: dict[str, Any]) -> None:
    """Check what is said of one session that has all, and of its slot."""
    (session,) = status["sessions"]
    (slot,) = status["slots"]
    stream = session["stream"]
    assert (session["state"], session["client_addr"], session["replication"]) == ("active", "127.0.0.1", True)
    assert session["client_port"]
    assert session["pid"] == slot["active_pid"]
    assert stream["sent_messages"] > 1000
    assert stream["sent_bytes"] > 10_000
    assert (stream["slot"], stream["type"], stream["send_lag_bytes"]) == ("s", "logical", 0)
    assert (slot["slot_name"], slot["slot_type"], slot["plugin"]) == ("s", "logical", "test_decoding")
    assert slot["database"] == "postgres"
    assert slot["retained_bytes"] >= 0
    assert not slot["temporary"]
    assert status["wal"]["end_lsn"] == stream["flush_lsn"]
    assert status["wal"]["received_lsn"] is None
    assert status["answers"]["commands"] > 0
    assert status["connections"] >= 2


def check_metrics(text: str) -> None:
    """Check the same as metrics."""
    values = dict(re.findall(r"^([^#].*) (\S+)$", text, re.MULTILINE))
    assert values['headwater_serve_sessions{state="active"}'] == "1.0"
    assert float(values['headwater_serve_slot_retained_bytes{slot="s"}']) >= 0
    streams = {name.partition("{")[0]: value for name, value in values.items() if 'application_name="watched"' in name}
    assert float(streams["headwater_serve_stream_sent_bytes_total"]) > 10_000
    assert streams["headwater_serve_stream_lag_bytes"] == "0.0"
    assert float(values["headwater_serve_wal_end_lsn"]) > 0
    newest = float(values['headwater_serve_kept_states_newest_lsn{database="postgres"}'])
    assert 0 < newest <= float(values["headwater_serve_wal_end_lsn"])


def test_an_address_that_cannot_be_had(tmp_path: Path) -> None:
    with small_server(18) as server:
        catalog = backup_of(server, tmp_path / "base")
    for address in ("nowhere", "127.0.0.1:port", "192.0.2.1:80"):
        service = Serving(catalog / "pg_wal", catalog, tmp_path / "slots", "--http", address)
        with pytest.raises(AssertionError, match=r"to serve the status at|cannot listen on 192\.0\.2\.1:80"):
            service.start()
        assert service.stop() in (1, 2)
