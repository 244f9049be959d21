"""A backup's manifest, and whether the files that came are those that it lists.

PostgreSQL: backup_manifest.c, basebackup.c; pg_verifybackup.c does the same afterwards (14 to 19).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.errors import CatalogError

NAME = "backup_manifest"

_ALGORITHM = "CRC32C"
_LAST = b'"Manifest-Checksum": "'


@dataclass(frozen=True)
class FileSum:
    """A file as it came: its bytes, and their CRC-32C."""

    size: int
    crc: int


def check_manifest(manifest: bytes, files: Mapping[str, FileSum]) -> None:
    """Check that the files that came are those of the manifest.

    Args:
        manifest: the file's bytes.
        files: by path in the backup.

    Raises:
        CatalogError: a file is missing, is not listed, or has other bytes; or the manifest itself is damaged.
    """
    listed = _listed(manifest)
    for path in sorted(listed.keys() - files.keys()):
        raise CatalogError("the backup lacks a file of its manifest", file=path)
    for path in sorted(files.keys() - listed.keys()):
        raise CatalogError("the backup has a file that its manifest does not list", file=path)
    for path, expected in listed.items():
        if files[path] != expected:
            raise CatalogError(
                f"the backup's file has {files[path].size} bytes and the CRC {files[path].crc:08x},"
                f" expected {expected.size} and {expected.crc:08x}",
                file=path,
                hint="take the backup again",
            )


def _listed(manifest: bytes) -> dict[str, FileSum]:
    """Read what a manifest lists."""
    try:
        at = manifest.rindex(_LAST)
        content: dict[str, Any] = json.loads(manifest)
        if hashlib.sha256(manifest[:at]).hexdigest() != content["Manifest-Checksum"]:
            raise CatalogError("the backup's manifest does not have the checksum that it says", file=NAME)
        return dict(map(_entry, content["Files"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CatalogError(f"the backup's manifest is malformed: {error}", file=NAME) from None


def _entry(entry: dict[str, Any]) -> tuple[str, FileSum]:
    path = entry["Path"] if "Path" in entry else bytes.fromhex(entry["Encoded-Path"]).decode("utf-8", "surrogateescape")
    if entry["Checksum-Algorithm"] != _ALGORITHM:
        raise ValueError(f"checksum algorithm {entry['Checksum-Algorithm']}, expected {_ALGORITHM}")
    # Four bytes in the order of the machine that made it, which is a little-endian one, as for WAL.
    return path, FileSum(int(entry["Size"]), int.from_bytes(bytes.fromhex(entry["Checksum"]), "little"))
