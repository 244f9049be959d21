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
from headwater.pg.version import Version
from headwater.walsender.queries.functions import Argument, Function
from headwater.walsender.queries.value_types import BYTEA, INT2, INT4, INT8, TEXT, ValueType

_LINE = 57
"""Bytes of a line in base64."""


def byte_functions(version: Version) -> list[Function]:
    """Return the functions of bytes that a version has."""
    data, number = Argument("", BYTEA), Argument("", INT4)
    integers = (("int2send", INT2), ("int4send", INT4), ("int8send", INT8))
    of_bytes: tuple[tuple[str, tuple[Argument, ...], ValueType, Callable[..., Any]], ...] = (
        ("get_byte", (data, number), INT4, get_byte),
        *((name, (data, number), BYTEA, substring) for name in ("substr", "substring")),
        *((name, (data, number, number), BYTEA, substring) for name in ("substr", "substring")),
        *((name, (data,), INT4, len) for name in ("length", "octet_length")),
        ("encode", (data, Argument("", TEXT)), TEXT, partial(encode, version)),
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


def encode(version: Version, data: bytes, form: str) -> str:
    """Return bytes as text, in one of the forms that a version knows.

    Raises:
        SessionError: there is no such form.
    """
    forms = _FORMS | _LATER_FORMS if version.encodes_in_more_forms else _FORMS
    encoded = forms.get(form.lower())
    if encoded is None:
        *first, last = (f'"{name}"' for name in sorted(forms))
        hint = f"Valid encodings are {', '.join(first)}, and {last}." if version.encodes_in_more_forms else None
        raise SessionError(f'unrecognized encoding: "{form}"', sqlstate=INVALID_PARAMETER_VALUE, hint=hint)
    return encoded(data)


def _in_base64(data: bytes) -> str:
    """Encode in lines; behind each whole one is a newline, behind the last one, too."""
    parts = (data[at : at + _LINE] for at in range(0, len(data), _LINE))
    return "".join(base64.b64encode(part).decode() + "\n" * (len(part) == _LINE) for part in parts)


def _in_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _in_base32hex(data: bytes) -> str:
    return base64.b32hexencode(data).decode()


def _escape(data: bytes) -> str:
    return "".join(map(_escaped, data))


def _escaped(byte: int) -> str:
    if byte == 0 or byte >= 0x80:
        return f"\\{byte:03o}"
    return "\\\\" if byte == ord("\\") else chr(byte)


def _sent(size: int, value: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)


_FORMS: dict[str, Callable[[bytes], str]] = {"base64": _in_base64, "escape": _escape, "hex": bytes.hex}
_LATER_FORMS: dict[str, Callable[[bytes], str]] = {"base32hex": _in_base32hex, "base64url": _in_base64url}
