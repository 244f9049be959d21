"""A backup's manifest, and whether the files that came are those that it lists.

PostgreSQL: backup_manifest.c, basebackup.c; pg_verifybackup.c does the same afterwards (14 to 19).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.errors import CatalogError, UsageError
from headwater.pg.lsn import Lsn
from headwater.wal.segments.segment_files import segment_name
from headwater.wal.segments.segment_forms import parse_name

NAME = "backup_manifest"

_ALGORITHM = "CRC32C"
_AGAIN = "take the backup again"
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
                hint=_AGAIN,
            )


def check_wal(manifest: bytes, directory: Path) -> None:
    """Check that a directory has all WAL that a backup needs, as its manifest says.

    Args:
        manifest: the file's bytes, which were checked; directory: has whole segments.

    Raises:
        CatalogError: a segment is missing, or the manifest is malformed.
    """
    sizes = {path.name: path.stat().st_size for path in directory.iterdir() if _is_segment(path)}
    size = max(sizes.values(), default=0)
    for timeline, start, end in _wal_ranges(manifest):
        for number in range(start // size, (end - 1) // size + 1) if size else ():
            name = segment_name(timeline, number, size)
            if sizes.get(name) != size:
                raise CatalogError("the backup lacks WAL that its manifest lists", file=name, hint=_AGAIN)
        if not size:
            raise CatalogError("the backup has no WAL, its manifest lists some", file=NAME, hint=_AGAIN)


def _is_segment(path: Path) -> bool:
    parsed = parse_name(path.name)
    return parsed is not None and parsed[0] == path.name


def _wal_ranges(manifest: bytes) -> list[tuple[int, int, int]]:
    """Return timelines, and the LSNs between which each is needed."""
    try:
        ranges = json.loads(manifest)["WAL-Ranges"]
        return [
            (int(part["Timeline"]), int(Lsn.parse(part["Start-LSN"])), int(Lsn.parse(part["End-LSN"])))
            for part in ranges
        ]
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise CatalogError(f"the backup's manifest is malformed: {error}", file=NAME) from None


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
