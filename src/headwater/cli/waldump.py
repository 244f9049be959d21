"""``headwater waldump``: the records of the WAL as lines, or statistics of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from headwater.cli.flags import command, from_flag, from_flags
from headwater.cli.process.setup import say
from headwater.cli.shared_flags import WalFlags, parsed_lsn
from headwater.errors import UsageError
from headwater.pg.decimals import decimal
from headwater.pg.lsn import Lsn, lsn_text

if TYPE_CHECKING:
    from headwater.rmgr.outline import RecordChoice

_RELATION = re.compile(r"(\d{1,10})/(\d{1,10})/(\d{1,10})")
_CUSTOM = re.compile(r"custom(\d{3})")
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class WaldumpFlags:
    """The flags of ``headwater waldump``."""

    log: WalFlags = from_flags(WalFlags)
    start: str | None = from_flag("-s", "--start", metavar="LSN", help="Begin there; default: the first record.")
    end: str | None = from_flag("-e", "--end", metavar="LSN", help="Stop there; default: the end of the log.")
    limit: int | None = from_flag("-n", "--limit", type=click.IntRange(1), metavar="N", help="Show so many records.")
    managers: Sequence[str] = from_flag(
        "-r", "--rmgr", multiple=True, metavar="NAME", help="Only of this resource manager; list: their names."
    )
    xid: int | None = from_flag(
        "-x", "--xid", type=click.IntRange(0, 2**32 - 1), metavar="XID", help="Only of this transaction."
    )
    relation: str | None = from_flag(
        "-R", "--relation", metavar="T/D/R", help="Only about blocks of this file: tablespace/database/number."
    )
    block: int | None = from_flag(
        "-B", "--block", type=click.IntRange(0, 2**32 - 2), metavar="N", help="With --relation, only about this block."
    )
    fork: str | None = from_flag(
        "-F", "--fork", type=click.Choice(["main", "fsm", "vm", "init"]), help="Only about blocks of this fork."
    )
    fullpage: bool = from_flag("-w", "--fullpage", is_flag=True, help="Only records with a page image.")
    bkp_details: bool = from_flag(
        "-b", "--bkp-details", is_flag=True, help="Show the blocks of a record in lines of their own."
    )
    quiet: bool = from_flag("-q", "--quiet", is_flag=True, help="Show no record: read them and check them.")
    stats: str | None = from_flag(
        "-z",
        "--stats",
        type=click.Choice(["rmgr", "record"]),
        is_flag=False,
        flag_value="rmgr",
        help="Show statistics instead of records: of resource managers, or with =record of kinds of records.",
    )


@command("waldump", WaldumpFlags, "Show the records of the WAL, or statistics of them.")
def waldump_command(flags: WaldumpFlags) -> None:
    """Show the records of the WAL as pg_waldump does, each once its checksum was verified."""
    from headwater.cli.waldump_lines import RecordScan, statistics, text_lines
    from headwater.pg.version import VERSIONS
    from headwater.rmgr.registry import RMGR_NAMES
    from headwater.wal.segments.directory import WalDirectory

    if any(name.lower() == "list" for name in flags.managers):
        _write(f"{name}\n" for name in RMGR_NAMES)
        return
    choice = _choice(flags)
    scan = RecordScan(WalDirectory.scan(flags.log.source()), choice, flags.limit)
    if flags.quiet:
        for _ in scan.pieces():
            pass
        return
    _write(text_lines(scan, flags.bkp_details) if flags.stats is None else statistics(scan, flags.stats == "record"))
    if scan.end is not None:
        say(f"headwater: the WAL ends at {lsn_text(scan.end.lsn, VERSIONS[scan.directory.major])}: {scan.end.reason}")


def _choice(flags: WaldumpFlags) -> RecordChoice:
    from headwater.rmgr.description_parts import FORK_NAMES
    from headwater.rmgr.outline import RecordChoice

    if flags.block is not None and flags.relation is None:
        raise UsageError("--block is a block of --relation, which is not given")
    start, end = parsed_lsn(flags.start) or 0, parsed_lsn(flags.end)
    if end is not None and end <= start:
        raise UsageError(f"--end {Lsn(end)} lies not behind --start {Lsn(start)}")
    return RecordChoice(
        start,
        end,
        frozenset(map(_manager_id, flags.managers)),
        flags.xid,
        None if flags.relation is None else _relation(flags.relation),
        flags.block,
        None if flags.fork is None else FORK_NAMES.index(flags.fork),
        flags.fullpage,
    )


def _manager_id(name: str) -> int:
    from headwater.rmgr.registry import FIRST_CUSTOM, RMGR_NAMES

    with suppress(ValueError):
        return [known.lower() for known in RMGR_NAMES].index(name.lower())
    custom = _CUSTOM.fullmatch(name)
    if custom is not None and FIRST_CUSTOM <= decimal(custom[1]) < 256:
        return decimal(custom[1])
    raise UsageError(f'resource manager "{name}" does not exist', hint="--rmgr=list shows their names")


def _relation(text: str) -> tuple[int, int, int]:
    match = _RELATION.fullmatch(text)
    numbers = (0, 0, 0) if match is None else (decimal(match[1]), decimal(match[2]), decimal(match[3]))
    if not numbers[0] or not numbers[2] or max(numbers) >= 1 << 32:
        raise UsageError(f'invalid --relation "{text}", expected tablespace OID/database OID/file number')
    return numbers


def _write(lines: Iterable[str]) -> None:
    """Write text to standard output, in chunks; what was no UTF-8 in the log is written as it was there."""
    held: list[str] = []
    size = 0
    try:
        for line in lines:
            held.append(line)
            size += len(line)
            if size >= _CHUNK_BYTES:
                _write_chunk(held)
                held, size = [], 0
    finally:
        _write_chunk(held)


def _write_chunk(lines: list[str]) -> None:
    sys.stdout.buffer.write("".join(lines).encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()
