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
        ("DateStyle", "Julian"),
        ("DateStyle", "SQL, German"),
        ("DateStyle", "ISO DMY"),
        ("DateStyle", "DMY, MDY"),
        ("DateStyle", "ISO,"),
        ("IntervalStyle", "sql"),
        ("extra_float_digits", "-16"),
        ("extra_float_digits", "4"),
        ("extra_float_digits", "many"),
        ("bytea_output", "base64"),
        ("work_mem", "1GB"),
        ("client_encoding", "UTF9"),
        ("search_path", "a,"),
        ("search_path", "a b"),
        ("search_path", '"a'),
    ],
)
def test_other_values_are_refused_with_a_hint(name: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        SessionSettings.from_settings({name: value})
    assert name.lower() in caught.value.one_line().lower()
    assert "support" in caught.value.one_line() or "expected" in caught.value.one_line()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("ISO", "ISO, MDY"),
        ("", "ISO, MDY"),
        ("dmy", "ISO, DMY"),
        ("sql , European", "SQL, DMY"),
        ("german", "German, DMY"),
        ("MDY,GERMAN", "German, MDY"),
        ("german, ymd", "German, YMD"),
        ('"Postgres", US', "Postgres, MDY"),
        ("PostgreSQL,noneuropean", "Postgres, MDY"),
        ("default, iso, dmy, DMY", "ISO, DMY"),
    ],
)
def test_date_styles_are_read_as_the_server_reads_them(value: str, expected: str) -> None:
    assert expected == SessionSettings(datestyle=value).datestyle


def test_styles_of_the_server() -> None:
    settings = {"IntervalStyle": "SQL_standard", "extra_float_digits": "-15", "lc_monetary": "xx_XX"}
    session = SessionSettings.from_settings(settings)
    assert ("sql_standard", 1, 1, "xx_XX") == (
        session.intervalstyle,
        session.float_digits(15),
        session.float_digits(6),
        session.lc_monetary,
    )


def test_goes_to_other_processes() -> None:
    session = SessionSettings(timezone="America/New_York", major=15)
    again = pickle.loads(pickle.dumps(session))
    assert session == again
    assert hash(session) == hash(again)


def test_client_encodings_are_those_that_the_server_knows() -> None:
    asked = SessionSettings.from_settings({"client_encoding": "shift-jis"}, 16, "EUC_JP")
    assert ("SJIS", False) == (asked.client_encoding, asked.is_utf8)
    assert ("EUC_JP", "EUC_JP") == (asked.of_database.encoding, asked.of_database.client_encoding)
    assert ("UTF8", True) == (SessionSettings(encoding="LATIN1").client_encoding, SessionSettings().is_utf8)
    with pytest.raises(UsageError, match="conversion between SJIS and LATIN1 is not supported"):
        SessionSettings.from_settings({"client_encoding": "SJIS"}, 16, "LATIN1")
    assert SessionSettings(client_encoding="MULE_INTERNAL", encoding="LATIN1", major=18).encoding == "LATIN1"
    with pytest.raises(UsageError, match="invalid value for parameter"):
        SessionSettings(client_encoding="MULE_INTERNAL", encoding="LATIN1", major=19)
