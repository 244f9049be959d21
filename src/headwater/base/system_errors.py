"""Errors of the operating system, as errors of Headwater: ``could not read file: Permission denied (in PATH)``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.errors import HeadwaterError


def reason_of(error: OSError) -> str:
    """Return the system's text for an error, without its number and the file."""
    return error.strerror or str(error)


def system_error(
    action: str,
    error: OSError,
    kind: type[HeadwaterError] = HeadwaterError,
    *,
    lsn: int | None = None,
    file: str | os.PathLike[str] | None = None,
    hint: str | None = None,
) -> HeadwaterError:
    """Make an error of Headwater of one of the system.

    Args:
        action: what could not be done, as in "write output".
        error: the system's.
        kind: the class of the new error.
        lsn: where in the WAL, in bytes, or None.
        file: the file that it names; None for the one that the system names, if any.
        hint: what to do about it, or None.
    """
    place = error.filename if file is None else file
    name = None if place is None else os.fsdecode(place)
    return kind(f"could not {action}: {reason_of(error)}", lsn=lsn, file=name, hint=hint)


@contextmanager
def errors_as(
    kind: type[HeadwaterError], action: str, file: str | os.PathLike[str] | None = None, hint: str | None = None
) -> Iterator[None]:
    """Raise what the system refuses in the ``with`` block as an error of Headwater.

    Args:
        kind, action, file, hint: see :func:`system_error`.

    Raises:
        HeadwaterError: of the kind.
    """
    try:
        yield
    except OSError as error:
        raise system_error(action, error, kind, file=file, hint=hint) from None
