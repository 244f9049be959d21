"""Payload arithmetic against a walk over pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.wal.records._position import lsn_to_payload, payload_to_end_lsn, payload_to_lsn

PAGE = 8192
MIB = 1 << 20


def header_size(page: int, segment_size: int) -> int:
    return 40 if page % segment_size == 0 else 24


def walk(segment_size: int, pages: int) -> dict[int, int]:
    """Compute the LSN of every 8th payload byte of the first pages, by counting."""
    lsns = {}
    payload = 0
    for page in range(0, pages * PAGE, PAGE):
        for offset in range(header_size(page, segment_size), PAGE, 8):
            lsns[payload] = page + offset
            payload += 8
    return lsns


def test_payload_positions_count_every_byte_that_is_no_header() -> None:
    for payload, lsn in walk(MIB, 300).items():
        assert lsn == payload_to_lsn(payload, MIB)
        assert payload == lsn_to_payload(lsn, MIB)


def test_an_end_at_a_pages_end_stays_before_the_next_header() -> None:
    for payload, lsn in walk(MIB, 300).items():
        at_start = lsn % PAGE == header_size(lsn - lsn % PAGE, MIB)
        assert (lsn - lsn % PAGE if at_start else lsn) == payload_to_end_lsn(payload, MIB)


@pytest.mark.parametrize("segment_size", [MIB, 16 * MIB, 1 << 30])
@given(st.integers(0, 1 << 45))
def test_positions_round_trip_anywhere(segment_size: int, payload: int) -> None:
    lsn = payload_to_lsn(payload, segment_size)
    assert payload == lsn_to_payload(lsn, segment_size)
    assert lsn % PAGE >= header_size(lsn - lsn % PAGE, segment_size)
    assert payload == lsn_to_payload(payload_to_end_lsn(payload, segment_size), segment_size)


def test_a_pages_boundary_and_its_first_byte_are_one_position() -> None:
    assert lsn_to_payload(5 * MIB, MIB) == lsn_to_payload(5 * MIB + 40, MIB)
    assert lsn_to_payload(5 * MIB + PAGE, MIB) == lsn_to_payload(5 * MIB + PAGE + 24, MIB)
