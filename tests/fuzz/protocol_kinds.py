"""Mutated messages of both sides of the replication protocol, against what takes them apart: no server, no WAL."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from fuzz.corpus import Corpus
from fuzz.kinds import Kind
from fuzz.mutations import Field, changed
from headwater.base.overrides import override
from headwater.pg.version import VERSIONS, Version
from headwater.protocol.frontend_messages import HEADER, BrokenMessageError, body_length, text_of
from headwater.protocol.replication_commands import parse_command
from headwater.protocol.replication_messages import (
    keepalive,
    parse_client_message,
    parse_message,
    status_update,
    wal_data,
)
from headwater.protocol.scram import SALT_BYTES, Verifier
from headwater.protocol.startup import (
    LEAST_PACKET,
    MOST_PACKET,
    StartupMessage,
    negotiated,
    parse_first_packet,
    session_request,
)
from headwater.walsender.access.authentication import Access, Granted, Pending
from headwater.walsender.access.host_rules import parse_rules
from headwater.walsender.access.peer import Peer
from headwater.walsender.access.users import User, Users
from headwater.walsender.queries.grammar import parse_statements
from headwater.walsender.sessions.session_settings import ClientSettings
from headwater.walsender.sql.copy_shapes import parse_copy

_ALL = tuple(VERSIONS.values())
_NUMBERS: tuple[Field, ...] = ((0, 4), (4, 4), (8, 4), (1, 2), (5, 2))


def startup_packet(*texts: str, code: int = 3 << 16) -> bytes:
    """Return the body of a start-up packet of names and values."""
    return struct.pack(">I", code) + b"".join(text.encode() + b"\0" for text in texts) + b"\0"


PACKETS = (
    startup_packet("user", "postgres", "database", "shop", "replication", "database"),
    startup_packet("user", "x", "options", "-c datestyle=ISO --a=b\\ c", "_pq_.nothing", "", code=3 << 16 | 2),
    startup_packet("user", "x", "replication", "true", "client_encoding", "UTF8", "application_name", "a\u00e9"),
    *(struct.pack(">I", code) for code in (80877103, 80877104)),
    struct.pack(">IIII", 80877102, 1, 2, 3),
)

COMMANDS = (
    "IDENTIFY_SYSTEM",
    "SHOW data_directory_mode",
    "TIMELINE_HISTORY 2;",
    "BASE_BACKUP ( LABEL 'x', PROGRESS, CHECKPOINT 'fast', WAL, MANIFEST 'yes', TARGET 'client')",
    "BASE_BACKUP LABEL 'x' PROGRESS FAST WAL NOWAIT MAX_RATE 100 TABLESPACE_MAP",
    "READ_REPLICATION_SLOT s",
    'CREATE_REPLICATION_SLOT "S""x" TEMPORARY LOGICAL pgoutput (SNAPSHOT \'use\', TWO_PHASE, FAILOVER true)',
    "CREATE_REPLICATION_SLOT s LOGICAL test_decoding EXPORT_SNAPSHOT TWO_PHASE",
    "CREATE_REPLICATION_SLOT s PHYSICAL RESERVE_WAL",
    "ALTER_REPLICATION_SLOT s (FAILOVER false, TWO_PHASE 'on')",
    "DROP_REPLICATION_SLOT s WAIT",
    "START_REPLICATION SLOT s LOGICAL 0/16B3748 (proto_version '4', publication_names '\"a\",\"b\"', x)",
    "START_REPLICATION SLOT s PHYSICAL 1/0 TIMELINE 3",
    "START_REPLICATION 0/0",
    "UPLOAD_MANIFEST",
)
STATEMENTS = (
    "SELECT 'a;b', \"c;d\" -- e;f\n; /* g;h */ COMMIT",
    'COPY public.t (a, "B") TO STDOUT WITH (FORMAT binary)',
    "COPY (SELECT a FROM ONLY s.t WHERE (a > 2) OR (b = ')')) TO STDOUT",
    "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ",
)
SETTINGS = (
    *(("DateStyle", "ISO, DMY"), ("TimeZone", "Europe/Berlin"), ("IntervalStyle", "iso_8601")),
    *(("extra_float_digits", "-15"), ("bytea_output", "hex"), ("client_encoding", "LATIN1")),
    *(("wal_sender_timeout", "1.5min"), ("statement_timeout", "0x10 s"), ("logical_decoding_work_mem", "64MB")),
    *(("search_path", '"$user", public'), ("application_name", "x"), ("lc_monetary", "de_DE.UTF-8"), ("a.b", "c")),
)


class _Messages(Kind):
    """A kind that needs nothing but what it is made of."""

    @override
    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._verifier = Verifier.make(b"open sesame", bytes(SALT_BYTES), 2)


class StartupPackets(_Messages):
    """Packets that come before anything else."""

    name, share = "start-up packets", 2

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        body, version = changed(rng, rng.choice(PACKETS), _NUMBERS), rng.choice(_ALL)
        if not LEAST_PACKET <= len(body) <= MOST_PACKET:
            return "too short or too long"
        asks = {"may_ask_ssl": rng.random() < 0.5, "may_ask_gss": rng.random() < 0.5}
        try:
            packet = parse_first_packet(body, version, **asks)
        except BrokenMessageError:
            return "no packet"
        if not isinstance(packet, StartupMessage):
            return "a request"
        negotiated(packet, version)
        session = session_request(packet)
        assert session.user
        return "a session"


class FrontendMessages(_Messages):
    """Messages of a session: header and body."""

    name, share = "messages of clients", 2

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        body = rng.choice((b"SELECT 1\0", b"\xc3\xa9\0", b"", b"\0", rng.randbytes(rng.randrange(40))))
        message = changed(rng, HEADER.pack(rng.choice((b"Q", b"d", b"p", b"X", b"F")), len(body) + 4) + body, ((1, 4),))
        if len(message) < HEADER.size:
            return "too short"
        kind, length = HEADER.unpack_from(message)
        try:
            size = body_length(kind, length)
        except BrokenMessageError:
            return "no length"
        assert 0 <= size < 1 << 30
        text_of(message[HEADER.size :][:size], rng.choice(("UTF8", "LATIN1", "SJIS", "SQL_ASCII")))
        return "a text"


class ReplicationCommands(_Messages):
    """Commands of replication, and statements of SQL."""

    name, share = "commands", 4

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        text = changed(rng, rng.choice((*COMMANDS, *STATEMENTS)).encode()).decode("utf-8", "surrogateescape")
        if rng.random() < 0.3:
            words = text.split(" ")
            rng.shuffle(words)
            text = " ".join(words)
        parse_copy(text)
        if parse_command(text, rng.choice(_ALL)) is not None:
            return "a command"
        parse_statements(text)
        return "SQL"


class Settings(_Messages):
    """Settings that a client changes, and what they are then."""

    name, share = "settings", 2

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        version = rng.choice(_ALL)
        settings = ClientSettings(version, "UTF8", {}, {"server_version": "18.1"})
        name, value = rng.choice(SETTINGS)
        name = name if rng.random() < 0.8 else _text(rng, name)
        settings.set(name, _text(rng, value))
        assert isinstance(settings.show(name)[1], str)
        settings.session()
        return "set"


def _text(rng: random.Random, text: str) -> str:
    return changed(rng, text.encode()).decode("utf-8", "surrogateescape")


class ScramMessages(_Messages):
    """Logins by SCRAM, each message mutated or not."""

    name, share = "logins", 3

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        binding = rng.choice((None, bytes(32)))
        state: Pending | Granted = self._access(rng.choice(_ALL), binding).begin(
            session_request(StartupMessage(0, {"user": rng.choice(("user", "nobody")), "replication": "database"})),
            Peer("192.0.2.1", is_encrypted=rng.random() < 0.5),
        )
        bare = b"n=,r=fyko+d2lbbFgONRv9qkxdawL"
        first = rng.choice((b"n,,", b"y,,", b"p=tls-server-end-point,,")) + bare
        mechanism = rng.choice((b"SCRAM-SHA-256", b"SCRAM-SHA-256", b"SCRAM-SHA-256-PLUS"))
        bodies = [
            mechanism + b"\0" + struct.pack(">i", len(first)) + first,
            b"c=biws,r=fyko+d2lbbFgONRv9qkxdawLnonce,p=" + b"A" * 43 + b"=",
        ]
        for body in bodies:
            assert isinstance(state, Pending), "let in without a proof"
            body = changed(rng, body) if rng.random() < 0.5 else body
            state.check_header(b"p", len(body) + 4)
            state = state.step(b"p", body)
        assert isinstance(state, Pending), "let in without a proof"
        return "goes on"

    def _access(self, version: Version, binding: bytes | None) -> Access:
        rules = parse_rules("host all,replication all all scram-sha-256", "rules")
        users = Users({"user": User("user", self._verifier)}, bytes(32))
        return Access(rules, users, version, binding=binding, nonce=lambda: b"nonce")


def client_message(data: bytes) -> object:
    """Parse a client's message as 19 does, which knows most kinds."""
    return parse_client_message(data, VERSIONS[19])


class StreamMessages(_Messages):
    """Messages of a stream, of both sides."""

    name, share = "messages of streams", 2

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        samples: tuple[tuple[Callable[[bytes], object], bytes], ...] = (
            (client_message, status_update(1, 2, 3, True)),
            (client_message, b"h" + bytes(24)),
            (client_message, b"p" + bytes(8)),
            (parse_message, keepalive(7, False)),
            (parse_message, wal_data(1 << 40, 1 << 41, b"record")),
        )
        parse, message = rng.choice(samples)
        try:
            return type(parse(changed(rng, message, ((1, 8), (9, 8), (17, 8))))).__name__
        except BrokenMessageError:
            return "no message"


KINDS: list[type[Kind]] = [
    *(StartupPackets, FrontendMessages, ReplicationCommands, Settings, ScramMessages, StreamMessages),
]
