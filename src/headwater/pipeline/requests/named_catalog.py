"""Catalogs that are named by something else than a directory or archive: a file of ``catalog export``, or a server.

A file is a state to begin with (:mod:`headwater.slots.kept_state`). A server is read each time that it is named, and
each time later; so it is for who reads it once, and keeps the state.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.errors import UsageError
from headwater.receiver.catalog_export import export_catalog
from headwater.slots.kept_state import KeptState
from headwater.slots.value_file import is_value_file, load_value

_DSN = re.compile(r"postgres(?:ql)?://|\s*(?:host|hostaddr|port|dbname|user|service|servicefile|passfile)\s*=", re.I)


def is_server(catalog: str) -> bool:
    """Tell whether a catalog's name is libpq's connection string or URI."""
    return _DSN.match(catalog) is not None


def state_in_file(catalog: str) -> KeptState | None:
    """Return the state that a catalog's name is the file of; None if it is no such file.

    Raises:
        SlotError: the file is damaged.
        UsageError: the name is that of a server.
    """
    if is_server(catalog):
        raise UsageError(
            "a server's catalog is of another moment whenever it is read",
            hint="run headwater catalog export DSN FILE, and give FILE",
        )
    path = Path(catalog)
    if not catalog or not is_value_file(path):
        return None
    exported = load_value(path, KeptState)
    return replace(exported, state=exported.state.in_new_session)


def state_of_server(catalog: str) -> KeptState | None:
    """Return the state that a server's catalog gives now; None if the name is not that of a server.

    Raises:
        CatalogError: it is not available.
    """
    return export_catalog(catalog) if is_server(catalog) else None


def taken_at(catalog: str) -> tuple[int, int]:
    """Return the timeline and the LSN from which on a catalog needs WAL.

    Raises:
        CatalogError: it is no catalog.
        SlotError: its file is damaged.
        UsageError: the name is that of a server.
    """
    state = state_in_file(catalog)
    if state is not None:
        origin = state.state.catalog.origin
        return origin.timeline, origin.start_lsn
    directory = DataDirectory(catalog)
    return directory.timeline, directory.start_lsn
