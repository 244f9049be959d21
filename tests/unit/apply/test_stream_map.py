"""Messages mapped: wherever pieces are cut, in streamed blocks and outside of them; beside what each message says."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from headwater.apply.incoming.map_rules import read_rules
from headwater.apply.incoming.messages import Delete, Insert, Message, Relation, Truncate, Update, read_message
from headwater.apply.incoming.pieces import messages_of
from headwater.apply.mapped.encoding import encode_relation
from headwater.apply.mapped.source_facts import SourceFacts
from headwater.apply.mapped.stream_map import StreamMap
from headwater.errors import TargetError
from headwater.remote_slots.announced_relations import SentColumn, SentRelation
from headwater.remote_slots.slot_feed import Piece

T = SentRelation(
    100, "s", "t", "d", (SentColumn("id", 23, -1, True), SentColumn("n", 23, -1, False), SentColumn("v", 25, -1, False))
)
WIDER = replace(T, columns=(*T.columns, SentColumn("more", 23, -1, False)))
GONE, PLAIN = replace(T, oid=200, name="gone"), replace(T, oid=300, name="plain")
RULES = read_rules(
    renames=["s.t=other.t", "s.t.v=w"],
    excluded=["s.t.n"],
    left_out=["s.gone"],
    masks=["s.t.v=keep-last:1"],
    conditions=["s.t: 10 / id > 1"],
)
FACTS = SourceFacts()


def _framed(message: bytes, lsn: int) -> bytes:
    body = b"w" + struct.pack(">QQQ", lsn, lsn, 7) + message
    return struct.pack(">cI", b"d", len(body) + 4) + body


def _row(*values: object) -> bytes:
    parts = [b"n" if value is None else b"u" if value is ... else _text(str(value)) for value in values]
    return struct.pack(">H", len(parts)) + b"".join(parts)


def _text(value: str) -> bytes:
    return b"t" + struct.pack(">i", len(value.encode())) + value.encode()


class _Writer:
    """Writes messages, in a streamed block or outside of one."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.xid = b""

    def relation(self, sent: SentRelation) -> None:
        self.messages.append(encode_relation(b"R" + self.xid, sent, is_streamed=bool(self.xid)))

    def insert(self, oid: int, *values: object) -> None:
        self.messages.append(b"I" + self.xid + struct.pack(">I", oid) + b"N" + _row(*values))

    def update(self, oid: int, old: tuple[object, ...] | None, *values: object) -> None:
        before = b"" if old is None else b"K" + _row(*old)
        self.messages.append(b"U" + self.xid + struct.pack(">I", oid) + before + b"N" + _row(*values))

    def delete(self, oid: int, *old: object) -> None:
        self.messages.append(b"D" + self.xid + struct.pack(">I", oid) + b"K" + _row(*old))

    def truncate(self, *oids: int) -> None:
        self.messages.append(b"T" + self.xid + struct.pack(f">IB{len(oids)}I", len(oids), 1, *oids))

    def begin(self, xid: int) -> None:
        self.messages.append(b"B" + struct.pack(">QqI", 1, 0, xid))

    def commit(self) -> None:
        self.messages.append(b"C\0" + struct.pack(">QQq", 1, 2, 0))

    def block(self, xid: int, is_first: bool) -> None:
        self.messages.append(b"S" + struct.pack(">IB", xid, is_first))
        self.xid = struct.pack(">I", xid)

    def stop(self) -> None:
        self.messages.append(b"E")
        self.xid = b""

    def stream_commit(self, xid: int) -> None:
        self.messages.append(b"c" + struct.pack(">IBQQq", xid, 0, 1, 2, 0))

    def stream_abort(self, xid: int) -> None:
        self.messages.append(b"A" + struct.pack(">II", xid, xid))

    @property
    def frames(self) -> list[bytes]:
        return [_framed(message, 10 + number) for number, message in enumerate(self.messages)]


def _mapped(frames: list[bytes], size: int) -> tuple[list[tuple[bytes, int]], Exception | None]:
    """Map frames in pieces of so many messages."""
    stream, messages = StreamMap(RULES, FACTS), list[tuple[bytes, int]]()
    for at in range(0, len(frames), size):
        data, error = stream.apply(b"".join(frames[at : at + size]))
        messages += messages_of(Piece(data, True, 0, 0))
        if error is not None:
            return messages, error
    return messages, None


def _work() -> _Writer:
    writer = _Writer()
    writer.begin(1)
    for sent in (T, GONE, PLAIN):
        writer.relation(sent)
    writer.insert(100, 2, 20, "abc")
    writer.insert(100, 20, 20, "abc")
    writer.insert(200, 1, 1, "x")
    writer.insert(300, 1, 1, "x")
    writer.update(100, None, 3, 4, ...)
    writer.update(100, (20, None, None), 4, 4, "in")
    writer.update(100, (4, None, None), 20, 4, "out")
    writer.update(100, (20, None, None), 21, 4, "never")
    writer.delete(100, 5, None, None)
    writer.delete(100, 50, None, None)
    writer.truncate(100, 200, 300)
    writer.truncate(200)
    writer.commit()
    writer.block(7, True)
    writer.relation(WIDER)
    writer.insert(100, 5, 6, "wide", 1)
    writer.stop()
    writer.begin(8)
    writer.insert(100, 1, 6, "narrow")
    writer.commit()
    writer.block(9, True)
    writer.insert(100, 1, 6, "aborted")
    writer.stop()
    writer.stream_abort(9)
    writer.block(7, False)
    writer.update(100, (5, None, None, None), 50, 6, "left", 1)
    writer.stop()
    writer.stream_commit(7)
    writer.begin(10)
    writer.insert(100, 2, 6, "wide", None)
    writer.commit()
    return writer


def _read(messages: list[tuple[bytes, int]]) -> list[Message]:
    values, is_streamed = list[Message](), False
    for data, lsn in messages:
        is_streamed = data[:1] == b"S" or (is_streamed and data[:1] != b"E")
        values.append(read_message(data, lsn, is_streamed=is_streamed and data[:1] != b"S"))
    return values


def test_changes() -> None:
    messages, error = _mapped(_work().frames, 1000)
    assert error is None
    values = _read(messages)
    changes = [
        (type(value).__name__, value.oid, value.new.values) for value in values if isinstance(value, Insert | Update)
    ]
    assert changes == [
        ("Insert", 100, (b"2", b"**c")),
        ("Insert", 300, (b"1", b"1", b"x")),
        ("Update", 100, (b"3", None)),
        ("Insert", 100, (b"4", b"*n")),
        ("Insert", 100, (b"5", b"***e", b"1")),
        ("Insert", 100, (b"1", b"*****w")),
        ("Insert", 100, (b"1", b"******d")),
        ("Insert", 100, (b"2", b"***e", None)),
    ]
    deletes = [value.old.values for value in values if isinstance(value, Delete)]
    assert deletes == [(b"4", None), (b"5", None), (b"5", None, None)]
    assert [value.oids for value in values if isinstance(value, Truncate)] == [(100, 300)]
    relations = [value.sent for value in values if isinstance(value, Relation)]
    assert [(f"{sent.namespace}.{sent.name}", len(sent.columns)) for sent in relations] == [
        ("other.t", 2),
        ("s.plain", 3),
        ("other.t", 3),
    ]
    assert [column.name for column in relations[0].columns] == ["id", "w"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_pieces_are_cut_anywhere(size: int) -> None:
    frames = _work().frames
    assert _mapped(frames, size) == _mapped(frames, 1000)


def test_what_no_rule_is_about_stays_as_it_is() -> None:
    frames = _work().frames
    data = b"".join(frames)
    assert StreamMap(read_rules(renames=["none.t=none.u"]), FACTS).apply(data) == (data, None)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_what_comes_before_an_error_is_handed_on(size: int) -> None:
    writer = _Writer()
    writer.begin(1)
    writer.relation(T)
    writer.insert(100, 2, 1, "first")
    writer.insert(100, 0, 1, "wrong")
    writer.insert(100, 3, 1, "behind")
    messages, error = _mapped(writer.frames, size)
    assert [data[:1] for data, _ in messages] == [b"B", b"R", b"I"]
    assert isinstance(error, TargetError)
    assert (error.message, error.lsn) == ("division by zero", 13)


def test_columns_left_out_alone() -> None:
    """Messages are cut as bytes; the twin reads them, and writes them anew."""
    rules = read_rules(excluded=["s.t.n"], left_out=["s.gone"])
    twin = read_rules(excluded=["s.t.n"], left_out=["s.gone"], masks=["s.t.v=literal:same"])
    frames = b"".join(_work().frames).replace(b"abc", b"xyz")
    cut, error = StreamMap(rules, FACTS).apply(frames)
    assert error is None
    slow = StreamMap(twin, FACTS)
    slow._mapped = lambda sent: replace(StreamMap._mapped(slow, sent), masks=((2, lambda value: value),))  # type: ignore[method-assign]
    assert slow.apply(frames).data.replace(struct.pack(">i", -2), struct.pack(">i", -1)) == cut


def test_a_tuple_that_is_too_short() -> None:
    writer = _Writer()
    writer.relation(T)
    writer.insert(100, 2)
    _, error = _mapped(writer.frames, 1000)
    assert "logical replication column 2 not found in tuple" in str(error)
