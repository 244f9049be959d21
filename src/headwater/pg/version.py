"""The major versions of PostgreSQL that Headwater reads, and the numbers by which their files are told apart.

Facts from ``access/xlog_internal.h`` (XLOG_PAGE_MAGIC), ``catalog/pg_control.h`` (PG_CONTROL_VERSION) and
``catalog/catversion.h`` (CATALOG_VERSION_NO) of each major. None of the three ever changes in a minor release.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import SegmentError


@dataclass(frozen=True, slots=True)
class MajorVersion:
    """What marks the files of one major version.

    Attributes:
        major: 15 to 18.
        page_magic: ``xlp_magic`` of every WAL page.
        control_version: ``pg_control_version`` of ``global/pg_control``.
        catalog_version: ``catalog_version_no`` of ``global/pg_control``.
    """

    major: int
    page_magic: int
    control_version: int
    catalog_version: int


VERSIONS = {
    15: MajorVersion(15, 0xD110, 1300, 202209061),
    16: MajorVersion(16, 0xD113, 1300, 202307071),
    17: MajorVersion(17, 0xD116, 1700, 202406281),
    18: MajorVersion(18, 0xD118, 1800, 202506291),
}
"""The supported majors."""

UNSUPPORTED_MAGICS = {0xD098: 10, 0xD099: 11, 0xD101: 12, 0xD106: 13, 0xD10D: 14}
"""Page magics of majors that are known and not supported."""

_BY_MAGIC = {version.page_magic: version.major for version in VERSIONS.values()}


def major_of_magic(magic: int, file: str) -> int | None:
    """The major version whose WAL pages begin with this magic number, None if it is nobody's.

    Args:
        magic: ``xlp_magic``.
        file: the segment, for the error.

    Raises:
        SegmentError: the magic is of a major that is not supported.
    """
    old = UNSUPPORTED_MAGICS.get(magic)
    if old is not None:
        raise SegmentError(
            f"WAL of PostgreSQL {old} is unsupported, expected one of {', '.join(map(str, VERSIONS))}", file=file
        )
    return _BY_MAGIC.get(magic)
