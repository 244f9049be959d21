# ruff: noqa: SIM300 - asserts read "expected == actual"
"""Session settings: what is accepted, and what is refused with a word on what would do."""

from __future__ import annotations

import pickle

import pytest

from headwater.errors import UsageError
from headwater.rows.session import SessionSettings


def test_defaults_are_the_servers() -> None:
    session = SessionSettings()
    assert ("UTC", "ISO, MDY", "postgres", 1, "hex") == (
        session.timezone,
        session.datestyle,
        session.intervalstyle,
        session.extra_float_digits,
        session.bytea_output,
    )


def test_names_ignore_case() -> None:
    session = SessionSettings.from_settings(
        {"TimeZone": "Europe/Berlin", "DateStyle": "iso, dmy", "Extra_Float_Digits": "3", "client_encoding": "UTF8"}, 16
    )
    assert ("Europe/Berlin", "ISO, DMY", 3, 16) == (
        session.timezone,
        session.datestyle,
        session.extra_float_digits,
        session.major,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TimeZone", "Middle/Earth"),
        ("DateStyle", "German"),
        ("DateStyle", "SQL, DMY"),
        ("IntervalStyle", "iso_8601"),
        ("extra_float_digits", "0"),
        ("extra_float_digits", "4"),
        ("extra_float_digits", "many"),
        ("bytea_output", "base64"),
        ("work_mem", "1GB"),
    ],
)
def test_other_values_are_refused_with_a_hint(name: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        SessionSettings.from_settings({name: value})
    assert name.lower() in caught.value.one_line().lower()
    assert "support" in caught.value.one_line() or "expected" in caught.value.one_line()


def test_goes_to_other_processes() -> None:
    session = SessionSettings(timezone="America/New_York", major=15)
    again = pickle.loads(pickle.dumps(session))
    assert session == again
    assert hash(session) == hash(again)
