"""What ``headwater decode`` was asked for; apart from what declares the flags, and from what does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class DecodeFlags:
    """The flags of ``headwater decode``, as they were given.

    Attributes:
        wal, catalog: what is read; wal: places, in the order in which a segment is looked for.
        database: names of databases; all_databases: every one.
        timeline: the timeline to follow; storage_options: texts ``NAME=VALUE`` for stores.
        slot: a slot's directory; peek: it does not advance.
        from_state: a file or directory of kept states; keep_states: a directory for them.
        start, end: LSNs.
        plugin: the output plugin's name.
        user: whose settings sessions would have.
        options, settings: texts ``NAME=VALUE``.
        client_encoding: by PostgreSQL's names; None for the default.
        publish: texts of the user's own publications.
        tables: texts of patterns; unknown_types: error, hex or null.
        on_level_gap: error or skip.
        from_replica_level: WAL of wal_level replica is decoded, too.
        two_phase: prepared transactions are decoded at PREPARE.
        ddl: DDL is told, too, by a plugin that can.
        out: ``-`` or a path; with_lsn: lines begin with LSN and xid.
        master: for Spark; scratch: directory of unfinished output.
        window_bytes: WAL that is planned at a time.
        quiet: nothing of progress on standard error.
        stats: figures on standard error; stats_json: a file for them.
    """

    wal: Sequence[str]
    timeline: int | None
    storage_options: Sequence[str]
    catalog: str | None
    slot: str | None
    peek: bool
    from_state: str | None
    keep_states: str | None
    database: Sequence[str]
    all_databases: bool
    start: str | None
    end: str | None
    plugin: str | None
    user: str | None
    options: Sequence[str]
    settings: Sequence[str]
    client_encoding: str | None
    tables: Sequence[str]
    publish: Sequence[str]
    unknown_types: str | None
    on_level_gap: str
    from_replica_level: bool
    two_phase: bool
    ddl: bool
    out: str
    with_lsn: bool
    master: str | None
    scratch: str | None
    window_bytes: int
    quiet: bool
    stats: bool
    stats_json: str | None

    @property
    def is_of_several(self) -> bool:
        """Several databases may come of it."""
        return self.all_databases or len(set(self.database)) > 1
