"""Clusters of the tests: ``initdb`` makes one of each kind in a run, those after it are unpacked from that one.

``initdb`` costs a second of a core, to unpack an archive a twentieth: a fifth of what ``cp -a`` takes. Clusters of a
kind have the same system identifier: a test that needs strangers takes another kind.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from pathlib import Path

from headwater.local_servers.embedded_postgres import EmbeddedPostgres

_initdb = EmbeddedPostgres.initdb


class CopiedClusters:
    """A maker of clusters: one ``initdb`` a kind, whichever of the processes of a run asks first.

    Args:
        place: directory for the archives, which the processes share; another user need not get in.
    """

    def __init__(self, place: Path) -> None:
        self.place = place

    def make(self, server: EmbeddedPostgres) -> None:
        """Make a server's cluster in its data directory, which is empty."""
        archive = self.place / f"{_kind(server)}.tar"
        with archive.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not archive.exists():
                _initdb(server)
                _pack(server.data_directory, archive)
                return
        subprocess.run(["tar", "-xpf", archive, "-C", server.data_directory], check=True)


def _kind(server: EmbeddedPostgres) -> str:
    """Name what the files of a new cluster depend on: programs, size of a segment, checksums."""
    asked = server.programs.root, server.wal_segment_megabytes, server.data_checksums
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:16]


def _pack(source: Path, archive: Path) -> None:
    """Pack a cluster, with owners and modes, as the server asks for."""
    partial = archive.with_suffix(".partial")
    subprocess.run(["tar", "-cf", partial, "--numeric-owner", "-C", source, "."], check=True)
    partial.rename(archive)
