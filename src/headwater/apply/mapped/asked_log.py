"""The catalog at hand, asked as a server is where the log itself is the source: for tables that rules name.

It is looked at as of the end of the log. Queries of subscribers are answered as the service answers them.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from headwater.apply.incoming.requests import WalSlot
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.errors import ServerError, SessionError
from headwater.pg.version import Version
from headwater.pipeline.slot_moves import begin
from headwater.receiver.replication_connection import Row
from headwater.slots.slot_directory import is_slot, read_slot
from headwater.walsender.served_cluster import ClusterSource, ServedCluster
from headwater.walsender.sql.publisher_answers import PublisherAnswers


class AskedLog:
    """The catalog; a context manager.

    Args:
        wal: the log, with the subscription's slot.

    Raises:
        HeadwaterError: WAL or catalog cannot be read.
    """

    def __init__(self, wal: WalSlot) -> None:
        request = wal.request
        source = ClusterSource(request.source, request.catalog, request.server_version, slots=wal.slots)
        self._cluster, self._wal = ServedCluster(source), wal
        self._database = self._name()
        self._view: HistoricCatalog | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.close()

    def _name(self) -> str:
        wal = self._wal
        if wal.request.database is not None:
            return wal.request.database
        return read_slot(wal.path).request.database if is_slot(wal.path) else begin(wal.request).database

    @property
    def postgres(self) -> Version:
        """The facts of the cluster's version."""
        return self._cluster.version

    @property
    def view(self) -> HistoricCatalog:
        """The catalog."""
        if self._view is None:
            self._view = self._cluster.catalog(self._database)
        return self._view

    def rows(self, command: str) -> list[Row]:
        """Answer a query of a subscriber.

        Raises:
            ServerError: it is not known, or cannot be answered exactly.
        """
        try:
            result = PublisherAnswers(self.view, self.postgres, self._database).answer(command)
        except SessionError as error:
            raise ServerError(error.message, hint=error.hint, sqlstate=error.sqlstate) from None
        if result is None:
            raise ServerError("the catalog at hand does not answer this query", sqlstate="0A000")
        return [tuple(None if value is None else value.decode() for value in row) for row in result.rows]
