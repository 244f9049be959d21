"""Indexes of a target in a store, which lie on this machine and are kept for the next run.

::

    ~/.cache/headwater/lakes/9f86d081884c7d65/lock       held by who lands from this machine
    ~/.cache/headwater/lakes/9f86d081884c7d65/keys/      what the target's directory has of it on one machine

All of it is made again from the target's files when it is lost, damaged or of another version; it says itself of which
files it is. So two targets of one address, in two stores, would at worst make theirs anew in turn. A run that cannot
have the place for itself has its indexes in a directory that goes with it.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import ExitStack, suppress
from pathlib import Path

from headwater.base.cache_places import lake_cache
from headwater.base.locks import lock, open_lock
from headwater.base.trusted_paths import check_path, make_directory
from headwater.errors import HeadwaterError
from headwater.lakes.stores.places import StorePath
from headwater.wal.segments.remote import option_value

_ENDPOINT, _ENDPOINTS = "endpoint_url", ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def directory_of_indexes(place: StorePath, otherwise: Path, stack: ExitStack) -> Path:
    """Return a directory for indexes of a target, which may not be there.

    Args:
        place: the target; otherwise: a directory that goes with the run, for where none can be kept.
        stack: closed when the target is let go.
    """
    with suppress(OSError, HeadwaterError):
        own = lake_cache() / hashlib.sha256(_server(place).encode()).hexdigest()[:16]
        make_directory(own, 0o700)
        check_path(own)
        descriptor = open_lock(own / "lock")
        stack.callback(os.close, descriptor)
        if lock(descriptor):
            return own / "keys"
    return otherwise / "keys"


def _server(place: StorePath) -> str:
    """Return the address of a target, with its server's: the same bucket may be in two."""
    named = [str(option_value(value)) for name, value in place.store.options if name == _ENDPOINT]
    endpoint = next((value for value in (*named, *map(os.environ.get, _ENDPOINTS)) if value), "")
    return f"{endpoint} {place}"
