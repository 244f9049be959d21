"""Queries of subscribers are recognised however they are spaced, in whatever case, with any names in them."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.pg.version import VERSIONS
from headwater.walsender.sql.publisher_shapes import SHAPES, Query
from headwater.walsender.sql.results import distinct, name_array_value, vector_value
from headwater.walsender.sql.sequence_answers import SequenceQuery
from headwater.walsender.sql.shapes import Match, first_match, without_end
from headwater.walsender.sql.tokens import MOST_CHARACTERS, Kind, tokens_of
from oracle.subscriber_queries import (
    CLIENTS,
    SEARCH_PATH,
    relation_query,
    sequence_query,
    subscription_queries,
    table_queries,
)

NAMES = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=4)


def texts_of(client: int, server: int, names: list[str], oid: int = 16393) -> list[str]:
    """List all queries of a client to a server."""
    queries = [*subscription_queries(client, server, names), *table_queries(client, server, oid, names)]
    return [SEARCH_PATH, relation_query(names[0], names[-1]), *queries]


def recognised(text: str, server: int) -> tuple[Query, Match] | None:
    """Recognise a query."""
    tokens = tokens_of(text)
    return None if tokens is None else first_match(SHAPES, tokens, VERSIONS[server])


def respaced(text: str, rng: random.Random) -> str:
    """Write a text with other blanks, and unquoted words in another case."""
    tokens = tokens_of(text)
    assert tokens is not None
    parts = [rng.choice(["", " ", "\n\t"])]
    for token, following in [*pairwise(tokens), (tokens[-1], None)]:
        written = text[token.start : token.end]
        parts.append(rng.choice([written.upper(), written.lower()]) if token.kind is Kind.WORD else written)
        gaps = [" ", "\t\r\n", " \f\v "]
        parts.append(rng.choice(gaps if following is None or following.start > token.end else ["", *gaps]))
    return "".join([*parts, *rng.choice([[], [";"], [" ; ;\n"]])])


@pytest.mark.parametrize("server", CLIENTS)
@pytest.mark.parametrize("client", CLIENTS)
def test_each_query_has_one_shape(client: int, server: int) -> None:
    for text in texts_of(client, server, ["p", 'it\'s \\ "q"']):
        tokens = tokens_of(text)
        assert tokens is not None
        shapes = [shape for shape in SHAPES if shape.match(without_end(tokens)) is not None]
        assert [shape.is_known(VERSIONS[server]) for shape in shapes] == [True], text


@given(NAMES, st.sampled_from(CLIENTS), st.sampled_from(CLIENTS), st.randoms(use_true_random=False))
def test_blanks_and_case_do_not_matter(names: list[str], client: int, server: int, rng: random.Random) -> None:
    for text in texts_of(client, server, names):
        expected = recognised(text, server)
        assert expected is not None
        assert recognised(respaced(text, rng), server) == expected
        if "names" in expected[1].values:
            assert list(expected[1].texts("names")) == names


@given(st.lists(st.tuples(st.text("aB'\\ \"é"), st.text("x'")), min_size=1), st.randoms(use_true_random=False))
def test_sequences(names: list[tuple[str, str]], rng: random.Random) -> None:
    text = sequence_query(names)
    triples = tuple(word for number, pair in enumerate(names) for word in (*pair, str(number)))
    for written in (text, respaced(text, rng)):
        assert SequenceQuery.parse(written, VERSIONS[19]) == SequenceQuery(triples, VERSIONS[19])
    assert SequenceQuery.parse(text, VERSIONS[18]) is None
    assert SequenceQuery.parse(text.replace("0)", "0),", 1) + ";;", VERSIONS[19]) is None


def test_values() -> None:
    query = recognised(relation_query("a'b", 'c\\"'), 14)
    assert query is not None
    assert query[0] is Query.RELATION
    assert (query[1].text("schema"), query[1].text("table")) == ("a'b", 'c\\"')
    (column_list,) = [text for text in table_queries(19, 19, 7, ["x"]) if "CASE" in text]
    query = recognised(column_list, 19)
    assert query is not None
    assert query[0] is Query.COLUMN_LISTS_OF_ONE_CALL
    assert query[1].number("oid") == 7


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "SELECT 2",
        "SELECT 1; SELECT 1",
        "SELECT 1 -- one",
        "SELECT /* one */ 1",
        '"SELECT" 1',
        "SELECT '1'",
        "SELECT $$1$$",
        "SELECT pg_catalog.set_config('search_path', 'public', false);",
        "SELECT t.pubname FROM pg_catalog.pg_publication t WHERE t.pubname IN ()",
        "SELECT t.pubname FROM pg_catalog.pg_publication t WHERE t.pubname IN ('a',)",
        "SELECT t.pubname FROM pg_catalog.pg_publication t WHERE t.pubname IN ('a' 'b')",
        "SELECT t.pubname FROM pg_catalog.pg_publication t WHERE t.pubname IN ('a",
        "SELECT t.pubname FROM pg_catalog.pg_publication t WHERE t.pubname IN (E'\\x41')",
        "SELECT t.pubname FROM pg_catalog.pg_publication t WHERE t.pubname IN ({texts names})",
    ],
)
def test_other_texts(text: str) -> None:
    assert recognised(text, 18) is None


def test_a_query_that_the_server_does_not_know() -> None:
    newer = [text for text in texts_of(19, 19, ["p"]) if "ARRAY[" in text or "UNION ALL" in text]
    assert len(newer) == 3
    assert all(recognised(text, 18) is None for text in newer)
    assert all(recognised(text, 14) is None for text in texts_of(15, 15, ["p"]) if "attnames" in text)


@given(st.text("'\"eE\\\n ;,.()[]:a0-/*$_é\0{}", max_size=60))
def test_any_text_has_tokens_or_none(text: str) -> None:
    tokens = tokens_of(text)
    if tokens is not None:
        between = [text[left.end : right.start] for left, right in pairwise(tokens)]
        assert all(gap == "" or gap.isspace() for gap in between)
        assert all(token.start < token.end for token in tokens)


@pytest.mark.parametrize("part", ["'", "''", '"', '""', "e'\\", "(", "a", "-", " ", "{", "\\'"])
def test_a_long_text_takes_no_long_time(part: str) -> None:
    recognised(part * (MOST_CHARACTERS // 10), 18)
    assert tokens_of(part * (MOST_CHARACTERS + 1)) is None


def test_escapes() -> None:
    tokens = tokens_of(r"""E'a\\b\'c''d\n\q' 'e\f' "g""H" iJ""")
    assert tokens is not None
    assert [token.text for token in tokens] == ["a\\b'c'd\nq", "e\\f", 'g"H', "ij"]


def test_texts_of_values() -> None:
    assert name_array_value(["a", "B c", "", "null", 'q"\\', "{}", "a,b", "é"]) == (
        'a,"B c","","null","q\\"\\\\","{}","a,b",é'.join("{}").encode()
    )
    assert name_array_value(None) is None
    assert vector_value((1, -2)) == b"1 -2"
    assert distinct([(b"b", None), (b"a", None), (b"a", b"x"), (b"b", None)]) == [
        (b"a", b"x"),
        (b"a", None),
        (b"b", None),
    ]
