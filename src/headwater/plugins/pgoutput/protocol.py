"""Messages of the logical replication protocol that are made one by one: R, Y, T, M, O, b, P, K, r, S, E, c, A, p.

PostgreSQL: ``replication/logical/proto.c`` (logicalrep_write_rel, _typ, _truncate, _message, _origin, _begin_prepare,
_prepare, _commit_prepared, _rollback_prepared, _stream_start and so on); numbers are big-endian, strings end in a zero
byte. Names are in the database's encoding until a slice is written. What lies in a streamed block is made as if it did
not, and gets its xid by :func:`in_stream`. :class:`RelationMessage` reads an R back: the decode tasks learn from it
what a relation is sent as.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.errors import PluginError
from headwater.pg.catalogs import PG_CATALOG_NAMESPACE
from headwater.pg.encodings import decode_name, encode_name

FIRST_GENBKI_OBJECT_ID = 10000
"""Types from this OID on are announced by Y messages (access/transam.h)."""

IS_REPLICA_IDENTITY = 1
TRUNCATE_CASCADE, TRUNCATE_RESTART_SEQS = 1, 2
MESSAGE_TRANSACTIONAL = 1
"""Flags of the protocol (``proto.c``). A record of TRUNCATE has flags of its own, which have the same bits."""


UNSENDABLE = b"!"
"""The beginning of what stands in for a message until it is known whether it would be sent.

A text that cannot be sent follows.
"""


def _string(text: str, encoding: str) -> bytes:
    return encode_name(text, encoding) + b"\0"


def write_type(type_info: TypeInfo, encoding: str = "UTF8") -> bytes:
    """Write Y: the type's own OID with the name of its base type; names in the database's encoding."""
    base = type_info.base or type_info
    namespace = "" if base.namespace == "pg_catalog" else base.namespace
    return b"Y" + struct.pack(">I", type_info.oid) + _string(namespace, encoding) + _string(base.name, encoding)


def write_relation(schema: RelationSchema, columns: Sequence[Column], encoding: str = "UTF8") -> bytes:
    """Write R: a relation with those of its columns that are sent; pg_catalog's name is sent as an empty string."""
    namespace = "" if schema.namespace_oid == PG_CATALOG_NAMESPACE else schema.namespace
    parts = [b"R", struct.pack(">I", schema.oid), _string(namespace, encoding), _string(schema.name, encoding)]
    parts.append(schema.replica_identity.encode() + struct.pack(">H", len(columns)))
    is_full = schema.replica_identity == "f"
    for column in columns:
        flags = IS_REPLICA_IDENTITY if is_full or column.number in schema.identity_columns else 0
        oid = column.type.oid if column.type else 0
        parts += [bytes([flags]), _string(column.name, encoding), struct.pack(">Ii", oid, column.typmod)]
    return b"".join(parts)


def announce(schema: RelationSchema, columns: Sequence[Column], encoding: str = "UTF8") -> list[bytes]:
    """Write Y for each column of a type that is not built in, then R (send_relation_and_attrs)."""
    types = [column.type for column in columns if column.type and column.type.oid >= FIRST_GENBKI_OBJECT_ID]
    return [write_type(type_info, encoding) for type_info in types] + [write_relation(schema, columns, encoding)]


def write_truncate(oids: Sequence[int], cascade: bool, restart_seqs: bool) -> bytes:
    """Write T: relations emptied together."""
    flags = TRUNCATE_CASCADE * cascade | TRUNCATE_RESTART_SEQS * restart_seqs
    return b"T" + struct.pack(f">IB{len(oids)}I", len(oids), flags, *oids)


def write_message(lsn: int, transactional: bool, prefix: bytes, content: bytes) -> bytes:
    """Write M: a logical message."""
    head = struct.pack(">BQ", MESSAGE_TRANSACTIONAL * transactional, lsn)
    return b"M" + head + prefix + b"\0" + struct.pack(">I", len(content)) + content


def write_origin(name: str, lsn: int, encoding: str = "UTF8") -> bytes:
    """Write O: where a transaction came from, and its commit's LSN there."""
    return b"O" + struct.pack(">Q", lsn) + _string(name, encoding)


@dataclass(frozen=True)
class PreparedStamp:
    """The contents of messages about a prepared transaction.

    Attributes:
        lsns: two of them; times: microseconds since 2000-01-01, one or two.
        xid: its own; gid: its name, in the database's encoding.
    """

    lsns: tuple[int, int]
    times: tuple[int, ...]
    xid: int
    gid: bytes

    def written(self, head: bytes) -> bytes:
        """Return the message that begins with these bytes."""
        return head + struct.pack(f">2Q{len(self.times)}qI", *self.lsns, *self.times, self.xid) + self.gid + b"\0"


def write_begin_prepare(stamp: PreparedStamp) -> bytes:
    """Write b: where PREPARE starts and ends, and its time."""
    return stamp.written(b"b")


def write_prepare(stamp: PreparedStamp) -> bytes:
    """Write P: the same as b."""
    return stamp.written(b"P\0")


def write_commit_prepared(stamp: PreparedStamp) -> bytes:
    """Write K: the same of COMMIT PREPARED."""
    return stamp.written(b"K\0")


def write_rollback_prepared(stamp: PreparedStamp) -> bytes:
    """Write r: where PREPARE and where ROLLBACK PREPARED end, and the times of both."""
    return stamp.written(b"r\0")


def in_stream(message: bytes, xid: int) -> bytes:
    """Return an R, Y, T or M as it is in a streamed block."""
    return message[:1] + struct.pack(">I", xid) + message[1:]


def write_stream_start(xid: int, is_first: bool) -> bytes:
    """Write S: a block of a transaction begins."""
    return b"S" + struct.pack(">IB", xid, is_first)


def write_stream_stop() -> bytes:
    """Write E: a block ends."""
    return b"E"


def write_stream_commit(xid: int, final_lsn: int, end_lsn: int, time: int) -> bytes:
    """Write c: where the commit record starts and ends, and its time in microseconds."""
    return b"c" + struct.pack(">IBQQq", xid, 0, final_lsn, end_lsn, time)


def write_stream_abort(toplevel_xid: int, xid: int, info: tuple[int, int] | None) -> bytes:
    """Write A; with the record's end and time for who applies in parallel."""
    return b"A" + struct.pack(">II", toplevel_xid, xid) + (b"" if info is None else struct.pack(">Qq", *info))


def write_stream_prepare(stamp: PreparedStamp) -> bytes:
    """Write p, as P."""
    return stamp.written(b"p\0")


_GID_AT = {b"b": 29, b"P": 30, b"K": 30, b"p": 30, b"r": 38}
"""Where the name of a prepared transaction begins in a message about it."""

NAMED = b"RYObPKrp" + UNSENDABLE
"""Messages with names, which :func:`with_texts` converts."""


def with_texts(message: bytes, convert: Callable[[bytes], bytes], has_xid: bool = False) -> bytes:
    """Return a message with its names converted, or raise the refusal of a text that stands in for a message.

    Args:
        message: made here.
        convert: makes of a text what the client gets.
        has_xid: it is an R or Y of a streamed block.
    """
    if has_xid:
        return message[:5] + with_texts(message[:1] + message[5:], convert)[1:]
    tag = message[:1]
    if tag == UNSENDABLE:
        return convert(message[1:])
    if tag == b"O" or tag in _GID_AT:
        at = _GID_AT.get(tag, 9)
        return message[:at] + convert(message[at:-1]) + b"\0"
    first, second, rest = message[5:].split(b"\0", 2)
    parts = [message[:5], convert(first), b"\0", convert(second), b"\0"]
    if tag == b"R":
        parts.append(rest[:3])
        at = 3
        while at < len(rest):
            end = rest.index(b"\0", at + 1)
            parts += [rest[at : at + 1], convert(rest[at + 1 : end]), rest[end : end + 9]]
            at = end + 9
    return b"".join(parts)


@dataclass(frozen=True)
class RelationMessage:
    """An R message as read.

    Attributes:
        oid: of the relation.
        replica_identity: ``relreplident``.
        columns: names of the columns that are sent, in order.
    """

    oid: int
    replica_identity: str
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, message: bytes, encoding: str = "UTF8") -> RelationMessage:
        """Read an R message of our own making.

        Raises:
            PluginError: it is none.
        """
        try:
            return cls._parse(message, encoding)
        except (ValueError, struct.error):
            raise PluginError("malformed relation message, expected what schema_messages returned") from None

    @classmethod
    def _parse(cls, message: bytes, encoding: str) -> RelationMessage:
        tag, oid = struct.unpack_from(">cI", message)
        if tag != b"R":
            raise ValueError(tag)
        at = message.index(b"\0", message.index(b"\0", 5) + 1) + 1
        identity, count = struct.unpack_from(">cH", message, at)
        at += 3
        columns = []
        for _ in range(count):
            end = message.index(b"\0", at + 1)
            columns.append(decode_name(message[at + 1 : end], encoding))
            at = end + 9
        return cls(oid, identity.decode(), tuple(columns))
