"""Tables of the publisher as they are copied where rules change what comes in."""

from __future__ import annotations

from dataclasses import replace

from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.mapped.source_facts import ask_source
from headwater.apply.mapped.table_maps import map_table
from headwater.apply.table_sync.publisher_tables import SourceTable, describe_table
from headwater.apply.table_sync.wal_publisher import Publisher


def describe_mapped(source: Publisher, request: ApplyRequest, namespace: str, name: str) -> SourceTable:
    """Ask what of a table is copied, and what becomes of it; names are the publisher's.

    Raises:
        UsageError: a rule does not fit the table.
        ServerError: there is none, or the publisher refuses.
        ConnectionLostError: the publisher is lost.
    """
    publications = request.slot.publications
    table = describe_table(source, publications, namespace, name)
    if not request.maps:
        return table
    facts = ask_source(source, publications, request.maps)
    return replace(table, map=map_table(request.maps, table.sent, facts))
