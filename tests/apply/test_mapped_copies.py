"""Initial copies by rules: the rows of a stock subscriber of a filtered publication; masks, as Python computes them."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apply.sync_runs import (
    DEFINITIONS,
    TABLES,
    Applying,
    Work,
    address,
    apply_until_now,
    arguments,
    digests,
    leftovers,
    make_tables,
    states,
)
from bad_input.servers import now, run, value
from forked_commands import MAIN, run_forked
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from serving.service import END_SECONDS, Serving, backup_of, wait_until

pytestmark = pytest.mark.server

ROWS = 1000
FILTERED = (
    "CREATE PUBLICATION filtered FOR TABLE t WHERE (id > 10), kept WHERE (id % 2 = 0), narrow (id, n), parts "
    "WITH (publish_via_partition_root = true)"
)
PLAIN = "CREATE PUBLICATION p FOR TABLE t, kept, narrow, parts, secret WITH (publish_via_partition_root)"
RULES = (
    *("--rename", "public.*=shop.*", "--rename", "public.t.v=text", "--exclude-column", "public.narrow.v"),
    *("--where", "public.t: id > 10", "--where", "public.kept: id % 2 = 0", "--exclude-table", "public.s*"),
)
MOVED = ("CREATE SCHEMA shop", *(f"ALTER TABLE {table} SET SCHEMA shop" for table in TABLES))


@pytest.mark.parametrize(
    "flags",
    [pytest.param((), marks=pytest.mark.slow, id="whole"), pytest.param(("--range-blocks", "2"), id="ranges")],
)
def test_copies_beside_work_are_those_of_a_stock_subscriber(flags: tuple[str, ...]) -> None:
    with (
        EmbeddedPostgres(find_programs(18)) as publisher,
        EmbeddedPostgres(find_programs(18)) as target,
        EmbeddedPostgres(find_programs(18)) as stock,
    ):
        make_tables(publisher, target, stock, rows=ROWS)
        run(publisher, "CREATE TABLE secret (id int PRIMARY KEY)", "DROP PUBLICATION p", FILTERED, PLAIN)
        run(target, *MOVED, "ALTER TABLE shop.t RENAME v TO text", "ALTER DATABASE postgres SET search_path = shop")
        with Work(publisher, ROWS), Applying(publisher, target, *RULES, *flags):
            run(stock, f"CREATE SUBSCRIPTION stock CONNECTION '{address(publisher)}' PUBLICATION filtered")
            wait_until(lambda: list(states(target).values()) == ["r"] * 4)
        apply_until_now(publisher, target, *RULES)
        end = now(publisher)
        confirmed = f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = 'stock'"
        ready = "SELECT count(*) = 4 FROM pg_subscription_rel WHERE srsubstate = 'r'"
        wait_until(lambda: value(stock, ready) == "True" and value(publisher, confirmed) == "True")
        assert digests(target) == digests(stock)
        assert leftovers(publisher, target) == []


@pytest.fixture
def pair() -> Iterator[tuple[EmbeddedPostgres, EmbeddedPostgres]]:
    with EmbeddedPostgres(find_programs(16)) as publisher, EmbeddedPostgres(find_programs(16)) as target:
        yield publisher, target


SECRET = "pepper"
MASKS = {
    "n": "null",
    "l": "literal:it's\\hidden=",
    "s": "sha256",
    "h": "hmac-sha256",
    "f": "keep-first:2",
    "e": "keep-last:4",
    "c": "sha256",
}
PEOPLE = f"CREATE TABLE people (id text PRIMARY KEY, plain text, {', '.join(f'{name} text' for name in MASKS)})"
SOURCE_PEOPLE = PEOPLE.replace("c text", "c char(9)").replace("s text", "s int").replace("e text", "e text DEFAULT 'x'")
FLAGS = (
    *("--mask", "public.people.id=hmac-sha256"),
    *(word for name, mask in MASKS.items() for word in ("--mask", f"public.people.{name}={mask}")),
)


def _hmac(text: str) -> str:
    return hmac.new(SECRET.encode(), text.encode(), "sha256").hexdigest()


def _sha256(text: str) -> str:
    return hashlib.sha256((SECRET + text).encode()).hexdigest()


MASKED: dict[str, Callable[[str], str | None]] = {
    "id": _hmac,
    "plain": str,
    "n": lambda _: None,
    "l": lambda _: "it's\\hidden=",
    "s": _sha256,
    "h": _hmac,
    "f": lambda text: text[:2] + "*" * (len(text) - 2) if len(text) > 2 else "*" * len(text),
    "e": lambda text: "*" * (len(text) - 4) + text[-4:] if len(text) > 4 else "*" * len(text),
    "c": lambda text: _sha256(text.rstrip(" ")),
}


def _people(server: EmbeddedPostgres) -> list[dict[str, str | None]]:
    names = ", ".join(f"{name}::varchar" for name in MASKED)
    with server.connect() as connection:
        rows = connection.execute(f"SELECT {names} FROM people".encode()).fetchall()
    return [dict(zip(MASKED, row, strict=True)) for row in rows]


def _expected(publisher: EmbeddedPostgres) -> list[dict[str, str | None]]:
    return [
        {name: None if text is None else MASKED[name](text) for name, text in row.items()} for row in _people(publisher)
    ]


INSERT = """
INSERT INTO people SELECT 'näme' || g, E'a\\tb\\\\' || g, 'n', CASE WHEN g % 3 > 0 THEN 'l' END, g,
    repeat(md5(g::text), 300), repeat('ü', g % 5), 'last' || g, 'c' || g FROM generate_series({}, {}) g
"""


@pytest.mark.parametrize(
    ("flags", "identity"),
    [
        ((), "DEFAULT"),
        pytest.param((), "FULL", marks=pytest.mark.slow),
        pytest.param(("--no-batches",), "DEFAULT", marks=pytest.mark.slow),
        pytest.param(("--no-batches",), "FULL", marks=pytest.mark.slow),
    ],
    ids=["batches", "batches-full", "serial", "serial-full"],
)
def test_masks(
    pair: tuple[EmbeddedPostgres, EmbeddedPostgres],
    flags: tuple[str, ...],
    identity: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publisher, target = pair
    monkeypatch.setenv("HEADWATER_MASK_SECRET", SECRET)
    run(
        publisher,
        SOURCE_PEOPLE,
        f"ALTER TABLE people REPLICA IDENTITY {identity}",
        "ALTER TABLE people ALTER h SET STORAGE EXTERNAL",
    )
    run(publisher, INSERT.format(1, 50), "CREATE PUBLICATION p FOR TABLE people")
    run(target, PEOPLE)
    apply_until_now(publisher, target, *FLAGS, *flags)
    by_id = lambda row: str(row["id"])  # noqa: E731
    assert sorted(_people(target), key=by_id) == sorted(_expected(publisher), key=by_id)
    run(
        publisher,
        INSERT.format(51, 100),
        "UPDATE people SET plain = 'changed', e = 'short' WHERE s % 4 = 0",
        "UPDATE people SET id = id || 'x' WHERE s % 4 = 1",
        "UPDATE people SET l = NULL, f = NULL WHERE s % 4 = 2",
        "DELETE FROM people WHERE s % 7 = 0",
    )
    apply_until_now(publisher, target, *FLAGS, *flags)
    assert sorted(_people(target), key=by_id) == sorted(_expected(publisher), key=by_id)
    assert len(_people(target)) == value_of_count(publisher)


def value_of_count(publisher: EmbeddedPostgres) -> int:
    """Return how many people there are."""
    return int(value(publisher, "SELECT count(*) FROM people"))


@pytest.mark.slow
def test_the_service_is_the_source(pair: tuple[EmbeddedPostgres, EmbeddedPostgres], tmp_path: Path) -> None:
    publisher, target = pair
    make_tables(publisher, rows=ROWS)
    run(publisher, "CREATE TABLE secret (id int PRIMARY KEY)", "DROP PUBLICATION p", PLAIN)
    run(target, *DEFINITIONS, *MOVED, "ALTER TABLE shop.t RENAME v TO text")
    backup = backup_of(publisher, tmp_path / "backup")
    run(publisher, "UPDATE t SET id = -id WHERE id BETWEEN 5 AND 15", "UPDATE t SET id = 5000 WHERE id = 2")
    end = now(publisher)
    run(publisher, "SELECT pg_switch_wal()")
    queries = {
        "shop.t": "SELECT t::text FROM t WHERE id > 10 ORDER BY 1",
        "shop.kept": "SELECT t::text FROM kept t WHERE id % 2 = 0 ORDER BY 1",
        "shop.narrow": "SELECT (id, NULL::text, n)::text FROM narrow ORDER BY 1",
    }
    with publisher.connect() as connection:
        expected = {table: connection.execute(query.encode()).fetchall() for table, query in queries.items()}
    publisher.stop()
    with Serving(publisher.wal_directory, backup, tmp_path / "slots") as serving:
        source = f"host=127.0.0.1 port={serving.port} dbname=postgres user=postgres"
        words = arguments(source, target, "--end", end, "--disable-on-error", *RULES)
        result = run_forked([*MAIN, *words], END_SECONDS)
        assert result.returncode == 0, result.stderr
    with target.connect() as connection:
        for table, rows in expected.items():
            assert connection.execute(f"SELECT t::text FROM {table} t ORDER BY 1".encode()).fetchall() == rows


@pytest.mark.slow
def test_tables_that_come_and_change_their_names(pair: tuple[EmbeddedPostgres, EmbeddedPostgres]) -> None:
    publisher, target = pair
    make_tables(publisher, rows=10)
    run(publisher, "CREATE TABLE later (id int PRIMARY KEY, v text)", "INSERT INTO later VALUES (1, 'here')")
    run(target, *DEFINITIONS, *MOVED, "CREATE TABLE shop.later (id int PRIMARY KEY, v text)")
    rules = ("--rename", "public.*=shop.*")
    apply_until_now(publisher, target, *rules)
    assert states(target) == dict.fromkeys(TABLES, "r")
    run(publisher, "ALTER PUBLICATION p ADD TABLE later")
    lines = apply_until_now(publisher, target, *rules, "--refresh")
    assert 'table "public.later" added to subscription' in lines
    apply_until_now(publisher, target, *rules)
    assert states(target) == dict.fromkeys((*TABLES, "later"), "r")
    # A table that goes by another name from now on is another one: it is copied.
    run(target, "CREATE TABLE shop.elsewhere (id int PRIMARY KEY, v text)")
    run(publisher, "INSERT INTO later VALUES (2, 'more')")
    renamed = (*rules, "--rename", "public.later=shop.elsewhere")
    apply_until_now(publisher, target, *renamed)
    assert states(target) == dict.fromkeys((*TABLES, "later"), "r")
    rows = "SELECT string_agg(id::text, ' ' ORDER BY id) FROM shop."
    assert (value(target, f"{rows}later"), value(target, f"{rows}elsewhere")) == ("1", "1 2")
    left = apply_until_now(publisher, target, *rules, "--exclude-table", "public.later")
    assert 'table "public.later" removed from subscription' in left
    assert states(target) == dict.fromkeys(TABLES, "r")
