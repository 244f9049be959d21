"""The error of a server that this process was to run."""

from __future__ import annotations

from headwater.errors import HeadwaterError


class LocalServerError(HeadwaterError):
    """An error of a server of this process that cannot be found, started or stopped."""
