"""The forms that archives keep segments in: the file's name, its folder, the method it is packed with.

::

    NAME[.partial]                                   pg_wal, archive_command = 'cp ...', pg_receivewal
    NAME.gz .lz4 .zst .bz2 .xz                       archive_command with a compressor, pg_receivewal --compress
    NAME.gz.partial NAME.lz4.partial                 pg_receivewal --compress, the segment it is at
    NAME.lz4 .zst .br .lzma .lzo                     WAL-G, in the folder wal_005
    FOLDER/NAME[.partial]-SHA1[.gz .lz4 .zst .bz2]   pgBackRest, in archive/STANZA/VERSION-NUMBER
    FOLDER/NAME[.gz ...]                             barman, in SERVER/wals; also compressed under the plain name

NAME is a segment's, FOLDER its first 16 digits. Of a form all names can be computed but for pgBackRest's, whose SHA-1
is of the segment's own bytes. Such a file is looked up in its folder when it is opened. So a value that names a hundred
thousand of them stays small.

Sources: pg_receivewal's documentation and those of the tools, as docs/guides/archives-and-stores.md names them. Known
gaps: LZO, Snappy, ZIP and compress(1) are reported, not read; so are encrypted files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

PARTIAL = ".partial"
"""Part of the name of a segment that was being written when its timeline was left, or that is being received."""

PLAIN = ""
"""The method of a file that holds the segment's bytes."""

_METHODS = {
    ".gz": "gzip",
    ".lz4": "lz4",
    ".zst": "zstd",
    ".bz2": "bzip2",
    ".xz": "xz",
    ".lzma": "lzma",
    ".br": "brotli",
    ".lzo": "lzo",
    ".snappy": "snappy",
    ".zip": "zip",
    ".Z": "compress",
}
READABLE = frozenset({PLAIN, "gzip", "lz4", "zstd", "bzip2", "xz", "lzma", "brotli"})
"""Methods that are read here."""

_SUFFIX = "|".join(re.escape(suffix) for suffix in _METHODS)
_SEGMENT = re.compile(
    rf"(?P<segment>[0-9A-F]{{24}})(?P<partial>\.partial)?(?P<checksum>-[0-9a-f]{{40}})?"
    rf"(?P<suffix>{_SUFFIX})?(?P<later>\.partial)?"
)
_HISTORY = re.compile(rf"(?P<timeline>[0-9A-F]{{8}})\.history(-[0-9a-f]{{40}})?(?P<suffix>{_SUFFIX})?")
_FOLDER = re.compile(r"[0-9A-F]{16}")
_PGBACKREST_VERSION = re.compile(r"\d+(\.\d+)?-\d+")
_MAGICS = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x89LZO": "lzo",
    b"\xff\x06\x00\x00sNaPpY": "snappy",
}
_ENCRYPTED = {b"Salted__": "OpenSSL, as pgBackRest does", b"-----BEGIN PGP": "PGP", b"\x85": "PGP", b"\x84": "PGP"}
MAGIC_SIZE = max(map(len, (*_MAGICS, *_ENCRYPTED)))
_HOW = {
    "lzo": "decompress it first, as with lzop -d",
    "zip": "decompress it first, as with unzip",
    "compress": "decompress it first, as with uncompress",
}


@dataclass(frozen=True, slots=True)
class SegmentForm:
    """The names and the packing of the files of some segments.

    Attributes:
        place: number of the place they lie in.
        in_folders: each lies in a folder named after the first 16 digits of its name.
        ending: the part after the 24 digits; ``*`` stands for a checksum.
        method: the method they are packed with, PLAIN if they are not.
    """

    place: int = 0
    in_folders: bool = False
    ending: str = ""
    method: str = PLAIN

    @property
    def is_partial(self) -> bool:
        """The segment may not be whole."""
        return PARTIAL in self.ending

    @property
    def has_checksum(self) -> bool:
        """The file's name has a checksum, which cannot be computed."""
        return "*" in self.ending

    def folder(self, name: str) -> str:
        """Return the folder of a segment in its place, empty for the place itself."""
        return name[:16] if self.in_folders else ""


def parse_name(name: str) -> tuple[str, str, str, str | None] | None:
    """Take a file's name apart.

    Returns:
        the segment's name, the ending of its form, the method its suffix stands for, and the SHA-1 in hex digits, None
        without one; None for the name of something else.
    """
    match = _SEGMENT.fullmatch(name)
    if match is None or (match["partial"] and match["later"]):
        return None
    star = "-*" if match["checksum"] else ""
    ending = (match["partial"] or "") + star + (match["suffix"] or "") + (match["later"] or "")
    checksum = match["checksum"][1:] if match["checksum"] else None
    return match["segment"], ending, _METHODS.get(match["suffix"] or "", PLAIN), checksum


def parse_history_name(name: str) -> tuple[int, str] | None:
    """Read from a history file's name its timeline and what it is packed with; None for the name of something else."""
    match = _HISTORY.fullmatch(name)
    return None if match is None else (int(match["timeline"], 16), _METHODS.get(match["suffix"] or "", PLAIN))


def is_segment_folder(name: str) -> bool:
    """Tell whether a folder's name is the first 16 digits of the names of segments."""
    return _FOLDER.fullmatch(name) is not None


def compression_of(start: bytes) -> str | None:
    """Tell a file's compression from its first :data:`MAGIC_SIZE` bytes; None if it is not known."""
    return next((name for magic, name in _MAGICS.items() if start.startswith(magic)), None)


def encryption_of(start: bytes) -> str | None:
    """Tell a file's encryption from its first :data:`MAGIC_SIZE` bytes; None if it is not known."""
    return next((name for magic, name in _ENCRYPTED.items() if start.startswith(magic)), None)


def how_to_unpack(method: str) -> str:
    """Say what to do about a segment that is packed with a method that is not read here."""
    return _HOW.get(method, "unpack it first, with the tool that packed it")


def inner_folder(folders: Iterable[str]) -> str | None:
    """Find the folder that a tool keeps its segments in, of a directory without any; None if that is not clear.

    Args:
        folders: names of the folders in it.
    """
    known = [name for name in folders if name in ("wal_005", "wals") or _PGBACKREST_VERSION.fullmatch(name)]
    return known[0] if len(known) == 1 else None


def instead_of_segments(names: Iterable[str]) -> tuple[str, str] | None:
    """Say what a directory without segments holds instead, and what to do; None for nothing that is known.

    Args:
        names: of all that is in it.
    """
    known = sorted(names)
    versions = [name for name in known if _PGBACKREST_VERSION.fullmatch(name)]
    if "pg_wal" in known:
        return "it is a data directory", "name its pg_wal"
    if versions:
        return "it is a stanza of pgBackRest with several archives", f"name one of them: {', '.join(versions)}"
    if {"archive", "backup"} <= set(known):
        return "it is a repository of pgBackRest", "name archive/STANZA/VERSION-NUMBER in it"
    return None
