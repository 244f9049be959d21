"""A comparison of events: the connector's with ours, equal but for what is of the moment that the connector worked in.

Made alike before: times of processing; the ``snapshot`` of the source block, which is null where the converter leaves
null alone; numbers, by their value. Two more things are as a hash gives them: the order of a transaction's tables, and
the identity of a Java object that stands for the table of a logical message.
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
    """Parse an event that ``PrintEvents`` has written."""
    event = json.loads(line)
    headers = {name: event[name] for name in _HEADERS if name in event}
    event_part = {"topic": event["topic"]} | ({"headers": headers} if headers else {})
    return _alike(event_part | {"key": event["key"], "value": event["value"]})


def of_ours(line: str) -> Any:
    """Parse an event that Headwater has written."""
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


def _are_one_float4(theirs: float, ours: float) -> bool:
    """Tell whether Java and we mean one number of single precision.

    Java prints such a number with more digits than are needed, and not always the nearest ones.
    """
    digits = (Decimal(repr(number)).normalize().as_tuple().digits for number in (theirs, ours))
    are_short = all(len(number_digits) <= _FLOAT4_DIGITS for number_digits in digits)
    return are_short and struct.pack("<f", theirs) == struct.pack("<f", ours)


def with_start(theirs: Any, ours: Any) -> Any:
    """Return the connector's event, without the time of its start.

    A message has that time that comes before all transactions.
    """
    source, our_source = _source(theirs), _source(ours)
    if source and our_source and our_source["ts_ms"] == 0:
        source.update(dict.fromkeys(_PROCESSED, 0))
    return theirs


def _source(event: Any) -> Any:
    payload = event["value"] or {}
    return payload.get("payload", payload).get("source")


def difference(theirs: Any, ours: Any, path: str = "") -> str | None:
    """Describe the first place where two events differ; None if they do not."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if list(theirs) != list(ours):
            return f"{path}: the connector has {list(theirs)}, we have {list(ours)}"
        differences = (difference(theirs[name], ours[name], f"{path}.{name}") for name in theirs)
        return next((text for text in differences if text), None)
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = enumerate(zip(theirs, ours, strict=True))
        differences = (difference(their, our, f"{path}[{i}]") for i, (their, our) in pairs)
        return next((text for text in differences if text), None)
    is_same = theirs == ours and isinstance(theirs, bool) == isinstance(ours, bool)
    if isinstance(theirs, float) and isinstance(ours, float):
        is_same = is_same or _are_one_float4(theirs, ours)
    return None if is_same else f"{path}: the connector has {theirs!r}, we have {ours!r}"
