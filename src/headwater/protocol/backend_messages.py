"""Messages of the server: values to bytes. Each is a letter, a length that counts itself, and a body.

PostgreSQL: protocol-message-formats, pqformat.c, elog.c (send_message_to_frontend).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headwater.errors import HeadwaterError, PluginError, SessionError
from headwater.option_names import at_door, hint_at_door
from headwater.pg.sqlstates import INTERNAL_ERROR

_TEXT = "utf-8", "surrogateescape"

IDLE, IN_TRANSACTION, IN_FAILED_TRANSACTION = b"I", b"T", b"E"
"""What ReadyForQuery says of the session's transaction."""

COPY_DONE = b"c\0\0\0\4"
PARSE_COMPLETE, BIND_COMPLETE, CLOSE_COMPLETE = b"1\0\0\0\4", b"2\0\0\0\4", b"3\0\0\0\4"
PORTAL_SUSPENDED = b"s\0\0\0\4"
NO_DATA, EMPTY_QUERY = b"n\0\0\0\4", b"I\0\0\0\4"
AUTHENTICATION_OK = b"R\0\0\0\x08\0\0\0\0"
COPY_BOTH_RESPONSE = b"W\0\0\0\7\0\0\0"
"""CopyBothResponse, of text in no columns: a stream of replication."""

Value = bytes | None
"""A value of a row, in its column's format; None is NULL."""


@dataclass(frozen=True)
class Column:
    """A column of a result.

    Attributes:
        name: its name.
        type: OID; size: of its values in bytes, negative where it varies.
        modifier: the type modifier.
        table, number: OID of the table or view that it is a column of, and which; zeros for an expression.
    """

    name: str
    type: int
    size: int
    modifier: int = -1
    table: int = 0
    number: int = 0


def message(kind: bytes, body: bytes) -> bytes:
    """Return a message."""
    return kind + struct.pack(">I", len(body) + 4) + body


EncodeText = Callable[[str], bytes]
"""Encodes a text as a client wants it."""


def in_utf8(text: str) -> bytes:
    """EncodeText a text in UTF-8; surrogates are bytes that are no character."""
    return text.encode(*_TEXT)


def c_string(text: str, encode: EncodeText = in_utf8) -> bytes:
    """Return a text with the zero byte that ends it."""
    return encode(text) + b"\0"


def authentication(code: int, data: bytes = b"") -> bytes:
    """Return an authentication request: 10, 11 and 12 are steps of SASL."""
    return message(b"R", struct.pack(">I", code) + data)


def parameter_status(name: str, value: str) -> bytes:
    """Return ParameterStatus: a setting as it is now."""
    return message(b"S", c_string(name) + c_string(value))


def backend_key_data(pid: int, key: bytes) -> bytes:
    """Return BackendKeyData: what a CancelRequest must have."""
    return message(b"K", struct.pack(">I", pid) + key)


def negotiate_protocol_version(body: bytes) -> bytes:
    """Return NegotiateProtocolVersion."""
    return message(b"v", body)


def ready_for_query(status: bytes) -> bytes:
    """Return ReadyForQuery."""
    return message(b"Z", status)


def row_description(columns: Sequence[Column], formats: Sequence[int] = (), encode: EncodeText = in_utf8) -> bytes:
    """Return RowDescription of columns, in a format each; without formats in text format."""
    body = [struct.pack(">h", len(columns))]
    for i, column in enumerate(columns):
        form = formats[i] if formats else 0
        place = column.table, column.number
        fields = struct.pack(">IhIhih", *place, column.type, column.size, column.modifier, form)
        body += [c_string(column.name, encode), fields]
    return message(b"T", b"".join(body))


def parameter_description(types: Sequence[int]) -> bytes:
    """Return ParameterDescription: OIDs of the types of a statement's parameters."""
    return message(b"t", struct.pack(f">h{len(types)}I", len(types), *types))


def data_row(values: Iterable[Value]) -> bytes:
    """Return DataRow."""
    fields = [struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value for value in values]
    return message(b"D", struct.pack(">h", len(fields)) + b"".join(fields))


def command_complete(tag: str) -> bytes:
    """Return CommandComplete."""
    return message(b"C", c_string(tag))


def copy_out_response(column_count: int, is_binary: bool = False) -> bytes:
    """Return CopyOutResponse: rows of so many columns follow."""
    form = int(is_binary)
    return message(b"H", struct.pack(f">bh{column_count}h", form, column_count, *[form] * column_count))


def copy_data(data: bytes) -> bytes:
    """Return CopyData."""
    return message(b"d", data)


@dataclass(frozen=True)
class Report:
    """An error, or a notice, as a client is told it.

    Attributes:
        severity: ERROR, FATAL, WARNING, NOTICE, ...
        sqlstate: five characters.
        message, detail, hint, context: texts; None without one.
        position: the character of the query that it is about, counted from 1; None for none.
    """

    severity: str
    sqlstate: str
    message: str
    detail: str | None = None
    hint: str | None = None
    context: str | None = None
    position: int | None = None

    def as_bytes(self, encode: EncodeText = in_utf8) -> bytes:
        """Return ErrorResponse, or NoticeResponse where nothing has failed."""
        fields = {
            "S": self.severity,
            "V": self.severity,
            "C": self.sqlstate,
            "M": self.message,
            "D": self.detail,
            "H": self.hint,
            "P": None if self.position is None else str(self.position),
            "W": self.context,
        }
        body = b"".join(name.encode() + c_string(text, encode) for name, text in fields.items() if text is not None)
        is_error = self.severity in ("ERROR", "FATAL", "PANIC")
        return message(b"E" if is_error else b"N", body + b"\0")

    def as_old_bytes(self) -> bytes:
        """Return the same for a client of protocol 2, and older: a letter and a line."""
        return b"E" + c_string(f"{self.severity}:  {self.message}\n")


def report_of(error: HeadwaterError, severity: str = "ERROR", context: str | None = None) -> Report:
    """Return what a client is told of an error.

    Args:
        error: of what was asked, with the server's words; of anything else all that it says goes in one line.
        severity: see :class:`Report`; context: what was being done.
    """
    text, hint = at_door(error.message), hint_at_door(error.hint) or None
    if isinstance(error, SessionError):
        return Report(severity, error.sqlstate, text, error.detail, hint, context, error.position)
    if isinstance(error, PluginError):
        return Report(severity, error.sqlstate, text, None, hint, context or error.context)
    return Report(severity, INTERNAL_ERROR, error.one_line(), None, None, context)
