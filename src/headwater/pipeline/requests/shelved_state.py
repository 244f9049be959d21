"""The state on the shelf of a directory of slots from which a slot that is made there can begin.

A service has left it there (:mod:`headwater.slots.shelf_directory`), without the definitions of objects: for a plugin
that asks for these there is none.
"""

from __future__ import annotations

from pathlib import Path

from headwater.catalog.copy.server_settings import session_settings_of
from headwater.catalog.store.bootstrap import choose_database
from headwater.pipeline.requests.named_catalog import state_in_file, taken_at
from headwater.pipeline.requests.open_request import following_definitions, server_settings
from headwater.pipeline.requests.request import DecodeRequest
from headwater.slots.kept_state import KeptState
from headwater.slots.shelf_directory import FOLDER, CopiedDatabase, ShelfDirectory
from headwater.wal.segments.directory import WalDirectory


def shelved_state(request: DecodeRequest, slots: Path, lsn: int) -> KeptState | None:
    """Return the last state at or before an LSN that a request can begin with; None if there is none.

    Args:
        request: it, of a copy of a cluster.
        slots: the directory of slots; lsn: where it is to begin.

    Raises:
        HeadwaterError: the catalog or the WAL cannot be read.
    """
    if not (slots / FOLDER).is_dir() or state_in_file(request.catalog) is not None:
        return None
    if following_definitions(request, "").with_definitions:
        return None
    directory = WalDirectory.scan(request.source)
    database = choose_database(request.catalog, request.database)
    copy = CopiedDatabase(directory.system_identifier, *taken_at(request.catalog), database.oid)
    kept_state = ShelfDirectory(slots, copy).nearest(lsn, directory.lineage)
    if kept_state is None or kept_state.state.control.needed != request.needed_level:
        return None
    if not kept_state.state.control.builder.is_consistent:
        return None  # Only the catalog says from where on nothing is lost of what began before it.
    of_sessions = session_settings_of(request.catalog, database.oid, request.user)
    return KeptState(kept_state.state, server_settings(request, of_sessions, directory.major))
