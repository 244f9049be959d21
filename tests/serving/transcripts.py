"""Transcripts of connections: lines that are equal where two servers say the same to a client.

What differs from run to run is replaced by its name: LSNs in texts, numbers of processes and keys, times, names of
snapshots and of slots with OIDs in them, nonces and proofs of SCRAM. In a stream each side is a sequence of its own,
as what comes meanwhile from the other is chance; keepalives and replies are left out. Rows that a query does not order
are sorted, as are settings at the begin, whose order is that of a hash.

Known differences, which are passed over too (docs/guides/serving.md): errors without a place in PostgreSQL's source,
and of plugins amid a stream without their callback; nothing of the stretch of WAL in which a stream fails.
"""

from __future__ import annotations

import difflib
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from serving.raw_queries import values_of
from serving.recording_proxy import ANSWERED, ASKED, BACKEND, CLOSED, FRONTEND, Message, Recording

_NAMES = (
    (re.compile(rb"pg_\d+_sync_\d+_\d+"), b"<slot of a table>"),
    (re.compile(rb"\b(?!0/0+\b)[0-9A-F]{1,8}/0[0-9A-F]{7}\b"), b"<LSN with zeros>"),
    (re.compile(rb"\b(?!0/0+\b)[0-9A-F]{1,8}/[0-9A-F]{1,8}\b"), b"<LSN>"),
    (re.compile(rb"\b[0-9A-F]{8}-[0-9A-F]{8}-\d+\b"), b"<snapshot>"),
    (re.compile(rb"\bfor PID \d+"), b"for PID <PID>"),
)
_SECRETS = re.compile(rb"(?<![a-z])([rspv])=[^,]*")
"""What a message of SCRAM has once: nonce, salt, proof, and the server's signature."""

_UNTOLD = re.compile(rb"[FLR]|W.* callback, associated LSN")
"""Fields of errors that the service does not send: places in PostgreSQL's source, and in which call a plugin failed."""

_APPLICATION = re.compile(r"^F startup .*application_name\\x00(.*?)\\x00")
_IS_TAKEN = "is active for PID"


@dataclass(frozen=True)
class Transcript:
    """A connection.

    Attributes:
        lines: its messages; wal: where it was sent as it is, its place and its bytes.
    """

    lines: tuple[str, ...]
    wal: tuple[int, bytes] | None = None

    @property
    def application(self) -> str:
        """The name that the client has given."""
        matches = filter(None, map(_APPLICATION.match, self.lines))
        return next((match[1] for match in matches), "")


def transcript_of(recording: Recording) -> Transcript:
    """Return the transcript of a connection."""
    lines: list[str] = []
    stream: _Stream | None = None
    command, wal = b"", None
    for message in recording.messages:
        command = message.body if message.kind == "Q" else command
        if stream is not None:
            stream.take(message)
            wal = stream.wal or wal
            if message.kind == "Z":
                lines += stream.lines()
                stream = None
        elif message.kind == CLOSED and lines[-1].startswith("B E b'SFATAL'"):
            break  # both sides end the connection then: who is the first is chance
        else:
            lines.append(_line(message))
            if message.kind == "C":
                _sort_rows(lines, command)
            stream = _Stream(b"LOGICAL" not in command) if message.kind == "W" else None
    return Transcript(tuple(_in_order([*lines, *(stream.lines() if stream is not None else ())])), wal)


class _Stream:
    """A stream of replication, whose sides are sequences of their own."""

    def __init__(self, is_physical: bool) -> None:
        self._is_physical = is_physical
        self._sides: dict[str, list[str]] = {FRONTEND: [], BACKEND: []}
        self.wal: tuple[int, bytes] | None = None

    def take(self, message: Message) -> None:
        """Take the next message."""
        letter = message.body[:1] if message.kind == "d" else b""
        if letter == b"w" and self._is_physical:
            self._take_wal(message.body)
        elif letter == b"w":
            start, end = struct.unpack_from(">QQ", message.body, 1)
            self._sides[message.side].append(f"{message.side} w {start:X} {end:X} {message.body[25:]!r}")
        elif letter not in (b"k", b"r", b"h"):
            self._sides[message.side].append(_line(message))

    def lines(self) -> Iterator[str]:
        """Give what both have said; of a stream that has failed, what came before that is not the server's."""
        lines = self._sides[BACKEND]
        failure = next((i for i, line in enumerate(lines) if line.startswith("B E ")), 0)
        yield from lines[failure:]
        yield from self._sides[FRONTEND]

    def _take_wal(self, body: bytes) -> None:
        (start,) = struct.unpack_from(">Q", body, 1)
        begin, data = (start, b"") if self.wal is None else self.wal
        assert begin + len(data) == start
        self.wal = begin, data + body[25:]


def _line(message: Message) -> str:
    return f"{message.side} {message.kind} {_body(message)}".rstrip()


def _body(message: Message) -> str:
    kind, body = message.kind, message.body
    if kind == "R" or (kind == "p" and message.side == FRONTEND):
        return repr(_SECRETS.sub(rb"\1=<\1>", body))
    if kind == "K":
        return f"<process and key, {len(body)} bytes>"
    if kind in "EN":
        fields = (field for field in body.split(b"\0") if field and not _UNTOLD.match(field))
        return " ".join(repr(_named(field)) for field in fields)
    if kind == "D" and message.side == BACKEND:
        return repr([None if value is None else _named(value) for value in values_of(body)])
    if kind in ("d", ANSWERED, ASKED, CLOSED):
        return repr(body)
    return repr(_named(body))


def _named(text: bytes) -> bytes:
    for pattern, name in _NAMES:
        text = pattern.sub(name, text)
    return text


def _sort_rows(lines: list[str], command: bytes) -> None:
    """Sort the rows before the end of a command that does not order them."""
    first = len(lines) - 1
    while first and lines[first - 1].startswith("B D "):
        first -= 1
    if b"ORDER BY" not in command:
        lines[first:-1] = sorted(lines[first:-1])


def _in_order(lines: Iterable[str]) -> Iterator[str]:
    """Give the lines, each run of ParameterStatus sorted."""
    for is_status, run in groupby(lines, lambda line: line.startswith("B S ")):
        texts = list(run)
        yield from sorted(texts) if is_status else texts


def differences(theirs: Sequence[Recording], ours: Sequence[Recording]) -> list[str]:
    """Return the lines in which the connections of a client to two servers differ.

    Connections of a name are compared in their order; those that copy tables run side by side, and are sorted. One that
    came before the server had noticed that the one before it was gone is left out: the client comes again.
    """
    sides = [_by_application(recordings) for recordings in (theirs, ours)]
    lines: list[str] = []
    for name in sorted(sides[0].keys() | sides[1].keys()):
        server, service = ([line for transcript in side.get(name, ()) for line in transcript.lines] for side in sides)
        lines += difflib.unified_diff(server, service, f"server: {name}", f"service: {name}", lineterm="")
        pairs = zip(*(side.get(name, ()) for side in sides), strict=False)
        lines += [f"other WAL: {name}" for pair in pairs if not _is_same_wal(*(transcript.wal for transcript in pair))]
    return lines


def _is_same_wal(theirs: tuple[int, bytes] | None, ours: tuple[int, bytes] | None) -> bool:
    """Tell whether the same WAL was sent, up to where one of them has stopped: what follows is not asked for."""
    if theirs is None or ours is None:
        return theirs is ours
    common = min(len(theirs[1]), len(ours[1]))
    return (theirs[0], theirs[1][:common]) == (ours[0], ours[1][:common])


def _by_application(recordings: Iterable[Recording]) -> dict[str, list[Transcript]]:
    groups: dict[str, list[Transcript]] = defaultdict(list)
    for transcript in map(transcript_of, recordings):
        if not any(_IS_TAKEN in line for line in transcript.lines):
            groups[transcript.application].append(transcript)
    return {name: sorted(group, key=_lines) if "<" in name else group for name, group in groups.items()}


def _lines(transcript: Transcript) -> tuple[str, ...]:
    return transcript.lines
