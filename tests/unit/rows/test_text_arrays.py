# ruff: noqa: SIM300 - asserts read "expected == actual"
"""Arrays, jsonb, enums and domains against their plain twins."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.catalog.relation import TypeInfo
from headwater.rows._text_codes import CORRUPT, UNKNOWN_LABEL
from unit.rows.plain_text import (
    ArrayValue,
    array,
    array_text,
    array_type,
    built_in,
    domain,
    enum_type,
    jsonb,
    jsonb_text,
    nested_type,
    numeric,
    numeric_text,
    short_varlena,
    text_of,
    timestamp_text,
    varlena,
)

pytestmark = pytest.mark.interpreted

DEEP = 10
"""Arrays inside one another; each level doubles the backslashes in the text."""

CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")
EDGES = ["", "NULL", "null", "nUll", "nulls", "a b", "{}", '"', "\\", "a,b", "a;b", "\v"]
WORDS = st.one_of(st.sampled_from(EDGES), st.text(CHARACTERS))
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3).map(abs)

ELEMENTS: dict[str, st.SearchStrategy[tuple[bytes, str]]] = {
    "int2": st.integers(-(1 << 15), (1 << 15) - 1).map(lambda v: (struct.pack("<h", v), str(v))),
    "int4": st.integers(-(1 << 31), (1 << 31) - 1).map(lambda v: (struct.pack("<i", v), str(v))),
    "int8": st.integers(-(1 << 63), (1 << 63) - 1).map(lambda v: (struct.pack("<q", v), str(v))),
    "bool": st.booleans().map(lambda v: (bytes([v]), "t" if v else "f")),
    "numeric": DECIMALS.map(lambda v: (varlena(numeric(v)), numeric_text(v))),
    "text": WORDS.map(lambda v: (varlena(v.encode()), v)),
    "timestamp": st.integers(0, 10**15).map(lambda v: (struct.pack("<q", v), timestamp_text(v))),
    "name": st.text("abc ,", max_size=9).map(lambda v: (v.encode().ljust(64, b"\0"), v)),
}


@st.composite
def arrays(
    draw: st.DrawFn, element: st.SearchStrategy[tuple[bytes, str]], longest: int = 4, dimensions: int = 3
) -> ArrayValue:
    sizes = draw(st.lists(st.integers(1, longest), max_size=dimensions))
    lows = [draw(st.integers(-3, 3)) if draw(st.booleans()) else 1 for _ in sizes]
    count = math.prod(sizes) if sizes else 0
    items = draw(st.lists(st.one_of(st.none(), element), min_size=count, max_size=count))
    stored = tuple(item[0] if item else None for item in items)
    return ArrayValue(tuple(sizes), tuple(lows), stored, tuple(item[1] if item else None for item in items))


@pytest.mark.parametrize("name", ELEMENTS)
@given(data=st.data())
def test_array(name: str, data: st.DataObject) -> None:
    value = data.draw(arrays(ELEMENTS[name]))
    element = built_in(name)
    assert array_text(value) == text_of(array_type(element), array(value, element))


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("name", ["text", "int8", "bool", "name"])
@settings(max_examples=40)
@given(data=st.data())
def test_arrays_inside_arrays(name: str, levels: int, data: st.DataObject) -> None:
    type, strategy = array_type(built_in(name)), arrays(ELEMENTS[name], 2, 2)
    for level in range(1, levels):
        inner = domain(type)
        strategy = arrays(strategy.map(partial(nested_element, element=element_of(type))), 2, 2 if level == 1 else 1)
        type = array_type(inner)
    value = data.draw(strategy)
    assert array_text(value) == text_of(type, array(value, element_of(type)))
    assert type == nested_type(built_in(name), levels)


def element_of(type: TypeInfo) -> TypeInfo:
    assert type.element is not None
    return type.element


def nested_element(value: ArrayValue, element: TypeInfo) -> tuple[bytes, str]:
    """Make an array as it is stored in another one, and its text."""
    return varlena(array(value, element)), array_text(value)


def test_arrays_inside_arrays_by_hand() -> None:
    text = built_in("text")
    words = ArrayValue((2,), (0,), (varlena(b'a"b'), None), ('a"b', None))
    empty = ArrayValue((), (), (), ())
    stored, _ = zip(*(nested_element(value, text) for value in (words, empty)), strict=True)
    lists = ArrayValue((3,), (1,), (*stored, None), ("", "", None))
    assert r'{"[0:1]={\"a\\\"b\",NULL}","{}",NULL}' == text_of(nested_type(text, 2), array(lists, domain(text)))


def test_the_deepest_array() -> None:
    payload, printed = array(ArrayValue((1,), (1,), (b"\1",), ("t",)), built_in("bool")), "{t}"
    for _ in range(DEEP - 1):
        value = ArrayValue((1,), (1,), (varlena(payload),), (printed,))
        payload, printed = array(value, domain(built_in("text"))), array_text(value)
    assert printed == text_of(nested_type(built_in("bool"), DEEP), payload)
    assert 2 ** (DEEP - 2) < len(printed)


@pytest.mark.parametrize("inner", [b"", bytes(8), struct.pack("<iiI2i", 1, 0, 25, 1, 1), struct.pack("<i8x", 7)])
def test_a_broken_array_inside_an_array(inner: bytes) -> None:
    text = built_in("text")
    value = ArrayValue((1,), (1,), (varlena(inner),), ("",))
    assert CORRUPT == text_of(nested_type(text, 2), array(value, domain(text)))


def test_array_with_another_delimiter() -> None:
    element = replace(built_in("text"), delimiter=";")
    value = ArrayValue((2,), (1,), (varlena(b"a;b"), varlena(b"a,b")), ("a;b", "a,b"))
    assert '{"a;b";a,b}' == text_of(array_type(element), array(value, element)) == array_text(value, ";")


def test_array_of_short_varlenas() -> None:
    element = built_in("text")
    value = ArrayValue((2,), (1,), (short_varlena(b"x"), short_varlena(b"yz")), ("x", "yz"))
    assert "{x,yz}" == text_of(array_type(element), array(value, element))


def test_array_with_an_empty_dimension() -> None:
    payload = struct.pack("<iiI4i", 2, 0, 23, 3, 0, 1, 1)
    assert "{}" == text_of("int4[]", payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        struct.pack("<iiI", 7, 0, 23),
        struct.pack("<iiI", -1, 0, 23),
        struct.pack("<iiI", 1, 0, 23),
        struct.pack("<iiI2i", 1, 0, 23, -1, 1),
        struct.pack("<iiI2i", 1, 0, 23, 1 << 30, 1),
        struct.pack("<iiI12i", 6, 0, 23, *[1 << 30] * 6, *[1] * 6),
        struct.pack("<iiI2i", 1, 0, 23, 1, 1),
        struct.pack("<iiI2ii", 1, 20, 23, 8, 1, 5),
        struct.pack("<iiI2ii", 1, -8, 23, 1, 1, 5),
        struct.pack("<iiI2ii", 1, 1 << 30, 23, 1, 1, 5),
    ],
)
def test_broken_array(payload: bytes) -> None:
    assert CORRUPT == text_of("int4[]", payload)


@pytest.mark.parametrize("header", [b"\x01\x12", b"\x02\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x03"])
def test_broken_elements(header: bytes) -> None:
    element = built_in("text")
    value = ArrayValue((1,), (1,), (header,), ("",))
    expected = CORRUPT if header != b"\x03" else '{""}'
    assert expected == text_of(array_type(element), array(value, element))


SCALARS = st.one_of(st.none(), st.booleans(), st.text(CHARACTERS), DECIMALS)
JSON = st.recursive(
    SCALARS,
    lambda children: st.one_of(
        st.lists(children, max_size=40), st.dictionaries(st.text(CHARACTERS, max_size=8), children, max_size=40)
    ),
    max_leaves=60,
)


@given(JSON)
def test_jsonb(value: Any) -> None:
    assert jsonb_text(value) == text_of("jsonb", jsonb(value))


def test_jsonb_escapes() -> None:
    text = "".join(map(chr, range(1, 0x100))) + "\u2028"
    assert jsonb_text(text) == text_of("jsonb", jsonb(text))


def test_deep_jsonb() -> None:
    value: Any = "core"
    for depth in range(150):
        value = [value] if depth % 2 else {"k": value}
    assert jsonb_text(value) == text_of("jsonb", jsonb(value))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0\0\0",
        struct.pack("<I", 0),
        struct.pack("<I", 0x60000000),
        struct.pack("<I", 0x4FFFFFFF),
        struct.pack("<I", 0x30000001),
        struct.pack("<III", 0x40000001, 0x80000010, 0),
        struct.pack("<II", 0x40000001, 0x10000000),
        struct.pack("<II", 0x40000001, 0x50000000),
        struct.pack("<II", 0x40000001, 0x60000000),
        struct.pack("<III", 0x20000001, 0x40000000, 0x40000000),
        struct.pack("<IIII", 0x40000001, 0xD0000008, 0x50000001, 0x40000000),
    ],
)
def test_broken_jsonb(payload: bytes) -> None:
    assert CORRUPT == text_of("jsonb", payload)


LABELS = [(16_400, "sad"), (16_390, "ok"), (4_000_000_000, "very, happy"), (16_402, "ünï")]


@pytest.mark.parametrize(("oid", "label"), LABELS)
def test_enum(oid: int, label: str) -> None:
    assert label == text_of(enum_type(1, LABELS), struct.pack("<I", oid))


def test_label_that_is_gone() -> None:
    assert UNKNOWN_LABEL == text_of(enum_type(1, LABELS), struct.pack("<I", 16_401))
    assert UNKNOWN_LABEL == text_of(enum_type(1, []), struct.pack("<I", 16_400))


def test_enum_array_and_domains() -> None:
    mood = enum_type(16_389, LABELS)
    value = ArrayValue((2,), (1,), (struct.pack("<I", 16_390), struct.pack("<I", 4_000_000_000)), ("ok", "very, happy"))
    moods = array_type(mood)
    for type in (moods, domain(moods)):
        assert '{ok,"very, happy"}' == text_of(type, array(value, mood))
    positive = replace(built_in("int4"), oid=20_001, typtype="d", base=built_in("int4"))
    assert "7" == text_of(positive, struct.pack("<i", 7))
    numbers = ArrayValue((1,), (1,), (struct.pack("<i", 7),), ("7",))
    assert "{7}" == text_of(array_type(positive), array(numbers, positive))
    nested = ArrayValue((1,), (1,), (varlena(array(value, mood)),), ("",))
    assert r'{"{ok,\"very, happy\"}"}' == text_of(nested_type(mood, 2), array(nested, domain(moods)))
