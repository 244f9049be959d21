"""Functions of bytes, by which queries look into the messages that slots have in binary form.

PostgreSQL: varlena.c (byteaGetByte, bytea_substring), encode.c, int.c and int8.c (send functions).
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from typing import Any

from headwater.errors import SessionError
from headwater.pg.sqlstates import ARRAY_SUBSCRIPT_ERROR, INVALID_PARAMETER_VALUE, SUBSTRING_ERROR
from headwater.walsender.queries.functions import Argument, Function
from headwater.walsender.queries.value_types import BYTEA, INT2, INT4, INT8, TEXT, ValueType

_LINE = 76
"""Letters of a line in base64."""


def byte_functions() -> list[Function]:
    """Return the functions of bytes."""
    data, number = Argument("", BYTEA), Argument("", INT4)
    integers = (("int2send", INT2), ("int4send", INT4), ("int8send", INT8))
    of_bytes: tuple[tuple[str, tuple[Argument, ...], ValueType, Callable[..., Any]], ...] = (
        ("get_byte", (data, number), INT4, get_byte),
        *((name, (data, number), BYTEA, substring) for name in ("substr", "substring")),
        *((name, (data, number, number), BYTEA, substring) for name in ("substr", "substring")),
        *((name, (data,), INT4, len) for name in ("length", "octet_length")),
        ("encode", (data, Argument("", TEXT)), TEXT, encode),
        *((name, (Argument("", type),), BYTEA, partial(_sent, type.size)) for name, type in integers),
    )
    return [Function(*parts, is_immutable=True) for parts in of_bytes]


def get_byte(data: bytes, place: int) -> int:
    """Return a byte, of the place from 0 on.

    Raises:
        SessionError: there is none at this place.
    """
    if not 0 <= place < len(data):
        raise SessionError(f"index {place} out of valid range, 0..{len(data) - 1}", sqlstate=ARRAY_SUBSCRIPT_ERROR)
    return data[place]


def substring(data: bytes, first: int, count: int | None = None) -> bytes:
    """Return the bytes from a place on, from 1; places before the first byte count, too.

    Raises:
        SessionError: the count is negative.
    """
    if count is not None and count < 0:
        raise SessionError("negative substring length not allowed", sqlstate=SUBSTRING_ERROR)
    end = len(data) if count is None else max(0, first - 1 + count)
    return data[max(0, first - 1) : end]


def encode(data: bytes, form: str) -> str:
    """Return bytes as text: in hexadecimal digits, in base64, or with escapes.

    Raises:
        SessionError: there is no such form.
    """
    match form.lower():
        case "hex":
            return data.hex()
        case "base64":
            text = base64.b64encode(data).decode()
            return "\n".join(text[i : i + _LINE] for i in range(0, len(text), _LINE))
        case "escape":
            return "".join(map(_escaped, data))
    raise SessionError(f'unrecognized encoding: "{form}"', sqlstate=INVALID_PARAMETER_VALUE)


def _escaped(byte: int) -> str:
    if byte == 0 or byte >= 0x80:
        return f"\\{byte:03o}"
    return "\\\\" if byte == ord("\\") else chr(byte)


def _sent(size: int, value: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)
