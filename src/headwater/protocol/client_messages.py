"""Messages of a client of PostgreSQL, values to bytes, and what a server answers, bytes to values.

PostgreSQL: protocol-message-formats, fe-protocol3.c.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from headwater.errors import SessionError
from headwater.protocol.backend_messages import Column, Report, Value, c_string, message
from headwater.protocol.frontend_messages import BIND, CLOSE, DESCRIBE, EXECUTE, PARSE, QUERY
from headwater.protocol.frontend_messages import SYNC as SYNC_KIND
from headwater.protocol.startup import CANCEL_REQUEST

PROTOCOL = 3 << 16
_TEXT = "utf-8", "surrogateescape"


def startup(parameters: Mapping[str, str]) -> bytes:
    """Return StartupMessage: the user, the database, settings."""
    pairs = b"".join(c_string(name) + c_string(value) for name, value in parameters.items())
    return _without_letter(struct.pack(">I", PROTOCOL) + pairs + b"\0")


def cancel_request(key: bytes) -> bytes:
    """Return CancelRequest, by what BackendKeyData had."""
    return _without_letter(struct.pack(">I", CANCEL_REQUEST) + key)


def parse(name: bytes, sql: str, types: Sequence[int] = ()) -> bytes:
    """Return Parse of a statement, with the types of its parameters."""
    return message(PARSE, name + b"\0" + c_string(sql) + struct.pack(f">H{len(types)}I", len(types), *types))


def describe_statement(name: bytes) -> bytes:
    """Return Describe of a statement."""
    return message(DESCRIBE, b"S" + name + b"\0")


def close_statement(name: bytes) -> bytes:
    """Return Close of a statement."""
    return message(CLOSE, b"S" + name + b"\0")


def bind(
    portal: bytes, name: bytes, values: Sequence[Value] = (), given: Sequence[int] = (), wanted: Sequence[int] = ()
) -> bytes:
    """Return Bind.

    Args:
        portal: its name; name: of the statement.
        values: of parameters; given: their formats; wanted: those of the columns.
    """
    parameters = b"".join(
        struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value for value in values
    )
    body = (
        portal + b"\0" + name + b"\0" + _formats(given) + struct.pack(">H", len(values)) + parameters + _formats(wanted)
    )
    return message(BIND, body)


def execute(portal: bytes, row_limit: int = 0) -> bytes:
    """Return Execute; 0 for all rows."""
    return message(EXECUTE, portal + b"\0" + struct.pack(">I", row_limit))


def query(sql: str) -> bytes:
    """Return Query."""
    return message(QUERY, c_string(sql))


SYNC = message(SYNC_KIND, b"")


def row_values(body: bytes) -> tuple[Value, ...]:
    """Read DataRow."""
    values, at = list[Value](), 2
    for _ in range(int.from_bytes(body[:2], "big")):
        size = int.from_bytes(body[at : at + 4], "big", signed=True)
        at += 4
        values.append(None if size < 0 else body[at : at + size])
        at += max(size, 0)
    return tuple(values)


def parameter_types(body: bytes) -> tuple[int, ...]:
    """Read ParameterDescription."""
    return struct.unpack_from(f">{int.from_bytes(body[:2], 'big')}I", body, 2)


def columns_of(body: bytes) -> tuple[Column, ...]:
    """Read RowDescription."""
    columns, at = list[Column](), 2
    for _ in range(int.from_bytes(body[:2], "big")):
        end = body.index(0, at)
        table, number, type, size, modifier, _ = struct.unpack_from(">IhIhih", body, end + 1)
        columns.append(Column(body[at:end].decode(*_TEXT), type, size, modifier, table, number))
        at = end + 19
    return tuple(columns)


def report(body: bytes) -> Report:
    """Read ErrorResponse, or NoticeResponse."""
    fields = {part[:1].decode(): part[1:].decode(*_TEXT) for part in body.split(b"\0") if part}
    place = fields.get("P")
    return Report(
        fields.get("V", fields.get("S", "ERROR")),
        fields.get("C", "XX000"),
        fields.get("M", ""),
        fields.get("D"),
        fields.get("H"),
        position=None if place is None else int(place),
    )


def error(body: bytes) -> SessionError:
    """Read ErrorResponse, as the error that the client gets."""
    failure = report(body)
    return SessionError(
        failure.message, sqlstate=failure.sqlstate, detail=failure.detail, hint=failure.hint, position=failure.position
    )


def _formats(formats: Sequence[int]) -> bytes:
    return struct.pack(f">H{len(formats)}h", len(formats), *formats)


def _without_letter(body: bytes) -> bytes:
    return struct.pack(">I", len(body) + 4) + body
