"""``headwater catalog``: the catalog of a server into a file."""

from __future__ import annotations

from pathlib import Path

from headwater.cli.message_output import check_output
from headwater.pg.lsn import Lsn
from headwater.receiver.catalog_export import export_catalog
from headwater.slots.value_file import save_value


def run_export(dsn: str, file: Path, checkpoint: bool) -> None:
    """Write a server's catalog to a file, and print from where on WAL is needed and where decoding begins.

    Raises:
        HeadwaterError: it cannot be done.
    """
    check_output("FILE", str(file), False)
    kept = export_catalog(dsn, checkpoint)
    save_value(file, kept)
    origin = kept.state.catalog.origin
    print(f"database: {origin.database_name}")
    print(f"wal_needed_from: {Lsn(origin.start_lsn)}")
    print(f"decoding_begins_at: {Lsn(origin.consistent_lsn)}")
