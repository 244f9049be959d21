"""Every value's text equals the server's own, on each major version, under several session settings."""

from __future__ import annotations

import random
import zlib
import zoneinfo
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from headwater.errors import UnsupportedTypeError, UsageError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.rows import timezones
from headwater.rows._text_codes import LABEL_SIZE
from headwater.rows.text_tables import MAX_NESTING, text_code
from server_versions import session_of
from values import extension_values, language_values, nested_values
from values.extension_values import EXTENSIONS
from values.generated_values import ARRAYS, NEWER, VALUES, array_of, taken_by
from values.stored_tables import compare, store, type_info
from values.text_comparison import compare_values

pytestmark = pytest.mark.server

SETUP = """
    create type mood as enum ('sad', 'ok', 'happy', 'very, very "happy"', 'null');
    alter type mood add value 'later' before 'sad';
    create domain positive as int check (value > 0);
    create domain moods as mood[];
    create domain shortname as varchar(60);
    create domain words as text[];
    create domain wordlists as words[];
    create domain wordbooks as wordlists[];
    create domain numbers as int8[];
    create domain boxes as box[];
    create domain classes as regclass[];
    create domain signatures as gtsvector[];
    create domain nest1 as int[];
    create function is_valid(value text, type text) returns bool language plpgsql as $$
    declare found text; begin
        execute format('select %L::%s::text', value, type) into found; return true;
    exception when data_exception or syntax_error or feature_not_supported or invalid_parameter_value then
        return false;
    end $$;
"""
SETUP += nested_values.SETUP + "".join(f"create extension {name};" for name in EXTENSIONS)
SETUP += "".join(f"create domain nest{n} as nest{n - 1}[];" for n in range(2, MAX_NESTING + 1))
ZONES = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "America/St_Johns",
    "Africa/Monrovia",
    "Australia/Lord_Howe",
]
ZONES += [
    "Africa/Casablanca",
    "Europe/Dublin",
    "Pacific/Apia",
    "Asia/Tehran",
    "America/Sao_Paulo",
    "Antarctica/Troll",
    "CET",
]
ZONES += [
    "Europe/Amsterdam",
    "America/Godthab",
    "<+0530>-05:30",
    "FOO+3",
    "-8.25",
    "5",
    "europe/berlin",
    "EST5EDT",
    "Asia/Gaza",
]
ZONES += ["AAA3BBB,M3.2.0,M11.1.0", "XYZ-10XYD,J60/3,299/25:30", "XXX3EDT4,0/0,J365/23", "Etc/GMT-14", "+100:00"]
INTERVALS = ["-08:30:00", "14:00", "-00:00:30", "PT-8H-30M", "PT5H45M", "PT0S", "PT-7.9S", "@ 8 hours 30 mins ago"]
INTERVALS += ["@ 1 hour 2 mins 3 secs", "@ 0", "-8:30:00", "00:00:59.999999", "167:59:59", "0", "-61.5"]
ZONES += ["<-0830>+08:30", "INTERVAL '-08:30:00'", "interval  '@ 5 hours 45 mins'"]


@pytest.fixture(scope="session")
def connection(server: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    """Hold a session with the types made here, and the server's own zone files in use."""
    zones = server.programs.root / "share" / "postgresql" / "timezone"
    if zones.is_dir():
        zoneinfo.reset_tzpath([str(zones)])
    timezones.load_timezone.cache_clear()
    with server.connect() as opened:
        opened.execute(SETUP)
        opened.execute("set client_encoding = 'utf8'")
        yield opened
    zoneinfo.reset_tzpath()
    timezones.load_timezone.cache_clear()


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "short"])
@pytest.mark.parametrize("type_name", [*VALUES, *ARRAYS])
def test_text_equals_the_servers(
    server: EmbeddedPostgres, connection: psycopg.Connection[Any], type_name: str, plain: bool
) -> None:
    if type_name in ("int2vector", "oidvector") and not plain:
        pytest.skip("the server stores it with a 4-byte header only")
    make = VALUES.get(type_name) or ARRAYS[type_name]
    values = make(random.Random(zlib.crc32(type_name.encode()) + plain))
    if not plain:
        values = [value for value in values if len(value.encode()) < 500][:400]
    if type_name == "interval" and server.programs.major >= 17:
        values += ["infinity", "-infinity"]
    values = taken_by(values, server.programs.major)
    table = f"t{zlib.crc32(f'{type_name}{plain}'.encode())}"
    type = store(connection, table, type_name, [*values, None], plain=plain)
    session = session_of(server)
    assert compare(server, connection, table, type, session) == len(values)
    connection.execute(f"drop table {table}")


@pytest.mark.parametrize("type_name", NEWER)
def test_types_of_newer_servers(server: EmbeddedPostgres, connection: psycopg.Connection[Any], type_name: str) -> None:
    since, make = NEWER[type_name]
    if server.programs.major >= since:
        compare_values(server, connection, type_name, make(random.Random(type_name)))
        compare_values(server, connection, f"{type_name}[]", array_of(make, ",", 40)(random.Random(type_name)))


@pytest.mark.parametrize("type_name", nested_values.VALUES)
def test_values_made_of_others(server: EmbeddedPostgres, connection: psycopg.Connection[Any], type_name: str) -> None:
    compare_values(server, connection, type_name, nested_values.VALUES[type_name](random.Random(type_name)))


@pytest.mark.parametrize("type_name", extension_values.VALUES)
def test_types_of_extensions(server: EmbeddedPostgres, connection: psycopg.Connection[Any], type_name: str) -> None:
    make = extension_values.VALUES[type_name]
    compare_values(server, connection, type_name, make(random.Random(type_name)))
    compare_values(server, connection, f"{type_name}[]", array_of(make, ",", 40)(random.Random(type_name)))


@pytest.mark.parametrize("type_name", language_values.VALUES)
def test_languages_in_columns(server: EmbeddedPostgres, connection: psycopg.Connection[Any], type_name: str) -> None:
    values = language_values.VALUES[type_name](random.Random(type_name), server.programs.major)
    row = connection.execute(
        "select array_agg(value) from unnest(%s::text[]) value where is_valid(value, %s)", (values, type_name)
    ).fetchone()
    assert row is not None
    accepted: list[str] = [value for value in row[0] if len(value.encode()) < 1500]
    assert len(accepted) > len(values) / 2
    compare_values(server, connection, type_name, accepted)
    short = [value for value in accepted if len(value) < 300]
    compare_values(server, connection, f"{type_name}[]", array_of(lambda _r: short, ",", 50)(random.Random(1)))


def test_bytea_escape(server: EmbeddedPostgres, connection: psycopg.Connection[Any]) -> None:
    values = [f"\\x{byte:02x}" for byte in range(256)] + VALUES["bytea"](random.Random(4))
    type = store(connection, "escaped", "bytea", values)
    connection.execute("set bytea_output = escape")
    try:
        session = session_of(server, bytea_output="escape")
        assert compare(server, connection, "escaped", type, session) == len(values)
    finally:
        connection.execute("reset bytea_output; drop table escaped")


@pytest.mark.parametrize("style", ["postgres", "postgres_verbose", "sql_standard", "iso_8601"])
def test_zones_by_an_interval(connection: psycopg.Connection[Any], style: str) -> None:
    """As SET TIME ZONE INTERVAL makes text of it, and as it is given: what moment and text are then."""
    moment, form = "timestamptz '2024-05-06 07:08:09+00'", "YYYY-MM-DD HH24:MI:SS TZ"
    ask = f"select extract(timezone from {moment})::int, to_char({moment}, '{form}')"
    connection.execute("select set_config('intervalstyle', %s, false)", (style,))
    try:
        for given in INTERVALS:
            connection.execute(
                f"create or replace function zoned() returns int language sql as 'select 1' "
                f"set time zone interval '{given}'"
            )
            (setting,) = connection.execute("select proconfig[1] from pg_proc where proname = 'zoned'").fetchone() or (
                "",
            )
            for value in (setting.partition("=")[2], f"INTERVAL '{given}'"):
                connection.execute("select set_config('timezone', %s, false)", (value,))
                zone = timezones.load_timezone(value)
                at = zone.labels[zone.label[0] * LABEL_SIZE :]
                text = bytes(at[1 : 1 + at[0]]).decode()
                east, shown = connection.execute(ask).fetchone() or (0, "")
                assert (int(zone.offset[0]), text) == (east, shown.rpartition(" ")[2]), value
    finally:
        connection.execute("reset timezone; reset intervalstyle; drop function if exists zoned()")


@pytest.mark.parametrize("value", ["INTERVAL '1 day'", "INTERVAL '168:00:00'", "INTERVAL '-8:30", "interval '1 mon'"])
def test_intervals_that_are_no_zones(connection: psycopg.Connection[Any], value: str) -> None:
    with pytest.raises(psycopg.Error):
        connection.execute("select set_config('timezone', %s, false)", (value,))
    with pytest.raises(UsageError, match="invalid value for parameter"):
        timezones.load_timezone(value)


@pytest.mark.parametrize("zone", ZONES)
def test_every_transition_of_a_zone(server: EmbeddedPostgres, connection: psycopg.Connection[Any], zone: str) -> None:
    """Around each transition, in between, and far beyond the tables."""
    r = random.Random(zone)
    table = timezones.load_timezone(zone)
    lowest, highest = -211_813_488_000 * 10**6, 9_223_371_331_199 * 10**6
    instants = {int(at) + d for at in r.sample(list(table.at), min(len(table.at), 800)) for d in (-1, 0, 1, 10**6)}
    instants |= {int(at) + d for at in table.at[:100] for d in (-1, 0)}
    instants |= {r.randrange(-100, 100) * 365 * 86_400 * 10**6 + r.randrange(10**14) for _ in range(1500)}
    instants |= {r.randrange(lowest, highest) for _ in range(1500)} | {lowest, highest, highest - 10**12}
    usec = sorted(value for value in instants if lowest <= value <= highest)
    connection.execute("drop table if exists instants; create table instants (id int not null, value timestamptz)")
    connection.execute("set timezone = 'UTC'")
    with connection.cursor().copy("copy instants from stdin with (format binary)") as copy:
        copy.set_types(["int4", "timestamptz"])
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for number, value in enumerate(usec):
            copy.write(
                b"\0\2" + (4).to_bytes(4) + number.to_bytes(4) + (8).to_bytes(4) + value.to_bytes(8, signed=True)
            )
        copy.write(b"\xff\xff")
    connection.execute("select set_config('timezone', %s, false)", (zone,))
    try:
        session = session_of(server, timezone=zone)
        type = type_info(connection, 1184)
        assert compare(server, connection, "instants", type, session) == len(usec)
        # The other styles show the zone's abbreviation.
        connection.execute("set datestyle = 'Postgres, DMY'")
        session = session_of(server, timezone=zone, datestyle="Postgres, DMY")
        assert compare(server, connection, "instants", type, session) == len(usec)
    finally:
        connection.execute("reset timezone; reset datestyle")


def test_types_without_text_form_are_refused(connection: psycopg.Connection[Any]) -> None:
    for name in ("gtsvector", "gtsvector[]", "signatures", "signatures[]"):
        row = connection.execute("select %s::regtype::oid::int8", (name,)).fetchone()
        assert row is not None
        with pytest.raises(UnsupportedTypeError) as caught:
            text_code(type_info(connection, row[0]))
        assert name in caught.value.message


def test_arrays_nested_too_deep_are_refused(server: EmbeddedPostgres, connection: psycopg.Connection[Any]) -> None:
    value = "{1,NULL}"
    for _ in range(9):
        value = '{"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"}'
    compare_values(server, connection, "nest10", [value, "{}"])
    compare_values(server, connection, f"nest{MAX_NESTING}", ["{}", "{NULL}", '{"{}"}'])
    deeper = store(connection, "deeper", f"nest{MAX_NESTING}[]", [])
    with pytest.raises(UnsupportedTypeError, match=rf"nest{MAX_NESTING}\[\] cannot be printed: more than"):
        text_code(deeper)
    connection.execute("drop table deeper")
