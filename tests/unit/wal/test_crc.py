"""CRC-32C: both kernels against a bit-by-bit twin."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.wal import _crc
from headwater.wal.checksum import crc32c
from unit.wal.plain_wal import crc32c as plain_crc32c
from unit.wal.plain_wal import make_record


def test_the_standard_check_value() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert plain_crc32c(b"123456789") == 0xE3069283


@given(st.binary(max_size=100))
def test_any_bytes_as_the_plain_twin(data: bytes) -> None:
    assert plain_crc32c(data) == crc32c(data)


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20), st.integers(0, 0xFFFFFFFF))
def test_tables_and_instruction_agree(words: list[int], crc: int) -> None:
    array = np.array(words, np.int64)
    expected = crc
    for byte in array.tobytes():
        expected = (expected >> 8) ^ int(_crc.TABLES[0, (expected ^ byte) & 0xFF])
    assert expected == _crc.table_words(crc, array, 0, len(array))
    assert expected == _crc.update_words(crc, array, 0, len(array))


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 7), st.integers(0, 0xFFFFFFFF))
def test_tables_and_instructions_agree_on_part_of_a_word(word: int, count: int, crc: int) -> None:
    expected = crc
    for byte in word.to_bytes(8, "little", signed=True)[:count]:
        expected = (expected >> 8) ^ int(_crc.TABLES[0, (expected ^ byte) & 0xFF])
    assert expected == _crc.table_low_bytes(crc, word, count)
    assert expected == _crc.update_low_bytes(crc, word, count)


@given(st.binary(max_size=70))
def test_a_records_checksum_covers_its_body_then_its_header(body: bytes) -> None:
    record = make_record(10, 0x20, 5, 0x123456789A, body)
    words = np.frombuffer(record + bytes(-len(record) % 8), np.int64)
    assert struct.unpack_from("<I", record, 20)[0] == _crc.record_crc(words, 0, len(record))


@pytest.mark.parametrize("size", [-1, 17])
def test_a_size_outside_the_array_is_refused(size: int) -> None:
    assert _crc.words_crc(np.zeros(2, np.int64), size) == -1
