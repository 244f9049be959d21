"""Log sequence numbers as text and as numbers (PostgreSQL: ``pg_lsn.c``)."""

from __future__ import annotations

import re

from headwater.errors import UsageError
from headwater.pg.version import Version

_TEXT = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


class Lsn(int):
    """A byte position in the WAL; prints as the server prints it, ``X/Y`` in hexadecimal."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Lsn:
        """Read ``X/Y``.

        Raises:
            UsageError: the text is not an LSN.
        """
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise UsageError(f'invalid LSN "{text}", expected two hexadecimal numbers such as 0/16B3748')
        return cls(int(match[1], 16) << 32 | int(match[2], 16))

    def __str__(self) -> str:
        return f"{self >> 32:X}/{self & 0xFFFFFFFF:X}"

    __repr__ = __str__


def lsn_text(lsn: int, version: Version) -> str:
    """Write an LSN as servers of a version print it: newer ones with all eight digits after the slash."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:0{version.lsn_digits}X}"
