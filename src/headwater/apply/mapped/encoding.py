"""Messages of pgoutput, written anew after they were mapped.

PostgreSQL: replication/logical/proto.c (logicalrep_write_rel, logicalrep_write_insert and so on, write_tuple).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from headwater.apply.incoming.messages import NULL, UNCHANGED, Delete, Insert, SentTuple, Truncate, Update
from headwater.apply.mapped.table_maps import TableMap
from headwater.plugins.pgoutput.protocol import IS_REPLICA_IDENTITY, TRUNCATE_CASCADE, TRUNCATE_RESTART_SEQS
from headwater.remote_slots.announced_relations import SentRelation

_NUMBER, _COUNT, _SIZE = struct.Struct(">I"), struct.Struct(">H"), struct.Struct(">i")
_COLUMN = struct.Struct(">Ii")


def encode_relation(message: bytes, relation: SentRelation, *, is_streamed: bool) -> bytes:
    """Write a relation.

    Args:
        message: as it came; relation: as it is handed on; is_streamed: it lies in a streamed block.
    """
    parts = [message[:5] if is_streamed else message[:1], _NUMBER.pack(relation.oid)]
    parts += [relation.namespace.encode(), b"\0", relation.name.encode(), b"\0", relation.replica_identity.encode()]
    parts.append(_COUNT.pack(len(relation.columns)))
    for column in relation.columns:
        flags = IS_REPLICA_IDENTITY if column.is_key else 0
        parts += [bytes([flags]), column.name.encode(), b"\0", _COLUMN.pack(column.type_oid, column.typmod)]
    return b"".join(parts)


def encode_truncate(message: Truncate, oids: Sequence[int], *, is_streamed: bool) -> bytes:
    """Write a TRUNCATE of some of its relations."""
    flags = message.cascade * TRUNCATE_CASCADE | message.restart_seqs * TRUNCATE_RESTART_SEQS
    xid = _NUMBER.pack(message.xid) if is_streamed else b""
    return b"T" + xid + struct.pack(f">IB{len(oids)}I", len(oids), flags, *oids)


def encode_change(table: TableMap, message: Insert | Update | Delete, *, is_streamed: bool) -> bytes:
    """Write a change with its rows as they are handed on."""
    head = (_NUMBER.pack(message.xid) if is_streamed else b"") + _NUMBER.pack(message.oid)
    if isinstance(message, Insert):
        return b"I" + head + b"N" + _tuple(table.row(message.new))
    old = b""
    if message.old is not None:
        old = (b"K" if message.old_is_key else b"O") + _tuple(table.row(message.old))
    if isinstance(message, Delete):
        return b"D" + head + old
    return b"U" + head + old + b"N" + _tuple(table.row(message.new))


def leave_out(data: bytes, at: int, keeps: Sequence[bool]) -> bytes | None:
    """Write a change without some columns, which is the same as reading and encoding it, and sooner done.

    Args:
        data: the message; at: where its first tuple's mark lies; keeps: of each column whether it stays.

    Returns:
        the message; None if it is malformed, or has other columns.
    """
    parts, count = [data[:at]], _COUNT.pack(sum(keeps))
    while at < len(data):
        if data[at + 1 : at + 3] != _COUNT.pack(len(keeps)):
            return None
        parts += [data[at : at + 1], count]
        at += 3
        begin = at
        for is_wanted in keeps:
            end = _end_of_value(data, at)
            if not is_wanted:
                parts.append(data[begin:at])
                begin = end
            at = end
        parts.append(data[begin:at])
    return b"".join(parts) if at == len(data) else None


def _end_of_value(data: bytes, at: int) -> int:
    """Return where a column's value ends; behind the message for what is none."""
    kind = data[at : at + 1]
    if kind in (b"t", b"b"):
        return at + 5 + int.from_bytes(data[at + 1 : at + 5], "big")
    return at + 1 if kind in (b"n", b"u") else len(data) + 1


def _tuple(row: SentTuple) -> bytes:
    parts = [_COUNT.pack(len(row.kinds))]
    for kind, value in zip(row.kinds, row.values, strict=True):
        if kind in (NULL, UNCHANGED) or value is None:
            parts.append(bytes([kind]))
        else:
            parts += [bytes([kind]), _SIZE.pack(len(value)), value]
    return b"".join(parts)
