"""Rows that a table had before it got a name that is chosen, from a base backup and the WAL since.

In: a table that has not landed, as of where a pass begins; its form in the lake. Out: files of its rows, staged as
inserts of the commit that gave it the name. They are read as those of tables that are added (landing/added_tables.py).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headwater.errors import AwaitedCatalogError, LakeError
from headwater.jobs.engine import Engine
from headwater.jobs.outcome import Progress
from headwater.lakes.lake_table import DataFile
from headwater.landing.added_tables import catalog_of_backup
from headwater.landing.existing_rows import ExistingRows, rows_of_table
from headwater.landing.initial_load import InitialLoad, TableLoad
from headwater.landing.mirrors.landed_files import Landing
from headwater.landing.replaced_tables import Arrival
from headwater.pipeline.requests.open_request import OpenRequest, start_of
from headwater.pipeline.windows.copy_completeness import complete_at
from headwater.plugins.rows.plugin import RowChanges
from headwater.wal.records.growing_directory import GrowingDirectory, unbroken


def brought_rows(
    opened: OpenRequest,
    arrival: Arrival,
    landing: Landing,
    places: tuple[Path, Path],
    engine: Engine,
    progress: Progress | None,
) -> list[DataFile]:
    """Stage the rows that a table had where a pass begins.

    Args:
        opened: the pass; its catalog has not been rolled forward.
        arrival: the table, and the commit that it comes with; landing: it in the lake.
        places: where rows are staged, and a directory that is made and removed; all machines share them.
        engine: runs tasks; progress: hears of them.

    Raises:
        LakeError: no backup has them.
        HeadwaterError: they cannot be read or written.
    """
    lsn, plugin = start_of(opened) - 1, opened.plugin
    assert isinstance(plugin, RowChanges)
    directory = unbroken(GrowingDirectory(opened.request.source).look(None), lsn + 1)
    whole = replace(opened, directory=directory)
    try:
        copy = catalog_of_backup(opened.request, opened.store.database_oid, directory)
        complete = complete_at(copy, directory)
        if complete is None or complete > lsn + 1:
            raise AwaitedCatalogError("the backup is of later")
    except AwaitedCatalogError:
        raise LakeError(
            f'table "{arrival.change.name}" had rows when it got that name, and the backup is of after that',
            lsn=arrival.change.lsn,
            hint="give a base backup of before (--catalog), and the WAL since; or choose all names that the table has "
            "had (--tables)",
        ) from None
    tables = rows_of_table(opened.store, arrival.table.oid, lsn, plugin.choice)
    form = replace(landing.changes, staging=str(places[0]), landed=-1)
    loads = [TableLoad(table, form) for table in tables]
    rows = ExistingRows(lsn, copy.start_lsn, tables, arrival.change.lsn)
    staged: list[DataFile] = []
    load = InitialLoad(whole, rows, loads, places[1])
    load.run(engine, lambda tables, _: staged.extend(file for _, files in tables for file in files), progress)
    return staged
