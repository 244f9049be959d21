"""Every error Headwater raises, in one tree.

::

    HeadwaterError
    ├── UsageError             the command line or an option is wrong (exit status 2)
    ├── WalError               the write-ahead log cannot be read as asked
    │   ├── SegmentError       a segment file is missing, truncated, of another cluster, size or version
    │   │   ├── TruncatedSegmentError    a packed file ends before what is packed in it
    │   │   ├── SegmentGoneError         it was there a moment ago
    │   │   └── AwaitedSegmentError      none is there yet that is needed; more may come
    │   ├── PageError          a page header is not what its place demands
    │   └── RecordError        a record is malformed, of an unknown kind, or fails its checksum
    ├── CatalogError           the catalog cannot be read, or does not fit the WAL
    │   └── AwaitedCatalogError      the WAL does not reach as far as the catalog needs it; more may come
    ├── UnsupportedTypeError   a value's type has no text form here yet
    ├── DecodingError          a transaction cannot be decoded as the server would
    ├── RowFilterError         a publication's row filter has no verdict
    │   ├── UnsupportedFilterError   it holds what cannot be evaluated here
    │   ├── UnchangedValueError      it needs a TOAST value that the WAL does not have
    │   └── ExpressionError    the server's evaluation ends with this error, too
    ├── PluginError            the output plugin refuses: unknown plugin, option, publication
    ├── ServerError            a PostgreSQL server refuses what it is asked
    │   ├── ConnectionLostError      it cannot be reached, or does not answer any more
    │   └── TargetError        the target refuses what is applied, as it would its own apply worker
    ├── SpoolError             what waits to be applied cannot be kept in a file
    ├── SessionError           a client that is served is refused, as the server would
    │   └── OffHistoryError    it is at a place of a timeline that the log has left before
    ├── AccessError            a service's file of users, rules or keys cannot be used
    ├── SparkError             Spark does not start, or loses a task
    ├── LakeError              a table in the lake cannot be read or written
    │   ├── LakeConflictError  somebody else has written to it
    │   └── LakeNameError      it cannot be kept under its name
    └── UntrustedPathError     another user could have planted what would be run or loaded

What is done all the same, though the user may not expect it, is a :class:`HeadwaterWarning`: :func:`warn` sends it
through Python's own ``warnings``, the command prints it on standard error.

Messages follow PostgreSQL's style: lower case, no full stop, what was found and what was expected. An error carries its
place (``lsn``, ``file``) and a ``hint`` that says what to do; :meth:`HeadwaterError.one_line` joins them. One that is
about a single table of several that land names that, too (``table``). Options are mentioned by
:mod:`headwater.option_names`, and named as they are where the error is shown. Every error pickles, as Spark workers
must send theirs to the driver.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from headwater.option_names import at_door, hint_at_door


class HeadwaterError(Exception):
    """Base of all errors.

    Args:
        message: what happened, with what was found and what was expected.
        lsn: where in the WAL, in bytes, or None.
        file: which file, or None.
        hint: what to do about it, or None.

    Attributes:
        table: OID and name of the only table that it stands in the way of, where several land; None if that is not
            known.
        good_until: LSN at which a window can end that has all before the transaction that it is about; None where that
            is not known.
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
        self.table: tuple[int, str] | None = None
        self.good_until: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message,), vars(self)

    def one_line(self) -> str:
        """Return the whole error in one line: place, message, hint."""
        return _one_line(self.message, self.lsn, self.file, self.hint)

    def details(self) -> list[str]:
        """Return the lines that follow the one line where there is room, as a server's log has them."""
        return []

    def __str__(self) -> str:
        return self.one_line()


def _one_line(message: str, lsn: int | None, file: str | None, hint: str | None) -> str:
    place = []
    if lsn is not None:
        place.append(f"at {lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}")
    if file is not None:
        place.append(f"in {file}")
    text = at_door(message)
    text = f"{text} ({', '.join(place)})" if place else text
    advice = hint_at_door(hint)
    return f"{text}; {advice}" if advice else text


def errors_of(database: str | None) -> AbstractContextManager[None]:
    """Name a database in errors of the ``with`` block; those of None are left alone."""
    return _errors_of("database", database)


def errors_of_output(name: str | None) -> AbstractContextManager[None]:
    """Name one of several outputs in errors of the ``with`` block; those of None are left alone."""
    return _errors_of("output", name)


@contextmanager
def _errors_of(kind: str, name: str | None) -> Iterator[None]:
    try:
        yield
    except HeadwaterError as error:
        if name is not None:
            error.message = f'{kind} "{name}": {error.message}'
        raise


@contextmanager
def errors_of_table(oid: int, name: str) -> Iterator[None]:
    """Mark errors of the ``with`` block as of one table of several that land, unless they are of another.

    Args:
        oid: of the table, of a partition that of its topmost table; name: ``schema.table``.
    """
    try:
        yield
    except HeadwaterError as error:
        error.table = error.table or (oid, name)
        raise


class UsageError(HeadwaterError):
    """The command line, or an option of it, is wrong."""

    exit_code = 2


class WalError(HeadwaterError):
    """The write-ahead log cannot be read as asked."""


class SegmentError(WalError):
    """A segment file is missing, truncated, or of another cluster, segment size or version."""


class TruncatedSegmentError(SegmentError):
    """A packed segment file ends before what is packed in it; it may be on its way."""


class SegmentGoneError(SegmentError):
    """A segment file that was listed is not there any more: a server has removed or renamed it."""


class AwaitedSegmentError(SegmentError):
    """No segment is there, or none that reaches as far as it must; a follower of WAL waits for it."""


class PageError(WalError):
    """A page header is not what its place demands."""


class RecordError(WalError):
    """A record is malformed, of an unknown kind, or fails its checksum."""


class CatalogError(HeadwaterError):
    """The catalog cannot be read, or does not fit the WAL."""


class AwaitedCatalogError(CatalogError):
    """The WAL ends before the catalog can be used; a follower of WAL waits for more of it."""


class UnsupportedTypeError(HeadwaterError):
    """A value's type has no text form here yet."""


class UnsupportedDefinitionError(HeadwaterError):
    """An object's definition cannot be told exactly in SQL."""


class DecodingError(HeadwaterError):
    """A transaction cannot be decoded as the server would decode it."""


class RowFilterError(HeadwaterError):
    """A publication's row filter has no verdict of a row."""


class UnsupportedFilterError(RowFilterError):
    """A row filter holds a function, a type or a collation that is not evaluated here."""


class UnchangedValueError(RowFilterError):
    """A row filter looks at a TOAST value that was not written again: the old row has to give it first."""


class ExpressionError(RowFilterError):
    """The server, too, ends with this error where it evaluates the expression; the message is its own."""


class PluginError(HeadwaterError):
    """The output plugin refuses: an unknown plugin, option or publication, or a value out of range.

    Args:
        message, lsn, file, hint: see :class:`HeadwaterError`.
        sqlstate: the server's code for it (``utils/errcodes.txt``); ``XX000``, an internal error, where it has none.

    Attributes:
        context: where it was called, in the server's words; None where nobody is told.
    """

    def __init__(
        self,
        message: str,
        *,
        lsn: int | None = None,
        file: str | None = None,
        hint: str | None = None,
        sqlstate: str = "XX000",
    ) -> None:
        super().__init__(message, lsn=lsn, file=file, hint=hint)
        self.sqlstate = sqlstate
        self.context: str | None = None


class ServerError(HeadwaterError):
    """A PostgreSQL server refuses what it is asked.

    Args:
        message, lsn, file, hint: see :class:`HeadwaterError`.
        sqlstate: five characters, as the server names the kind of error; None without one.
    """

    def __init__(
        self,
        message: str,
        *,
        lsn: int | None = None,
        file: str | None = None,
        hint: str | None = None,
        sqlstate: str | None = None,
    ) -> None:
        super().__init__(message, lsn=lsn, file=file, hint=hint)
        self.sqlstate = sqlstate


class ConnectionLostError(ServerError):
    """A PostgreSQL server cannot be reached, or does not answer any more: trying again may help."""


class DivergedSourceError(HeadwaterError):
    """The target has what the source, which has failed over, has not."""


class TargetError(ServerError):
    """The target refuses what is applied, in the words that its own apply worker would log.

    Args:
        message: as the server words it; lsn, file, hint, sqlstate: see :class:`ServerError`.
        detail: the server's DETAIL, or None.
        context: what was being applied, as the apply worker's CONTEXT says it; None where it is not known.
    """

    def __init__(
        self,
        message: str,
        *,
        lsn: int | None = None,
        file: str | None = None,
        hint: str | None = None,
        sqlstate: str | None = None,
        detail: str | None = None,
        context: str | None = None,
    ) -> None:
        super().__init__(message, lsn=lsn, file=file, hint=hint, sqlstate=sqlstate)
        self.detail, self.context = detail, context

    def one_line(self) -> str:
        """Return the error in one line, with its SQLSTATE."""
        message = f"{self.message} (SQLSTATE {self.sqlstate})" if self.sqlstate else self.message
        return _one_line(message, self.lsn, self.file, self.hint)

    def details(self) -> list[str]:
        """Return DETAIL and CONTEXT, as the server's log would have them; further lines of both are indented."""
        named = (("DETAIL", self.detail), ("CONTEXT", self.context))
        return [f"{name}:  {text}".replace("\n", "\n\t") for name, text in named if text]


class SpoolError(HeadwaterError):
    """A file cannot keep what waits to be applied, or not give it back: trying again may help."""


class SessionError(HeadwaterError):
    """A client that is served asks for what is refused, with the SQLSTATE that the server gives.

    Args:
        message: as the server words it; lsn, file: see :class:`HeadwaterError`.
        hint: the server's HINT, or None.
        sqlstate: five characters; ``XX000``, an internal error, where the server has none.
        detail: the server's DETAIL, or None.
        position: the character of the query that it is about, counted from 1; None for none.
    """

    def __init__(
        self,
        message: str,
        *,
        lsn: int | None = None,
        file: str | None = None,
        hint: str | None = None,
        sqlstate: str = "XX000",
        detail: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message, lsn=lsn, file=file, hint=hint)
        self.sqlstate = sqlstate
        self.detail = detail
        self.position = position


class OffHistoryError(SessionError):
    """A client that is served is at a place which is not of the WAL's history, as its timeline was left before.

    Attributes:
        timeline: that it is on.
    """

    timeline = 0


class AccessError(HeadwaterError):
    """A file that says who may connect, or how, cannot be used: users, rules of hosts, certificates, keys."""


class SparkError(HeadwaterError):
    """Spark does not start, or a task ends without saying what is wrong with the input."""


class LakeError(HeadwaterError):
    """A table in the lake cannot be read or written."""


class LakeConflictError(LakeError):
    """Somebody else has written to a table in the lake."""


class LakeNameError(LakeError):
    """A table of the source cannot be kept in the lake under its name."""


class UntrustedPathError(HeadwaterError):
    """A file that would be run or loaded lies where another user could have put it."""


class FlatValueError(HeadwaterError):
    """Bytes are not of a value of the expected type, or of another version's."""


class SlotError(HeadwaterError):
    """A slot, or a kept state, is not there, damaged, in use, or cannot be written."""


class SlotInUseError(SlotError):
    """Another process uses a slot."""


class HeadwaterWarning(UserWarning):
    """Something is done all the same that the user may not expect; the text is one line.

    Its arguments are those of :func:`warn`: message, LSN, file, hint; or the text alone. So Numba gives it once more if
    another thread warns while it compiles, as it holds all warnings of the process meanwhile.
    """

    def __str__(self) -> str:
        return _one_line(*self.args) if len(self.args) == 4 else str(*self.args)


def warn(message: str, *, lsn: int | None = None, file: str | None = None, hint: str | None = None) -> None:
    """Warn the user, with the parts that an error has; shown where Python's ``warnings`` go, once for each text.

    Args:
        message: what is not as expected, and what is done about it.
        lsn: where in the WAL, in bytes, or None.
        file: which file, or None.
        hint: what to do about it, or None.
    """
    warnings.warn(HeadwaterWarning(message, lsn, file, hint), stacklevel=2)


@contextmanager
def held_warnings() -> Iterator[list[HeadwaterWarning]]:
    """Hold our warnings of the ``with`` block in a list, not shown; a Spark task sends its own to the driver so.

    Yields:
        the warnings, each text once.
    """
    held: list[HeadwaterWarning] = []
    with warnings.catch_warnings():
        show = warnings.showwarning

        def hold(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if not isinstance(message, HeadwaterWarning):
                show(message, category, *place, **more)
            elif message.args not in [other.args for other in held]:
                held.append(message)

        warnings.showwarning = hold
        warnings.simplefilter("always", HeadwaterWarning)
        yield held
