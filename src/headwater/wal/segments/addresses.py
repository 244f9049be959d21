"""The WAL that a user names: paths, ``file:`` URLs, addresses of stores; made into places to be read.

Paths and ``file:`` URLs are this machine's. An address with ``://`` is of a store, and its scheme fsspec's name of it.
Settings that the store's library does not find by itself (credentials, another endpoint) are options by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from headwater.errors import UsageError
from headwater.option_names import option
from headwater.wal.segments.local_path import local_path
from headwater.wal.segments.place import Place, WalSource

_SERVERS = ("postgresql", "postgres")
_STORE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def wal_source(
    addresses: str | Sequence[str], options: Sequence[tuple[str, str]] = (), timeline: int | None = None
) -> WalSource:
    """Make places to be read of addresses.

    Args:
        addresses: one, or several in the order in which a segment is looked for.
        options: for the stores among them, (name, value).
        timeline: the timeline to follow, None for the newest.

    Raises:
        UsageError: an address is of another machine, none is given, or there are options and no store.
    """
    given = [addresses] if isinstance(addresses, str) else list(addresses)
    if not given:
        raise UsageError("no directory of WAL segments is given")
    places = tuple(_place(address, tuple(options)) for address in given)
    if options and not any(place.options for place in places):
        raise UsageError(
            f"storage options are given ({', '.join(name for name, _ in options)}), and no WAL is in a store",
            hint=f"name the store's address (s3://...) with {option('wal')}, or leave them out",
        )
    return WalSource(places, timeline)


def check_no_server(addresses: Iterable[str]) -> None:
    """Check that nothing is a server's address.

    Raises:
        UsageError: something is.
    """
    if any((store := _STORE.match(address)) and store[1].lower() in _SERVERS for address in addresses):
        # Nothing of the address is said: it may have a password.
        raise UsageError(
            "the address of a server is no place of WAL",
            hint="headwater receive brings a server's WAL; headwater land and Spark read a logical slot of it",
        )


def _place(address: str, options: tuple[tuple[str, str], ...]) -> Place:
    store = _STORE.match(address)
    if store is None or store[1].lower() == "file":
        return Place(local_path(address))
    check_no_server([address])
    return Place(address, store[1].lower(), options)
