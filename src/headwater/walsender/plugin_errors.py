"""Errors of output plugins, as the server tells them to who uses a slot: with the callback that has failed.

PostgreSQL: output_plugin_error_callback (logical.c). Known gap: of callbacks but startup, only the message is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.errors import PluginError, SessionError


@contextmanager
def starting(slot: str, plugin: str) -> Iterator[None]:
    """Say of errors that they are of the plugin's start, with a slot."""
    try:
        yield
    except PluginError as error:
        error.context = f'slot "{slot}", output plugin "{plugin}", in the startup callback'
        raise


@contextmanager
def running() -> Iterator[None]:
    """Leave out the hints of errors: a window is nothing that a client of a slot could ask for."""
    try:
        yield
    except PluginError as error:
        raise SessionError(error.message, sqlstate=error.sqlstate) from None
