"""The extra ``server`` of the package: psycopg, which brings libpq."""

from __future__ import annotations

from types import ModuleType

from headwater.errors import HeadwaterError

INSTALL = "run: pip install 'headwater[server]'"


def load_psycopg(purpose: str) -> ModuleType:
    """Import psycopg.

    Args:
        purpose: what needs it, for the error.

    Raises:
        HeadwaterError: it is not installed.
    """
    try:
        import psycopg
    except ImportError as error:
        raise HeadwaterError(f"{purpose} needs the extra server: {error}", hint=INSTALL) from None
    return psycopg
