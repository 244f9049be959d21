"""Options of debezium: the connector's names, and errors that say what there is."""

from __future__ import annotations

import pytest

from headwater.errors import PluginError
from headwater.plugins.api import PluginContext
from headwater.plugins.debezium.options import parse_options
from headwater.plugins.debezium.plugin import Debezium
from headwater.rows.session import SessionSettings

PREFIX = ("topic.prefix", "shop")


def test_options_in_the_connectors_words() -> None:
    options = parse_options([PREFIX, ("decimal.handling.mode", "String"), ("skipped.operations", "none")])
    assert (options.topic_prefix, options.decimal_mode, options.skipped) == ("shop", "string", frozenset())


def test_tables_are_chosen_by_patterns_in_any_case() -> None:
    options = parse_options([PREFIX, ("table.include.list", "public\\.o.*,shop.x")])
    assert options.shows_table("Public", "ORDERS")
    assert options.shows_table("shop", "x")
    assert not options.shows_table("public", "customers")
    assert not options.shows_table("public", "x.orders")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], 'option "topic.prefix" is missing'),
        ([("topic.prefix", "a b")], 'invalid value "a b" for option "topic.prefix"'),
        ([PREFIX, ("decimal.handling.mode", "exact")], 'invalid value "exact"'),
        ([PREFIX, ("skipped.operations", "x")], 'invalid value "x"'),
        ([PREFIX, ("tombstones.on.delete", None)], "requires a value"),
        ([PREFIX, ("slot.name", "x")], 'option "slot.name" is unknown'),
        ([PREFIX, ("column.mask.hash", "x")], 'option "column.mask.hash" is not supported'),
        ([PREFIX, ("table.include.list", "(")], 'invalid value "\\("'),
        ([PREFIX, ("table.include.list", "a"), ("table.exclude.list", "b")], "exclude each other"),
        ([PREFIX, ("money.fraction.digits", "1")], 'invalid value "1"'),
    ],
)
def test_bad_options(options: list[tuple[str, str | None]], message: str) -> None:
    with pytest.raises(PluginError, match=message):
        parse_options(options)


@pytest.mark.parametrize(
    ("name", "value"), [("datestyle", "German"), ("intervalstyle", "iso_8601"), ("bytea_output", "escape")]
)
def test_sessions_that_print_otherwise_are_refused(name: str, value: str) -> None:
    session = SessionSettings.from_settings({name: value}, 16)
    with pytest.raises(PluginError, match=f"debezium needs {name}"):
        Debezium([PREFIX], PluginContext(16, session))
