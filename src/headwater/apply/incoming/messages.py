"""Messages of pgoutput as values, one object a message: what the serial applier takes.

All of versions 1 to 4 are read, in streamed blocks and outside of them. What is not there in the protocol is an error
with the SQLSTATE and the words of the server's own reader.

PostgreSQL: replication/logical/proto.c (logicalrep_read_begin and so on), worker.c (apply_dispatch); 14 to 19.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headwater.errors import DecodingError
from headwater.plugins.pgoutput.protocol import MESSAGE_TRANSACTIONAL, TRUNCATE_CASCADE, TRUNCATE_RESTART_SEQS
from headwater.remote_slots.announced_relations import SentRelation

NULL, UNCHANGED, TEXT, BINARY = b"n"[0], b"u"[0], b"t"[0], b"b"[0]
"""Kinds of a column's value: NULL, a TOAST value that was not written again, the type's text form, its binary form."""


@dataclass(frozen=True, slots=True)
class SentTuple:
    """A tuple as it is sent.

    Attributes:
        kinds: a byte a column: :data:`NULL`, :data:`UNCHANGED`, :data:`TEXT` or :data:`BINARY`.
        values: the value of each column; None for NULL and for what is unchanged.
    """

    kinds: bytes
    values: tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """B: a transaction begins.

    Attributes:
        final_lsn: START of its commit record; time: of the commit, microseconds since 2000; xid: its own.
    """

    final_lsn: int
    time: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """C: it ends; LSNs are START and END of the commit record."""

    final_lsn: int
    end_lsn: int
    time: int


@dataclass(frozen=True, slots=True)
class Origin:
    """O: where a transaction came from, and the LSN of its commit there."""

    lsn: int
    name: str


@dataclass(frozen=True, slots=True)
class Relation:
    """R: a relation as it is sent from here on."""

    xid: int
    sent: SentRelation


@dataclass(frozen=True, slots=True)
class Type:
    """Y: the name of a type that is not built in."""

    xid: int
    oid: int
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Insert:
    """I: a row."""

    xid: int
    oid: int
    new: SentTuple


@dataclass(frozen=True, slots=True)
class Update:
    """U: a row that was changed.

    Attributes:
        xid, oid: as above; new: the row.
        old: its key before (``old_is_key``), or all of it; None if the key is the new row's.
    """

    xid: int
    oid: int
    old: SentTuple | None
    old_is_key: bool
    new: SentTuple


@dataclass(frozen=True, slots=True)
class Delete:
    """D: a row that is gone."""

    xid: int
    oid: int
    old: SentTuple
    old_is_key: bool


@dataclass(frozen=True, slots=True)
class Truncate:
    """T: relations that were emptied together."""

    xid: int
    oids: tuple[int, ...]
    cascade: bool
    restart_seqs: bool


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """M: a message that pg_logical_emit_message wrote."""

    xid: int
    transactional: bool
    lsn: int
    prefix: str
    content: bytes


@dataclass(frozen=True, slots=True)
class BeginPrepare:
    """b: a prepared transaction begins; LSNs are START and END of PREPARE's record."""

    prepare_lsn: int
    end_lsn: int
    time: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class Prepare(BeginPrepare):
    """P: it ends."""


@dataclass(frozen=True, slots=True)
class CommitPrepared:
    """K: it is committed; LSNs are START and END of that record."""

    commit_lsn: int
    end_lsn: int
    time: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class RollbackPrepared:
    """r: it is rolled back; LSNs are the ENDs of PREPARE's record and of that one's."""

    prepare_end_lsn: int
    end_lsn: int
    prepare_time: int
    time: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class StreamStart:
    """S: a block of a transaction that still runs begins."""

    xid: int
    is_first: bool


@dataclass(frozen=True, slots=True)
class StreamStop:
    """E: the block ends."""


@dataclass(frozen=True, slots=True)
class StreamCommit:
    """c: a streamed transaction is committed."""

    xid: int
    final_lsn: int
    end_lsn: int
    time: int


@dataclass(frozen=True, slots=True)
class StreamAbort:
    """A: a streamed transaction, or a subtransaction of it, is rolled back; lsn and time are 0 below version 4."""

    toplevel_xid: int
    xid: int
    lsn: int
    time: int


@dataclass(frozen=True, slots=True)
class StreamPrepare(BeginPrepare):
    """p: a streamed transaction is prepared."""


Change = Insert | Update | Delete | Truncate
Message = (
    Begin
    | Commit
    | Origin
    | Relation
    | Type
    | Change
    | LogicalMessage
    | BeginPrepare
    | CommitPrepared
    | RollbackPrepared
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
)

NAMES = {
    b"B": "BEGIN",
    b"C": "COMMIT",
    b"O": "ORIGIN",
    b"I": "INSERT",
    b"U": "UPDATE",
    b"D": "DELETE",
    b"T": "TRUNCATE",
    b"R": "RELATION",
    b"Y": "TYPE",
    b"M": "MESSAGE",
    b"b": "BEGIN PREPARE",
    b"P": "PREPARE",
    b"K": "COMMIT PREPARED",
    b"r": "ROLLBACK PREPARED",
    b"S": "STREAM START",
    b"E": "STREAM STOP",
    b"c": "STREAM COMMIT",
    b"A": "STREAM ABORT",
    b"p": "STREAM PREPARE",
}
"""What messages are called in contexts of errors (logicalrep_message_type)."""

_IN_STREAM = b"RYIUDTM"
"""Messages that begin with the xid of their subtransaction in a streamed block."""

_COUNT, _SIZE = struct.Struct(">H"), struct.Struct(">i")
_KEY, _OLD, _NEW = b"K"[0], b"O"[0], b"N"[0]


class _Reader:
    """A cursor over a message; what goes beyond its end is a ``struct.error`` or a ``ValueError``."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def numbers(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return values

    def named(self, form: str) -> tuple[Any, ...]:
        """Take numbers, and the name that follows them."""
        return (*self.numbers(form), self.text())

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        text = self.data[self.at : end].decode()
        self.at = end + 1
        return text

    def bytes(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise ValueError(size)
        self.at += size
        return self.data[self.at - size : self.at]

    def tuple(self) -> SentTuple:
        data, at = self.data, self.at + 2
        (count,) = _COUNT.unpack_from(data, self.at)
        kinds = bytearray(count)
        values: list[bytes | None] = [None] * count
        for column in range(count):
            kind = kinds[column] = data[at]
            at += 1
            if kind in (TEXT, BINARY):
                (size,) = _SIZE.unpack_from(data, at)
                begin, at = at + 4, at + 4 + size
                if size < 0 or at > len(data):
                    raise ValueError(size)
                values[column] = data[begin:at]
            elif kind not in (NULL, UNCHANGED):
                raise _Unrecognized(kind)
        self.at = at
        return SentTuple(bytes(kinds), tuple(values))


class _Unrecognized(ValueError):
    """A kind of column that there is not."""


def read_message(data: bytes, lsn: int, *, is_streamed: bool = False) -> Message:
    """Read a message.

    Args:
        data: it, from its first byte on; names are in UTF8.
        lsn: that it was sent with, for the error.
        is_streamed: it lies in a streamed block.

    Raises:
        DecodingError: it is malformed, or of a kind that there is not.
    """
    read = _READERS.get(data[:1])
    if read is None:
        kind = data[0] if data else 0
        raise DecodingError(f"invalid logical replication message type {chr(kind)!r}", lsn=lsn)
    has_xid = is_streamed and data[:1] in _IN_STREAM
    reader = _Reader(data, 1)
    try:
        xid = reader.numbers("I")[0] if has_xid else 0
        message = read(reader, xid, lsn)
    except _Unrecognized as error:
        raise DecodingError(f"unrecognized data representation type {chr(error.args[0])!r}", lsn=lsn) from None
    except (ValueError, struct.error, IndexError):
        raise DecodingError(f"malformed {NAMES[data[:1]]} message of a slot", lsn=lsn) from None
    if reader.at != len(data):
        raise DecodingError(f"malformed {NAMES[data[:1]]} message of a slot, bytes are left", lsn=lsn)
    return message


def _begin(reader: _Reader, _xid: int, _lsn: int) -> Begin:
    return Begin(*reader.numbers("QqI"))


def _commit(reader: _Reader, _xid: int, _lsn: int) -> Commit:
    _without_flags(reader)
    return Commit(*reader.numbers("QQq"))


def _origin(reader: _Reader, _xid: int, _lsn: int) -> Origin:
    return Origin(reader.numbers("Q")[0], reader.text())


def _relation(reader: _Reader, xid: int, lsn: int) -> Relation:
    sent = SentRelation.parse(b"R" + reader.bytes(len(reader.data) - reader.at), lsn)
    return Relation(xid, sent)


def _type(reader: _Reader, xid: int, _lsn: int) -> Type:
    return Type(xid, reader.numbers("I")[0], reader.text() or "pg_catalog", reader.text())


def _insert(reader: _Reader, xid: int, _lsn: int) -> Insert:
    (oid,) = reader.numbers("I")
    if reader.byte() != _NEW:
        raise ValueError
    return Insert(xid, oid, reader.tuple())


def _update(reader: _Reader, xid: int, _lsn: int) -> Update:
    (oid,) = reader.numbers("I")
    mark, old = reader.byte(), None
    old_is_key = mark == _KEY
    if mark in (_KEY, _OLD):
        old, mark = reader.tuple(), reader.byte()
    if mark != _NEW:
        raise ValueError(mark)
    return Update(xid, oid, old, old_is_key, reader.tuple())


def _delete(reader: _Reader, xid: int, _lsn: int) -> Delete:
    (oid,) = reader.numbers("I")
    mark = reader.byte()
    if mark not in (_KEY, _OLD):
        raise ValueError(mark)
    return Delete(xid, oid, reader.tuple(), mark == _KEY)


def _truncate(reader: _Reader, xid: int, _lsn: int) -> Truncate:
    count, flags = reader.numbers("IB")
    oids = reader.numbers(f"{count}I")
    return Truncate(xid, oids, bool(flags & TRUNCATE_CASCADE), bool(flags & TRUNCATE_RESTART_SEQS))


def _logical_message(reader: _Reader, xid: int, _lsn: int) -> LogicalMessage:
    flags, lsn = reader.numbers("BQ")
    prefix = reader.text()
    return LogicalMessage(xid, bool(flags & MESSAGE_TRANSACTIONAL), lsn, prefix, reader.bytes(reader.numbers("I")[0]))


def _begin_prepare(reader: _Reader, _xid: int, _lsn: int) -> BeginPrepare:
    return BeginPrepare(*reader.named("QQqI"))


def _prepare(reader: _Reader, _xid: int, _lsn: int) -> Prepare:
    _without_flags(reader)
    return Prepare(*reader.named("QQqI"))


def _commit_prepared(reader: _Reader, _xid: int, _lsn: int) -> CommitPrepared:
    _without_flags(reader)
    return CommitPrepared(*reader.named("QQqI"))


def _rollback_prepared(reader: _Reader, _xid: int, _lsn: int) -> RollbackPrepared:
    _without_flags(reader)
    return RollbackPrepared(*reader.named("QQqqI"))


def _stream_start(reader: _Reader, _xid: int, _lsn: int) -> StreamStart:
    xid, is_first = reader.numbers("IB")
    return StreamStart(xid, bool(is_first))


def _stream_stop(_reader: _Reader, _xid: int, _lsn: int) -> StreamStop:
    return StreamStop()


def _stream_commit(reader: _Reader, _xid: int, _lsn: int) -> StreamCommit:
    (xid,) = reader.numbers("I")
    _without_flags(reader)
    return StreamCommit(xid, *reader.numbers("QQq"))


def _stream_abort(reader: _Reader, _xid: int, _lsn: int) -> StreamAbort:
    toplevel_xid, xid = reader.numbers("II")
    lsn, time = reader.numbers("Qq") if reader.at < len(reader.data) else (0, 0)
    return StreamAbort(toplevel_xid, xid, lsn, time)


def _stream_prepare(reader: _Reader, _xid: int, _lsn: int) -> StreamPrepare:
    _without_flags(reader)
    return StreamPrepare(*reader.named("QQqI"))


def _without_flags(reader: _Reader) -> None:
    """Pass over flags, of which there are none yet."""
    if reader.byte() != 0:
        raise ValueError


_READERS: dict[bytes, Callable[[_Reader, int, int], Message]] = {
    b"B": _begin,
    b"C": _commit,
    b"O": _origin,
    b"R": _relation,
    b"Y": _type,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
    b"M": _logical_message,
    b"b": _begin_prepare,
    b"P": _prepare,
    b"K": _commit_prepared,
    b"r": _rollback_prepared,
    b"S": _stream_start,
    b"E": _stream_stop,
    b"c": _stream_commit,
    b"A": _stream_abort,
    b"p": _stream_prepare,
}
