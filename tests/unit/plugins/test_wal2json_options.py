"""wal2json's options: what is accepted, what is chosen, and the plugin's words where it refuses."""

from __future__ import annotations

import pytest

from headwater.errors import PluginError
from headwater.plugins.api import PluginContext
from headwater.plugins.options import parse_int32
from headwater.plugins.wal2json.options import parse_options
from headwater.plugins.wal2json.plugin import Wal2Json


def test_without_options_all_is_shown_in_format_1() -> None:
    options = parse_options(())
    assert options.format_version == 1
    assert options.actions == {"insert", "update", "delete", "truncate"}
    assert options.shows_table("any", "table")


def test_an_option_without_a_value_is_true() -> None:
    options = parse_options([("include-lsn", None), ("format-version", None), ("actions", None)])
    assert options.include_lsn
    assert options.format_version == 2
    assert len(options.actions) == 4


def test_pretty_print_is_not_taken_back() -> None:
    assert parse_options([("pretty-print", "1"), ("pretty-print", "0")]).is_pretty
    assert not parse_options([("pretty-print", "0")]).is_pretty


@pytest.mark.parametrize(
    ("chosen", "left_out"),
    [
        ("*.t", ("public", "u")),
        ("public.*", ("other", "t")),
        ("public.t, a.b", ("a", "c")),
        (r"a\.b.c\,d", ("a.b", "c")),
        (r"\*.t", ("public", "t")),
        (r"public.\*", ("public", "t")),
        (r"public.a\ b", ("public", "a")),
    ],
)
def test_tables_are_chosen_by_patterns(chosen: str, left_out: tuple[str, str]) -> None:
    assert not parse_options([("add-tables", chosen)]).shows_table(*left_out)
    assert parse_options([("filter-tables", chosen)]).shows_table(*left_out)


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        ("*.t", ("any", "t")),
        ("a.*", ("a", "any")),
        (r"a\.b.c\,d", ("a.b", "c,d")),
        (r"\*.\*", ("*", "*")),
        (r"public.a\ b", ("public", "a b")),
        ("a.b.c", ("a", "b.c")),
        ("a.", ("a", "")),
        (".a", ("", "a")),
        ("x.y ,\ta.b", ("a", "b")),
        (r"a.\\", ("a", "\\")),
    ],
)
def test_patterns_protect_with_backslashes(chosen: str, shown: tuple[str, str]) -> None:
    assert parse_options([("add-tables", chosen)]).shows_table(*shown)
    assert not parse_options([("filter-tables", chosen)]).shows_table(*shown)


def test_lists_grow_except_that_of_tables_to_add() -> None:
    twice = parse_options([("filter-tables", "a.b"), ("filter-tables", "c.d"), ("filter-origins", "1, 2x,,y")])
    assert len(twice.filter_tables) == 2
    assert twice.filter_origins == (1, 2, 0, 0)
    assert not parse_options([("add-tables", "a.b"), ("add-tables", "c.d")]).shows_table("a", "b")
    assert not parse_options([("add-tables", None)]).shows_table("a", "b")
    assert not parse_options([("filter-tables", "a.b"), ("filter-tables", None)]).filter_tables


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), (" 2 ", 2), ("+1", 1), ("-1", -1), ("0x2", 2), ("02", 2), ("1.5", 2), ("2.5", 2), ("1e0", 1),
        (".5", 0), ("0x1.8", 2), ("2147483647", 2**31 - 1), ("2147483648", None), ("08", None), ("", None),
        ("x", None), ("1 2", None), ("1kB", None), ("e1", None), ("0x", None), ("1e400", None), ("nan", None),
    ],
)  # fmt: skip
def test_integers_are_read_as_those_of_settings(text: str, value: int | None) -> None:
    assert parse_int32(text) == value


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("include-xids", "x", 'could not parse value "x" for parameter "include-xids"'),
        ("nosuch", "1", 'option "nosuch" = "1" is unknown'),
        ("nosuch", None, 'option "nosuch" = "(null)" is unknown'),
        ("include-unchanged-toast", "1", 'parameter "include-unchanged-toast" was deprecated'),
        ("format-version", "3", "client sent format_version=3 but we only support format 2 or lower"),
        ("format-version", "0", "client sent format_version=0 but we only support format 1 or higher"),
        ("actions", "insert, foo", 'could not parse value "foo" for parameter "actions"'),
        ("actions", "insert,", 'could not parse value "insert," for parameter "actions"'),
        ("add-tables", "t", 'could not parse value "t" for parameter "add-tables"'),
        ("filter-tables", "a.b c.d", 'could not parse value "a.b c.d" for parameter "filter-tables"'),
        ("add-msg-prefixes", ",", 'could not parse value "," for parameter "add-msg-prefixes"'),
        ("filter-origins", "1 2", 'could not parse value "1 2" for parameter "filter-origins"'),
    ],
)
def test_options_are_refused_in_the_plugins_words(name: str, value: str | None, message: str) -> None:
    with pytest.raises(PluginError) as refused:
        parse_options([(name, value)])
    assert refused.value.message == message


def test_a_list_that_ends_in_a_backslash_is_refused() -> None:
    with pytest.raises(PluginError, match="ends in a backslash"):
        parse_options([("add-tables", "a.b\\")])


def test_defaults_of_columns_are_not_supported_yet() -> None:
    with pytest.raises(PluginError, match='"include-default" is not supported yet'):
        Wal2Json([("include-default", "1")], PluginContext(15))
    Wal2Json([("include-default", "0")], PluginContext(15))


def test_rows_that_are_not_complete_cannot_be_marked() -> None:
    with pytest.raises(PluginError, match="cannot mark rows"):
        Wal2Json([], PluginContext(15, marks_rows=True))


def test_local_changes_are_never_left_out() -> None:
    plugin = Wal2Json([("filter-origins", "0, 7")], PluginContext(15))
    assert [plugin.filter_origin(number) for number in (0, 7, 8)] == [False, True, False]
