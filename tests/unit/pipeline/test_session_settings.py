"""Origins of the settings that values are printed under."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.catalog.copy.server_settings import ServerSetting, read_server_settings
from headwater.errors import CatalogError, UsageError
from headwater.pipeline.requests.open_request import server_settings, session_settings
from headwater.pipeline.requests.request import DecodeRequest
from headwater.rows.session import SessionSettings


def _settings(request: DecodeRequest, major: int) -> SessionSettings:
    return session_settings(request, server_settings(request, read_server_settings(request.catalog), major), major)


def _request(catalog: Path, *settings: tuple[str, str]) -> DecodeRequest:
    return DecodeRequest(wal="", catalog=str(catalog), settings=settings)


def test_defaults_of_the_server(tmp_path: Path) -> None:
    assert SessionSettings(major=16) == _settings(_request(tmp_path), 16)


def test_the_configuration_then_the_request(tmp_path: Path) -> None:
    (tmp_path / "postgresql.conf").write_text("timezone = 'Asia/Tokyo'\nbytea_output = escape\n")
    (tmp_path / "postgresql.auto.conf").write_text("extra_float_digits = '3'\n")
    expected = SessionSettings(timezone="Europe/Paris", bytea_output="escape", extra_float_digits=3, major=16)
    assert expected == _settings(_request(tmp_path, ("TimeZone", "Europe/Paris")), 16)


@pytest.mark.parametrize(
    "line", ["datestyle = 'Julian, DMY'", "intervalstyle = sql_2003", "extra_float_digits = -16", "timezone = Mars"]
)
def test_what_cannot_be_printed_must_be_overridden(tmp_path: Path, line: str) -> None:
    file = tmp_path / "postgresql.conf"
    file.write_text(f"port = 1\n{line}\n")
    name = line.split(" = ")[0]
    with pytest.raises(CatalogError) as caught:
        _settings(_request(tmp_path), 16)
    for piece in ("set in line 2", f"in {file}", f"override it with --set {name}="):
        assert piece in caught.value.one_line()
    good = {"datestyle": "ISO", "intervalstyle": "postgres", "extra_float_digits": "1", "timezone": "UTC"}[name]
    assert SessionSettings(major=16) == _settings(_request(tmp_path, (name, good)), 16)


def test_every_value_of_the_server_goes(tmp_path: Path) -> None:
    file = tmp_path / "postgresql.conf"
    file.write_text("datestyle = 'German'\nintervalstyle = 'iso_8601'\nextra_float_digits = -2\nlc_monetary = 'xx'\n")
    expected = SessionSettings(
        datestyle="German, DMY", intervalstyle="iso_8601", extra_float_digits=-2, lc_monetary="C", major=16
    )
    assert expected == _settings(_request(tmp_path, ("LC_monetary", "C")), 16)


def test_wrong_value_in_the_request(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        _settings(_request(tmp_path, ("DateStyle", "Julian")), 16)


def test_a_setting_of_a_role_that_cannot_be_printed() -> None:
    settings = {"datestyle": ServerSetting("Julian", "global/2964", 0)}
    with pytest.raises(CatalogError, match="set in ALTER DATABASE or ALTER ROLE"):
        server_settings(DecodeRequest(wal="", catalog=""), settings, 16)


@pytest.mark.parametrize(
    ("value", "over", "expected"),
    [
        ("DMY", "SQL, MDY", "SQL, DMY"),
        ("Postgres", "SQL, YMD", "Postgres, YMD"),
        ("German", "SQL, MDY", "German, DMY"),
        ("ymd, german", "SQL, MDY", "German, YMD"),
        ("default, dmy", "SQL, YMD", "SQL, DMY"),
        ("SQL", "German", "SQL, DMY"),
        ("SQL", "", "SQL, MDY"),
    ],
)
def test_a_datestyle_of_a_role_leaves_what_it_does_not_name(value: str, over: str, expected: str) -> None:
    settings = {"datestyle": ServerSetting(value, "global/2964", 0, over)}
    assert (("datestyle", expected),) == server_settings(DecodeRequest(wal="", catalog=""), settings, 16)
