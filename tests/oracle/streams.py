"""Questions to the server's own output plugins, and what they answered.

A stream is one plugin with some options over one window. All streams of a run are peeked at over the same slots, one
for each plugin, so that none moves on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from numpy.typing import NDArray
from psycopg.types.string import ByteaBinaryLoader

from headwater.demo.stream_comparison import messages_table
from headwater.errors import HeadwaterError

Options = tuple[tuple[str, str], ...]
Int64s = NDArray[np.int64]

SETTINGS: Options = (("timezone", "America/St_Johns"), ("bytea_output", "escape"))


def _published(names: str, *more: tuple[str, str]) -> Options:
    return (("proto_version", "1"), ("publication_names", names), *more)


TEST_DECODING: dict[str, Options] = {
    "test_decoding": (),
    "test_decoding, no empty transactions": (("include-xids", "0"), ("skip-empty-xacts", "1")),
    "test_decoding, more": (("include-timestamp", "1"), ("include-rewrites", "1"), ("only-local", "1")),
}
PGOUTPUT: dict[str, Options] = {
    "pgoutput, all": _published("pub_all", ("messages", "true")),
    "pgoutput, lists": _published("pub_list,pub_some", ("messages", "on")),
    "pgoutput, some": _published("pub_some"),
    "pgoutput, binary": _published("pub_all", ("binary", "true"), ("messages", "true")),
}
TWO_PHASE = "two-phase"
"""What is in the names of streams whose slots decode prepared transactions at PREPARE."""

TWO_PHASE_TEST_DECODING: dict[str, Options] = {
    f"test_decoding, {TWO_PHASE}": (),
    f"test_decoding, {TWO_PHASE}, no empty transactions": (
        ("skip-empty-xacts", "1"),
        ("include-xids", "0"),
        ("include-timestamp", "1"),
    ),
}
TWO_PHASE_PGOUTPUT: dict[str, Options] = {
    f"pgoutput, {TWO_PHASE}": (
        ("proto_version", "3"),
        ("publication_names", "pub_all"),
        ("messages", "true"),
        ("two_phase", "on"),
    ),
    f"pgoutput, {TWO_PHASE}, some": (
        ("proto_version", "3"),
        ("publication_names", "pub_some"),
        ("messages", "true"),
        ("two_phase", "on"),
    ),
}
TWO_PHASE_PGOUTPUT_SINCE = 15
"""The first major whose pgoutput decodes prepared transactions at PREPARE."""

TAKEN_TWO_PHASE = (f"test_decoding, {TWO_PHASE}", f"pgoutput, {TWO_PHASE}")
"""Streams of these for which slots are asked amid a script, while what is prepared is so still."""

STREAMED = "streamed"
"""What is in the names of streams that walsenders tell of transactions in progress."""

STREAMED_LIMIT: Options = (("logical_decoding_work_mem", "64kB"),)
"""The setting of these walsenders' sessions."""

_STREAMED_MESSAGES: Options = (("publication_names", "pub_all"), ("messages", "true"))
STREAMED_STREAMS: dict[str, Options] = {
    f"test_decoding, {STREAMED}": (("stream-changes", "1"),),
    f"test_decoding, {STREAMED}, {TWO_PHASE}": (("stream-changes", "1"), ("skip-empty-xacts", "1")),
    f"pgoutput, {STREAMED}": (("proto_version", "2"), *_STREAMED_MESSAGES, ("streaming", "on")),
    f"pgoutput, {STREAMED}, {TWO_PHASE}": (
        ("proto_version", "3"),
        *_STREAMED_MESSAGES,
        ("streaming", "on"),
        ("two_phase", "on"),
    ),
    f"pgoutput, {STREAMED} in parallel": (
        ("proto_version", "4"),
        *_STREAMED_MESSAGES,
        ("streaming", "parallel"),
        ("binary", "true"),
    ),
}
PARALLEL_SINCE = 16
"""The first major whose pgoutput streams in parallel."""

NO_ORIGIN = "pgoutput, no origin"
NO_ORIGIN_SINCE = 16
"""The first major whose pgoutput has the option ``origin``."""
RANDOM_PGOUTPUT: dict[str, Options] = {
    **PGOUTPUT,
    "pgoutput, columns": _published("pub_columns"),
    "pgoutput, schemas": _published("pub_schemas,pub_root"),
    "pgoutput, root": _published("pub_root", ("messages", "true")),
    "pgoutput, generated": _published("pub_generated"),
    "pgoutput, swapped": _published("pub_swapped"),
    "pgoutput, contradicting": _published("pub_columns,pub_list"),
}
"""Streams of the publications that only random workloads have."""

RANDOM_PUBLICATIONS = (
    "pub_all",
    "pub_list,pub_some",
    "pub_some",
    "pub_columns",
    "pub_schemas,pub_root",
    "pub_root",
) + (
    "pub_generated",
    "pub_swapped",
    "pub_schemas,pub_swapped,pub_some",
    "pub_generated,pub_root",
)
"""Publications for which options are drawn."""

_ALL_FIELDS: Options = tuple(
    (f"include-{name}", "1")
    for name in ("xids", "timestamp", "origin", "lsn", "type-oids", "not-null", "column-positions", "pk")
)
_OBJECTS = ("format-version", "2")
WAL2JSON: dict[str, Options] = {
    "wal2json": (),
    "wal2json, objects": (_OBJECTS,),
    "wal2json, pretty": (("pretty-print", "1"), *_ALL_FIELDS),
    "wal2json, objects with all": (_OBJECTS, *_ALL_FIELDS),
    "wal2json, chunks": (("write-in-chunks", "1"), ("include-pk", "1"), ("include-typmod", "0")),
    "wal2json, domains": (("include-domain-data-type", "1"), ("include-type-oids", "1"), ("filter-origins", "1, 3")),
    "wal2json, actions": (("actions", "insert,update"), ("include-types", "0"), ("include-not-null", "1")),
    "wal2json, chosen": (
        *(_OBJECTS, ("include-transaction", "0"), ("include-domain-data-type", "1"), ("include-types", "0")),
        *(("filter-tables", "*.t"), ("add-tables", "public.*,*.u, *.orders"), ("add-msg-prefixes", "a,b,prefix")),
    ),
}
"""Streams of wal2json, of which Debian has a package for 15 (``make wal2json``)."""

OTHER_SETTINGS = "test_decoding, other settings"
UP_TO = "test_decoding, up to"


@dataclass(frozen=True)
class PluginStop:
    """An error with which a plugin of the server stopped.

    Attributes:
        message: the server's primary message.
        lsn: of the change at which it stopped, None if at none.
    """

    message: str
    lsn: int | None

    def is_same(self, error: HeadwaterError) -> bool:
        """Tell whether an error of ours says the same of the same change."""
        return self.message in str(error) and self.lsn in (None, error.lsn)


@dataclass(frozen=True)
class Stream:
    """The answer of one plugin with some options.

    Attributes:
        name: for people.
        plugin: the plugin's name.
        options: as given to the server's function.
        start: the slot's ``confirmed_flush_lsn``.
        end: ``upto_lsn``, or None.
        settings: of the session that asked, where they are not the defaults.
        messages: lsn, xid and data in order; data as bytes, as a text plugin may print a message's raw bytes.
        error: with which the plugin stopped, None if it did not; then the messages are those of the transactions
            before, if they were asked for, and else none.
        said_to: end of the record before the commit of the transaction that a plugin stopped at, None if it did not or
            before any commit: up to there it has no error.
    """

    name: str
    plugin: str
    options: Options
    start: int
    end: int | None
    settings: Options
    messages: pa.Table
    error: PluginStop | None = None
    said_to: int | None = None

    @property
    def two_phase(self) -> bool:
        """Whether prepared transactions are decoded at PREPARE."""
        return TWO_PHASE in self.name


def slot_name(stream: str) -> str:
    """Name the slot that a stream is peeked at over, which it shares with others."""
    return f"oracle_{plugin_of(stream)}" + ("_two_phase" if TWO_PHASE in stream else "")


SLOTS = tuple(f"{plugin}{more}" for more in ("", f", {TWO_PHASE}") for plugin in ("test_decoding", "pgoutput"))
"""A stream of each slot; those that decode prepared transactions at PREPARE last."""


def two_phase_of(major: int) -> dict[str, Options]:
    """Return the streams for which prepared transactions are decoded at PREPARE."""
    pgoutput = TWO_PHASE_PGOUTPUT if major >= TWO_PHASE_PGOUTPUT_SINCE else {}
    return TWO_PHASE_TEST_DECODING | pgoutput


def pgoutput_of(major: int) -> dict[str, Options]:
    """Return the streams of pgoutput that scenarios are asked for on a major."""
    local = {NO_ORIGIN: _published("pub_all", ("origin", "none"), ("messages", "true"))}
    return PGOUTPUT | local if major >= NO_ORIGIN_SINCE else PGOUTPUT


def newest_streaming(major: int) -> Options:
    """Return the options by which a major's newest protocol is asked for transactions in progress."""
    if major < PARALLEL_SINCE:
        return ("proto_version", "3" if major >= TWO_PHASE_PGOUTPUT_SINCE else "2"), ("streaming", "on")
    return ("proto_version", "4"), ("streaming", "parallel")


def plugin_of(name: str) -> str:
    """Return the plugin of a stream."""
    return name.partition(",")[0]


def options_of(name: str) -> Options:
    """Return the options of a stream that is asked under default settings."""
    return (TEST_DECODING | RANDOM_PGOUTPUT | TWO_PHASE_TEST_DECODING | TWO_PHASE_PGOUTPUT | WAL2JSON)[name]


def is_said_by(name: str, major: int) -> bool:
    """Tell whether the plugins of a major can be asked for a stream."""
    two_phase = (*TWO_PHASE_PGOUTPUT, f"pgoutput, {STREAMED}, {TWO_PHASE}")
    since = {NO_ORIGIN: NO_ORIGIN_SINCE, **dict.fromkeys(two_phase, TWO_PHASE_PGOUTPUT_SINCE)}
    since[f"pgoutput, {STREAMED} in parallel"] = PARALLEL_SINCE
    return since.get(name, 0) <= major


def parse_lsn(text: str) -> int:
    """Parse ``X/Y`` into bytes."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def format_lsn(lsn: int) -> str:
    """Format bytes as ``X/Y``."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def peek_all(
    connection: psycopg.Connection[Any],
    starts: Mapping[str, int],
    pgoutput: Mapping[str, Options],
    two_phase: Mapping[str, Options],
    *,
    middle: int | None = None,
    end: int | None = None,
) -> dict[str, Stream]:
    """Peek at all streams of a run; return them by name.

    Args:
        connection: its session's settings are changed.
        starts: of each slot, by its name.
        pgoutput: streams of that plugin; two_phase: streams of slots that decode prepared transactions at PREPARE.
        middle: where the stream that is named ``UP_TO`` ends, if there is to be one.
        end: where the others end.
    """
    asked = TEST_DECODING | dict(pgoutput) | dict(two_phase) | WAL2JSON
    streams = [
        _peek(connection, starts, name, plugin_of(name), options, end=end)
        for name, options in asked.items()
        if slot_name(name) in starts
    ]
    if slot_name(OTHER_SETTINGS) not in starts:
        return {stream.name: stream for stream in streams}
    for setting, value in SETTINGS:
        connection.execute(f"SET {setting} = '{value}'".encode())
    options: Options = (("include-timestamp", "1"),)
    streams.append(_peek(connection, starts, OTHER_SETTINGS, "test_decoding", options, end=end, settings=SETTINGS))
    if middle is not None:
        connection.execute("RESET ALL")
        streams.append(_peek(connection, starts, UP_TO, "test_decoding", (), end=middle))
    return {stream.name: stream for stream in streams}


def with_what_came_before(
    connection: psycopg.Connection[Any], streams: Mapping[str, Stream], records: Int64s
) -> dict[str, Stream]:
    """Return the same; those that stopped with an error also have what they said of the transactions before.

    Args:
        connection: of those who were asked.
        streams: of a run, one named test_decoding among them, which has no error.
        records: int64[n] ends of the run's records.
    """
    shown = streams["test_decoding"].messages
    return {name: _before_its_error(connection, stream, shown, records) for name, stream in streams.items()}


def _before_its_error(connection: psycopg.Connection[Any], stream: Stream, shown: pa.Table, records: Int64s) -> Stream:
    if stream.error is None or stream.error.lsn is None:
        return stream
    lsns, xids = (shown.column(name).to_numpy() for name in ("lsn", "xid"))
    # The last message of a transaction is its commit's, at the end of the record; where another one's change may begin.
    xid = xids[np.flatnonzero(lsns == stream.error.lsn)[-1]]
    commit_end = lsns[np.flatnonzero(xids == xid)[-1]]
    said_to = int(records[np.searchsorted(records, commit_end) - 1])
    if said_to <= stream.start:
        return stream
    before = _peek(
        connection, {slot_name(stream.name): stream.start}, stream.name, stream.plugin, stream.options, end=said_to
    )
    assert before.error is None, before.error
    return replace(stream, messages=before.messages, said_to=said_to)


def call_slot(
    connection: psycopg.Connection[Any], function: str, slot: str, end: int | None, options: Sequence[tuple[str, str]]
) -> tuple[pa.Table, PluginStop | None]:
    """Call one of the server's functions.

    Args:
        connection: its session, outside of a transaction.
        function: such as ``pg_logical_slot_peek_changes``.
        slot: the slot's name.
        end: ``upto_lsn``, or None.
        options: the plugin's.

    Returns:
        the messages; and the error with which the plugin stopped, if it did.
    """
    connection.adapters.register_loader("text", ByteaBinaryLoader)
    call = f"SELECT lsn::text, xid::text, data FROM {function}(%s, %s::pg_lsn, NULL, VARIADIC %s::text[])"
    limit = None if end is None else format_lsn(end)
    try:
        rows = connection.execute(
            call.encode(), [slot, limit, [part for option in options for part in option]], binary=True
        ).fetchall()
    except psycopg.Error as error:
        place = re.search(r"associated LSN ([0-9A-F/]+)", error.diag.context or "")
        return messages_table(()), PluginStop(error.diag.message_primary or "", parse_lsn(place[1]) if place else None)
    return messages_table((parse_lsn(lsn.decode()), int(xid), data) for lsn, xid, data in rows), None


def _peek(
    connection: psycopg.Connection[Any],
    starts: Mapping[str, int],
    name: str,
    plugin: str,
    options: Options,
    *,
    end: int | None = None,
    settings: Options = (),
) -> Stream:
    kind = "_binary" if plugin == "pgoutput" else ""
    function = f"pg_logical_slot_peek{kind}_changes"
    slot = slot_name(name)
    messages, error = call_slot(connection, function, slot, end, options)
    return Stream(name, plugin, options, starts[slot], end, settings, messages, error)
