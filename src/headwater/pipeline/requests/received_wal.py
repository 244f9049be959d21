"""WAL that a run receives itself: into its first place, from where its catalog needs it."""

from __future__ import annotations

from pathlib import Path

from headwater.errors import UsageError
from headwater.pipeline.requests.named_catalog import taken_at
from headwater.receiver.wal_receiver import Position, ReceiveRequest
from headwater.wal.segments.place import WalSource


def receive_request(conninfo: str, source: WalSource, catalog: str | None, slot: str | None) -> ReceiveRequest:
    """Return the request of WAL that goes into the first place; the other places are an archive of it.

    A server that is not there is waited for once the first place has WAL: the run has that, and the archive, meanwhile.

    Args:
        conninfo: of the server.
        source: the places; the first is made if it is missing.
        catalog: what the run begins with, None if that is not known.
        slot: name of a physical slot of the server, made if it is missing; None for none.

    Raises:
        UsageError: the first place is a store.
    """
    first, *others = source.places
    if not first.is_local:
        raise UsageError(f'WAL is received into a directory, not into the store "{first.address}"')
    place = None if catalog is None else taken_at(catalog)
    Path(first.address).mkdir(0o700, parents=True, exist_ok=True)
    return ReceiveRequest(
        conninfo=conninfo,
        directory=Path(first.address),
        slot=slot,
        creates_slot=slot is not None,
        waits_for_server=True,
        archive=WalSource(tuple(others)) if others else None,
        begin=None if place is None else Position(*place),
    )
