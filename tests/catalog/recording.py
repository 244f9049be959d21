"""A server's account of its own catalog at many points, and the same as Headwater sees it.

A :class:`Recorder` runs statements in named sessions; :meth:`Recorder.mark` notes the WAL position and everything a
view can tell, asked over SQL: by an onlooker, or inside a session's open transaction. After the server has stopped,
:func:`roll_forward` feeds the WAL to a store, and :func:`seen` asks the store the same questions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.catalog.store.bootstrap import open_catalog
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.catalog.store.image_io import store_of
from headwater.catalog.versions import OwnCommands
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID, FIRST_UNPINNED_OBJECT_ID
from headwater.rmgr import heap2, standby, xact
from headwater.slots.kept_state import KeptState
from headwater.slots.value_file import load_value
from headwater.wal.records.frames import read_frames
from headwater.wal.records.record import Record, parse_record
from headwater.wal.segments.directory import WalDirectory

RELATIONS = """
SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text, c.relreplident::text,
       c.reltoastrelid::int8, c.relrewrite::int8, c.relispartition, c.relnamespace::int8,
       pg_relation_filenode(c.oid)::int8, coalesce(nullif(c.reltablespace, 0),
         (SELECT dattablespace FROM pg_database WHERE datname = current_database()))::int8,
       coalesce('user_catalog_table=true' = ANY (c.reloptions), false)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE (c.oid >= 12000 OR c.oid IN (1247, 1249, 1259, 1262)) AND c.relpersistence <> 't'
"""
COLUMNS = """
SELECT attrelid::int8, attnum, attname::text, atttypid::int8, atttypmod, attlen, attalign::text, attisdropped,
       attgenerated::text, attnotnull, CASE WHEN atttypid <> 0 THEN format_type(atttypid, NULL) END,
       CASE WHEN atthasmissing THEN attmissingval::text END
  FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
 WHERE attnum > 0 AND attrelid >= 12000 AND c.relpersistence <> 't' ORDER BY attrelid, attnum
"""
KEYS = """
SELECT indrelid::int8, indisprimary, (indkey::int2[])[0:indnkeyatts - 1]::int4[]
  FROM pg_index WHERE indisprimary AND indisvalid AND indimmediate AND indrelid >= 16384
 UNION ALL
SELECT c.oid::int8, NULL, (indkey::int2[])[0:indnkeyatts - 1]::int4[]
  FROM pg_class c JOIN pg_index ON indrelid = c.oid AND indisvalid AND indisunique AND indimmediate AND indpred IS NULL
   AND (relreplident = 'd' AND indisprimary OR relreplident = 'i' AND indisreplident) WHERE c.oid >= 16384
"""
ANCESTORS = """
SELECT c.oid::int8, (SELECT array_agg(a.relid::oid::int8 ORDER BY a.ordinality)
                       FROM pg_partition_ancestors(c.oid) WITH ORDINALITY AS a(relid, ordinality)
                      WHERE a.relid <> c.oid)
  FROM pg_class c WHERE c.relispartition
"""
TYPES = """
SELECT t.oid::int8, t.typname::text, n.nspname::text, format_type(t.oid, NULL), t.typtype::text, t.typlen,
       t.typalign::text, t.typbyval, t.typdelim::text,
       (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid)
  FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid >= 12000
"""
PUBLICATIONS = """
SELECT p.pubname::text, p.puballtables, p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate, p.pubviaroot
  FROM pg_publication p
"""
MEMBERS = """
SELECT prrelid::int8, prpubid::int8, {choices}
  FROM pg_publication_rel ORDER BY 1, 2
"""
CHOICES = "string_to_array(prattrs::text, ' ')::int4[], prqual::text"
"""What 14 has not, nor has it schemas."""

SCHEMAS = "SELECT pnnspid::int8, array_agg(pnpubid::int8 ORDER BY pnpubid) FROM pg_publication_namespace GROUP BY 1"
ORIGINS = "SELECT roident::int8, roname FROM pg_replication_origin"

INT4, TEXT, VARCHAR = 23, 25, 1043
MAPPED = (1247, 1249, 1259, 1262)

Content = dict[str, dict[Any, Any]]


@dataclass(frozen=True)
class Mark:
    """The server's answers at a point.

    Attributes:
        name: for people.
        lsn: ``pg_current_wal_insert_lsn()``.
        xid: toplevel xid of the transaction that was asked, 0 for an onlooker.
        content: its answers.
    """

    name: str
    lsn: int
    xid: int
    content: Content


def ask(connection: psycopg.Connection[Any]) -> Content:
    """Ask for everything that a view can tell, by SQL."""

    def run(query: str) -> list[tuple[Any, ...]]:
        return connection.execute(query.encode()).fetchall()

    keys: dict[Any, Any] = {}
    for oid, is_primary, numbers in run(KEYS):
        keys.setdefault(oid, {})["primary" if is_primary else "identity"] = tuple(numbers)
    columns: dict[Any, Any] = {}
    for oid, *column in run(COLUMNS):
        columns.setdefault(oid, []).append(tuple(column))
    is_14 = connection.info.server_version < 150000
    members: dict[Any, Any] = {}
    for oid, publication, numbers, tree in run(MEMBERS.format(choices="NULL, NULL" if is_14 else CHOICES)):
        members.setdefault(oid, []).append((publication, numbers and tuple(numbers), tree))
    return {
        "relations": {row[0]: row for row in run(RELATIONS)},
        "columns": columns,
        "members": members,
        "schemas": {oid: tuple(publications) for oid, publications in (() if is_14 else run(SCHEMAS))},
        "keys": keys,
        "ancestors": {oid: tuple(parents or ()) for oid, parents in run(ANCESTORS)},
        "types": {row[0]: row for row in run(TYPES)},
        "publications": {row[0]: row for row in run(PUBLICATIONS)},
        "origins": dict(run(ORIGINS)),
    }


@dataclass
class Recorder:
    """Sessions on a server, and what it says of its catalog in between."""

    server: EmbeddedPostgres
    marks: list[Mark] = field(default_factory=list)
    sessions: dict[str, psycopg.Connection[Any]] = field(default_factory=dict)
    _onlooker: psycopg.Connection[Any] | None = None

    def session(self, name: str) -> psycopg.Connection[Any]:
        """Return a connection by name."""
        if name not in self.sessions:
            self.sessions[name] = self.server.connect()
        return self.sessions[name]

    def run(self, name: str, *statements: str) -> None:
        """Run statements in a session; after each the onlooker makes a mark, and the session if it is in a block."""
        for statement in statements:
            self.quietly(name, statement)
            self.mark(statement)
            self.mark_inside(name, statement)

    def quietly(self, name: str, statement: str) -> None:
        """Run a statement without a mark."""
        self.session(name).execute(statement.encode())

    def mark(self, name: str) -> None:
        """Note what an onlooker sees."""
        if self._onlooker is None:
            self._onlooker = self.server.connect()
        self._mark(name, self._onlooker, 0)

    def mark_inside(self, name: str, statement: str) -> None:
        """Note what a session sees inside its transaction, if it has written in one."""
        xid = self.open_xid(name)
        if xid:
            self._mark(f"{name}: {statement}", self.session(name), xid)

    def open_xid(self, name: str) -> int:
        """Return the xid of a session's open transaction, 0 without one."""
        connection = self.session(name)
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.INTRANS:
            return 0
        row = connection.execute("SELECT pg_current_xact_id_if_assigned()::text::int8 & 4294967295").fetchone()
        return int(row[0]) if row and row[0] else 0

    def _mark(self, name: str, connection: psycopg.Connection[Any], xid: int) -> None:
        content = ask(connection)
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        self.marks.append(Mark(name, int(row[0]), xid, content))

    def forget_behind(self, lsn: int) -> None:
        """Forget the marks of what a crash has lost: its places in the log, and its xids, become those of others."""
        self.marks = [mark for mark in self.marks if mark.lsn <= lsn]

    def close(self) -> None:
        """Close all connections."""
        for connection in [*self.sessions.values(), *([self._onlooker] if self._onlooker else [])]:
            connection.close()
        self.sessions.clear()
        self._onlooker = None


@dataclass
class Rolled:
    """A store at the end of the WAL, and what one must know to look at it as a transaction in progress does.

    Attributes:
        store: rolled forward.
        rounds: how often the catalog was opened before no locator was missing.
        commands: per toplevel xid, (lsn, next command id).
        members: per toplevel xid, (lsn, subxid) in order of appearance.
        aborted: lsn of each aborted xid's record.
        ends: the xids that ended with the record at an lsn.
        extra: the files that turned out to be catalogs'.
    """

    store: CatalogStore
    rounds: int = 1
    commands: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    members: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    aborted: dict[int, int] = field(default_factory=dict)
    ends: dict[int, tuple[int, ...]] = field(default_factory=dict)
    extra: frozenset[tuple[int, int, int]] = frozenset()

    def own(self, mark: Mark) -> OwnCommands:
        """Return what the transaction of a mark may see of its own changes."""
        cids = [cid for lsn, cid in self.commands.get(mark.xid, []) if lsn < mark.lsn]
        subs = [sub for lsn, sub in self.members.get(mark.xid, []) if lsn < mark.lsn]
        live = {sub for sub in subs if self.aborted.get(sub, mark.lsn) >= mark.lsn}
        return OwnCommands(frozenset({mark.xid, *live}), max(cids, default=0))


def read_records(wal: Path, start: int, major: int) -> list[Record]:
    """Read all records from an LSN to the end of the log."""
    frames = read_frames(WalDirectory.scan(wal), start)
    ends = zip(frames.lsns.tolist(), frames.end_lsns.tolist(), strict=True)
    return [parse_record(frames.record(i), lsn, end, major) for i, (lsn, end) in enumerate(ends)]


def open_copy(backup: Path, database: str, extra: Iterable[tuple[int, int, int]] = ()) -> CatalogStore:
    """Open the catalog of a backup, or of a file that a server's was exported to; a new store each time."""
    if not backup.is_file():
        return open_catalog(backup, database, extra)
    store = store_of(load_value(backup, KeptState).state.catalog)
    for locator in extra:
        store.files.add_extra(locator)
    return store


def roll_forward(backup: Path, wal: Path, database: str = "postgres") -> Rolled:
    """Open a backup's catalog and roll it forward to the end of the WAL, as often as new catalog files are met."""
    extra: frozenset[tuple[int, int, int]] = frozenset()
    records: list[Record] | None = None
    rounds = 0
    while True:
        rounds += 1
        store = open_copy(backup, database, extra)
        if records is None:
            records = read_records(wal, store.start_lsn, store.major)
        rolled = Rolled(store, rounds)
        for record in records:
            apply(store, record)
        if not store.redo.missing_locators():
            break
        assert not store.redo.missing_locators() <= extra
        extra |= store.redo.missing_locators()
    _learn(rolled, records)
    tell(store, records)
    rolled.extra = extra
    return rolled


def apply(store: CatalogStore, record: Record) -> None:
    """Roll a store forward over a record, if it is one that it needs."""
    if record.lsn >= store.origin.consistent_lsn > 0 and not store.files.is_complete:
        store.files.complete()
    if is_wanted(record, store):
        store.apply(record)


def is_wanted(record: Record, store: CatalogStore) -> bool:
    """Tell whether an index step would keep a record: only if the store asked for it."""
    if record.rmid in (2, 7):
        return True
    if record.rmid == 9 and record.info & 0x70 == heap2.NEW_CID:
        return True
    return record.rmid in (0, 9, 10) and any(block.locator in store.files.locators() for block in record.blocks)


def tell(store: CatalogStore, records: Iterable[Record]) -> None:
    """Tell a store what became of transactions, and where its copy is complete."""
    for record in records:
        if record.rmid == 1 and record.info & 0x70 in (0x00, 0x20, 0x30, 0x40):
            end = xact.parse_end(record, store.major)
            if end.is_commit:
                store.commit((end.xid, *end.subxacts), record.lsn)
            else:
                store.abort((end.xid, *end.subxacts))
        elif record.rmid == 8 and record.info & 0x70 == standby.RUNNING_XACTS:
            store.settle_before(standby.parse_running_xacts(record.main_data, record.lsn).oldest_running_xid)
        elif record.rmid == 0 and _completes(record, store):
            store.files.complete()


def _completes(record: Record, store: CatalogStore) -> bool:
    """Tell whether a record completes the copy that the store was opened from.

    It is the end of the online backup, or a checkpoint that began after another copy's.
    """
    start = store.origin.backup_start
    if store.origin.is_exported:
        return False
    if record.info & 0xF0 == 0x50:
        return int.from_bytes(record.main_data[:8], "little") == start
    redo = int.from_bytes(record.main_data[:8], "little")
    return record.info & 0xF0 in (0x00, 0x10) and start is None and redo > store.origin.start_lsn


def _learn(rolled: Rolled, records: Iterable[Record]) -> None:
    for record in records:
        if record.toplevel_xid:
            rolled.members.setdefault(record.toplevel_xid, []).append((record.lsn, record.xid))
        if record.rmid == 1 and record.info & 0x70 in (0x00, 0x20, 0x30, 0x40):
            end = xact.parse_end(record, rolled.store.major)
            rolled.ends[record.lsn] = (end.xid, *end.subxacts)
            if not end.is_commit:
                rolled.aborted |= dict.fromkeys((end.xid, *end.subxacts), record.lsn)
        elif record.rmid == 9 and record.info & 0x70 == heap2.NEW_CID:
            change = heap2.parse_new_cid(record.main_data, record.lsn)
            cid = max(cid for cid in (change.cmin, change.cmax) if cid != 0xFFFFFFFF)
            rolled.commands.setdefault(change.top_xid, []).append((record.lsn, cid + 1))


def seen(view: HistoricCatalog, asked: Content, others: Content) -> Content:
    """Ask a view the same questions.

    Args:
        view: the view.
        asked: what the server answered there.
        others: things that existed at some other point, and may not show if ``asked`` lacks them.
    """
    known = {kind: {**others[kind], **asked[kind]} for kind in others}
    members = {oid: _seen_members(view, oid) for oid in known["members"]}
    schemas = {oid: view.schema_publications(oid) for oid in known["schemas"]}
    names = {oid: view.origin_name(oid) for oid in known["origins"]}
    return {
        **_seen_relations(view, known["relations"], asked["columns"]),
        "members": {oid: memberships for oid, memberships in members.items() if memberships},
        "schemas": {oid: publications for oid, publications in schemas.items() if publications},
        "types": {oid: _seen_type(view.type_info(oid)) for oid in asked["types"]},
        "publications": _seen_publications(view, known["publications"]),
        "origins": {oid: name for oid, name in names.items() if name is not None},
    }


def _seen_relations(view: HistoricCatalog, rows: dict[Any, Any], columns: dict[Any, Any]) -> Content:
    """List relations, with what a view knows of them.

    Args:
        view: the view.
        rows: what the server answered of each relation, there or at some other point.
        columns: what it answered there of their columns.
    """
    content: Content = {"relations": {}, "columns": {}, "keys": {}, "ancestors": {}}
    for oid, row in rows.items():
        schema = view.relation(oid)
        if schema is None:
            continue
        content["relations"][oid] = _seen_relation(view, schema, row)
        if oid >= FIRST_UNPINNED_OBJECT_ID and schema.columns:
            missing = {column[0]: column[10] for column in columns.get(oid, [])}
            content["columns"][oid] = [_seen_column(column, missing.get(column.number)) for column in schema.columns]
        keys = {"primary": schema.primary_key_columns, "identity": schema.identity_columns}
        if oid >= FIRST_NORMAL_OBJECT_ID and any(keys.values()):
            content["keys"][oid] = {name: numbers for name, numbers in keys.items() if numbers}
        if schema.is_partition:
            content["ancestors"][oid] = schema.ancestors
    return content


def _seen_relation(view: HistoricCatalog, schema: RelationSchema, row: tuple[Any, ...]) -> tuple[Any, ...]:
    # The new file of a mapped catalog is not known before the rewriting transaction commits.
    by_file = view.relation_by_filenode(row[11], row[10]) if row[10] and schema.oid not in MAPPED else schema
    return (
        schema.oid, schema.namespace, schema.name, schema.kind, schema.persistence, schema.replica_identity,
        schema.toast_oid, schema.rewrite_of, schema.is_partition, schema.namespace_oid,
        row[10] if by_file == schema else by_file, row[11], schema.is_user_catalog,
    )  # fmt: skip


def _seen_column(c: Column, missing: str | None) -> tuple[Any, ...]:
    oid = c.type.oid if c.type else 0
    return (
        c.number, c.name, oid, c.typmod, c.attlen, c.attalign, c.is_dropped, c.generated, c.not_null,
        c.type.display_name if c.type else None, _missing_text(c.missing, oid, missing),
    )  # fmt: skip


def _seen_type(t: TypeInfo) -> tuple[Any, ...]:
    labels = [label for _, label in t.labels]
    return (
        t.oid, t.name, t.namespace, t.display_name, t.typtype, t.typlen, t.typalign, t.typbyval, t.delimiter,
        labels or None,
    )  # fmt: skip


def _seen_publications(view: HistoricCatalog, names: Iterable[str]) -> dict[Any, Any]:
    publications = ((name, view.publication(name)) for name in names)
    return {
        name: (p.name, p.all_tables, p.insert, p.update, p.delete, p.truncate, p.via_root)
        for name, p in publications
        if p is not None
    }


def _seen_members(view: HistoricCatalog, oid: int) -> list[tuple[Any, ...]]:
    return [
        (publication, *(view.publication_member(oid, publication) or ()))
        for publication in view.relation_publications(oid)
    ]


def _missing_text(missing: bytes | None, type_oid: int, asked: str | None) -> str | None:
    """Return ``attmissingval`` as text: of integers and text alone, of others only that it is there."""
    if missing is None:
        return None
    if type_oid == INT4:
        return f"{{{int.from_bytes(missing, 'little', signed=True)}}}"
    if type_oid in (TEXT, VARCHAR):
        assert int.from_bytes(missing[:4], "little") >> 2 == len(missing)
        text = missing[4:].decode()
        return f'{{"{text}"}}' if " " in text else f"{{{text}}}"
    return asked


def differences(expected: Content, actual: Content) -> list[str]:
    """List the differences, one line each."""
    lines = []
    for kind in expected:
        for key in expected[kind].keys() | actual[kind].keys():
            left, right = expected[kind].get(key), actual[kind].get(key)
            if left != right:
                lines.append(f"{kind} {key}: expected {left}, found {right}")
    return lines


def wrong_marks(marks: list[Mark], rolled: Rolled) -> list[str]:
    """List every difference between the server's answers and those of views, at all marks."""
    others: Content = {kind: {} for kind in ("relations", "publications", "origins", "members", "schemas")}
    for mark in marks:
        for kind, known in others.items():
            known.update(mark.content[kind])
    lines = []
    for mark in marks:
        view = rolled.store.view(mark.lsn, rolled.own(mark) if mark.xid else None)
        wrong = differences(mark.content, seen(view, mark.content, others))
        lines += [
            f"{mark.name} ({mark.lsn >> 32:X}/{mark.lsn & 0xFFFFFFFF:X}, xid {mark.xid}): {line}" for line in wrong
        ]
    return lines
