"""Values as debezium writes them, beside Python's own arithmetic."""

from __future__ import annotations

import base64
import json
import struct
from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.plugins._json import NO_ROOM
from headwater.plugins.debezium import _values as v
from headwater.plugins.debezium._numbers import NO_VALUE, UNTELLABLE
from headwater.plugins.debezium._times import AS_ISO, AS_MICROS, AS_MILLIS, AS_NANOS
from headwater.rows.text._float import write_float8

pytestmark = pytest.mark.interpreted

STRINGS = v.array_style(v.STRING, False, ord(","))


def written(style: int, text: str, parameter: int = 0, room: int = 100_000) -> bytes | int:
    """Write a value, or return the status."""
    src, out = np.frombuffer(bytearray(text.encode() or b"\0"), np.uint8), np.zeros(room, np.uint8)
    length = len(text.encode())
    end = int(v.put_value(np.int64(style), np.int64(parameter), src, np.int64(0), np.int64(length), out, np.int64(0)))
    return out[:end].tobytes() if end >= 0 else end


def value(style: int, text: str, parameter: int = 0) -> object:
    json_text = written(style, text, parameter)
    assert isinstance(json_text, bytes)
    return json.loads(json_text)


def printed(number: int, scale: int) -> str:
    """Print a numeric of so many digits after the point."""
    digits = str(abs(number)).rjust(scale + 1, "0")
    point = len(digits) - scale
    return ("-" if number < 0 else "") + digits[:point] + ("." + digits[point:] if scale else "")


def unscaled(encoded: object) -> int:
    assert isinstance(encoded, str)
    return int.from_bytes(base64.b64decode(encoded), "big", signed=True)


@given(st.integers(-(10**60), 10**60), st.integers(0, 20))
def test_decimals_are_unscaled_twos_complements(number: int, scale: int) -> None:
    decimal = value(v.DECIMAL, printed(number, scale), scale)
    assert unscaled(decimal) == number
    assert len(base64.b64decode(str(decimal))) == (number if number >= 0 else ~number).bit_length() // 8 + 1


@given(st.integers(-(10**60), 10**60), st.integers(0, 20))
def test_a_variable_scale_is_the_shortest(number: int, scale: int) -> None:
    decimal = value(v.VARIABLE_DECIMAL, printed(number, scale))
    assert isinstance(decimal, dict)
    assert unscaled(decimal["value"]) * 10 ** (scale - decimal["scale"]) == number
    assert decimal["scale"] == 0 or unscaled(decimal["value"]) % 10


@given(st.dates())
def test_dates(day: date) -> None:
    assert value(v.DATE, day.isoformat(), AS_MICROS) == (day - date(1970, 1, 1)).days
    assert value(v.DATE, day.isoformat(), AS_ISO) == f"{day.isoformat()}Z"


@given(st.datetimes())
def test_moments(moment: object) -> None:
    text = str(moment)
    micros = (np.datetime64(text.replace(" ", "T"), "us") - np.datetime64(0, "us")).astype(int)
    assert value(v.TIMESTAMP, text, AS_MICROS) == micros
    assert value(v.TIMESTAMP, text, AS_MILLIS) == micros // 1000
    if abs(micros) < 2**63 // 1000:
        assert value(v.TIMESTAMP, text, AS_NANOS) == micros * 1000
    else:
        assert written(v.TIMESTAMP, text, AS_NANOS) == NO_VALUE


@given(st.integers(-(10**6), 10**6), st.integers(0, 59))
def test_moments_with_a_zone_are_told_as_of_utc(hours: int, minutes: int) -> None:
    days, hour = divmod(hours, 24)
    day = (date(2000, 1, 1) + timedelta(days)).isoformat()
    assert value(v.TIMESTAMPTZ, f"{day} {hour:02}:{minutes:02}:00+00", 3) == f"{day}T{hour:02}:{minutes:02}:00.000Z"


@given(st.binary())
def test_bytes(raw: bytes) -> None:
    text = f"\\x{raw.hex()}"
    assert value(v.BYTES, text) == base64.b64encode(raw).decode()
    assert value(v.BYTES, text, 1) == base64.urlsafe_b64encode(raw).decode()
    assert value(v.HEX_BYTES, text) == raw.hex()


@given(st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="\0")), st.none() | st.text('ab"\\,=>')))
def test_hstore(pairs: dict[str, str | None]) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text = ", ".join(
        f"{quoted(key)}=>{'NULL' if content is None else quoted(content)}" for key, content in pairs.items()
    )
    assert value(v.HSTORE_MAP, text) == pairs
    assert json.loads(str(value(v.HSTORE_JSON, text))) == pairs


@given(st.lists(st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
def test_arrays(elements: list[str | None]) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text = "{" + ",".join("NULL" if element is None else quoted(element) for element in elements) + "}"
    assert value(STRINGS, text) == elements


@pytest.mark.parametrize(
    ("style", "text", "parameter", "expected"),
    [
        (v.TIMESTAMP, "294276-12-31 00:00:00", AS_MICROS, UNTELLABLE),
        (v.TIMESTAMP, "infinity", AS_MICROS, b"9223372036825200000"),
        (v.TIMESTAMP, "-infinity", AS_ISO, b'"-290308-12-21T19:59:27.6Z"'),
        (v.TIMESTAMPTZ, "-infinity", 6, b'"-infinity"'),
        (v.DATE, "0044-03-15 BC", AS_ISO, b'"-0043-03-15Z"'),
        (v.TIMETZ, "23:59:59.1-15:59", 0, b'"15:58:59.1Z"'),
        (v.TIMETZ, "23:59:59.1-15:59:59", 0, UNTELLABLE),
        (v.TIME, "24:00:00", AS_ISO, b'"00:00:00Z"'),
        (v.INTERVAL, "1 year 2 mons 3 days 04:05:06.789", AS_ISO, b'"P1Y2M3DT4H5M6.789S"'),
        (v.INTERVAL, "-145:36:06.472", AS_ISO, b'"P0Y0M0DT-145H-36M-6.471999999S"'),
        (v.INTERVAL, "infinity", 0, UNTELLABLE),
        (v.INTERVAL, "178000000 years", 0, b"9223372036854775807"),
        (v.MONEY, "-$1,234.56", 2, b'"/h3A"'),
        (v.TEXT_MONEY, "1.234,56 X", 2, UNTELLABLE),
        (v.DECIMAL, "NaN", 2, NO_VALUE),
        (v.TEXT_DECIMAL, "-Infinity", -1, b'"NEGATIVE_INFINITY"'),
        (v.DOUBLE_DECIMAL, "9" * 400, 0, b'"Infinity"'),
        (v.FLOAT, "1e+22", 0, b"1e+22"),
        (v.FLOAT, "NaN", 0, b'"NaN"'),
        (v.BITS, "10000000001", 0, b'"AQQ="'),
        (STRINGS, "{{a},{b}}", 0, UNTELLABLE),
        (v.array_style(v.AS_IS, False, ord(",")), "{{1},{2}}", 0, b"[null,null]"),
        (v.array_style(v.STRING, True, ord(",")), "{a,NULL}", 0, NO_VALUE),
        (v.array_style(v.STRING, False, ord(":")), "{a,b:NULL}", 0, b'["a,b",null]'),
    ],
)
def test_what_may_surprise(style: int, text: str, parameter: int, expected: bytes | int) -> None:
    assert written(style, text, parameter) == expected


@pytest.mark.parametrize("style", [v.STRING, v.DECIMAL, v.BITS, v.INTERVAL, v.HSTORE_JSON, STRINGS])
def test_no_room(style: int) -> None:
    assert written(style, "{1}", 0, room=8) == NO_ROOM


def shortest(number: float) -> str:
    """Print a double as the server does."""
    out = np.zeros(64, np.uint8)
    src = np.frombuffer(bytearray(struct.pack("<d", number)), np.uint8)
    return out[: int(write_float8(src, np.int64(0), np.int64(8), np.int64(0), out, np.int64(0)))].tobytes().decode()


ANY = st.floats(allow_nan=False, allow_infinity=False)


@given(ANY, ANY)
@example(5e-324, -0.0)
@example(1.7976931348623157e308, 2.2250738585072014e-308)
@example(2.225073858507201e-308, 123456789012345.67)
@example(1e22, 9007199254740993.0)
def test_points_have_their_bytes(x: float, y: float) -> None:
    point = value(v.COORDINATES, f"({shortest(x)},{shortest(y)})")
    assert isinstance(point, dict)
    assert list(point) == ["x", "y", "wkb", "srid"]
    assert base64.b64decode(point["wkb"]) == struct.pack("<bIdd", 1, 1, x, y)
    assert (point["x"], point["y"], point["srid"]) == (x, y, None)


@pytest.mark.parametrize(
    ("style", "text", "expected"),
    [
        (
            v.COORDINATES,
            "(NaN,-Infinity)",
            {"x": "NaN", "y": "-Infinity", "wkb": "AQEAAAAAAAAAAAD4fwAAAAAAAPD/", "srid": None},
        ),
        (
            v.GEOMETRY,
            "0101000020E6100000000000000000F03F0000000000000040",
            {"wkb": "AQEAACDmEAAAAAAAAAAA8D8AAAAAAAAAQA==", "srid": 4326},
        ),
        (
            v.GEOMETRY,
            "0101000000000000000000F03F0000000000000040",
            {"wkb": "AQEAAAAAAAAAAADwPwAAAAAAAABA", "srid": None},
        ),
        (
            v.GEOMETRY,
            "00200000010000005A3FF00000000000004000000000000000",
            {"wkb": "ACAAAAEAAABaP/AAAAAAAABAAAAAAAAAAA==", "srid": 90},
        ),
        (v.VECTOR, "[1,2,3.5]", [1.0, 2.0, 3.5]),
        (v.VECTOR, "[1e-05]", [1e-05]),
        (v.SPARSE_VECTOR, "{1:1.5,3:2}/5", {"dimensions": 5, "vector": [[1, 1.5], [3, 2.0]]}),
        (v.SPARSE_VECTOR, "{}/32767", {"dimensions": 32767, "vector": []}),
    ],
)
def test_places_and_vectors(style: int, text: str, expected: object) -> None:
    assert value(style, text) == expected


@pytest.mark.parametrize(
    ("style", "text"), [(v.GEOMETRY, "0101"), (v.SPARSE_VECTOR, "{}/32768"), (v.COORDINATES, "(1)")]
)
def test_what_the_connector_stops_at(style: int, text: str) -> None:
    assert written(style, text) == UNTELLABLE
