# ruff: noqa: SIM300 - asserts read "expected == actual"
"""The promises of every send kernel: nothing is written past the buffer, nothing read outside the payload, no crash."""

from __future__ import annotations

import random
import struct
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.catalog.relation import Column, TypeInfo
from headwater.rows import _send_codes as sent
from headwater.rows import _text_codes as codes
from headwater.rows.send._send import type_send
from headwater.rows.session import SessionSettings
from headwater.rows.text_tables import (
    MAX_NESTING,
    TextTables,
    build_text_tables,
    unsendable,
    without_send_function,
)
from headwater.rows.type_forms import has_send_function
from unit.rows.plain_text import array_type, built_in, domain, enum_type, numeric, text_of
from unit.rows.sent_types import TYPES, with_send
from unit.rows.stored_values import STORED, StoredValue

pytestmark = pytest.mark.interpreted

# A type of a user's without a send function, one whose send function nobody knows, and one whose function is known.
PLAIN = TypeInfo(17_000, "plain", "public", "plain", "b", -1, "i", False, output="textout")
STRANGE = TypeInfo(17_001, "strange", "public", "strange", "b", -1, "i", False, output="textout", send="postgis:send")
OWN = TypeInfo(17_002, "own", "public", "own", "b", 4, "i", True, output="int4out", send="int4send")
UTC = SessionSettings()


IDS = [f"{type.name}-{number}" for number, (type, _) in enumerate(TYPES)]


def run(tables: TextTables, payload: bytes, out: np.ndarray, *, at: int = 0, pad: bytes = b"", column: int = 0) -> int:
    """Return the kernel's answer for a payload that lies between two pads."""
    source = np.frombuffer(pad + payload + pad, dtype=np.uint8).copy()
    return int(type_send(tables, column, source, len(pad), len(payload), out, at))


def form_of(type: TypeInfo, payload: bytes) -> bytes | int:
    """Return the kernel's bytes, or its status."""
    out = np.zeros(100_000, dtype=np.uint8)
    end = run(build_text_tables([type], UTC, binary=True), payload, out)
    return out[:end].tobytes() if end >= 0 else end


def composite(*columns: TypeInfo | None) -> TypeInfo:
    attributes = tuple(
        Column(n, f"a{n}", type, -1, type.typlen if type else 4, type.typalign if type else "i", type is None)
        for n, type in enumerate(columns, 1)
    )
    return TypeInfo(17_100, "pair", "public", "pair", "c", -1, "d", False, attributes=attributes)


def record(body: bytes, count: int, nulls: bytes = b"") -> bytes:
    """Make a composite's payload: a tuple's header, its NULL bitmap, and the values."""
    hoff = 23 + len(nulls) + 7 & ~7
    head = struct.pack("<iI6xHHB", -1, 17_100, count, 1 if nulls else 0, hoff)
    return (head + nulls).ljust(hoff - 4, b"\0") + body


@pytest.mark.parametrize(("type", "payload"), TYPES, ids=IDS)
def test_a_short_buffer_is_never_overrun(type: TypeInfo, payload: bytes) -> None:
    tables = build_text_tables([type], UTC, binary=True)
    whole = form_of(type, payload)
    assert isinstance(whole, bytes)
    fits = False
    for size in range(700):
        memory = np.full(size + 64, 0xEE, dtype=np.uint8)
        at = size % 7
        end = run(tables, payload, memory[:size], at=at)
        assert np.all(memory[size:] == 0xEE)
        assert np.all(memory[: min(at, size)] == 0xEE)
        if end != codes.NEED_SPACE:
            fits = True
            assert whole == memory[at:end].tobytes()
    assert fits


@pytest.mark.parametrize(("type", "payload"), TYPES, ids=IDS)
def test_broken_payloads_never_escape(type: TypeInfo, payload: bytes) -> None:
    """Cut or mutated bytes give a form or a status, which does not depend on what lies around the payload."""
    r = random.Random(str(type.oid))
    tables = build_text_tables([type], UTC, binary=True)
    variants = [payload[:n] for n in range(len(payload))]
    for _ in range(400):
        mutated = bytearray(payload)
        for _ in range(r.choice([1, 1, 2, 4])):
            mutated[r.randrange(len(mutated))] = r.choice([0, 1, 0x7F, 0x80, 0xFF, r.randrange(256)])
        variants.append(bytes(mutated)[: r.choice([len(mutated), r.randrange(len(mutated) + 1)])])
    for variant in variants:
        out = np.zeros((2, 20_000), dtype=np.uint8)
        zeros = run(tables, variant, out[0], pad=bytes(64))
        ones = run(tables, variant, out[1], pad=b"\xff" * 64)
        assert zeros == ones
        assert zeros < 0 or out[0, :zeros].tobytes() == out[1, :ones].tobytes()


@given(st.binary(max_size=80), st.sampled_from(range(len(TYPES))))
def test_noise(noise: bytes, number: int) -> None:
    tables = build_text_tables([TYPES[number][0]], UTC, binary=True)
    assert run(tables, noise, np.zeros(200_000, dtype=np.uint8)) >= sent.NO_SEND_FUNCTION


@pytest.mark.parametrize(("start", "length"), [(-1, 4), (0, -1), (0, 5), (1 << 40, 4), (3, 2)])
def test_a_payload_outside_the_data_is_corrupt(start: int, length: int) -> None:
    tables = build_text_tables([built_in("text")], UTC, binary=True)
    assert codes.CORRUPT == type_send(tables, 0, np.zeros(4, np.uint8), start, length, np.zeros(99, np.uint8), 0)


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.floats(width=64), st.integers(-(1 << 31), (1 << 31) - 1))
def test_numbers_are_turned_round(number: int, real: float, small: int) -> None:
    assert struct.pack(">q", number) == form_of(built_in("int8"), struct.pack("<q", number))
    assert struct.pack(">q", number) == form_of(built_in("timestamptz"), struct.pack("<q", number))
    assert struct.pack(">d", real) == form_of(built_in("float8"), struct.pack("<d", real))
    assert struct.pack(">i", small) == form_of(built_in("date"), struct.pack("<i", small))
    stored = struct.pack("<qii", number, small, -7)
    assert struct.pack(">qii", number, small, -7) == form_of(built_in("interval"), stored)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6), st.booleans())
@example(Decimal("10559482210944945483620934785.000001"), False)
def test_numerics(value: Decimal, long_header: bool) -> None:
    form = form_of(built_in("numeric"), numeric(value, long_header=long_header))
    assert isinstance(form, bytes)
    count, weight, sign, scale, *digits = struct.unpack(f">HhHH{len(form) // 2 - 4}H", form)
    assert (count, scale) == (len(digits), 6)
    assert sign == (0x4000 if value < 0 else 0)
    with localcontext(prec=100):
        absolute = sum(Decimal(digit).scaleb(4 * (weight - place)) for place, digit in enumerate(digits))
        assert abs(value) == absolute


@pytest.mark.parametrize(("header", "sign"), [(0xC000, 0xC000), (0xD000, 0xD000), (0xF000, 0xF000)])
def test_numerics_that_are_no_numbers(header: int, sign: int) -> None:
    scale = 0 if header == 0xC000 else 32
    assert struct.pack(">HHHH", 0, 0, sign, scale) == form_of(built_in("numeric"), struct.pack("<H", header))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vector", "0003 0000 3f800000 40200000 8e736390"),
        ("halfvec", "0004 0000 3c00 7bff 0001 b554"),
        ("sparsevec", "00000005 00000002 00000000 00000000 00000002 3fc00000 c0000000"),
    ],
)
def test_vectors(name: str, expected: str) -> None:
    """Stored values of pgvector have the form that its source tells."""
    stored = next(value for value in STORED if value.type.name == name)
    assert bytes.fromhex(expected) == form_of(with_send(stored.type), stored.payload)


@pytest.mark.parametrize("stored", [value for value in STORED if value.type.name.startswith("geo")])
def test_postgis_sends_the_bytes_whose_digits_it_prints(stored: StoredValue) -> None:
    assert bytes.fromhex(stored.text) == form_of(with_send(stored.type), stored.payload)


def test_a_composite_names_the_types_of_its_attributes_as_declared() -> None:
    type = composite(domain(built_in("int4")), None, OWN, PLAIN)
    payload = record(struct.pack("<iii", 1, 2, 3), 4, b"\7")
    expected = struct.pack(">IIiiIiiIi", 3, 80_000, 4, 1, OWN.oid, 4, 3, PLAIN.oid, -1)
    assert expected == form_of(type, payload)


def test_a_value_inside_that_has_no_send_function() -> None:
    """As on the server a composite asks for it when it meets a value, the others at once."""
    plain = b"\7ab"
    empty = struct.pack("<iiI", 0, 0, PLAIN.oid)
    ranges = [TypeInfo(17_200, "r", "public", "r", kind, -1, "i", False, subtype=PLAIN) for kind in "rm"]
    none = sent.NO_SEND_FUNCTION
    assert none == form_of(composite(PLAIN), record(plain, 1))
    assert struct.pack(">IIi", 1, PLAIN.oid, -1) == form_of(composite(PLAIN), record(b"", 1, b"\0"))
    assert none == form_of(array_type(PLAIN), empty)
    assert none == form_of(ranges[0], struct.pack("<IB", 17_200, 1))
    assert bytes(4) == form_of(ranges[1], struct.pack("<II", 17_200, 0))
    assert "plain" == without_send_function(array_type(composite(built_in("int4"), domain(PLAIN))))
    assert without_send_function(array_type(OWN)) is None


def test_which_form_a_column_has() -> None:
    mood = enum_type(16_600, [(7, "seven")])
    types = [built_in("int4"), PLAIN, domain(PLAIN), OWN, STRANGE, array_type(STRANGE), None, mood, built_in("xid8")]
    text, enum = codes.CODE_VERBATIM, sent.SEND_TEXT | codes.CODE_ENUM
    for way, unknown in (("error", codes.CODE_UNKNOWN), ("hex", codes.CODE_HEX)):
        tables = build_text_tables(types, SessionSettings(unknown_types=way), binary=True)
        forms = [sent.SEND_INT4, text, text, sent.SEND_INT4, unknown, unknown, codes.CODE_NONE, enum, sent.SEND_INT8]
        assert forms == tables.code[: len(types)].tolist()
    assert [True, False, True] == [has_send_function(type) for type in (OWN, PLAIN, STRANGE)]


def test_why_a_type_cannot_be_sent() -> None:
    reason = "values of type strange[] cannot be sent in binary form: they hold strange"
    assert reason == unsendable(array_type(STRANGE))
    assert unsendable(OWN) is None
    nowhere = TypeInfo(17_003, "nowhere", "public", "nowhere", "b", -1, "i", False)
    assert "values of type nowhere cannot be printed" == unsendable(nowhere)
    deep = built_in("int4")
    for _ in range(MAX_NESTING + 1):
        deep = domain(array_type(deep))
    assert "more than 32 types" in str(unsendable(deep))


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (b"<a/>", b'<?xml version="1.0" encoding="LATIN1"?><a/>'),
        (b"<?xml version='1.0'?>\n<a/>", b'<?xml version="1.0" encoding="LATIN1"?>\n<a/>'),
        (
            b"<?xml version='1.1' encoding='UTF-8' standalone='no'?>x",
            b'<?xml version="1.1" encoding="LATIN1" standalone="no"?>x',
        ),
    ],
)
def test_xml_tells_its_encoding(stored: bytes, expected: bytes) -> None:
    """As a server sends it to a client of LATIN1; to others of UTF-8 and SQL_ASCII it is the text."""
    xml, out = TypeInfo(142, "xml", "pg_catalog", "xml", "b", -1, "i", False), np.zeros(99, dtype=np.uint8)
    end = run(build_text_tables([xml], SessionSettings(client_encoding="LATIN1"), binary=True), stored, out)
    assert expected == out[:end].tobytes()
    texts = {form_of(xml, stored)}
    for encoding, binary in (("SQL_ASCII", True), ("LATIN1", False)):
        tables = build_text_tables([xml], SessionSettings(client_encoding=encoding), binary=binary)
        assert 0 == len(tables.encoding)
        text = text_of(xml, stored)
        assert isinstance(text, str)
        texts.add(text.encode())
    assert 1 == len(texts)
