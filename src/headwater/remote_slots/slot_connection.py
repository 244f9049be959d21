"""A connection to a logical slot of a server: what the slot is, whether it can be read, and its stream.

In: a :class:`~headwater.remote_slots.slot_address.SlotAddress`. Out: facts of server and slot; a stream of pgoutput's
messages, whose values are text in UTF8, as of a session with fixed settings.

Protocol version 1: transactions come whole, when they commit; a prepared one when COMMIT PREPARED comes.

PostgreSQL: walsender.c, pgoutput.c (pgoutput_startup), pg_replication_slots.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from headwater.errors import ServerError, UsageError
from headwater.pg.lsn import Lsn
from headwater.receiver.frame_stream import FrameStream, start_frames
from headwater.receiver.replication_connection import ReplicationConnection, quoted
from headwater.receiver.server_extra import load_psycopg
from headwater.remote_slots.slot_address import SlotAddress

_SETTINGS = (
    "-c datestyle=ISO -c intervalstyle=postgres -c extra_float_digits=1 -c timezone=UTC -c bytea_output=hex "
    "-c lc_monetary=C -c statement_timeout=0"
)
ENDING_SECONDS, RELEASING_SECONDS = 2.0, 0.1
"""How long a server may take to end a stream that is left, and to let go of the slot then."""

LEFT_BYTES = 1 << 20
"""What is read at a time of a stream that is left."""

WHOLE: Mapping[str, str] = {"proto_version": "1"}
"""Options by which transactions come whole, once they have committed."""

_SLOT = """
SELECT slot_type, plugin, database, coalesce(two_phase::text, 'f'), wal_status, confirmed_flush_lsn::text
FROM pg_catalog.pg_replication_slots WHERE slot_name = {}
"""
_DATABASE = """
SELECT oid::text, pg_catalog.pg_encoding_to_char(encoding)
FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()
"""
_PUBLICATIONS = "SELECT pubname FROM pg_catalog.pg_publication WHERE pubname IN ({})"


@dataclass(frozen=True)
class SlotFacts:
    """The facts of a slot, and of its server.

    Attributes:
        system_identifier: of the cluster; database: OID of the slot's; encoding: its name.
        flushed: LSN up to which the server's WAL was written then.
        confirmed: LSN up to which the slot was confirmed: what committed before it is not to be had any more.
        version: the server's, as a number; is_new: the slot was just made.
    """

    system_identifier: int
    database: int
    encoding: str
    flushed: int
    confirmed: int
    version: int
    is_new: bool

    @property
    def major(self) -> int:
        """PostgreSQL's major version."""
        return self.version // 10000

    @property
    def source(self) -> str:
        """The origin of rows, as tables in a lake have it."""
        return f"{self.system_identifier}/{self.database}"


def conninfo_of(address: SlotAddress) -> tuple[str, str]:
    """Return libpq's connection string, with the settings that values are printed under, and the database's name.

    Returns:
        the string; the name, empty where libpq takes it from the service file.

    Raises:
        UsageError: the address is malformed, or names no database.
    """
    psycopg = load_psycopg("a server's slot")
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        own = conninfo_to_dict(address.conninfo)
    except psycopg.Error:
        # What libpq says of it may have a part of a password.
        raise UsageError("the server's address is malformed", hint="expected postgresql://HOST/DATABASE?...") from None
    database = own.get("dbname") or os.environ.get("PGDATABASE")
    if not database and not (own.get("service") or os.environ.get("PGSERVICE")):
        raise UsageError("the server's address names no database", hint="expected postgresql://HOST/DATABASE?...")
    if address.application:
        own.setdefault("fallback_application_name", address.application)
    options = f"{own.get('options') or ''} {_SETTINGS} -c search_path={address.search_path}".strip()
    return make_conninfo("", **{**own, "options": options, "client_encoding": "UTF8"}), str(database or "")


def open_slot(address: SlotAddress) -> tuple[ReplicationConnection, SlotFacts]:
    """Connect to a slot's server, and look at the slot, which is made if that is asked for.

    Returns:
        the connection, on which nothing streams yet; the facts.

    Raises:
        UsageError: the address is malformed.
        ServerError: the server refuses, or the slot cannot be read so.
        ConnectionLostError: there is no server.
    """
    connection = ReplicationConnection(*conninfo_of(address))
    try:
        return connection, _facts(connection, address)
    except BaseException:
        connection.close()
        raise


def _facts(connection: ReplicationConnection, address: SlotAddress) -> SlotFacts:
    _ = connection.postgres  # an unknown major is refused before it is asked anything
    ((system, _timeline, flushed, _name),) = connection.rows("IDENTIFY_SYSTEM")
    ((oid, encoding),) = connection.rows(_DATABASE)
    _require_publications(connection, address)
    rows = connection.rows(_SLOT.format(literal(address.slot)))
    is_new = not rows
    if is_new:
        _make(connection, address)
        rows = connection.rows(_SLOT.format(literal(address.slot)))
    confirmed = _checked(rows[0], address, connection)
    assert system is not None
    assert oid is not None
    return SlotFacts(int(system), int(oid), encoding or "UTF8", _lsn(flushed), confirmed, connection.version, is_new)


def _make(connection: ReplicationConnection, address: SlotAddress) -> None:
    if not address.creates_slot:
        raise ServerError(
            f'replication slot "{address.slot}" does not exist',
            hint="add create_slot=true to the address, and it is made",
            sqlstate="42704",
        )
    two_phase = " TWO_PHASE" if address.two_phase else ""
    connection.rows(f"CREATE_REPLICATION_SLOT {quoted(address.slot)} LOGICAL pgoutput NOEXPORT_SNAPSHOT{two_phase}")


def _checked(row: tuple[str | None, ...], address: SlotAddress, connection: ReplicationConnection) -> int:
    """Return where a slot is confirmed.

    Raises:
        ServerError: it is not to be read so.
    """
    kind, plugin, database, two_phase, wal_status, confirmed = row
    ((own,),) = connection.rows("SELECT pg_catalog.current_database()")
    name = f'replication slot "{address.slot}"'
    if kind != "logical" or plugin != "pgoutput":
        raise ServerError(f"{name} is {kind}{f' of the plugin {plugin}' if plugin else ''}, expected one of pgoutput")
    if database != own:
        raise ServerError(f'{name} is of the database "{database}", the address names "{own}"')
    if two_phase in ("t", "true") and not address.two_phase:
        raise ServerError(
            f"{name} decodes prepared transactions at PREPARE, which may be rolled back after they were read",
            hint="use a slot that was made without two_phase",
        )
    if wal_status == "lost":
        raise ServerError(
            f"{name} has lost WAL that it needs: what came since {confirmed} is not to be had any more",
            hint="drop the slot, and land to another place with a new one",
        )
    return _lsn(confirmed)


def _require_publications(connection: ReplicationConnection, address: SlotAddress) -> None:
    names = ", ".join(literal(name) for name in address.publications)
    present = {name for (name,) in connection.rows(_PUBLICATIONS.format(names))}
    for name in address.publications:
        if name not in present:
            raise ServerError(f'publication "{name}" does not exist', sqlstate="42704")


def start_slot(
    connection: ReplicationConnection, address: SlotAddress, lsn: int, options: Mapping[str, str] = WHOLE
) -> FrameStream:
    """Begin the stream of a slot; what committed before an LSN, or before it was confirmed, does not come.

    Args:
        connection: on which it begins; address: the slot's; lsn: see above.
        options: of pgoutput, but for the publications.

    Raises:
        ServerError: the server refuses.
        ConnectionLostError: the connection is lost, or somebody else reads the slot still.
    """
    names = literal(",".join(quoted(name) for name in address.publications))
    command = f"START_REPLICATION SLOT {quoted(address.slot)} LOGICAL {Lsn(lsn)}"
    words = "".join(f", {name} {literal(value)}" for name, value in options.items() if name != "proto_version")
    version = literal(options["proto_version"])
    return start_frames(connection, f"{command} (proto_version {version}, publication_names {names}{words})")


def close_quietly(stream: FrameStream) -> None:
    """End a stream, and its connection, whatever has become of it.

    The server is given a moment to end the stream itself: then the slot is free when this returns.
    """
    until = time.monotonic() + ENDING_SECONDS
    with suppress(ServerError):
        stream.leave()
        while not stream.has_ended and time.monotonic() < until:
            if not stream.frames(LEFT_BYTES) and not stream.has_ended:
                stream.wait(until - time.monotonic())
        if stream.has_ended:
            stream.wait(RELEASING_SECONDS)  # what the server says next it says once it has let go of the slot
    stream.close()


def literal(text: str) -> str:
    """Write a text as a constant of SQL, or of a replication command."""
    escaped = text.replace("'", "''").replace("\\", "\\\\")
    return f"E'{escaped}'" if "\\" in text else f"'{escaped}'"


def _lsn(text: str | None) -> int:
    return 0 if text is None else int(Lsn.parse(text))
