"""Messages made in Python, and the arrays that kernels write messages into.

A plugin's kernel is called until it wrote all messages of a plan; between calls its data array grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headwater.errors import HeadwaterError
from headwater.plugins._messages import Out
from headwater.plugins._plan import Int64s, Plan, Ready, plan_messages
from headwater.rows.items import (
    LITERAL,
    NO_CONDITIONS,
    SEND_SCHEMA,
    TOAST,
    Cells,
    Conditions,
    Items,
    Literals,
    Messages,
    Transactions,
)

Step = Callable[[Int64s, Out], int]
"""A plugin's kernel with everything but its span (int64[2]) and where messages go.

It returns the message that it could not write for lack of room, the span's end if it wrote all, or ``~k`` at message k,
which cannot be written at all.
"""

Refusal = Callable[[int], HeadwaterError]
"""Why a message, by its number in the plan, cannot be written."""

Table = TypeVar("Table", Items, Cells, Transactions, Literals)


def pack(parts: Iterable[bytes]) -> tuple[Int64s, NDArray[np.uint8]]:
    """Join byte strings, one after the other.

    Returns:
        Offsets int64[n+1] and data uint8[].
    """
    parts = list(parts)
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return offsets, np.frombuffer(bytearray(b"".join(parts)), np.uint8)


def pack_literals(literals: Sequence[Sequence[bytes]]) -> Literals:
    """Return ready-made messages as kernels take them; literal i is the messages ``literals[i]``."""
    first = np.zeros(len(literals) + 1, np.int64)
    np.cumsum([len(literal) for literal in literals], out=first[1:])
    offsets, data = pack(message for literal in literals for message in literal)
    return Literals(first, offsets, data)


def settled(table: Table) -> Table:
    """Return the table with arrays that can be written, as kernels are compiled for these only (others are copied)."""
    columns: dict[str, NDArray[Any]] = table._asdict()
    copied = {name: a.copy() for name, a in columns.items() if not (a.flags.writeable and a.flags.c_contiguous)}
    return table._replace(**copied)


def make_ready(literals: Literals, schemas: Sequence[Sequence[bytes]], counts: NDArray[np.uint8]) -> Ready:
    """Join all ready-made messages of a slice in one table.

    Args:
        literals: the slice's, l of them.
        schemas: for each layout the messages that announce it.
        counts: uint8[l] whether BEGIN goes before a literal.
    """
    announced = pack_literals(schemas)
    return Ready(
        literal_first=literals.first,
        counts=counts,
        schema_first=announced.first + literals.first[-1],
        offsets=np.concatenate([literals.offsets, announced.offsets[1:] + literals.offsets[-1]]),
        data=np.concatenate([literals.data[: literals.offsets[-1]], announced.data]),
    )


def with_messages(ready: Ready, texts: Mapping[int, bytes]) -> Ready:
    """Return the same ready-made messages, but for some, by their number."""
    if not texts:
        return ready
    lengths = np.diff(ready.offsets)
    pieces, done = [], 0
    for number, text in sorted(texts.items()):
        pieces += [ready.data[done : ready.offsets[number]], np.frombuffer(text, np.uint8)]
        lengths[number], done = len(text), int(ready.offsets[number + 1])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return ready._replace(offsets=offsets, data=np.concatenate([*pieces, ready.data[done:]]))


def make_plan(items: Items, cells: Cells, transactions: Transactions, ready: Ready, rules: Sequence[bool]) -> Plan:
    """Return the messages of a slice, by the rules of :func:`headwater.plugins._plan.plan_messages`."""
    most = _most_messages(items, transactions, ready)
    lsn, xid, arg = np.empty((3, most), np.int64)
    plan = Plan(np.empty(most, np.uint8), arg, np.empty(most, np.int32), lsn, xid)
    count = plan_messages(items, cells, transactions, ready, np.array(rules, np.int64), plan)
    return Plan(plan.op[:count], arg[:count], plan.txn[:count], lsn[:count], xid[:count])


def _most_messages(items: Items, transactions: Transactions, ready: Ready) -> int:
    """Return a number of messages that no slice exceeds."""
    is_literal = items.kind == LITERAL
    counts = np.diff(ready.literal_first)
    total = 2 * len(transactions.xid) + int(np.count_nonzero(~is_literal))
    for literal in (transactions.origin, transactions.begin, transactions.end):
        total += int(counts[literal[literal > 0] - 1].sum())
    total += int(counts[items.layout[is_literal]].sum())
    announced = ~is_literal & (items.flags & SEND_SCHEMA != 0) & (items.kind < TOAST)
    return total + int(np.diff(ready.schema_first)[items.layout[announced]].sum())


@dataclass(frozen=True)
class Rendering:
    """A slice ready to be written.

    Attributes:
        step: the plugin's kernel.
        plan: the messages.
        size: bytes that will probably do.
        refusal: makes the error of a message at which the kernel stopped; None if it never does.
        conditions: of messages that depend on other slices.
    """

    step: Step
    plan: Plan
    size: int
    refusal: Refusal | None = None
    conditions: Conditions = NO_CONDITIONS

    def messages(self, size: int | None = None) -> Messages:
        """Call the kernel until it wrote all messages, with that many bytes to begin with."""
        plan, count, done = self.plan, len(self.plan.op), 0
        room = max(self.size if size is None else size, 1)
        out = Out(np.zeros(count + 1, np.int64), np.empty(room, np.uint8))
        while (done := self.step(np.array([done, count], np.int64), out)) < count:
            if done < 0:
                assert self.refusal is not None
                raise self.refusal(~done)
            out = out._replace(data=_grown(out.data, int(out.offsets[done])))
        return Messages(plan.lsn, plan.xid, out.offsets, out.data[: out.offsets[count]], self.conditions)


def _grown(data: NDArray[np.uint8], used: int) -> NDArray[np.uint8]:
    """Return the same bytes in twice the room."""
    larger = np.empty(2 * len(data), np.uint8)
    larger[:used] = data[:used]
    return larger
