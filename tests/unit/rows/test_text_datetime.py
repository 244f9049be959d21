# ruff: noqa: SIM300 - asserts read "expected == actual"
"""Dates, times and intervals against their plain twins; time zones against the standard library's."""

from __future__ import annotations

import datetime
import random
import struct
import zoneinfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import UsageError
from headwater.rows._text_codes import CORRUPT
from headwater.rows.session import SessionSettings
from headwater.rows.text._datetime import offset_at
from headwater.rows.timezones import load_timezone
from unit.rows.plain_text import interval_text, julian_date, text_of, timestamp_text

LOWEST, HIGHEST = -211_813_488_000 * 10**6, 9_223_371_331_199 * 10**6
EPOCH = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
USEC = st.one_of(st.integers(LOWEST, HIGHEST), st.integers(-(10**15), 10**15), st.integers(-(10**9), 10**9))
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Africa/Casablanca",
    "Australia/Lord_Howe",
    "Asia/Tehran",
]


@pytest.mark.interpreted
@given(USEC)
def test_timestamp(usec: int) -> None:
    assert timestamp_text(usec) == text_of("timestamp", struct.pack("<q", usec))


@pytest.mark.interpreted
@given(USEC, st.integers(-24 * 3600, 24 * 3600))
def test_timestamptz_at_an_offset(usec: int, west: int) -> None:
    sign, size = "-" if west < 0 else "+", abs(west)
    session = SessionSettings(timezone=f"<X>{sign}{size // 3600}:{size // 60 % 60:02d}:{size % 60:02d}")
    assert timestamp_text(usec, -west) == text_of("timestamptz", struct.pack("<q", usec), session)


@pytest.mark.interpreted
@given(st.integers(-2_451_545, (1 << 31) - 2))
def test_date(days: int) -> None:
    year, month, day = julian_date(days + 2_451_545)
    text = f"{year if year > 0 else 1 - year:04d}-{month:02d}-{day:02d}{' BC' if year <= 0 else ''}"
    assert text == text_of("date", struct.pack("<i", days))


@pytest.mark.interpreted
def test_infinite() -> None:
    for name in ("timestamp", "timestamptz"):
        assert "infinity" == text_of(name, struct.pack("<q", (1 << 63) - 1))
        assert "-infinity" == text_of(name, struct.pack("<q", -(1 << 63)))
    assert "infinity" == text_of("date", struct.pack("<i", (1 << 31) - 1))
    assert "-infinity" == text_of("date", struct.pack("<i", -(1 << 31)))


@pytest.mark.interpreted
@given(st.integers(0, 86_400 * 10**6), st.integers(-57_599, 57_599))
def test_times(micros: int, west: int) -> None:
    clock = timestamp_text(micros).split(" ")[1] if micros < 86_400 * 10**6 else "24:00:00"
    assert clock == text_of("time", struct.pack("<q", micros))
    zone = timestamp_text(0, -west).split(" ")[1]
    offset = zone[zone.index("-" if west > 0 else "+") :]
    assert clock + offset == text_of("timetz", struct.pack("<qi", micros, west))


@pytest.mark.interpreted
@given(
    st.one_of(st.integers(-30, 30), st.integers(-(1 << 31), (1 << 31) - 1)),
    st.one_of(st.integers(-3, 3), st.integers(-(1 << 31), (1 << 31) - 1)),
    st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1)),
)
def test_interval(months: int, days: int, micros: int) -> None:
    payload = struct.pack("<qii", micros, days, months)
    assert interval_text(months, days, micros) == text_of("interval", payload, SessionSettings(major=16))


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("hours", "micros", "expected"),
    [
        ((1 << 31) - 1, 3_599_999_999, "2147483647:59:59.999999"),
        (-((1 << 31) - 1), -3_599_999_999, "-2147483647:59:59.999999"),
        (-(1 << 31), 0, "--2147483648:00:00"),
        (-(1 << 31), -3_599_999_999, "--2147483648:59:59.999999"),
        (1 << 31, 0, None),
        (-(1 << 31) - 1, 0, None),
    ],
)
def test_intervals_of_14_have_hours_of_32_bits(hours: int, micros: int, expected: str | None) -> None:
    payload = struct.pack("<qii", hours * 3_600_000_000 + micros, 0, 0)
    assert text_of("interval", payload, SessionSettings(major=14)) == (CORRUPT if expected is None else expected)
    assert text_of("interval", payload, SessionSettings(major=15)) == interval_text(
        0, 0, hours * 3_600_000_000 + micros
    )


@pytest.mark.interpreted
def test_infinite_interval_from_17_on() -> None:
    low, high = (
        struct.pack("<qii", -(1 << 63), -(1 << 31), -(1 << 31)),
        struct.pack("<qii", (1 << 63) - 1, *2 * [(1 << 31) - 1]),
    )
    assert ("-infinity", "infinity") == (text_of("interval", low), text_of("interval", high))
    assert str(text_of("interval", low, SessionSettings(major=16))).startswith("-178956970 years")


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("timestamp", struct.pack("<q", LOWEST - 86_400 * 10**6)),
        ("date", struct.pack("<i", -2_451_546)),
        ("time", struct.pack("<q", -1)),
        ("time", struct.pack("<q", 86_400 * 10**6 + 1)),
        ("timetz", struct.pack("<qi", 0, 57_600)),
        ("interval", b"\0" * 15),
        ("timestamptz", b"\0" * 7),
    ],
)
def test_values_no_server_writes(name: str, payload: bytes) -> None:
    assert CORRUPT == text_of(name, payload)


@pytest.mark.parametrize("name", ZONES)
def test_zone_equals_the_standard_librarys(name: str) -> None:
    """Every transition, and beyond the file's last one; years 1 to 9999, which is all that ``datetime`` has."""
    zone, library = load_timezone(name), zoneinfo.ZoneInfo(name)
    r = random.Random(name)
    usec = [int(at) + d for at in zone.at for d in (-1, 0) if -6 * 10**16 < at < 2 * 10**17]
    usec += [r.randrange(-6 * 10**16, 25 * 10**16) for _ in range(500)]
    for value in usec:
        moment = (EPOCH + datetime.timedelta(microseconds=value)).astimezone(library)
        expected = moment.utcoffset()
        assert expected is not None
        assert expected.total_seconds() == offset_at(zone.at, zone.offset, zone.cycle, value), (value, moment)


def test_rules_repeat_for_ever() -> None:
    zone = load_timezone("Europe/Berlin")
    cycle = 146_097 * 86_400 * 10**6
    for year in range(100):
        usec = 10**15 + year * 365 * 86_400 * 10**6
        offsets = {int(offset_at(zone.at, zone.offset, zone.cycle, usec + n * cycle)) for n in (1, 2, 50, 700)}
        assert {int(offset_at(zone.at, zone.offset, zone.cycle, usec + cycle))} == offsets
    assert np.all(np.diff(zone.at) > 0)


@pytest.mark.parametrize(
    ("value", "east"),
    [
        ("0x5", 18_000),
        (" -0x5.8p0", -19_800),
        ("UTC", 0),
        ("gmt", 0),
        ("5", 18_000),
        ("-8.5", -30_600),
        ("<+0530>-05:30", 19_800),
        ("FOO+3", -10_800),
        ("asia/kolkata", 19_800),
        ("XXX3EDT4,0/0,J365/23", -14_400),
    ],
)
def test_fixed_zones(value: str, east: int) -> None:
    zone = load_timezone(value)
    assert east == offset_at(zone.at, zone.offset, zone.cycle, 7 * 10**14)


@settings(max_examples=40)
@given(st.sampled_from(["EST5EDT,M3.2.0,M11.1.0", "AEST-10AEDT,M10.1.0,M4.1.0/3", "XYZ-3XYD,J60/3,299/25:30"]), USEC)
def test_a_posix_rule_holds_in_the_past_too(value: str, usec: int) -> None:
    zone = load_timezone(value)
    cycle = 146_097 * 86_400 * 10**6
    now = usec % cycle
    assert offset_at(zone.at, zone.offset, zone.cycle, now) == offset_at(zone.at, zone.offset, zone.cycle, usec)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "1e400",
        "-0x1p9999",
        "Nowhere/Land",
        "../../etc/passwd",
        ".hidden",
        "200",
        "UTC+200",
        "EST5EDT,M13.1.0,M1.1.0",
        "INTERVAL '1 day'",
    ],
)
def test_no_such_zone(value: str) -> None:
    with pytest.raises(UsageError):
        load_timezone(value)
