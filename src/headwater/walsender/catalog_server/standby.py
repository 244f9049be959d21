"""The server that replays filtered WAL: a hot standby on a Unix socket, that stands where it is told to.

Job: make its directory from a backup, run it, hand it WAL, wait until it has replayed that.
Invariants: it has no rows of tables, no port, no primary. It writes to its own directory only, which goes with it. What
it computes for one session takes no more than :data:`MOST_DATA` of memory, and a :data:`gigabyte <SETTINGS>` of files.

PostgreSQL: xlogrecovery.c (standby mode), postmaster.c. Known gaps: a database whose collation this machine's C library
or the server's build does not know cannot be connected to.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.copy.server_settings import SESSION_SETTINGS
from headwater.errors import SessionError
from headwater.local_servers.local_server import LocalServer
from headwater.local_servers.server_errors import LocalServerError
from headwater.local_servers.server_programs import ServerPrograms
from headwater.local_servers.server_user import give_to_server
from headwater.pg.catalogs import DEFAULT_TABLESPACE
from headwater.pg.lsn import Lsn
from headwater.pg.version import VERSIONS
from headwater.protocol.backend_messages import Value
from headwater.wal.control import settings_of_standbys
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.place import WalSource
from headwater.wal.segments.segment_listing import list_segments
from headwater.wal.segments.timelines import read_history
from headwater.walsender.catalog_server.asked_connection import AskedConnection
from headwater.walsender.catalog_server.data_copy import copy_catalogs
from headwater.walsender.catalog_server.filtered_wal import SystemFiles
from headwater.walsender.catalog_server.function_rules import Asking
from headwater.walsender.catalog_server.stand_in import STAND_IN
from headwater.walsender.catalog_server.statement_facts import LeadingNames, leading_names
from headwater.walsender.catalog_server.steadiness import Steadiness
from headwater.walsender.catalog_server.wal_feed import WalFeed

REPLAY_SECONDS = 600.0
"""For WAL to be replayed, of which most are NOOPs."""

STEP_BYTES = 256 << 20
"""Of WAL that lies in the server's directory, about, until it has replayed it."""

MOST_DATA = 512 << 20
"""Bytes of memory of each of the server's processes, beside what they share: more is out of memory (53200)."""

MOST_SESSIONS, MOST_WATCHING = 100, 5
SETTINGS = {
    "hot_standby": "on",
    "listen_addresses": "",
    "fsync": "off",
    "shared_buffers": "32MB",
    "wal_retrieve_retry_interval": "2s",
    "temp_file_limit": "1GB",
    "max_standby_archive_delay": "5s",
    "wal_recycle": "off",
    "max_replication_slots": "1000",
    "default_transaction_read_only": "on",
    "jit": "off",
    "logging_collector": "off",
    "log_min_messages": "fatal",
    "lc_messages": "C",
}
"""Without prefetching: blocks that records name are not there. Many slots, as origins of replication count as such."""

OF_ANSWERS = SESSION_SETTINGS | {
    *("array_nulls", "backslash_quote", "default_text_search_config", "escape_string_warning", "lc_numeric", "lc_time"),
    *("quote_all_identifiers", "standard_conforming_strings", "transform_null_equals", "xmlbinary", "xmloption"),
}
"""Settings that change what statements mean, or how values are read and printed."""


MOST_IDLE = 8
"""Connections of a role that are kept for the next statement."""

_PLAIN_ROLE = """
SELECT 1 FROM pg_catalog.pg_roles r WHERE rolname OPERATOR(pg_catalog.=) $1::pg_catalog.name
AND rolcanlogin AND NOT rolsuper AND NOT EXISTS (
    SELECT 1 FROM pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) c
    WHERE s.setrole = r.oid AND c ~* '^(role|session_authorization)=')
"""
_CLOSED_SCHEMAS = """
SELECT 1 FROM pg_catalog.pg_namespace
WHERE nspname = ANY ($1::pg_catalog.name[]) AND NOT pg_catalog.has_schema_privilege($2, oid, 'USAGE')
"""


_LOGINS = """
SELECT pg_catalog.md5(pg_catalog.concat(
    (SELECT pg_catalog.array_agg(s ORDER BY s.setdatabase, s.setrole) FROM pg_catalog.pg_db_role_setting s),
    (SELECT pg_catalog.array_agg(ROW(r.oid, r.rolname, r.rolcanlogin) ORDER BY r.oid) FROM pg_catalog.pg_authid r)))
"""
"""Asks for something that is another where a login would begin otherwise: as another role, or with other settings."""

_OWN_SETTINGS = """
SELECT pg_catalog.unnest(s.setconfig) FROM pg_catalog.pg_db_role_setting s
JOIN pg_catalog.pg_roles r ON r.oid = s.setrole LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase
WHERE r.rolname = $1::pg_catalog.name AND (d.datname = $2::pg_catalog.name OR s.setdatabase = 0)
ORDER BY s.setdatabase <> 0
"""


class Standby(LocalServer):
    """A standby; :meth:`close` ends it and removes its directory.

    Args:
        programs: of the source's major version.
        source: the backup.
        files: the system files of the database, as the backup and the fold's state know them.
        database: the database's name; superuser: that of the role that asks the server where it is.
        defaults: settings that sessions begin with, names and values, as the source's configuration has them; those
            of databases and roles are in the catalogs.

    Attributes:
        files: as given; more of them may come.
        feed: the WAL that it was given.
        steadiness: of what has been replayed: who holds it sees no catalog change.
    """

    def __init__(
        self,
        programs: ServerPrograms,
        source: DataDirectory,
        files: SystemFiles,
        database: str,
        superuser: str,
        defaults: Mapping[str, str],
    ) -> None:
        super().__init__(programs, most_data=MOST_DATA)
        self._defaults = defaults
        self._source, self.files = source, files
        self._database, self._superuser = database, superuser
        self._watching: AskedConnection | None = None
        self._lock, self._watching_lock = threading.Lock(), threading.Lock()
        self._idle: dict[str, list[AskedConnection]] = {}
        self._leading: tuple[int, LeadingNames] | None = None
        self._logins: tuple[int, Value] = (0, None)
        self._stands_at = 0  # What is kept of catalogs is of this LSN; it changes when all up to it is replayed.
        self._plain: dict[str, tuple[int, bool]] = {}
        self.steadiness = Steadiness()
        self.make_home()
        self.feed = WalFeed(self.wal_directory, source.start_lsn, source.control.wal_segment_size)

    def begin(self, wal: WalDirectory, until: int) -> None:
        """Replay WAL up to the end of a record, and be asked from then on.

        Raises:
            LocalServerError: the server does not start.
            HeadwaterError: the backup or the WAL cannot be read.
        """
        copy_catalogs(self._source, self.files, self.data_directory)
        self._configure()
        self._take_histories(wal)
        for path in self.data_directory.rglob("*"):
            give_to_server(path)
        self.feed.write(wal, min(until, self.feed.end + STEP_BYTES), self.files)
        self.launch()
        while not self.is_ready():
            self.check_runs()
            if self.feed.end < until:
                self.feed.write(wal, min(until, self.feed.end + STEP_BYTES), self.files)
            time.sleep(0.01)
        self._replay(wal, until)
        self._stands_at = self.feed.end

    def go_on(self, wal: WalDirectory, until: int) -> None:
        """Replay more WAL; as :meth:`begin`."""
        if until <= self.feed.end:
            return
        with self.steadiness.broken():
            self._take_histories(wal)
            self._replay(wal, until)
            self._stands_at = self.feed.end

    def ask(self, query: str, values: Sequence[str] = ()) -> list[tuple[Value, ...]]:
        """Ask for what is there now, as the superuser, whose session no client gets.

        Raises:
            LocalServerError: the server does not let it in.
            SessionError: the server refuses it.
        """
        with self._watching_lock:
            if self._watching is None or not self._watching.is_clean:
                # Names that the source's users made must not come before the server's own in a superuser's session.
                self._watching = self._connect(self._superuser, options="-c search_path=")
            return self._watching.ask(query, values)

    def _connect(self, role: str, **words: str) -> AskedConnection:
        parameters = {"user": role, "database": self._database, **words}
        return AskedConnection(self.socket_directory, self.port, parameters)

    @contextmanager
    def connection(self, user: str, settings: Sequence[tuple[str, str]]) -> Iterator[AskedConnection]:
        """Lend a connection in a transaction: that of the user's own role, or of the one that stands in.

        Args:
            user: a name; settings: of the transaction, names and values.

        Raises:
            LocalServerError: the server refuses it.
        """
        role = user if self._is_plain_role(user) else self._stand_in()
        with self._lock:
            idle = self._idle_of(role)
            asked = idle.pop() if idle else None
        if asked is None:
            asked = self._connect(role)
        try:
            asked.begin()
            self.renew(asked, user, settings)
            yield asked
        finally:
            self._take_back(asked, idle)

    def _idle_of(self, role: str) -> list[AskedConnection]:
        """Return the connections of a role that nobody has, if one that is made now would be like them."""
        at = self._stands_at
        if self._logins[0] != at:
            before, self._logins = self._logins[1], (at, self.ask(_LOGINS)[0][0])
            if before != self._logins[1]:
                for asked in (asked for asked_ones in self._idle.values() for asked in asked_ones):
                    asked.close()
                self._idle = {}
        return self._idle.setdefault(role, [])

    def renew(self, asked: AskedConnection, user: str, settings: Sequence[tuple[str, str]]) -> None:
        """Let settings be those of the transaction of a connection that was lent."""
        if self._is_plain_role(user):
            asked.take_settings(settings)
        else:
            asked.take_settings([*self._own_settings(user), *settings])
            asked.stand_in_for(user)

    def is_stood_in_for(self, user: str) -> bool:
        """Tell whether another role than that of a user's name asks for the user."""
        return not self._is_plain_role(user)

    def asking(self, user: str, connection: AskedConnection, *, is_limited: bool) -> Asking:
        """Tell how a user asks, by a connection that was lent for that."""
        if self._is_plain_role(user):
            return Asking(is_stood_in_for=False, is_path_open=True, is_limited=is_limited)
        closed = self.ask(_CLOSED_SCHEMAS, (_array(_names(connection.search_path())), STAND_IN))
        return Asking(is_stood_in_for=True, is_path_open=not closed, is_limited=is_limited)

    def leading_names(self) -> LeadingNames:
        """Return the names by which parsing may come to code of users, as they are now."""
        with self._lock:
            if self._leading is None or self._leading[0] != self._stands_at:
                self._leading = self._stands_at, leading_names(self.ask)
            return self._leading[1]

    def _take_back(self, asked: AskedConnection, idle: list[AskedConnection]) -> None:
        try:
            asked.end()
        except SessionError:
            asked.close()
            return
        with self._lock:
            if asked.is_clean and len(idle) < MOST_IDLE and any(idle is known for known in self._idle.values()):
                idle.append(asked)
                return
        asked.close()

    def _own_settings(self, user: str) -> list[tuple[str, str]]:
        """Return the settings of a user's role that change how values are read and printed."""
        rows = self.ask(_OWN_SETTINGS, (user, self._database))
        pairs = [(text or b"").decode("utf-8", "surrogateescape").partition("=") for (text,) in rows]
        return [(name, value) for name, _, value in pairs if name.lower() in OF_ANSWERS]

    def _is_plain_role(self, user: str) -> bool:
        at = self._stands_at
        end, is_plain = self._plain.get(user, (-1, False))
        if end != at:
            is_plain = bool(self.ask(_PLAIN_ROLE, (user,)))
            self._plain[user] = at, is_plain
        return is_plain

    def _stand_in(self) -> str:
        if self.feed.hides_role:
            raise LocalServerError(
                f"{STAND_IN} cannot stand in for a user, as page images in the WAL are compressed",
                hint="connect as a role of the source that may log in and is no superuser",
            )
        return STAND_IN

    def close(self) -> None:
        """Stop the server and remove its directory."""
        if self._watching is not None:
            self._watching.close()
        super().close()

    def _replay(self, wal: WalDirectory, until: int) -> None:
        """Give the server WAL, some at a time, and take away what it has replayed."""
        before = -1
        while before != self.feed.end:
            self._wait(self.feed.end)
            self.feed.forget()
            before = self.feed.end
            self.feed.write(wal, min(until, before + STEP_BYTES), self.files)

    def _wait(self, until: int) -> None:
        """Wait until WAL is replayed up to an LSN; a signal wakes the server from its pauses.

        Raises:
            LocalServerError: it does not come so far.
        """
        deadline = time.monotonic() + REPLAY_SECONDS
        while (replayed := self._replayed()) < until:
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                raise LocalServerError(
                    f"the server of the catalogs has replayed WAL up to {Lsn(replayed)}, not {Lsn(until)}: "
                    f"{self._last_log_line()}"
                )
            self.process.send_signal(signal.SIGHUP)
            time.sleep(0.002)

    def _replayed(self) -> int:
        try:
            row = self.ask("SELECT pg_catalog.pg_last_wal_replay_lsn()")[0]
        except (SessionError, LocalServerError):
            return self._replayed_without_database()
        return Lsn.parse(row[0].decode()) if row[0] is not None else 0

    def _replayed_without_database(self) -> int:
        """Ask as a client of replication does: the database may not be there yet."""
        try:
            connection = AskedConnection(
                self.socket_directory, self.port, {"user": self._superuser, "replication": "true"}
            )
        except LocalServerError:
            return 0
        try:
            return Lsn.parse((connection.run("IDENTIFY_SYSTEM")[0][2] or b"0/0").decode())
        except SessionError:
            return 0
        finally:
            connection.close()

    def _take_histories(self, wal: WalDirectory) -> None:
        """Write the history files of the timelines that the WAL is on."""
        for timeline, _ in wal.lineage:
            place = self.wal_directory / f"{timeline:08X}.history"
            if timeline > 1 and not place.exists():
                file = list_segments(WalSource(wal.places)).histories.get(timeline)
                if file is None:
                    continue
                place.write_bytes(read_history(file))
                give_to_server(place)

    def _configure(self) -> None:
        control = self._source.tree.read("global/pg_control")
        limits = settings_of_standbys(control, self._source.major)
        settings = {**SETTINGS, **{name: str(value) for name, value in limits.items()}}
        settings["max_wal_senders"] = str(max(limits["max_wal_senders"], MOST_WATCHING))
        settings["max_connections"] = str(max(limits["max_connections"], MOST_SESSIONS))
        settings.update(self._defaults)
        if any(tablespace != DEFAULT_TABLESPACE for tablespace, _ in self.files.places):
            settings["allow_in_place_tablespaces"] = "on"  # They are folders here, no links.
        settings["unix_socket_directories"] = str(self.socket_directory)
        settings["port"] = str(self.port)
        if VERSIONS[self._source.major].prefetches_in_recovery:
            settings["recovery_prefetch"] = "off"
        if VERSIONS[self._source.major].has_event_trigger_switch:
            settings["event_triggers"] = "off"
        self._write("postgresql.conf", "".join(map(_line, settings.items())))
        self._write("pg_hba.conf", "local all,replication all trust\n")
        self._write("pg_ident.conf", "")
        self._write("postgresql.auto.conf", "")
        self._write("standby.signal", "")

    def _write(self, name: str, text: str) -> None:
        (Path(self.data_directory) / name).write_text(text)


def _line(setting: tuple[str, str]) -> str:
    """Return a line of a configuration file."""
    name, value = setting
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"{name} = '{escaped}'\n"


def _names(path: str) -> list[str]:
    """Return the names in a search path as the server prints it."""
    parts = re.findall(r'"((?:[^"]|"")*)"|([^,\s"]+)', path)
    return [quoted.replace('""', '"') if quoted else plain.lower() for quoted, plain in parts]


def _array(names: Sequence[str]) -> str:
    escaped = (name.replace("\\", "\\\\").replace('"', '\\"') for name in names)
    return "{" + ",".join(f'"{name}"' for name in escaped) + "}"
