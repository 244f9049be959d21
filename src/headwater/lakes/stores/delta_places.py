"""Places of Delta tables as ``deltalake`` (1.6.6) takes them: addresses, options for stores, errors there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from headwater.errors import LakeError, LakeNameError
from headwater.lakes.stores.library_options import options_for_delta
from headwater.lakes.stores.places import StorePath, Where

_LOGGED = re.compile(r"\d{20}\.[\w.-]+(?<!\.part)|_last_checkpoint")
"""Names of a log's files; not of what ``deltalake`` stages beside them, nor of commits that were not whole yet."""

_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f\ud800-\udfff]")
"""What the library takes for something else in a path, or for nothing, however it is escaped: it writes to one
directory, and reads from another."""


def delta_options(place: Where) -> dict[str, str] | None:
    """Return options for the store of a table; None for a directory.

    Raises:
        UsageError: one has no equal there.
    """
    return options_for_delta(place.store) if isinstance(place, StorePath) else None


def delta_address(place: Where) -> str:
    """Return a directory as the library finds it, whatever is in its name, and from wherever the path begins.

    Raises:
        LakeError: the library would look elsewhere.
    """
    if isinstance(place, StorePath):
        if not re.fullmatch(r"[\w.=/ -]+", place.key, re.ASCII):
            raise LakeNameError(
                "deltalake finds folders in stores by letters, digits, spaces and . _ - = only",
                file=str(place),
                hint="land as Parquet, or leave the table out (--exclude)",
            )
        return quote(str(place), safe="/:")
    whole = place.resolve()
    misread = _MISREAD.search(str(whole))
    if misread is not None:
        kind = LakeNameError if misread[0] in whole.name else LakeError
        raise kind(
            f"deltalake does not find a directory with {misread[0]!r} in its path",
            file=str(place),
            hint="land to another place, or in another format; if a table is called so, leave it out (--exclude)",
        )
    return whole.as_uri()


def has_log(place: Path) -> bool:
    """Tell whether a commit was ever made: a first one that failed leaves no files in the log, or what it staged."""
    log = place / "_delta_log"
    return log.is_dir() and any(_LOGGED.fullmatch(name) for name in os.listdir(log))


@contextmanager
def one_line(place: Where) -> Iterator[None]:
    """Let errors of a store, which the library shows as a tree with colours, be one line.

    Raises:
        LakeError: such a one.
    """
    try:
        yield
    except OSError as error:
        if isinstance(place, Path):
            raise
        text = " ".join(re.sub(r"\x1b\[\d*m|\u21b3", "", str(error)).split())
        raise LakeError(
            f"Delta: {text}", file=str(place), hint="begin again once the store answers: the run goes on from there"
        ) from None
