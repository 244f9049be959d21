"""``headwater backup``: a base backup of a server, with the WAL that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headwater.cli.flags import command, from_argument, from_choice, from_flag, path_argument
from headwater.errors import UsageError


@dataclass(frozen=True)
class BackupFlags:
    """The arguments and flags of ``headwater backup``."""

    conninfo: str = from_argument()
    directory: Path = path_argument()
    form: str = from_choice("--format", "plain", "tar", help="The files themselves, or an archive a tablespace.")
    is_compressed: bool = from_flag("--gzip", is_flag=True, help="With --format tar: compress the archives.")
    checkpoint: str = from_choice(
        "--checkpoint", "fast", "spread", help="The server makes its checkpoint at once, or without haste."
    )
    no_slot: bool = from_flag("--no-slot", is_flag=True, help="Without a temporary slot that keeps WAL meanwhile.")
    label: str = from_flag("--label", default="headwater base backup", show_default=True, metavar="TEXT")
    is_quiet: bool = from_flag("-q", "--quiet", is_flag=True, help="No progress on standard error.")


@command("backup", BackupFlags)
def backup_command(flags: BackupFlags) -> None:
    """Take a base backup of the server that CONNINFO names into DIRECTORY, for --catalog.

    Each file is compared with the server's manifest. DIRECTORY/pg_wal gets the WAL from the backup's start to its end.
    Prints where that is. The role needs REPLICATION.
    """
    from headwater.cli.process.progress import step_progress
    from headwater.pg.lsn import Lsn
    from headwater.receiver.base_backup import TAR, BackupRequest, take_backup

    if flags.is_compressed and flags.form != TAR:
        raise UsageError("--gzip compresses archives", hint="use --format tar, too")
    request = BackupRequest(
        conninfo=flags.conninfo,
        directory=flags.directory,
        form=flags.form,
        is_compressed=flags.is_compressed,
        is_fast=flags.checkpoint == "fast",
        label=flags.label,
        has_slot=not flags.no_slot,
    )
    with step_progress(flags.is_quiet) as report:
        backup = take_backup(request, report)
    print(f"timeline: {backup.timeline}")
    print(f"start: {Lsn(backup.start)}")
    print(f"end: {Lsn(backup.end)}")
