"""Configuration files as the server reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.catalog.copy.server_settings import ServerSetting, parse_configuration, read_server_settings
from headwater.errors import CatalogError, HeadwaterWarning

LINES = [
    ("timezone = 'Europe/Berlin'", ("timezone", "Europe/Berlin")),
    ("  TimeZone='UTC'# of the machine", ("timezone", "UTC")),
    ("timezone UTC", ("timezone", "UTC")),
    ("timezone'UTC'", ("timezone", "UTC")),
    ("timezone = UTC\t\t# no quotes", ("timezone", "UTC")),
    ("datestyle = 'iso, dmy'\r", ("datestyle", "iso, dmy")),
    ("timezone = 'it''s # no comment'", ("timezone", "it's # no comment")),
    (r"timezone = 'a\'b\\c\td\101'", ("timezone", "a'b\\c\tdA")),
    ("timezone = ''", ("timezone", "")),
    ("extra_float_digits = -15", ("extra_float_digits", "-15")),
    ("my_extension.option = on", ("my_extension.option", "on")),
    ("include 'more.conf'", ("include", "more.conf")),
    ("# timezone = UTC", None),
    ("#timezone = UTC", None),
    ("", None),
    ("timezone =", None),
    ("timezone = 'open", None),
    ("timezone = a b", None),
    ("= UTC", None),
]


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_one_line(line: str, expected: tuple[str, str] | None) -> None:
    settings = [(name, value) for _, name, value in parse_configuration(line)]
    assert ([] if expected is None else [expected]) == settings


def test_later_lines_and_auto_conf_win(tmp_path: Path) -> None:
    conf, auto = tmp_path / "postgresql.conf", tmp_path / "postgresql.auto.conf"
    conf.write_text("timezone = UTC\nport = 5433\nTIMEZONE = 'Asia/Tokyo'\nbytea_output = escape\n")
    auto.write_text("# do not edit\nbytea_output = 'hex'\n")
    expected = {
        "timezone": ServerSetting("Asia/Tokyo", str(conf), 3),
        "bytea_output": ServerSetting("hex", str(auto), 2),
    }
    assert expected == read_server_settings(tmp_path)


def test_files_that_are_not_there_say_nothing(tmp_path: Path) -> None:
    assert read_server_settings(tmp_path) == {}


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "postgresql.conf").mkdir()
    with pytest.raises(CatalogError, match="could not read configuration file"):
        read_server_settings(tmp_path)


def test_included_files(tmp_path: Path) -> None:
    """Patroni's postgresql.conf includes the one that initdb has made, and has more settings after it."""
    conf, base, more = tmp_path / "postgresql.conf", tmp_path / "postgresql.base.conf", tmp_path / "conf.d"
    more.mkdir()
    conf.write_text("include 'postgresql.base.conf'\nbytea_output = escape\ninclude_dir = 'conf.d'\n")
    base.write_text("timezone = 'Asia/Tokyo'\nbytea_output = hex\ndatestyle = 'German'\n")
    (more / "2.conf").write_text("include_if_exists 'deep/none.conf'\ninclude '../last.conf'\n")
    (more / "1.conf").write_text("datestyle = SQL\n")
    (more / ".hidden.conf").write_text("datestyle = ISO\n")
    (more / "3.conf.old").write_text("datestyle = ISO\n")
    (tmp_path / "last.conf").write_text("intervalstyle = iso_8601\n")
    expected = {
        "timezone": ServerSetting("Asia/Tokyo", str(base), 1),
        "bytea_output": ServerSetting("escape", str(conf), 2),
        "datestyle": ServerSetting("SQL", str(more / "1.conf"), 1),
        "intervalstyle": ServerSetting("iso_8601", str(tmp_path / "last.conf"), 1),
    }
    assert expected == read_server_settings(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "include 'none.conf'",
        "include '../up.conf'",
        "include = '/etc/more.conf'",
        "include_if_exists '/etc/more.conf'",
        "include_dir '/etc/conf.d'",
        "include_dir '..'",
    ],
)
def test_included_from_elsewhere(tmp_path: Path, line: str) -> None:
    (tmp_path / "postgresql.conf").write_text(f"port = 1\n{line}\ntimezone = UTC\n")
    with pytest.warns(HeadwaterWarning, match=r"line 2 includes from .*its settings are not known .*--set NAME=VALUE"):
        assert read_server_settings(tmp_path).keys() == {"timezone"}


def test_included_in_itself(tmp_path: Path) -> None:
    (tmp_path / "postgresql.conf").write_text("include 'postgresql.conf'\n")
    with pytest.raises(CatalogError, match="maximum nesting depth exceeded"):
        read_server_settings(tmp_path)


def test_included_name_that_no_file_can_have(tmp_path: Path) -> None:
    (tmp_path / "postgresql.conf").write_text(f"include '{'x' * 300}'\n")
    with pytest.raises(CatalogError, match="could not look for file: File name too long"):
        read_server_settings(tmp_path)
    (tmp_path / "postgresql.conf").write_text("include_dir 'a\0b'\n")
    with pytest.warns(HeadwaterWarning, match="settings are not known"):
        read_server_settings(tmp_path)
