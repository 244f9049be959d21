"""Every error Headwater raises, in one tree.

::

    HeadwaterError
    ├── UsageError             the command line or an option is wrong (exit status 2)
    ├── WalError               the write-ahead log cannot be read as asked
    │   ├── SegmentError       a segment file is missing, truncated, of another cluster, size or version
    │   ├── PageError          a page header is not what its place demands
    │   └── RecordError        a record is malformed, of an unknown kind, or fails its checksum
    ├── CatalogError           the catalog cannot be read, or does not fit the WAL
    ├── UnsupportedTypeError   a column's type has no text form here yet
    ├── DecodingError          a transaction cannot be decoded as the server would
    ├── PluginError            the output plugin refuses: unknown plugin, option, publication
    └── SparkError             Spark does not start, or loses a task

Messages follow PostgreSQL's style: lower case, no full stop, what was found and what was expected. An error carries its
place (``lsn``, ``file``) and a ``hint`` that says what to do; :meth:`HeadwaterError.one_line` joins them. Every error
pickles, as Spark workers must send theirs to the driver.
"""

from __future__ import annotations

from typing import Any


class HeadwaterError(Exception):
    """Base of all errors.

    Args:
        message: what happened, with what was found and what was expected.
        lsn: where in the WAL, in bytes, or None.
        file: which file, or None.
        hint: what to do about it, or None.
    """

    exit_code = 1

    def __init__(
        self, message: str, *, lsn: int | None = None, file: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.lsn = lsn
        self.file = file
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.lsn, self.file, self.hint)

    def one_line(self) -> str:
        """The whole error in one line: place, message, hint."""
        place = []
        if self.lsn is not None:
            place.append(f"at {self.lsn >> 32:X}/{self.lsn & 0xFFFFFFFF:X}")
        if self.file is not None:
            place.append(f"in {self.file}")
        text = f"{self.message} ({', '.join(place)})" if place else self.message
        return f"{text}; {self.hint}" if self.hint else text

    def __str__(self) -> str:
        return self.one_line()


def _rebuild(
    cls: type[HeadwaterError], message: str, lsn: int | None, file: str | None, hint: str | None
) -> HeadwaterError:
    return cls(message, lsn=lsn, file=file, hint=hint)


class UsageError(HeadwaterError):
    """The command line, or an option of it, is wrong."""

    exit_code = 2


class WalError(HeadwaterError):
    """The write-ahead log cannot be read as asked."""


class SegmentError(WalError):
    """A segment file is missing, truncated, or of another cluster, segment size or version."""


class PageError(WalError):
    """A page header is not what its place demands."""


class RecordError(WalError):
    """A record is malformed, of an unknown kind, or fails its checksum."""


class CatalogError(HeadwaterError):
    """The catalog cannot be read, or does not fit the WAL."""


class UnsupportedTypeError(HeadwaterError):
    """A column's type has no text form here yet."""


class DecodingError(HeadwaterError):
    """A transaction cannot be decoded as the server would decode it."""


class PluginError(HeadwaterError):
    """The output plugin refuses: an unknown plugin, option or publication, or a value out of range."""


class SparkError(HeadwaterError):
    """Spark does not start, or a task ends without saying what is wrong with the input."""
