"""The place and time at which a catalog was taken."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.catalog.copy.prepared import PreparedTransaction


@dataclass(frozen=True)
class CatalogOrigin:
    """The place and time at which a catalog was taken.

    Attributes:
        major: PostgreSQL's major version.
        system_identifier: the cluster's identifier.
        timeline: the timeline at ``start_lsn``.
        start_lsn: the redo LSN: WAL from here on rolls the catalog forward.
        is_shutdown: whether ``start_lsn`` is a shutdown checkpoint: nothing was running.
        database_oid: the database's OID.
        database_name: the database's name.
        database_tablespace: OID of the database's default tablespace.
        encoding: name of the database's encoding.
        wal_level: the level in ``pg_control``: 0 minimal, 1 replica, 2 logical.
        decodes_on_demand: whether logical decoding was on all the same (19 and newer).
        next_xid: low 32 bits of the next xid of ``pg_control``.
        xid_epoch: the high 32 bits of that xid.
        prepared: transactions of the database that were prepared then.
        segment_blocks: blocks per file of a relation.
        backup_start: a BACKUP_END record that names this LSN must be in the window, None if none need be.
        reach_lsn: an LSN that must likewise be in the window, as far as the control file tells; reach_timeline: its
            timeline.
        is_logged: whether the database was created later, and the WAL has all pages of its files.
        consistent_lsn: for a catalog that a server exported, the LSN where decoding begins; 0 for a copy of files.
    """

    major: int
    system_identifier: int
    timeline: int
    start_lsn: int
    is_shutdown: bool
    database_oid: int
    database_name: str
    database_tablespace: int
    encoding: str
    wal_level: int
    next_xid: int
    prepared: tuple[PreparedTransaction, ...] = ()
    segment_blocks: int = 1 << 17
    backup_start: int | None = None
    reach_lsn: int = 0
    reach_timeline: int = 1
    xid_epoch: int = 0
    consistent_lsn: int = 0
    decodes_on_demand: bool = False
    is_logged: bool = False

    def check_parts(self) -> None:
        """Check that the numbers can be reckoned with.

        Raises:
            ValueError: a number cannot.
        """
        if self.segment_blocks < 1:
            raise ValueError(f"relation files have {self.segment_blocks} blocks")

    @property
    def next_full_xid(self) -> int:
        """The next xid of ``pg_control``, all 64 bits."""
        return self.xid_epoch << 32 | self.next_xid

    @property
    def is_exported(self) -> bool:
        """Whether the rows are those that a snapshot of the server showed, not those of files."""
        return self.consistent_lsn != 0

    @property
    def first_lsn(self) -> int:
        """The first LSN: nothing that committed before it can be asked for."""
        return self.consistent_lsn or self.start_lsn
