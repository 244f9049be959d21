"""A backup's manifest, written line by line as files are sent.

PostgreSQL: backup_manifest.c (14 to 19).
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

from headwater.pg.lsn import lsn_text
from headwater.pg.version import Version
from headwater.receiver.running_crc import RunningCrc
from headwater.walsender.backups.backup_options import CRC32C, NONE, BackupOptions


class FileChecksum:
    """The checksum of a file, as bytes are added.

    Args:
        algorithm: one of ``backup_options.CHECKSUMS``.
    """

    def __init__(self, algorithm: str) -> None:
        self._algorithm = algorithm
        self._crc = RunningCrc()
        self._digest = None if algorithm in (NONE, CRC32C) else hashlib.new(algorithm.lower())

    def add(self, data: bytes) -> None:
        """Add bytes."""
        if self._digest is not None:
            self._digest.update(data)
        elif self._algorithm == CRC32C:
            self._crc.add(data)

    def text(self) -> str:
        """Return the fields of a manifest that say it."""
        if self._algorithm == NONE:
            return ""
        value = self._crc.value().to_bytes(4, "little") if self._digest is None else self._digest.digest()
        return f', "Checksum-Algorithm": "{self._algorithm}", "Checksum": "{value.hex()}"'


class ManifestWriter:
    """A manifest.

    Args:
        options: of the backup; version: of the server that is stood for.
        system_identifier: of the cluster.
    """

    def __init__(self, options: BackupOptions, version: Version, system_identifier: int) -> None:
        self._options, self._version = options, version
        self._head = '{ "PostgreSQL-Backup-Manifest-Version": 1,\n'
        if version.names_system_in_manifest:
            self._head = f'{{ "PostgreSQL-Backup-Manifest-Version": 2,\n"System-Identifier": {system_identifier},\n'
        self._files: list[str] = []

    def add(self, path: str, size: int, modified: float, checksum: FileChecksum) -> None:
        """Add a file.

        Args:
            path: in the data directory; size: bytes; modified: seconds since 1970; checksum: of all its bytes.
        """
        data = path.encode("utf-8", "surrogateescape")
        is_plain = not self._options.encodes_paths and data.decode("utf-8", "replace") == path
        name = f'"Path": {json.dumps(path, ensure_ascii=False)}' if is_plain else f'"Encoded-Path": "{data.hex()}"'
        time = datetime.fromtimestamp(modified, UTC).strftime("%Y-%m-%d %H:%M:%S GMT")
        self._files.append(f'{{ {name}, "Size": {size}, "Last-Modified": "{time}"{checksum.text()} }}')

    def whole(self, timeline: int, start: int, end: int) -> bytes:
        """Return the manifest, with the WAL between two LSNs of a timeline."""
        places = (
            f'"{name}": "{lsn_text(lsn, self._version)}"' for name, lsn in (("Start-LSN", start), ("End-LSN", end))
        )
        wal = f'{{ "Timeline": {timeline}, {", ".join(places)} }}'
        files = ",\n".join(self._files)
        text = f'{self._head}"Files": [\n{files}\n],\n"WAL-Ranges": [\n{wal}\n],\n'
        data = text.encode("utf-8", "surrogateescape")
        return data + f'"Manifest-Checksum": "{hashlib.sha256(data).hexdigest()}"}}\n'.encode()
