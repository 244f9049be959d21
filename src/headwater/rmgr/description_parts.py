"""The parts that descriptions of records of several resource managers are put together from.

Mirrors ``rmgrdesc_utils.c``, standby_desc_invalidations of ``standbydesc.c`` and ``common/relpath.c``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from headwater.pg.catalogs import DEFAULT_TABLESPACE, GLOBAL_TABLESPACE
from headwater.pg.lsn import lsn_text
from headwater.pg.version import Version
from headwater.rmgr.invalidation import CATALOG, RELCACHE, RELMAP, RELSYNC, SMGR, SNAPSHOT, Invalidation

FORK_NAMES = ("main", "fsm", "vm", "init")
"""The names of forks, by fork number."""

_EPOCH_SECONDS = 946_684_800
"""2000-01-01 00:00 UTC in seconds since 1970."""

_Locator = tuple[int, int, int]


class Style(NamedTuple):
    """The settings that a description depends on, beside its record.

    Attributes:
        version: PostgreSQL's version, as the words differ.
        stamp: gives the text of a time, which is in microseconds since 2000-01-01 00:00 UTC.
    """

    version: Version
    stamp: Callable[[int], str]

    def lsn(self, lsn: int) -> str:
        """Write an LSN as descriptions show it."""
        return lsn_text(lsn, self.version)


def local_stamp(microseconds: int) -> str:
    """Write a time in the time zone of the process, as ``pg_waldump`` shows it (``compat.c``).

    Args:
        microseconds: the time, since 2000-01-01 00:00 UTC.
    """
    return _stamp(microseconds, time.localtime)


def utc_stamp(microseconds: int) -> str:
    """Write a time as :func:`local_stamp` does, but in UTC, whatever the process's time zone is."""
    return _stamp(microseconds, time.gmtime)


def _stamp(microseconds: int, broken_down: Callable[[int], time.struct_time]) -> str:
    # C divides towards zero.
    seconds = abs(microseconds) // 1_000_000 * (1 if microseconds >= 0 else -1)
    moment = broken_down(seconds + _EPOCH_SECONDS)
    zone = "UTC" if broken_down is time.gmtime else time.strftime("%Z", moment)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', moment)}.{microseconds - seconds * 1_000_000:06d} {zone}"


def joined(values: Iterable[object]) -> str:
    """Write values between brackets (array_desc)."""
    return f"[{', '.join(map(str, values))}]"


def locator_text(locator: _Locator) -> str:
    """Write a file as ``tablespace/database/number``."""
    tablespace, database, number = locator
    return f"{tablespace}/{database}/{number}"


def file_path(locator: _Locator, fork: int, version: Version) -> str:
    """Return a file's path in the data directory (GetRelationPath); an unknown fork is shown by its number."""
    tablespace, database, number = locator
    suffix = "" if fork == 0 else f"_{FORK_NAMES[fork] if 0 < fork < len(FORK_NAMES) else fork}"
    if tablespace == GLOBAL_TABLESPACE:
        return f"global/{number}{suffix}"
    if tablespace == DEFAULT_TABLESPACE:
        return f"base/{database}/{number}{suffix}"
    directory = f"PG_{version.major}_{version.catalog_version}"
    return f"pg_tblspc/{tablespace}/{directory}/{database}/{number}{suffix}"


def full_xid(xid: int) -> str:
    """Write a 64-bit transaction id as ``epoch:xid``."""
    return f"{xid >> 32}:{xid & 0xFFFFFFFF}"


def letter(condition: int) -> str:
    """Write a condition as ``T`` or ``F``."""
    return "T" if condition else "F"


def catalog_flag(is_catalog: int, style: Style, separator: str = ": ") -> str:
    """Say at the end of a description whether the record is about a catalog, where the version says so."""
    return f", isCatalogRel{separator}{letter(is_catalog)}" if style.version.describes_catalog_flags else ""


def shown_bytes(content: bytes) -> str:
    """Read names in the server's encoding; bytes that are no UTF-8 are decoded with ``surrogateescape``."""
    return content.decode("utf-8", "surrogateescape")


def invalidations_text(messages: Sequence[Invalidation], init_file_of: tuple[int, int] | None = None) -> str:
    """Describe invalidation messages; the text is empty if there are none.

    Args:
        messages: the messages, in their order.
        init_file_of: database and tablespace, if their relation cache's init file is also removed.
    """
    if not messages:
        return ""
    shown = "".join(f" {_message_text(message)}" for message in messages)
    if init_file_of is None:
        return f"; inval msgs:{shown}"
    return f"; relcache init file inval dbid {init_file_of[0]} tsid {init_file_of[1]}; inval msgs:{shown}"


_WORDS = {CATALOG: "catalog", RELCACHE: "relcache", SNAPSHOT: "snapshot", RELSYNC: "relsync"}


def _message_text(message: Invalidation) -> str:
    if message.id >= 0:
        return f"catcache {message.id}"
    if message.id == SMGR:
        return "smgr"
    if message.id == RELMAP:
        return f"relmap db {message.db}"
    return f"{_WORDS[message.id]} {message.value}"
