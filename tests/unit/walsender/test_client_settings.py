"""Settings of a session: what takes them back takes back what they do."""

from __future__ import annotations

import pytest

from headwater.errors import SessionError
from headwater.pg.version import VERSIONS
from headwater.walsender.sessions.session_settings import ClientSettings

REPORTED = (
    "server_version",
    "server_encoding",
    "is_superuser",
    "session_authorization",
    "integer_datetimes",
    "in_hot_standby",
    "scram_iterations",
)


def settings() -> ClientSettings:
    made = ClientSettings(VERSIONS[16], "UTF8", {}, dict.fromkeys(REPORTED, ""))
    made.begin()
    return made


def test_timeouts_are_taken_back() -> None:
    session = settings()
    before = session.milliseconds
    session.set("idle_session_timeout", "1s")
    assert session.milliseconds == {**before, "idle_session_timeout": 1000}
    saved = session.saved()
    session.reset("idle_session_timeout")
    assert session.milliseconds == before
    session.restore(saved)
    assert session.milliseconds["idle_session_timeout"] == 1000
    session.restore(session.initial)
    assert session.milliseconds == before


@pytest.mark.parametrize(
    ("name", "value"), [("role", "somebody"), ("standard_conforming_strings", "off"), ("ROLE", "Somebody")]
)
def test_what_would_have_no_effect_is_refused(name: str, value: str) -> None:
    with pytest.raises(SessionError) as refused:
        settings().set(name, value)
    assert refused.value.sqlstate == "0A000"


def test_what_is_so_anyway_can_be_set() -> None:
    session = settings()
    session.set("role", "none")
    session.set("standard_conforming_strings", "ON")


@pytest.mark.parametrize(
    ("name", "value", "sqlstate"),
    [
        ("xmloption", "document", "0A000"),
        ("shared_buffers", "1", "55P02"),
        ("Nothing", "1", "42704"),
        ("a.b-c", "1", "42602"),
        ("default_transaction_isolation", "x", "22023"),
        ("enable_seqscan", "perhaps", "22023"),
    ],
)
def test_what_is_refused(name: str, value: str, sqlstate: str) -> None:
    with pytest.raises(SessionError) as refused:
        settings().set(name, value)
    assert refused.value.sqlstate == sqlstate


def test_settings_of_planning_are_taken() -> None:
    session = settings()
    session.set("enable_seqscan", "of")
    assert session.show("enable_seqscan") == ("enable_seqscan", "off")
    session.reset("enable_seqscan")


def test_settings_of_logs_are_taken() -> None:
    """Connection strings of subscriptions have them in their options."""
    session = settings()
    session.set("log_statement_stats", "on")
    assert session.show("log_statement_stats") == ("log_statement_stats", "on")
