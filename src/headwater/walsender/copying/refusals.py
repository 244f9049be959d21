"""Errors of what the server could copy, but this cannot: class 0A000, with the way out."""

from __future__ import annotations

from headwater.errors import SessionError
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED

HINT = "Name a server that is asked instead (--upstream), or create the subscription with copy_data = false."


def not_without_server(reason: str, detail: str | None = None) -> SessionError:
    """Return the error of a COPY that only a server can answer."""
    return SessionError(reason, sqlstate=FEATURE_NOT_SUPPORTED, detail=detail, hint=HINT)
