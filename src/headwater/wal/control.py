"""``global/pg_control`` (PostgreSQL: ``catalog/pg_control.h``, ControlFileData).

The layouts of 14 to 17 are the same; 18 has one more flag before the checksum. 19 has more in the copy of the
checkpoint, and between the sizes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from headwater.errors import CatalogError
from headwater.pg.lsn import Lsn
from headwater.pg.version import VERSIONS
from headwater.wal.checksum import crc32c

STARTUP, SHUTDOWNED, SHUTDOWNED_IN_RECOVERY, SHUTDOWNING, IN_CRASH_RECOVERY, IN_ARCHIVE_RECOVERY, IN_PRODUCTION = range(
    7
)
"""``DBState``."""

_HEAD = struct.Struct("<QIIIxxxxqQ")
_RECOVERY = struct.Struct("<QQI4xQQ?3xi?")
_STANDBY = struct.Struct("<iiiii")
_STANDBY_SETTINGS = (
    "max_connections",
    "max_worker_processes",
    "max_wal_senders",
    "max_prepared_transactions",
    "max_locks_per_transaction",
)
_CHECKPOINT_AT = 40
_SMALLEST = 296
_LAST_XID = 1 << 62
LAST_LSN = 1 << 63
"""Positions are numbers of 63 bits here; the server's have 64."""


class _Layout(NamedTuple):
    """The layout of a version's control file: positions in bytes from the start.

    Attributes:
        checkpoint: the copy of the checkpoint; from 19 on its sixth value tells whether logical decoding is on.
        recovery_at: the fields of recovery, which follow it.
        sizes: of blocks, relation files, WAL pages and segments.
        sizes_at, data_checksums_at, crc_at: where these are.
    """

    checkpoint: struct.Struct
    recovery_at: int
    sizes: struct.Struct
    sizes_at: int
    data_checksums_at: int
    crc_at: int


_LAYOUT_14 = _Layout(struct.Struct("<QII?3xIQIIIIIII4xqIII4x"), 128, struct.Struct("<IIII"), 216, 252, 288)
_LAYOUTS = {
    **dict.fromkeys((14, 15, 16, 17), _LAYOUT_14),
    18: _LAYOUT_14._replace(crc_at=292),
    19: _Layout(struct.Struct("<QII?3xI?7xQIIQIIIIqIII4x"), 136, struct.Struct("<II4xII"), 224, 268, 308),
}


@dataclass(frozen=True, slots=True)
class ControlFile:
    """The contents of a cluster's control file.

    Attributes:
        system_identifier: of the cluster.
        major: PostgreSQL's major version.
        catalog_version: ``catalog_version_no``.
        state: ``DBState``, see the constants.
        time: of the last update, seconds since 1970.
        checkpoint_lsn: the latest checkpoint's record.
        redo_lsn: where its replay begins.
        timeline: of the checkpoint.
        previous_timeline: the one before, if the checkpoint begins a timeline, else the same.
        full_page_writes: setting as of the checkpoint.
        decodes_on_demand: whether logical decoding was on at the checkpoint, as 19 can switch it on by itself; False
            before.
        next_xid: next transaction id as of the checkpoint, 64 bits with its epoch.
        next_oid: next OID as of the checkpoint.
        next_multi: next multixact as of the checkpoint.
        oldest_xid: cluster-wide ``datfrozenxid``.
        checkpoint_time: seconds since 1970.
        oldest_active_xid: oldest xid running at an online checkpoint, else 0.
        min_recovery_lsn: replay must reach this LSN, 0 none.
        min_recovery_timeline: and on this timeline, 0 none.
        backup_start_lsn: where the backup that is being recovered began, 0 none.
        backup_end_lsn: where it ended, if it was taken from a standby, 0 none.
        backup_end_required: a BACKUP_END record must be met.
        wal_level: 0 minimal, 1 replica, 2 logical, as of the last start.
        block_size: of relations.
        relation_segment_blocks: blocks per relation file.
        wal_block_size: bytes of a WAL page.
        wal_segment_size: bytes of a WAL segment.
        data_checksum_version: 0 if pages have no checksums.
    """

    system_identifier: int
    major: int
    catalog_version: int
    state: int
    time: int
    checkpoint_lsn: int
    redo_lsn: int
    timeline: int
    previous_timeline: int
    full_page_writes: bool
    decodes_on_demand: bool
    next_xid: int
    next_oid: int
    next_multi: int
    oldest_xid: int
    checkpoint_time: int
    oldest_active_xid: int
    min_recovery_lsn: int
    min_recovery_timeline: int
    backup_start_lsn: int
    backup_end_lsn: int
    backup_end_required: bool
    wal_level: int
    block_size: int
    relation_segment_blocks: int
    wal_block_size: int
    wal_segment_size: int
    data_checksum_version: int

    @property
    def is_shutdown_checkpoint(self) -> bool:
        """The latest checkpoint was made at shutdown: nothing ran, and replay begins at its own record.

        An online checkpoint has its RUNNING_XACTS (17 and newer: CHECKPOINT_REDO) between the two.
        """
        return self.checkpoint_lsn == self.redo_lsn


def parse_control_file(data: bytes, file: str) -> ControlFile:
    """Read a control file's bytes; `file` is for errors.

    Raises:
        CatalogError: damaged, or of a version that is not supported.
    """
    if len(data) < _SMALLEST:
        raise CatalogError(f"control file has {len(data)} bytes, expected at least {_SMALLEST}", file=file)
    system, control_version, catalog_version, state, time, checkpoint_lsn = _HEAD.unpack_from(data)
    major = _major(control_version, catalog_version, file)
    layout = _LAYOUTS[major]
    if len(data) < layout.crc_at + 4:
        raise CatalogError(f"control file has {len(data)} bytes, expected at least {layout.crc_at + 4}", file=file)
    _check_crc(data, layout.crc_at, file)
    checkpoint = layout.checkpoint.unpack_from(data, _CHECKPOINT_AT)
    if not VERSIONS[major].switches_decoding:
        checkpoint = (*checkpoint[:5], False, *checkpoint[5:])
    recovery = _RECOVERY.unpack_from(data, layout.recovery_at)
    block_size, segment_blocks, wal_block_size, wal_segment_size = layout.sizes.unpack_from(data, layout.sizes_at)
    _check_positions((checkpoint_lsn, checkpoint[0], *recovery[1:2], *recovery[3:5]), file)
    check_next_xid(checkpoint[6], file=file)
    if segment_blocks < 1:
        raise CatalogError("control file has relation files of 0 blocks, expected 1 or more", file=file)
    return ControlFile(
        system_identifier=system,
        major=major,
        catalog_version=catalog_version,
        state=state,
        time=time,
        checkpoint_lsn=checkpoint_lsn,
        redo_lsn=checkpoint[0],
        timeline=checkpoint[1],
        previous_timeline=checkpoint[2],
        full_page_writes=checkpoint[3],
        decodes_on_demand=checkpoint[5],
        next_xid=checkpoint[6],
        next_oid=checkpoint[7],
        next_multi=checkpoint[8],
        oldest_xid=checkpoint[10],
        checkpoint_time=checkpoint[14],
        oldest_active_xid=checkpoint[17],
        min_recovery_lsn=recovery[1],
        min_recovery_timeline=recovery[2],
        backup_start_lsn=recovery[3],
        backup_end_lsn=recovery[4],
        backup_end_required=recovery[5],
        wal_level=recovery[6],
        block_size=block_size,
        relation_segment_blocks=segment_blocks,
        wal_block_size=wal_block_size,
        wal_segment_size=wal_segment_size,
        data_checksum_version=int.from_bytes(data[layout.data_checksums_at :][:4], "little"),
    )


def settings_of_standbys(data: bytes, major: int) -> dict[str, int]:
    """Read the settings of which a standby must have no less than its primary.

    Args:
        data: of a control file that :func:`parse_control_file` has read; major: PostgreSQL's major version.
    """
    return dict(zip(_STANDBY_SETTINGS, _STANDBY.unpack_from(data, _settings_at(major)), strict=True))


def without_commit_times(data: bytes, major: int) -> bytes:
    """Return a control file of a cluster that keeps no commit times: replay does not write them, either.

    Args:
        data: of a control file that :func:`parse_control_file` has read; major: PostgreSQL's major version.
    """
    at, crc_at = _settings_at(major) + _STANDBY.size, _LAYOUTS[major].crc_at
    changed = data[:at] + bytes(1) + data[at + 1 : crc_at]
    return changed + crc32c(changed).to_bytes(4, "little") + data[crc_at + 4 :]


def _settings_at(major: int) -> int:
    """Return where the settings that standbys need begin; ``track_commit_timestamp`` follows them."""
    return -(-(_LAYOUTS[major].recovery_at + _RECOVERY.size) // 4) * 4


def _major(control_version: int, catalog_version: int, file: str) -> int:
    """Find the major version that has both of these numbers."""
    for version in VERSIONS.values():
        if (version.control_version, version.catalog_version) == (control_version, catalog_version):
            return version.major
    raise CatalogError(
        f"control file is of an unsupported PostgreSQL version, found control version {control_version} and catalog "
        f"version {catalog_version}, expected those of {', '.join(map(str, VERSIONS))}",
        file=file,
    )


def _check_positions(lsns: Iterable[int], file: str) -> None:
    for lsn in lsns:
        if lsn >= LAST_LSN:
            raise CatalogError(f"control file has position {Lsn(lsn)}, expected one before {Lsn(LAST_LSN)}", file=file)


def check_next_xid(next_xid: int, *, lsn: int | None = None, file: str | None = None) -> None:
    """Check that a server can have come to a checkpoint's next transaction id, 64 bits with its epoch.

    Args:
        next_xid: the id.
        lsn: of the record that holds it; file: the file that holds it.

    Raises:
        CatalogError: none can.
    """
    if next_xid >= _LAST_XID:
        raise CatalogError(
            f"checkpoint has next transaction id {next_xid >> 32}:{next_xid & 0xFFFFFFFF}, "
            f"expected one before {_LAST_XID >> 32}:0",
            lsn=lsn,
            file=file,
        )


def _check_crc(data: bytes, at: int, file: str) -> None:
    actual, expected = crc32c(data[:at]), int.from_bytes(data[at : at + 4], "little")
    if actual != expected:
        raise CatalogError(
            f"incorrect checksum in control file, found {actual:08X}, expected {expected:08X}", file=file
        )
