"""Offsets of streams, as Spark keeps them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import UsageError
from headwater.source.stream_offsets import StreamOffset

LSNS = st.integers(0, (1 << 64) - 1)


@given(LSNS, st.integers(1, (1 << 32) - 1), LSNS, st.integers(0, (1 << 32) - 1))
def test_offsets_survive_json(lsn: int, timeline: int, since: int, table: int) -> None:
    offset = StreamOffset(lsn, timeline, since, table)
    text = json.dumps(offset.as_json())
    again = StreamOffset.of_json(json.loads(text))
    assert (again, json.dumps(again.as_json())) == (offset, text)


def test_what_people_see() -> None:
    shown = StreamOffset((1 << 32) + 0xA, 2, 0x16B3748).as_json()
    assert shown == {"lsn": "1/A", "timeline": 2, "since": "0/16B3748"}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"partition-1": {"index": 3}},
        {"lsn": 5, "timeline": 1, "since": "0/0"},
        {"lsn": "0/5", "timeline": "first", "since": "0/0"},
        {"lsn": "5", "timeline": 1, "since": "0/0"},
        {"lsn": "0/5", "timeline": 1, "since": None},
    ],
)
def test_offsets_of_something_else(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="holds no offset of a stream of changes"):
        StreamOffset.of_json(wrong)
