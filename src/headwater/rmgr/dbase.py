"""Payloads of the DBASE and TBLSPC resource managers (PostgreSQL: ``commands/dbcommands_xlog.h``, ``tablespace.h``)."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.rmgr.description_parts import Style, shown_bytes
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

CREATE_FILE_COPY, CREATE_WAL_LOG, DROP = 0x00, 0x10, 0x20
"""In 14, 0x00 is called CREATE and 0x10 is DROP."""

TABLESPACE_CREATE, TABLESPACE_DROP = 0x00, 0x10


@dataclass(frozen=True, slots=True)
class DatabaseCopy:
    """``xl_dbase_create_file_copy_rec``: a database's directory was copied; its pages are not in the WAL."""

    database: int
    tablespace: int
    source_database: int
    source_tablespace: int


@dataclass(frozen=True, slots=True)
class DatabaseCreate:
    """``xl_dbase_create_wal_log_rec``: a database's directory was made; its pages follow as full page images."""

    database: int
    tablespace: int


@dataclass(frozen=True, slots=True)
class DatabaseDrop:
    """``xl_dbase_drop_rec``: directories of a database were removed."""

    database: int
    tablespaces: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TablespaceCreate:
    """``xl_tblspc_create_rec``: a tablespace was made."""

    tablespace: int
    path: bytes


def parse_file_copy(main_data: bytes, lsn: int) -> DatabaseCopy:
    """Read CREATE_FILE_COPY. Raises RecordError if malformed."""
    p = Payload(main_data, "database CREATE_FILE_COPY", lsn)
    return DatabaseCopy(p.u32(), p.u32(), p.u32(), p.u32())


def parse_wal_log(main_data: bytes, lsn: int) -> DatabaseCreate:
    """Read CREATE_WAL_LOG. Raises RecordError if malformed."""
    p = Payload(main_data, "database CREATE_WAL_LOG", lsn)
    return DatabaseCreate(p.u32(), p.u32())


def parse_drop(main_data: bytes, lsn: int) -> DatabaseDrop:
    """Read DROP. Raises RecordError if malformed."""
    p = Payload(main_data, "database DROP", lsn)
    return DatabaseDrop(p.u32(), p.u32s(p.i32()))


def parse_tablespace_create(main_data: bytes, lsn: int) -> TablespaceCreate:
    """Read a tablespace's CREATE. Raises RecordError if malformed."""
    p = Payload(main_data, "tablespace CREATE", lsn)
    return TablespaceCreate(p.u32(), p.cstring())


def parse_tablespace_drop(main_data: bytes, lsn: int) -> int:
    """Read a tablespace's DROP and return its OID. Raises RecordError if malformed."""
    return Payload(main_data, "tablespace DROP", lsn).u32()


def describe(record: Record, style: Style) -> str:
    """Describe a database's record as ``pg_waldump`` does (dbase_desc).

    Raises:
        RecordError: malformed.
    """
    kind, data, lsn = record.kind, record.main_data, record.lsn
    if kind == CREATE_FILE_COPY:
        copy = parse_file_copy(data, lsn)
        source = f"{copy.source_tablespace}/{copy.source_database}"
        return f"copy dir {source} to {copy.tablespace}/{copy.database}"
    if kind == CREATE_WAL_LOG and style.version.logs_created_databases:
        create = parse_wal_log(data, lsn)
        return f"create dir {create.tablespace}/{create.database}"
    drop = parse_drop(data, lsn)
    return "dir" + "".join(f" {tablespace}/{drop.database}" for tablespace in drop.tablespaces)


def describe_tablespace(record: Record, _style: Style) -> str:
    """Describe a tablespace's record as ``pg_waldump`` does (tblspc_desc).

    Raises:
        RecordError: malformed.
    """
    if record.kind == TABLESPACE_DROP:
        return str(parse_tablespace_drop(record.main_data, record.lsn))
    create = parse_tablespace_create(record.main_data, record.lsn)
    return f'{create.tablespace} "{shown_bytes(create.path)}"'
