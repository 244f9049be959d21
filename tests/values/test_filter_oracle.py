"""The oracle of row filters: random expressions as filters of a publication, and the server's verdict on each row.

The filters are read back from ``pg_publication_rel``, rows are taken apart from the table's file as if they had just
been logged. An expression that raises an error must raise the same one here, for the same rows. ``--expressions`` says
how many there are on each server.
"""

from __future__ import annotations

import contextlib
import pickle
import random
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
import pytest

from headwater.errors import ExpressionError, RecordError, UnsupportedFilterError
from headwater.filters.columns import VALUE, RawColumn
from headwater.filters.filter import compile_filter
from headwater.filters.functions import FilterSettings
from headwater.filters.located import locate_tuples
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.rows.session import SessionSettings
from headwater.rows.tuples.layout import compile_layouts
from server_versions import release_of
from values import filter_grammar
from values.filter_grammar import COLUMNS, KINDS, Grammar
from values.filter_values import IS_VALID, pool
from values.stored_tuples import schema_of, stored_items

pytestmark = pytest.mark.server

MAJORS, ALL_MAJORS = (18,), (15, 16, 17, 18)
"""Row filters came with 15. The planner of 19 leaves out tests that can only be true, and errors with them."""

FEW, MANY, ROWS = 200, 5_000, 80

VERDICTS = """
    create function pg_temp.verdicts(condition text)
    returns table (id int, verdict bool, failure text) language plpgsql as $$
    begin
        for id in select f.id from filtered f order by f.ctid loop
            begin
                execute format('select (%s) is true from filtered where id = $1', condition) into verdict using id;
                failure := null;
            exception when others then
                verdict := null; failure := sqlerrm;
            end;
            return next;
        end loop;
    end $$
"""


@dataclass(frozen=True)
class Table:
    """A table with a publication, and its rows as they are stored."""

    connection: psycopg.Connection[Any]
    schema: Any
    columns: dict[int, RawColumn]
    pools: dict[str, list[str]]
    settings: FilterSettings

    def tree(self, condition: str) -> str | None:
        """Return a filter as the catalog has it; None if the server does not take it for one."""
        try:
            self.connection.execute(f"alter publication some_rows set table filtered where ({condition})".encode())
        except psycopg.errors.FeatureNotSupported:
            return None
        query = "select prqual::text from pg_publication_rel where prrelid = 'filtered'::regclass"
        return str((self.connection.execute(query).fetchone() or ("",))[0])


@pytest.fixture(scope="session")
def table(server: EmbeddedPostgres) -> Iterator[Table]:
    """Hold a table that has a column of each type, with its rows."""
    major = server.programs.major
    with server.connect() as opened:
        opened.execute("create database filter_oracle")
    with server.connect("filter_oracle") as connection:
        r = random.Random(major)
        connection.execute(IS_VALID + VERDICTS)
        names = {f"c_{name}": type_name for name, type_name in COLUMNS.items()}
        columns = ", ".join(f"{name} {type_name}" for name, type_name in names.items())
        connection.execute(f"create table filtered (id int primary key, {columns})")
        pools = {name: pool(connection, name, type_name, r) for name, type_name in COLUMNS.items()}
        with connection.cursor().copy("copy filtered from stdin") as copy:
            for number in range(ROWS):
                copy.write_row((number, *(None if r.random() < 0.1 else r.choice(pools[name]) for name in COLUMNS)))
        connection.execute("create publication some_rows with (publish = 'insert')")
        schema = schema_of(connection, "filtered", {})
        data, items = stored_items(server, connection, "filtered")
        located = locate_tuples(data.copy(), items, compile_layouts([schema], SessionSettings(major=major)))
        firsts = located.new_first[located.new_first >= 0]
        raw = located.columns(firsts, range(1, len(schema.columns) + 1))
        kinds = {KINDS.get(name, name): pool for name, pool in pools.items()}
        settings = FilterSettings(major, "UTF8", "C", "C", server_version=release_of(server.programs))
        yield Table(connection, schema, raw, kinds, settings)


def one_by_one(table: Table, condition: str) -> dict[int, bool | str]:
    """Return the server's verdict or error of each row, in the order in which they lie in the table."""
    rows = table.connection.execute(b"select * from pg_temp.verdicts(%s)", (condition,)).fetchall()
    return {place: failure if verdict is None else verdict for place, (_, verdict, failure) in enumerate(rows)}


def some_of(column: RawColumn, rows: slice) -> RawColumn:
    """Return some of a column's rows."""
    return RawColumn(column.kind[rows], column.start[rows], column.length[rows], column.data)


def ours_one_by_one(table: Table, tree: str) -> dict[int, bool | str]:
    """Return our verdict or error of each row."""
    verdicts: dict[int, bool | str] = {}
    compiled = compile_filter([tree], table.schema.columns, table.settings)
    for number in range(ROWS):
        columns = {key: some_of(column, slice(number, number + 1)) for key, column in table.columns.items()}
        try:
            verdicts[number] = bool(compiled.verdict(columns, 1)[0])
        except ExpressionError as error:
            verdicts[number] = error.message
    return verdicts


def server_verdicts(table: Table, condition: str) -> list[bool] | str:
    """Return all rows' verdicts, or the error that the first one that has any ends with."""
    try:
        rows = table.connection.execute(f"select ({condition}) is true from filtered".encode()).fetchall()
    except psycopg.Error as error:
        return error.diag.message_primary or ""
    return [verdict for (verdict,) in rows]


def our_verdicts(table: Table, tree: str) -> list[bool] | str:
    compiled = pickle.loads(pickle.dumps(compile_filter([tree], table.schema.columns, table.settings)))
    try:
        verdicts: list[bool] = compiled.verdict(table.columns, ROWS).tolist()
    except ExpressionError as error:
        return error.message
    return verdicts


def is_long(request: pytest.FixtureRequest) -> bool:
    """Tell whether the test may take long."""
    return bool(request.config.getoption("--expressions") or request.config.getoption("--all-majors"))


def compare(table: Table, condition: str, thorough: bool) -> str:
    """Compare the verdicts on an expression.

    Returns:
        ``has verdicts``, ``ends`` with an error on both sides, or ``refused`` as a row filter by the server.
    """
    tree = table.tree(condition)
    if tree is None:
        return "refused"
    expected, actual = server_verdicts(table, condition), our_verdicts(table, tree)
    assert actual == expected, condition
    if isinstance(expected, str):
        # Row by row takes a while: of a few expressions, that of some.
        if not thorough and zlib.crc32(condition.encode()) % 4:
            return "ends"
        assert ours_one_by_one(table, tree) == one_by_one(table, condition), condition
        return "ends"
    return "has verdicts"


@pytest.mark.timeout(7200)
def test_random_filters(table: Table, request: pytest.FixtureRequest) -> None:
    thorough = is_long(request)
    wanted = request.config.getoption("--expressions") or (MANY if thorough else FEW)
    r = random.Random(f"{table.settings.major} {wanted}")
    grammar = Grammar(r, table.pools, filter_grammar.FUNCTIONS)
    counts = Counter(compare(table, grammar.filter(), thorough) for _ in range(wanted))
    print(f"PostgreSQL {table.settings.major}: {dict(counts)}")
    assert counts["has verdicts"] > wanted / 2


@pytest.mark.parametrize("kind", sorted(filter_grammar.FUNCTIONS))
def test_every_function(table: Table, kind: str, request: pytest.FixtureRequest) -> None:
    """Each template by itself, with columns and with literals."""
    thorough = is_long(request)
    r = random.Random(zlib.crc32(kind.encode()))
    grammar = Grammar(r, table.pools, {})
    for template, arguments in filter_grammar.FUNCTIONS[kind]:
        for _ in range(4 if thorough else 1):
            call = template.format(*(grammar.argument(argument, 0) for argument in arguments))
            condition = call if kind == "bool" else f"({call}) = {grammar.value(kind, 0)}"
            assert compare(table, condition, thorough) != "refused"


def test_pgoutput_goes_by_the_same_verdicts(table: Table) -> None:
    """The server's own decoding of the rows, under publications with some of the filters."""
    connection, r = table.connection, random.Random(table.settings.major)
    grammar = Grammar(r, table.pools, {})
    columns = ", ".join(column.name for column in table.schema.columns)
    connection.execute("create table again (like filtered)")
    connection.execute("select pg_create_logical_replication_slot('f', 'pgoutput')")
    expected: dict[str, list[int]] = {}
    while len(expected) < 12:
        condition, name = grammar.filter(), f"publication{len(expected)}"
        tree = table.tree(condition)
        verdicts = our_verdicts(table, tree) if tree is not None else "refused"
        if not isinstance(verdicts, str):
            connection.execute(f"create publication {name} for table again where ({condition})".encode())
            expected[name] = [number for number, verdict in zip(numbers_of(table), verdicts, strict=True) if verdict]
    connection.execute(f"insert into again ({columns}) select {columns} from filtered order by ctid".encode())
    try:
        for name, numbers in expected.items():
            assert published(connection, name) == numbers
    finally:
        connection.execute("select pg_drop_replication_slot('f')")


def numbers_of(table: Table) -> list[int]:
    """List the rows' ids, in the order in which they lie."""
    return [number for (number,) in table.connection.execute("select id from filtered order by ctid").fetchall()]


def published(connection: psycopg.Connection[Any], publication: str) -> list[int]:
    """List the ids in the INSERT messages of pgoutput."""
    changes = "pg_logical_slot_peek_binary_changes('f', null, null, 'proto_version', '1', 'publication_names', %s)"
    rows = connection.execute(f"select data from {changes}".encode(), (publication,)).fetchall()
    # I, the relation's OID, N, the number of columns, and of the first one: t, its length, its text.
    return [int(data[13 : 13 + int.from_bytes(data[9:13])]) for (data,) in rows if data[:1] == b"I"]


LETTERS = ["lower(v) = v", "upper(v) = v", "v ilike '%I%'", "v ilike 's_'", "v ~* '[h-j]'", "v ~* 'S.'", "v ~ '[A-z]'"]
LETTERS += [
    f"v {sign} '{part}'" for sign in ("~", "!~") for part in (r"\w", r"\d", r"[[:alpha:]]", r"\ma", r"[^[:alnum:]]")
]
LETTERS += [f"v {sign} '{part}'" for sign in ("~", "~*") for part in ("[[:upper:]]", "[[:lower:]]", "[[:xdigit:]]")]
SIGNS = [f"v ~ '{part}'" for part in (r"\s", "[[:punct:]]", "[^[:space:]]")]


@pytest.mark.parametrize("provider", ["c", "i"], ids=["libc", "icu"])
def test_letters_of_ascii_in_other_locales(server: EmbeddedPostgres, provider: str) -> None:
    """All characters of ASCII, alone and in pairs; of libc and ICU, as far as the machine and the server have them."""
    options = "locale_provider icu icu_locale 'en'" if provider == "i" else "lc_collate 'C.UTF-8' lc_ctype 'C.UTF-8'"
    settings = FilterSettings(server.programs.major, "UTF8", "en", "en", provider)
    name = f"letters_{provider}"
    with server.connect() as opened:
        opened.execute(f"create database {name} template template0 encoding 'UTF8' {options}".encode())
    with server.connect(name) as connection:
        connection.execute("create table filtered (id int primary key, v text)")
        connection.execute("insert into filtered select i, chr(i) from generate_series(1, 127) i")
        pairs = "select 200 + i, chr(i) || chr(i * 7 % 126 + 1) from generate_series(1, 127) i"
        connection.execute(f"insert into filtered {pairs}".encode())
        connection.execute("create publication some_rows with (publish = 'insert')")
        schema = schema_of(connection, "filtered", {})
        texts = [text.encode() for (text,) in connection.execute("select v from filtered order by id").fetchall()]
        lengths = np.array([len(text) for text in texts], dtype=np.int32)
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        data = np.frombuffer(bytearray(b"".join(texts)), dtype=np.uint8)
        columns = {2: RawColumn(np.full(len(texts), VALUE, np.uint8), starts, lengths, data)}
        for condition in LETTERS if provider == "i" else LETTERS + SIGNS:
            tree = Table(connection, schema, columns, {}, settings).tree(condition)
            rows = connection.execute(f"select {condition} from filtered order by id".encode()).fetchall()
            compiled = compile_filter([tree or ""], schema.columns, settings)
            assert compiled.verdict(columns, len(texts)).tolist() == [verdict for (verdict,) in rows], condition
        for condition in SIGNS if provider == "i" else []:
            with pytest.raises(UnsupportedFilterError):
                compile_filter(
                    [Table(connection, schema, columns, {}, settings).tree(condition) or ""], schema.columns, settings
                )


def damaged(column: RawColumn, r: random.Random) -> RawColumn:
    """Change bytes of most of a column's values; where they lie stays as it is."""
    data = column.data.copy()
    there = np.flatnonzero((column.kind == VALUE) & (column.length > 0)).tolist()
    for row in there:
        start, length = int(column.start[row]), int(column.length[row])
        for _ in range(r.choice([0, 1, 1, 4])):
            data[start + r.randrange(min(length, r.choice([4, 40, 400])))] = r.choice([0, 1, 127, 128, 255])
    return column._replace(data=data)


@pytest.mark.timeout(3600)
def test_damaged_values_have_a_verdict_or_a_typed_error(table: Table, request: pytest.FixtureRequest) -> None:
    r = random.Random(f"damaged {table.settings.major}")
    grammar = Grammar(r, table.pools, {})
    templates = [(kind, *function) for kind, several in filter_grammar.FUNCTIONS.items() for function in several]
    for kind, template, arguments in templates if is_long(request) else r.sample(templates, 100):
        call = template.format(*(grammar.argument(argument, 0) for argument in arguments))
        tree = table.tree(call if kind == "bool" else f"({call}) = {grammar.column(kind)}")
        assert tree is not None
        compiled = compile_filter([tree], table.schema.columns, table.settings)
        columns = {number: damaged(table.columns[number], r) for number in compiled.columns}
        for row in range(0, ROWS, 8):
            few = {number: some_of(column, slice(row, row + 8)) for number, column in columns.items()}
            with contextlib.suppress(ExpressionError, RecordError):
                assert len(compiled.verdict(few, 8)) == 8
