"""Marks of a slot's stream beside a plain twin that goes from message to message."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from headwater.remote_slots.stream_marks import Marks, marks_of

LSN_BEGIN, AT = struct.Struct(">cQqI"), 25
ENDS = {b"C": 10, b"P": 10, b"K": 10, b"r": 10, b"p": 10, b"c": 14}


def framed(payload: bytes) -> bytes:
    return struct.pack(">cI", b"d", len(payload) + 4) + payload


def data_of(message: bytes) -> bytes:
    return b"w" + struct.pack(">QQq", 5, 6, 7) + message


def payloads(chosen: random.Random, count: int) -> list[bytes]:
    made, lsn = list[bytes](), 100
    for _ in range(count):
        kind = chosen.choice([b"B", b"b", b"S", b"E", b"I", b"U", b"R", b"k", *ENDS])
        lsn += chosen.randrange(3)
        if kind == b"k":
            made.append(struct.pack(">cQqc", b"k", lsn + chosen.randrange(50), 7, b"\0"))
        elif kind == b"B":
            made.append(data_of(LSN_BEGIN.pack(kind, lsn, 1, 2)))
        elif kind in ENDS:
            made.append(data_of(kind + bytes(ENDS[kind] - 1) + struct.pack(">Qq", lsn, 3)))
        else:
            made.append(data_of(kind + bytes(chosen.randrange(30))))
    return made


def twin(stream: list[bytes], begin: int, inside: bool, reached: int) -> tuple[list[tuple[int, int, bool]], bool, int]:
    """Return marks, whether a transaction runs at the end, and how far the stream is then."""
    marks, at = list[tuple[int, int, bool]](), begin
    for payload in stream:
        if payload[:1] == b"k":
            (end,) = struct.unpack_from(">Q", payload, 1)
            reached = reached if inside else max(reached, end)
            continue
        kind, start = payload[AT : AT + 1], at
        at += len(payload) + 5
        if kind == b"B":
            inside = True
            marks.append((start, LSN_BEGIN.unpack_from(payload, AT)[1], False))
        elif kind in ENDS:
            inside = False
            reached = max(reached, struct.unpack_from(">Q", payload, AT + ENDS[kind])[0])
            marks.append((at, reached, True))
        elif kind in (b"b", b"S", b"E"):
            inside = kind != b"E"
    return marks, inside, reached


@pytest.mark.parametrize("seed", range(30))
def test_marks_of_a_stream(seed: int) -> None:
    chosen = random.Random(seed)
    stream = payloads(chosen, chosen.randrange(40))
    inside, reached, begin = chosen.random() < 0.5, chosen.randrange(120), chosen.randrange(1000)
    frames = b"".join(map(framed, stream))
    frame_marks = marks_of(frames)
    ends = [struct.unpack_from(">Q", frames, at + 6)[0] for at, _ in frame_marks.signs]
    places = frame_marks.reached(ends, inside, reached)
    marks = Marks.none().joined(frame_marks.kept(places, begin))
    own = list(zip(marks.at.tolist(), marks.lsn.tolist(), marks.is_end.tolist(), strict=True))
    assert (own, frame_marks.is_inside(inside), places[-1]) == twin(stream, begin, inside, reached)
    assert frame_marks.without_signs(frames) == b"".join(framed(payload) for payload in stream if payload[:1] != b"k")
    data = [number for number, payload in enumerate(stream) if payload[:1] != b"k"]
    before = stream[: data[-1]] if data else []
    assert frame_marks.last == (len(b"".join(map(framed, before))) if data else -1)


def test_marks_that_are_taken() -> None:
    marks = Marks(np.array([1, 2, 3]), np.array([4, 5, 6]), np.array([False, True, False]))
    assert marks.behind(2).at.tolist() == [3]
