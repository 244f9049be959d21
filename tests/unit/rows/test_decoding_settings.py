"""Settings that say when transactions in progress are streamed."""

from __future__ import annotations

import pytest

from headwater.errors import UsageError
from headwater.rows.session import SessionSettings


@pytest.mark.parametrize(
    ("value", "expected"),
    [("64MB", 64 << 20), ("64kB", 64 << 10), ("1GB", 1 << 30), ("65536", 64 << 20), ("131072B", 128 << 10)],
)
def test_memory_has_the_servers_units(value: str, expected: int) -> None:
    session = SessionSettings.from_settings({"Logical_Decoding_Work_Mem": value}, 17)
    assert session.memory_limit == expected


@pytest.mark.parametrize("value", ["", "64 mb", "63kB", "x", "3TB0", "-1", "2TB"])
def test_memory_that_the_server_does_not_take(value: str) -> None:
    with pytest.raises(UsageError, match="logical_decoding_work_mem"):
        SessionSettings.from_settings({"logical_decoding_work_mem": value}, 17)


def test_streaming_at_once() -> None:
    name = "debug_logical_replication_streaming"
    assert SessionSettings.from_settings({name: "IMMEDIATE"}, 16).memory_limit == 1
    assert SessionSettings.from_settings({name: "buffered"}, 16).memory_limit == 64 << 20
    with pytest.raises(UsageError, match="available values"):
        SessionSettings.from_settings({name: "now"}, 18)
    with pytest.raises(UsageError, match="unrecognized configuration parameter"):
        SessionSettings.from_settings({name: "immediate"}, 15)
