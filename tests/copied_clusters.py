"""Clusters of the tests: ``initdb`` makes one of each kind, those after it are copies of that one.

``initdb`` costs a second of a core, a copy a twentieth. Copies have the same system identifier: a test that needs
strangers takes another kind.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from headwater.demo.embedded_postgres import EmbeddedPostgres

Kind = tuple[Path, int, bool]
"""Programs, megabytes of a segment, whether pages have checksums."""

_initdb = EmbeddedPostgres.initdb


class CopiedClusters:
    """Makes clusters, one ``initdb`` a kind.

    Args:
        place: directory for those that are copied; another user need not get in.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.known: dict[Kind, Path] = {}

    def make(self, server: EmbeddedPostgres) -> None:
        """Make a server's cluster in its data directory, which is empty."""
        kind = server.programs.root, server.wal_segment_megabytes, server.data_checksums
        known = self.known.get(kind)
        if known is not None:
            _copy(known, server.data_directory)
            return
        _initdb(server)
        made = self.place / str(len(self.known))
        _copy(server.data_directory, made)
        self.known[kind] = made


def _copy(source: Path, target: Path) -> None:
    """With owners and modes, as the server asks for."""
    subprocess.run(["cp", "-a", "-T", str(source), str(target)], check=True)
