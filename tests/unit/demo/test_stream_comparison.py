"""Streams are equal in every byte, or the first difference is shown."""

from __future__ import annotations

import pyarrow as pa

from headwater.demo.stream_comparison import first_difference, joined, messages_table

ROWS = [(16, 7, b"BEGIN"), (24, 7, b"\x00\xffraw"), (32, 7, b"COMMIT")]


def test_equal_streams_have_no_difference() -> None:
    assert first_difference(messages_table(ROWS), messages_table(ROWS)) is None
    assert first_difference(messages_table([]), messages_table([])) is None


def test_cut_into_tables_makes_no_difference() -> None:
    tables = [messages_table(ROWS[:1]), messages_table([]), messages_table(ROWS[1:])]
    assert first_difference(messages_table(ROWS), joined(tables)) is None


def test_text_is_compared_as_bytes() -> None:
    text = pa.table({"lsn": [16], "xid": [7], "data": pa.array(["é"])})
    assert first_difference(messages_table([(16, 7, "é".encode())]), joined([text])) is None


def test_first_difference_is_found_in_each_column() -> None:
    for changed in ((24, 7, b"\x00\xfeaw"), (25, 7, b"\x00\xffraw"), (24, 8, b"\x00\xffraw")):
        difference = first_difference(messages_table(ROWS), messages_table([ROWS[0], changed, ROWS[2]]))
        assert difference is not None
        assert (1, ROWS[1], changed, (ROWS[0],)) == (
            difference.position,
            difference.expected,
            difference.actual,
            difference.before,
        )


def test_end_of_one_stream_is_a_difference() -> None:
    longer, shorter = messages_table(ROWS), messages_table(ROWS[:2])
    missing, extra = first_difference(longer, shorter), first_difference(shorter, longer)
    assert missing is not None
    assert extra is not None
    assert (ROWS[2], None) == (missing.expected, missing.actual)
    assert (None, ROWS[2]) == (extra.expected, extra.actual)
    assert "0/20 7 COMMIT" in str(missing)
    assert "the stream has ended" in str(missing)


def test_place_of_the_difference_is_shown() -> None:
    difference = first_difference(messages_table([(16, 7, b"abcdef")]), messages_table([(16, 7, b"abcxef")]))
    assert "data differs at byte 3 of 6 and 6" in str(difference)
