"""The stream of a slot for applying: begun as libpq's walreceiver begins it for the apply worker.

In: a request, and the LSN that the target has come to. Out: a feed of pieces (``remote_slots/slot_feed.py``).

PostgreSQL: libpqwalreceiver.c (libpqrcv_startstreaming), worker.c (set_stream_options); publishers of 14 to 19.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.apply.incoming.requests import ApplyRequest
from headwater.pg.version import VERSIONS
from headwater.plugins.pgoutput.options import MAX_PROTOCOL
from headwater.remote_slots.slot_connection import open_slot, start_slot
from headwater.remote_slots.slot_feed import SlotFeed


def slot_feed(request: ApplyRequest, reached: int) -> SlotFeed:
    """Connect to the server, and begin the stream behind what is applied.

    Args:
        request: what is asked for.
        reached: LSN up to which the target has everything; 0 for where the slot is.

    Raises:
        ServerError: the source refuses.
        ConnectionLostError: there is no server.
    """
    connection, facts = open_slot(request.source)
    try:
        stream = start_slot(connection, request.slot, reached, stream_options(request, facts.major))
    except BaseException:
        connection.close()
        raise
    return SlotFeed(stream, max(reached, facts.confirmed), asks=request.end is not None)


def source_node(request: ApplyRequest) -> str:
    """Ask which server, and which database of it, changes come from.

    Raises:
        ServerError: the source refuses.
        ConnectionLostError: there is no server.
    """
    connection, facts = open_slot(replace(request.source, creates_slot=False))
    connection.close()
    return f"{facts.system_identifier}/{facts.database}"


def stream_options(request: ApplyRequest, major: int) -> dict[str, str]:
    """Return the options of the plugin, but for the publications.

    Args:
        request: what is asked for; major: the publisher's version.
    """
    server = VERSIONS[major]
    options = {"proto_version": str(MAX_PROTOCOL[major])}
    if request.streaming is not None and request.streaming != "off":
        options["streaming"] = request.streaming if server.has_parallel_streaming else "on"
    if request.slot.two_phase and server.has_two_phase_option:
        options["two_phase"] = "on"
    if server.has_origin_option:
        options["origin"] = request.origin
    if request.binary:
        options["binary"] = "true"
    return options
