"""Random row filters in SQL, as a subscriber is told them: word by word and line by line as pg_get_expr prints them.

Filters with every function of the grammar are among them. ``--expressions`` says how many there are on each server.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bad_input.servers import small_server
from headwater.catalog.store.bootstrap import open_catalog
from headwater.pg.version import VERSIONS
from headwater.walsender.sql.publisher_answers import PublisherAnswers
from oracle.subscriber_queries import table_queries
from values.filter_grammar import COLUMNS, FUNCTIONS, KINDS, Grammar
from values.filter_values import IS_VALID, pool

pytestmark = pytest.mark.server

FEW, MANY = 200, 2_000

TEXTS = """
SELECT p.pubname, pg_get_expr(r.prqual, r.prrelid), r.prrelid::int8
  FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    majors = (15, 16, 17, 18, 19) if metafunc.config.getoption("--all-majors") else (15, 18)
    metafunc.parametrize("major", majors, ids=[f"pg{major}" for major in majors])


def filters(connection: psycopg.Connection[Any], wanted: int) -> Iterator[str]:
    """Give filters: with each function, then random ones."""
    r = random.Random(wanted)
    pools = {KINDS.get(name, name): pool(connection, name, type_name, r) for name, type_name in COLUMNS.items()}
    grammar = Grammar(r, pools, FUNCTIONS)
    for kind, templates in sorted(FUNCTIONS.items()):
        for template, arguments in templates:
            call = template.format(*(grammar.argument(argument, 0) for argument in arguments))
            yield call if kind == "bool" else f"({call}) = {grammar.value(kind, 0)}"
    for _ in range(wanted):
        yield grammar.filter()


@pytest.mark.timeout(7200)
def test_random_filters(tmp_path: Path, major: int, request: pytest.FixtureRequest) -> None:
    wanted = request.config.getoption("--expressions") or (MANY if request.config.getoption("--all-majors") else FEW)
    with small_server(major) as server:
        with server.connect() as connection:
            columns = ", ".join(f"c_{name} {type_name}" for name, type_name in COLUMNS.items())
            connection.execute(f"{IS_VALID}; CREATE TABLE filtered (id int PRIMARY KEY, {columns})".encode())
            for number, condition in enumerate(filters(connection, wanted)):
                publish(connection, f"p{number}", condition)
            connection.execute("SET search_path = ''")
            rows = connection.execute(TEXTS.encode()).fetchall()
        server.stop()
        catalog = open_catalog(server.copy_data_directory(tmp_path / "copy"), "postgres").view((1 << 63) - 1)
    answers = PublisherAnswers(catalog, VERSIONS[major], "postgres")
    wrong = []
    for name, expected, oid in rows:
        *_, text = table_queries(major, major, oid, [name])
        result = answers.answer(text)
        actual = None if result is None else [value for (value,) in result.rows]
        if actual != [expected.encode()]:
            wrong.append((expected, actual))
    print(f"PostgreSQL {major}: {len(rows)} filters")
    assert not wrong, (len(wrong), wrong[0])
    assert len(rows) > wanted


def publish(connection: psycopg.Connection[Any], name: str, condition: str) -> None:
    """Make a publication with a filter, unless the server refuses the filter."""
    try:
        connection.execute(
            f"CREATE PUBLICATION {name} FOR TABLE filtered WHERE ({condition}) WITH (publish = 'insert')".encode()
        )
    except psycopg.errors.FeatureNotSupported:
        return
