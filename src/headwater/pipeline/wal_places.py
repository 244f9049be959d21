"""The WAL that a user names: paths, ``file:`` URLs, addresses of stores; made into places to be read.

Paths and ``file:`` URLs are this machine's. An address with ``://`` is of a store, and its scheme fsspec's name of it.
What the store is told beyond what its library finds by itself (credentials, another endpoint) are options by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from headwater.errors import UsageError
from headwater.pipeline.local_path import local_path
from headwater.wal.place import Place, WalSource

STORAGE = "storage."
"""What the names of the data source's options begin with that are for the store that the WAL lies in."""

_STORE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def wal_source(
    addresses: str | Sequence[str], options: Sequence[tuple[str, str]] = (), timeline: int | None = None
) -> WalSource:
    """Places to be read.

    Args:
        addresses: one, or several in the order in which a segment is looked for.
        options: for the stores among them, (name, value).
        timeline: the timeline to follow, None for the newest.

    Raises:
        UsageError: an address is of another machine, or none is given.
    """
    named = [addresses] if isinstance(addresses, str) else list(addresses)
    if not named:
        raise UsageError("no directory of WAL segments is given")
    return WalSource(tuple(_place(address, tuple(options)) for address in named), timeline)


def source_of_options(given: Mapping[str, str], default: WalSource | None = None) -> WalSource:
    """Where the WAL is, of the data source's options: ``path``, ``timeline`` and those of a store.

    Args:
        given: them, by their names in lower case; several places of ``path`` stand on lines of their own.
        default: what those that are not given are taken from.

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
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 32):
        raise UsageError(f'invalid timeline "{text}", expected a number')
    return int(text)


def _place(address: str, options: tuple[tuple[str, str], ...]) -> Place:
    store = _STORE.match(address)
    if store is None or store[1].lower() == "file":
        return Place(local_path(address))
    return Place(address, store[1].lower(), options)
