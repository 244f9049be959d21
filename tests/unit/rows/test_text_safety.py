# ruff: noqa: SIM300 - asserts read "expected == actual"
"""The promises of every text kernel: nothing is written past the buffer, nothing read outside the payload, no crash."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.catalog.relation import TypeInfo
from headwater.errors import UnsupportedTypeError
from headwater.rows._text_codes import (
    CODE_ARRAY,
    CODE_ENUM,
    CODE_HEX,
    CODE_INT4,
    CODE_INT8,
    CODE_NONE,
    CODE_UNKNOWN,
    CORRUPT,
    NEED_SPACE,
)
from headwater.rows.session import SessionSettings
from headwater.rows.text_tables import MAX_NESTING, build_text_tables, text_code
from unit.rows.plain_text import (
    array_type,
    built_in,
    enum_type,
    nested_type,
    run,
    text_of,
)
from unit.rows.stored_values import STORED, StoredValue
from unit.rows.value_samples import SAMPLES

pytestmark = pytest.mark.interpreted
ESCAPED = SessionSettings(bytea_output="escape", timezone="Asia/Kolkata")
STYLES = [
    SessionSettings(datestyle=dates, intervalstyle=intervals, extra_float_digits=digits, timezone="Asia/Kolkata")
    for dates, intervals, digits in (
        ("Postgres, DMY", "postgres_verbose", 0),
        ("SQL", "sql_standard", -4),
        ("German", "iso_8601", -15),
    )
]
STYLED_TYPES = {"date", "timestamp", "timestamptz", "interval", "float4", "float8", "point", "circle", "path"}
USUAL = [(*sample, session) for sample in SAMPLES for session in (SessionSettings(timezone="Europe/Berlin"), ESCAPED)]
STYLED = [(*sample, session) for sample in SAMPLES for session in STYLES if sample[0].name in STYLED_TYPES]


@pytest.mark.parametrize(("type", "payload", "session"), USUAL + STYLED)
def test_a_short_buffer_is_never_overrun(type: TypeInfo, payload: bytes, session: SessionSettings) -> None:
    tables = build_text_tables([type], session)
    whole = text_of(type, payload, session)
    assert isinstance(whole, str)
    fits = False
    for size in range(600):
        memory = np.full(size + 64, 0xEE, dtype=np.uint8)
        at = size % 7
        end = run(tables, 0, payload, memory[:size], at=at)
        assert np.all(memory[size:] == 0xEE)
        assert np.all(memory[: min(at, size)] == 0xEE)
        if end != NEED_SPACE:
            fits = True
            assert whole.encode() == memory[at:end].tobytes()
    assert fits


@pytest.mark.parametrize(("type", "payload", "session"), USUAL[::2] + STYLED)
def test_broken_payloads_never_escape(type: TypeInfo, payload: bytes, session: SessionSettings) -> None:
    """Cut or mutated bytes give a text or a status, which does not depend on what lies around the payload."""
    r = random.Random(str(type.oid))
    tables = build_text_tables([type], session)
    variants = [payload[:n] for n in range(len(payload))]
    for _ in range(400):
        mutated = bytearray(payload)
        for _ in range(r.choice([1, 1, 2, 4])):
            mutated[r.randrange(len(mutated))] = r.choice([0, 1, 0x7F, 0x80, 0xFF, r.randrange(256)])
        variants.append(bytes(mutated)[: r.choice([len(mutated), r.randrange(len(mutated) + 1)])])
    for variant in variants:
        out = np.zeros((2, 20_000), dtype=np.uint8)
        zeros = run(tables, 0, variant, out[0], pad=bytes(64))
        ones = run(tables, 0, variant, out[1], pad=b"\xff" * 64)
        assert zeros == ones
        assert zeros < 0 or out[0, :zeros].tobytes() == out[1, :ones].tobytes()


@pytest.mark.parametrize("stored", STORED, ids=[stored.type.name for stored in STORED])
def test_what_a_server_has_stored_and_printed(stored: StoredValue) -> None:
    assert stored.text == text_of(stored.type, stored.payload)


@given(st.binary(max_size=80), st.sampled_from(range(len(SAMPLES))))
def test_noise(noise: bytes, number: int) -> None:
    tables = build_text_tables([SAMPLES[number][0]], SessionSettings())
    assert run(tables, 0, noise, np.zeros(200_000, dtype=np.uint8)) >= -3


@pytest.mark.parametrize(("start", "length"), [(-1, 4), (0, -1), (0, 5), (1 << 40, 4), (3, 2)])
def test_a_payload_outside_the_data_is_corrupt(start: int, length: int) -> None:
    from headwater.rows.text._text import type_text

    tables = build_text_tables([built_in("text")], SessionSettings())
    assert CORRUPT == type_text(tables, 0, np.zeros(4, np.uint8), start, length, np.zeros(99, np.uint8), 0)


@pytest.mark.parametrize("oid", [3642, 2205, 16_500])
def test_unsupported_type_is_named(oid: int) -> None:
    type = TypeInfo(oid, "strange", "shop", "shop.strange", "b", -1, "i", False)
    for wrong in (type, array_type(type)):
        with pytest.raises(UnsupportedTypeError, match=r"shop\.strange"):
            text_code(wrong)
    with pytest.raises(UnsupportedTypeError, match=r"type d\[\] cannot be printed"):
        text_code(nested_type(type, 3))
    types = [built_in("int4"), type, nested_type(type, 2), None]
    for way, code in (("error", CODE_UNKNOWN), ("null", CODE_UNKNOWN), ("hex", CODE_HEX)):
        tables = build_text_tables(types, SessionSettings(unknown_types=way))
        assert [CODE_INT4, code, code, CODE_NONE] == tables.code.tolist()


def test_arrays_nested_too_deep_are_refused() -> None:
    assert CODE_ARRAY == text_code(nested_type(built_in("int4"), MAX_NESTING))
    with pytest.raises(UnsupportedTypeError, match=r"type d\[\] cannot be printed: more than 32 types"):
        text_code(nested_type(built_in("int4"), MAX_NESTING + 1))


def test_entries_of_nested_arrays_lie_behind_all_columns() -> None:
    mood = enum_type(1, [(7, "seven")])
    columns = [nested_type(built_in("int8"), 3), built_in("int4"), None, nested_type(mood, 2), array_type(mood)]
    tables = build_text_tables(columns, SessionSettings())
    array, int4, int8, enum = CODE_ARRAY, CODE_INT4, CODE_INT8, CODE_ENUM
    assert [array, int4, CODE_NONE, array, array, array, array, enum, array, int8] == tables.code.tolist()
    assert [[5], [], [], [6], [7], [8], [7], [], [9], []] == [
        tables.child[low:high].tolist() for low, high in pairwise(tables.first_child.tolist())
    ]
    assert [0, 0, 0, 0, 0, 0, 0, 1, 0, 0] == tables.enum_hi.tolist()


def test_dropped_columns_have_no_code() -> None:
    tables = build_text_tables([None, built_in("int4")], SessionSettings())
    assert CORRUPT == run(tables, 0, b"\1\0\0\0", np.zeros(99, np.uint8))
    assert 1 == run(tables, 1, b"\1\0\0\0", np.zeros(99, np.uint8))


def test_columns_share_the_labels_of_one_enum() -> None:
    labels = [(9, "nine"), (8, "eight")]
    tables = build_text_tables([enum_type(1, labels), built_in("int4"), enum_type(1, labels)], SessionSettings())
    assert [8, 9] == list(tables.enum_oid)
    assert [(0, 2), (0, 0), (0, 2)] == list(zip(tables.enum_lo, tables.enum_hi, strict=True))


@pytest.mark.interpreted
@pytest.mark.parametrize(("major", "expected"), [(14, b"\xe9"), (15, b"\\351")])
def test_a_char_beyond_ascii_is_printed_as_it_is_by_14(major: int, expected: bytes) -> None:
    tables, out = build_text_tables([built_in("char")], SessionSettings(major=major)), np.zeros(10, np.uint8)
    assert expected == out[: run(tables, 0, b"\xe9", out)].tobytes()
