# ruff: noqa: SIM300 - asserts read "expected == actual"
"""Whole numbers, numeric and floats against their plain twins."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.rows._text_codes import CORRUPT
from unit.rows.plain_text import numeric, numeric_text, shortest_float, text_of

pytestmark = pytest.mark.interpreted

INTEGERS = [("int2", "<h", 16), ("int4", "<i", 32), ("int8", "<q", 64)]
DECIMALS = st.builds(
    lambda sign, digits, exponent: Decimal((sign, tuple(digits), exponent)),
    st.integers(0, 1),
    st.lists(st.integers(0, 9), min_size=1, max_size=80),
    st.integers(-90, 90),
)


@pytest.mark.parametrize(("name", "form", "bits"), INTEGERS)
@given(data=st.data())
def test_integers(name: str, form: str, bits: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(-(1 << bits - 1), (1 << bits - 1) - 1))
    assert str(value) == text_of(name, struct.pack(form, value))


@pytest.mark.parametrize(("name", "form", "bits"), INTEGERS)
def test_integers_at_every_length(name: str, form: str, bits: int) -> None:
    top = 1 << bits - 1
    values = {sign * (10**i + d) for i in range(20) for d in (-1, 0, 1) for sign in (1, -1)} | {-top, top - 1}
    for value in sorted(value for value in values if -top <= value < top):
        assert str(value) == text_of(name, struct.pack(form, value))


@given(st.integers(0, (1 << 64) - 1))
def test_unsigned(value: int) -> None:
    assert str(value) == text_of("xid8", struct.pack("<Q", value))
    assert str(value >> 32) == text_of("oid", struct.pack("<I", value >> 32))


@pytest.mark.parametrize(("value", "text"), [(0, "f"), (1, "t")])
def test_bool(value: int, text: str) -> None:
    assert text == text_of("bool", bytes([value]))


@given(DECIMALS, st.booleans())
def test_numeric(value: Decimal, long_header: bool) -> None:
    assert numeric_text(value) == text_of("numeric", numeric(value, long_header=long_header))


@pytest.mark.parametrize("text", ["1e-16383", "1e5000", "0." + "0" * 300, "-9999", "10000.00001", "0.0001", "1000000"])
def test_numeric_extremes(text: str) -> None:
    value = Decimal(text)
    assert numeric_text(value) == text_of("numeric", numeric(value))


@pytest.mark.parametrize(("header", "text"), [(0xC000, "NaN"), (0xD000, "Infinity"), (0xF000, "-Infinity")])
def test_numeric_specials(header: int, text: str) -> None:
    assert text == text_of("numeric", struct.pack("<H", header))


@pytest.mark.parametrize("payload", ["", "00", "0000", "008012", "00e0", "008010 27", "0080ffff"])
def test_numeric_broken(payload: str) -> None:
    assert CORRUPT == text_of("numeric", bytes.fromhex(payload))


@settings(max_examples=400)
@given(st.floats(width=64))
def test_float8(value: float) -> None:
    assert shortest_float(value, 64) == text_of("float8", struct.pack("<d", value))


@settings(max_examples=400)
@given(st.floats(width=32))
def test_float4(value: float) -> None:
    assert shortest_float(value, 32) == text_of("float4", struct.pack("<f", value))


@given(st.integers(0, (1 << 64) - 1))
def test_float8_bits(raw: int) -> None:
    """Uniform bit patterns reach every exponent; the text always reads back as the same bits."""
    payload = struct.pack("<Q", raw)
    value = struct.unpack("<d", payload)[0]
    text = text_of("float8", payload)
    assert shortest_float(value, 64) == text
    assert math.isnan(value) or struct.pack("<d", float(str(text))) == payload


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (1e23, "9.999999999999999e+22"),
        (999999999999999.0, "999999999999999"),
        (1e15, "1e+15"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (9007199254740993.0, "9.007199254740992e+15"),
        (-0.0, "-0"),
        (123456.75, "123456.75"),
    ],
)
def test_float8_known(value: float, text: str) -> None:
    assert text == text_of("float8", struct.pack("<d", value))


def test_float_powers_of_two() -> None:
    """Below a power of two the next float is at half the distance: the interval is lopsided."""
    for exponent in range(-1074, 1024, 7):
        value = 2.0**exponent
        assert shortest_float(value, 64) == text_of("float8", struct.pack("<d", value))
    for exponent in range(-149, 128, 5):
        value = 2.0**exponent
        assert shortest_float(value, 32) == text_of("float4", struct.pack("<f", value))
