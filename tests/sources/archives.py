"""One directory of WAL in the forms that archives of the tools have, made by hand from what the tools document.

pg_receivewal: ``--compress`` in its reference page. pgBackRest: "archive-push" in its Command Reference, and what its
version 2.45 made of a server's WAL. WAL-G: "wal-push" in its PostgreSQL page, ``WALG_COMPRESSION_METHOD`` in its page
of settings. barman: "WAL archiving" and ``compression`` in its manual.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import re
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pyarrow as pa
import zstandard

SEGMENT = re.compile(r"[0-9A-F]{24}")

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, 1),
    ".lz4": lambda data: lz4.frame.compress(data, content_checksum=True),
    ".zst": zstandard.ZstdCompressor(level=1, write_checksum=True).compress,
    ".bz2": lambda data: bz2.compress(data, 1),
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE, preset=0),
    ".br": lambda data: pa.Codec("brotli", compression_level=1).compress(data, asbytes=True),
}


def files_of(wal: Path) -> dict[str, bytes]:
    """Read segments and history files of a ``pg_wal``, by name."""
    names = [path for path in sorted(wal.iterdir()) if path.is_file()]
    return {path.name: path.read_bytes() for path in names if SEGMENT.match(path.name) or path.suffix == ".history"}


def simple(suffix: str) -> Callable[[Path, Path], Path]:
    """Archive as ``archive_command = 'gzip < %p > /archive/%f.gz'`` and the like do."""

    def make(wal: Path, archive: Path) -> Path:
        for name, data in files_of(wal).items():
            _write(archive / f"{name}{suffix}", PACKERS[suffix](data))
        return archive

    return make


def received(suffix: str) -> Callable[[Path, Path], Path]:
    """Archive as ``pg_receivewal --compress`` does.

    The last segment is partial, cut off anywhere; history is plain.
    """

    def make(wal: Path, archive: Path) -> Path:
        files = files_of(wal)
        segments = sorted(name for name in files if SEGMENT.match(name))
        for name, data in files.items():
            if name not in segments:
                _write(archive / name, data)
            elif name == segments[-1]:
                _write(archive / f"{name}{suffix}.partial", PACKERS[suffix](data)[:-4])
            else:
                _write(archive / f"{name}{suffix}", PACKERS[suffix](data))
        return archive

    return make


def pgbackrest(suffix: str) -> Callable[[Path, Path], Path]:
    """Archive as pgBackRest does, in ``repo/archive/STANZA/16-1``.

    It has folders of 4 GB, the plain segment's SHA-1 in the name, plain history.
    """

    def make(wal: Path, archive: Path) -> Path:
        stanza = archive / "archive" / "demo"
        _write(stanza / "archive.info", b"[db]\n")
        for name, data in files_of(wal).items():
            if SEGMENT.match(name):
                named = f"{name}-{hashlib.sha1(data).hexdigest()}{suffix}"
                _write(stanza / "16-1" / name[:16] / named, PACKERS[suffix](data) if suffix else data)
            else:
                _write(stanza / "16-1" / name, data)
        return stanza / "16-1"

    return make


def wal_g(suffix: str) -> Callable[[Path, Path], Path]:
    """Archive as WAL-G does, in ``PREFIX/wal_005``: one folder; history files are compressed, too."""

    def make(wal: Path, archive: Path) -> Path:
        _write(archive / "basebackups_005" / "base_000000010000000000000001_backup_stop_sentinel.json", b"{}")
        for name, data in files_of(wal).items():
            _write(archive / "wal_005" / f"{name}{suffix}", PACKERS[suffix](data))
        return archive

    return make


def barman(suffix: str) -> Callable[[Path, Path], Path]:
    """Archive as Barman does, in ``HOME/SERVER/wals``.

    It has folders of 4 GB, compressed under the plain name; history files lie beside the folders.
    """

    def make(wal: Path, archive: Path) -> Path:
        wals = archive / "main" / "wals"
        _write(wals / "xlog.db", b"")
        for name, data in files_of(wal).items():
            if SEGMENT.match(name):
                _write(wals / name[:16] / name, PACKERS[suffix](data) if suffix else data)
            else:
                _write(wals / name, data)
        return archive / "main"

    return make


def barman_cloud(wal: Path, archive: Path) -> Path:
    """Archive as ``barman-cloud-wal-archive --gzip`` does: Barman's folders, with a suffix."""
    for name, data in files_of(wal).items():
        folder = name[:16] if SEGMENT.match(name) else ""
        _write(archive / "main" / "wals" / folder / f"{name}.gz", PACKERS[".gz"](data))
    return archive / "main" / "wals"


ARCHIVES: dict[str, Callable[[Path, Path], Path]] = {
    **{f"simple{suffix}": simple(suffix) for suffix in (".gz", ".lz4", ".zst", ".bz2", ".xz")},
    **{f"pg_receivewal{suffix}": received(suffix) for suffix in (".gz", ".lz4")},
    **{f"pgBackRest{suffix}": pgbackrest(suffix) for suffix in ("", ".gz", ".lz4", ".zst", ".bz2")},
    **{f"WAL-G{suffix}": wal_g(suffix) for suffix in (".lz4", ".zst", ".br", ".lzma")},
    **{f"barman{suffix}": barman(suffix) for suffix in ("", ".gz", ".bz2", ".zst")},
    "barman-cloud": barman_cloud,
}
"""By name: what makes an archive of a ``pg_wal`` in a directory, and says which directory to name."""


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
