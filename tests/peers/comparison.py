"""Compares events: the connector's with ours, equal but for what is of the moment that the connector worked in.

What is made alike before: times of processing; the ``snapshot`` of the source block, which is null where the converter
is told to leave null alone; the order of a transaction's tables, and the identity of a Java object that stands for the
table of a logical message (both as a hash gives them); numbers, by their value.
"""

from __future__ import annotations

import json
import re
import struct
from decimal import Decimal
from typing import Any

_HEADERS = ("__debezium.newkey", "__debezium.oldkey")
_FLOAT4_DIGITS = 9
_PROCESSED = ("ts_ms", "ts_us", "ts_ns")


def of_connector(line: str) -> Any:
    """An event that ``PrintEvents`` has written."""
    event = json.loads(line)
    headers = {name: event[name] for name in _HEADERS if name in event}
    kept = {"topic": event["topic"]} | ({"headers": headers} if headers else {})
    return _alike(kept | {"key": event["key"], "value": event["value"]})


def of_ours(line: str) -> Any:
    """An event that Headwater has written."""
    return _alike(json.loads(line))


def _alike(event: dict[str, Any]) -> Any:
    payload = event["value"]
    if isinstance(payload, dict) and set(payload) == {"schema", "payload"}:
        payload = payload["payload"]
    if payload is not None and "op" in payload:
        for name in _PROCESSED:
            payload.pop(name, None)
        payload["source"]["snapshot"] = "false"
    if payload is not None and payload.get("data_collections"):
        for table in payload["data_collections"]:
            table["data_collection"] = re.sub(r"(LogicalDecodingMessageId)@\w+", r"\1", table["data_collection"])
        payload["data_collections"].sort(key=lambda table: table["data_collection"])
    return event


def _are_one_float4(one: float, other: float) -> bool:
    """Java prints a number of single precision with more digits than are needed, and not always the nearest ones."""
    digits = (Decimal(repr(number)).normalize().as_tuple().digits for number in (one, other))
    are_short = all(len(found) <= _FLOAT4_DIGITS for found in digits)
    return are_short and struct.pack("<f", one) == struct.pack("<f", other)


def with_start(theirs: Any, ours: Any) -> Any:
    """The connector's event, without the time of its start, which a message has that comes before all transactions."""
    source, our_source = _source(theirs), _source(ours)
    if source and our_source and our_source["ts_ms"] == 0:
        source.update(dict.fromkeys(_PROCESSED, 0))
    return theirs


def _source(event: Any) -> Any:
    payload = event["value"] or {}
    return payload.get("payload", payload).get("source")


def difference(theirs: Any, ours: Any, path: str = "") -> str | None:
    """The first place where two events differ; None if they do not."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if list(theirs) != list(ours):
            return f"{path}: the connector has {list(theirs)}, we have {list(ours)}"
        found = (difference(theirs[name], ours[name], f"{path}.{name}") for name in theirs)
        return next((text for text in found if text), None)
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = enumerate(zip(theirs, ours, strict=True))
        found = (difference(one, other, f"{path}[{i}]") for i, (one, other) in pairs)
        return next((text for text in found if text), None)
    is_same = theirs == ours and isinstance(theirs, bool) == isinstance(ours, bool)
    if isinstance(theirs, float) and isinstance(ours, float):
        is_same = is_same or _are_one_float4(theirs, ours)
    return None if is_same else f"{path}: the connector has {theirs!r}, we have {ours!r}"
