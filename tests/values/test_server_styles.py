"""Values under session settings that change their text equal the server's own, on each major version."""

from __future__ import annotations

import random
import zlib
import zoneinfo
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest

from headwater.catalog.relation import TypeInfo
from headwater.errors import UsageError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.rows import timezones
from headwater.rows.session import DATE_STYLES, INTERVAL_STYLES, SessionSettings
from values.generated_values import ARRAYS, VALUES, array_of, points, taken_by
from values.stored_tables import compare, store

pytestmark = pytest.mark.server

SETUP = """
    create extension cube;
    create type span as (since date, until timestamptz, length interval, weight float4, price money);
    create domain price as money;
"""
ORDERS = ("MDY", "DMY", "YMD")
DATES = ("date", "timestamp", "timestamptz", "time", "timetz", "timestamp[]", "timestamptz[]", "tstzrange", "span")
FLOATS = ("float4", "float8", "float8[]", "point", "lseg", "box", "line", "circle", "path", "polygon", "cube", "span")
MONEY = ("money", "price", "money[]", "price[]", "span")
AMOUNTS = ["0", "0.01", "-0.01", "0.99", "-1", "1234.56", "123456.78", "-12345678.90", "999999", "-1000000", "1000"]
AMOUNTS += ["92233720368547758.07", "-92233720368547758.08"]


def ranges(r: random.Random) -> list[str]:
    moments = sorted(value for value in VALUES["timestamptz"](r) if value[:4] in ("1999", "2000", "2024"))
    texts = [f'["{a}","{a}"]' for a in VALUES["timestamptz"](r)[5:200]]
    return [*texts, "empty", "(,)", "[-infinity,infinity)", *(f"[{a},)" for a in moments)]


def spans(r: random.Random) -> list[str]:
    parts = ("date", "timestamptz", "interval", "float4")
    columns = [r.sample(VALUES[part](r), 150) for part in parts]
    return [f'("{a}","{b}","{c}","{d}",{r.randrange(-(10**6), 10**6)}.5)' for a, b, c, d in zip(*columns, strict=True)]


def amounts(r: random.Random) -> list[str]:
    """Make plain numbers, as the locale C reads them."""
    sizes = [r.randrange(10 ** r.randrange(1, 19)) * r.choice((1, -1)) for _ in range(200)]
    return [f"{size / abs(size or 1):.0f}"[:-1] + f"{abs(size) // 100}.{abs(size) % 100:02d}" for size in sizes]


MAKERS = {
    "tstzrange": ranges,
    "span": spans,
    "money": amounts,
    "price": amounts,
    "money[]": array_of(amounts, ",", 60),
    "price[]": array_of(amounts, ",", 60),
    "cube": points(2, "({}),({})"),
    **ARRAYS,
    **VALUES,
}


@pytest.fixture(scope="session")
def connection(server: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    """Hold a session in a database of its own, with the server's own zone files in use."""
    zones = server.programs.root / "share" / "postgresql" / "timezone"
    with server.connect() as first:
        first.execute("create database styles")
    if zones.is_dir():
        zoneinfo.reset_tzpath([str(zones)])
    timezones.load_timezone.cache_clear()
    with server.connect("styles") as opened:
        opened.execute(SETUP)
        opened.execute("set client_encoding = 'utf8'")
        yield opened
    zoneinfo.reset_tzpath()
    timezones.load_timezone.cache_clear()


@pytest.fixture(scope="session")
def stored(server: EmbeddedPostgres, connection: psycopg.Connection[Any]) -> dict[str, tuple[str, TypeInfo]]:
    """Store a table of values of each type: its name, and the type."""
    tables: dict[str, tuple[str, TypeInfo]] = {}
    for name in dict.fromkeys((*DATES, *FLOATS, *MONEY, "interval", "interval[]")):
        r = random.Random(zlib.crc32(name.encode()))
        values = taken_by(MAKERS[name](r), server.programs.major)
        table = f"styled{len(tables)}"
        tables[name] = table, store(connection, table, name, [*values[:60], *r.sample(values, min(400, len(values)))])
    return tables


def compare_under(
    server: EmbeddedPostgres,
    connection: psycopg.Connection[Any],
    table: tuple[str, TypeInfo],
    settings: Mapping[str, str],
    encoding: str = "UTF8",
) -> int:
    """Compare every value of a table under some settings; returns how many there were."""
    for name, value in settings.items():
        connection.execute("select set_config(%s, %s, false)", (name, value))
    try:
        session = SessionSettings.from_settings(settings, server.programs.major, encoding)
        return compare(server, connection, *table, session)
    finally:
        connection.execute(f"reset all; set client_encoding = '{'UTF8' if encoding == 'SQL_ASCII' else encoding}'")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("style", DATE_STYLES)
def test_dates_in_every_style(
    server: EmbeddedPostgres,
    connection: psycopg.Connection[Any],
    stored: dict[str, tuple[str, TypeInfo]],
    style: str,
    order: str,
) -> None:
    settings = {"DateStyle": f"{style}, {order}", "TimeZone": "America/New_York"}
    for name in DATES:
        assert compare_under(server, connection, stored[name], settings) > 100, name


@pytest.mark.parametrize("style", INTERVAL_STYLES)
def test_intervals_in_every_style(
    server: EmbeddedPostgres, connection: psycopg.Connection[Any], stored: dict[str, tuple[str, TypeInfo]], style: str
) -> None:
    for name in ("interval", "interval[]", "span"):
        assert compare_under(server, connection, stored[name], {"IntervalStyle": style}) > 100
    if server.programs.major >= 17:
        type = store(connection, "endless", "interval", ["infinity", "-infinity"])
        assert compare_under(server, connection, ("endless", type), {"IntervalStyle": style}) == 2
        connection.execute("drop table endless")


@pytest.mark.parametrize("digits", [-15, -14, -9, -5, -1, 0, 1, 3])
def test_floats_with_fewer_digits(
    server: EmbeddedPostgres, connection: psycopg.Connection[Any], stored: dict[str, tuple[str, TypeInfo]], digits: int
) -> None:
    for name in FLOATS:
        assert compare_under(server, connection, stored[name], {"extra_float_digits": str(digits)}) > 100, name


def test_money_in_every_locale(
    server: EmbeddedPostgres,
    connection: psycopg.Connection[Any],
    stored: dict[str, tuple[str, TypeInfo]],
    locales: list[str],
) -> None:
    for locale in ("C", "POSIX", "C.UTF-8", *locales):
        for name in MONEY:
            assert compare_under(server, connection, stored[name], {"lc_monetary": locale}) > 100, (locale, name)


def test_money_at_its_limits(server: EmbeddedPostgres, connection: psycopg.Connection[Any], locales: list[str]) -> None:
    table = "limits", store(connection, "limits", "money", AMOUNTS)
    for locale in ("C", *locales):
        assert len(AMOUNTS) == compare_under(server, connection, table, {"lc_monetary": locale})
    connection.execute("drop table limits")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN9", "LATIN1"])
def test_money_in_other_encodings(server: EmbeddedPostgres, locales: list[str], encoding: str) -> None:
    database = f"money_{encoding}".lower()
    with server.connect() as first:
        first.execute(f"create database {database} encoding {encoding} template template0 lc_collate 'C' lc_ctype 'C'")
    # The client reads no names under SQL_ASCII, only values.
    client = "UTF8" if encoding == "SQL_ASCII" else encoding
    with server.connect(database, client_encoding=client) as connection:
        table = "amounts", store(connection, "amounts", "money", AMOUNTS)
        for locale in (name for name in ("de_DE.UTF-8", "de_DE.ISO-8859-15") if name in locales):
            settings = {"lc_monetary": locale, "client_encoding": encoding}
            if encoding == "LATIN1":  # the server refuses as well, only later
                with pytest.raises(UsageError, match="signs that encoding LATIN1 does not have"):
                    SessionSettings(lc_monetary=locale, encoding=encoding).money  # noqa: B018
                with pytest.raises((psycopg.errors.UntranslatableCharacter, psycopg.errors.UndefinedFunction)):
                    compare_under(server, connection, table, settings, encoding)
            else:
                assert len(AMOUNTS) == compare_under(server, connection, table, settings, encoding)


LEAST = ["-2147483648 days", "1 mon -2147483648 days", "-1 mon -2147483648 days", "1 mon -2147483648 days 1 sec"]
LEAST += ["-2147483648 days 1 hour", "-2147483648 days -1 hour", "-178956970 years -8 mons", "-2147483648 hours"]
LEAST += [
    "-178956970 years -8 mons -2147483648 days -2147483648 hours",
    "1 day -2147483648 hours",
    "-1 day -2147483648 hours -5 min",
    "-2147483648 hours -5 min",
    "1 mon -2147483648 hours -5 min",
    "-1 mon 2147483647 hours",
]


@pytest.mark.parametrize("style", INTERVAL_STYLES)
def test_the_least_parts_of_an_interval(
    server: EmbeddedPostgres, connection: psycopg.Connection[Any], style: str
) -> None:
    """14 cannot turn the sign of these."""
    table = "least", store(connection, "least", "interval", LEAST)
    assert len(LEAST) == compare_under(server, connection, table, {"IntervalStyle": style})
    connection.execute("drop table least")
