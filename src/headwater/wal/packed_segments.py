"""Segments that an archive keeps in another form than as the server wrote them: what they are told by, and what to do.

Names as ``archive_command`` with a compressor makes them (``NAME.gz``), as pgBackRest does (``NAME-<SHA-1>.zst``, in a
directory for each 4 GB), as WAL-G does (``NAME.lz4``). Some tools compress and leave the name alone: then the first
bytes tell. None of them is read here; they are looked for so that what is wrong can be said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PACKED = re.compile(
    r"(?P<segment>[0-9A-F]{24})(\.partial)?(?P<checksum>-[0-9a-f]{40})?"
    r"(?P<suffix>\.(gz|zst|lz4|bz2|xz|br|lzo|lzma|snappy|zip|Z))?"
)
_ARCHIVE_DIRECTORY = re.compile(r"[0-9A-F]{16}")
_TOOLS = {".gz": "gunzip", ".zst": "zstd -d", ".lz4": "lz4 -d", ".bz2": "bunzip2", ".xz": "unxz", ".br": "brotli -d"}
_MAGICS = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
}
MAGIC_SIZE = max(map(len, _MAGICS))


def segment_of(name: str) -> str | None:
    """The name of the segment that a file holds in packed form; None for a plain segment or another file."""
    match = _PACKED.fullmatch(name)
    if match is None or not (match["checksum"] or match["suffix"]):
        return None
    return match["segment"]


def how_to_unpack(name: str) -> str:
    """What to do about a packed segment, by the name of its file."""
    match = _PACKED.fullmatch(name)
    if match is not None and match["checksum"]:
        return "this is an archive of pgBackRest: fetch segments with pgbackrest archive-get"
    tool = _TOOLS.get(match["suffix"] or "") if match is not None else None
    return f"decompress it first, as with {tool}" if tool else "unpack it first, with the tool that packed it"


def compression_of(start: bytes) -> str | None:
    """What a file is compressed with, by its first :data:`MAGIC_SIZE` bytes; None if it is not."""
    return next((name for magic, name in _MAGICS.items() if start.startswith(magic)), None)


def instead_of_segments(names: Iterable[str]) -> tuple[str, str] | None:
    """What a directory without plain segments holds instead, and what to do; None for nothing that is known.

    Args:
        names: of all that is in it.
    """
    known = sorted(names)
    packed = next((name for name in known if segment_of(name) is not None), None)
    if packed is not None:
        return f'only compressed or renamed ones such as "{packed}"', how_to_unpack(packed)
    if "pg_wal" in known:
        return "it is a data directory", "name its pg_wal"
    inner = next((name for name in known if _ARCHIVE_DIRECTORY.fullmatch(name)), None)
    if inner is not None:
        return f'but directories such as "{inner}"', "put the segments of one history into one directory"
    return None
