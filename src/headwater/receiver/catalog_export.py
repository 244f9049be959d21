"""The catalog of a running server whose files cannot be reached: a state to begin with, without a gap to the WAL.

In: a connection string. Out: a :class:`~headwater.slots.kept_state.KeptState` at the redo LSN of the server's last
checkpoint. Decoding begins where a slot that is made at the same moment would begin: at its consistent point.
:mod:`headwater.catalog.store.exported` explains why that is exact.

Effects on the server: two connections, one of them for replication; a temporary logical slot, which ends with the
connection; ACCESS SHARE locks on the catalogs while they are read, so that nobody rewrites them; nothing is written.
As for every slot, the creation of the slot waits until all transactions end that run then.

Default values that ALTER TABLE ADD COLUMN has stored (``attmissingval``) are needed in their stored form. For that the
server prints the parse tree of a constant (``debug_print_parse``), and also logs the tree: it has no other way.

Needed: wal_level = logical, full_page_writes = on, a role with REPLICATION. Known gap: a standby is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.catalog.copy.commit_log import NO_COMMIT_LOG, CommitLog, commit_log_between
from headwater.catalog.copy.server_settings import SESSION_SETTINGS
from headwater.catalog.copy.taken_at import CatalogOrigin
from headwater.catalog.pages import BLCKSZ
from headwater.catalog.rows import CatalogRows
from headwater.catalog.search_path import SearchPath
from headwater.catalog.store.exported import ExportedCatalog, ExportedFile, store_of_export
from headwater.catalog.store.heaps import Locator
from headwater.catalog.store.image_io import image_of
from headwater.catalog.store.rows_over_sql import SentRow, is_readable, sent_rows, varlena
from headwater.catalog.store.version_rows import XID_MASK
from headwater.catalog.versions import FIRST_NORMAL_XID
from headwater.errors import CatalogError
from headwater.pg.catalogs import (
    GLOBAL_TABLESPACE,
    PG_ATTRIBUTE,
    PG_AUTHID,
    PG_DATABASE,
    SHARED_CATALOGS,
    TOAST_OF_PUBLICATION_REL,
    align_up,
    catalog_layout,
    catalog_name,
    catalog_oids,
)
from headwater.pg.encodings import encoding_name
from headwater.pg.lsn import Lsn
from headwater.pg.version import VERSIONS
from headwater.receiver.server_extra import load_psycopg
from headwater.reorder.commits.control import control_at
from headwater.reorder.commits.open_transactions import NOTHING_OPEN
from headwater.reorder.commits.state import State
from headwater.rmgr.xlog import WAL_LEVEL_LOGICAL
from headwater.rows.session import SERVER_VERSION
from headwater.slots.kept_state import KeptState

if TYPE_CHECKING:
    from psycopg import Connection

_FACTS = """
SELECT current_setting('server_version_num')::int AS number, s.system_identifier, s.catalog_version_no,
    pg_catalog.pg_is_in_recovery() AS is_standby, coalesce(
        current_setting('effective_wal_level', true), current_setting('wal_level')) AS wal_level,
    current_setting('full_page_writes')::bool AND c.full_page_writes AS full_page_writes,
    c.redo_lsn::text, c.timeline_id, c.next_xid, c.next_multixact_id::text::int8 AS next_multi,
    c.oldest_active_xid::text::int8 AS oldest_active_xid,
    i.database_block_size, i.blocks_per_segment,
    (SELECT oid::int8 FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) AS database
FROM pg_catalog.pg_control_checkpoint() c, pg_catalog.pg_control_system() s, pg_catalog.pg_control_init() i
"""
CANCEL_SECONDS = 5.0
"""Seconds that a server has to note that nobody waits for it any more."""

_SLOT = 'CREATE_REPLICATION_SLOT "headwater_export_{}" TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT'
_FILES = """
SELECT oid::int8, pg_catalog.pg_relation_filenode(oid)::int8, reltablespace::int8, pg_catalog.pg_relation_size(oid),
    relfrozenxid::text::int8
FROM pg_catalog.pg_class WHERE oid = ANY(%s)
"""
_MAPPED = """
SELECT oid::int8, pg_catalog.pg_relation_filenode(oid)::int8 FROM pg_catalog.pg_class
WHERE relfilenode = 0 AND relkind IN ('r', 't', 'i') AND relisshared = %s
"""
_TYPES = "SELECT attname::text, atttypid::int8 FROM pg_catalog.pg_attribute WHERE attrelid = %s AND attnum > 0"
_NOT_COMMITTED = """
SELECT x, status IS NULL FROM pg_catalog.generate_series(%s::int8, %s::int8 - 1) x,
    LATERAL (SELECT pg_catalog.pg_xact_status(x::text::xid8)) AS s(status)
WHERE status IS DISTINCT FROM 'committed'
"""
_MAY_READ_CHUNKS = (
    "SELECT pg_catalog.has_schema_privilege('pg_toast', 'USAGE') AND pg_catalog.has_table_privilege(%s::oid, 'SELECT')"
)
_MISSING = """
SELECT attrelid::int8, attnum::int, (attmissingval::text::text[])[1], pg_catalog.format_type(atttypid, -1),
    atttypid::int8, attlen::int, attbyval, attalign::text
FROM pg_catalog.pg_attribute WHERE atthasmissing AND attmissingval IS NOT NULL
"""
_SETTINGS = (
    "SELECT pg_catalog.lower(name), reset_val FROM pg_catalog.pg_settings WHERE pg_catalog.lower(name) = ANY(%s)"
)
_CONSTANT = re.compile(r":constvalue\s+(\d+)\s+\[([-\d\s]*)\]")
_VALUES_AT_A_TIME = 200


@dataclass(frozen=True)
class _Server:
    """The facts of a server that are known before its catalog is read; see ``pg_controldata``."""

    number: int
    system_identifier: int
    catalog_version_no: int
    is_standby: bool
    wal_level: str
    full_page_writes: bool
    redo_lsn: str
    timeline_id: int
    next_xid: str
    next_multi: int
    oldest_active_xid: int
    database_block_size: int
    blocks_per_segment: int
    database: int

    @property
    def major(self) -> int:
        """PostgreSQL's major version."""
        return self.number // 10000

    @property
    def version(self) -> str:
        """The version with the minor release, such as ``15.20``."""
        return f"{self.major}.{self.number % 10000}"

    @property
    def next_full_xid(self) -> int:
        """The next xid, in 64 bits, as of the checkpoint."""
        epoch, _, xid = self.next_xid.partition(":")
        return int(epoch) << 32 | int(xid)


def export_catalog(dsn: str, checkpoint: bool = False) -> KeptState:
    """Read the catalog of a database.

    Args:
        dsn: libpq's connection string or URI; its database is the one that is read.
        checkpoint: whether the server makes a checkpoint first, so that little WAL from before the export is needed.

    Raises:
        CatalogError: the server refuses, or cannot be decoded.
        HeadwaterError: psycopg is not installed.
    """
    psycopg = load_psycopg("a server's catalog")
    try:
        with _connected(psycopg, dsn) as session:
            session.execute("SET client_encoding = 'UTF8'; SET search_path = ''; SET extra_float_digits = 1")
            session.execute("SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'")
            session.execute("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")
            if checkpoint:
                session.execute("CHECKPOINT")
            server = _facts(session)
            catalogs = _readable(session, server.major)
            places = _filenodes(session, catalogs)
            with _snapshot(psycopg, dsn, session, catalogs) as consistent_lsn:
                export = _read(session, server, catalogs, consistent_lsn)
                # Not earlier: a TOAST table, which cannot be locked explicitly, is locked only once it is read.
                if _filenodes(session, catalogs) != places:
                    raise CatalogError(
                        "a catalog was rewritten while the slot was made (VACUUM FULL, CLUSTER)", hint="export again"
                    )
            # After the snapshot's transaction: there may be a hundred million transactions to ask for.
            log = _commit_log(session, server, export.oldest_xid)
            return KeptState(_state(replace(export, commit_log=log)), _settings(session, server))
    except psycopg.Error as error:
        message = " ".join((error.diag.message_primary or str(error)).split())
        hint = error.diag.message_hint or error.diag.message_detail
        raise CatalogError(f"could not export the catalog: {message}", hint=hint) from None


@contextmanager
def _connected(psycopg: ModuleType, dsn: str, **options: str) -> Iterator[Connection[Any]]:
    """Hold a connection.

    A server that waits for others does not notice that nobody waits for it any more, and would keep the slot meanwhile.
    Therefore its statement is cancelled when the ``with`` block is left early.
    """
    with psycopg.connect(dsn, autocommit=True, **options) as connection:
        try:
            yield connection
        except BaseException:
            # From here on no wait is without a limit, and no ROLLBACK is sent while an answer is still to come.
            with closing(connection), suppress(psycopg.Error):
                connection.cancel_safe(timeout=CANCEL_SECONDS)
            raise


def _facts(session: Connection[Any]) -> _Server:
    """Read the facts of a server, and check that it can be decoded.

    Raises:
        CatalogError: its WAL cannot be decoded, or its catalog cannot be joined with the WAL.
    """
    row = session.execute(_FACTS).fetchone()
    assert row is not None
    server = _Server(*row)
    version = VERSIONS.get(server.major)
    if version is None or version.catalog_version != server.catalog_version_no:
        problem = f"PostgreSQL {server.major} with catalog version {server.catalog_version_no} is unsupported"
        raise CatalogError(f"{problem}, expected one of {', '.join(map(str, VERSIONS))}")
    if server.is_standby:
        raise CatalogError("the server is a standby", hint="export the catalog of its primary")
    if server.wal_level != "logical":
        raise CatalogError(
            f"the server runs with wal_level = {server.wal_level}, expected logical",
            hint="set wal_level = logical and restart the server",
        )
    if not server.full_page_writes:
        raise CatalogError(
            "the server runs, or ran at its last checkpoint, with full_page_writes = off",
            hint="set it on and let the server make a checkpoint, or take a base backup",
        )
    if server.database_block_size != BLCKSZ:
        raise CatalogError(f"block size is {server.database_block_size}, expected {BLCKSZ}")
    return server


@contextmanager
def _snapshot(psycopg: ModuleType, dsn: str, session: Connection[Any], catalogs: Sequence[int]) -> Iterator[int]:
    """Hold a transaction that sees the catalog as of a consistent point, in which no catalog is rewritten.

    Yields:
        the consistent point's LSN.
    """
    with _connected(psycopg, dsn, replication="database") as replication:
        slot = replication.execute(_SLOT.format(os.urandom(6).hex()).encode()).fetchone()
        assert slot is not None
        _, lsn, snapshot, _ = slot
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # Locks come first, before any statement takes a snapshot: the slot's snapshot is wanted.
        locked = (catalog_name(oid) for oid in catalogs if oid != TOAST_OF_PUBLICATION_REL)
        names = ", ".join(map(_qualified, locked))
        session.execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE".encode())
        session.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'".encode())
        yield Lsn.parse(lsn)
        session.execute("ROLLBACK")


def _filenodes(session: Connection[Any], catalogs: Sequence[int]) -> dict[int, int]:
    """Read the file number that each catalog has now."""
    return {oid: filenode for oid, filenode, *_ in session.execute(_FILES, [list(catalogs)]).fetchall()}


def _readable(session: Connection[Any], major: int) -> list[int]:
    """Return the catalogs that are read: pg_authid only if the role may read it (without passwords)."""
    may = "SELECT pg_catalog.has_table_privilege('pg_catalog.pg_authid', 'SELECT')"
    row = session.execute(may).fetchone()
    return sorted(catalog_oids(major) - (frozenset() if row == (True,) else {PG_AUTHID}))


def _may_read_chunks(session: Connection[Any]) -> bool:
    """Tell whether the role may read the TOAST table of row filters; the WAL has the chunks of later filters."""
    return session.execute(_MAY_READ_CHUNKS, [TOAST_OF_PUBLICATION_REL]).fetchone() == (True,)


def _qualified(name: str) -> str:
    """Qualify a catalog, or a TOAST table of one, by its schema."""
    return f"pg_toast.{name}" if name.startswith("pg_toast_") else f"pg_catalog.{name}"


def _read(session: Connection[Any], server: _Server, catalogs: Sequence[int], consistent_lsn: int) -> ExportedCatalog:
    """Read the catalog, as the snapshot shows it, without the commit log."""
    missing = _missing_values(session)
    hidden = set() if _may_read_chunks(session) else {TOAST_OF_PUBLICATION_REL}
    rows = {oid: _rows(session, server.major, oid, missing) if oid not in hidden else [] for oid in catalogs}
    database = next(
        row
        for row in CatalogRows(server.major, "UTF8").databases(sent.data for sent in rows[PG_DATABASE])
        if row.oid == server.database
    )
    files, oldest = _files(session, server, database.tablespace, rows)
    origin = CatalogOrigin(
        major=server.major,
        system_identifier=server.system_identifier,
        timeline=server.timeline_id,
        start_lsn=Lsn.parse(server.redo_lsn),
        is_shutdown=False,
        database_oid=database.oid,
        database_name=database.name,
        database_tablespace=database.tablespace,
        encoding=encoding_name(database.encoding),
        wal_level=WAL_LEVEL_LOGICAL,
        next_xid=server.next_full_xid & XID_MASK,
        segment_blocks=server.blocks_per_segment,
        reach_lsn=consistent_lsn,
        reach_timeline=server.timeline_id,
        xid_epoch=server.next_full_xid >> 32,
        consistent_lsn=consistent_lsn,
    )
    shared, local = (_mapped(session, is_shared) for is_shared in (True, False))
    return ExportedCatalog(origin, server.oldest_active_xid, oldest, NO_COMMIT_LOG, shared, local, files)


def _state(export: ExportedCatalog) -> State:
    store, origin = store_of_export(export), export.origin
    image = image_of(store, origin.start_lsn, origin.start_lsn, origin.next_full_xid)
    return State(store.start_lsn, 0, origin.timeline, control_at(store, frozenset()), image, NOTHING_OPEN)


def _rows(
    session: Connection[Any], major: int, oid: int, missing: dict[tuple[bytes | None, ...], bytes]
) -> Sequence[SentRow]:
    """Read the rows of a catalog."""
    layout = catalog_layout(major, oid)
    types = dict(session.execute(_TYPES, [oid]).fetchall())
    names = [
        f'"{column.name}"' if is_readable(column, types[column.name]) and column.name != "rolpassword" else "NULL::text"
        for column in layout.columns
    ]
    query = f"COPY (SELECT ctid, xmin, {', '.join(names)} FROM {_qualified(layout.name)}) TO STDOUT (FORMAT binary)"
    # Names and text as the database has them.
    session.execute("SET LOCAL client_encoding = 'SQL_ASCII'")
    with session.cursor().copy(query.encode()) as copy:
        data = b"".join(bytes(piece) for piece in copy)
    session.execute("SET LOCAL client_encoding = 'UTF8'")
    return list(sent_rows(data, layout, types, missing if oid == PG_ATTRIBUTE else {}))


def _files(
    session: Connection[Any], server: _Server, tablespace: int, rows: dict[int, Sequence[SentRow]]
) -> tuple[list[ExportedFile], int]:
    """Return the catalogs with their files, and the oldest xid that is not frozen in one of them, 64 bits."""
    next_xid, files = server.next_full_xid, list[ExportedFile]()
    oldest = next_xid
    for oid, filenode, place, size, frozen in session.execute(_FILES, [list(rows)]).fetchall():
        locator: Locator = (place or tablespace, server.database, filenode)
        if oid in SHARED_CATALOGS:
            locator = GLOBAL_TABLESPACE, 0, filenode
        files.append(ExportedFile(oid, locator, size // BLCKSZ, rows[oid]))
        age = (next_xid - frozen & XID_MASK ^ 1 << 31) - (1 << 31)
        oldest = min(oldest, next_xid - age)
    return files, max(oldest, FIRST_NORMAL_XID)


def _mapped(session: Connection[Any], is_shared: bool) -> dict[int, int]:
    return dict(session.execute(_MAPPED, [is_shared]).fetchall())


def _commit_log(session: Connection[Any], server: _Server, oldest: int) -> CommitLog:
    """Read the fates of the transactions from before the checkpoint, from a whole byte of ``pg_xact`` on."""
    first, next_xid = oldest & ~3, server.next_full_xid
    rows = session.execute(_NOT_COMMITTED, [max(first, FIRST_NORMAL_XID), next_xid]).fetchall()
    if any(is_unknown and xid >= oldest for xid, is_unknown in rows):
        raise CatalogError(
            f"the server has forgotten what became of transactions from {oldest} on", hint="export again"
        )
    not_committed = np.array(sorted(xid for xid, _ in rows), np.int64)
    return commit_log_between(first, next_xid, not_committed, server.next_multi)


def _settings(session: Connection[Any], server: _Server) -> tuple[tuple[str, str], ...]:
    """Read the settings that a session of this role in this database begins with, and the server's release."""
    settings = dict(session.execute(_SETTINGS, [sorted(SESSION_SETTINGS)]).fetchall())
    role = session.execute("SELECT session_user::text").fetchone()
    assert role is not None
    path = SearchPath.parse(settings["search_path"]).of_role(role[0])
    return tuple(sorted({**settings, "search_path": str(path), SERVER_VERSION: server.version}.items()))


# -- attmissingval


def _missing_values(session: Connection[Any]) -> dict[tuple[bytes | None, ...], bytes]:
    """Read ``attmissingval`` as it is stored, by ``attrelid`` and ``attnum`` as they are sent."""
    columns = session.execute(_MISSING).fetchall()
    missing = dict[tuple[bytes | None, ...], bytes]()
    for at in range(0, len(columns), _VALUES_AT_A_TIME):
        chunk = columns[at : at + _VALUES_AT_A_TIME]
        stored = _stored_values(session, [(text, type_name) for _, _, text, type_name, *_ in chunk])
        for (relation, number, _, _, type_oid, length, by_value, align), value in zip(chunk, stored, strict=True):
            element = value[:length] if by_value else value
            key = relation.to_bytes(4, "big"), number.to_bytes(2, "big", signed=True)
            missing[key] = _array_of(element, type_oid, align)
    return missing


def _array_of(element: bytes, type_oid: int, align: str) -> bytes:
    """Make an array of one element (construct_array)."""
    head = b"".join(word.to_bytes(4, "little") for word in (1, 0, type_oid, 1, 1))
    padding = align_up(len(head) + 4, "d") - len(head) - 4
    assert align_up(len(head) + 4 + padding, align) == len(head) + 4 + padding
    return varlena(head + bytes(padding) + element)


def _stored_values(session: Connection[Any], values: Sequence[tuple[str, str]]) -> list[bytes]:
    """Read values as they are stored, which the server prints with parse trees of constants (outDatum, outfuncs.c).

    Args:
        session: a connection to the server.
        values: text and type of each value.
    """
    from psycopg.sql import Literal

    trees: list[str] = []

    def heard(notice: Any) -> None:
        trees.append(notice.message_detail or "")

    queries = [f"SELECT {Literal(text).as_string(session)}::{type_name}" for text, type_name in values]
    session.add_notice_handler(heard)
    try:
        session.execute("SET LOCAL client_min_messages = log; SET LOCAL debug_print_parse = on")
        trees.clear()
        session.execute("; ".join(queries).encode("utf-8", "surrogateescape"))
        matches = [match for tree in trees if (match := _CONSTANT.search(tree)) is not None]
        session.execute("SET LOCAL debug_print_parse = off; SET LOCAL client_min_messages = notice")
    finally:
        session.remove_notice_handler(heard)
    if len(matches) != len(values):
        raise CatalogError(
            f"the server showed {len(matches)} of {len(values)} default values that it keeps beside tables",
            hint="take a base backup instead",
        )
    return [_datum(match) for match in matches]


def _datum(match: re.Match[str]) -> bytes:
    return bytes(int(byte) & 0xFF for byte in match[2].split())
