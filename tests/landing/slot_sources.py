"""Slots of a server that runs, as sources of what lands."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from headwater.errors import HeadwaterWarning
from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing_modes import CHANGELOG
from headwater.landing.landing_pass import LandingResult
from headwater.landing.slot_landing import SlotRequest, land_slot
from headwater.local_servers.local_server import LocalServer
from headwater.remote_slots.slot_address import SlotAddress

PUBLICATION = "everything"


def slot_uri(server: LocalServer, slot: str, *more: str, publication: str = PUBLICATION) -> str:
    """Return the address of a slot."""
    host = quote(str(server.socket_directory), safe="")
    query = "&".join([f"host={host}", f"port={server.port}", f"slot={slot}", f"publication={publication}", *more])
    return f"postgresql://postgres@/postgres?{query}"


def landed_from(server: LocalServer, slot: str, target: LandingTarget, window_bytes: int = 1 << 27) -> LandingResult:
    """Land what a slot has."""
    request = SlotRequest(SlotAddress.parse(slot_uri(server, slot)), window_bytes=window_bytes)
    with without_warnings(target):
        return land_slot(request, target)


@contextmanager
def without_warnings(target: LandingTarget) -> Iterator[None]:
    """Take no notice that rows from before are missing in mirrors."""
    with warnings.catch_warnings():
        if target.mode != CHANGELOG:
            warnings.simplefilter("ignore", HeadwaterWarning)
        yield
