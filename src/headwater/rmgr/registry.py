"""Every resource manager and every info code, by name and major version.

A record that is not listed here does not exist: meeting it in verified WAL is an error, never "some record to skip".
Records of extensions' own resource managers are counted and passed over, as the server passes over those without
``rm_decode``. Sources: ``access/rmgrlist.h`` and the identify functions of ``access/rmgrdesc/*.c``. The four upper bits
of ``xl_info`` say what a record is. Two managers use one of them as a flag: XACT (0x80, HAS_INFO) and HEAP, HEAP2 and
BRIN (0x80, INIT_PAGE); the combinations are listed as well, as ``pg_waldump`` names them.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headwater.errors import RecordError
from headwater.pg.version import VERSIONS, Version

XLOG, XACT, SMGR, CLOG, DBASE, TBLSPC, MULTIXACT, RELMAP, STANDBY, HEAP2, HEAP = range(11)
BTREE, HASH, GIN, GIST, SEQ, SPGIST, BRIN, COMMIT_TS, REPLORIGIN, GENERIC, LOGICALMSG = range(11, 22)
"""Resource managers (``RM_..._ID``), the same from 14 to 19."""

FIRST_CUSTOM: Final = 128
"""The first id of extensions' own resource managers (15 and newer)."""

RMGR_NAMES: Final = (
    "XLOG",
    "Transaction",
    "Storage",
    "CLOG",
    "Database",
    "Tablespace",
    "MultiXact",
    "RelMap",
    "Standby",
    "Heap2",
    "Heap",
    "Btree",
    "Hash",
    "Gin",
    "Gist",
    "Sequence",
    "SPGist",
    "BRIN",
    "CommitTs",
    "ReplicationOrigin",
    "Generic",
    "LogicalMessage",
)
"""Names by id, as ``pg_waldump`` prints them."""

_Codes = dict[int, str]

_XLOG: _Codes = {
    0x00: "CHECKPOINT_SHUTDOWN",
    0x10: "CHECKPOINT_ONLINE",
    0x20: "NOOP",
    0x30: "NEXTOID",
    0x40: "SWITCH",
    0x50: "BACKUP_END",
    0x60: "PARAMETER_CHANGE",
    0x70: "RESTORE_POINT",
    0x80: "FPW_CHANGE",
    0x90: "END_OF_RECOVERY",
    0xA0: "FPI_FOR_HINT",
    0xB0: "FPI",
    0xD0: "OVERWRITE_CONTRECORD",
}
_XLOG_17: _Codes = {**_XLOG, 0xE0: "CHECKPOINT_REDO"}
_XLOG_19: _Codes = {**_XLOG_17, 0xC0: "ASSIGN_LSN", 0xF0: "LOGICAL_DECODING_STATUS_CHANGE"}

_XACT_OPERATIONS = (
    "COMMIT",
    "PREPARE",
    "ABORT",
    "COMMIT_PREPARED",
    "ABORT_PREPARED",
    "ASSIGNMENT",
    "INVALIDATION",
)
_XACT: _Codes = {flag | op << 4: name for op, name in enumerate(_XACT_OPERATIONS) for flag in (0x00, 0x80)}

_DBASE: _Codes = {0x00: "CREATE_FILE_COPY", 0x10: "CREATE_WAL_LOG", 0x20: "DROP"}

_HEAP: _Codes = {
    0x00: "INSERT",
    0x10: "DELETE",
    0x20: "UPDATE",
    0x30: "TRUNCATE",
    0x40: "HOT_UPDATE",
    0x50: "HEAP_CONFIRM",
    0x60: "LOCK",
    0x70: "INPLACE",
    0x80: "INSERT+INIT",
    0xA0: "UPDATE+INIT",
    0xC0: "HOT_UPDATE+INIT",
}
_HEAP2: _Codes = {
    0x00: "REWRITE",
    0x40: "VISIBLE",
    0x50: "MULTI_INSERT",
    0x60: "LOCK_UPDATED",
    0x70: "NEW_CID",
    0xD0: "MULTI_INSERT+INIT",
}
_HEAP2_15: _Codes = {**_HEAP2, 0x10: "PRUNE", 0x20: "VACUUM", 0x30: "FREEZE_PAGE"}
_HEAP2_17: _Codes = {**_HEAP2, 0x10: "PRUNE_ON_ACCESS", 0x20: "PRUNE_VACUUM_SCAN", 0x30: "PRUNE_VACUUM_CLEANUP"}
_HEAP2_19: _Codes = {info: name for info, name in _HEAP2_17.items() if name != "VISIBLE"}

_BTREE: _Codes = {
    0x00: "INSERT_LEAF",
    0x10: "INSERT_UPPER",
    0x20: "INSERT_META",
    0x30: "SPLIT_L",
    0x40: "SPLIT_R",
    0x50: "INSERT_POST",
    0x60: "DEDUP",
    0x70: "DELETE",
    0x80: "UNLINK_PAGE",
    0x90: "UNLINK_PAGE_META",
    0xA0: "NEWROOT",
    0xB0: "MARK_PAGE_HALFDEAD",
    0xC0: "VACUUM",
    0xD0: "REUSE_PAGE",
    0xE0: "META_CLEANUP",
}
_HASH: _Codes = {
    0x00: "INIT_META_PAGE",
    0x10: "INIT_BITMAP_PAGE",
    0x20: "INSERT",
    0x30: "ADD_OVFL_PAGE",
    0x40: "SPLIT_ALLOCATE_PAGE",
    0x50: "SPLIT_PAGE",
    0x60: "SPLIT_COMPLETE",
    0x70: "MOVE_PAGE_CONTENTS",
    0x80: "SQUEEZE_PAGE",
    0x90: "DELETE",
    0xA0: "SPLIT_CLEANUP",
    0xB0: "UPDATE_META_PAGE",
    0xC0: "VACUUM_ONE_PAGE",
}
_GIN: _Codes = {
    0x10: "CREATE_PTREE",
    0x20: "INSERT",
    0x30: "SPLIT",
    0x40: "VACUUM_PAGE",
    0x50: "DELETE_PAGE",
    0x60: "UPDATE_META_PAGE",
    0x70: "INSERT_LISTPAGE",
    0x80: "DELETE_LISTPAGE",
    0x90: "VACUUM_DATA_LEAF_PAGE",
}
_GIST: _Codes = {
    0x00: "PAGE_UPDATE",
    0x10: "DELETE",
    0x20: "PAGE_REUSE",
    0x30: "PAGE_SPLIT",
    0x60: "PAGE_DELETE",
}
_GIST_14: _Codes = {**_GIST, 0x70: "ASSIGN_LSN"}
_SPGIST: _Codes = {
    0x10: "ADD_LEAF",
    0x20: "MOVE_LEAFS",
    0x30: "ADD_NODE",
    0x40: "SPLIT_TUPLE",
    0x50: "PICKSPLIT",
    0x60: "VACUUM_LEAF",
    0x70: "VACUUM_ROOT",
    0x80: "VACUUM_REDIRECT",
}
_BRIN: _Codes = {
    0x00: "CREATE_INDEX",
    0x10: "INSERT",
    0x20: "UPDATE",
    0x30: "SAMEPAGE_UPDATE",
    0x40: "REVMAP_EXTEND",
    0x50: "DESUMMARIZE",
    0x90: "INSERT+INIT",
    0xA0: "UPDATE+INIT",
}


def _codes(version: Version) -> tuple[_Codes, ...]:
    """List the info codes of each resource manager, by its id."""
    xlog = _XLOG_17 if version.logs_wal_level else _XLOG
    heap2 = _HEAP2_17 if version.has_unified_prune else _HEAP2_15
    return (
        _XLOG_19 if version.switches_decoding else xlog,
        _XACT,
        {0x10: "CREATE", 0x20: "TRUNCATE"},
        {0x00: "ZEROPAGE", 0x10: "TRUNCATE"},
        _DBASE if version.logs_created_databases else {0x00: "CREATE", 0x10: "DROP"},
        {0x00: "CREATE", 0x10: "DROP"},
        {0x00: "ZERO_OFF_PAGE", 0x10: "ZERO_MEM_PAGE", 0x20: "CREATE_ID", 0x30: "TRUNCATE_ID"},
        {0x00: "UPDATE"},
        {0x00: "LOCK", 0x10: "RUNNING_XACTS", 0x20: "INVALIDATIONS"},
        _HEAP2_19 if version.sets_visibility_with_pruning else heap2,
        _HEAP,
        _BTREE,
        _HASH,
        _GIN,
        _GIST if version.logs_assigned_lsns else _GIST_14,
        {0x00: "LOG"},
        _SPGIST,
        _BRIN,
        {0x00: "ZEROPAGE", 0x10: "TRUNCATE"},
        {0x00: "SET", 0x10: "DROP"},
        {0x00: "Generic"},
        {0x00: "MESSAGE"},
    )


CODES: Final = {major: _codes(version) for major, version in VERSIONS.items()}
"""Info codes by major and resource manager id: upper four bits of ``xl_info`` to name."""


def record_name(major: int, rmid: int, info: int, lsn: int) -> str:
    """Name a kind of record within its resource manager.

    Args:
        major: PostgreSQL's major version.
        rmid: ``xl_rmid``.
        info: ``xl_info``; the lower four bits do not matter.
        lsn: the record's LSN, for errors.

    Raises:
        RecordError: unknown resource manager or info code.
    """
    if rmid >= FIRST_CUSTOM and VERSIONS[major].has_custom_managers:
        return f"custom resource manager {rmid}"
    if rmid >= len(RMGR_NAMES):
        raise RecordError(f"unknown resource manager {rmid}, expected at most {LOGICALMSG}", lsn=lsn)
    name = CODES[major][rmid].get(info & 0xF0)
    if name is None:
        raise RecordError(
            f"unknown info code {info & 0xF0:#04x} of resource manager {RMGR_NAMES[rmid]}, PostgreSQL {major}", lsn=lsn
        )
    return name


@cache
def known_table(major: int) -> NDArray[np.uint8]:
    """Make the registry for kernels: uint8[4096], read-only; 1 at rmid * 16 + (xl_info >> 4) if the record exists."""
    table = np.zeros(256 * 16, np.uint8)
    for rmid, codes in enumerate(CODES[major]):
        for info in codes:
            table[rmid * 16 + (info >> 4)] = 1
    if VERSIONS[major].has_custom_managers:
        table[FIRST_CUSTOM * 16 :] = 1
    table.setflags(write=False)
    return table
