"""COPY statements of subscribers are read, others are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.pg.identifiers import quote_identifier
from headwater.walsender.sql.copy_shapes import CopyTable, parse_copy

NAME = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=15)
"""Of at most 60 bytes: longer ones than 63 are cut."""
CONDITIONS = ("(a > 2)", "(a > 2) OR (b ~~ ')('::text)", '\nCASE\n    WHEN ("(" > 1) THEN true\n    ELSE false\nEND')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COPY public.t TO STDOUT", CopyTable("public", "t", None)),
        ("COPY public.t (a, b) TO STDOUT", CopyTable("public", "t", ("a", "b"))),
        (
            'copy\n"Other 1" . "t""" (A,"B")to stdout with (format binary);',
            CopyTable("Other 1", 't"', ("a", "B"), is_binary=True),
        ),
        ("COPY (SELECT a FROM s.t) TO STDOUT", CopyTable("s", "t", ("a",), is_query=True)),
        ("COPY (SELECT  FROM ONLY s.t) TO STDOUT", CopyTable("s", "t", (), is_query=True, only=True)),
        (
            "COPY (SELECT a, b FROM ONLY s.t WHERE (a > 2)) TO STDOUT WITH (FORMAT binary)",
            CopyTable("s", "t", ("a", "b"), is_query=True, only=True, where="(a > 2)", is_binary=True),
        ),
    ],
)
def test_statements(text: str, expected: CopyTable) -> None:
    assert parse_copy(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "COPY",
        "COPY t TO STDOUT",
        "COPY s.t () TO STDOUT",
        "COPY s.t (a,) TO STDOUT",
        "COPY s.t FROM STDIN",
        "COPY s.t TO '/tmp/x'",
        "COPY s.t TO STDOUT WITH (FORMAT csv)",
        "COPY s.t TO STDOUT; SELECT 1",
        "COPY (SELECT a FROM s.t WHERE ) TO STDOUT",
        "COPY (SELECT a FROM s.t WHERE (a > 1) TO STDOUT",
        "COPY (SELECT a FROM s.t) extra TO STDOUT",
        "COPY (SELECT a + 1 FROM s.t) TO STDOUT",
        "COPY (SELECT * FROM s.t) TO STDOUT",
        'COPY s.t "TO" STDOUT',
        "COPY s.t TO STDOUT -- all",
    ],
)
def test_other_statements(text: str) -> None:
    assert parse_copy(text) is None


@given(NAME, NAME, st.lists(NAME, min_size=1, max_size=3), st.booleans(), st.booleans(), st.sampled_from(CONDITIONS))
def test_statements_of_any_names(
    schema: str, table: str, columns: list[str], only: bool, is_binary: bool, where: str
) -> None:
    relation = f"{quote_identifier(schema, 18)}.{quote_identifier(table, 18)}"
    listed = ", ".join(quote_identifier(column, 18) for column in columns)
    ending = "TO STDOUT WITH (FORMAT binary)" if is_binary else "TO STDOUT"
    text = f"COPY (SELECT {listed} FROM {'ONLY ' if only else ''}{relation} WHERE {where}) {ending}"
    expected = CopyTable(schema, table, tuple(columns), True, only, where.strip(), is_binary)
    assert parse_copy(text) == expected
    assert parse_copy(f"COPY {relation} ({listed}) {ending}") == CopyTable(
        schema, table, tuple(columns), is_binary=is_binary
    )
