"""Entries of tables in a configuration file: what they say, and errors with their places."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli.config_file import settings_in
from headwater.errors import UsageError
from headwater.lakes.settings.table_settings import TableSettings, settings_of

FILE = """
[land]
mode = "current"

[[land.table]]
tables = ["shop.*", "crm.lead"]
mask = { email = "sha256", phone = "keep-last:4" }

[[land.table]]
tables = "shop.customer"
mode = "history"
exclude-columns = ["ssn"]
mask = { phone = "null" }
properties = { owner = "shop" }
"""


def test_entries_of_a_table_add_up(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(FILE)
    entries = settings_in(str(path))
    assert [entry.patterns for entry in entries] == [("shop.*", "crm.lead"), ("shop.customer",)]
    own = settings_of(entries, "shop.customer")
    assert own.mask == {"email": "sha256", "phone": "null"}
    assert (own.mode, own.exclude_columns, own.properties) == ("history", ("ssn",), {"owner": "shop"})
    assert settings_of(entries, "crm.lead").mode is None
    assert settings_of(entries, "crm.other").fixed == {}
    assert tuple(TableSettings.of_object(entry.as_object) for entry in entries) == entries


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('tables = "a.*"\npartitions = ["id"]', 'line 3, column 1: unknown key "partitions"'),
        ('tables = "a.*"\nsort = ["id"]\npartition = ["week(id)"]', 'line 4, column 1: "partition": "week(id)" is no'),
        ('tables = "a.*"\nkey = 3', 'line 3, column 1: "key" has a value of another kind'),
        ('tables = "a.*"\nmode = "changes"', 'line 3, column 1: "mode": there is no mode "changes"'),
        ('tables = "a.*"\nmask = { e = "md5" }', 'line 3, column 1: "mask": there is no mask "md5"'),
        ('tables = "a.*"\nmask = ["e"]', 'line 3, column 1: "mask" has a value of another kind'),
        ("tables = []", 'line 2, column 1: "tables" has a value of another kind'),
        ('mode = "current"', 'line 1, column 1: an entry without "tables"'),
        ('tables = "a"\nmask.e = "null"\nexclude-columns = ["e"]', 'column "e" of a is excluded and masked'),
    ],
)
def test_errors_have_their_places(tmp_path: Path, entry: str, message: str) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(f"[[land.table]]\n{entry}\n")
    with pytest.raises(UsageError) as raised:
        settings_in(str(path))
    assert message in str(raised.value)
