"""Counts per table of a stream of pgoutput messages, for people to look at.

PostgreSQL: ``proto.c`` (logicalrep_write_rel and its neighbours) has the messages' layouts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.base.arrow_buffers import buffer_numbers

OTHER = "of no table"


@dataclass
class TableCounts:
    """The counts of one table in a stream.

    Attributes:
        name: schema and name, as last announced.
        inserts, updates, deletes, truncates: changes by kind.
        messages: all messages about it, announcements included.
        size: bytes in these messages.
    """

    name: str
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    truncates: int = 0
    messages: int = 0
    size: int = 0


def count_changes(messages: pa.Table) -> list[TableCounts]:
    """Count the changes of each table, ordered by name, and last the messages about no table.

    Args:
        messages: a stream of pgoutput with the column ``data`` of type large_binary.
    """
    data = messages.column("data").combine_chunks()
    if len(data) == 0:
        return []
    _, offset_buffer, byte_buffer = data.buffers()
    offsets = buffer_numbers(offset_buffer, np.int64)[data.offset : data.offset + len(data) + 1]
    content = buffer_numbers(byte_buffer, np.uint8)
    kinds = content[offsets[:-1]]
    names = _names(content, offsets, kinds)
    return [*_about_tables(content, offsets, kinds, names), _about_none(offsets, kinds)]


def _about_tables(
    content: NDArray[np.uint8], offsets: NDArray[np.int64], kinds: NDArray[np.uint8], names: dict[int, str]
) -> list[TableCounts]:
    counts = {oid: TableCounts(name) for oid, name in names.items()}
    about = np.flatnonzero(np.isin(kinds, [ord(letter) for letter in "IUDR"]))
    relations = sum(content[offsets[about] + 1 + byte].astype(np.int64) << 8 * (3 - byte) for byte in range(4))
    sizes = np.diff(offsets)[about]
    for oid in np.unique(relations):
        chosen = relations == oid
        of_kind = kinds[about][chosen]
        entry = counts.setdefault(int(oid), TableCounts(str(oid)))
        entry.inserts, entry.updates, entry.deletes = (int(np.sum(of_kind == ord(letter))) for letter in "IUD")
        entry.messages, entry.size = int(np.sum(chosen)), int(np.sum(sizes[chosen]))
    for at in np.flatnonzero(kinds == ord("T")):
        _count_truncate(content[offsets[at] : offsets[at + 1]].tobytes(), counts)
    return sorted(counts.values(), key=lambda entry: entry.name)


def _count_truncate(message: bytes, counts: dict[int, TableCounts]) -> None:
    """Count a TRUNCATE; its message and size count for the first relation.

    The message is ``T``, number of relations (4 bytes), flags (1), their OIDs.
    """
    oids = [int.from_bytes(message[at : at + 4], "big") for at in range(6, len(message), 4)]
    for place, oid in enumerate(oids):
        entry = counts.setdefault(oid, TableCounts(str(oid)))
        entry.truncates += 1
        entry.messages += place == 0
        entry.size += len(message) if place == 0 else 0


def _about_none(offsets: NDArray[np.int64], kinds: NDArray[np.uint8]) -> TableCounts:
    other = ~np.isin(kinds, [ord(letter) for letter in "IUDRT"])
    return TableCounts(OTHER, messages=int(np.sum(other)), size=int(np.sum(np.diff(offsets)[other])))


def _names(content: NDArray[np.uint8], offsets: NDArray[np.int64], kinds: NDArray[np.uint8]) -> dict[int, str]:
    """Read the names of relations by OID; an empty schema is pg_catalog.

    A message is ``R``, OID (4 bytes), schema and name, each ended by a zero byte.
    """
    names = {}
    for at in np.flatnonzero(kinds == ord("R")):
        message = content[offsets[at] : offsets[at + 1]].tobytes()
        schema, name = message[5:].split(b"\0", 2)[:2]
        names[int.from_bytes(message[1:5], "big")] = f"{(schema or b'pg_catalog').decode()}.{name.decode()}"
    return names
