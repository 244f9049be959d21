"""Beginnings of scenarios that run on one server: messages that say their names, and what lies between them."""

from __future__ import annotations

from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from arrow_types import values_of

SCENARIO_PREFIX = "oracle scenario"
_LONGEST_MARK = 200


def mark(connection: psycopg.Connection[Any], scenario: str) -> None:
    """Say that a scenario begins."""
    connection.execute("SELECT pg_logical_emit_message(false, %s, %s)", [SCENARIO_PREFIX, scenario])


def part(messages: pa.Table, scenario: str) -> pa.Table:
    """Return the messages from a scenario's mark to the next mark."""
    data = messages.column("data")
    # Marks are short, and what is not need not be searched.
    short = pc.indices_nonzero(pc.less(pc.binary_length(data), pa.scalar(_LONGEST_MARK)))
    is_mark = pc.match_substring(data.take(short), SCENARIO_PREFIX)
    marks = values_of(short.take(pc.indices_nonzero(is_mark)))
    names = [data[at].as_py() for at in marks]
    at = next((i for i, name in enumerate(names) if name.endswith((b":" + scenario.encode(), scenario.encode()))), None)
    if at is None:
        return messages.slice(0, 0)
    end = marks[at + 1] if at + 1 < len(marks) else len(messages)
    return messages.slice(marks[at], end - marks[at])
