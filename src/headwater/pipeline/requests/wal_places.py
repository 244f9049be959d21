"""The places of the WAL that the data source's options name."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.errors import UsageError
from headwater.pg.decimals import decimal
from headwater.wal.segments.addresses import wal_source
from headwater.wal.segments.place import WalSource

STORAGE = "storage."
"""What the names of options begin with that are for the store that the WAL lies in."""


def source_of_options(given: Mapping[str, str], default: WalSource | None = None) -> WalSource:
    """Return the places of the WAL, of the data source's options: ``path``, ``timeline`` and those of a store.

    Args:
        given: the options, by their names in lower case; several places of ``path`` stand on lines of their own.
        default: the source that those that are not given are taken from.

    Raises:
        UsageError: an address, or the timeline, is malformed.
    """
    storage = [(name[len(STORAGE) :], value) for name, value in given.items() if name.startswith(STORAGE)]
    addresses = [line for line in given.get("path", "").splitlines() if line.strip()]
    timeline = _timeline(given["timeline"]) if "timeline" in given else None
    if default is None:
        return wal_source(addresses, storage, timeline)
    return wal_source(addresses or [place.address for place in default.places], storage, timeline or default.timeline)


def _timeline(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < decimal(text) < 1 << 32):
        raise UsageError(f'invalid timeline "{text}", expected a number')
    return decimal(text)
