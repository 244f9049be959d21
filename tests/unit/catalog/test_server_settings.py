"""Configuration files as the server reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.catalog.server_settings import ServerSetting, parse_configuration, read_server_settings
from headwater.errors import CatalogError

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
    found = [(name, value) for _, name, value in parse_configuration(line)]
    assert ([] if expected is None else [expected]) == found


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
