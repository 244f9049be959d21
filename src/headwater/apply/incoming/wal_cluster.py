"""The log and the catalog that changes and rows are read from, opened once for all threads of a process.

Invariant: it is opened by whoever needs it first, and again after it was closed.
"""

from __future__ import annotations

import threading
from pathlib import Path

from headwater.pipeline.requests.request import DecodeRequest
from headwater.walsender.served_cluster import ClusterSource, ServedCluster


class WalCluster:
    """The place of a cluster that is opened when it is asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: ServedCluster | None = None

    def open(self, request: DecodeRequest, slots: Path) -> ServedCluster:
        """Return the cluster.

        Args:
            request: has the WAL and the catalog; slots: directory of slots, where states are kept, too.

        Raises:
            HeadwaterError: the WAL or the catalog cannot be read.
        """
        with self._lock:
            if self._opened is None:
                source = ClusterSource(request.source, request.catalog, request.server_version, slots=slots)
                self._opened = ServedCluster(source)
            return self._opened

    def close(self) -> None:
        """Let states be written that outlive the process."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None
