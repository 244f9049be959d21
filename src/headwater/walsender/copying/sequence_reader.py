"""The values of sequences that subscribers ask for: from the backup and the WAL since, or of the primary.

The WAL since the backup is gone through once; who asks later goes on from there. What it says may be up to 32 steps
ahead of what was given last (:mod:`headwater.existing.sequence_values`); the primary says it exactly.

PostgreSQL: commands/sequence.c (pg_get_sequence_data).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.image_io import store_of
from headwater.errors import SegmentError, SessionError
from headwater.existing.leaves import leaf_of
from headwater.existing.page_history import Locator
from headwater.existing.sequence_values import SequenceLog, SequenceValue
from headwater.pg.lsn import Lsn
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED, INSUFFICIENT_PRIVILEGE
from headwater.receiver.replication_connection import ReplicationConnection
from headwater.slots.history import Position, check_of_history, position_in, position_of_state
from headwater.slots.kept_state import KeptState
from headwater.walsender.copying.copied_rows import CopySource, backup_before
from headwater.walsender.copying.upstream import check_system

_ASKED = """
SELECT o.oid, pg_catalog.has_sequence_privilege(o.oid, 'SELECT'), d.last_value, d.is_called, d.page_lsn
FROM pg_catalog.unnest('{%s}'::pg_catalog.oid[]) AS o(oid), LATERAL pg_catalog.pg_get_sequence_data(o.oid) AS d
"""
_LACKING = "Name a server that is asked instead (--upstream), or give --catalog a newer backup."


@dataclass
class SequenceReader:
    """A reader of sequences' values, for all sessions, in whatever thread."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _log: SequenceLog | None = None
    _at: Position | None = None

    def values(self, source: CopySource, at: KeptState, oids: Iterable[int]) -> dict[int, SequenceValue]:
        """Read values as of a state; sequences that are not permanent have none, as on a standby.

        Args:
            source: the backup and the WAL; at: the state; oids: of the sequences.

        Raises:
            SessionError: the backup does not tell, or the WAL since it is not there any more.
            HeadwaterError: the WAL, or the backup, cannot be read.
        """
        check_of_history(source.directory, position_of_state(at.state))
        places = _places(store_of(at.state.catalog), at.state.lsn, oids)
        with self._lock:
            log = self._log_before(source, at)
            try:
                values = log.values(source.directory, places, at.state.lsn)
            except SegmentError as error:
                text = f"sequences are not known: {error.message}"
                raise SessionError(text, sqlstate=FEATURE_NOT_SUPPORTED, hint=_LACKING) from None
            self._log, self._at = log, position_in(source.directory, log.reached)
        return {places[locator]: value for locator, value in values.items()}

    def _log_before(self, source: CopySource, at: KeptState) -> SequenceLog:
        """Return what is known, if it is not of behind a state, or of a history that was left."""
        known, reached = self._log, self._at
        is_before = reached is not None and reached.lsn <= at.state.lsn and reached.is_of(source.directory)
        if known is not None and is_before:
            return known
        return SequenceLog(backup_before(source.catalog, at.state.catalog, at.state.lsn))


def _places(store: CatalogStore, lsn: int, oids: Iterable[int]) -> dict[Locator, int]:
    view, places = store.view(lsn), dict[Locator, int]()
    for oid in oids:
        relation = view.relation(oid)
        leaf = None if relation is None or relation.persistence != "p" else leaf_of(store, view, relation)
        if leaf is not None:
            places[leaf.locator] = oid
    return places


def values_of_primary(
    conninfo: str, database: str, system_identifier: int, oids: Iterable[int]
) -> Mapping[int, SequenceValue]:
    """Ask the primary for the values of sequences; those that it has dropped since have none.

    Args:
        conninfo: of the primary; database: its name; system_identifier: of the cluster that it must be.
        oids: of the sequences.

    Raises:
        SessionError: it is another cluster, or its role may not read a sequence.
        ServerError: the primary refuses; ConnectionLostError: it cannot be reached.
    """
    with ReplicationConnection(conninfo, database) as connection:
        check_system(connection, system_identifier)
        rows = connection.rows(_ASKED % ",".join(map(str, oids)))
    if any(may_read == "f" for _, may_read, *_ in rows):
        raise SessionError("the role of --upstream may not read all sequences", sqlstate=INSUFFICIENT_PRIVILEGE)
    return {
        int(oid or 0): SequenceValue(int(last), is_called == "t", int(Lsn.parse(page_lsn or "")))
        for oid, _, last, is_called, page_lsn in rows
        if last is not None
    }
