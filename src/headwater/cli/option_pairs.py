"""Flags whose values are ``NAME=VALUE``, and those that name the WAL."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.errors import UsageError
from headwater.rows.session import SERVER_VERSION
from headwater.wal.segments.addresses import wal_source
from headwater.wal.segments.place import WalSource


def pairs(values: Sequence[str], flag: str) -> tuple[tuple[str, str], ...]:
    """Texts ``NAME=VALUE`` as pairs.

    Raises:
        UsageError: one is none.
    """
    found = []
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise UsageError(f'invalid value for {flag}: "{value}", expected NAME=VALUE')
        found.append((name, text))
    return tuple(found)


def settings_of_flags(
    settings: Sequence[str] = (), client_encoding: str | None = None, server_version: str | None = None
) -> tuple[tuple[str, str], ...]:
    """Session settings, of which some have flags of their own that go before.

    Raises:
        UsageError: a setting is no ``NAME=VALUE``.
    """
    own = (("client_encoding", client_encoding), (SERVER_VERSION, server_version))
    return (*pairs(settings, "--set"), *((name, value) for name, value in own if value is not None))


def storage_pairs(values: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Options for a store; a value that may be a secret is in no message.

    Raises:
        UsageError: one is no ``NAME=VALUE``.
    """
    for value in values:
        if value.find("=") < 1:
            raise UsageError("invalid value for --storage-option, expected NAME=VALUE")
    return pairs(values, "--storage-option")


def source_of_flags(wal: Sequence[str], storage_options: Sequence[str], timeline: int | None) -> WalSource:
    """Where the WAL is.

    Args:
        wal, storage_options, timeline: the flags' values.

    Raises:
        UsageError: one is malformed.
    """
    return wal_source(wal, storage_pairs(storage_options), timeline)
