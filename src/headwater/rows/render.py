"""Items' tuples into text cells: the way into the kernels, with room made for them and their statuses made errors.

The kernels (``_deform``, ``_toast``, ``_compression``, ``_text``) write into arrays of a fixed size and stop when one
is full; :func:`render` enlarges it and goes on at the item that did not fit. Cells lie in item order, an item's old
tuple before its new one, and their texts without gaps, so that an Arrow string array needs no copy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.errors import DecodingError, HeadwaterError, RecordError
from headwater.rows import _deform as codes
from headwater.rows._deform import count_cells, render_items
from headwater.rows._toast import CHUNK_MALFORMED, CHUNK_ORDER, make_pending
from headwater.rows.items import Cells, Items
from headwater.rows.layout import SliceLayouts, column_label

_MALFORMED = {
    codes.BAD_TUPLE: "malformed tuple: its header does not fit its length",
    codes.BAD_VARLENA: "malformed tuple: {place} runs past its end",
    codes.TRAILING_BYTES: "malformed tuple: bytes left after its last attribute",
    codes.CORRUPT_VALUE: "malformed value of {place}",
    codes.BAD_COMPRESSED: "compressed data of {place} is corrupt",
    CHUNK_MALFORMED: "malformed toast chunk row",
}

# No single value's text is longer than 1 GB: arena that far behind the item that asks for more means a kernel's error.
_MAX_AHEAD = 1 << 32


def render(data: NDArray[np.uint8], items: Items, layouts: SliceLayouts, *, arena: int | None = None) -> Cells:
    """Turn the tuples of a slice's items into text cells.

    Args:
        data: uint8[] the slice's bytes, which the items' offsets refer to.
        items: changes in output order, TOAST chunk rows among them.
        layouts: the relation versions that the items refer to.
        arena: bytes of text to make room for at first (for tests; it grows), None for a guess.

    Raises:
        RecordError: a tuple, a chunk row or compressed data is malformed; with the item's LSN.
        DecodingError: TOAST chunks do not fit together, or an enum value is unknown; with the item's LSN.
    """
    data = np.require(data, dtype=np.uint8, requirements=["C", "W"])
    counts = np.zeros(3, dtype=np.int64)
    count_cells(items, layouts, counts)
    size = int(2 * counts[2] + 16 * counts[0]) + 64 if arena is None else arena
    pending = make_pending(int(counts[1]))
    cells = _make_cells(len(items.kind), int(counts[0]), size)
    scratch = np.empty(1 << 16 if arena is None else arena, dtype=np.uint8)
    state = np.zeros(codes.STATE_SIZE, dtype=np.int64)
    state[codes.TXN] = -1
    while status := render_items(data, items, layouts, pending, cells, scratch, state):
        if status == codes.NEED_SPACE and len(cells.text) - state[codes.TEXT_END] < _MAX_AHEAD:
            cells = cells._replace(text=_grown(cells.text, int(state[codes.TEXT_END])))
        elif status == codes.NEED_SCRATCH:
            scratch = np.empty(max(2 * len(scratch), int(state[codes.DETAIL])), dtype=np.uint8)
        else:
            raise _error(status, state, items, layouts)
    return cells._replace(text=cells.text[: state[codes.TEXT_END]])


def _make_cells(items: int, cells: int, text: int) -> Cells:
    return Cells(
        new_first=np.empty(items, dtype=np.int64),
        old_first=np.empty(items, dtype=np.int64),
        kind=np.empty(cells, dtype=np.uint8),
        start=np.empty(cells, dtype=np.int64),
        length=np.empty(cells, dtype=np.int32),
        text=np.empty(text, dtype=np.uint8),
    )


def _grown(text: NDArray[np.uint8], used: int) -> NDArray[np.uint8]:
    """A longer array that begins with the used bytes."""
    grown = np.empty(2 * len(text) + 64, dtype=np.uint8)
    grown[:used] = text[:used]
    return grown


def _error(status: int, state: NDArray[np.int64], items: Items, layouts: SliceLayouts) -> HeadwaterError:
    """What a status means."""
    item, column = int(state[codes.ITEM]), int(state[codes.COLUMN])
    lsn = int(items.lsn[item])
    place = column_label(layouts, column) if column >= 0 else "a tuple"
    found, value, expected = (int(detail) for detail in state[codes.DETAIL : codes.DETAIL + 3])
    if status in _MALFORMED:
        return RecordError(_MALFORMED[status].format(place=place), lsn=lsn)
    if status == CHUNK_ORDER:
        # The server's own words (ReorderBufferToastAppendChunk).
        wanted = f"seq {expected}"
        return DecodingError(f"got sequence entry {found} for toast chunk {value} instead of {wanted}", lsn=lsn)
    if status == codes.CHUNKS_MISSING:
        wanted = f"its pointer in {place} says {expected}"
        return DecodingError(f"toast value {value} has {found} bytes in its chunks, {wanted}", lsn=lsn)
    if status == codes.UNKNOWN_LABEL:
        return DecodingError(f"value of {place} is no label of its enum type as the catalog has it", lsn=lsn)
    if status in (codes.TOO_LONG, codes.NEED_SPACE):
        return DecodingError(f"text of {place} is longer than 1 GB", lsn=lsn)
    kind, layout = int(items.kind[item]), int(items.layout[item])
    return DecodingError(f"item {item} of kind {kind} refers to relation version {layout}", lsn=lsn)
