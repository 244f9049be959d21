"""A server with databases of many encodings, what its plugins said to clients of many encodings, and what we say.

What is written comes in groups, each of which has slots of its own that begin where it does: a client that cannot have
one group's text gets the others'.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from psycopg import pq

from headwater import DecodeRequest
from headwater.demo.stream_comparison import first_difference, joined, messages_table
from headwater.errors import HeadwaterError, UsageError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import ServerPrograms, find_programs
from headwater.pg.encodings import MULE_INTERNAL, SQL_ASCII, UTF8, can_send
from headwater.pg.version import VERSIONS
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.slices.message_files import message_batches, message_schema
from headwater.plugins.api import PluginContext
from headwater.reorder.plan import Slice
from headwater.source.options import PARTITION_BYTES, SourceOptions
from headwater.source.source_plan import SourcePlan, plan_source
from oracle.streams import Options, PluginStop, format_lsn, parse_lsn, plugin_of
from packaged_servers import letting_name

STREAMS: dict[str, Options] = {
    "test_decoding": (("include-timestamp", "0"),),
    "pgoutput": (("proto_version", "1"), ("publication_names", "everything"), ("messages", "true")),
    "pgoutput, binary": (
        ("proto_version", "1"),
        ("publication_names", "everything"),
        ("binary", "true"),
        ("messages", "true"),
    ),
}
JSON_STREAMS: dict[str, Options] = {"wal2json": (), "wal2json, objects": (("format-version", "2"),)}
"""Of the server that has this plugin."""
COMMON_CLIENTS = ("UTF8", "LATIN1", "SJIS", "EUC_JP", "SQL_ASCII")

NAMES = """
CREATE SCHEMA "{word}";
CREATE TYPE "{word}".mood AS ENUM ('{word}', 'plain');
CREATE TABLE "{word}"."{word}" (id int PRIMARY KEY, "{word}" "{word}".mood, note text);
INSERT INTO "{word}"."{word}" VALUES (1, '{word}', 'plain'), (2, 'plain', NULL);
UPDATE "{word}"."{word}" SET id = 3 WHERE id = 1;
TRUNCATE "{word}"."{word}";
"""
LABELS = """
CREATE TYPE mood{group} AS ENUM ('{word}', 'plain');
CREATE TABLE labels{group} (id int PRIMARY KEY, m mood{group}, hidden text);
INSERT INTO labels{group} VALUES (1, 'plain', 'x'), (2, '{word}', 'x');
"""
VALUES = """
CREATE TYPE pair{group} AS (number int, word text);
CREATE TABLE texts{group} (
  id int PRIMARY KEY, t text, v varchar(40), b char(20), n name, x xml, j json, jb jsonb, list text[], p pair{group},
  d tsvector, q tsquery, r textrange, path jsonpath, raw bytea, c "char");
ALTER TABLE texts{group} REPLICA IDENTITY FULL;
INSERT INTO texts{group} (id, t) VALUES (1, 'plain');
INSERT INTO texts{group} VALUES (2, '{word}', '{word}', '{word}', '{word}',
  '<?xml version="1.1" standalone="yes"?><a>{word}</a>', '{{"{word}": "{word}"}}', '{{"a{word}": ["{word}"]}}',
  ARRAY['{word}', NULL, 'a "{word}"'], ROW(1, '{word}'), '''{word}'':1A plain', '''{word}'':* & plain',
  '["{word}","{word}"]', '$."{word}"', convert_to('{word}', 'SQL_ASCII'), 'c');
UPDATE texts{group} SET t = 'plain' WHERE id = 2;
CREATE TABLE documents{group} (x xml);
INSERT INTO documents{group} VALUES ('<a>{word}</a>');
"""
MESSAGES = """
SELECT pg_logical_emit_message(true, 'plain', '{word}');
SELECT pg_logical_emit_message(false, '{word}', 'plain');
"""
NO_TEXT = """
CREATE TABLE bytes{group} (id int PRIMARY KEY, t text);
INSERT INTO bytes{group} VALUES (1, 'plain'), (2, E'a\\xff\\xfe');
"""
SCRIPTS = (NAMES, LABELS, VALUES, MESSAGES)


@dataclass(frozen=True)
class Database:
    """A database of an encoding.

    Attributes:
        encoding: its.
        words: what is written, each in groups of its own.
        clients: encodings that are asked for, beside those that always are.
        writer: encoding of the session that writes.
    """

    encoding: str
    words: tuple[str, ...]
    clients: tuple[str, ...] = ()
    writer: str = "UTF8"

    @property
    def name(self) -> str:
        """The database's name."""
        return self.encoding.lower()

    @property
    def all_clients(self) -> tuple[str, ...]:
        """The encodings that are asked for, the database's own among them."""
        return tuple(dict.fromkeys((*COMMON_CLIENTS, self.encoding, *self.clients)))


DATABASES = {
    database.encoding: database
    for database in (
        Database(
            "UTF8",
            ("Táblaÿ", "表テーブル、", "か゚と😀", "Привет"),
            ("EUC_JIS_2004", "SHIFT_JIS_2004", "GB18030", "KOI8R"),
        ),
        Database("LATIN1", ("Táblaÿ",), ("MULE_INTERNAL", "LATIN2")),
        Database("LATIN2", ("Zażółć",), ("WIN1250",)),
        Database("LATIN9", ("Œuvre€",)),
        Database("WIN1252", ("Œuvre€",)),
        Database("EUC_JP", ("表テーブル、", "ﾊﾝｶｸ丂"), ("MULE_INTERNAL",)),
        Database("EUC_JIS_2004", ("か゚表",), ("SHIFT_JIS_2004",)),
        Database("EUC_KR", ("한국어",), ("UHC",)),
        Database("EUC_CN", ("中文",), ("GB18030",)),
        Database("EUC_TW", ("中文",), ("BIG5",)),
        Database("KOI8R", ("Привет",), ("WIN1251", "WIN866")),
        Database("SQL_ASCII", ("Tábla", "表"), ("BIG5", "GB18030", "MULE_INTERNAL")),
        Database("MULE_INTERNAL", ("Táblaÿ",), ("LATIN2",), writer="LATIN1"),
    )
}


def has_encoding(major: int, encoding: str) -> bool:
    """Tell whether databases of a major version can have an encoding."""
    return encoding != MULE_INTERNAL or VERSIONS[major].has_mule_internal


@dataclass(frozen=True)
class Said:
    """The answer of a plugin about a group.

    Attributes:
        start, end: LSNs between which it lies.
        messages: lsn, xid, data as bytes.
        error: what the server said instead.
    """

    start: int
    end: int
    messages: pa.Table
    error: PluginStop | None = None


class EncodedDatabases:
    """A stopped server with one database per encoding, and what its plugins said.

    Args:
        major: the server's.
        directory: for its files.
        encodings: of which databases there are.
        clients: encodings that are asked for, None for all.
        streams: what is asked for.
        programs: the installation, where it has a plugin that no other one has.
    """

    def __init__(
        self,
        major: int,
        directory: Path,
        encodings: Sequence[str],
        clients: Mapping[str, Sequence[str]] | None = None,
        streams: Mapping[str, Options] = STREAMS,
        programs: ServerPrograms | None = None,
    ) -> None:
        self.major = major
        self.streams = streams
        self.databases = [DATABASES[encoding] for encoding in encodings if has_encoding(major, encoding)]
        self.expected: dict[tuple[str, str, str], list[Said]] = {}
        self._plans: dict[tuple[str, str], PlannedStream] = {}
        settings = {"max_replication_slots": "1000", "max_connections": "20"}
        plugins = list(dict.fromkeys(map(plugin_of, streams)))
        if programs is None:
            programs = find_programs(major, plugin=plugins[0])
        else:
            settings |= letting_name(programs, plugins[0])
        with EmbeddedPostgres(programs, settings, autovacuum=False, wal_segment_megabytes=4) as server:
            for database in self.databases:
                _make(server, database)
            server.stop()
            self.backup = server.copy_data_directory(directory / "backup")
            server.start()
            spans = {database.encoding: _write(server, database, plugins) for database in self.databases}
            for database in self.databases:
                for client in database.all_clients if clients is None else clients[database.encoding]:
                    self._ask(server, database, client, spans[database.encoding])
            server.stop()
            self.wal = Path(shutil.copytree(server.wal_directory, directory / "pg_wal"))

    def _ask(
        self, server: EmbeddedPostgres, database: Database, client: str, spans: Sequence[Mapping[str, tuple[int, int]]]
    ) -> None:
        """Ask all plugins what they say to one client."""
        for stream, options in self.streams.items():
            plugin = plugin_of(stream)
            kind = "_binary" if plugin == "pgoutput" else ""
            answers = []
            for group, span in enumerate(spans):
                start, end = span[plugin]
                call = (
                    f"pg_logical_slot_peek{kind}_changes('{database.name}_{plugin}_{group}', '{format_lsn(end)}', NULL"
                )
                words = "".join(f", '{word}'" for option in options for word in option)
                query = f"SELECT lsn::text, xid::text, data FROM {call}{words})"
                answers.append(Said(start, end, *_asked(server, database.name, client, query)))
            self.expected[database.encoding, client, stream] = answers

    def request(self, database: str, client: str, stream: str, start: int, end: int) -> DecodeRequest:
        """Make the request of a client."""
        settings = (("client_encoding", client),)
        options = self.streams[stream]
        names = str(self.wal), str(self.backup), database.lower(), plugin_of(stream)
        return DecodeRequest(*names, options, start, end, settings=settings)

    def ours(self, database: str, client: str, stream: str) -> list[pa.Table | HeadwaterError]:
        """Decode each group: messages, or an error.

        All are planned at once, and cut so small that an error is of one group.
        """
        expected = self.expected[database, client, stream]
        try:
            plan = self._plan(database, stream).for_client(client)
        except UsageError as error:
            return [error] * len(expected)
        pieces = [_piece(plan.decoder, part) for part in plan.slices]
        return [_joined_pieces(pieces, answer.start, answer.end) for answer in expected]

    def _plan(self, database: str, stream: str) -> PlannedStream:
        if (database, stream) not in self._plans:
            client = next(
                client for encoding, client, _ in self.expected if encoding == database and can_send(encoding, client)
            )
            expected = self.expected[database, client, stream]
            request = self.request(database, client, stream, expected[0].start, expected[-1].end)
            self._plans[database, stream] = PlannedStream(plan_source(SourceOptions(request, (), 1)), request)
        return self._plans[database, stream]


@dataclass(frozen=True)
class PlannedStream:
    """A stream that was planned for one client."""

    plan: SourcePlan
    request: DecodeRequest

    def for_client(self, client: str) -> SourcePlan:
        """Plan the same for another client."""
        decoder = self.plan.decoder
        session = replace(decoder.session, client_encoding=client)
        plugin = type(decoder.plugin)(self.request.options, PluginContext(session.major, session))
        return replace(self.plan, decoder=replace(decoder, session=session, plugin=plugin))


Piece: TypeAlias = "pa.Table | HeadwaterError"


def _piece(decoder: SliceDecoder, plan: Slice) -> Piece:
    try:
        batches = list(message_batches(decoder.messages(plan), is_text=False))
    except HeadwaterError as error:
        return error
    return joined([pa.Table.from_batches(batches, message_schema(False))])


def _joined_pieces(pieces: Sequence[Piece], start: int, end: int) -> Piece:
    """Join the pieces of a group; the first error, if there is any."""
    within = []
    for piece in pieces:
        lsn = piece.lsn if isinstance(piece, HeadwaterError) else piece.column("lsn")[0].as_py() if len(piece) else None
        if lsn is not None and start <= lsn <= end:
            if isinstance(piece, HeadwaterError):
                return piece
            within.append(piece)
    return joined(within)


def decoded_here(request: DecodeRequest) -> pa.Table:
    """Decode our messages in this process."""
    plan = plan_source(SourceOptions(request, (), PARTITION_BYTES))
    batches = [batch for part in plan.slices for batch in message_batches(plan.decoder.messages(part), is_text=False)]
    return joined([pa.Table.from_batches(batches, message_schema(False))])


def _asked(server: EmbeddedPostgres, database: str, client: str, query: str) -> tuple[pa.Table, PluginStop | None]:
    """Ask for messages, or an error; by libpq itself, as psycopg does not know all encodings."""
    words = {**server.connection_info(database), "client_encoding": client}
    connection = pq.PGconn.connect(" ".join(f"{name}='{word}'" for name, word in words.items()).encode())
    try:
        if connection.status != pq.ConnStatus.OK:
            refused = re.search(r"FATAL: +(.*)", connection.error_message.decode())
            assert refused is not None, connection.error_message
            return messages_table(()), PluginStop(refused[1], None)
        result = connection.exec_params(query.encode(), None, result_format=1)
        if result.status != pq.ExecStatus.TUPLES_OK:
            message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
            place = re.search(
                r"associated LSN ([0-9A-F/]+)", (result.error_field(pq.DiagnosticField.CONTEXT) or b"").decode()
            )
            return messages_table(()), PluginStop(message.decode(), parse_lsn(place[1]) if place else None)
        rows = [[result.get_value(row, column) or b"" for column in range(3)] for row in range(result.ntuples)]
        return messages_table((parse_lsn(lsn.decode()), int(xid), bytes(data)) for lsn, xid, data in rows), None
    finally:
        connection.finish()


def _run(server: EmbeddedPostgres, database: Database, *statements: str) -> None:
    with server.connect(database.name, client_encoding=database.writer) as connection:
        for statement in statements:
            connection.execute(statement)


def _make(server: EmbeddedPostgres, database: Database) -> None:
    options = f"ENCODING '{database.encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {database.name} {options}".encode())
    _run(
        server,
        database,
        "CREATE PUBLICATION everything FOR ALL TABLES",
        "CREATE TYPE textrange AS RANGE (subtype = text)",
    )


def _write(server: EmbeddedPostgres, database: Database, plugins: Sequence[str]) -> list[dict[str, tuple[int, int]]]:
    """Write all groups; of each where its slots begin, by plugin, and where it ends."""
    spans = []
    # The server reads xml and json by way of UTF8, to which it does not convert everything.
    possible = [script for script in SCRIPTS if script is not VALUES or can_send(database.encoding, UTF8)]
    scripts = [(script, word) for word in database.words for script in possible]
    scripts += [(NO_TEXT, "")] if database.encoding == SQL_ASCII else []
    for group, (script, word) in enumerate(scripts):
        with server.connect(database.name, client_encoding=database.writer) as connection:
            starts = {}
            for plugin in plugins:
                make = f"pg_create_logical_replication_slot('{database.name}_{plugin}_{group}', '{plugin}')"
                row = connection.execute(f"SELECT lsn::text FROM {make}".encode()).fetchone()
                assert row is not None
                starts[plugin] = parse_lsn(row[0])
            for statement in script.format(word=word, group=group).split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            assert row is not None
            spans.append({plugin: (start, parse_lsn(row[0])) for plugin, start in starts.items()})
    return spans


def described(answer: Said, database: str, client: str, stream: str) -> str:
    """Describe an answer for a failure."""
    return f"{stream} of {database} for {client}, {format_lsn(answer.start)} to {format_lsn(answer.end)}"


def check(databases: EncodedDatabases, database: str, client: str, stream: str) -> tuple[int, int]:
    """Compare all groups; return how many were sent, and how many refused."""
    sent = refused = 0
    expected = databases.expected[database, client, stream]
    for answer, ours in zip(expected, databases.ours(database, client, stream), strict=True):
        place = described(answer, database, client, stream)
        if answer.error is not None:
            assert isinstance(ours, HeadwaterError), (place, answer.error)
            assert answer.error.is_same(ours), (place, answer.error, ours)
            refused += 1
            continue
        assert not isinstance(ours, HeadwaterError), (place, ours)
        assert first_difference(answer.messages, ours) is None, (place, first_difference(answer.messages, ours))
        assert len(answer.messages) > 1
        sent += 1
    return sent, refused
