"""What ``headwater waldump`` was asked for; apart from what declares the flags, and from what does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class WaldumpFlags:
    """The flags of ``headwater waldump``, as they were given.

    Attributes:
        wal: places, in the order in which a segment is looked for.
        timeline: the timeline to follow; storage_options: texts ``NAME=VALUE`` for stores.
        start, end: LSNs; limit: number of records.
        managers: names of resource managers, or ``list``; xid: a transaction's.
        relation: text ``T/D/R``; block: its block; fork: name; fullpage: only records with a page image.
        bkp_details: blocks in lines of their own; quiet: nothing is shown.
        stats: ``rmgr`` or ``record``, None for records.
    """

    wal: Sequence[str]
    timeline: int | None
    storage_options: Sequence[str]
    start: str | None
    end: str | None
    limit: int | None
    managers: Sequence[str]
    xid: int | None
    relation: str | None
    block: int | None
    fork: str | None
    fullpage: bool
    bkp_details: bool
    quiet: bool
    stats: str | None
