# ruff: noqa: SIM300 - asserts read "expected == actual"
"""Text that session settings change, against plain twins."""

from __future__ import annotations

import datetime
import itertools
import math
import random
import struct
import zoneinfo
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import UsageError
from headwater.rows._text_bytes import Bytes
from headwater.rows._text_codes import CORRUPT, LABEL_SIZE, MONEY_PIECES
from headwater.rows.money_format import MoneyFormat, format_of, money_format
from headwater.rows.session import SessionSettings
from headwater.rows.text._datetime import period_at
from headwater.rows.text._float import LAST_POWER, MOST_DIGITS
from headwater.rows.text._money import write_money
from headwater.rows.timezones import TimeZone, load_timezone
from unit.rows.plain_styles import money_text, rounded_float, styled_date, styled_interval, styled_timestamp
from unit.rows.plain_text import text_of

LOWEST, HIGHEST = -211_813_488_000 * 10**6, 9_223_371_331_199 * 10**6
EPOCH = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
USEC = st.one_of(st.integers(LOWEST, HIGHEST), st.integers(-(10**15), 10**15), st.integers(-(10**9), 10**9))
STYLES = st.tuples(st.sampled_from(["SQL", "Postgres", "German"]), st.sampled_from(["MDY", "DMY", "YMD"]))


@pytest.mark.interpreted
@given(USEC, STYLES, st.integers(-24 * 3600, 24 * 3600))
def test_timestamps_in_every_style(usec: int, style: tuple[str, str], east: int) -> None:
    size = abs(east)
    zone = f"<Over-10-Letters>{'-' if east >= 0 else '+'}{size // 3600}:{size // 60 % 60:02d}:{size % 60:02d}"
    session = SessionSettings(datestyle=", ".join(style), timezone=zone)
    payload = struct.pack("<q", usec)
    assert styled_timestamp(usec, *style) == text_of("timestamp", payload, session)
    assert styled_timestamp(usec, *style, east, "OVER-10-LETTERS") == text_of("timestamptz", payload, session)


@pytest.mark.interpreted
@given(st.integers(-2_451_545, (1 << 31) - 2), STYLES)
def test_dates_in_every_style(days: int, style: tuple[str, str]) -> None:
    session = SessionSettings(datestyle=", ".join(style))
    assert styled_date(days, *style) == text_of("date", struct.pack("<i", days), session)


@pytest.mark.interpreted
@pytest.mark.parametrize("style", ["SQL", "Postgres", "German"])
def test_infinite_and_impossible(style: str) -> None:
    session = SessionSettings(datestyle=style)
    for name in ("timestamp", "timestamptz"):
        assert "infinity" == text_of(name, struct.pack("<q", (1 << 63) - 1), session)
        assert "-infinity" == text_of(name, struct.pack("<q", -(1 << 63)), session)
        assert CORRUPT == text_of(name, struct.pack("<q", LOWEST - 86_400 * 10**6), session)
        assert CORRUPT == text_of(name, bytes(7), session)
    assert "infinity" == text_of("date", struct.pack("<i", (1 << 31) - 1), session)
    assert CORRUPT == text_of("date", struct.pack("<i", -2_451_546), session)


@pytest.mark.interpreted
@given(
    st.one_of(st.integers(-30, 30), st.integers(-(1 << 31), (1 << 31) - 1)),
    st.one_of(st.integers(-3, 3), st.integers(-(1 << 31), (1 << 31) - 1)),
    st.one_of(
        st.integers(-3, 3), st.integers(-70, 70).map(lambda s: s * 10**6), st.integers(-(1 << 63), (1 << 63) - 1)
    ),
    st.sampled_from(["postgres_verbose", "sql_standard", "iso_8601"]),
)
def test_intervals_in_every_style(months: int, days: int, micros: int, style: str) -> None:
    session = SessionSettings(intervalstyle=style, major=16)
    payload = struct.pack("<qii", micros, days, months)
    assert styled_interval(months, days, micros, style) == text_of("interval", payload, session)


@pytest.mark.interpreted
@given(st.floats(width=64), st.integers(-15, 0))
def test_rounded_float8(value: float, fewer: int) -> None:
    session = SessionSettings(extra_float_digits=fewer)
    assert rounded_float(value, max(15 + fewer, 1)) == text_of("float8", struct.pack("<d", value), session)


@pytest.mark.interpreted
@given(st.floats(width=32), st.integers(-15, 0))
def test_rounded_float4(value: float, fewer: int) -> None:
    session = SessionSettings(extra_float_digits=fewer)
    assert rounded_float(value, max(6 + fewer, 1)) == text_of("float4", struct.pack("<f", value), session)


@pytest.mark.interpreted
@given(st.integers(0, 10**15), st.integers(-25, 25), st.integers(-15, 0))
def test_floats_that_are_half_way(digits: int, power: int, fewer: int) -> None:
    """Ties go to the even digit, where the number is exactly between two; most of these are next to it."""
    value = float(f"{digits}5e{power}")
    for near in (math.nextafter(value, 0), value, math.nextafter(value, math.inf), digits + 0.5, digits * 2.0**-20):
        session = SessionSettings(extra_float_digits=fewer)
        assert rounded_float(near, max(15 + fewer, 1)) == text_of("float8", struct.pack("<d", near), session)


def test_no_double_is_nearly_half_way_between_two_decimals() -> None:
    """The rounding relies on it: being half-way is exact, or at least 2**-67 of the last digit off.

    That many times a power of ten times a power of two that is a whole number of halves. A fraction's continued
    fraction tells how near its multiples come to whole numbers (the law of best approximation).
    """
    nearest = Fraction(1)
    for exponent in range(-1074, 972):
        lowest = math.floor((exponent + (52 if exponent > -1074 else 0)) * math.log10(2)) - 1
        highest = math.floor((exponent + 53) * math.log10(2)) + 1
        for power in range(-highest, MOST_DIGITS - lowest):
            if power <= LAST_POWER:
                twice = Fraction(2) ** (exponent + 1) * Fraction(10) ** power
                nearest = min(nearest, _nearest_to_whole(twice.numerator, twice.denominator, 1 << 53) / 2)
    assert nearest > Fraction(1, 1 << 67)


def _nearest_to_whole(numerator: int, denominator: int, limit: int) -> Fraction:
    """Find how near multiples below a limit come to whole numbers without being whole."""
    if denominator < limit:
        return Fraction(1, denominator)
    before, last = (1, 0), (0, 1)
    dividend, divisor = denominator, numerator % denominator
    while divisor:
        quotient, rest = divmod(dividend, divisor)
        following = quotient * last[0] + before[0], quotient * last[1] + before[1]
        if following[1] >= limit:
            break
        before, last, dividend, divisor = last, following, divisor, rest
    return Fraction(abs(last[1] * (numerator % denominator) - last[0] * denominator), denominator)


def label_at(zone: TimeZone, usec: int) -> str:
    slot = LABEL_SIZE * int(zone.label[period_at(zone.at, zone.cycle, usec)])
    return zone.labels[slot + 1 : slot + 1 + int(zone.labels[slot])].tobytes().decode()


@pytest.mark.parametrize(
    "name", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Africa/Casablanca", "Asia/Gaza"]
)
def test_abbreviations_equal_the_standard_librarys(name: str) -> None:
    zone, library = load_timezone(name), zoneinfo.ZoneInfo(name)
    r = random.Random(name)
    usec = [int(at) + d for at in zone.at for d in (-1, 0) if -6 * 10**16 < at < 2 * 10**17]
    usec += [r.randrange(-6 * 10**16, 25 * 10**16) for _ in range(500)]
    for value in usec:
        moment = (EPOCH + datetime.timedelta(microseconds=value)).astimezone(library)
        assert moment.tzname() == label_at(zone, value), moment


@pytest.mark.parametrize(
    ("value", "winter", "summer"),
    [
        ("UTC", "UTC", "UTC"),
        ("gmt", "GMT", "GMT"),
        ("5", "+05", "+05"),
        ("-8.25", "-08:15", "-08:15"),
        ("-0.0001", "+00", "+00"),
        ("0.0003", "+00:00:01", "+00:00:01"),
        ("<+0530>-05:30", "+0530", "+0530"),
        ("foo+3", "FOO", "FOO"),
        ("+100:00", "", ""),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "CET", "CEST"),
        ("<A b>5<long and>4", "A B", "LONG AND"),
        ("XXX3EDT4,0/0,J365/23", "EDT", "EDT"),
        ("Pacific/Guam", "ChST", "ChST"),
    ],
)
def test_abbreviations(value: str, winter: str, summer: str) -> None:
    zone = load_timezone(value)
    assert [winter, summer] == [label_at(zone, day * 86_400 * 10**6) for day in (9_150, 9_300)]


CONVENTIONS = {
    "frac_digits": 2,
    "mon_grouping": [3, 3, 0],
    "mon_decimal_point": ",",
    "mon_thousands_sep": "\u202f",
    "currency_symbol": "€",
    "positive_sign": "",
    "negative_sign": "-",
}
PLACES = list(itertools.product(range(5), range(2), range(3)))


def amount(value: int, format: MoneyFormat) -> str:
    at = np.cumsum([0] + [len(piece) for piece in format.pieces], dtype=np.int64)
    pieces: Bytes = np.frombuffer(b"".join(format.pieces), np.uint8)
    source = np.frombuffer(struct.pack("<q", value), np.uint8)
    out = np.zeros(200, np.uint8)
    assert MONEY_PIECES == len(format.pieces)
    end = write_money(at, pieces, format.decimals, format.group, source, 0, 8, out, 0)
    return out[:end].tobytes().decode()


@pytest.mark.interpreted
@given(
    st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-2000, 2000)),
    st.sampled_from(PLACES),
    st.integers(0, 10),
    st.integers(1, 6),
    st.sampled_from(["", "+"]),
)
def test_amounts(value: int, places: tuple[int, int, int], decimals: int, group: int, plus: str) -> None:
    names = ("sign_posn", "cs_precedes", "sep_by_space")
    where = {f"{which}_{name}": place for which in "pn" for name, place in zip(names, places, strict=True)}
    conventions = {**CONVENTIONS, **where, "frac_digits": decimals, "mon_grouping": [group], "positive_sign": plus}
    assert money_text(value, conventions) == amount(value, format_of(conventions, str.encode))


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("value", "text"), [(0, "$0.00"), (-7, "-$0.07"), (123456789, "$1,234,567.89"), (-100000, "-$1,000.00")]
)
def test_amounts_in_locale_c(value: int, text: str) -> None:
    assert text == text_of("money", struct.pack("<q", value))
    assert CORRUPT == text_of("money", struct.pack("<i", 0))


def test_what_a_locale_leaves_open() -> None:
    odd = {"frac_digits": 11, "mon_grouping": [7], "mon_decimal_point": "::", "mon_thousands_sep": ""}
    assert money_format("C", "UTF8") == format_of(odd, str.encode)
    assert b"." == format_of({**odd, "mon_decimal_point": ","}, str.encode).pieces[-1]


def test_the_machines_own_locale() -> None:
    assert amount(-123456, money_format("C", "UTF8")) == amount(-123456, money_format("C.UTF-8", "UTF8"))


@pytest.mark.parametrize("name", ["xx_XX.UTF-8", "", "../C", "a\0b"])
def test_a_locale_that_the_machine_does_not_have(name: str) -> None:
    session = SessionSettings(lc_monetary=name)
    with pytest.raises(UsageError) as caught:
        text_of("money", bytes(8), session)
    for piece in (f'"{name}"', "lc_monetary", "locale -a", "--set lc_monetary=C"):
        assert piece in caught.value.one_line()
    assert "7" == text_of("int4", struct.pack("<i", 7), session)
