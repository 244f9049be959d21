"""The request that a slot decodes: by the command, and by a stream whose options must agree with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from headwater.errors import SlotError, UsageError
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.wal_places import source_of_options
from headwater.plugins.rows.plugin import RowChanges
from headwater.plugins.table_patterns import TablePatterns
from headwater.rows.session import SERVER_VERSION
from headwater.slots.kept_state import KeptState
from headwater.slots.slot import Slot
from headwater.wal.segments.addresses import wal_source
from headwater.wal.segments.local_path import local_path


def request_of_slot(slot: Slot) -> DecodeRequest:
    """Return a slot's request, from where it stands.

    Raises:
        SlotError: the slot is physical.
    """
    asked = slot.request
    if slot.is_physical:
        raise SlotError("cannot use physical replication slot for logical decoding")
    return DecodeRequest(
        wal=wal_source(asked.wal, timeline=asked.timeline),
        catalog=asked.catalog,
        database=asked.database,
        plugin=asked.plugin,
        options=asked.options,
        start=slot.confirmed_lsn,
        settings=asked.settings,
        unknown_types=asked.unknown_types,
        tables=TablePatterns(asked.tables),
        user=asked.user,
        two_phase=slot.two_phase,
    )


def kept_in_slot(slot: Slot) -> KeptState | None:
    """Return the state where a slot stands; None as long as it begins at its catalog."""
    return None if slot.state is None else KeptState(slot.state, slot.request.server_settings)


def agreed_request(slot: Slot, path: str, given: Mapping[str, str], options: Mapping[str, str]) -> DecodeRequest:
    """Return a slot's request, which a stream's options may repeat, but not change; only the WAL may lie elsewhere.

    A slot made for rows has no plugin; where it names no tables, the stream does.

    Args:
        slot: the slot.
        path: its directory.
        given: the data source's options, by their names in lower case.
        options: the plugin's among them.

    Raises:
        UsageError: an option is not as the slot has it.
    """
    request = request_of_slot(slot)
    is_rows = request.plugin == RowChanges.name
    if is_rows and not request.tables.patterns:
        texts = ([given[name]] if given.get(name) else [] for name in ("tables", "exclude"))
        request = replace(request, tables=TablePatterns.parse(*texts))
    if "startinglsn" in given:
        raise UsageError(
            "startingLsn cannot be given with slot", hint="a slot has its own place; advance it, or copy it"
        )
    slots_own = {
        "catalog": request.catalog,
        "database": request.database,
        "user": request.user,
        "plugin": request.plugin,
        "tables": ",".join(request.tables.patterns),
        "exclude": ",".join(request.tables.excluded),
        "unknowntypes": request.unknown_types,
        "serverversion": version_of_slot(slot),
        **{f"set.{name}".lower(): value for name, value in request.settings},
        **{f"plugin.{name}": value for name, value in request.options},
    }
    asked = {name: value for name, value in given.items() if name in slots_own or name.startswith("set.")}
    asked |= {f"plugin.{name}": value for name, value in options.items()}
    for name, value in asked.items():
        if _plain(name, value) != slots_own.get(name):
            has = slots_own.get(name)
            quoted = "nothing" if has is None else f'"{has}"'
            raise UsageError(
                f'the option {name} is "{value}", where the slot has {quoted}',
                hint=f"leave it out, or make another slot than {Path(path).name}",
            )
    request = replace(request, plugin="") if is_rows else request
    return replace(request, wal=source_of_options(given, request.source))


def version_of_slot(slot: Slot) -> str | None:
    """Return the release of the slot's server; None if nothing has said it."""
    asked = slot.request
    return dict((*asked.server_settings, *asked.settings)).get(SERVER_VERSION)


def _plain(name: str, value: str) -> str:
    if name == "catalog":
        return os.path.abspath(local_path(value))
    return ",".join(part.strip() for part in value.split(",")) if name in ("tables", "exclude") else value
