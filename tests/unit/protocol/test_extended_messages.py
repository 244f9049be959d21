"""Messages of the extended query protocol: any bytes are a value or an error of the server's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import SessionError
from headwater.pg.sqlstates import PROTOCOL_VIOLATION
from headwater.protocol.extended_messages import (
    Bind,
    Execute,
    Parse,
    bind_message,
    close_message,
    describe_message,
    execute_message,
    parse_message,
)

READERS: tuple[Callable[[bytes], object], ...] = (
    parse_message,
    bind_message,
    describe_message,
    execute_message,
    close_message,
)


@pytest.mark.parametrize("read", READERS)
@given(body=st.binary(max_size=60))
def test_any_bytes(read: Callable[[bytes], object], body: bytes) -> None:
    refusal = None
    try:
        read(body)
    except SessionError as error:
        refusal = error
    assert refusal is None or refusal.sqlstate == PROTOCOL_VIOLATION


def test_whole_messages() -> None:
    assert parse_message(b"s\0SELECT 1\0\0\1\0\0\0\x17") == Parse(b"s", b"SELECT 1", (23,))
    body = b"p\0s\0\0\1\0\1\0\2\0\0\0\1x\xff\xff\xff\xff\0\0"
    assert bind_message(body) == Bind(b"p", b"s", (1,), (b"x", None), ())
    assert execute_message(b"p\0\xff\xff\xff\xff") == Execute(b"p", 0)


@pytest.mark.parametrize("body", [b"\0\0\0\0\0\2\0\0", b"\0\0\0\2\0\0\0\0\0\1\0\0\0\0\0\0"])
def test_numbers_that_do_not_fit(body: bytes) -> None:
    with pytest.raises(SessionError):
        bind_message(body)
