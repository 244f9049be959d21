"""The data source's options: what is read from them, and what is refused."""

from __future__ import annotations

import pytest

from headwater.errors import UsageError
from headwater.source.options import PARTITION_BYTES, SourceOptions

NEEDED = {"path": "/wal", "catalog": "/backup"}


def test_names_have_no_case() -> None:
    parsed = SourceOptions.parse({"PATH": "/wal", "catalog": "/backup", "startingLSN": "1/A", "partitionBytes": "4096"})
    assert (parsed.request.source.address, parsed.request.start, parsed.partition_bytes) == (
        "/wal",
        (1 << 32) + 10,
        4096,
    )
    assert SourceOptions.parse(NEEDED).partition_bytes == PARTITION_BYTES


@pytest.mark.parametrize("table", ["shop.orders", "orders"])
def test_one_name_is_a_single_table(table: str) -> None:
    assert SourceOptions.parse({**NEEDED, "tables": table}).single_table == table


@pytest.mark.parametrize("tables", ["", "shop.*", "shop.orders, shop.items", "shop.order?"])
def test_patterns_and_lists_are_not(tables: str) -> None:
    assert SourceOptions.parse({**NEEDED, "tables": tables}).single_table is None


def test_a_single_table_may_be_read_as_images() -> None:
    assert SourceOptions.parse({**NEEDED, "tables": "shop.orders", "images": "true"}).single_table is None


@pytest.mark.parametrize("size", ["", "0", "-1", "many", "32m", "1.5"])
def test_partition_bytes_is_a_number(size: str) -> None:
    with pytest.raises(UsageError, match="partitionBytes"):
        SourceOptions.parse({**NEEDED, "partitionBytes": size})


@pytest.mark.parametrize("options", [{"path": "/wal"}, {"catalog": "/backup"}, {**NEEDED, "paths": "/wal"}])
def test_options_that_are_missing_or_unknown(options: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="option"):
        SourceOptions.parse(options)


@pytest.mark.parametrize(
    ("option", "given", "value"),
    [
        ("onUnrepresentable", {}, "error"),
        ("onUnrepresentable", {"onunrepresentable": "NULL"}, "null"),
        ("onUnrepresentable", {"onUnrepresentable": "string"}, "string"),
        ("onLevelGap", {}, "error"),
        ("onLevelGap", {"onlevelgap": "skip"}, "skip"),
        ("onTableReplaced", {}, "error"),
        ("onTableReplaced", {"onTableReplaced": "byname"}, "byName"),
        ("onTableReplaced", {"ontablereplaced": "skip"}, "skip"),
        ("pushFilters", {}, False),
        ("pushFilters", {"pushfilters": "True"}, True),
    ],
)
def test_options_of_some_words(option: str, given: dict[str, str], value: object) -> None:
    parsed = SourceOptions.parse({**NEEDED, **given})
    values = {
        "onUnrepresentable": parsed.on_unrepresentable,
        "onLevelGap": parsed.request.on_level_gap,
        "onTableReplaced": parsed.on_table_replaced,
        "pushFilters": parsed.push_filters,
    }
    assert values[option] == value


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("onUnrepresentable", "error, null, string or bytes"),
        ("onTableReplaced", "error, skip"),
        ("pushFilters", "false or true"),
    ],
)
def test_other_words_are_refused(option: str, words: str) -> None:
    with pytest.raises(UsageError, match=f'invalid {option} "ignore", expected {words}'):
        SourceOptions.parse({**NEEDED, option: "ignore"})


def test_what_spark_says_of_a_table_is_refused() -> None:
    with pytest.raises(UsageError, match="CREATE TEMPORARY VIEW"):
        SourceOptions.parse({**NEEDED, "provider": "headwater", "option.catalog": "/backup"})
    with pytest.raises(UsageError, match="CREATE TEMPORARY VIEW"):
        SourceOptions.parse({})


def test_windows_of_a_read() -> None:
    assert SourceOptions.parse(NEEDED).window_bytes == 1 << 30
    parsed = SourceOptions.parse({**NEEDED, "windowBytes": "1048576"})
    assert parsed.window_bytes == 1 << 20
    with pytest.raises(UsageError, match="windowBytes is no option of streams"):
        parsed.check_stream()
    with pytest.raises(UsageError, match='invalid windowBytes "0"'):
        SourceOptions.parse({**NEEDED, "windowBytes": "0"})


def test_the_servers_release_goes_before_the_setting() -> None:
    given = {**NEEDED, "set.server_version": "15.18", "serverVersion": "15.20"}
    assert SourceOptions.parse(given).request.server_version == "15.20"
    assert SourceOptions.parse({**NEEDED, "set.Server_Version": "15.18"}).request.server_version == "15.18"
    assert SourceOptions.parse(NEEDED).request.server_version is None
