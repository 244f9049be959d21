"""Addresses of directories: plain paths, and ``file:`` URLs, which Spark makes of paths itself.

Known gap: backups in object stores.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from headwater.errors import UsageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_LOCAL = re.compile(r"/(?!/)|//(?:localhost)?/")


def local_path(address: str) -> str:
    """Return the path that an address means: itself, or that of a ``file:/...`` or ``file:///...`` URL.

    Raises:
        UsageError: the address is of another scheme, or of another machine.
    """
    scheme = _SCHEME.match(address)
    if scheme is None:
        return address
    rest = address[len(scheme[1]) + 1 :]
    if scheme[1].lower() != "file":
        raise UsageError(
            f'addresses of scheme "{scheme[1]}" are not supported: "{address}"',
            hint="give a path, or a file:/ address, of a directory that driver and workers see",
        )
    local = _LOCAL.match(rest)
    if local is None:
        raise UsageError(f'"{address}" is on another machine', hint="give file:///path, or a path")
    return unquote(rest[local.end() - 1 :])
