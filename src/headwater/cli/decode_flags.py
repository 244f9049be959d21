"""What ``headwater decode`` was asked for; apart from what declares the flags, and from what does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.cli.output_flags import OutputFlags


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
        server_version: the release of the server that wrote the WAL.
        user: whose settings sessions would have.
        on_level_gap: error or skip.
        from_replica_level: WAL of wal_level replica is decoded, too.
        outputs: what is made of it, one at least.
        engine: one of :data:`headwater.pipeline.engines.ENGINES`; master: for Spark.
        scratch: directory of unfinished output.
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
    user: str | None
    server_version: str | None
    on_level_gap: str
    from_replica_level: bool
    outputs: tuple[OutputFlags, ...]
    engine: str
    master: str | None
    scratch: str | None
    window_bytes: int
    quiet: bool
    stats: bool
    stats_json: str | None

    @property
    def ddl(self) -> bool:
        """DDL is told by an output."""
        return any(output.ddl for output in self.outputs)

    @property
    def is_of_several(self) -> bool:
        """Several databases may come of it."""
        return self.all_databases or len(set(self.database)) > 1
