"""Options as the servers take and refuse them; the messages were read off servers 15.18, 16.14, 17.10 and 18.4."""

from __future__ import annotations

import pickle

import pytest

from headwater.errors import PluginError
from headwater.pg.identifiers import quote_identifier, quote_qualified_identifier
from headwater.pipeline.requests.plugin_loading import load_plugin, plugin_names
from headwater.plugins.api import PluginContext
from headwater.plugins.options import parse_bool, split_identifiers
from headwater.plugins.pgoutput.plugin import PgOutput
from headwater.plugins.test_decoding.plugin import TestDecoding
from headwater.rows.session import SessionSettings

MAJORS = (14, 15, 16, 17, 18, 19)
SINCE_15 = MAJORS[1:]
Options = dict[str, str | None]

P: Options = {"publication_names": "p"}
V1P: Options = {"proto_version": "1", "publication_names": "p"}

ONLY, ONLY_16 = "we only support", "server only supports"

REFUSED: list[tuple[tuple[int, ...], Options, str]] = [
    ((14, 15), {}, f"client sent proto_version=0 but {ONLY} protocol 1 or higher"),
    ((16,), {}, f"client sent proto_version=0 but {ONLY_16} protocol 1 or higher"),
    ((17, 18, 19), {}, 'option "proto_version" missing'),
    ((14, 15, 16), {"proto_version": "1"}, "publication_names parameter missing"),
    ((17, 18, 19), {"proto_version": "1"}, 'option "publication_names" missing'),
    ((16,), P, f"client sent proto_version=0 but {ONLY_16} protocol 1 or higher"),
    ((17, 18, 19), P, 'option "proto_version" missing'),
    (MAJORS, V1P | {"proto_version": "x"}, "invalid proto_version"),
    (MAJORS, V1P | {"proto_version": " "}, "invalid proto_version"),
    (MAJORS, V1P | {"proto_version": "-"}, "invalid proto_version"),
    (SINCE_15, V1P | {"proto_version": "1 "}, "invalid proto_version"),
    (MAJORS, V1P | {"proto_version": "99999999999999999999"}, "invalid proto_version"),
    (MAJORS, V1P | {"proto_version": "-1"}, 'proto_version "-1" out of range'),
    (MAJORS, V1P | {"proto_version": "4294967296"}, 'proto_version "4294967296" out of range'),
    ((14, 15, 17), V1P | {"proto_version": ""}, "invalid proto_version"),
    ((14,), V1P | {"proto_version": "1 x"}, "invalid proto_version"),
    ((14,), V1P | {"proto_version": "4294967295"}, f"client sent proto_version=-1 but {ONLY} protocol 2 or lower"),
    ((14,), V1P | {"proto_version": "3"}, f"client sent proto_version=3 but {ONLY} protocol 2 or lower"),
    ((15,), V1P | {"proto_version": "4294967295"}, f"client sent proto_version=-1 but {ONLY} protocol 3 or lower"),
    ((15,), V1P | {"proto_version": "4"}, f"client sent proto_version=4 but {ONLY} protocol 3 or lower"),
    ((16, 17, 18, 19), V1P | {"proto_version": "5"}, f"client sent proto_version=5 but {ONLY_16} protocol 4 or lower"),
    ((16, 18, 19), V1P | {"proto_version": ""}, f"client sent proto_version=0 but {ONLY_16} protocol 1 or higher"),
    ((14, 15, 16), V1P | {"publication_names": ""}, "publication_names parameter missing"),
    (MAJORS, V1P | {"publication_names": "a,"}, "invalid publication_names syntax"),
    (MAJORS, V1P | {"binary": "1"}, "binary requires a Boolean value"),
    (MAJORS, V1P | {"messages": "yes"}, "messages requires a Boolean value"),
    ((14, 15), V1P | {"streaming": "1"}, "streaming requires a Boolean value"),
    ((14, 15), V1P | {"streaming": "parallel"}, "streaming requires a Boolean value"),
    ((16, 17, 18, 19), V1P | {"streaming": "1"}, 'streaming requires a Boolean value or "parallel"'),
    (MAJORS, V1P | {"streaming": "on"}, "requested proto_version=1 does not support streaming, need 2 or higher"),
    (
        (16, 17, 18, 19),
        V1P | {"proto_version": "3", "streaming": "parallel"},
        "requested proto_version=3 does not support parallel streaming, need 4 or higher",
    ),
    (
        SINCE_15,
        V1P | {"two_phase": "on"},
        "requested proto_version=1 does not support two-phase commit, need 3 or higher",
    ),
    ((14,), V1P | {"two_phase": "off"}, "unrecognized pgoutput option: two_phase"),
    ((14, 15), V1P | {"origin": "none"}, "unrecognized pgoutput option: origin"),
    ((16, 17, 18, 19), V1P | {"origin": "x"}, 'unrecognized origin value: "x"'),
    ((16, 17, 18, 19), V1P | {"origin": None}, "origin requires a parameter"),
    (MAJORS, V1P | {"foo": "x"}, "unrecognized pgoutput option: foo"),
]


@pytest.mark.parametrize(
    ("major", "options", "expected"), [(major, *case) for majors, *case in REFUSED for major in majors]
)
def test_pgoutput_refuses(major: int, options: Options, expected: str) -> None:
    with pytest.raises(PluginError) as caught:
        PgOutput(tuple(options.items()), PluginContext(major))
    assert expected == caught.value.message


def test_pgoutput_refuses_an_option_given_twice() -> None:
    for name, value in (("binary", "off"), ("proto_version", "1"), ("publication_names", "p")):
        with pytest.raises(PluginError, match=r"^conflicting or redundant options$"):
            PgOutput(((name, value), (name, value)), PluginContext(17))


@pytest.mark.parametrize("major", MAJORS)
def test_pgoutput_takes_every_version_and_switches_that_are_off(major: int) -> None:
    off: Options = {"binary": "OFF", "streaming": "false", "messages": None}
    if major in SINCE_15:
        off["two_phase"] = "off"
    for version in ("1", " +2", "03" if major in SINCE_15 else "02 "):
        plugin = PgOutput(tuple((V1P | off | {"proto_version": version}).items()), PluginContext(major))
        assert plugin.options.messages
        assert not plugin.traits.wants_binary
    assert PgOutput(tuple((V1P | {"binary": "on"}).items()), PluginContext(major)).traits.wants_binary


@pytest.mark.parametrize(("mode", "version"), [("on", "2"), (None, "2"), ("parallel", "4")])
def test_pgoutput_streams_from_a_limit_on(mode: str | None, version: str) -> None:
    session = SessionSettings.from_settings({"logical_decoding_work_mem": "1MB"}, 17)
    options = (V1P | {"proto_version": version, "streaming": mode}).items()
    assert PgOutput(tuple(options), PluginContext(17, session)).traits.stream_limit == 1 << 20
    assert PgOutput(tuple(V1P.items()), PluginContext(17, session)).traits.stream_limit == 0


def test_origin_none_filters_what_has_an_origin() -> None:
    none = PgOutput(tuple((V1P | {"origin": "None"}).items()), PluginContext(16))
    anything = PgOutput(tuple((V1P | {"origin": "ANY"}).items()), PluginContext(16))
    assert [none.filter_origin(origin) for origin in (0, 1)] == [False, True]
    assert [anything.filter_origin(origin) for origin in (0, 1)] == [False, False]


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("include-xids", "o", 'could not parse value "o" for parameter "include-xids"'),
        ("skip-empty-xacts", "", 'could not parse value "" for parameter "skip-empty-xacts"'),
        ("stream-changes", "x", 'could not parse value "x" for parameter "stream-changes"'),
        ("include-xids", " true", 'could not parse value " true" for parameter "include-xids"'),
        ("foo", "bar", 'option "foo" = "bar" is unknown'),
        ("include-sequences", None, 'option "include-sequences" = "(null)" is unknown'),
    ],
)
def test_test_decoding_refuses(option: str, value: str | None, expected: str) -> None:
    with pytest.raises(PluginError) as caught:
        TestDecoding(((option, value),), PluginContext(17))
    assert expected == caught.value.message


def test_test_decoding_options_without_value() -> None:
    names = (
        "include-timestamp",
        "skip-empty-xacts",
        "only-local",
        "force-binary",
        "include-rewrites",
        "stream-changes",
    )
    plugin = TestDecoding(tuple((name, None) for name in names), PluginContext(17))
    assert plugin.options.include_timestamp
    assert plugin.traits.skips_empty
    assert [plugin.filter_origin(origin) for origin in (0, 1)] == [False, True]
    assert plugin.traits.is_text
    assert not plugin.options.include_rewrites


def test_binary_output_is_not_taken_back() -> None:
    plugin = TestDecoding((("force-binary", "1"), ("force-binary", "0")), PluginContext(17))
    assert not plugin.traits.is_text


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("t", "TRU", "true", "y", "yes", "on", "1"), True),
        (("f", "fal", "FALSE", "n", "no", "of", "off", "0"), False),
        (("", "o", "2", "truex", "01", "yess", " on"), None),
    ],
)
def test_parse_bool(texts: tuple[str, ...], expected: bool | None) -> None:
    assert [expected] * len(texts) == [parse_bool(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t", []),
        ("a", ["a"]),
        (' Ab , "Cd" ', ["ab", "Cd"]),
        ('"a""b",""', ['a"b', ""]),
        ('a"b', ['a"b']),
        ("ÄB", ["Äb"]),
        ("é" * 40, ["é" * 31]),
        ("a b", None),
        (",a", None),
        ("a,,b", None),
        ("a,", None),
        ('"a', None),
        ('"a"b', None),
    ],
)
def test_split_identifiers(text: str, expected: list[str] | None) -> None:
    assert expected == split_identifiers(text, 17)


def test_a_vertical_tab_is_white_space_from_16_on() -> None:
    assert split_identifiers("a\v,b", 16) == ["a", "b"]
    assert split_identifiers("a\v,b", 15) == ["a\v", "b"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain_1", "plain_1"),
        ("", '""'),
        ("1a", '"1a"'),
        ("Mixed", '"Mixed"'),
        ("two words", '"two words"'),
        ('say "hi"', '"say ""hi"""'),
        ("größe", '"größe"'),
        ("select", '"select"'),
        ("int", '"int"'),
        ("left", '"left"'),
        ("abort", "abort"),
    ],
)
def test_quote_identifier(name: str, expected: str) -> None:
    assert [expected] * len(MAJORS) == [quote_identifier(name, major) for major in MAJORS]


def test_words_become_reserved_over_time() -> None:
    expected = ["system_user"] * 2 + ['"system_user"'] * 4
    assert expected == [quote_identifier("system_user", major) for major in MAJORS]
    assert [quote_identifier("json", major) for major in MAJORS] == ["json"] * 3 + ['"json"'] * 3
    assert quote_qualified_identifier("json", "T", 17) == '"json"."T"'


def test_plugins_are_found_by_name() -> None:
    assert {"pgoutput", "test_decoding"} <= set(plugin_names())
    assert load_plugin("pgoutput") is PgOutput
    with pytest.raises(
        PluginError, match=r'unknown output plugin "wal3json"; known plugins are debezium, pgoutput, test_decod'
    ):
        load_plugin("wal3json")


def test_plugins_pickle() -> None:
    for plugin in (PgOutput(tuple(V1P.items()), PluginContext(16)), TestDecoding((), PluginContext(16))):
        assert vars(plugin) == vars(pickle.loads(pickle.dumps(plugin)))
