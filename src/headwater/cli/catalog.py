"""``headwater catalog``: the catalog of a server into a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headwater.cli.flags import CommandGroup, Paths, command, from_argument, from_flag
from headwater.pg.lsn import Lsn


@dataclass(frozen=True)
class ExportFlags:
    """The arguments and flags of ``headwater catalog export``."""

    dsn: str = from_argument()
    file: Path = from_argument(type=Paths(path_type=Path, dir_okay=False))
    checkpoint: bool = from_flag(
        "--checkpoint", is_flag=True, help="Let the server make a checkpoint first: less WAL is needed then."
    )


@command("catalog export", ExportFlags)
def export_command(flags: ExportFlags) -> None:
    """Write the catalog of the database that DSN names to FILE, for --catalog.

    Prints from where on WAL is needed, and where decoding begins: transactions that commit behind it are decoded. The
    server must run with wal_level = logical; the role needs REPLICATION. Waits until all transactions end that run now.
    """
    from headwater.cli.output.message_output import check_output
    from headwater.receiver.catalog_export import export_catalog
    from headwater.slots.value_file import save_value

    check_output("FILE", str(flags.file), False)
    exported = export_catalog(flags.dsn, flags.checkpoint)
    save_value(flags.file, exported)
    origin = exported.state.catalog.origin
    print(f"database: {origin.database_name}")
    print(f"wal_needed_from: {Lsn(origin.start_lsn)}")
    print(f"decoding_begins_at: {Lsn(origin.consistent_lsn)}")


catalog_command = CommandGroup(
    "catalog",
    [export_command],
    short_help="Read a server's catalog into a file.",
    help="The catalog of a server whose files cannot be reached.",
)
