"""What ``headwater decode`` was asked for; apart from what declares the flags, and from what does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class DecodeFlags:
    """The flags of ``headwater decode``, as they were given.

    Attributes:
        wal, catalog, database: what is read.
        start, end: LSNs.
        plugin: the output plugin's name.
        options, settings: texts ``NAME=VALUE``.
        tables: texts of patterns; unknown_types: error, hex or null.
        out: ``-`` or a path; with_lsn: lines begin with LSN and xid.
        master: for Spark; scratch: directory of unfinished output.
        quiet: nothing of progress on standard error.
        stats: figures on standard error; stats_json: a file for them.
    """

    wal: str
    catalog: str
    database: str | None
    start: str | None
    end: str | None
    plugin: str
    options: Sequence[str]
    settings: Sequence[str]
    tables: Sequence[str]
    unknown_types: str
    out: str
    with_lsn: bool
    master: str | None
    scratch: str | None
    quiet: bool
    stats: bool
    stats_json: str | None
